"""How good predicted probabilities are.

    CLL    = mean over atoms of log P(atom = its true value)
    AP     = Σ_k (R_k − R_{k−1})·P_k, average precision: the area under the precision–recall steps
    AUC-PR by the trapezoid rule joins the same points with straight lines, from (0, P_1)
    Brier  = mean over atoms of (P(atom) − 1[atom])²

over the distinct predicted probabilities in descending order, so that ties are one point. The
trapezoid is what most papers on Markov logic report; it is too kind where points lie far apart,
since precision is not linear in recall between them (Davis & Goadrich 2006). Average precision
has no such fault and is called `auc_pr`. Recall is divided by last: the steps are whole numbers
before, and a perfect ranking has an area of exactly 1.
"""

from __future__ import annotations

import numpy as np

from lapis.evaluation.curves import rank


def conditional_log_likelihood(log_odds: np.ndarray, truth: np.ndarray) -> float:
    """Mean log-probability of the truth; −inf if something true was said to be impossible.

    log P(atom) = −log(1 + exp(−x)) by its log-odds x: no probability near 1 is subtracted from 1.

    >>> conditional_log_likelihood(np.array([700.0, -700.0]), np.array([False, False]))
    -350.0
    """
    return float(-np.logaddexp(0.0, np.where(truth, -log_odds, log_odds)).mean())


def brier_score(probability: np.ndarray, truth: np.ndarray) -> float:
    """Mean squared distance of the probabilities from 1 (true) and 0 (false).

    >>> brier_score(np.array([0.5, 0.0]), np.array([True, False]))
    0.125
    """
    return float(np.mean((probability - truth) ** 2))


def average_precision(probability: np.ndarray, truth: np.ndarray) -> float | None:
    """Area under the precision–recall steps; None if nothing is true.

    >>> average_precision(np.array([0.9, 0.8, 0.1]), np.array([True, False, True]))
    0.8333333333333333
    """
    if not truth.any():
        return None
    _, hits, called = rank(probability, truth)
    return float(np.diff(hits, prepend=0) @ (hits / called)) / int(hits[-1])


def trapezoid_auc(probability: np.ndarray, truth: np.ndarray) -> float | None:
    """Area under the straight lines between the points of the precision–recall curve.

    >>> round(trapezoid_auc(np.array([0.9, 0.8, 0.1]), np.array([True, False, True])), 4)
    0.7917
    """
    if not truth.any():
        return None
    _, hits, called = rank(probability, truth)
    precision = hits / called
    area = trapezoid(np.append(0, hits), np.append(precision[0], precision))
    return area / int(hits[-1])


def trapezoid(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2))
