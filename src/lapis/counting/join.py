"""The kernel under all counting: multiply two sparse factors and sum out variables on the way.

Both factors come with three numbers for each row: the packed key of the variables they share,
the part of the packed output key that the row contributes (mixed radix, so the two parts of a
pair just add up), and the value. The right factor is sorted by the shared key, so each left row
meets one run of right rows, and the product is added straight into the output:

    out[left_part[i] + right_part[j]] += left_value[i] · right_value[j]

This is a sparse matrix product with any number of row, column and inner indices; the join itself
is never stored. The output is a dense table when its key space is small, else a hash table.
Sorting the expanded pairs instead took 8 times as long on Cora's SameBib triangles.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_EMPTY = np.int64(-1)


@njit(cache=True)
def accumulate_dense(
    start: np.ndarray,  # int64[num_left], the run of right rows that match
    stop: np.ndarray,  # int64[num_left]
    left_part: np.ndarray,  # int64[num_left]
    left_value: np.ndarray,  # int64[num_left]
    right_part: np.ndarray,  # int64[num_right]
    right_value: np.ndarray,  # int64[num_right]
    out: np.ndarray,  # int64[key_space], added to
) -> None:
    for i in range(len(start)):
        part = left_part[i]
        value = left_value[i]
        for j in range(start[i], stop[i]):
            out[part + right_part[j]] += value * right_value[j]


@njit(cache=True)
def accumulate_hashed(
    start: np.ndarray,
    stop: np.ndarray,
    left_part: np.ndarray,
    left_value: np.ndarray,
    right_part: np.ndarray,
    right_value: np.ndarray,
    capacity: int,  # a power of two, the first size of the table
) -> tuple[np.ndarray, np.ndarray]:
    """As `accumulate_dense`, into open addressing with linear probing; (keys, values), unsorted."""
    keys = np.full(capacity, _EMPTY, np.int64)
    sums = np.zeros(capacity, np.int64)
    shift = 64
    size = capacity
    while size > 1:
        size >>= 1
        shift -= 1
    used = 0
    for i in range(len(start)):
        part = left_part[i]
        value = left_value[i]
        for j in range(start[i], stop[i]):
            key = part + right_part[j]
            slot = _slot(key, shift)
            while keys[slot] != key:
                if keys[slot] == _EMPTY:
                    keys[slot] = key
                    used += 1
                    break
                slot = (slot + 1) & (len(keys) - 1)
            sums[slot] += value * right_value[j]
            if 2 * used > len(keys):
                keys, sums = _grow(keys, sums, shift - 1)
                shift -= 1
    found = keys != _EMPTY
    return keys[found], sums[found]


@njit(cache=True)
def _slot(key: int, shift: int) -> np.int64:
    # Fibonacci hashing: the high bits of key · 2^64/φ.
    return np.int64((np.uint64(key) * np.uint64(11400714819323198485)) >> np.uint64(shift))


@njit(cache=True)
def _grow(keys: np.ndarray, sums: np.ndarray, shift: int) -> tuple[np.ndarray, np.ndarray]:
    wider = np.full(2 * len(keys), _EMPTY, np.int64)
    values = np.zeros(2 * len(keys), np.int64)
    for old in range(len(keys)):
        if keys[old] == _EMPTY:
            continue
        slot = _slot(keys[old], shift)
        while wider[slot] != _EMPTY:
            slot = (slot + 1) & (len(wider) - 1)
        wider[slot] = keys[old]
        values[slot] = sums[old]
    return wider, values


@njit(cache=True)
def expand_pairs(
    start: np.ndarray,
    stop: np.ndarray,
    left_index: np.ndarray,  # int64[num_pairs], written
    right_index: np.ndarray,  # int64[num_pairs], written
) -> None:
    """List the matching (left row, right row) pairs."""
    at = 0
    for i in range(len(start)):
        for j in range(start[i], stop[i]):
            left_index[at] = i
            right_index[at] = j
            at += 1
