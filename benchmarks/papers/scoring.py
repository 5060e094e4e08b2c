"""Scores that several papers share: CLL and AUC of predicted atoms, spreads, paired t-tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from lapis.evaluation.metrics import average_precision, conditional_log_likelihood

BETTER, SAME, WORSE = "better", "same", "worse"


class Spread(NamedTuple):
    """The mean of the folds that have a result, and their standard deviation."""

    mean: float
    deviation: float  # of the sample; NaN of one fold
    count: int

    def __format__(self, digits: str) -> str:
        """Return "mean ± deviation", with a number of digits."""
        if not self.count:
            return "–"
        places = digits or "3"
        text = f"{self.mean:.{places}f}"
        return text if math.isnan(self.deviation) else f"{text} ± {self.deviation:.{places}f}"


def spread(values: Sequence[float]) -> Spread:
    """Return mean and standard deviation of the values that are not NaN."""
    known = np.array([value for value in values if not math.isnan(value)])
    if not len(known):
        return Spread(math.nan, math.nan, 0)
    deviation = float(known.std(ddof=1)) if len(known) > 1 else math.nan
    return Spread(float(known.mean()), deviation, len(known))


def paired_p_value(ours: Sequence[float], others: Sequence[float]) -> float:
    """Return p of the one-tailed paired t-test that our values are larger; NaN below two pairs."""
    pairs = [
        (one, other)
        for one, other in zip(ours, others, strict=True)
        if not (math.isnan(one) or math.isnan(other))
    ]
    if len(pairs) < 2:
        return math.nan
    one, other = map(np.array, zip(*pairs, strict=True))
    if np.ptp(one - other) == 0:
        return float("nan") if (one == other).all() else float((one < other).all())
    return float(stats.ttest_rel(one, other, alternative="greater").pvalue)


def score_atoms(
    probability: np.ndarray, truth: np.ndarray, log_odds: np.ndarray | None = None
) -> tuple[float, float]:
    """Return CLL and AUC (average precision); the AUC is NaN if no atom is true."""
    if log_odds is None:
        with np.errstate(divide="ignore"):
            log_odds = np.log(probability) - np.log1p(-probability)
    area = average_precision(probability, truth)
    return conditional_log_likelihood(log_odds, truth), math.nan if area is None else area


def compare(ours: float, theirs: float, tolerance: float) -> str:
    """Return whether a larger-is-better figure is better, the same within a tolerance, or worse."""
    if math.isnan(ours) or math.isnan(theirs):
        return "–"
    if ours > theirs + tolerance:
        return BETTER
    return SAME if ours >= theirs - tolerance else WORSE
