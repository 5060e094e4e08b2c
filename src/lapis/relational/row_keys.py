"""Rows of constants' codes packed into one int64 each, by mixed radix over the columns' ranges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lapis.relational.join_small import choose_kernels


def shared_keys(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """int64 keys of the rows of both sides, equal exactly where the rows are, and a bound on them.

    Where 63 bits do not hold a key, the columns so far are renumbered by sorting.
    """
    keys = np.zeros(len(left), np.int64), np.zeros(len(right), np.int64)
    space = 1
    for position in range(left.shape[1]):
        columns = left[:, position], right[:, position]
        size = 1 + max(int(column.max(initial=0)) for column in columns)
        if space * size >= 2**63:
            both = np.unique(np.concatenate(keys), return_inverse=True)[1]
            keys = both[: len(left)], both[len(left) :]
            space = len(both) + 1
        if position == 0:
            keys = columns[0].astype(np.int64), columns[1].astype(np.int64)
        else:
            keys = keys[0] * size + columns[0], keys[1] * size + columns[1]
        space *= size
    return *keys, space


def pack_columns(
    columns: Sequence[np.ndarray | None], radix: Sequence[int], num_rows: int
) -> np.ndarray:
    """int64[num_rows], the packed key of the columns; a missing one (None) adds nothing.

    The keys of two sets of columns that miss complementary ones add up to the whole key. The
    product of the radices must stay below 2^63.
    """
    key = np.zeros(num_rows, np.int64)
    weight = 1
    for column, size in zip(reversed(columns), reversed(radix), strict=True):
        if column is not None:
            key += column.astype(np.int64) * weight
        weight *= size
    return key


def unpack_columns(key: np.ndarray, radix: Sequence[int]) -> np.ndarray:
    """int32[num_keys, len(radix)], the inverse of `pack_columns`."""
    rows = np.empty((len(key), len(radix)), np.int32)
    for position in range(len(radix) - 1, 0, -1):
        key, rows[:, position] = np.divmod(key, radix[position])
    if radix:
        rows[:, 0] = key
    return rows


def match_runs(
    key: np.ndarray, others: np.ndarray, space: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(order, start, stop): others[order[start[i]:stop[i]]] are those equal to key[i].

    Keys lie in 0 … space − 1. Small spaces are sorted by counting, which searches for nothing.
    """
    if space <= 4 * (len(key) + len(others)) + 1024:
        order, offset = choose_kernels(len(others)).sort_by_counting(others, space)
        return order, offset[key], offset[key + 1]
    order = np.argsort(others, kind="stable")
    ranked = others[order]
    return order, np.searchsorted(ranked, key, "left"), np.searchsorted(ranked, key, "right")
