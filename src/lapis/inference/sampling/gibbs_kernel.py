"""Kernels of Gibbs sweeps, and of annealing runs made of them.

    P(unit = s | rest) ∝ exp(β · Σ soft clauses true in s + Σ fields of the atoms true in s)
                         · 1[no hard clause false in s]

Only the paths that weigh modes have fields (`mode_weights`).

A single atom needs only the clauses in which no other literal is true. The joint states of a block
or a group are visited in reflected mixed-radix Gray order, in which consecutive states differ in
one variable: each step is one flip (two in a block), and the counters give the score.
"""

from __future__ import annotations

import numpy as np

from lapis.inference.random_numbers import uniform
from lapis.inference.sampling.clause_graph import clear_change, flip
from lapis.runtime.kernels import entry, inner


@inner
def sweep(graph, units, weight, beta, field, world, order, estimate, rng, score, digit):  # type: ignore[no-untyped-def]
    """Resample the units of `order` in turn; write P(atom | rest) to `estimate`.

    `field` is empty or has a value for each base atom.
    Returns the number of atoms resampled and of atoms whose value changed.
    """
    updates, changes = 0, 0
    value, true_literals = world.value, world.true_literals
    for place in range(len(order)):
        unit = np.int64(order[place])
        atom = np.int64(units.single[unit])
        if atom < 0:
            more, moved = resample_unit(
                graph, units, weight, beta, field, world, unit, estimate, rng, score, digit
            )
            updates += more
            changes += moved
            continue
        delta, forced = 0.0, 0
        is_true = value[atom] == 1
        for at in range(graph.atom_start[atom], graph.atom_start[atom + 1]):
            signed = graph.atom_clause[at]
            clause = abs(signed) - 1
            if true_literals[clause] != ((signed > 0) == is_true):
                continue  # another literal is true
            toward = weight[clause] if signed > 0 else -weight[clause]
            if np.isinf(toward):
                forced += 1 if toward > 0 else -1
            else:
                delta += toward
        if forced != 0:
            probability = 1.0 if forced > 0 else 0.0
        else:
            pull = field[atom] if len(field) > 0 else 0.0
            probability = 1.0 / (1.0 + np.exp(-beta * delta - pull))
        estimate[atom] = probability
        if (uniform(rng) < probability) != is_true:
            flip(graph, weight, world, atom)
            changes += 1
        updates += 1
    return updates, changes


