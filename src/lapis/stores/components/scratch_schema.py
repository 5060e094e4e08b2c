"""A store with a unique table prefix for each query; the tables are dropped afterwards.

One store may answer many queries. Tables of one query must not collide with those of another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from lapis.stores.dialect import Dialect
from lapis.stores.load_to_store import fresh_name
from lapis.stores.store import Columns, MapColumns, Store, Table, TaskStore


class ScratchSchema(Store):
    def __init__(self, store: Store) -> None:
        self.store = store
        self._label = fresh_name("q")
        self._made: dict[str, None] = {}

    @property
    def dialect(self) -> Dialect:
        return self.store.dialect

    def load(self, name: str, columns: Columns) -> Table:
        return self.store.load(self._own(name), columns)

    def create(self, name: str, select: str) -> Table:
        return self.store.create(self._own(name), select)

    def fetch(self, select: str) -> Iterator[Columns]:
        return self.store.fetch(select)

    def execute(self, statement: str) -> None:
        self.store.execute(statement)

    def drop(self, name: str) -> None:
        own = self._own(name)
        self.store.drop(own)
        del self._made[own]

    def publish(self, name: str, target: str) -> None:
        self.store.publish(self._own(name), target)

    def check_target(self, target: str) -> None:
        self.store.check_target(target)

    def target_reference(self, target: str) -> str:
        return self.store.target_reference(target)

    def find_tables(self, schema: str) -> Mapping[str, str]:
        return self.store.find_tables(schema)

    def parquet(self, path: Path) -> str:
        return self.store.parquet(path)

    def close(self) -> None:
        """Drop the tables of this query; the store stays open."""
        while self._made:
            self.store.drop(self._made.popitem()[0])

    def _own(self, name: str) -> str:
        """The name on the store, for a name here or for that of a table."""
        own = name if name in self._made else f"{self._label} {name}"
        self._made[own] = None
        return own


class TaskScratchSchema(ScratchSchema, TaskStore):
    """The same for an engine with tasks."""

    store: TaskStore

    def map_rows(
        self, name: str, rows: Table, by: str, parts: int, function: MapColumns, sample: Columns
    ) -> Table:
        return self.store.map_rows(self._own(name), rows, by, parts, function, sample)

    def check_folder(self, target: str) -> None:
        self.store.check_folder(target)

    def write_folder(self, rows: Table, target: str) -> None:
        self.store.write_folder(rows, target)


def scratch_schema_of(store: Store) -> ScratchSchema:
    return TaskScratchSchema(store) if isinstance(store, TaskStore) else ScratchSchema(store)
