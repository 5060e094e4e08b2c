"""Pack rows of integers into int64 keys (mixed radix), and set algebra on sorted rows.

    key(c₁ … c_k) = (…(c₁·d₂ + c₂)·d₃ + …)·d_k + c_k

Sorting keys sorts rows lexicographically, 10 to 20 times faster than np.lexsort or
np.unique(axis=0). Rows without columns have key 0. If the product of the radices exceeds 2⁶², the
columns so far are replaced by their ranks among the rows, which keeps the order and needs only
log₂(rows) bits.

Sets of tuples are arrays int32[n, arity] whose rows are sorted and unique. Union, difference and
membership are sorts or binary searches on keys.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

LARGEST_KEY = 2**62


def fits(sizes: Sequence[int]) -> bool:
    """Return whether the keys of all tuples over these domains are below 2⁶²."""
    return math.prod(sizes) <= LARGEST_KEY


def pack(columns: Sequence[np.ndarray | None], sizes: Sequence[int], num_rows: int) -> np.ndarray:
    """Return int64[num_rows] keys, equal for equal rows and in their lexicographic order.

    A missing column (None) adds 0: if the sizes fit, the keys of two complementary sets of columns
    add up to the whole key.
    """
    key: np.ndarray | None = None  # until a column is read
    span = 1
    for column, size in zip(columns, sizes, strict=True):
        if key is None:
            key = None if column is None else column.astype(np.int64)
        else:
            if span * size > LARGEST_KEY:
                values, key = np.unique(key, return_inverse=True)
                span = len(values)
            key *= size
            if column is not None:
                key += column
        span *= size
    return np.zeros(num_rows, np.int64) if key is None else key


def unpack(key: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Return int32[num_keys, len(sizes)]: the inverse of `pack` if no ranks were needed."""
    rows = np.empty((len(key), len(sizes)), np.int32)
    for position in range(len(sizes) - 1, 0, -1):
        key, rows[:, position] = np.divmod(key, sizes[position])
    if len(sizes):
        rows[:, 0] = key
    return rows


def distinct_keys(keys: np.ndarray, space: int) -> np.ndarray:
    """Return the distinct keys in increasing order; they lie in 0 … space − 1."""
    if space > 4 * len(keys) + 1024:
        return np.unique(keys)
    present = np.zeros(space, bool)
    present[keys] = True
    return np.flatnonzero(present)


class SharedKeys(NamedTuple):
    """Keys of several lists of rows, comparable across the lists."""

    parts: list[np.ndarray]  # int64[num_rows] each, in 0 … space − 1
    space: int
    sizes: tuple[int, ...]  # of the columns: one more than their largest value
    ranked: bool  # some columns were replaced by ranks: the keys cannot be unpacked


def share_keys(*parts: Iterable[np.ndarray]) -> SharedKeys:
    """Return keys of rows given by their columns, ordered as the rows of all parts.

    The columns have no negative numbers.
    """
    keys: list[np.ndarray] = [np.zeros(0, np.int64) for _ in parts]
    space, ranked = 1, False
    sizes: list[int] = []
    for position, columns in enumerate(zip(*parts, strict=True)):
        size = 1 + max([int(column.max(initial=0)) for column in columns])
        if size > 2**32:
            columns = tuple(_ranks(columns)[0])
            size, ranked = 1 + max([int(column.max(initial=0)) for column in columns]), True
        if space * size > LARGEST_KEY:
            keys, space = _ranks(keys)
            ranked = True
        if position == 0:
            keys = [column.astype(np.int64) for column in columns]
        else:
            for key, column in zip(keys, columns, strict=True):
                key *= size
                key += column
        space *= size
        sizes.append(size)
    return SharedKeys(keys, space, tuple(sizes), ranked)


def number_rows(columns: Sequence[np.ndarray], num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Number the distinct rows in order; return the first row of each number, and the numbers.

    The columns may have any 64-bit integers.
    """
    if num_rows == 0 or not columns:
        return np.zeros(min(1, num_rows), np.int64), np.zeros(num_rows, np.int64)
    shared = share_keys(map(_from_zero, columns))
    (key,) = shared.parts
    if shared.space > 4 * num_rows + 1024:
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        return first, inverse
    # A table instead of a sort; assigned backwards, so that the first row stays.
    first = np.full(shared.space, num_rows, np.int64)
    first[key[::-1]] = np.arange(num_rows - 1, -1, -1)
    present = first < num_rows
    rank = np.cumsum(present) - 1
    return first[present], rank[key]


def _from_zero(column: np.ndarray) -> np.ndarray:
    """Return non-negative numbers in the order of those of the column."""
    low, high = int(column.min()), int(column.max())
    if high - low >= 2**32:  # the difference may overflow, and ranks are smaller
        return np.unique(column, return_inverse=True)[1]
    return column - low if low else column


def _ranks(parts: Sequence[np.ndarray]) -> tuple[list[np.ndarray], int]:
    values, inverse = np.unique(np.concatenate(parts), return_inverse=True)
    cuts = np.cumsum([len(part) for part in parts])[:-1]
    return [part.astype(np.int64) for part in np.split(inverse, cuts)], max(1, len(values))


def sorted_unique(rows: np.ndarray) -> np.ndarray:
    """Return the distinct rows of int32[n, arity] in lexicographic order."""
    rows = np.ascontiguousarray(rows, np.int32)
    if rows.shape[1] == 0:
        return rows[:1]
    shared = share_keys(rows.T)
    (keys,) = shared.parts
    if len(keys) < 2 or bool((keys[1:] > keys[:-1]).all()):
        return rows
    if shared.ranked:
        _, first = np.unique(keys, return_index=True)
        return np.ascontiguousarray(rows[first])
    keys.sort()
    fresh = np.empty(len(keys), np.bool_)
    fresh[0] = True
    np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
    return unpack(keys[fresh], shared.sizes)


def contains(rows: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Return bool[len(queries)]: which queries are among the sorted unique rows."""
    if not len(rows) or rows.shape[1] == 0:
        return np.full(len(queries), bool(len(rows)))
    keys, wanted = share_keys(rows.T, queries.T).parts
    place = np.searchsorted(keys, wanted)
    place[place == len(keys)] = 0
    return keys[place] == wanted


def difference(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the rows of left that are not in right, both sorted and unique."""
    return np.ascontiguousarray(left[~contains(right, left)])


def intersection(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the rows of left that are in right, both sorted and unique."""
    return np.ascontiguousarray(left[contains(right, left)])


def exclusive(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the rows of exactly one side, both sorted and unique."""
    return union(difference(left, right), difference(right, left))


def union(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the rows of either side, sorted and unique; the arguments may be in any order."""
    return sorted_unique(np.concatenate([left, right]))
