"""Intervals of log-odds along self-avoiding walks: bounds of marginals from local surroundings.

Weitz (Counting independent sets up to the tree threshold, STOC 2006), Jung and Shah (2006) and
Mooij and Kappen (Bounds on marginal probability distributions, NIPS 2008), for clauses of any
length and weight. Give atom a one copy for each of its clauses C₁, C₂, …, and set the copies from
false to true one after the other. Each change of log Z depends on one clause,

    log-odds of a = field + Σ_i ± λ(C_i),      λ = −log(1 − q + q·exp(−w))

with q the probability that all other literals of C_i are false in the network without C_i, where
the copies in C₁ … C_{i−1} are true and those after it false. That probability is a product,

    q = Π_m P(literal m false | the literals before it are false)

of marginals in networks with more fixed atoms and fewer clauses: the same problem again, along
walks that never return to an atom. The identity is exact and monotone in each marginal, so interval
endpoints pass through it. A walk may stop anywhere, because a clause adds between 0 and ±w. So
every depth gives a bound, and the budget decides the depth. Budgets count steps, not time: the same
network has the same bounds under any load.

A hard clause is the limit w → ∞, where everything is continuous except ∞ − ∞, which becomes an
infinite interval. Each clause widens its interval by more than its rounding error.

Intervals shrink geometrically with depth where couplings are weak, fields strong or neighbours few;
strongly coupled atoms keep wide ones. Intervals of belief propagation messages (Ihler 2007) are no
bounds of marginals here: a walk that closes a loop ends in a fixed atom, outside such an interval.

The same conditionals bound log Z: for any possible world x,

    log Z = score(x) − Σ_i log P(x_i | x_1 … x_{i−1}).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.inference.bounds.self_avoiding_kernel import (
    SelfAvoidingWalk,
    TermGraph,
    bound_chain,
    bound_roots,
    bound_without_walks,
    score_by_component,
)
from lapis.inference.bounds.terms import EPSILON, ScoreTerms
from lapis.network.components import index_atoms
from lapis.runtime.processes import ThreadPool, num_cores
from lapis.runtime.progress import Stop

STEPS = 60_000_000  # for all atoms together
MOST_STEPS = 1_000_000  # for one atom
TIGHT = 1e-4  # width of a probability's interval that ends its search
MAX_DEPTH = 64
PIECE = 256  # atoms between two checks of `stop`, at most
PIECE_STEPS = 2_000_000  # … steps


class LogOddsBounds(NamedTuple):
    """Intervals of log-odds."""

    low: np.ndarray  # float64[num_atoms], log odds
    high: np.ndarray  # float64[num_atoms]


def build_walks(terms: ScoreTerms) -> tuple[TermGraph, LogOddsBounds]:
    """Return the graph to walk on, and the intervals of walks of length 0."""
    atom_start, atom_clause = index_atoms(terms.start, terms.literal, terms.num_atoms)
    graph = TermGraph(
        terms.field, terms.slack, terms.start, terms.literal, terms.weight, atom_start,
        atom_clause, np.zeros((len(terms.literal), 2)),
    )  # fmt: skip
    box = np.zeros((terms.num_atoms, 2))
    bound_without_walks(graph, box)
    for boxes in (graph.without, box):
        for end, unknown in ((0, -np.inf), (1, np.inf)):
            boxes[np.isnan(boxes[:, end]), end] = unknown
    return graph, LogOddsBounds(box[:, 0].copy(), box[:, 1].copy())


def allocate_walk(graph: TermGraph) -> SelfAvoidingWalk:
    """Allocate the arrays of a walk."""
    depth, size = MAX_DEPTH, len(graph.field)
    return SelfAvoidingWalk(
        np.zeros(depth, np.int32), np.zeros(depth, np.int64), np.zeros(depth, np.int64),
        np.zeros(depth, np.int64), np.zeros((depth, 3)), np.zeros((depth, 4)),
        np.zeros(size, np.int64), np.zeros(len(graph.weight), bool), np.zeros(size, np.int32),
    )  # fmt: skip


def bound_log_odds(
    graph: TermGraph, bounds: LogOddsBounds, atoms: np.ndarray, stop: Stop | None
) -> None:
    """Tighten the intervals of some atoms, int64[...], in place, on all cores."""
    budget = min(MOST_STEPS, max(1, STEPS // max(1, len(atoms))))
    cores, piece = num_cores(), max(1, min(PIECE, PIECE_STEPS // budget))

    def run(first: int) -> None:
        walk = allocate_walk(graph)
        for begin in range(first * piece, len(atoms), cores * piece):
            if stop is not None and stop.is_over():
                return
            roots = atoms[begin : begin + piece]
            bound_roots(graph, walk, roots, budget, TIGHT, *bounds)

    with ThreadPool(cores) as pool:
        list(pool.map(run, range(cores)))


def bound_by_conditionals(
    graph: TermGraph, component: np.ndarray, count: int, world: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Bound log Z without the constant, float64[num_components] each, from a possible world.

    Atoms with many clauses are fixed first, which cuts most loops.
    """
    order = np.argsort(-np.diff(graph.atom_start), kind="stable")
    budget = min(MOST_STEPS, max(1, STEPS // 2 // max(1, len(order))))
    box = np.zeros((count, 2))
    bound_chain(graph, allocate_walk(graph), order, world, budget, component, box)
    score, total_size = np.zeros((2, count))
    score_by_component(graph, world, component, score, total_size)
    doubt = EPSILON * (16 + len(graph.weight) + len(component)) * total_size
    least, most = score - box[:, 1] - doubt, score - box[:, 0] + doubt
    return np.where(np.isnan(least), -np.inf, least), np.where(np.isnan(most), np.inf, most)
