"""The kernels of `join` in numpy, for joins so small that loading compiled code costs more.

Loading numba and its cached kernels takes half a second, once a process; a join of a hundred
thousand pairs takes a few milliseconds here. `choose_kernels` gives the compiled ones from a
certain size on, and whenever they are loaded already.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from lapis.relational.exact_sums import Runs, Side

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


def accumulate_dense(runs: Runs, left: Side, right: Side, out: np.ndarray) -> None:
    np.add.at(out, *_list_products(runs, left, right))


def accumulate_hashed(
    runs: Runs, left: Side, right: Side, capacity: int
) -> tuple[np.ndarray, np.ndarray]:
    """(keys, values); nothing is hashed here, so the capacity is of no use."""
    pair, product = _list_products(runs, left, right)
    keys, number = np.unique(pair, return_inverse=True)
    sums = np.zeros(len(keys), np.int64)
    np.add.at(sums, number, product)
    return keys, sums


def accumulate_onto(runs: Runs, left: Side, right: Side, keys: np.ndarray) -> np.ndarray:
    pair, product = _list_products(runs, left, right)
    order = np.argsort(keys)
    ranked = keys[order]
    place = np.searchsorted(ranked, pair)
    found = place < len(ranked)
    found[found] = ranked[place[found]] == pair[found]
    sums = np.zeros(len(keys), np.int64)
    np.add.at(sums, order[place[found]], product[found])
    return sums


def _list_products(runs: Runs, left: Side, right: Side) -> tuple[np.ndarray, np.ndarray]:
    """int64[num_pairs] twice: the output key of each pair, and its value."""
    one, other = list_pairs(*runs)
    return left.key[one] + right.key[other], left.value[one] * right.value[other]


def sort_by_counting(key: np.ndarray, space: int) -> tuple[np.ndarray, np.ndarray]:
    offset = np.zeros(space + 1, np.int64)
    np.cumsum(np.bincount(key, minlength=space), out=offset[1:])
    return np.argsort(key, kind="stable"), offset
