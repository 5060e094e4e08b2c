"""The compiled search of `satisfiability`: propagation with reasons, decisions, refutations.

Rows are clauses, then blocks. Values are set when an atom is put on the trail; the counters of
its rows follow when it is taken up from there. Of a refutation, every conflict's rows and their
reasons are marked as used: with these alone the same decisions meet the same conflicts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.runtime.kernels import allocating_entry, inner

REFUTED, SATISFIED, UNKNOWN = 0, 1, 2
NONE = -1


class Constraints(NamedTuple):
    start: np.ndarray  # int64[num_clauses + 1]
    literal: np.ndarray  # int32[...]
    atom_start: np.ndarray  # int64[num_atoms + 1]
    atom_row: np.ndarray  # int32[...], clause + 1, negative if negated there
    block_start: np.ndarray  # int64[num_blocks + 1]
    block_atom: np.ndarray  # int32[...]
    block_exact: np.ndarray  # bool[num_blocks]
    block_of: np.ndarray  # int32[num_atoms], −1 for none


class State(NamedTuple):
    value: np.ndarray  # int8[num_atoms], 1 true, −1 false, 0 open
    reason: np.ndarray  # int64[num_atoms], the row that forced it, or NONE
    cause: np.ndarray  # int32[num_atoms], the true atom of a block that excludes it, or NONE
    trail: np.ndarray  # int32[num_atoms]
    free: np.ndarray  # int64[num_rows], atoms not taken up yet
    satisfied: np.ndarray  # int64[num_rows], true literals taken up
    queue: np.ndarray  # int32[num_atoms], work space
    is_queued: np.ndarray  # bool[num_atoms]


@allocating_entry
def search(rows, state, order, component, max_steps, used):  # type: ignore[no-untyped-def]
    """REFUTED with the rows used, SATISFIED, or UNKNOWN after so many steps.

    `order` are the atoms, int32[...], component by component.
    """
    decided_at, decided = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    end, conflict = _put_units(rows, state)
    head, depth, steps, at = 0, 0, 0, 0
    has_used = False
    while True:
        while conflict == NONE and head < end:
            end, conflict, looked = _take_up(rows, state, state.trail[head], end)
            head += 1
            steps += looked
        if conflict != NONE:
            steps += _blame(rows, state, conflict, used)
            has_used = True
            if depth == 0:
                return REFUTED
            # Back to the last decision; its other value is no decision.
            depth -= 1
            first, at = decided[depth], decided_at[depth]
            while end > first:
                end -= 1
                if end < head:
                    _lay_down(rows, state, state.trail[end])
                if end > first:
                    state.value[state.trail[end]] = 0
            atom = state.trail[first]
            state.value[atom], state.reason[atom] = -state.value[atom], NONE
            end, head, conflict = first + 1, first, NONE
            continue
        if steps > max_steps:
            return UNKNOWN
        while at < len(order) and state.value[order[at]] != 0:
            at += 1
            if at < len(order) and component[order[at]] != component[order[at - 1]]:
                depth = 0  # a component is settled; what refuted its branches is of no use
                if has_used:
                    used[:] = False
                    has_used = False
        if at == len(order):
            return SATISFIED
        decided[depth], decided_at[depth] = end, at
        depth += 1
        end = _put(state, order[at], -1, NONE, NONE, end)


@inner
def _put(state, atom, value, reason, cause, end):  # type: ignore[no-untyped-def]
    """Set an atom and put it on the trail; the trail's new end."""
    state.value[atom] = value
    state.reason[atom] = reason
    state.cause[atom] = cause
    state.trail[end] = atom
    return end + 1


@inner
def _put_units(rows, state):  # type: ignore[no-untyped-def]
    """What rows of one atom force: the trail's end, and a row that it violates or NONE."""
    num_clauses, end = len(rows.start) - 1, 0
    for row in range(num_clauses):
        state.free[row] = rows.start[row + 1] - rows.start[row]
        if state.free[row] == 0:
            return end, row
        if state.free[row] == 1:
            signed = rows.literal[rows.start[row]]
            atom, wanted = abs(signed) - 1, 1 if signed > 0 else -1
            if state.value[atom] == 0:
                end = _put(state, atom, wanted, row, NONE, end)
            elif state.value[atom] != wanted:
                return end, row
    for block in range(len(rows.block_exact)):
        row, first = num_clauses + block, rows.block_start[block]
        state.free[row] = rows.block_start[block + 1] - first
        if state.free[row] == 1 and rows.block_exact[block]:
            atom = rows.block_atom[first]
            if state.value[atom] == 0:
                end = _put(state, atom, 1, row, NONE, end)
            elif state.value[atom] < 0:
                return end, row
    return end, NONE


