"""Certified bounds of marginals and of log Z where an answer was sampled.

All of it is about the core that elimination leaves. Marginals: boxes along self-avoiding walks, and
in components where the upper and the lower bound of log Z are near each other the
ratios of clamped sums, Z(x = 1) / Z. log Z: forests from above, mean field from below, and
products of conditionals, which are bounded by walks, from both sides. Of several bounds the best is
taken, and eliminated atoms follow from the core's by their tables. Nothing is estimated: no
sample and no convergence enters.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lapis.inference.bounds.eliminated import bound_eliminated
from lapis.inference.bounds.forests import bound_above
from lapis.inference.bounds.mean_field import find_mean_field
from lapis.inference.bounds.self_avoiding import (
    bound_by_conditionals,
    bound_log_odds,
    build_walks,
)
from lapis.inference.bounds.self_avoiding_kernel import Graph
from lapis.inference.bounds.terms import Terms, find_terms
from lapis.inference.marginals import Marginals
from lapis.inference.reduction.eliminate import Reduction, reduce
from lapis.network.network import Network
from lapis.network.parts import keep_part
from lapis.network.satisfiability import find_world
from lapis.runtime.progress import Stop

ROUNDING = 2.0**-50


class Bounds(NamedTuple):
    lower: np.ndarray  # float64[num_base_atoms]
    upper: np.ndarray  # float64[num_base_atoms]
    log_partition: tuple[float, float]  # ∓inf where nothing is known


def bound_answer(network: Network, found: Marginals, stop: Stop | None) -> Bounds:
    """Bounds of all atoms of a network; those answered exactly have no width."""
    lower, upper = found.marginal.copy(), found.marginal.copy()
    if found.exact:
        whole = (-math.inf, math.inf)
        if found.log_partition is not None:
            whole = found.log_partition, found.log_partition
        return Bounds(lower, upper, whole)
    component = network.component
    kept = np.isin(component, component[: network.num_base_atoms][~found.is_exact])
    part, atom = keep_part(network, kept)
    bounds = bound_network(part, stop)
    own = atom[: part.num_base_atoms]
    lower[own], upper[own] = bounds.lower, bounds.upper
    if found.solved_log_partition is None and not kept.all():
        return Bounds(lower, upper, (-math.inf, math.inf))
    known = found.solved_log_partition or 0.0
    if kept.all():
        known = network.constant_score
    low, high = bounds.log_partition
    return Bounds(lower, upper, (low + known, high + known))


def bound_network(network: Network, stop: Stop | None = None) -> Bounds:
    """Bounds of a network all of whose components are wanted, by what its core says."""
    reduction = reduce(network)
    core = reduction.core
    doubt = rounding_of(reduction)
    fresh = core.weight_id == len(core.weights) - 1
    terms = find_terms(core, np.where(fresh, doubt * (1.0 + np.abs(core.coefficient)), 0.0))
    graph, boxes = build_walks(terms)
    bound_log_odds(graph, boxes, np.arange(core.num_atoms), stop)
    lower, upper = logistic(boxes.low), logistic(boxes.high)
    lower, upper = lower - ROUNDING * lower, upper + ROUNDING * upper
    low, high = bound_log_partition(core, terms, graph, lower, upper, stop)

    variables = reduction.variables
    least, most = np.zeros(variables.state_start[-1]), np.ones(variables.state_start[-1])
    place = variables.state_start[variables.atom_variable] + variables.atom_state
    least[place[reduction.core_atom]], most[place[reduction.core_atom]] = lower, upper
    bound_eliminated(
        reduction.tree, reduction.potentials, variables.size, variables.state_start, least, most,
        doubt,
    )  # fmt: skip
    base = place[: network.num_base_atoms]
    return Bounds(np.clip(least[base], 0.0, 1.0), np.clip(most[base], 0.0, 1.0), (low, high))


def logistic(log_odds: np.ndarray) -> np.ndarray:
    small = np.exp(-np.abs(log_odds))
    return np.where(log_odds >= 0, 1.0, small) / (1.0 + small)


def rounding_of(reduction: Reduction) -> float:
    """How far the numbers that elimination made can be off: each adds up some of those before."""
    message, table = reduction.potentials.message, reduction.potentials.table
    loud = max(
        float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0))
        for numbers in (message, table)
    )
    return ROUNDING * (16 + len(reduction.tree.order) + len(reduction.tree.cube)) * (1.0 + loud)


def bound_log_partition(
    core: Network,
    terms: Terms,
    graph: Graph,
    lower: np.ndarray,
    upper: np.ndarray,
    stop: Stop | None,
) -> tuple[float, float]:
    """Bounds of log Z; where they are near each other they tighten those of marginals, in place."""
    component, count = core.component, core.num_components
    world = find_world(core)
    below = find_mean_field(graph, component, count, world)
    above = bound_above(terms, component, count, stop)
    least = below.value
    most = np.full(count, np.inf) if above is None else above.value
    if world is not None and (stop is None or not stop.is_over()):
        likely = np.where(np.isfinite(below.value)[component], below.log_odds > 0, world)
        one, two = bound_by_conditionals(graph, component, count, likely)
        least, most = np.maximum(least, one), np.minimum(most, two)
    if above is not None:
        known = np.isfinite(least) & np.isfinite(above.value)
        sizes = np.abs(least) + np.abs(above.value)
        gap = np.where(known, above.value - least + ROUNDING * (1.0 + sizes), np.inf)[component]
        with np.errstate(over="ignore", invalid="ignore"):
            upper[:] = np.fmin(upper, np.exp(above.true + gap))
            lower[:] = np.fmax(lower, 1.0 - np.exp(above.false + gap))
    doubt = terms.error + ROUNDING * (count + 4) * (1.0 + abs(terms.constant))
    low, high = float(least.sum()), float(most.sum())
    return (
        low + terms.constant - doubt - ROUNDING * count * abs(low) if np.isfinite(low) else low,
        high + terms.constant + doubt + ROUNDING * count * abs(high) if np.isfinite(high) else high,
    )
