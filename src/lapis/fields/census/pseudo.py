"""Pseudo-log-likelihood of a field, with its gradient.

    Σ_t log P(x_t | all others) = −Σ_t log(1 + exp(Δ_t)),   Δ_t = log f_0[x_t flipped] − log f_0

where t is an atom; of atoms exactly one of which is true (a block), t is the block, and the sum
inside runs over its other states. Flips and groundings are counted in classes once (`census`). Here
f are values of classes, C_ij counts of the classes of child j in those of parent i, D_j what the
classes of flips change:

    e_i = Σ_j w_ij (C_ij f_j − [w_ij > 0] n_ij),   f_i = exp(e_i),   Δ = Σ_j w_0j D_j f_j

and the gradient is one back-propagation through them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.fields.census.census import Census
from lapis.fields.field import ROOT


class Groups(NamedTuple):
    """Flips of which one happens or none: those of an atom, or the other states of a block."""

    predicate: str
    start: np.ndarray  # int64[num_groups + 1]
    flip_class: np.ndarray  # int64[start[-1]]
    times: np.ndarray  # float64[num_groups], how many there are of each
    num_variables: int  # atoms, or blocks


class PseudoClasses(NamedTuple):
    """A world counted."""

    census: Census
    groups: tuple[Groups, ...]


def pseudo_log_likelihood(
    counted: PseudoClasses, weights: np.ndarray
) -> tuple[dict[str, float], np.ndarray]:
    """The values of each predicate's atoms, and the gradient of their sum float64[num_weights]."""
    census = counted.census
    value, sums, change = evaluate_classes(census, weights)
    by_change = np.zeros_like(change)
    total: dict[str, float] = {}
    for each in counted.groups:
        found, probability = log_loss(each, change)
        total[each.predicate] = -float(each.times @ found)
        times = np.repeat(each.times, np.diff(each.start))
        by_change -= np.bincount(each.flip_class, times * probability, minlength=len(change))
    return total, back_propagate(census, weights, value, sums, by_change)


def log_loss(groups: Groups, change: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log(1 + Σ exp Δ) of each group, and the probability of each flip."""
    own = change[groups.flip_class]
    if not len(own):
        return np.zeros(0), own
    total = np.logaddexp(0.0, np.logaddexp.reduceat(own, groups.start[:-1]))
    return total, np.exp(own - np.repeat(total, np.diff(groups.start)))


def evaluate_classes(
    census: Census, weights: np.ndarray
) -> tuple[dict[str, np.ndarray], dict[int, np.ndarray], np.ndarray]:
    """Values of all classes, C f − [w > 0] n of each edge (D f below the root), and Δ."""
    value, sums = dict(census.value), {}
    for name, edges in census.layers:
        exponent = np.zeros(census.size[name])
        for edge in edges:
            weight = float(weights[edge.number])
            sums[edge.number] = edge.counts @ value[edge.child] - (weight > 0) * edge.num_terms
            exponent += weight * sums[edge.number]
        # Above 0 by rounding only.
        value[name] = np.exp(np.minimum(exponent, 0.0))
    change = np.zeros(census.size[ROOT])
    for edge in census.root:
        sums[edge.number] = edge.counts @ value[edge.child]
        change += weights[edge.number] * sums[edge.number]
    return value, sums, change


def back_propagate(
    census: Census,
    weights: np.ndarray,
    value: dict[str, np.ndarray],
    sums: dict[int, np.ndarray],
    by_change: np.ndarray,
) -> np.ndarray:
    """float64[num_weights], from derivatives with respect to Δ."""
    gradient = np.zeros(len(weights))
    by_value = {name: np.zeros(len(found)) for name, found in value.items()}
    slope = by_change
    for name, edges in [("", census.root), *reversed(census.layers)]:
        if name:
            slope = by_value[name] * value[name]
        for edge in edges:
            gradient[edge.number] = slope @ sums[edge.number]
            by_value[edge.child] += weights[edge.number] * (edge.counts.T @ slope)
    return gradient
