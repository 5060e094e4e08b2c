"""The kernels of `join` in numpy, for joins so small that loading compiled code costs more.

Loading numba and its cached kernels takes half a second, once a process; a join of a hundred
thousand pairs takes a few milliseconds here. `choose_kernels` gives the compiled ones from a
certain size on, and whenever they are loaded already.
"""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np

_SMALL = 200_000  # pairs, or keys to sort


def choose_kernels(size: int) -> ModuleType:
    """This module or `join`, which offer the same functions."""
    if size <= _SMALL and "lapis.relational.join" not in sys.modules:
        return sys.modules[__name__]
    from lapis.relational import join

    return join


def list_pairs(start: np.ndarray, stop: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """int64[num_pairs] twice: the matching (left row, right row) pairs."""
    length = stop - start
    first = np.cumsum(length) - length
    right = np.arange(int(length.sum())) + np.repeat(start - first, length)
    return np.repeat(np.arange(len(start)), length), right


def expand_pairs(
    start: np.ndarray, stop: np.ndarray, left_index: np.ndarray, right_index: np.ndarray
) -> None:
    left_index[:], right_index[:] = list_pairs(start, stop)


def accumulate_dense(
    start: np.ndarray,
    stop: np.ndarray,
    left_part: np.ndarray,
    left_value: np.ndarray,
    right_part: np.ndarray,
    right_value: np.ndarray,
    out: np.ndarray,
) -> None:
    left, right = list_pairs(start, stop)
    np.add.at(out, left_part[left] + right_part[right], left_value[left] * right_value[right])


def accumulate_hashed(
    start: np.ndarray,
    stop: np.ndarray,
    left_part: np.ndarray,
    left_value: np.ndarray,
    right_part: np.ndarray,
    right_value: np.ndarray,
    capacity: int,
) -> tuple[np.ndarray, np.ndarray]:
    """(keys, values); nothing is hashed here, so the capacity is of no use."""
    left, right = list_pairs(start, stop)
    keys, number = np.unique(left_part[left] + right_part[right], return_inverse=True)
    sums = np.zeros(len(keys), np.int64)
    np.add.at(sums, number, left_value[left] * right_value[right])
    return keys, sums


def accumulate_onto(
    start: np.ndarray,
    stop: np.ndarray,
    left_part: np.ndarray,
    left_value: np.ndarray,
    right_part: np.ndarray,
    right_value: np.ndarray,
    keys: np.ndarray,
) -> np.ndarray:
    left, right = list_pairs(start, stop)
    order = np.argsort(keys)
    ranked = keys[order]
    pair = left_part[left] + right_part[right]
    place = np.searchsorted(ranked, pair)
    found = place < len(ranked)
    found[found] = ranked[place[found]] == pair[found]
    sums = np.zeros(len(keys), np.int64)
    chosen = order[place[found]]
    np.add.at(sums, chosen, left_value[left[found]] * right_value[right[found]])
    return sums


def sort_by_counting(key: np.ndarray, space: int) -> tuple[np.ndarray, np.ndarray]:
    offset = np.zeros(space + 1, np.int64)
    np.cumsum(np.bincount(key, minlength=space), out=offset[1:])
    return np.argsort(key, kind="stable"), offset
