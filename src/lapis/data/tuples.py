"""Set algebra on tuples of constants: arrays int32[n, arity] whose rows are sorted and unique.

Each row becomes one int64 key that sorts as the row does (`keys`), so that everything below is a
sort or a binary search on plain integers.
"""

from __future__ import annotations

import numpy as np

from lapis.data.keys import share_keys, unpack


def sorted_unique(rows: np.ndarray) -> np.ndarray:
    """The set of the rows of int32[n, arity], in lexicographic order: int32[m, arity], m ≤ n."""
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
    """bool[len(queries)]: which queries, in any order, are among the sorted unique rows."""
    if not len(rows) or rows.shape[1] == 0:
        return np.full(len(queries), bool(len(rows)))
    keys, wanted = share_keys(rows.T, queries.T).parts
    place = np.searchsorted(keys, wanted)
    place[place == len(keys)] = 0
    return keys[place] == wanted


def difference(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The rows of left that are not in right, both sorted and unique."""
    return np.ascontiguousarray(left[~contains(right, left)])


def intersection(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The rows of left that are in right, both sorted and unique."""
    return np.ascontiguousarray(left[contains(right, left)])


def exclusive(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The rows of one and not of the other, both sorted and unique."""
    return union(difference(left, right), difference(right, left))


def union(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The rows of either, sorted and unique; the arguments may be in any order."""
    return sorted_unique(np.concatenate([left, right]))
