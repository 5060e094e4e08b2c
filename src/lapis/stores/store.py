"""Stores: SQL engines that hold our tables in a scratch schema.

The scratch schema has a unique name. It is dropped when the store is closed, also after a failure
or Ctrl-C (`with open_store(url) as store`). A result is built there and published in one step at
the end (`publish`), so no incomplete table is ever visible.

Statements are texts. A `StoredTable` formats itself as its quoted reference:
f"SELECT n FROM {table}". Statements contain the codes of constants, never their names.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

import numpy as np

from lapis.errors import LapisError
from lapis.results.columns import as_objects
from lapis.stores.dialect import Dialect

if TYPE_CHECKING:
    import pyarrow


Columns = Mapping[str, np.ndarray]  # of one length: integers, float64, or object (text or integers)
MapColumns = Callable[[Iterable[Columns]], Iterator[Columns]]

LOCAL_MASTER = re.compile(r"local(-cluster)?(\[[^\]]*\])?")  # Spark on this machine


@dataclass(frozen=True)
class StoredTable:
    """A table of the scratch schema. Its text is its reference in a statement."""

    name: str
    columns: tuple[str, ...]
    rows: int
    reference: str  # quoted and qualified

    def __str__(self) -> str:
        return self.reference


class Store(Protocol):
    """One SQL engine with a scratch schema."""

    @property
    def dialect(self) -> Dialect: ...

    def load(self, name: str, columns: Columns) -> StoredTable:
        """Create a table of arrays. NaN becomes NULL; object arrays hold text."""

    def create(self, name: str, select: str) -> StoredTable:
        """Create a table of a query's result."""

    def fetch(self, select: str) -> Iterator[Columns]:
        """Yield a query's result in batches: at least one, which may be empty.

        Integers up to 64 bits keep their type; wider ones are Python integers. NULL becomes NaN
        in columns of real numbers and None in columns of text.
        """

    def execute(self, statement: str) -> None:
        """Run a statement without a result."""

    def drop(self, name: str) -> None:
        """Drop a table of the scratch schema."""

    def publish(self, name: str, target: str) -> None:
        """Move a table out of the scratch schema to "table" or "schema.table", in one step.

        A table of that name is replaced. Spark has no transactions and needs two renames; a
        reader between them finds no table.
        """

    def check_target(self, target: str) -> None:
        """Raise LapisError if `publish` could not write to the target."""

    def target_reference(self, target: str) -> str:
        """Return the reference of a target in a statement, whether or not the table exists."""

    def find_tables(self, schema: str) -> Mapping[str, str]:
        """Map the names of the user's tables in a schema to their references."""

    def parquet(self, path: Path) -> str:
        """Return the reference of a Parquet file, or of a (partitioned) folder of them."""

    def close(self) -> None:
        """Drop the scratch schema and disconnect."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@runtime_checkable
class TaskStore(Store, Protocol):
    """An engine that runs our Python code in its own tasks."""

    def map_rows(
        self,
        name: str,
        rows: StoredTable,
        by: str,
        parts: int,
        function: MapColumns,
        sample: Columns,
    ) -> StoredTable:
        """Create a table by applying a function to `parts` partitions of a table.

        Rows with equal values in the column `by` are adjacent, in the same partition. The function
        takes the batches of a partition and yields columns like `sample`. It is pickled and sent
        to the tasks. A failed task is run again.
        """

    def check_folder(self, target: str) -> None:
        """Raise LapisError if the folder cannot be created."""

    def write_folder(self, rows: StoredTable, target: str) -> None:
        """Write a table atomically as a folder of Parquet files, by tasks."""


def open_store(url: str, max_memory: int | None = None) -> Store:
    """Open the engine that a URL names.

    `duckdb` (in memory and temporary files), `duckdb:FILE`, `postgresql://…`, `spark` (as it is
    configured), `spark://…` and `local[2]` (masters), `sc://…` (Spark Connect). `max_memory`, in
    bytes, limits an engine that runs in this process.
    """
    scheme, _, rest = url.partition(":")
    if scheme == "duckdb":
        from lapis.stores.duckdb import DuckDBStore

        return DuckDBStore(rest or None, max_memory)
    if scheme in ("postgresql", "postgres"):
        from lapis.stores.postgres import PostgresStore

        return PostgresStore(url)
    if scheme in ("spark", "sc") or LOCAL_MASTER.fullmatch(url):
        from lapis.stores.spark import SparkStore

        return SparkStore(None if url == "spark" else url)
    raise LapisError(
        f"unknown engine '{url}'",
        code="engine-unknown",
        hint="write duckdb, duckdb:FILE, postgresql://user@host/database, spark, spark://host:port "
        "or sc://host:port",
    )


_numbers = itertools.count()


def new_table_name(kind: str) -> str:
    """Return a name for a table that no other call returns."""
    return f"{kind}{next(_numbers)}"


class ScratchTables:
    """Tables for one computation on a store. They are dropped at its end."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._names: list[str] = []

    def create(self, select: str) -> StoredTable:
        """Create a table of a query's result."""
        return self.store.create(self.new_name(), select)

    def load(self, columns: Columns) -> StoredTable:
        """Create a table of arrays."""
        return self.store.load(self.new_name(), columns)

    def drop(self, *tables: StoredTable) -> None:
        """Drop tables before the end."""
        for table in tables:
            self._names.remove(table.name)
            self.store.drop(table.name)

    def new_name(self) -> str:
        """Return the name of a new table, which will be dropped with the others."""
        self._names.append(new_table_name("scratch"))
        return self._names[-1]

    def close(self) -> None:
        """Drop all tables."""
        while self._names:
            self.store.drop(self._names.pop())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def split_target(target: str) -> tuple[str | None, str]:
    """Split "table" or "schema.table" into the schema, if any, and the table."""
    schema, _, table = target.rpartition(".")
    return schema or None, table


