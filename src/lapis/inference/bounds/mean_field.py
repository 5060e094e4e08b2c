"""Lower bounds of log Z by mean field.

Gibbs's inequality: log Z ≥ E[score] + entropy for any distribution over worlds. For independent
atoms, true with probability μ_a, both are short sums: a clause is true with probability
1 − Π P(literal false). Coordinate ascent (Peterson and Anderson 1987; Jordan et al. 1999) sets one
atom after the other to its optimum,

    log-odds of a = field + Σ_clauses ± w · Π_{other literals} P(false)

Every point is a bound, so it may stop anywhere. It starts from several points, and each component
keeps its best bound. A hard clause must hold with probability 1: one true literal of each, in a
world that satisfies them all, is fixed, and the other atoms are free.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.inference.bounds.self_avoiding_kernel import TermGraph, logistic
from lapis.runtime.kernels import entry, inner

MAX_SWEEPS = 200
TOLERANCE = 1e-6  # largest change of log-odds in the last sweep
STARTS = (0.0, -8.0, 8.0)  # log-odds of all atoms
MAX_LOG_ODDS = (
    40.0  # a free atom's log odds are within ±LOUD: its entropy is a sum without surprises
)
ROUNDING = 2.0**-51


class MeanField(NamedTuple):
    """Independent atoms and their bound of log Z."""

    log_odds: np.ndarray  # float64[num_atoms], ±inf where fixed
    value: np.ndarray  # float64[num_components], without the constant; −inf without a world


def find_mean_field(
    graph: TermGraph, component: np.ndarray, num_components: int, world: np.ndarray | None
) -> MeanField:
    """Return the best of several ascents, by component.

    `world`, bool[num_atoms], satisfies the hard clauses.
    """
    fixed = fixed_atoms(graph, world)
    best = MeanField(np.zeros(len(component)), np.full(num_components, -np.inf))
    if fixed is None:
        return best
    starts = [np.full(len(component), start) for start in STARTS]
    if world is not None:
        starts.append(np.where(world, 4.0, -4.0))
    for log_odds in starts:
        log_odds = np.where(fixed < 0, log_odds, np.where(fixed > 0, np.inf, -np.inf))
        ascend_coordinates(graph, log_odds, MAX_SWEEPS)
        value, total, count = np.zeros((3, num_components))
        evaluate_bound(graph, log_odds, component, value, total, count)
        better = value > best.value
        best.log_odds[better[component]] = log_odds[better[component]]
        best.value[better] = value[better]
    return best


def fixed_atoms(graph: TermGraph, world: np.ndarray | None) -> np.ndarray | None:
    """Return the values of fixed atoms, int8[num_atoms], −1 if free; None without a world."""
    fixed = np.full(len(graph.field), -1, np.int8)
    is_hard = np.isinf(graph.weight)
    decided = np.isinf(graph.field) | np.isinf(graph.slack)
    if world is None:
        return None if is_hard.any() or decided.any() else fixed
    fixed[decided] = world[decided]
    is_kept = fix_true_literals(graph, np.flatnonzero(is_hard), world, fixed)
    wrong = decided & np.isinf(graph.field) & (world != (graph.field > 0))
    return fixed if is_kept and not wrong.any() else None


@entry
def fix_true_literals(graph, hard, world, fixed):  # type: ignore[no-untyped-def]
    """Fix a true literal of each hard clause without one; return whether all hold."""
    for clause in hard:
        held, choice = False, -1
        for at in range(graph.start[clause], graph.start[clause + 1]):
            atom = abs(graph.literal[at]) - 1
            if world[atom] == (graph.literal[at] > 0):
                choice = atom
                held = held or fixed[atom] >= 0
        if choice < 0:
            return False
        if not held:
            fixed[choice] = world[choice]
    return True


@entry
def ascend_coordinates(graph, log_odds, max_sweeps):  # type: ignore[no-untyped-def]
    """Optimise the free atoms by coordinate ascent, in place."""
    for _ in range(max_sweeps):
        change = 0.0
        for atom in range(len(log_odds)):
            if abs(log_odds[atom]) == np.inf:
                continue
            odds = graph.field[atom]
            for place in range(graph.atom_start[atom], graph.atom_start[atom + 1]):
                signed = graph.atom_clause[place]
                clause = abs(signed) - 1
                if graph.weight[clause] < np.inf:
                    pull = graph.weight[clause] * _all_false(graph, log_odds, clause, atom)
                    odds += pull if signed > 0 else -pull
            odds = min(max(odds, -MAX_LOG_ODDS), MAX_LOG_ODDS)
            change = max(change, abs(odds - log_odds[atom]))
            log_odds[atom] = odds
        if change <= TOLERANCE:
            break


@entry
def evaluate_bound(graph, log_odds, component, value, total, count):  # type: ignore[no-untyped-def]
    """Fill E[score] + entropy by component, less the largest possible rounding error.

    `total` and `count`, of the same size, get the sum of the terms' absolute values and their
    number.
    """
    for atom in range(len(log_odds)):
        own, odds = component[atom], log_odds[atom]
        if abs(graph.field[atom]) < np.inf:
            value[own] += graph.field[atom] * logistic(odds)
            total[own] += abs(graph.field[atom])
        if abs(odds) < np.inf:
            # −p log p − (1 − p) log(1 − p) = log(1 + exp(−|o|)) + |o| / (1 + exp|o|)
            size = abs(odds)
            value[own] += np.log1p(np.exp(-size)) + size * logistic(-size)
            total[own] += 1.0
        count[own] += 2.0
    for clause in range(len(graph.weight)):
        weight = graph.weight[clause]
        if weight < np.inf:
            own = component[abs(graph.literal[graph.start[clause]]) - 1]
            value[own] += weight - weight * _all_false(graph, log_odds, clause, -1)
            total[own] += abs(weight)
            count[own] += 1.0 + graph.start[clause + 1] - graph.start[clause]
    for own in range(len(value)):
        value[own] -= ROUNDING * (16.0 + count[own]) * total[own]


@inner
def _all_false(graph, log_odds, clause, but):  # type: ignore[no-untyped-def]
    """Return the probability that all literals of a clause are false, except those of one atom."""
    false = 1.0
    for at in range(graph.start[clause], graph.start[clause + 1]):
        atom = abs(graph.literal[at]) - 1
        if atom != but:
            odds = log_odds[atom]
            false *= logistic(-odds) if graph.literal[at] > 0 else logistic(odds)
    return false
