"""Kernels of MC-SAT: draw a slice, then move uniformly within it.

The slice. Given the world x, a true clause of weight w > 0 is kept with probability 1 − exp(−w); a
false clause of weight w < 0 must stay false with probability 1 − exp(w); hard clauses are always
kept. x satisfies all of these, so unit propagation cannot fail, and it fixes atoms to their current
values: only the set of fixed atoms must be found. The definition of an auxiliary atom that no kept
clause contains is left out; it would connect all atoms in it.

Small components get a uniform draw from all solutions by backtracking. The items of a component are
its free atoms and blocks, in breadth-first order, so that clauses are decided early. Every solution
is visited; the k-th replaces the held one with probability 1/k, so all are equally likely. The
share of solutions in which an atom is true is its exact expectation given the slice
(Rao–Blackwell). A search that exceeds its budget of nodes is given up. Its tree depends on the
component and its surroundings, never on the state within, so giving up does not bias the draw.
Components of more than `FEW_ITEMS` items are given up at once unless they are nearly rigid: a
hundred atoms that kept clauses make equal have two solutions, all true and all false, and drawing
between them changes the mode.

Large components move by Gibbs sweeps, redrawn regions and excursions. All moves preserve the
uniform distribution over the slice. A Gibbs sweep under the model's own weights follows (`mcsat`).
Atoms are averaged by its P(atom | rest), except atoms in hard clauses across units, which the sweep
may not move: these are averaged by E[atom | slice]. Which of the two is fixed at the start, since a
choice that depends on the state would be biased.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.inference.random_numbers import uniform, uniform_below
from lapis.inference.sampling.clause_graph import ClauseGraph, clear_change, flip
from lapis.inference.sampling.gibbs_kernel import move_variable, read_variable, sweep
from lapis.inference.sampling.gibbs_units import GibbsUnits
from lapis.inference.sampling.tally import record_sample
from lapis.runtime.kernels import entry, inner

MAX_ITEMS = 1024
FEW_ITEMS = 64
RIGID_NODES = 4  # an item, in sets of more
RIGID_SOLUTIONS = 16


class BacktrackArrays(NamedTuple):
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


def new_search(graph: ClauseGraph) -> BacktrackArrays:
    num_atoms, num_clauses = len(graph.atom_start) - 1, len(graph.weight)
    return BacktrackArrays(
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
    """Set the atoms `members[:found]` to a uniform draw from all solutions, others fixed.

    Returns the number of solutions; −1, without any change, if there are too many items or nodes.
    """
    items = _list_items(graph, units, part, search, members, found)
    if items < 0:
        return -1
    _open_clauses(graph, world, part, search, members, found)
    most = items * budget  # no limit: a solution needs at least one node
    if items > FEW_ITEMS:
        budget, most = min(budget, RIGID_NODES * items), RIGID_SOLUTIONS
    solutions = _enumerate_solutions(graph, part, search, items, budget, most, rng)
    _close_clauses(graph, search, members, found)
    if solutions <= 0:
        return solutions
    for item in range(items):
        for at in range(search.item_start[item], search.item_start[item + 1]):
            atom = np.int64(search.item_atom[at])
            if atom >= graph.first_auxiliary:
                continue  # determined by the others
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
    """Count true literals outside the component for its active clauses."""
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
def _set_item(graph, part, search, item, state, step):  # type: ignore[no-untyped-def]
    """Set an item to a state (step 1) or undo it (−1); False if a clause is falsified."""
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
def _enumerate_solutions(graph, part, search, items, budget, most, rng):  # type: ignore[no-untyped-def]
    """Return the number of solutions; −1 if more than `most`, or more nodes than `budget`."""
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
            _set_item(graph, part, search, depth, search.state[depth], -1)
        search.state[depth] += 1
        if search.state[depth] == search.item_states[depth]:
            depth -= 1
            continue
        nodes += 1
        if nodes > budget:
            return -1
        if _set_item(graph, part, search, depth, search.state[depth], 1):
            depth += 1
            search.state[depth] = -1
    return solutions


RIGID_WEIGHT = 3.0  # least weight of a nearly hard clause


class Slice(NamedTuple):
    """The constraints of one sample; kernels change the arrays in place."""

    weight: np.ndarray  # float64[num_clauses], +inf: must be true, −inf: must be false, 0: free
    active: np.ndarray  # bool[num_clauses], kept and not yet satisfied by fixed atoms
    open_literals: np.ndarray  # int32[num_clauses], literals of atoms not fixed
    fixed: np.ndarray  # bool[num_atoms]
    block_open: np.ndarray  # int32[num_variables], atoms of a block not fixed
    needed: np.ndarray  # bool[num_auxiliary]
    queue: np.ndarray  # int32[num_atoms]
    seen: np.ndarray  # bool[num_atoms]
    seen_clause: np.ndarray  # bool[num_clauses]


def new_slice(graph: ClauseGraph, units: GibbsUnits) -> Slice:
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
def draw_constraints(graph, units, keep, world, part, rng):  # type: ignore[no-untyped-def]
    """Draw a slice and propagate its unit clauses."""
    kept = draw_slice(graph, keep, world, part, rng)
    return kept, propagate(graph, units, world, part)


@inner
def draw_slice(graph, keep, world, part, rng):  # type: ignore[no-untyped-def]
    """Keep each clause with probability keep[clause]; return the number of soft ones kept."""
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
    """Activate the definitions of auxiliary atoms in kept clauses."""
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
    """Mark the atoms that kept clauses and blocks fix, by unit propagation; return their number."""
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
    """Fix the block of a true atom, or of the last candidate of an exactly-one block."""
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
def find_component(graph, units, part, seed, limit, members):  # type: ignore[no-untyped-def]
    """Find the free atoms that active clauses and blocks connect to `seed`, breadth-first.

    Writes about `limit` of them to `members` (blocks are never divided); marks them `seen`, and
    their clauses `seen_clause`. Returns their number, and whether a clause is (nearly) hard.
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
                    found = _add_member(part, units.variable_atom[at], members, found)
        for at in range(graph.atom_start[atom], graph.atom_start[atom + 1]):
            clause = abs(graph.atom_clause[at]) - 1
            if not part.active[clause] or part.seen_clause[clause]:
                continue
            part.seen_clause[clause] = True
            if graph.weight[clause] >= RIGID_WEIGHT and graph.definition_of[clause] < 0:
                rigid = True
            for place in range(graph.clause_start[clause], graph.clause_start[clause + 1]):
                if found < limit:
                    found = _add_member(part, abs(graph.literal[place]) - 1, members, found)
    return found, rigid


