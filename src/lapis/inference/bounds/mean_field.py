"""Lower bounds of log Z by mean field.

For any distribution over worlds, log Z ≥ E[score] + entropy (Gibbs's inequality). With independent
atoms, true with probability μ_a, both are short sums: a clause of weight w is true with probability
1 − Π (literal false). Coordinate ascent (Peterson and Anderson 1987; Jordan et al. 1999) sets one
atom after the other to its best,

    log odds of a = field + Σ_clauses ± w · Π_{other literals} P(false)

and never gets worse. Every point is a bound, so nothing depends on where it stops; it starts from
several and each component keeps its best.

A hard clause allows no chance that it is false. One true literal of each, in a world that keeps
them all, is held fixed, and the other atoms are free.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.inference.bounds.self_avoiding_kernel import TermGraph, logistic
from lapis.runtime.kernels import entry, inner

MAX_SWEEPS = 200
TOLERANCE = 1e-6  # of a log odds in one sweep
STARTS = (0.0, -8.0, 8.0)  # log odds of all atoms
MAX_LOG_ODDS = (
    40.0  # a free atom's log odds are within ±LOUD: its entropy is a sum without surprises
)
ROUNDING = 2.0**-51


class MeanField(NamedTuple):
    log_odds: np.ndarray  # float64[num_atoms], ±inf where fixed
    value: np.ndarray  # float64[num_components], without the constant; −inf without a world


def find_mean_field(
    graph: TermGraph, component: np.ndarray, num_components: int, world: np.ndarray | None
) -> MeanField:
    """The best of several climbs, by component; `world`, bool[num_atoms], keeps what is hard."""
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
        value, loud, count = np.zeros((3, num_components))
        evaluate_bound(graph, log_odds, component, value, loud, count)
        better = value > best.value
        best.log_odds[better[component]] = log_odds[better[component]]
        best.value[better] = value[better]
    return best


def fixed_atoms(graph: TermGraph, world: np.ndarray | None) -> np.ndarray | None:
    """int8[num_atoms], the values of atoms that keep the hard clauses, −1 where free."""
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
    """Fix a true literal of each hard clause that has none yet; whether all can be kept."""
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
    """Coordinate ascent over the free atoms, in place."""
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
def evaluate_bound(graph, log_odds, component, value, loud, count):  # type: ignore[no-untyped-def]
    """E[score] + entropy by component, less what rounding can have added.

    `loud` and `count`, of the same size, take the sum of the terms' sizes and their number.
    """
    for atom in range(len(log_odds)):
        own, odds = component[atom], log_odds[atom]
        if abs(graph.field[atom]) < np.inf:
            value[own] += graph.field[atom] * logistic(odds)
            loud[own] += abs(graph.field[atom])
        if abs(odds) < np.inf:
            # −p log p − (1 − p) log(1 − p) = log(1 + exp(−|o|)) + |o| / (1 + exp|o|)
            size = abs(odds)
            value[own] += np.log1p(np.exp(-size)) + size * logistic(-size)
            loud[own] += 1.0
        count[own] += 2.0
    for clause in range(len(graph.weight)):
        weight = graph.weight[clause]
        if weight < np.inf:
            own = component[abs(graph.literal[graph.start[clause]]) - 1]
            value[own] += weight - weight * _all_false(graph, log_odds, clause, -1)
            loud[own] += abs(weight)
            count[own] += 1.0 + graph.start[clause + 1] - graph.start[clause]
    for own in range(len(value)):
        value[own] -= ROUNDING * (16.0 + count[own]) * loud[own]


@inner
def _all_false(graph, log_odds, clause, but):  # type: ignore[no-untyped-def]
    """The chance that all literals of a clause are false, but for one atom's."""
    false = 1.0
    for at in range(graph.start[clause], graph.start[clause + 1]):
        atom = abs(graph.literal[at]) - 1
        if atom != but:
            odds = log_odds[atom]
            false *= logistic(-odds) if graph.literal[at] > 0 else logistic(odds)
    return false
