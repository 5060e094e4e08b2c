"""SampleSAT: find a solution of the kept clauses by WalkSAT moves mixed with annealing.

Wei, Erenrich and Selman (2004, "Towards efficient sampling: exploiting random walk strategies") mix
two moves. An annealing move proposes a random flip and accepts it by its change of the number of
violated clauses. Alone it is uniform over the solutions in the limit, but too slow on large
instances. A WalkSAT move repairs a random violated clause. It is fast, but prefers solutions with
wide basins.

Here SampleSAT only finds worlds in which chains start, for which its bias does not matter. MC-SAT
moves on from its current world (`mcsat` explains why). Restarts by SampleSAT within slices are off
by default, and the answer reports them.

Deviation: a block of mutually exclusive atoms moves as one variable.
"""

from __future__ import annotations

import numpy as np

from lapis.inference.random_numbers import uniform, uniform_below
from lapis.inference.sampling.clause_graph import flip
from lapis.runtime.kernels import entry, inner

NOISE = 0.2  # probability of a random WalkSAT move
ANNEAL = 0.5  # share of annealing moves in the first half
COLD = 0.1  # probability of accepting one more violated clause
MAX_CANDIDATES = 24  # literals of a long clause that a greedy move compares


@entry
def find_solution(  # type: ignore[no-untyped-def]
    graph, units, world, part, members, found, violated, position, trial, trial_true, max_flips, rng
):
    """Set the atoms `members[:found]` to a solution found from a random start.

    The first half of the flips includes annealing moves. Returns False, without changing the world,
    if no solution is found.
    """
    for atom in range(len(trial)):
        trial[atom] = world.value[atom]
    _randomize(graph, units, part, members, found, trial, rng)
    count = count_violated(graph, part, members, found, violated, position, trial, trial_true)
    count = run_walksat(
        graph, units, part, members, found, violated, position, trial, trial_true, count,
        max_flips // 2, ANNEAL, rng,
    )  # fmt: skip
    count = run_walksat(
        graph, units, part, members, found, violated, position, trial, trial_true, count,
        max_flips // 2, 0.0, rng,
    )  # fmt: skip
    if count > 0:
        return False
    for place in range(found):
        atom = np.int64(members[place])  # type: ignore[assignment]
        if atom < graph.first_auxiliary and world.value[atom] != trial[atom]:
            flip(graph, part.weight, world, atom)
    return True


@entry
def run_walksat(  # type: ignore[no-untyped-def]
    graph, units, part, members, found, violated, position, trial, trial_true, count, max_flips,
    anneal, rng,
):  # fmt: skip
    """Make at most `max_flips` moves; return the number of violated clauses."""
    for _ in range(max_flips):
        if count == 0:
            break
        if anneal > 0 and uniform(rng) < anneal:
            atom = members[uniform_below(rng, found)]
            off, on = _choose_move(graph, units, part, atom, trial, rng)
            after = _flip_pair(graph, part, off, on, trial, trial_true, violated, position, count)
            if after > count and uniform(rng) >= COLD ** (after - count):
                after = _flip_pair(
                    graph, part, on, off, trial, trial_true, violated, position, after
                )
            count = after
            continue
        clause = violated[uniform_below(rng, count)]
        begin, length = graph.clause_start[clause], graph.clause_start[clause + 1]
        length -= begin
        offset = uniform_below(rng, length)
        best, best_off, best_on = -1, -1, -1
        looked_at = 1 if uniform(rng) < NOISE else min(length, MAX_CANDIDATES)
        for step in range(looked_at):
            atom = abs(graph.literal[begin + (offset + step) % length]) - 1
            if part.fixed[atom]:
                continue
            off, on = _choose_move(graph, units, part, atom, trial, rng)
            after = _flip_pair(graph, part, off, on, trial, trial_true, violated, position, count)
            _flip_pair(graph, part, on, off, trial, trial_true, violated, position, after)
            if best < 0 or after < best:
                best, best_off, best_on = after, off, on
        count = _flip_pair(
            graph, part, best_off, best_on, trial, trial_true, violated, position, count
        )
    return count


@inner
def _randomize(graph, units, part, members, found, trial, rng):  # type: ignore[no-untyped-def]
    for place in range(found):
        atom = members[place]
        if atom >= graph.first_auxiliary or not units.is_block[units.variable_of_atom[atom]]:
            trial[atom] = uniform(rng) < 0.5
        elif trial[atom] == 1:  # each block changes once or a few times, to a random state
            off, on = _choose_move(graph, units, part, atom, trial, rng)
            if off >= 0:
                trial[off] = 0
            if on >= 0:
                trial[on] = 1


@entry
def count_violated(graph, part, members, found, violated, position, trial, trial_true):  # type: ignore[no-untyped-def]
    """Set the counters of the members' active clauses; return the number of violated ones."""
    count = 0
    for place in range(found):
        for at in range(graph.atom_start[members[place]], graph.atom_start[members[place] + 1]):
            trial_true[abs(graph.atom_clause[at]) - 1] = -1
    for place in range(found):
        for at in range(graph.atom_start[members[place]], graph.atom_start[members[place] + 1]):
            clause = abs(graph.atom_clause[at]) - 1
            if not part.active[clause] or trial_true[clause] >= 0:
                continue
            true = 0
            for other in range(graph.clause_start[clause], graph.clause_start[clause + 1]):
                signed = graph.literal[other]
                true += (trial[abs(signed) - 1] == 1) == (signed > 0)
            trial_true[clause] = true
            if true == 0:
                violated[count] = clause
                position[clause] = count
                count += 1
    return count


@inner
def _choose_move(graph, units, part, atom, trial, rng):  # type: ignore[no-untyped-def]
    """Return (off, on), the atoms that change if `atom` flips; in a block there may be two."""
    if atom >= graph.first_auxiliary or not units.is_block[units.variable_of_atom[atom]]:
        return (atom, -1) if trial[atom] == 1 else (-1, atom)
    variable = units.variable_of_atom[atom]
    first, last = units.variable_start[variable], units.variable_start[variable + 1]
    if trial[atom] == 0:
        for at in range(first, last):
            if trial[units.variable_atom[at]] == 1:
                return units.variable_atom[at], atom
        return -1, atom
    choices = units.variable_size[variable] - (last - first)  # 1 if it may be empty
    for at in range(first, last):
        other = units.variable_atom[at]
        choices += other != atom and not part.fixed[other]
    if choices == 0:
        return -1, -1
    chosen = uniform_below(rng, choices)
    for at in range(first, last):
        other = units.variable_atom[at]
        if other != atom and not part.fixed[other]:
            if chosen == 0:
                return atom, other
            chosen -= 1
    return atom, -1


@inner
def _flip_pair(graph, part, off, on, trial, trial_true, violated, position, count):  # type: ignore[no-untyped-def]
    """Flip two atoms (−1: none); return the number of violated clauses."""
    for atom in (off, on):
        if atom < 0:
            continue
        now = trial[atom] == 0
        trial[atom] = now
        for at in range(graph.atom_start[atom], graph.atom_start[atom + 1]):
            signed = graph.atom_clause[at]
            clause = abs(signed) - 1
            if not part.active[clause]:
                continue
            if (signed > 0) == now:
                trial_true[clause] += 1
                if trial_true[clause] == 1:
                    count -= 1
                    last = violated[count]
                    violated[position[clause]] = last
                    position[last] = position[clause]
            else:
                trial_true[clause] -= 1
                if trial_true[clause] == 0:
                    violated[count] = clause
                    position[clause] = count
                    count += 1
    return count
