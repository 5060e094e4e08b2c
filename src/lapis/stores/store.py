"""A store: one SQL engine, with a scratch schema for our tables.

Whatever we load or compute there is in a schema with a unique name. It is dropped when the store is
closed, on failure and on Ctrl-C too (`with open_store(url) as store`). A result is built there as
well and published in one step at the end (`publish`), so that no incomplete table is visible.

Statements are texts over `StoredTable`s, which write themselves quoted: f"SELECT n FROM {table}".
No text of the data is ever part of one: constants are codes.

Arrow batches as columns of numpy, integers exact.
"""

from __future__ import annotations

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


@dataclass(frozen=True)
class StoredTable:
    """A table that is finished; in a statement it is written as its text."""

    name: str  # among ours
    columns: tuple[str, ...]
    rows: int
    reference: str  # quoted and qualified

    def __str__(self) -> str:
        return self.reference


class Store(Protocol):
    @property
    def dialect(self) -> Dialect: ...

    def load(self, name: str, columns: Columns) -> StoredTable:
        """A table of arrays. NaN becomes NULL; object arrays hold text."""

    def create(self, name: str, select: str) -> StoredTable:
        """A table of what a query gives."""

    def fetch(self, select: str) -> Iterator[Columns]:
        """What a query gives, in batches; at least one, perhaps empty.

        Integers come exact: as they are up to 64 bits, as Python integers beyond. NULL is NaN among
        real numbers and None among texts.
        """

    def execute(self, statement: str) -> None:
        """Run a statement that gives nothing back."""

    def drop(self, name: str) -> None:
        """Forget one of our tables."""

    def publish(self, name: str, target: str) -> None:
        """Give one of our tables to the user under a name, "table" or "schema.table", in one step.

        A table of that name is replaced (on Spark, which has no transactions, by two renames: a
        reader between them finds neither).
        """

    def check_target(self, target: str) -> None:
        """Refuse a name that `publish` could not give, before there is anything to publish."""

    def target_reference(self, target: str) -> str:
        """The table that a target names, as statements write it, whether or not there is one."""

    def find_tables(self, schema: str) -> Mapping[str, str]:
        """The user's tables in a schema, by name, as statements write them."""

    def parquet(self, path: Path) -> str:
        """A Parquet file or a folder of them, partitioned or not, as a statement reads it."""

    def close(self) -> None:
        """Drop all that is ours and let go of the engine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@runtime_checkable
class TaskStore(Store, Protocol):
    """An engine that runs our code in tasks of its own."""

    def map_rows(
        self,
        name: str,
        rows: StoredTable,
        by: str,
        parts: int,
        function: MapColumns,
        sample: Columns,
    ) -> StoredTable:
        """A table of what a function makes of the rows, in so many parts.

        Rows that are equal in the column `by` are in one part, and next to each other. The function
        is sent where tasks run, takes the batches of a part and gives columns like the sample. A
        task that dies is run again.
        """

    def check_folder(self, target: str) -> None:
        """Refuse a place where no folder can be made."""

    def write_folder(self, rows: StoredTable, target: str) -> None:
        """A table as a folder of Parquet files, written by tasks; whole or not at all."""


def split_target(target: str) -> tuple[str | None, str]:
    """The schema, if any, and the table that "table" or "schema.table" names."""
    schema, _, table = target.rpartition(".")
    return schema or None, table


def refuse_target(target: str, schema: str | None, is_view: bool) -> None:
    """Refuse a table in a schema that is not there, or in the place of a view."""
    wrong = f"there is no schema '{schema}'" if schema else "it is a view" if is_view else ""
    if wrong:
        raise LapisError(
            f"the table {target} cannot be written: {wrong}",
            code="engine-target",
            hint="create the schema first" if schema else "name another table, or drop the view",
        )


def fetch_all(store: Store, select: str) -> dict[str, np.ndarray]:
    """What a query gives, as whole columns."""
    batches = list(store.fetch(select))
    return {
        name: np.concatenate([batch[name] for batch in batches]) if len(batches) > 1 else column
        for name, column in batches[0].items()
    }


def fetch_number(store: Store, select: str) -> int:
    """The one integer that a query gives."""
    (column,) = fetch_all(store, select).values()
    return int(column[0])


def read_batches(reader: pyarrow.RecordBatchReader) -> Iterator[Columns]:
    """The columns of each batch; one without rows where there is no batch."""
    empty = True
    for batch in reader:
        empty = False
        yield _columns(reader.schema.names, batch.columns)
    if empty:
        none = reader.schema.empty_table()
        yield _columns(none.schema.names, (column.combine_chunks() for column in none.columns))


def _columns(names: list[str], arrays: Iterable[pyarrow.Array]) -> Columns:
    return {name: to_numpy(array) for name, array in zip(names, arrays, strict=True)}


def to_numpy(array: pyarrow.Array) -> np.ndarray:
    """Integers as they are, or as Python integers if they are wider than 64 bits."""
    import pyarrow

    kind = array.type
    if pyarrow.types.is_decimal(kind):
        return _whole_numbers(array)
    if isinstance(kind, pyarrow.OpaqueType):  # PostgreSQL's NUMERIC, as digits
        return as_objects([int(digits) for digits in array.storage.to_pylist()])
    return array.to_numpy(zero_copy_only=False)


def to_arrow(columns: Columns) -> pyarrow.Table:
    """Columns as Arrow has them: NaN is NULL, Python integers are decimals, or else texts."""
    import pyarrow

    return pyarrow.table(
        {name: pyarrow.array(column, from_pandas=True) for name, column in columns.items()}
    )


def _whole_numbers(array: pyarrow.Array) -> np.ndarray:
    """object[n], from decimals without a fraction: 128 bits in two's complement."""
    import pyarrow

    whole = array.cast(pyarrow.decimal128(38, 0))
    halves = np.frombuffer(whole.buffers()[1], np.uint64)[2 * whole.offset :][: 2 * len(whole)]
    high = halves[1::2].astype(np.int64).astype(object)
    return high * 2**64 + halves[::2].astype(object)
