"""Certified bounds of marginals and of log Z for sampled answers.

All bounds are computed on the core that elimination leaves. Marginals: intervals along
self-avoiding walks (`self_avoiding`), and ratios of clamped sums, Z(x = 1) / Z, in components where
the upper and lower bound of log Z are close. log Z: forests from above, mean field from below, and
products of conditionals, bounded by walks, from both sides. The tightest bound counts. Nothing
depends on samples or on convergence.

Eliminated atoms follow from the core's bounds. Given its few neighbours s an eliminated atom has
P(a) = Σ_s P(a | s) P(s), with exact tables P(a | s) (`reduction`). Only bounds of the marginals of
P(s) are known, so the best bounds of P(a) solve a small linear program over all joint distributions
with such marginals. Its dual is a plane above the table: if P(a | s) ≤ c₀ + Σ c_i s_i in all
states,

    P(a) ≤ c₀ + Σ_i max(c_i · lower_i, c_i · upper_i)

The best plane passes through one corner of the cube more than it has slopes. Up to three neighbours
there are few such planes (2, 22, 202), and all are tried. A plane that rounding puts below the
table is raised. Larger scopes, and scopes with blocks, use the smallest and largest entry of the
table. Atoms are bounded in reverse order of elimination, so that their neighbours have bounds
already.
"""

from __future__ import annotations

import math
from itertools import combinations, product
from typing import NamedTuple

import numpy as np

from lapis.inference.bounds.forests import bound_by_forests
from lapis.inference.bounds.mean_field import find_mean_field
from lapis.inference.bounds.self_avoiding import (
    bound_by_conditionals,
    bound_log_odds,
    build_walks,
)
from lapis.inference.bounds.self_avoiding_kernel import TermGraph
from lapis.inference.bounds.terms import ScoreTerms, collect_terms
from lapis.inference.exact.junction_tree import JunctionTree, Potentials
from lapis.inference.marginals import Marginals
from lapis.inference.reduction.eliminate import Reduction, reduce
from lapis.network.components import keep_part
from lapis.network.network import Network
from lapis.network.satisfiability import find_world
from lapis.runtime.kernels import allocating_entry, entry
from lapis.runtime.progress import Stop

ROUNDING = 2.0**-50


class MarginalBounds(NamedTuple):
    """Lower and upper bounds of marginals and of log Z."""

    lower: np.ndarray  # float64[num_base_atoms]
    upper: np.ndarray  # float64[num_base_atoms]
    log_partition: tuple[float, float]  # ∓inf if unknown


def bound_answer(network: Network, found: Marginals, stop: Stop | None) -> MarginalBounds:
    """Bound all atoms of a network; atoms answered exactly have equal bounds."""
    lower, upper = found.marginal.copy(), found.marginal.copy()
    if found.exact:
        whole = (-math.inf, math.inf)
        if found.log_partition is not None:
            whole = found.log_partition, found.log_partition
        return MarginalBounds(lower, upper, whole)
    component = network.component
    kept = np.isin(component, component[: network.num_base_atoms][~found.is_exact])
    part, atom = keep_part(network, kept)
    bounds = bound_network(part, stop or Stop())
    own = atom[: part.num_base_atoms]
    lower[own], upper[own] = bounds.lower, bounds.upper
    if found.solved_log_partition is None and not kept.all():
        return MarginalBounds(lower, upper, (-math.inf, math.inf))
    known = found.solved_log_partition or 0.0
    if kept.all():
        known = network.constant_score
    low, high = bounds.log_partition
    return MarginalBounds(lower, upper, (low + known, high + known))


def bound_network(network: Network, stop: Stop | None = None) -> MarginalBounds:
    """Bound all atoms of a network by bounds of its core."""
    reduction = reduce(network)
    core = reduction.core
    doubt = rounding_error(reduction)
    fresh = core.weight_id == len(core.weights) - 1
    terms = collect_terms(core, np.where(fresh, doubt * (1.0 + np.abs(core.coefficient)), 0.0))
    graph, boxes = build_walks(terms)
    bound_log_odds(graph, boxes, np.arange(core.num_atoms), stop)
    lower, upper = to_probability(boxes.low), to_probability(boxes.high)
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
    return MarginalBounds(
        np.clip(least[base], 0.0, 1.0), np.clip(most[base], 0.0, 1.0), (low, high)
    )


def to_probability(log_odds: np.ndarray) -> np.ndarray:
    """Return the logistic function of log-odds."""
    small = np.exp(-np.abs(log_odds))
    return np.where(log_odds >= 0, 1.0, small) / (1.0 + small)


def rounding_error(reduction: Reduction) -> float:
    """Bound the rounding errors of the tables that elimination made."""
    message, table = reduction.potentials.message, reduction.potentials.table
    largest = max(
        float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0))
        for numbers in (message, table)
    )
    return ROUNDING * (16 + len(reduction.tree.order) + len(reduction.tree.cube)) * (1.0 + largest)


