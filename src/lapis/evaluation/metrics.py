"""Measures and curves of predicted probabilities.

    CLL    = mean over atoms of log P(atom = its true value)
    AP     = Σ_k (R_k − R_{k−1})·P_k, average precision: the area under the precision–recall steps
    AUC-PR by the trapezoid rule joins the same points with straight lines, from (0, P_1)
    AUC-ROC = (pairs of a true and a false atom in which the true one is likelier, ties ½) / pairs
    Brier  = mean over atoms of (P(atom) − 1[atom])²

over the distinct predicted probabilities in descending order. Atoms with the same probability are
one point; probabilities that agree to `TIE` are equal, since symmetric atoms are rounded
differently. Most papers on Markov logic report the trapezoid. It is too large if points are far
apart, since precision is not linear in recall between them (Davis & Goadrich 2006), so `auc_pr` is
average precision. Recall is divided by last: before that the steps are whole numbers, and a perfect
ranking has an area of exactly 1.

A calibration curve groups the atoms by probability and compares the mean prediction of a group with
the fraction of it that is true.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


def conditional_log_likelihood(log_odds: np.ndarray, truth: np.ndarray) -> float:
    """Compute the mean log-probability of the truth; −inf if a true value has probability 0.

    log P(atom) = −log(1 + exp(−x)) by its log-odds x: no probability near 1 is subtracted from 1.

    >>> conditional_log_likelihood(np.array([700.0, -700.0]), np.array([False, False]))
    -350.0
    """
    return float(-np.logaddexp(0.0, np.where(truth, -log_odds, log_odds)).mean())


def brier_score(probability: np.ndarray, truth: np.ndarray) -> float:
    """Compute the mean squared distance of the probabilities from 1 (true) and 0 (false).

    >>> brier_score(np.array([0.5, 0.0]), np.array([True, False]))
    0.125
    """
    return float(np.mean((probability - truth) ** 2))


def average_precision(probability: np.ndarray, truth: np.ndarray) -> float | None:
    """Compute the area under the precision–recall steps; None if no atom is true.

    >>> average_precision(np.array([0.9, 0.8, 0.1]), np.array([True, False, True]))
    0.8333333333333333
    """
    if not truth.any():
        return None
    _, hits, called = rank_atoms(probability, truth)
    return float(np.diff(hits, prepend=0) @ (hits / called)) / int(hits[-1])


def trapezoid_auc(probability: np.ndarray, truth: np.ndarray) -> float | None:
    """Compute the area under straight lines between the points of the precision–recall curve.

    >>> round(trapezoid_auc(np.array([0.9, 0.8, 0.1]), np.array([True, False, True])), 4)
    0.7917
    """
    if not truth.any():
        return None
    _, hits, called = rank_atoms(probability, truth)
    precision = hits / called
    height = np.append(precision[0], precision)
    area = float(np.sum(np.diff(hits, prepend=0) * (height[1:] + height[:-1]) / 2))
    return area / int(hits[-1])


def roc_auc(probability: np.ndarray, truth: np.ndarray) -> float | None:
    """Compute the area under the ROC curve; None if all atoms are true, or all false.

    Σ Δfalse·(hits before + hits after)/2 over the thresholds: equal probabilities count half, as
    in the Mann–Whitney statistic with average ranks. All sums are of whole numbers.

    >>> roc_auc(np.array([0.9, 0.8, 0.8, 0.1]), np.array([True, False, True, False]))
    0.875
    """
    num_true, num_false = int(truth.sum()), int((~truth).sum())
    if not (num_true and num_false):
        return None
    _, hits, called = rank_atoms(probability, truth)
    before = np.append(0, hits[:-1])
    doubled = int(np.diff(called - hits, prepend=0) @ (before + hits))
    return doubled / (2 * num_true * num_false)


TIE = 1e-12  # relative difference of equal probabilities


class Ranking(NamedTuple):
    """True and predicted atoms for each threshold."""

    threshold: np.ndarray  # float64[num_points], distinct probabilities from the highest
    hits: np.ndarray  # int64[num_points], true atoms at or above it
    called: np.ndarray  # int64[num_points], atoms at or above it


class PrecisionRecall(NamedTuple):
    threshold: np.ndarray  # float64[num_points], from the highest
    recall: np.ndarray  # float64[num_points], hits / true atoms; 0 if there are none
    precision: np.ndarray  # float64[num_points], hits / called


class RocCurve(NamedTuple):
    threshold: np.ndarray  # float64[num_points], from the highest
    false_rate: np.ndarray  # float64[num_points], false atoms called / false atoms; 0 if none
    true_rate: np.ndarray  # float64[num_points], recall


class Calibration(NamedTuple):
    """Groups of probabilities of equal width; empty groups have NaN means."""

    edge: np.ndarray  # float64[num_bins + 1]
    num_atoms: np.ndarray  # int64[num_bins]
    predicted: np.ndarray  # float64[num_bins], mean probability
    observed: np.ndarray  # float64[num_bins], fraction true

    @property
    def error(self) -> float:
        """The expected calibration error, Σ num_atoms·|predicted − observed| / Σ num_atoms."""
        filled = self.num_atoms > 0
        gap = np.abs(self.predicted[filled] - self.observed[filled])
        return float(self.num_atoms[filled] @ gap / max(1, int(self.num_atoms.sum())))


def rank_atoms(probability: np.ndarray, truth: np.ndarray) -> Ranking:
    order = np.argsort(-probability, kind="stable")
    ranked = probability[order]
    drops = ranked[:-1] - ranked[1:] > TIE * ranked[:-1]
    last = np.flatnonzero(np.append(drops, True)[: len(ranked)])
    return Ranking(ranked[last], np.cumsum(truth[order], dtype=np.int64)[last], last + 1)


def precision_recall(probability: np.ndarray, truth: np.ndarray) -> PrecisionRecall:
    """Compute recall and precision at each distinct threshold.

    >>> found = precision_recall(np.array([0.9, 0.8, 0.1]), np.array([True, False, True]))
    >>> found.recall.tolist(), found.precision.round(2).tolist()
    ([0.5, 0.5, 1.0], [1.0, 0.5, 0.67])
    """
    ranking = rank_atoms(probability, truth)
    return PrecisionRecall(
        ranking.threshold,
        ranking.hits / max(1, int(truth.sum())),
        ranking.hits / ranking.called,
    )


def roc_curve(probability: np.ndarray, truth: np.ndarray) -> RocCurve:
    """Compute the shares of false and of true atoms called at each distinct threshold.

    >>> found = roc_curve(np.array([0.9, 0.8, 0.1]), np.array([True, False, True]))
    >>> found.false_rate.tolist(), found.true_rate.tolist()
    ([0.0, 1.0, 1.0], [0.5, 0.5, 1.0])
    """
    ranking = rank_atoms(probability, truth)
    return RocCurve(
        ranking.threshold,
        (ranking.called - ranking.hits) / max(1, int((~truth).sum())),
        ranking.hits / max(1, int(truth.sum())),
    )


def calibration_curve(
    probability: np.ndarray, truth: np.ndarray, num_bins: int = 10
) -> Calibration:
    """Compute mean prediction and fraction true in `num_bins` equal parts of [0, 1].

    >>> found = calibration_curve(np.array([0.1, 0.2, 0.9]), np.array([False, True, True]), 2)
    >>> found.num_atoms.tolist(), found.predicted.round(2).tolist(), found.observed.tolist()
    ([2, 1], [0.15, 0.9], [0.5, 1.0])
    """
    edge = np.arange(num_bins + 1) / num_bins
    group = np.clip(np.searchsorted(edge, probability, side="right") - 1, 0, num_bins - 1)
    count = np.bincount(group, minlength=num_bins)
    divisor = np.where(count > 0, count, np.nan)
    return Calibration(
        edge,
        count,
        np.bincount(group, probability, num_bins) / divisor,
        np.bincount(group, truth.astype(np.float64), num_bins) / divisor,
    )