@inner
def _add_member(part, atom, members, found):  # type: ignore[no-untyped-def]
    if part.fixed[atom] or part.seen[atom]:
        return found
    part.seen[atom] = True
    members[found] = atom
    return found + 1


@inner
def clear_marks(graph, part, members, found):  # type: ignore[no-untyped-def]
    """Clear the marks of `find_component`."""
    for place in range(found):
        part.seen[members[place]] = False
        for at in range(graph.atom_start[members[place]], graph.atom_start[members[place] + 1]):
            part.seen_clause[abs(graph.atom_clause[at]) - 1] = False


REGION_ATOMS = 24
ATOMS_A_REGION = 12  # atoms of a rigid component for each redrawn region
EXCURSION_STEPS = 200
COLD = 0.2  # probability of accepting one more violated clause during an excursion

# Positions in the int64 array of events.
SOLVED, LARGE, KEPT, REGIONS, EXCURSIONS, RETURNED = range(6)
NUM_EVENTS = 6


class Moves(NamedTuple):
    """Options of the moves within a slice."""

    node_budget: int
    sweeps: int


class Scratch(NamedTuple):
    """Working arrays of a chain."""

    members: np.ndarray  # int32[num_atoms], atoms of a component
    region: np.ndarray  # int32[num_atoms]
    order: np.ndarray  # int32[num_units], units of large components
    in_order: np.ndarray  # bool[num_units]
    log_variable: np.ndarray  # int32[EXCURSION_STEPS]
    log_state: np.ndarray  # int32[EXCURSION_STEPS]
    score: np.ndarray  # float64[max_states]
    digit: np.ndarray  # int64[max_variables]
    everything: np.ndarray  # int32[num_units]
    conditional: np.ndarray  # float64[num_base_atoms], P(atom | rest)
    frozen: np.ndarray  # bool[num_base_atoms], averaged over the slice


def new_scratch(graph: ClauseGraph, units: GibbsUnits, frozen: np.ndarray) -> Scratch:
    num_atoms = len(graph.atom_start) - 1
    num_units = len(units.single)
    return Scratch(
        np.zeros(num_atoms, np.int32),
        np.zeros(num_atoms, np.int32),
        np.zeros(num_units, np.int32),
        np.zeros(num_units, bool),
        np.zeros(EXCURSION_STEPS, np.int32),
        np.zeros(EXCURSION_STEPS, np.int32),
        np.zeros(units.max_states),
        np.zeros(int(np.diff(units.unit_start).max(initial=1)), np.int64),
        np.arange(num_units, dtype=np.int32),
        np.zeros(len(frozen)),
        frozen,
    )


@inner
def _is_free(graph, units, part, atom):  # type: ignore[no-untyped-def]
    """Test whether no active clause and no block constrains the atom."""
    if atom < graph.first_auxiliary and units.is_block[units.variable_of_atom[atom]]:
        return False
    for at in range(graph.atom_start[atom], graph.atom_start[atom + 1]):
        if part.active[abs(graph.atom_clause[at]) - 1]:
            return False
    return True


