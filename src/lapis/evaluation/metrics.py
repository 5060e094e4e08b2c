"""How good predicted probabilities are.

    CLL    = mean over atoms of log P(atom = its true value)
    AP     = Σ_k (R_k − R_{k−1})·P_k, average precision: the area under the precision–recall steps
    AUC-PR by the trapezoid rule joins the same points with straight lines, from (0, P_1)

over the distinct predicted probabilities in descending order, so that ties are one point.
"""

from __future__ import annotations

import numpy as np


def conditional_log_likelihood(probability: np.ndarray, truth: np.ndarray) -> float:
    """Mean log-probability of the truth; −inf if something true was given probability 0.

    >>> round(conditional_log_likelihood(np.array([0.5, 0.25]), np.array([True, False])), 4)
    -0.4904
    """
    with np.errstate(divide="ignore"):
        return float(np.log(np.where(truth, probability, 1.0 - probability)).mean())


def precision_recall(probability: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Recall and precision at each distinct threshold, from the highest."""
    order = np.argsort(-probability, kind="stable")
    ranked = probability[order]
    last = np.append(ranked[1:] != ranked[:-1], True)
    hits = np.cumsum(truth[order])[last]
    predicted = np.arange(1, len(order) + 1)[last]
    return hits / max(1, int(truth.sum())), hits / predicted


def average_precision(probability: np.ndarray, truth: np.ndarray) -> float | None:
    """Area under the precision–recall steps; None if nothing is true.

    >>> average_precision(np.array([0.9, 0.8, 0.1]), np.array([True, False, True]))
    0.8333333333333333
    """
    if not truth.any():
        return None
    recall, precision = precision_recall(probability, truth)
    return float(np.sum(np.diff(recall, prepend=0.0) * precision))


def trapezoid_auc(probability: np.ndarray, truth: np.ndarray) -> float | None:
    """Area under the straight lines between the points of the precision–recall curve."""
    if not truth.any():
        return None
    recall, precision = precision_recall(probability, truth)
    precision = np.concatenate([precision[:1], precision])
    recall = np.concatenate([[0.0], recall])
    return float(np.sum(np.diff(recall) * (precision[1:] + precision[:-1]) / 2))