def bound_log_partition(
    core: Network,
    terms: ScoreTerms,
    graph: TermGraph,
    lower: np.ndarray,
    upper: np.ndarray,
    stop: Stop | None,
) -> tuple[float, float]:
    """Bound log Z; where the bounds are close, tighten those of marginals in place."""
    component, count = core.component, core.num_components
    world = find_world(core)
    below = find_mean_field(graph, component, count, world)
    above = bound_by_forests(terms, component, count, stop)
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


MAX_SCOPE = 3
ELIMINATED_ROUNDING = 2.0**-44


def bound_eliminated(
    tree: JunctionTree,
    potentials: Potentials,
    size: np.ndarray,
    state_start: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    doubt: float,
) -> None:
    """Fill in the bounds of eliminated variables' states, float64[num_states], in place.

    Entries of the potentials have errors of at most `doubt`.
    """
    corner, inverse, start = list_planes()
    bound_cliques(
        tree, potentials.table, potentials.message, size, state_start, lower, upper, doubt,
        corner, inverse, start,
    )  # fmt: skip


def list_planes() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """List the sets of corners of the k-cube that fix a plane, for k up to `MAX_SCOPE`.

    Return int64[num_sets, MAX_SCOPE + 1], the corners; float64[num_sets, MAX_SCOPE + 1, MAX_SCOPE +
    1], the matrix from heights to coefficients; int64[MAX_SCOPE + 2], the first set of each k.
    """
    corners, matrices, starts = [], [], [0, 0]
    wide = MAX_SCOPE + 1
    for k in range(1, MAX_SCOPE + 1):
        cube = np.array(list(product((0.0, 1.0), repeat=k)))
        for slopes in (axes for size in range(1, k + 1) for axes in combinations(range(k), size)):
            place = [0, *(axis + 1 for axis in slopes)]
            for chosen in combinations(range(1 << k), len(place)):
                rows = np.column_stack((np.ones(len(place)), cube[np.ix_(chosen, slopes)]))
                if abs(np.linalg.det(rows)) > 0.5:
                    corner, matrix = np.zeros(wide, np.int64), np.zeros((wide, wide))
                    corner[: len(place)] = chosen
                    matrix[place, : len(place)] = np.linalg.inv(rows)
                    corners.append(corner)
                    matrices.append(matrix)
        starts.append(len(corners))
    return np.array(corners), np.round(2 * np.array(matrices)) / 2, np.array(starts)


@allocating_entry
def bound_cliques(  # type: ignore[no-untyped-def]
    tree, table, message, size, state_start, lower, upper, doubt, corner, inverse, start
):
    """Bound the eliminated variables from the last to the first."""
    height, known = np.zeros(1 << 3), np.zeros(1 << 3, np.bool_)
    box = np.zeros((3, 2))
    for clique in range(len(tree.order) - 1, -1, -1):
        variable = tree.order[clique]
        begin, end = tree.scope_start[clique], tree.scope_start[clique + 1]
        rows = tree.message_start[clique + 1] - tree.message_start[clique]
        small = end - begin <= 3
        for at in range(begin, end):
            small = small and size[tree.scope_variable[at]] == 2
        if small:
            for at in range(begin, end):
                state = state_start[tree.scope_variable[at]] + 1
                box[at - begin, 0], box[at - begin, 1] = lower[state], upper[state]
        for own in range(size[variable]):
            least, most = 1.0, 0.0
            for row in range(rows):
                whole = message[tree.message_start[clique] + row]
                chance = 0.0
                if whole > -np.inf:
                    chance = np.exp(
                        table[tree.table_start[clique] + row * size[variable] + own] - whole
                    )
                    least, most = min(least, chance), max(most, chance)
                if small:
                    height[row], known[row] = chance, whole > -np.inf
            margin = 4.0 * doubt + ELIMINATED_ROUNDING
            low, high = (
                least - margin * (least + ELIMINATED_ROUNDING),
                most + margin * (most + ELIMINATED_ROUNDING),
            )
            if small and end > begin:
                under, over = best_planes(height, known, box, end - begin, corner, inverse, start)
                low, high = max(low, under - margin), min(high, over + margin)
            place = state_start[variable] + own
            lower[place], upper[place] = min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)


@entry
def best_planes(height, known, box, width, corner, inverse, start):  # type: ignore[no-untyped-def]
    """Return the largest lower and the smallest upper bound of all planes."""
    under, over = 0.0, 1.0
    for number in range(start[width], start[width + 1]):
        lift, drop = -np.inf, np.inf
        low = high = 0.0
        for axis in range(width + 1):
            slope = 0.0
            for row in range(width + 1):
                slope += inverse[number, axis, row] * height[corner[number, row]]
            if axis == 0:
                low, high = slope, slope
            else:
                one, two = slope * box[axis - 1, 0], slope * box[axis - 1, 1]
                low += min(one, two)
                high += max(one, two)
        for state in range(1 << width):
            if known[state]:
                plane = 0.0
                for axis in range(width + 1):
                    slope = 0.0
                    for row in range(width + 1):
                        slope += inverse[number, axis, row] * height[corner[number, row]]
                    if axis == 0 or (state >> (width - axis)) & 1:
                        plane += slope
                lift, drop = max(lift, height[state] - plane), min(drop, height[state] - plane)
        over, under = min(over, high + lift), max(under, low + drop)
    return under, over
