"""One MC-SAT sample: draw a slice, then move uniformly within it.

Each of the moves below leaves the uniform distribution over the slice's solutions unchanged:
coins for free atoms, a drawn solution for a small component, Gibbs sweeps, redrawn regions and
excursions for a large one. A Gibbs sweep under the model's own weights follows: where two strong
clauses exclude each other the slice keeps the one that happens to hold, and only a look at both
weights gets out of that. Atoms are averaged by the sweep's P(atom | rest), except those that hard
clauses may freeze in it: they are averaged by E[atom | slice]. Which is which is known from the
start; choosing by the state would be a bias.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.inference.random_numbers import below, uniform
from lapis.inference.sampling.gibbs_units import Units
from lapis.inference.sampling.kernels.clause_graph import ClauseGraph, clear_change, flip
from lapis.inference.sampling.kernels.gibbs import move_variable, read_variable, sweep
from lapis.inference.sampling.kernels.slice import draw_slice, forget, propagate, reach
from lapis.inference.sampling.kernels.solutions import MAX_ITEMS, draw_solution
from lapis.inference.sampling.kernels.tally import record_sample
from lapis.runtime.kernels import entry, inner

REGION_ATOMS = 24
ATOMS_A_REGION = 12  # one region is redrawn for so many atoms of a rigid component
EXCURSION_STEPS = 200
COLD = 0.2  # probability of accepting one more violated clause during an excursion

# Positions in the int64 array of what happened.
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


def new_scratch(graph: ClauseGraph, units: Units, frozen: np.ndarray) -> Scratch:
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
    """No active clause and no block constrains the atom."""
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
    """Moves for a large component that single atoms cannot move through.

    The component's marks are cleared for the regions' own searches, and set again.
    """
    forget(graph, part, scratch.members, found)
    for _ in range(1 + found // ATOMS_A_REGION):
        seed = np.int64(scratch.members[below(rng, found)])
        size, _ = reach(graph, units, part, seed, REGION_ATOMS, scratch.region)
        forget(graph, part, scratch.region, size)
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
    """Leave the solutions by annealing moves within a region, and stop on coming back.

    Metropolis at a fixed temperature, exp(−violated/T), looked at only where nothing is violated,
    is a chain whose equilibrium is uniform there. Paths and their reversals are equally likely,
    so undoing those that are not back in time keeps the balance. Returns 1 if it came back.
    """
    clear_change(world)
    violated = 0.0
    for step in range(EXCURSION_STEPS):
        atom = scratch.region[below(rng, size)]
        scratch.log_variable[step] = -1
        if atom < graph.first_auxiliary:
            variable = np.int64(units.variable_of_atom[atom])
            old = read_variable(units, world, variable)
            new = (old + 1 + below(rng, units.variable_size[variable] - 1)) % units.variable_size[
                variable
            ]
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
    """Samples, each of them tallied."""
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
            found, rigid = reach(graph, units, part, atom, len(part.seen), scratch.members)
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
                graph, units, graph.weight if last else part.weight, 1.0, world,
                scratch.everything if last else scratch.order[:large],
                scratch.conditional if last else estimate, rng, scratch.score, scratch.digit,
            )  # fmt: skip
        for atom in range(len(estimate)):
            if not scratch.frozen[atom]:
                estimate[atom] = scratch.conditional[atom]
        record_sample(tallies, estimate, world.count, world.value)
