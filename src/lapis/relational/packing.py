"""Rows of small integers packed into one integer each: the mixed-radix code of a tuple.

    code(c₁ … c_k) = (…(c₁·d₂ + c₂)·d₃ + …)·d_k + c_k

Sorting codes sorts tuples lexicographically. `pack` never overflows: where the product of the
sizes passes 2⁶², the columns seen so far are replaced by their ranks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

LARGEST_CODE = 2**62


def fits(sizes: Sequence[int]) -> bool:
    """Whether the codes of all tuples over these domains are below 2⁶²."""
    product = 1
    for size in sizes:
        product *= size
    return product <= LARGEST_CODE


def pack(columns: Sequence[np.ndarray], sizes: Sequence[int], length: int) -> np.ndarray:
    """int64[length], equal for equal rows and in their lexicographic order."""
    if not columns:
        return np.zeros(length, np.int64)
    code = columns[0].astype(np.int64)
    span = sizes[0]
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        if span * size > LARGEST_CODE:
            values, code = np.unique(code, return_inverse=True)
            span = len(values)
        code = code * size
        code += column
        span *= size
    return code


def unpack(code: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """int32[num_codes, len(sizes)], the inverse of `pack` where no ranks were needed."""
    rows = np.empty((len(code), len(sizes)), np.int32)
    rest = code
    for position in range(len(sizes) - 1, 0, -1):
        rest, rows[:, position] = np.divmod(rest, sizes[position])
    if sizes:
        rows[:, 0] = rest
    return rows
