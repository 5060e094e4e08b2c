"""Many sparse vectors as one CSR array.

Values are integers. Differences of formulas that are multiplied by numbers are floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lapis.data.keys import number_rows
from lapis.relational.exact_sums import narrow_integers

_SHORT = 3  # entries up to which vectors are compared by sorting
_SAFE = 2.0**62  # sums estimated below this cannot overflow int64


class SparseVectors(NamedTuple):
    """Vector i has `value[j]` at `column[j]` for start[i] ≤ j < start[i+1]; no zeros are stored."""

    start: np.ndarray  # int64[num_vectors + 1]
    column: np.ndarray  # int64[num_entries], increasing within a vector
    value: np.ndarray  # int64[num_entries]; object (Python ints) if 64 bits do not suffice

    def take(self, vectors: np.ndarray) -> SparseVectors:
        """Return the vectors with these numbers, in this order."""
        start, entries = gather_ranges(self.start[vectors], self.start[vectors + 1])
        return SparseVectors(start, self.column[entries], self.value[entries])

    @property
    def row(self) -> np.ndarray:
        """int64[num_entries], the vector of each entry."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))


def gather_ranges(begin: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return row starts and the concatenated ranges begin[i] … end[i] − 1."""
    start = row_starts(end - begin)
    return start, np.arange(start[-1]) + np.repeat(begin - start[:-1], end - begin)


def row_starts(lengths: np.ndarray) -> np.ndarray:
    """Return int64[num_rows + 1], the starts of rows of these lengths."""
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def add_entries(
    num_vectors: int, row: np.ndarray, column: np.ndarray, value: np.ndarray
) -> SparseVectors:
    """Build vectors, summing the values with the same row and column."""
    order = np.lexsort((column, row))
    row, column, value = row[order], column[order], value[order]
    if len(row):
        fresh = np.ones(len(row), bool)
        fresh[1:] = (row[1:] != row[:-1]) | (column[1:] != column[:-1])
        begin = np.flatnonzero(fresh)
        value = narrow_integers(np.add.reduceat(widen_integers(value), begin))
        kept = value != 0
        row, column, value = row[begin][kept], column[begin][kept], value[kept]
    return SparseVectors(row_starts(np.bincount(row, minlength=num_vectors)), column, value)


def place_vectors(
    num_vectors: int, parts: Sequence[tuple[np.ndarray, SparseVectors]]
) -> SparseVectors:
    """Build `num_vectors` vectors: each is the sum of the parts' vectors at its place."""
    none = [np.empty(0, np.int64)]
    return add_entries(
        num_vectors,
        np.concatenate(none + [places[vectors.row] for places, vectors in parts]),
        np.concatenate(none + [vectors.column for _, vectors in parts]),
        np.concatenate(none + [vectors.value for _, vectors in parts]),
    )


def widen_integers(value: np.ndarray) -> np.ndarray:
    """Convert integers to Python's if the sum might not fit into 64 bits."""
    if value.dtype == np.int64 and np.abs(value.astype(np.float64)).sum() >= _SAFE:
        return value.astype(object)
    return value


def stack_vectors(parts: Sequence[SparseVectors]) -> SparseVectors:
    """Concatenate the vectors of the parts."""
    return SparseVectors(
        row_starts(np.concatenate([np.diff(part.start) for part in parts])),
        np.concatenate([part.column for part in parts]),
        np.concatenate([part.value for part in parts]),
    )


def number_vectors(vectors: SparseVectors, *keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Give equal vectors with equal int64 keys the same number.

    Return the first vector with each number, and int64[num_vectors], the number of each vector.
    """
    num_vectors = len(vectors.start) - 1
    lengths = np.diff(vectors.start)
    column, value = vectors.column, vectors.value
    if value.dtype == np.float64:  # their bits: equal numbers stay equal
        value = np.ascontiguousarray(value).view(np.int64)
    if value.dtype == object:  # ranks replace numbers beyond 64 bits
        value = np.unique(value, return_inverse=True)[1]
    number = np.zeros(num_vectors, np.int64)
    firsts: list[np.ndarray] = []
    count = 0
    for length in np.unique(lengths).tolist():
        members = np.flatnonzero(lengths == length)
        entries = vectors.start[members][:, None] + np.arange(length)
        shared = [key[members] for key in keys]
        if length <= _SHORT:
            columns = [table[entries[:, at]] for at in range(length) for table in (column, value)]
            first, inverse = number_rows([*shared, *columns], len(members))
        else:
            parts = [np.stack(shared, axis=1)] if shared else []
            table = np.concatenate([*parts, column[entries], value[entries]], axis=1)
            first, inverse = _number_wide_rows(table)
        firsts.append(members[first])
        number[members] = inverse + count
        count += len(first)
    first = np.concatenate(firsts) if firsts else np.empty(0, np.int64)
    return first, number


def _number_wide_rows(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Give equal rows the same number by hashing their bytes, which is faster for many columns.

    Numbers follow the order of the bytes, not of the rows, so that sums over classes are taken in
    the same order on every engine.
    """
    table = np.ascontiguousarray(table, np.int64)
    width = table.shape[1] * table.itemsize
    keys = table.view(f"V{width}").ravel().tolist()
    first: dict[bytes, int] = {}
    for row, key in enumerate(keys):
        first.setdefault(key, row)
    ordered = sorted(first)
    number = {key: place for place, key in enumerate(ordered)}
    inverse = np.fromiter(map(number.__getitem__, keys), np.int64, len(keys))
    return np.array([first[key] for key in ordered], np.int64), inverse


def split_column(vectors: SparseVectors, column: int) -> tuple[SparseVectors, np.ndarray]:
    """Return the vectors without the entries from `column` on, and the entries at `column`."""
    inside = vectors.column < column
    last = np.zeros(len(vectors.start) - 1, vectors.value.dtype)
    if inside.all():
        return vectors._replace(value=narrow_integers(vectors.value)), last
    row = vectors.row
    last[row[~inside]] = vectors.value[~inside]
    start = row_starts(np.bincount(row[inside], minlength=len(last)))
    return SparseVectors(
        start, vectors.column[inside], narrow_integers(vectors.value[inside])
    ), last
