"""Arrow batches as columns of numpy, integers exact."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from lapis.results.columns import as_objects
from lapis.stores.store import Columns

if TYPE_CHECKING:
    import pyarrow


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
