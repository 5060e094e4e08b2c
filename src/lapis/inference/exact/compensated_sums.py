"""Sums of scores in which large parts cancel exactly.

With a weight of −10^9 on a formula the likely worlds have scores near 10^9, where float64 has seven
digits left for the other weights. So a score is summed in two parts, x = whole + rest: `whole` is a
multiple of a power of two so large that all sums are exact. Differences of whole parts are exact,
and are added to the rests.
"""

from __future__ import annotations

import math

import numpy as np

LARGE = 1000.0  # scores beyond this have fewer than thirteen digits after the point
EXACT_BITS = 52


def any_large(scores: np.ndarray) -> bool:
    """Return whether a score is so large that others would lose digits."""
    size = np.abs(scores)
    return bool(((size > LARGE) & (size < np.inf)).any())


def split_scores(weight: np.ndarray, times: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    """Return whole parts and rests of weight·times, each float64[num_scores]; −∞ is in both.

    Weights are rounded before multiplication, so that products with integers are exact.

    >>> whole, rest = split_scores(np.array([-1e9, 0.3]), np.array([3.0, 1.0]))
    >>> whole + rest == [-3e9, 0.3], np.abs(rest) < 1e-6
    (array([ True,  True]), array([ True,  True]))
    """
    score = weight * times
    total = float(np.abs(score[np.isfinite(score)]).sum())
    unit = math.ldexp(1.0, math.frexp(total)[1] - EXACT_BITS)
    rounded = np.round(weight / unit) * unit
    whole = np.round(rounded * times / unit) * unit
    with np.errstate(invalid="ignore"):
        rest = (weight - rounded) * times + (rounded * times - whole)
    return whole, np.where(np.isfinite(score), rest, score)