@inner
def _take_up(rows, state, atom, end):  # type: ignore[no-untyped-def]
    """Tell the rows of an atom its value: the trail's end, a violated row or NONE, and steps."""
    conflict, steps = NONE, 1
    is_true = state.value[atom] > 0
    for place in range(rows.atom_start[atom], rows.atom_start[atom + 1]):
        row = abs(rows.atom_row[place]) - 1
        state.free[row] -= 1
        steps += 1
        if (rows.atom_row[place] > 0) == is_true:
            state.satisfied[row] += 1
        elif state.satisfied[row] == 0 and state.free[row] <= 1 and conflict == NONE:
            left, holds = 0, False
            for at in range(rows.start[row], rows.start[row + 1]):
                signed = rows.literal[at]
                value = state.value[abs(signed) - 1]
                if value == 0:
                    left = signed
                elif (value > 0) == (signed > 0):
                    holds = True
            steps += rows.start[row + 1] - rows.start[row]
            if not holds and left == 0:
                conflict = row
            elif not holds:
                end = _put(state, abs(left) - 1, 1 if left > 0 else -1, row, NONE, end)
    block = rows.block_of[atom]
    if block < 0:
        return end, conflict, steps
    row = len(rows.start) - 1 + block
    state.free[row] -= 1
    if is_true:
        state.satisfied[row] += 1
    elif not rows.block_exact[block] or state.satisfied[row] > 0 or state.free[row] > 1:
        return end, conflict, steps
    if conflict != NONE:
        return end, conflict, steps
    left, holds = NONE, False
    for place in range(rows.block_start[block], rows.block_start[block + 1]):
        other = rows.block_atom[place]
        steps += 1
        if other != atom and state.value[other] > 0:
            holds = True
        elif state.value[other] == 0:
            left = other
            if is_true:
                end = _put(state, other, -1, row, atom, end)
    if holds == is_true:
        if is_true or left == NONE:
            conflict = row
        else:
            end = _put(state, left, 1, row, NONE, end)
    return end, conflict, steps


@inner
def _lay_down(rows, state, atom):  # type: ignore[no-untyped-def]
    """Undo `_take_up`'s counting."""
    is_true = state.value[atom] > 0
    for place in range(rows.atom_start[atom], rows.atom_start[atom + 1]):
        row = abs(rows.atom_row[place]) - 1
        state.free[row] += 1
        if (rows.atom_row[place] > 0) == is_true:
            state.satisfied[row] -= 1
    if rows.block_of[atom] >= 0:
        row = len(rows.start) - 1 + rows.block_of[atom]
        state.free[row] += 1
        if is_true:
            state.satisfied[row] -= 1


@inner
def _blame(rows, state, conflict, used):  # type: ignore[no-untyped-def]
    """Mark a violated row, the rows that forced its atoms, and so on; how many atoms are behind."""
    used[conflict] = True
    count = _queue_atoms(rows, state, conflict, NONE, 0)
    at = 0
    while at < count:
        atom = state.queue[at]
        at += 1
        if state.reason[atom] != NONE:
            used[state.reason[atom]] = True
            count = _queue_atoms(rows, state, state.reason[atom], atom, count)
    for at in range(count):
        state.is_queued[state.queue[at]] = False
    return count


@inner
def _queue_atoms(rows, state, row, forced, count):  # type: ignore[no-untyped-def]
    """Queue the atoms whose values made a row force an atom, or violate it (NONE)."""
    num_clauses = len(rows.start) - 1
    if forced != NONE and state.cause[forced] != NONE:
        return _queue(state, state.cause[forced], count)
    if row < num_clauses:
        for at in range(rows.start[row], rows.start[row + 1]):
            count = _queue(state, abs(rows.literal[at]) - 1, count)
        return count
    first, last = rows.block_start[row - num_clauses], rows.block_start[row - num_clauses + 1]
    num_true = 0
    for at in range(first, last):
        num_true += state.value[rows.block_atom[at]] > 0
    for at in range(first, last):
        atom = rows.block_atom[at]
        if num_true < 2 or forced != NONE or state.value[atom] > 0:
            count = _queue(state, atom, count)
    return count


@inner
def _queue(state, atom, count):  # type: ignore[no-untyped-def]
    if state.is_queued[atom]:
        return count
    state.is_queued[atom] = True
    state.queue[count] = atom
    return count + 1