@inner
def resample_unit(
    graph, units, weight, beta, field, world, unit, estimate, rng, score, digit
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Draw the joint state of a block or group; (atoms resampled, 1 if the state changed)."""
    begin, end = units.unit_start[unit], units.unit_start[unit + 1]
    states = 1
    for place in range(begin, end):
        states *= units.variable_size[units.unit_variable[place]]
    before = read_unit(units, world, begin, end, digit)
    clear_change(world)
    chosen, atoms = 0, 0
    for rank in range(states + 1):  # every state once, then the chosen one
        if rank == states:
            atoms = _estimate_unit(units, begin, end, states, score, estimate)
            chosen = _draw_state(score, states, rng)
        else:
            chosen = rank
        move_unit(graph, units, weight, world, begin, end, chosen, digit)
        if rank < states:
            score[rank] = -np.inf
            if world.change[1] <= 0:
                pull = _unit_field(units, field, world, begin, end) if len(field) > 0 else 0.0
                score[rank] = beta * world.change[0] + pull
    return atoms, 1 if chosen != before else 0


@inner
def _unit_field(units, field, world, begin, end):  # type: ignore[no-untyped-def]
    """Return the sum of the fields of a unit's true atoms."""
    total = 0.0
    for place in range(begin, end):
        variable = np.int64(units.unit_variable[place])
        for at in range(units.variable_start[variable], units.variable_start[variable + 1]):
            atom = units.variable_atom[at]
            if world.value[atom] == 1:
                total += field[atom]
    return total


@inner
def _draw_state(score, states, rng):  # type: ignore[no-untyped-def]
    """Draw a state from the probabilities `score`."""
    target = uniform(rng)
    chosen = -1
    for rank in range(states):
        if score[rank] > 0:
            chosen = rank
            target -= score[rank]
            if target < 0:
                break
    return chosen


@inner
def _estimate_unit(units, begin, end, states, score, estimate):  # type: ignore[no-untyped-def]
    """Convert scores to probabilities of states and of atoms; return the number of atoms."""
    best, total, atoms = -np.inf, 0.0, 0
    for rank in range(states):
        best = max(best, score[rank])
    for rank in range(states):
        score[rank] = np.exp(score[rank] - best)
        total += score[rank]
    for place in range(begin, end):
        variable = np.int64(units.unit_variable[place])
        for at in range(units.variable_start[variable], units.variable_start[variable + 1]):
            estimate[units.variable_atom[at]] = 0.0
            atoms += 1
    for rank in range(states):
        score[rank] /= total
        if score[rank] == 0:
            continue
        rest = rank
        for place in range(begin, end):
            variable = np.int64(units.unit_variable[place])
            state, rest = _gray_digit(rest, units.variable_size[variable])
            atom = true_atom(units, variable, state)
            if atom >= 0:
                estimate[atom] += score[rank]
    return atoms


@inner
def _gray_digit(rank, size):  # type: ignore[no-untyped-def]
    """Return the lowest digit of a rank in reflected Gray order, and the rank of the others."""
    state, rest = rank % size, rank // size
    return (size - 1 - state if rest % 2 == 1 else state), rest


@inner
def true_atom(units, variable, state):  # type: ignore[no-untyped-def]
    """Return the atom that is true in a state of a variable, or −1."""
    first = units.variable_start[variable]
    if units.is_block[variable]:
        inside = state < units.variable_start[variable + 1] - first
        return np.int64(units.variable_atom[first + state] if inside else -1)
    return np.int64(units.variable_atom[first] if state == 1 else -1)


@inner
def read_variable(units, world, variable):  # type: ignore[no-untyped-def]
    """Return the state of a variable."""
    first, last = units.variable_start[variable], units.variable_start[variable + 1]
    if not units.is_block[variable]:
        return int(world.value[units.variable_atom[first]])
    for at in range(first, last):
        if world.value[units.variable_atom[at]] == 1:
            return at - first
    return last - first


@inner
def move_variable(graph, units, weight, world, variable, state, new_state):  # type: ignore[no-untyped-def]
    """Change the state of a variable: one flip, or two in a block."""
    if state == new_state:
        return
    for which in range(2):
        atom = true_atom(units, variable, state if which == 0 else new_state)
        if atom >= 0:
            flip(graph, weight, world, atom)


@inner
def read_unit(units, world, begin, end, digit):  # type: ignore[no-untyped-def]
    """Write the states of a unit's variables to `digit`; return their rank in Gray order."""
    for place in range(begin, end):
        digit[place - begin] = read_variable(units, world, np.int64(units.unit_variable[place]))
    rank = 0
    for place in range(end - 1, begin - 1, -1):
        size = units.variable_size[units.unit_variable[place]]
        state = digit[place - begin]
        rank = rank * size + (size - 1 - state if rank % 2 == 1 else state)
    return rank


@inner
def move_unit(graph, units, weight, world, begin, end, rank, digit):  # type: ignore[no-untyped-def]
    """Set a unit to the state of a Gray rank."""
    for place in range(begin, end):
        variable = np.int64(units.unit_variable[place])
        state, rank = _gray_digit(rank, units.variable_size[variable])
        move_variable(graph, units, weight, world, variable, digit[place - begin], state)
        digit[place - begin] = state


@entry
def run_annealing(graph, units, weights, beta, world, order, estimate, rng, score, digit, trail):  # type: ignore[no-untyped-def]
    """Compute Σ_t (β_t − β_{t−1})·score(world before the sweep at β_t); write scores to `trail`.

    The initial world is a draw at β_0, the final one follows a sweep at the last β.
    """
    total = 0.0
    for step in range(1, len(beta)):
        value = _soft_score(weights, world)
        trail[step - 1] = value
        total += (beta[step] - beta[step - 1]) * value
        sweep(
            graph, units, graph.weight, beta[step], score[:0], world, order, estimate, rng, score,
            digit,
        )  # fmt: skip
    return total


@entry
def run_path(
    graph, units, weights, field, position, world, order, estimate, rng, score, digit, pull
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Compute Σ_s (t_s − t_{s−1}) · (score − Σ fields of true atoms) along positions t_s.

    The distribution at t is ∝ exp(t · score + (1 − t) · Σ fields of true atoms). A sweep at t_s
    follows every step but the last. `pull` is a working array.
    """
    total = 0.0
    for step in range(1, len(position)):
        t, value = position[step], _soft_score(weights, world)
        for atom in range(len(field)):
            if world.value[atom] == 1:
                value -= field[atom]
            pull[atom] = (1.0 - t) * field[atom]
        total += (t - position[step - 1]) * value
        if step < len(position) - 1:
            sweep(
                graph, units, graph.weight, t, pull, world, order, estimate, rng, score, digit
            )  # fmt: skip
    return total


@inner
def _soft_score(weights, world):  # type: ignore[no-untyped-def]
    total = 0.0
    for index in range(len(weights)):
        total += weights[index] * world.count[index]
    return total