@inner
def _add_units(graph, units, scratch, found, large):  # type: ignore[no-untyped-def]
    for place in range(found):
        atom = scratch.members[place]
        if atom < graph.first_auxiliary:
            unit = units.unit_of_variable[units.variable_of_atom[atom]]
            if not scratch.in_order[unit]:
                scratch.in_order[unit] = True
                scratch.order[large] = unit
                large += 1
    return large


@inner
def _move_rigid(graph, units, world, part, search, scratch, moves, found, estimate, events, rng):  # type: ignore[no-untyped-def]
    """Redraw regions of a large component in which single flips are blocked.

    The component's marks are cleared for the searches of regions, and set again.
    """
    clear_marks(graph, part, scratch.members, found)
    for _ in range(1 + found // ATOMS_A_REGION):
        seed = np.int64(scratch.members[uniform_below(rng, found)])
        size, _ = find_component(graph, units, part, seed, REGION_ATOMS, scratch.region)
        clear_marks(graph, part, scratch.region, size)
        solutions = draw_solution(
            graph, units, world, part, search, scratch.region, size, moves.node_budget,
            estimate, rng,
        )  # fmt: skip
        events[REGIONS] += 1
        if solutions < 0:
            for _ in range(size):
                events[EXCURSIONS] += 1
                events[RETURNED] += _excursion(graph, units, world, part, scratch, size, rng)
    for place in range(found):
        part.seen[scratch.members[place]] = True


@inner
def _excursion(graph, units, world, part, scratch, size, rng):  # type: ignore[no-untyped-def]
    """Leave the solutions by annealing moves within a region until the next solution.

    A Metropolis chain at a fixed temperature, exp(−violated/T), observed only at solutions, is
    uniform over them. Paths and their reversals are equally likely, so undoing paths that take too
    long preserves detailed balance. Returns 1 if a solution was reached, 0 if undone.
    """
    clear_change(world)
    violated = 0.0
    for step in range(EXCURSION_STEPS):
        atom = scratch.region[uniform_below(rng, size)]
        scratch.log_variable[step] = -1
        if atom < graph.first_auxiliary:
            variable = np.int64(units.variable_of_atom[atom])
            old = read_variable(units, world, variable)
            new = (
                old + 1 + uniform_below(rng, units.variable_size[variable] - 1)
            ) % units.variable_size[variable]
            move_variable(graph, units, part.weight, world, variable, old, new)
            after = world.change[1]
            if after > violated and uniform(rng) >= COLD ** (after - violated):
                move_variable(graph, units, part.weight, world, variable, new, old)
            else:
                scratch.log_variable[step] = variable
                scratch.log_state[step] = old
                violated = after
        if violated == 0:
            return 1
    for step in range(EXCURSION_STEPS - 1, -1, -1):
        variable = np.int64(scratch.log_variable[step])
        if variable >= 0:
            new = read_variable(units, world, variable)
            move_variable(graph, units, part.weight, world, variable, new, scratch.log_state[step])
    return 0


@entry
def run_mcsat(
    graph, units, keep, world, part, search, scratch, moves, estimate, events, rng, tallies,
    num_samples,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Draw and record samples."""
    for _ in range(num_samples):
        events[KEPT] += draw_slice(graph, keep, world, part, rng)
        propagate(graph, units, world, part)
        large = 0
        for atom in range(len(graph.atom_start) - 1):
            if part.seen[atom]:
                continue
            if part.fixed[atom]:
                if atom < graph.first_auxiliary:
                    estimate[atom] = world.value[atom]
                continue
            found, rigid = find_component(graph, units, part, atom, len(part.seen), scratch.members)
            if found == 1 and _is_free(graph, units, part, atom):
                if atom < graph.first_auxiliary:
                    estimate[atom] = 0.5
                    if uniform(rng) < 0.5:
                        flip(graph, part.weight, world, atom)
                continue
            solutions = -1
            if found <= MAX_ITEMS:
                solutions = draw_solution(
                    graph, units, world, part, search, scratch.members, found,
                    moves.node_budget, estimate, rng,
                )  # fmt: skip
            if solutions >= 0:
                events[SOLVED] += 1
                continue
            events[LARGE] += 1
            large = _add_units(graph, units, scratch, found, large)
            if rigid:
                _move_rigid(
                    graph, units, world, part, search, scratch, moves, found, estimate, events, rng
                )
        for place in range(large):
            scratch.in_order[scratch.order[place]] = False
        for number in range(moves.sweeps + 1):  # within the slice, then under the model's weights
            last = number == moves.sweeps
            sweep(
                graph, units, graph.weight if last else part.weight, 1.0, scratch.score[:0], world,
                scratch.everything if last else scratch.order[:large],
                scratch.conditional if last else estimate, rng, scratch.score, scratch.digit,
            )  # fmt: skip
        for atom in range(len(estimate)):
            if not scratch.frozen[atom]:
                estimate[atom] = scratch.conditional[atom]
        record_sample(tallies, estimate, world.count, world.value)
