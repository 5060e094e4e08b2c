"""Visit atoms or blocks one after the other, compute their differences and flip or draw them.

Without derived atoms the difference of an atom is computed before it flips. With derived atoms the
atom flips together with the derived atoms that change, and the flips are undone if it is rejected.
A block is emptied, the difference of each value is computed, and one value is chosen.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lapis.counting.nested_loops_kernel import (
    NO_ROOM_FOR_ATOMS,
    NO_ROOM_FOR_DIFFERENCES,
    NO_ROOM_FOR_FLIPS,
    NUM_CHANGED,
    NUM_FLIPS,
    NUM_TOUCHED,
    SHORTAGE,
    contains_atom,
    find_place,
    has_room,
    run_program,
    toggle_atom,
)
from lapis.runtime.kernels import entry, inner

LOOK, FLIP, DRAW = 0, 1, 2  # flip never, always, or by score and noise
LARGEST_SCORE = 700.0  # exp beyond this overflows


class LoopProgram(NamedTuple):
    """The loops around the atoms of all visited predicates."""

    code: np.ndarray  # word[...]; `word` is int64, object in wide worlds
    number: np.ndarray  # float64[...], of constants that are compared
    entry: np.ndarray  # int64[num_predicates, 2], start of the loops of false and of true atoms
    definition: np.ndarray  # int64[num_definitions], derived predicates in order


class FlipState(NamedTuple):
    """Work arrays of the kernels, and the changes of the counts since the last flush."""

    value: np.ndarray  # word[num_slots], of variables
    total: np.ndarray  # word[num_registers]
    cursor: np.ndarray  # int64[num_cursors], of loops
    change: np.ndarray  # word[num_weights + 1], by a flip; the last is of hard rules
    is_changed: np.ndarray  # bool[num_weights + 1]
    changed: np.ndarray  # int64[num_weights + 1], the changed weights
    moved: np.ndarray  # word[num_weights + 1], by all flips so far
    level: np.ndarray  # int64[5], fill levels and the reason why a kernel stopped
    flip_predicate: np.ndarray  # int64[room]
    flip: np.ndarray  # word[room], atoms that were flipped since a visit began
    touched_predicate: np.ndarray  # int64[room]
    touched: np.ndarray  # word[room], derived atoms whose witness counts changed
    touched_number: np.ndarray  # word[room], the changes of the witness counts
    derived: np.ndarray  # word[num_places], derived atoms in an open-addressing table
    witnesses: np.ndarray  # word[num_places], of each


class AtomVisits(NamedTuple):
    """Atoms in the order of visits, and the results."""

    predicate: np.ndarray  # int64[n]
    atom: np.ndarray  # word[n]
    noise: np.ndarray  # float64[n], or empty
    truth: np.ndarray  # bool[n], before
    flipped: np.ndarray  # bool[n]
    probability: np.ndarray  # float64[n], P(true | rest) of drawn atoms
    start: np.ndarray  # int64[n + 1], starts of the differences; empty if they are not recorded
    column: np.ndarray  # int64[...], weights, and the number of weights for all hard rules
    value: np.ndarray  # word[...], n(atom = 1) − n(atom = 0)


@entry
def visit_atoms(mode, layout, relations, program, state, weights, visits, begin, end):  # type: ignore[no-untyped-def]
    """Visit atoms from `begin` on; return the next one, `end` unless an array is full."""
    for number in range(begin, end):
        predicate, atom = visits.predicate[number], visits.atom[number]
        truth = contains_atom(relations, atom)
        propagate_flip(layout, relations, program, state, predicate, atom)
        if state.level[SHORTAGE] == 0 and len(visits.start) > 0:
            record_differences(state, visits, number, -1 if truth else 1)
        if state.level[SHORTAGE] != 0:
            undo_flips(layout, relations, state)
            clear_changes(state)
            return number
        flips = mode == FLIP
        if mode == DRAW:
            score, hard = score_change(state, weights)
            if truth:
                score, hard = -score, -hard
            if hard != 0:
                value = hard > 0
                visits.probability[number] = 1.0 if value else 0.0
            else:
                value = score + visits.noise[number] > 0
                visits.probability[number] = 1.0 / (1.0 + math.exp(min(LARGEST_SCORE, -score)))
            flips = value != truth
        visits.truth[number], visits.flipped[number] = truth, flips
        if flips:
            accept_flip(layout, relations, program, state, predicate, atom)
        else:
            undo_flips(layout, relations, state)
        clear_changes(state)
    return end


@inner
def score_change(state, weights):  # type: ignore[no-untyped-def]
    """Return the change of the score, and of the satisfied hard groundings."""
    score, hard = 0.0, len(state.change) - 1
    for at in range(state.level[NUM_CHANGED]):
        weight = state.changed[at]
        if weight < hard:
            score += weights[weight] * state.change[weight]
    return score, state.change[hard]


@inner
def accept_flip(layout, relations, program, state, predicate, atom):  # type: ignore[no-untyped-def]
    """Accept the flip of `propagate_flip` and add its changes to `moved`."""
    if len(program.definition) == 0:
        toggle_atom(layout, relations, predicate, atom)
    for at in range(state.level[NUM_CHANGED]):
        weight = state.changed[at]
        state.moved[weight] += state.change[weight]


@inner
def propagate_flip(layout, relations, program, state, predicate, atom):  # type: ignore[no-untyped-def]
    """Compute the changes of a flip; with derived atoms, flip the atom and those that change."""
    if len(program.definition) == 0:
        if not has_room(layout, relations, predicate):
            state.level[SHORTAGE] = NO_ROOM_FOR_ATOMS
            return
        _add_changes(layout, relations, program, state, predicate, atom)
        _shell_sort(state.changed, state.level[NUM_CHANGED])
        return
    _flip_one(layout, relations, program, state, predicate, atom)
    for at in range(len(program.definition)):
        touched = 0
        while touched < state.level[NUM_TOUCHED]:
            if state.touched_predicate[touched] == program.definition[at]:
                derived = state.touched[touched]
                holds = state.witnesses[find_place(state.derived, derived)] > 0
                if holds != contains_atom(relations, derived) and state.level[SHORTAGE] == 0:
                    own = state.touched_predicate[touched]
                    _flip_one(layout, relations, program, state, own, derived)
            touched += 1
    _shell_sort(state.changed, state.level[NUM_CHANGED])


@inner
def _flip_one(layout, relations, program, state, predicate, atom):  # type: ignore[no-untyped-def]
    level = state.level
    if not has_room(layout, relations, predicate):
        level[SHORTAGE] = NO_ROOM_FOR_ATOMS
        return
    if level[NUM_FLIPS] == len(state.flip):
        level[SHORTAGE] = NO_ROOM_FOR_FLIPS
        return
    _add_changes(layout, relations, program, state, predicate, atom)
    toggle_atom(layout, relations, predicate, atom)
    state.flip_predicate[level[NUM_FLIPS]], state.flip[level[NUM_FLIPS]] = predicate, atom
    level[NUM_FLIPS] += 1


@inner
def _add_changes(layout, relations, program, state, predicate, atom):  # type: ignore[no-untyped-def]
    """Add the changes of flipping one atom with all others fixed."""
    rest, arity = atom - layout.offset[predicate], layout.arity[predicate]
    for position in range(arity - 1, -1, -1):
        state.value[1 + position] = rest % layout.size[predicate, position]
        rest //= layout.size[predicate, position]
    if contains_atom(relations, atom):
        run_program(program, relations, state, -1, program.entry[predicate, 1])
    else:
        run_program(program, relations, state, 1, program.entry[predicate, 0])


@inner
def undo_flips(layout, relations, state):  # type: ignore[no-untyped-def]
    for at in range(state.level[NUM_FLIPS] - 1, -1, -1):
        toggle_atom(layout, relations, state.flip_predicate[at], state.flip[at])
    for at in range(state.level[NUM_TOUCHED]):
        state.witnesses[find_place(state.derived, state.touched[at])] -= state.touched_number[at]


@inner
def clear_changes(state):  # type: ignore[no-untyped-def]
    for at in range(state.level[NUM_CHANGED]):
        weight = state.changed[at]
        state.change[weight], state.is_changed[weight] = 0, 0
    state.level[NUM_CHANGED] = state.level[NUM_FLIPS] = state.level[NUM_TOUCHED] = 0


@inner
def record_differences(state, visits, number, sign):  # type: ignore[no-untyped-def]
    """Record the nonzero differences n(atom = 1) − n(atom = 0), if there is room."""
    end = visits.start[number]
    if end + state.level[NUM_CHANGED] > len(visits.column):
        state.level[SHORTAGE] = NO_ROOM_FOR_DIFFERENCES
        return
    for at in range(state.level[NUM_CHANGED]):
        weight = state.changed[at]
        if state.change[weight] != 0:
            visits.column[end], visits.value[end] = weight, sign * state.change[weight]
            end += 1
    visits.start[number + 1] = end


@inner
def _shell_sort(numbers, length):  # type: ignore[no-untyped-def]
    """Sort (Shell sort), so that scores are summed in the same order for all loop orders."""
    gap = 1
    while gap < length:
        gap = 3 * gap + 1
    while gap > 0:
        for at in range(gap, length):
            number, to = numbers[at], at
            while to >= gap and numbers[to - gap] > number:
                numbers[to] = numbers[to - gap]
                to -= gap
            numbers[to] = number
        gap //= 3


class BlockVisits(NamedTuple):
    """Blocks in the order of visits, and the results; the last value of each is the empty block."""

    start: np.ndarray  # int64[num_blocks + 1], of their atoms
    is_exact: np.ndarray  # bool[num_blocks], may not be empty
    noise: np.ndarray  # float64[num_atoms + num_blocks], of values
    taken: np.ndarray  # int64[num_blocks], the chosen values
    score: np.ndarray  # float64[num_atoms + num_blocks], −inf if hard rules exclude the value
    hard: np.ndarray  # word[num_atoms + num_blocks], satisfied hard groundings minus those if empty


@entry
def visit_blocks(layout, relations, program, state, weights, visits, blocks, begin, end, resumes):  # type: ignore[no-untyped-def]
    """Visit blocks from `begin` on; return the next one, `end` unless an array is full.

    The block at which it stops may be empty by then: `resumes` must be true to continue with it. In
    `visits`, `truth` is that before the visit, and differences are from the empty block.
    """
    for block in range(begin, end):
        first, last = blocks.start[block], blocks.start[block + 1]
        if block > begin or not resumes:
            for at in range(first, last):
                visits.truth[at] = contains_atom(relations, visits.atom[at])
        for at in range(first, last):
            if contains_atom(relations, visits.atom[at]):
                _flip_visited(layout, relations, program, state, visits, at)
        for at in range(first, last):
            if state.level[SHORTAGE] == 0:
                propagate_flip(
                    layout, relations, program, state, visits.predicate[at], visits.atom[at]
                )
            if state.level[SHORTAGE] == 0 and len(visits.start) > 0:
                record_differences(state, visits, at, 1)
            blocks.score[at + block], blocks.hard[at + block] = score_change(state, weights)
            undo_flips(layout, relations, state)
            clear_changes(state)
        if state.level[SHORTAGE] == 0:
            taken = _choose_value(blocks, block)
            blocks.taken[block] = taken
            if first + taken < last:
                _flip_visited(layout, relations, program, state, visits, first + taken)
        if state.level[SHORTAGE] != 0:
            return block
    return end


@inner
def _flip_visited(layout, relations, program, state, visits, at):  # type: ignore[no-untyped-def]
    """Flip an atom, unless an array is full."""
    predicate, atom = visits.predicate[at], visits.atom[at]
    if state.level[SHORTAGE] == 0:
        propagate_flip(layout, relations, program, state, predicate, atom)
        if state.level[SHORTAGE] == 0:
            accept_flip(layout, relations, program, state, predicate, atom)
        else:
            undo_flips(layout, relations, state)
        clear_changes(state)


@inner
def _choose_value(blocks, block):  # type: ignore[no-untyped-def]
    """Choose the best noisy score among the values that violate the fewest hard groundings."""
    first, last = blocks.start[block] + block, blocks.start[block + 1] + block
    blocks.score[last], blocks.hard[last] = 0.0, 0
    if not blocks.is_exact[block]:
        last += 1
    else:
        blocks.score[last] = -math.inf
    most = blocks.hard[first]
    for at in range(first, last):
        most = max(most, blocks.hard[at])
    best, taken = -math.inf, first
    for at in range(first, last):
        if blocks.hard[at] < most:
            blocks.score[at] = -math.inf
        elif blocks.score[at] + blocks.noise[at] > best:
            best, taken = blocks.score[at] + blocks.noise[at], at
    return taken - first
