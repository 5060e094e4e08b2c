"""Arrow batches as columns of numpy, integers exact."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from lapis.relational.engines.store import Columns

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
    values: np.ndarray = array.to_numpy(zero_copy_only=False)
    return values


def _whole_numbers(array: pyarrow.Array) -> np.ndarray:
    """object[n], from decimals without a fraction: 128 bits in two's complement."""
    import pyarrow

    halves = np.frombuffer(
        array.cast(pyarrow.decimal128(38, 0)).buffers()[1], np.uint64, 2 * len(array), 0
    ).reshape(-1, 2)
    high = halves[:, 1].astype(np.int64).astype(object)
    return high * 2**64 + halves[:, 0].astype(object)
