"""A uniform draw from all solutions of a small set of constraints, by backtracking.

The items of a set are its free atoms and blocks, in breadth-first order, so that clauses close
early. Every solution is visited; the k-th replaces the one held with probability 1/k, which
leaves each equally likely, and the share of solutions in which an atom is true is its exact
expectation given the slice (Rao–Blackwell). A search over its budget of nodes is given up: the
tree it walks depends on the set and on what is around it, never on the state within, so giving
up leaves the uniform distribution as it was.

Sets of more than `FEW_ITEMS` items are given up at once unless they are all but rigid: a hundred
atoms that kept clauses make equal have two solutions, all true and all false, which is how a chain
crosses between two modes. A loose set shows many solutions on the first way down.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.inference.random_numbers import uniform
from lapis.inference.sampling.kernels.clause_graph import ClauseGraph, flip
from lapis.runtime.kernels import entry, inner

MAX_ITEMS = 1024
FEW_ITEMS = 64
RIGID_NODES = 4  # an item, in sets of more
RIGID_SOLUTIONS = 16


class Search(NamedTuple):
    """Working arrays of the backtracking search."""

    inside: np.ndarray  # bool[num_atoms], atoms of the set
    listed: np.ndarray  # bool[num_atoms], atoms already in an item
    true: np.ndarray  # int32[num_clauses], true literals so far
    open: np.ndarray  # int32[num_clauses], literals not decided yet
    ready: np.ndarray  # bool[num_clauses], counters set up
    item_start: np.ndarray  # int64[MAX_ITEMS + 1]
    item_atom: np.ndarray  # int32[num_atoms]
    item_states: np.ndarray  # int32[MAX_ITEMS]
    item_is_block: np.ndarray  # bool[MAX_ITEMS]
    state: np.ndarray  # int64[MAX_ITEMS + 1]
    held: np.ndarray  # int64[MAX_ITEMS]
    share: np.ndarray  # float64[num_atoms], solutions in which an atom is true


def new_search(graph: ClauseGraph) -> Search:
    num_atoms, num_clauses = len(graph.atom_start) - 1, len(graph.weight)
    return Search(
        np.zeros(num_atoms, bool),
        np.zeros(num_atoms, bool),
        np.zeros(num_clauses, np.int32),
        np.zeros(num_clauses, np.int32),
        np.zeros(num_clauses, bool),
        np.zeros(MAX_ITEMS + 1, np.int64),
        np.zeros(num_atoms, np.int32),
        np.zeros(MAX_ITEMS, np.int32),
        np.zeros(MAX_ITEMS, bool),
        np.zeros(MAX_ITEMS + 1, np.int64),
        np.zeros(MAX_ITEMS, np.int64),
        np.zeros(num_atoms),
    )


@entry
def draw_solution(graph, units, world, part, search, members, found, budget, estimate, rng):  # type: ignore[no-untyped-def]
    """Give the atoms `members[:found]` a uniformly drawn solution, the others being as they are.

    Returns the number of solutions; −1 if there are too many items or nodes, and then nothing
    has changed.
    """
    items = _list_items(graph, units, part, search, members, found)
    if items < 0:
        return -1
    _open_clauses(graph, world, part, search, members, found)
    most = items * budget  # no limit: a solution takes a node or more
    if items > FEW_ITEMS:
        budget, most = min(budget, RIGID_NODES * items), RIGID_SOLUTIONS
    solutions = _search(graph, part, search, items, budget, most, rng)
    _close_clauses(graph, search, members, found)
    if solutions <= 0:
        return solutions
    for item in range(items):
        for at in range(search.item_start[item], search.item_start[item + 1]):
            atom = np.int64(search.item_atom[at])
            if atom >= graph.first_auxiliary:
                continue  # follows from the others
            estimate[atom] = search.share[at] / solutions
            is_true = _is_true(search, item, at, search.held[item])
            if (world.value[atom] == 1) != is_true:
                flip(graph, part.weight, world, atom)
    return solutions


@inner
def _list_items(graph, units, part, search, members, found):  # type: ignore[no-untyped-def]
    items, end = 0, 0
    for place in range(found):
        search.listed[members[place]] = False
    for place in range(found):
        atom = members[place]
        if search.listed[atom]:
            continue
        if items == MAX_ITEMS:
            return -1
        search.item_is_block[items] = False
        if atom < graph.first_auxiliary and units.is_block[units.variable_of_atom[atom]]:
            variable = units.variable_of_atom[atom]
            first, last = units.variable_start[variable], units.variable_start[variable + 1]
            search.item_is_block[items] = True
            for at in range(first, last):
                if not part.fixed[units.variable_atom[at]]:
                    search.listed[units.variable_atom[at]] = True
                    search.item_atom[end] = units.variable_atom[at]
                    end += 1
            may_be_empty = units.variable_size[variable] > last - first
            search.item_states[items] = end - search.item_start[items] + may_be_empty
        else:
            search.item_atom[end] = atom
            search.item_states[items] = 2
            end += 1
        items += 1
        search.item_start[items] = end
    return items


@inner
def _open_clauses(graph, world, part, search, members, found):  # type: ignore[no-untyped-def]
    """Count, for the active clauses of the set, what is decided outside it."""
    for place in range(found):
        search.inside[members[place]] = True
    for place in range(found):
        for at in range(graph.atom_start[members[place]], graph.atom_start[members[place] + 1]):
            clause = abs(graph.atom_clause[at]) - 1
            if not part.active[clause] or search.ready[clause]:
                continue
            search.ready[clause] = True
            true, free = 0, 0
            for other in range(graph.clause_start[clause], graph.clause_start[clause + 1]):
                signed = graph.literal[other]
                if search.inside[abs(signed) - 1]:
                    free += 1
                else:
                    true += (world.value[abs(signed) - 1] == 1) == (signed > 0)
            search.true[clause] = true
            search.open[clause] = free


@inner
def _close_clauses(graph, search, members, found):  # type: ignore[no-untyped-def]
    for place in range(found):
        search.inside[members[place]] = False
        for at in range(graph.atom_start[members[place]], graph.atom_start[members[place] + 1]):
            search.ready[abs(graph.atom_clause[at]) - 1] = False


@inner
def _is_true(search, item, at, state):  # type: ignore[no-untyped-def]
    if search.item_is_block[item]:
        return at - search.item_start[item] == state
    return state == 1


@inner
def _decide(graph, part, search, item, state, step):  # type: ignore[no-untyped-def]
    """Put an item into a state (step 1) or take it back (−1); false if a clause is falsified."""
    holds = True
    for at in range(search.item_start[item], search.item_start[item + 1]):
        atom = search.item_atom[at]
        is_true = _is_true(search, item, at, state)
        for place in range(graph.atom_start[atom], graph.atom_start[atom + 1]):
            signed = graph.atom_clause[place]
            clause = abs(signed) - 1
            if not part.active[clause]:
                continue
            search.open[clause] -= step
            if (signed > 0) == is_true:
                search.true[clause] += step
            elif search.open[clause] == 0 and search.true[clause] == 0:
                holds = False
    return holds


@inner
def _search(graph, part, search, items, budget, most, rng):  # type: ignore[no-untyped-def]
    """The number of solutions, or −1 if there are more than `most`, or more nodes than budget."""
    for at in range(search.item_start[items]):
        search.share[at] = 0.0
    solutions, nodes, depth = 0, 0, 0
    search.state[0] = -1
    while depth >= 0:
        if depth == items:
            solutions += 1
            if solutions > most:
                return -1
            hold = uniform(rng) * solutions < 1.0
            for item in range(items):
                state = search.state[item]
                if hold:
                    search.held[item] = state
                first, last = search.item_start[item], search.item_start[item + 1]
                if search.item_is_block[item]:
                    if state < last - first:
                        search.share[first + state] += 1.0
                else:
                    search.share[first] += state
            depth -= 1
            continue
        if search.state[depth] >= 0:
            _decide(graph, part, search, depth, search.state[depth], -1)
        search.state[depth] += 1
        if search.state[depth] == search.item_states[depth]:
            depth -= 1
            continue
        nodes += 1
        if nodes > budget:
            return -1
        if _decide(graph, part, search, depth, search.state[depth], 1):
            depth += 1
            search.state[depth] = -1
    return solutions