def refuse_target(target: str, missing_schema: str | None, is_view: bool) -> None:
    """Raise LapisError if the target's schema is missing or the target is a view."""
    if missing_schema:
        raise LapisError(
            f"the table {target} cannot be written: there is no schema '{missing_schema}'",
            code="engine-target",
            hint="create the schema first",
        )
    if is_view:
        raise LapisError(
            f"the table {target} cannot be written: it is a view",
            code="engine-target",
            hint="name another table, or drop the view",
        )


def fetch_all(store: Store, select: str) -> dict[str, np.ndarray]:
    """Fetch a query's result as whole columns."""
    batches = list(store.fetch(select))
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def fetch_number(store: Store, select: str) -> int:
    """Fetch the one integer of a query's result."""
    (column,) = fetch_all(store, select).values()
    return int(column[0])


def read_batches(reader: pyarrow.RecordBatchReader) -> Iterator[Columns]:
    """Yield the columns of each Arrow batch; without batches, one set of empty columns."""
    batch = None
    for batch in reader:
        yield from_arrow(reader.schema.names, batch.columns)
    if batch is None:
        empty = reader.schema.empty_table()
        yield from_arrow(reader.schema.names, [each.combine_chunks() for each in empty.columns])


def from_arrow(names: Iterable[str], arrays: Iterable[pyarrow.Array]) -> Columns:
    """Convert Arrow arrays; integers of more than 64 bits become Python integers."""
    return {name: _to_numpy(array) for name, array in zip(names, arrays, strict=True)}


def _to_numpy(array: pyarrow.Array) -> np.ndarray:
    import pyarrow

    if isinstance(array.type, pyarrow.OpaqueType):  # PostgreSQL's NUMERIC, as digits
        return as_objects([int(digits) for digits in array.storage.to_pylist()])
    if pyarrow.types.is_decimal(array.type):
        return as_objects([int(decimal) for decimal in array.to_pylist()])
    return array.to_numpy(zero_copy_only=False)


def to_arrow(columns: Columns) -> pyarrow.Table:
    """Convert columns to an Arrow table; NaN becomes NULL, Python integers become decimals."""
    import pyarrow

    return pyarrow.table(
        {name: pyarrow.array(column, from_pandas=True) for name, column in columns.items()}
    )
