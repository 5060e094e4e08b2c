"""Pseudo-log-likelihood from classes: each class once, times its multiplicity.

    Σ_classes multiplicity · log P(value in the data | everything else)

For an atom the log-odds of being true are w · d, so P = σ(± w · d). For a block the values
compete: P(v) ∝ exp(w · D(v)). Where a hard rule excludes all other values the probability is 1;
where the data itself breaks a hard rule, or a block, the pseudo-log-likelihood is −∞.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.counting.blocks import BlockClasses
from lapis.counting.classes import DifferenceClasses
from lapis.counting.sparse_vectors import SparseVectors


class PseudoLikelihood(NamedTuple):
    value: float
    gradient: np.ndarray  # float64[num_weights]; zero where the value is −∞


def pseudo_log_likelihood(
    classes: DifferenceClasses | BlockClasses, weights: np.ndarray
) -> PseudoLikelihood:
    """Value and gradient at weights float64[num_weights]."""
    if classes.violated_rules or (isinstance(classes, BlockClasses) and classes.broken_blocks):
        return PseudoLikelihood(-np.inf, np.zeros(classes.num_weights))
    if isinstance(classes, BlockClasses):
        return _of_blocks(classes, weights)
    return _of_atoms(classes, weights)


def _of_atoms(classes: DifferenceClasses, weights: np.ndarray) -> PseudoLikelihood:
    """Σ m · log σ(s · w·d) with s = ±1 for true and false; gradient Σ m · s·d · σ(−s · w·d)."""
    sign = np.where(classes.truth, 1.0, -1.0)
    margin = sign * project_vectors(classes.vectors, weights)
    counted = np.where(classes.is_forced, 0.0, classes.multiplicity.astype(np.float64))
    value = -float(counted @ np.logaddexp(0.0, -margin))
    missing = np.exp(-np.logaddexp(0.0, margin))  # σ(−margin), without overflow
    return PseudoLikelihood(
        value, combine_vectors(classes.vectors, counted * sign * missing, classes.num_weights)
    )


def _of_blocks(classes: BlockClasses, weights: np.ndarray) -> PseudoLikelihood:
    """Σ m · (w·D(data) − log Σ_v exp(w·D(v))), over the values that hard rules allow."""
    num_classes = len(classes)
    owner = np.repeat(np.arange(num_classes), np.diff(classes.class_start))
    is_empty = classes.observed < 0
    own_vector = np.full(num_classes, -1)
    own_vector[~is_empty] = classes.candidate_vector[classes.observed[~is_empty]]
    # The empty block stands behind all vectors, with D = 0.
    score_of = np.append(project_vectors(classes.vectors, weights), 0.0)
    hard_of = np.append(classes.hard, 0)
    multiplicity = classes.multiplicity.astype(np.float64)

    log_count = np.log(classes.candidate_count.astype(np.float64))
    score = score_of[classes.candidate_vector] + log_count
    allowed = hard_of[classes.candidate_vector] == hard_of[own_vector][owner]
    score[~allowed] = -np.inf
    may_be_empty = (hard_of[own_vector] == 0) & (not classes.exactly_one)
    top = np.where(may_be_empty, 0.0, -np.inf)
    np.maximum.at(top, owner, score)
    share = np.exp(score - top[owner])
    total = np.where(may_be_empty, np.exp(-top), 0.0) + np.bincount(owner, share, num_classes)
    value = float(multiplicity @ (score_of[own_vector] - top - np.log(total)))

    pull = np.zeros(len(score_of))
    np.add.at(pull, own_vector, multiplicity)
    np.add.at(pull, classes.candidate_vector, -(multiplicity / total)[owner] * share)
    return PseudoLikelihood(value, combine_vectors(classes.vectors, pull[:-1], classes.num_weights))


def project_vectors(vectors: SparseVectors, weights: np.ndarray) -> np.ndarray:
    """float64[num_vectors], w · d of each vector."""
    products = weights[vectors.column] * vectors.value.astype(np.float64)
    return np.bincount(vectors.row, products, len(vectors.start) - 1)


def combine_vectors(vectors: SparseVectors, scale: np.ndarray, num_weights: int) -> np.ndarray:
    """float64[num_weights], Σ scale · d over the vectors."""
    products = scale[vectors.row] * vectors.value.astype(np.float64)
    return np.bincount(vectors.column, products, num_weights)
