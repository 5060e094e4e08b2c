"""MaxWalkSAT: local search for a most likely world.

Kautz, Selman & Jiang (1997): pick a violated clause at random; with probability `noise` flip one
of its atoms at random, otherwise the one that makes the score best. A clause with negative
weight is violated when it is true, and repaired by making a true literal false. We keep
true-literal counters and each atom's gain up to date per flip, so a greedy choice costs the
clause's length; atoms flipped within the last `tabu` steps are passed over unless they improve on
the best world. Hard clauses weigh more than all soft ones together. A block moves as one: making
an atom true makes the other false.

What did not work: restarting from random worlds throws away what hard clauses cost to find; we
restart from the best world with a tenth of the atoms redrawn.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from lapis.inference.objective import Objective


class SearchResult(NamedTuple):
    world: np.ndarray  # bool[num_atoms]
    score: float  # −inf if no feasible world was found
    flips: int


def search(
    objective: Objective,
    *,
    seed: int = 0,
    max_flips: int = 1_000_000,
    restarts: int = 3,
    noise: float = 0.2,
    tabu: int = 5,
    start: np.ndarray | None = None,
) -> SearchResult:
    """The best world found within `restarts` tries of `max_flips` flips each."""
    from lapis.grounding.incidence import index_atoms

    finite = objective.weight[~objective.hard]
    hard_weight = 1.0 + float(np.abs(finite).sum())
    weight = np.where(objective.hard, hard_weight, objective.weight)
    atom_start, atom_clause = index_atoms(
        objective.clause_start, objective.literal, objective.num_atoms
    )
    block_of = np.full(objective.num_atoms, -1, np.int32)
    for block in range(len(objective.block_exact)):
        span = slice(objective.block_start[block], objective.block_start[block + 1])
        block_of[objective.block_atom[span]] = block
    rng = np.random.default_rng(seed)
    world = initial_world(objective, start)
    best, best_score, flips = world, objective.score(world), 0
    for attempt in range(restarts):
        found, used = walk(
            objective.clause_start,
            objective.literal,
            weight,
            atom_start,
            atom_clause,
            objective.block_start,
            objective.block_atom.astype(np.int32),
            objective.block_exact,
            block_of,
            world,
            int(rng.integers(1 << 31)),
            max_flips,
            noise,
            tabu,
        )
        flips += used
        score = objective.score(found)
        if score > best_score or attempt == 0 and best_score == -np.inf:
            best, best_score = found, score
        world = perturbed(best, block_of, rng)
    return SearchResult(best, best_score, flips)


def initial_world(objective: Objective, start: np.ndarray | None) -> np.ndarray:
    """All false but for the first atom of each exactly-one block, or the world given."""
    if start is not None:
        return start.astype(bool).copy()
    world = np.zeros(objective.num_atoms, bool)
    world[objective.block_atom[objective.block_start[:-1][objective.block_exact]]] = True
    return world


def perturbed(world: np.ndarray, block_of: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    changed = world.copy()
    chosen = (rng.random(len(world)) < 0.1) & (block_of < 0)
    changed[chosen] = rng.random(int(chosen.sum())) < 0.5
    return changed


@njit(cache=True)
def flip(atom, world, true_count, weight, literal_start, literal, atom_start, atom_clause,
         gain, violated, position, num_violated):  # fmt: skip
    """Flip one atom, keeping counters, gains and the list of violated clauses up to date."""
    world[atom] = not world[atom]
    for i in range(atom_start[atom], atom_start[atom + 1]):
        signed = atom_clause[i]
        clause = abs(signed) - 1
        now_true = world[atom] == (signed > 0)
        before = true_count[clause]
        after = before + 1 if now_true else before - 1
        true_count[clause] = after
        w = weight[clause]
        first, last = literal_start[clause], literal_start[clause + 1]
        # The gain of an atom is the change of the score if it flips: −w where it is the only
        # true literal, +w where no literal is true.
        if before == 0 and after == 1:
            for k in range(first, last):
                gain[abs(literal[k]) - 1] -= w
            gain[atom] -= w
        elif before == 1 and after == 0:
            for k in range(first, last):
                gain[abs(literal[k]) - 1] += w
            gain[atom] += w
        elif before == 1 and after == 2:
            for k in range(first, last):
                other = abs(literal[k]) - 1
                if other != atom and world[other] == (literal[k] > 0):
                    gain[other] += w
                    break
        elif before == 2 and after == 1:
            for k in range(first, last):
                other = abs(literal[k]) - 1
                if other != atom and world[other] == (literal[k] > 0):
                    gain[other] -= w
                    break
        is_violated = after == 0 if w > 0 else after > 0
        if is_violated and position[clause] < 0:
            position[clause] = num_violated
            violated[num_violated] = clause
            num_violated += 1
        elif not is_violated and position[clause] >= 0:
            num_violated -= 1
            moved = violated[num_violated]
            violated[position[clause]] = moved
            position[moved] = position[clause]
            position[clause] = -1
    return num_violated


@njit(cache=True)
def walk(clause_start, literal, weight, atom_start, atom_clause, block_start, block_atom,
         block_exact, block_of, start, seed, max_flips, noise, tabu):  # fmt: skip
    """One try from `start`; returns the best world met and the number of flips."""
    np.random.seed(seed)
    num_clauses = len(weight)
    num_atoms = len(start)
    world = start.copy()
    true_count = np.zeros(num_clauses, np.int32)
    gain = np.zeros(num_atoms)
    violated = np.empty(num_clauses, np.int64)
    position = np.full(num_clauses, -1, np.int64)
    num_violated = 0
    cost = 0.0
    for clause in range(num_clauses):
        count = 0
        only = -1
        for k in range(clause_start[clause], clause_start[clause + 1]):
            atom = abs(literal[k]) - 1
            if world[atom] == (literal[k] > 0):
                count += 1
                only = atom
        true_count[clause] = count
        w = weight[clause]
        if count == 0:
            for k in range(clause_start[clause], clause_start[clause + 1]):
                gain[abs(literal[k]) - 1] += w
        elif count == 1:
            gain[only] -= w
        if (count == 0 and w > 0) or (count > 0 and w < 0):
            position[clause] = num_violated
            violated[num_violated] = clause
            num_violated += 1
            cost += abs(w)
    best_cost = cost
    best = world.copy()
    last_flip = np.full(num_atoms, -tabu - 1, np.int64)
    flips = 0
    stale = False  # the best world is behind the current one
    while flips < max_flips and num_violated > 0:
        clause = violated[np.random.randint(num_violated)]
        first, last = clause_start[clause], clause_start[clause + 1]
        repair_true = weight[clause] < 0
        chosen = -1
        if np.random.random() < noise:
            k = first + np.random.randint(last - first)
            for _ in range(last - first):
                atom = abs(literal[k]) - 1
                if not repair_true or world[atom] == (literal[k] > 0):
                    chosen = atom
                    break
                k = k + 1 if k + 1 < last else first
        else:
            top = -np.inf
            ties = 0
            for k in range(first, last):
                atom = abs(literal[k]) - 1
                if repair_true and world[atom] != (literal[k] > 0):
                    continue
                value = gain[atom]
                if flips - last_flip[atom] <= tabu and cost - value >= best_cost:
                    continue
                if value > top:
                    top, chosen, ties = value, atom, 1
                elif value == top:
                    ties += 1
                    if np.random.randint(ties) == 0:
                        chosen = atom
            if chosen < 0:
                flips += 1
                continue
        partner = -1
        block = block_of[chosen]
        if block >= 0:
            size = block_start[block + 1] - block_start[block]
            if world[chosen]:
                if block_exact[block]:
                    if size == 1:
                        flips += 1
                        continue
                    pick = block_start[block] + np.random.randint(size)
                    if block_atom[pick] == chosen:
                        pick = block_start[block] + (pick + 1 - block_start[block]) % size
                    partner = block_atom[pick]
            else:
                for k in range(block_start[block], block_start[block + 1]):
                    if world[block_atom[k]]:
                        partner = block_atom[k]
        if stale and (gain[chosen] <= 0 or partner >= 0):
            # Copied only when a best world is about to be left, not on the way down to it.
            best[:] = world
            stale = False
        cost -= gain[chosen]
        num_violated = flip(chosen, world, true_count, weight, clause_start, literal, atom_start,
                            atom_clause, gain, violated, position, num_violated)  # fmt: skip
        last_flip[chosen] = flips
        if partner >= 0:
            cost -= gain[partner]
            num_violated = flip(partner, world, true_count, weight, clause_start, literal,
                                atom_start, atom_clause, gain, violated, position, num_violated)  # fmt: skip
            last_flip[partner] = flips
        flips += 1
        if cost < best_cost - 1e-12:
            best_cost = cost
            stale = True
    if stale:
        best[:] = world
    return best, flips
