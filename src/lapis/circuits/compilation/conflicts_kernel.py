"""Propagation over clauses, and clauses learned from conflicts.

A literal is 2·variable, plus 1 where it is negative. Clauses of two literals are lists of
implications; longer ones and learned ones watch their first two literals (Moskewicz et al. 2001),
linked in lists. A conflict is resolved back to the first literal that alone, at the last decision,
leads to it (first unique implication point; Marques-Silva and Sakallah 1996), and literals that the
others imply are left out. Learned clauses only propagate: components are those of the model.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.runtime.kernels import entry, inner

NONE = -1  # no clause
DECIDED = -1  # no reason
DECAY, MAX_ACTIVITY = 1.0 / 0.95, 1e100
LITERALS, CLAUSES, STEP, TRAIL, HEAD = range(5)  # of Formula.counter


class Formula(NamedTuple):
    """Clauses, those of the model and then learned ones, and what is set."""

    start: np.ndarray  # int64[room + 1], where the literals of long clauses begin
    literal: np.ndarray  # int32[...]
    next_watch: np.ndarray  # int32[room, 2], who else watches a literal, as 2 clause + place
    watch: np.ndarray  # int32[num_literals], the first of them, or NONE
    other_start: np.ndarray  # int64[num_literals + 1]
    other: np.ndarray  # int32[...], literals that stand in clauses of two with a literal
    value: np.ndarray  # int8[num_literals], 1 true, −1 false, 0 open
    level: np.ndarray  # int32[num_variables]
    reason: np.ndarray  # int32[num_variables], a clause, −2 − a literal of a pair, or DECIDED
    trail: np.ndarray  # int32[num_variables], literals set, in order
    activity: np.ndarray  # float64[num_variables]
    bump: np.ndarray  # float64[1], what a conflict adds to it
    seen: np.ndarray  # bool[num_variables]
    learned: np.ndarray  # int32[num_variables + 2], work space
    marked: np.ndarray  # int32[num_variables], work space
    counter: np.ndarray  # int64[8]: ends of literals and clauses, looks, ends of trail and queue
    used: np.ndarray  # float64[room], when a learned clause was last of use


@inner
def put(formula, literal, reason, depth):  # type: ignore[no-untyped-def]
    """Make a literal true."""
    formula.value[literal] = 1
    formula.value[literal ^ 1] = -1
    formula.level[literal >> 1] = depth
    formula.reason[literal >> 1] = reason
    formula.trail[formula.counter[TRAIL]] = literal
    formula.counter[TRAIL] += 1


@entry
def put_fact(formula, literal):  # type: ignore[no-untyped-def]
    """Make a literal true for good; whether it was not false."""
    if formula.value[literal] == 0:
        put(formula, literal, DECIDED, 0)
    return formula.value[literal] > 0


@inner
def undo(formula, end):  # type: ignore[no-untyped-def]
    """Open all literals of the trail from a place on."""
    for at in range(end, formula.counter[TRAIL]):
        literal = formula.trail[at]
        formula.value[literal] = formula.value[literal ^ 1] = 0
    formula.counter[TRAIL] = formula.counter[HEAD] = end


@inner
def propagate(formula, depth):  # type: ignore[no-untyped-def]
    """Set what follows: (NONE, 0, 0), a violated clause, or the two literals of a pair."""
    value, literals, start, counter = formula.value, formula.literal, formula.start, formula.counter
    while counter[HEAD] < counter[TRAIL]:
        false = formula.trail[counter[HEAD]] ^ 1
        counter[HEAD] += 1
        for at in range(formula.other_start[false], formula.other_start[false + 1]):
            other = formula.other[at]
            if value[other] == 0:
                put(formula, other, -2 - false, depth)
            elif value[other] < 0:
                return -2, other, false
        counter[STEP] += formula.other_start[false + 1] - formula.other_start[false] + 1
        before = NONE
        watched = formula.watch[false]
        while watched != NONE:
            clause, place = watched >> 1, watched & 1
            following = formula.next_watch[clause, place]
            first = start[clause]
            kept = literals[first + 1 - place]
            counter[STEP] += 1
            if value[kept] > 0:
                before, watched = watched, following
                continue
            moved = False
            for at in range(first + 2, start[clause + 1]):
                counter[STEP] += 1
                if value[literals[at]] >= 0:
                    new = literals[at]
                    literals[at], literals[first + place] = false, new
                    if before == NONE:
                        formula.watch[false] = following
                    else:
                        formula.next_watch[before >> 1, before & 1] = following
                    formula.next_watch[clause, place] = formula.watch[new]
                    formula.watch[new] = watched
                    moved = True
                    break
            if moved:
                watched = following
                continue
            if value[kept] < 0:
                return clause, 0, 0
            put(formula, kept, clause, depth)
            before, watched = watched, following
    return NONE, 0, 0


@inner
def _see(formula, literal, depth, length, open_literals):  # type: ignore[no-untyped-def]
    """Take a false literal into the clause that is learned."""
    v = literal >> 1
    if not formula.seen[v] and formula.level[v] > 0:
        formula.seen[v] = True
        formula.activity[v] += formula.bump[0]
        if formula.level[v] >= depth:
            open_literals += 1
        else:
            formula.learned[length] = literal
            length += 1
    return length, open_literals


@inner
def learn(formula, clause, one, other, depth):  # type: ignore[no-untyped-def]
    """Write the clause that a conflict at a depth teaches into `learned`; its length.

    The first literal is the one that follows once the last decision is undone. 0 if there is
    nothing behind the conflict but facts.
    """
    length, open_literals = 1, 0
    at = formula.counter[TRAIL]
    turned = NONE
    while True:
        if clause >= 0:
            formula.used[clause] = formula.bump[0]
            for place in range(formula.start[clause], formula.start[clause + 1]):
                literal = formula.literal[place]
                if literal != turned:
                    length, open_literals = _see(formula, literal, depth, length, open_literals)
        else:
            length, open_literals = _see(formula, one, depth, length, open_literals)
            if other != NONE:
                length, open_literals = _see(formula, other, depth, length, open_literals)
        if open_literals == 0:
            break
        at -= 1
        while not formula.seen[formula.trail[at] >> 1] or (
            formula.level[formula.trail[at] >> 1] < depth
        ):
            at -= 1
        turned = formula.trail[at]
        v = turned >> 1
        open_literals -= 1
        if open_literals == 0:
            formula.seen[v] = False
            formula.learned[0] = turned ^ 1
            break
        formula.seen[v] = False
        clause, one, other = formula.reason[v], NONE, NONE
        if clause < NONE:
            one = -2 - clause
            clause = -2
    count = length
    for place in range(1, length):
        formula.marked[place] = formula.learned[place]
        formula.seen[formula.learned[place] >> 1] = True
    length = 1 if turned != NONE else 0
    for place in range(1, count if turned != NONE else 0):
        literal = formula.marked[place]
        if not _is_implied(formula, literal >> 1):
            formula.learned[length] = literal
            length += 1
    for place in range(1, count):
        formula.seen[formula.marked[place] >> 1] = False
    formula.bump[0] *= DECAY
    if formula.bump[0] > MAX_ACTIVITY:
        for v in range(len(formula.activity)):
            formula.activity[v] /= MAX_ACTIVITY
        for clause in range(formula.counter[CLAUSES]):
            formula.used[clause] /= MAX_ACTIVITY
        formula.bump[0] = 1.0
    return length


@inner
def _is_implied(formula, v):  # type: ignore[no-untyped-def]
    """Whether a literal follows from others of the clause."""
    reason = formula.reason[v]
    if reason == DECIDED:
        return False
    if reason < NONE:
        other = (-2 - reason) >> 1
        return formula.seen[other] or formula.level[other] == 0
    for at in range(formula.start[reason], formula.start[reason + 1]):
        other = formula.literal[at] >> 1
        if other != v and not formula.seen[other] and formula.level[other] > 0:
            return False
    return True


@inner
def add_clause(formula, length):  # type: ignore[no-untyped-def]
    """Keep the learned clause; its number, or NONE if there is no room. Its second literal is one
    that was made false last."""
    counter = formula.counter
    clause, first = counter[CLAUSES], counter[LITERALS]
    if clause + 1 >= len(formula.start) or first + length > len(formula.literal):
        return NONE
    last = 1
    for place in range(2, length):
        if formula.level[formula.learned[place] >> 1] > formula.level[formula.learned[last] >> 1]:
            last = place
    formula.learned[1], formula.learned[last] = formula.learned[last], formula.learned[1]
    for place in range(length):
        formula.literal[first + place] = formula.learned[place]
    formula.start[clause + 1] = first + length
    counter[CLAUSES], counter[LITERALS] = clause + 1, first + length
    formula.used[clause] = formula.bump[0]
    watch_clause(formula, clause)
    return clause


@inner
def watch_clause(formula, clause):  # type: ignore[no-untyped-def]
    for place in range(2):
        literal = formula.literal[formula.start[clause] + place]
        formula.next_watch[clause, place] = formula.watch[literal]
        formula.watch[literal] = 2 * clause + place


@entry
def forget_clauses(formula, num_model, bound):  # type: ignore[no-untyped-def]
    """Drop learned clauses that were not of use since a bound, unless they are a reason now."""
    counter = formula.counter
    number = num_model
    end = formula.start[num_model]
    for clause in range(num_model, counter[CLAUSES]):
        first, last = formula.start[clause], formula.start[clause + 1]
        v = formula.literal[first] >> 1
        w = formula.literal[first + 1] >> 1
        is_reason = (formula.value[2 * v] != 0 and formula.reason[v] == clause) or (
            formula.value[2 * w] != 0 and formula.reason[w] == clause
        )
        if not is_reason and formula.used[clause] < bound and last - first > 2:
            continue
        if formula.reason[v] == clause:
            formula.reason[v] = number
        if formula.reason[w] == clause:
            formula.reason[w] = number
        for at in range(first, last):
            formula.literal[end] = formula.literal[at]
            end += 1
        formula.used[number] = formula.used[clause]
        number += 1
        formula.start[number] = end
    counter[CLAUSES], counter[LITERALS] = number, end
    formula.watch[:] = NONE
    for clause in range(number):
        watch_clause(formula, clause)
