"""The slice of MC-SAT as constraints: which clauses are kept, what they fix, what hangs together.

Given the world x, a clause of weight w > 0 that is true is kept with probability 1 − exp(−w); a
clause of weight w < 0 that is false must stay false with probability 1 − exp(w); hard clauses
are always kept. x itself satisfies all of this. So unit propagation can never fail, and an atom
that it fixes is fixed to the value it has: only *which* atoms are fixed is to be found out.

An auxiliary atom that no kept clause reaches constrains nothing: its definition is left out, or
it would tie together all atoms it is about.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.inference.random_numbers import uniform
from lapis.inference.sampling.gibbs_units import Units
from lapis.inference.sampling.kernels.clause_graph import ClauseGraph
from lapis.runtime.kernels import entry, inner

RIGID_WEIGHT = 3.0  # clauses from here on are nearly hard


class Slice(NamedTuple):
    """The constraints of one sample; kernels change the arrays in place."""

    weight: np.ndarray  # float64[num_clauses], +inf: stays true, −inf: stays false, 0: free
    active: np.ndarray  # bool[num_clauses], kept and not yet satisfied by fixed atoms
    open_literals: np.ndarray  # int32[num_clauses], literals of atoms not fixed
    fixed: np.ndarray  # bool[num_atoms]
    block_open: np.ndarray  # int32[num_variables], atoms of a block not fixed
    needed: np.ndarray  # bool[num_auxiliary]
    queue: np.ndarray  # int32[num_atoms]
    seen: np.ndarray  # bool[num_atoms]
    seen_clause: np.ndarray  # bool[num_clauses]


def new_slice(graph: ClauseGraph, units: Units) -> Slice:
    num_atoms, num_clauses = len(graph.atom_start) - 1, len(graph.weight)
    return Slice(
        np.zeros(num_clauses),
        np.zeros(num_clauses, bool),
        np.zeros(num_clauses, np.int32),
        np.zeros(num_atoms, bool),
        np.zeros(len(units.variable_size), np.int32),
        np.zeros(len(graph.definition_start) - 1, bool),
        np.zeros(num_atoms, np.int32),
        np.zeros(num_atoms, bool),
        np.zeros(num_clauses, bool),
    )


@entry
def constrain(graph, units, keep, world, part, rng):  # type: ignore[no-untyped-def]
    """Draw a slice and propagate its unit clauses."""
    kept = draw_slice(graph, keep, world, part, rng)
    return kept, propagate(graph, units, world, part)


@inner
def draw_slice(graph, keep, world, part, rng):  # type: ignore[no-untyped-def]
    """Keep each clause with probability keep[clause]; returns how many soft ones were."""
    kept = 0
    for clause in range(len(graph.weight)):
        part.weight[clause] = 0.0
        part.active[clause] = False
        if graph.definition_of[clause] >= 0:
            continue
        is_true = world.true_literals[clause] > 0
        weight = graph.weight[clause]
        if weight == 0 or is_true != (weight > 0):
            continue
        if np.isinf(weight):
            part.weight[clause] = np.inf
            part.active[clause] = True
        elif uniform(rng) < keep[clause]:
            part.weight[clause] = np.inf if is_true else -np.inf
            part.active[clause] = is_true
            kept += 1
    _keep_definitions(graph, part)
    return kept


@inner
def _keep_definitions(graph, part):  # type: ignore[no-untyped-def]
    """Activate the definitions of the auxiliary atoms that kept clauses depend on."""
    if len(part.needed) == 0:
        return
    for index in range(len(part.needed) - 1, -1, -1):  # later definitions use earlier ones only
        atom = graph.first_auxiliary + index
        needed = False
        for at in range(graph.atom_start[atom], graph.atom_start[atom + 1]):
            clause = abs(graph.atom_clause[at]) - 1
            needed = needed or part.weight[clause] != 0
        for at in range(graph.use_start[atom], graph.use_start[atom + 1]):
            needed = needed or part.needed[abs(graph.use[at]) - 1]
        part.needed[index] = needed
    for clause in range(len(graph.weight)):
        index = graph.definition_of[clause]
        if index >= 0:
            part.active[clause] = part.needed[index]


@inner
def propagate(graph, units, world, part):  # type: ignore[no-untyped-def]
    """Mark the atoms that the kept clauses and the blocks leave no choice; returns how many."""
    for atom in range(len(part.fixed)):
        part.fixed[atom] = False
        part.seen[atom] = False
    waiting = 0
    for variable in range(len(units.variable_size)):
        if units.is_block[variable]:
            first, last = units.variable_start[variable], units.variable_start[variable + 1]
            part.block_open[variable] = last - first
            if units.variable_size[variable] == 1:
                waiting = _fix(part, units.variable_atom[first], waiting)
    for clause in range(len(graph.weight)):
        begin, end = graph.clause_start[clause], graph.clause_start[clause + 1]
        part.open_literals[clause] = end - begin
        part.seen_clause[clause] = False
        if part.weight[clause] == -np.inf or (part.active[clause] and end - begin == 1):
            for at in range(begin, end):
                waiting = _fix(part, abs(graph.literal[at]) - 1, waiting)
    done = 0
    while done < waiting:
        atom = np.int64(part.queue[done])  # type: ignore[assignment]
        done += 1
        for at in range(graph.atom_start[atom], graph.atom_start[atom + 1]):
            signed = graph.atom_clause[at]
            clause = abs(signed) - 1
            if not part.active[clause]:
                continue
            if (world.value[atom] == 1) == (signed > 0):
                part.active[clause] = False
                continue
            part.open_literals[clause] -= 1
            if part.open_literals[clause] == 1:
                for place in range(graph.clause_start[clause], graph.clause_start[clause + 1]):
                    waiting = _fix(part, abs(graph.literal[place]) - 1, waiting)
        if atom < graph.first_auxiliary:
            waiting = _fix_block(units, world, part, atom, waiting)
    return waiting


@inner
def _fix(part, atom, waiting):  # type: ignore[no-untyped-def]
    if part.fixed[atom]:
        return waiting
    part.fixed[atom] = True
    part.queue[waiting] = atom
    return waiting + 1


@inner
def _fix_block(units, world, part, atom, waiting):  # type: ignore[no-untyped-def]
    """A true atom settles its block; so does the last candidate of an exactly-one block."""
    variable = units.variable_of_atom[atom]
    if not units.is_block[variable]:
        return waiting
    first, last = units.variable_start[variable], units.variable_start[variable + 1]
    part.block_open[variable] -= 1
    exactly_one = units.variable_size[variable] == last - first
    if world.value[atom] == 1 or (exactly_one and part.block_open[variable] == 1):
        for at in range(first, last):
            waiting = _fix(part, units.variable_atom[at], waiting)
    return waiting


@entry
def reach(graph, units, part, seed, limit, members):  # type: ignore[no-untyped-def]
    """Breadth-first: the atoms not fixed that active clauses and blocks tie to `seed`.

    Fills `members`, at most about `limit` of them (a block is never cut); marks them `seen`, and
    their clauses `seen_clause`. Returns how many, and whether one of the clauses is (nearly) hard.
    """
    part.seen[seed] = True
    members[0] = seed
    found, done, rigid = 1, 0, False
    while done < found:
        atom = members[done]
        done += 1
        if atom < graph.first_auxiliary:
            variable = units.variable_of_atom[atom]
            if units.is_block[variable]:
                for at in range(units.variable_start[variable], units.variable_start[variable + 1]):
                    found = _meet(part, units.variable_atom[at], members, found)
        for at in range(graph.atom_start[atom], graph.atom_start[atom + 1]):
            clause = abs(graph.atom_clause[at]) - 1
            if not part.active[clause] or part.seen_clause[clause]:
                continue
            part.seen_clause[clause] = True
            if graph.weight[clause] >= RIGID_WEIGHT and graph.definition_of[clause] < 0:
                rigid = True
            for place in range(graph.clause_start[clause], graph.clause_start[clause + 1]):
                if found < limit:
                    found = _meet(part, abs(graph.literal[place]) - 1, members, found)
    return found, rigid


@inner
def _meet(part, atom, members, found):  # type: ignore[no-untyped-def]
    if part.fixed[atom] or part.seen[atom]:
        return found
    part.seen[atom] = True
    members[found] = atom
    return found + 1


@inner
def forget(graph, part, members, found):  # type: ignore[no-untyped-def]
    """Undo the marks that `reach` left."""
    for place in range(found):
        part.seen[members[place]] = False
        for at in range(graph.atom_start[members[place]], graph.atom_start[members[place] + 1]):
            part.seen_clause[abs(graph.atom_clause[at]) - 1] = False
