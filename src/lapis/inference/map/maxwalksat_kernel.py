"""The kernels of `maxwalksat`: counters, gains and lists of violated clauses, updated per flip.

`gain` of an atom is the decrease of the weighted violation if it flips: −w if it is a clause's only
true literal, +w if no literal is true. Lists of violated hard and soft clauses, and of atoms with a
positive gain, make each choice cheap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.inference.random_numbers import uniform, uniform_below
from lapis.runtime.kernels import entry, inner

HARD, SOFT = 0, 1  # rows of `violated` and of `num_violated`
SAMPLES = 12  # atoms with positive gain, or violated soft clauses, compared for each choice
LEAST_GAIN = 1e-9


class Clauses(NamedTuple):
    """An objective as the kernels read it."""

    clause_start: np.ndarray  # int64[num_clauses + 1]
    literal: np.ndarray  # int32[num_literals]
    weight: np.ndarray  # float64[num_clauses], 0 where hard
    hard: np.ndarray  # bool[num_clauses]
    atom_start: np.ndarray  # int64[num_atoms + 1]
    atom_clause: np.ndarray  # int32[num_literals], clause + 1, negative if negated there
    block_start: np.ndarray  # int64[num_blocks + 1]
    block_atom: np.ndarray  # int32[...]
    block_exact: np.ndarray  # bool[num_blocks]
    block_of: np.ndarray  # int32[num_atoms], −1 for none


class MaxWalkSatState(NamedTuple):
    """A world, and counters and lists that flips update."""

    world: np.ndarray  # bool[num_atoms]
    best: np.ndarray  # bool[num_atoms], the best feasible world so far
    true_count: np.ndarray  # int32[num_clauses]
    pressure: np.ndarray  # float64[num_clauses], the weight in the walk; grows if hard
    gain: np.ndarray  # float64[num_atoms]
    violated: np.ndarray  # int32[2, num_clauses], the violated hard and soft clauses
    position: np.ndarray  # int32[num_clauses], in its list; −1 if not violated
    num_violated: np.ndarray  # int64[2]
    last_flip: np.ndarray  # int64[num_atoms]
    downhill: np.ndarray  # int32[num_atoms], atoms outside blocks with a positive gain
    downhill_position: np.ndarray  # int32[num_atoms], −1 if not there
    num_downhill: np.ndarray  # int64[1]
    log: np.ndarray  # int32[num_atoms], atoms flipped since the best world
    num_log: np.ndarray  # int64[1], larger than the log if it was too short
    flips: np.ndarray  # int64[1]
    cost: np.ndarray  # float64[2], of the soft clauses violated now and in the best world


@entry
def begin_walk(clauses, walk, hard_pressure):  # type: ignore[no-untyped-def]
    """Set up the counters of `walk.world`; the best cost is kept."""
    walk.gain[:] = 0.0
    walk.num_violated[:] = 0
    walk.last_flip[:] = -(1 << 40)
    walk.cost[0] = 0.0
    for clause in range(len(clauses.weight)):
        hard = clauses.hard[clause]
        walk.pressure[clause] = hard_pressure if hard else clauses.weight[clause]
        walk.position[clause] = -1
        first, last = clauses.clause_start[clause], clauses.clause_start[clause + 1]
        count, only = 0, 0
        for k in range(first, last):
            atom = abs(clauses.literal[k]) - 1
            if walk.world[atom] == (clauses.literal[k] > 0):
                count += 1
                only = atom
        walk.true_count[clause] = count
        w = walk.pressure[clause]
        if count == 0:
            for k in range(first, last):
                walk.gain[abs(clauses.literal[k]) - 1] += w
        elif count == 1:
            walk.gain[only] -= w
        if (count == 0) == (w > 0):
            _enlist(clauses, walk, clause)
    walk.num_log[0] = len(walk.log) + 1
    walk.num_downhill[0] = 0
    walk.downhill_position[:] = -1
    for atom in range(len(walk.world)):
        _change_gain(clauses, walk, atom, 0.0)


@inner
def _change_gain(clauses, walk, atom, amount):  # type: ignore[no-untyped-def]
    """Change the gain of an atom, and its place in the list of positive gains."""
    gain = walk.gain[atom] + amount
    walk.gain[atom] = gain
    at = walk.downhill_position[atom]
    if gain > LEAST_GAIN:
        if at < 0 and clauses.block_of[atom] < 0:
            walk.downhill_position[atom] = walk.num_downhill[0]
            walk.downhill[walk.num_downhill[0]] = atom
            walk.num_downhill[0] += 1
    elif at >= 0:
        walk.num_downhill[0] -= 1
        moved = walk.downhill[walk.num_downhill[0]]
        walk.downhill[at] = moved
        walk.downhill_position[moved] = at
        walk.downhill_position[atom] = -1


@inner
def _enlist(clauses, walk, clause):  # type: ignore[no-untyped-def]
    """Add a clause to the list of violated ones."""
    kind = HARD if clauses.hard[clause] else SOFT
    walk.position[clause] = walk.num_violated[kind]
    walk.violated[kind, walk.num_violated[kind]] = clause
    walk.num_violated[kind] += 1
    walk.cost[0] += abs(clauses.weight[clause])


@inner
def _strike(clauses, walk, clause):  # type: ignore[no-untyped-def]
    """Remove a clause from the list of violated ones."""
    kind = HARD if clauses.hard[clause] else SOFT
    walk.num_violated[kind] -= 1
    moved = walk.violated[kind, walk.num_violated[kind]]
    walk.violated[kind, walk.position[clause]] = moved
    walk.position[moved] = walk.position[clause]
    walk.position[clause] = -1
    walk.cost[0] -= abs(clauses.weight[clause])


@inner
def flip_atom(clauses, walk, atom):  # type: ignore[no-untyped-def]
    """Flip one atom and update the counters."""
    world, literal = walk.world, clauses.literal
    value = not world[atom]
    world[atom] = value
    walk.last_flip[atom] = walk.flips[0]
    if walk.num_log[0] < len(walk.log):
        walk.log[walk.num_log[0]] = atom
    walk.num_log[0] += 1
    for i in range(clauses.atom_start[atom], clauses.atom_start[atom + 1]):
        signed = clauses.atom_clause[i]
        clause = abs(signed) - 1
        w = walk.pressure[clause]
        first, last = clauses.clause_start[clause], clauses.clause_start[clause + 1]
        became_true = value == (signed > 0)
        fall = w if became_true else -w
        before = walk.true_count[clause]
        after = before + 1 if became_true else before - 1
        walk.true_count[clause] = after
        if before + after == 1:  # none true, and this one
            for k in range(first, last):
                other = abs(literal[k]) - 1
                _change_gain(clauses, walk, other, -2.0 * fall if other == atom else -fall)
            if (w > 0) == became_true:
                _strike(clauses, walk, clause)
            else:
                _enlist(clauses, walk, clause)
        elif before + after == 3:  # one true, and this one too
            _change_gain(clauses, walk, _other_true(clauses, walk, first, atom), fall)


@inner
def _other_true(clauses, walk, first, atom):  # type: ignore[no-untyped-def]
    """Return the first atom other than this one whose literal is true; there is one."""
    k = first
    while True:
        other = abs(clauses.literal[k]) - 1
        if other != atom and walk.world[other] == (clauses.literal[k] > 0):
            return other
        k += 1


@inner
def partner_of(clauses, walk, atom):  # type: ignore[no-untyped-def]
    """Return the atom of the block that must flip too; −1: none, −2: impossible."""
    block = clauses.block_of[atom]
    if block < 0:
        return -1
    first, last = clauses.block_start[block], clauses.block_start[block + 1]
    if not walk.world[atom]:
        for k in range(first, last):
            if walk.world[clauses.block_atom[k]]:
                return clauses.block_atom[k]
        return -1
    if not clauses.block_exact[block]:
        return -1
    best, top, oldest = -2, -np.inf, 0
    for k in range(first, last):
        other = clauses.block_atom[k]
        if other == atom:
            continue
        age = walk.last_flip[other]
        if walk.gain[other] > top or (walk.gain[other] == top and age < oldest):
            best, top, oldest = other, walk.gain[other], age
    return best


@inner
def best_move(clauses, walk, clause, tabu):  # type: ignore[no-untyped-def]
    """Return (atom, gain) of the best repair of a violated clause; −1: none. Ties: the oldest."""
    repair_true = walk.pressure[clause] < 0
    chosen, top, oldest = -1, -np.inf, 0
    for k in range(clauses.clause_start[clause], clauses.clause_start[clause + 1]):
        atom = abs(clauses.literal[k]) - 1
        if repair_true and walk.world[atom] != (clauses.literal[k] > 0):
            continue
        age = walk.last_flip[atom]
        if walk.flips[0] - age <= tabu:
            continue
        value = walk.gain[atom]
        if clauses.block_of[atom] >= 0:
            partner = partner_of(clauses, walk, atom)
            if partner == -2:
                continue
            if partner >= 0:
                value += walk.gain[partner]
        if value > top or (value == top and age < oldest):
            chosen, top, oldest = atom, value, age
    return chosen, top


@inner
def random_move(clauses, walk, clause, rng):  # type: ignore[no-untyped-def]
    """Return a random atom whose flip helps to repair the clause."""
    first, last = clauses.clause_start[clause], clauses.clause_start[clause + 1]
    repair_true = walk.pressure[clause] < 0
    k = first + uniform_below(rng, last - first)
    while repair_true and walk.world[abs(clauses.literal[k]) - 1] != (clauses.literal[k] > 0):
        k = k + 1 if k + 1 < last else first
    return abs(clauses.literal[k]) - 1


@inner
def press_hard(clauses, walk, amount):  # type: ignore[no-untyped-def]
    """Raise the pressure of all violated hard clauses."""
    for i in range(walk.num_violated[HARD]):
        clause = walk.violated[HARD, i]
        walk.pressure[clause] += amount
        for k in range(clauses.clause_start[clause], clauses.clause_start[clause + 1]):
            _change_gain(clauses, walk, abs(clauses.literal[k]) - 1, amount)


@inner
def choose_atom(clauses, walk, noise, tabu, step, rng):  # type: ignore[no-untyped-def]
    """Return the atom to flip next; −1 if every choice is tabu."""
    chosen = _best_downhill(walk, tabu, rng)
    if chosen >= 0:
        return chosen
    if walk.num_violated[HARD] > 0:
        press_hard(clauses, walk, step)
        clause = walk.violated[HARD, uniform_below(rng, walk.num_violated[HARD])]
        if uniform(rng) < noise:
            return random_move(clauses, walk, clause, rng)
        chosen, _ = best_move(clauses, walk, clause, tabu)
        return chosen
    number = walk.num_violated[SOFT]
    if len(clauses.block_exact) > 0:
        # Moves of blocks are in no list. Try some violated clauses; accept a loss only about
        # once for every pass over all of them.
        top = 0.0
        for _ in range(min(SAMPLES, number)):
            clause = walk.violated[SOFT, uniform_below(rng, number)]
            atom, value = best_move(clauses, walk, clause, tabu)
            if value > top + LEAST_GAIN:
                chosen, top = atom, value
        if chosen >= 0 or uniform(rng) * number > SAMPLES:
            return chosen
    clause = walk.violated[SOFT, uniform_below(rng, number)]
    if uniform(rng) < noise:
        return random_move(clauses, walk, clause, rng)
    chosen, _ = best_move(clauses, walk, clause, tabu)
    return chosen


@inner
def _best_downhill(walk, tabu, rng):  # type: ignore[no-untyped-def]
    """Return the best of some atoms with positive gain, the oldest on ties; −1: none."""
    chosen, top, oldest = -1, 0.0, 0
    number = walk.num_downhill[0]
    for i in range(min(SAMPLES, number)):
        atom = walk.downhill[i if number <= SAMPLES else uniform_below(rng, number)]
        age = walk.last_flip[atom]
        if walk.flips[0] - age <= tabu:
            continue
        value = walk.gain[atom]
        if value > top or (value == top and age < oldest):
            chosen, top, oldest = atom, value, age
    return chosen


@entry
def advance_walk(clauses, walk, num_flips, noise, tabu, step, first_feasible, rng):  # type: ignore[no-untyped-def]
    """Flip up to `num_flips` times; return True if the search is finished."""
    end = walk.flips[0] + num_flips
    while True:
        feasible = walk.num_violated[HARD] == 0
        if feasible and walk.cost[0] < walk.cost[1] - LEAST_GAIN:
            _save(walk)
        if feasible and (first_feasible or walk.num_violated[SOFT] == 0):
            return True
        if walk.flips[0] >= end:
            return False
        chosen = choose_atom(clauses, walk, noise, tabu, step, rng)
        walk.flips[0] += 1
        if chosen < 0:
            continue
        partner = partner_of(clauses, walk, chosen)
        if partner == -2:
            continue
        flip_atom(clauses, walk, chosen)
        if partner >= 0:
            flip_atom(clauses, walk, partner)


@inner
def _save(walk):  # type: ignore[no-untyped-def]
    """Store the current world as the best, by replaying the flips since the last best one."""
    walk.cost[1] = walk.cost[0]
    if walk.num_log[0] <= len(walk.log):
        for i in range(walk.num_log[0]):
            walk.best[walk.log[i]] = not walk.best[walk.log[i]]
    else:
        for atom in range(len(walk.world)):
            walk.best[atom] = walk.world[atom]
    walk.num_log[0] = 0


@entry
def sweep_downhill(clauses, walk):  # type: ignore[no-untyped-def]
    """Flip each atom with a positive gain once, in order; return whether any was flipped.

    The gain of a block's move is exact, because its two flips are tried one after the other.
    """
    moved = False
    for atom in range(len(walk.world)):
        partner = partner_of(clauses, walk, atom)
        if partner == -2 or (partner < 0 and walk.gain[atom] <= LEAST_GAIN):
            continue
        gain = walk.gain[atom]
        flip_atom(clauses, walk, atom)
        if partner >= 0:
            gain += walk.gain[partner]
            flip_atom(clauses, walk, partner)
            if gain <= LEAST_GAIN:
                flip_atom(clauses, walk, partner)
                flip_atom(clauses, walk, atom)
                continue
        walk.flips[0] += 1
        moved = True
    return moved
