"""Compiled weighted model counting (`counting.py`): propagation, components, cache, decisions.

A literal is 2 · variable, plus 1 where it is negative. Clauses of two literals are lists of
implications. Longer ones and learned ones watch their first two literals (Moskewicz et al., 2001),
in linked lists. A conflict is resolved back to the first unique implication point (Marques-Silva
and Sakallah, 1996), and literals that the others imply are left out. Learned clauses only
propagate: components are those of the model.

A frame is a component that is being counted. One of its variables is set, first to one value, then
to the other, and implied literals are set. The rest of the component falls into components, which
are found in the cache or become frames above it. Sums and products are of logarithms.

The key of a component is its variables and the long clauses of the model that are not yet
satisfied: sorted numbers whose differences are written in bytes of seven bits. A clause of two open
literals need not be in the key.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lapis.circuits.compilation.gates import is_row
from lapis.runtime.kernels import entry, inner

NONE = -1  # no clause
DECIDED = -1  # reason of a decision
DECAY, MAX_ACTIVITY = 1.0 / 0.95, 1e100
LITERALS, CLAUSES, STEP, TRAIL, HEAD = range(5)  # of Formula.counter


class Formula(NamedTuple):
    """Clauses of the model, then learned ones, and the assignment."""

    start: np.ndarray  # int64[room + 1], where the literals of long clauses begin
    literal: np.ndarray  # int32[...]
    next_watch: np.ndarray  # int32[room, 2], next watcher of a literal, as 2 clause + place
    watch: np.ndarray  # int32[num_literals], the first watcher, or NONE
    other_start: np.ndarray  # int64[num_literals + 1]
    other: np.ndarray  # int32[...], literals that stand in clauses of two with a literal
    value: np.ndarray  # int8[num_literals], 1 true, −1 false, 0 open
    level: np.ndarray  # int32[num_variables]
    reason: np.ndarray  # int32[num_variables], a clause, −2 − a literal of a pair, or DECIDED
    trail: np.ndarray  # int32[num_variables], literals set, in order
    activity: np.ndarray  # float64[num_variables]
    bump: np.ndarray  # float64[1], added to the activity in a conflict
    seen: np.ndarray  # bool[num_variables]
    learned: np.ndarray  # int32[num_variables + 2], work space
    marked: np.ndarray  # int32[num_variables], work space
    counter: np.ndarray  # int64[8]: LITERALS, CLAUSES, STEP, TRAIL, HEAD
    used: np.ndarray  # float64[room], `bump` at the last use of a learned clause


@inner
def assign_literal(formula, literal, reason, depth):  # type: ignore[no-untyped-def]
    """Make a literal true."""
    formula.value[literal] = 1
    formula.value[literal ^ 1] = -1
    formula.level[literal >> 1] = depth
    formula.reason[literal >> 1] = reason
    formula.trail[formula.counter[TRAIL]] = literal
    formula.counter[TRAIL] += 1


@entry
def assign_fact(formula, literal):  # type: ignore[no-untyped-def]
    """Make a literal true at level 0; return False if it was false."""
    if formula.value[literal] == 0:
        assign_literal(formula, literal, DECIDED, 0)
    return formula.value[literal] > 0


@inner
def unassign_literals(formula, end):  # type: ignore[no-untyped-def]
    """Unassign the literals of the trail from a place on."""
    for at in range(end, formula.counter[TRAIL]):
        literal = formula.trail[at]
        formula.value[literal] = formula.value[literal ^ 1] = 0
    formula.counter[TRAIL] = formula.counter[HEAD] = end


@inner
def propagate_literals(formula, depth):  # type: ignore[no-untyped-def]
    """Assign implied literals.

    Return (NONE, 0, 0) without conflict, (clause, 0, 0) or (-2, literal, literal) with one.
    """
    value, literals, start, counter = formula.value, formula.literal, formula.start, formula.counter
    while counter[HEAD] < counter[TRAIL]:
        false = formula.trail[counter[HEAD]] ^ 1
        counter[HEAD] += 1
        for at in range(formula.other_start[false], formula.other_start[false + 1]):
            other = formula.other[at]
            if value[other] == 0:
                assign_literal(formula, other, -2 - false, depth)
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
            assign_literal(formula, kept, clause, depth)
            before, watched = watched, following
    return NONE, 0, 0


@inner
def _learn_literal(formula, literal, depth, length, open_literals):  # type: ignore[no-untyped-def]
    """Add a false literal to the clause that is learned."""
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
def learn_clause(formula, clause, one, other, depth):  # type: ignore[no-untyped-def]
    """Write the clause learned from a conflict at a depth to `learned`; return its length.

    The first literal is implied once the last decision is undone. The length is 0 if the conflict
    follows from facts alone.
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
                    length, open_literals = _learn_literal(
                        formula, literal, depth, length, open_literals
                    )
        else:
            length, open_literals = _learn_literal(formula, one, depth, length, open_literals)
            if other != NONE:
                length, open_literals = _learn_literal(formula, other, depth, length, open_literals)
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
    """Whether the other literals of the learned clause imply that of a variable."""
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
    """Keep the learned clause; return its number, NONE if there is no room.

    Its second literal is one that was made false last.
    """
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
    """Watch the first two literals of a clause."""
    for place in range(2):
        literal = formula.literal[formula.start[clause] + place]
        formula.next_watch[clause, place] = formula.watch[literal]
        formula.watch[literal] = 2 * clause + place


@entry
def forget_clauses(formula, num_model, bound):  # type: ignore[no-untyped-def]
    """Drop learned clauses last used before a bound, unless they are the reason of a literal."""
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


RUNNING, DONE, NO_ROOM, CROWDED, TOO_DEEP = range(5)
NUM_FIELDS = 9
# Of a frame: its cache entry, the literal set, whether it is the second one, the end of the trail
# before, the components of the branch on the stack (from, to, the stack's end), the cache entries
# at the start of the branch, and the component itself.
ENTRY, LITERAL, IS_SECOND, TRAIL_END, FIRST, LAST, WORK_END, CACHE_END, SELF = range(NUM_FIELDS)
PRODUCT, TOTAL = 0, 1  # of a frame's numbers: of the branch, of the branches done
DEPTH, WORK, ENTRIES, KEY_END, NOW, LIST = 0, 1, 2, 3, 4, 5  # of Count.counter


class ClauseIndex(NamedTuple):
    """The clauses by variable, for components; and the weights."""

    occurs_start: np.ndarray  # int64[num_variables + 1]
    occurs: np.ndarray  # int32[...], the long clauses of a variable
    log_weight: np.ndarray  # float64[num_literals]
    log_free: np.ndarray  # float64[num_variables], of both literals together
    num_clauses: np.ndarray  # int64[1], of the model, longer than two


class CountingState(NamedTuple):
    frame: np.ndarray  # int64[num_variables + 2, NUM_FIELDS]
    number: np.ndarray  # float64[num_variables + 2, 2]
    work: np.ndarray  # int32[...], components: ends of variables and clauses, then these
    listed: np.ndarray  # int64[...], where the components of frames begin in `work`
    counter: np.ndarray  # int64[8]: DEPTH, WORK, ENTRIES, KEY_END, NOW, LIST
    seen_variable: np.ndarray  # int64[num_variables], a stamp
    seen_clause: np.ndarray  # int64[num_clauses], a stamp
    score: np.ndarray  # int32[num_variables], clauses of the component
    slot: np.ndarray  # int32[2^k], entry + 1 by hash, 0 where empty
    hashed: np.ndarray  # uint64[room]
    key_start: np.ndarray  # int64[room + 1]
    key: np.ndarray  # uint8[...]
    log_value: np.ndarray  # float64[room]
    is_known: np.ndarray  # bool[room], false while it is counted
    clause: np.ndarray  # int32[num_clauses], work space


@entry
def start_count(model, formula, count):  # type: ignore[no-untyped-def]
    """Make a first frame that decides nothing; return False if the facts contradict."""
    counter, frame = count.counter, count.frame[0]
    clause, _, _ = propagate_literals(formula, 0)
    if clause != NONE:
        return False
    num_variables = len(model.log_free)
    work = count.work
    work[0], work[1] = 2 + num_variables, 2 + num_variables + model.num_clauses[0]
    for v in range(num_variables):
        work[2 + v] = v
    for clause in range(model.num_clauses[0]):
        work[2 + num_variables + clause] = clause
    counter[WORK] = work[1]
    counter[DEPTH] = 1
    frame[ENTRY], frame[IS_SECOND], frame[TRAIL_END], frame[SELF] = NONE, 1, 0, 0
    count.number[0, TOTAL] = -math.inf
    return list_components(model, formula, count)


@inner
def list_components(model, formula, count):  # type: ignore[no-untyped-def]
    """Multiply the weights of assigned literals; list the components of the rest."""
    counter, work, value = count.counter, count.work, formula.value
    depth = counter[DEPTH] - 1
    frame = count.frame[depth]
    frame[WORK_END], frame[CACHE_END] = counter[WORK], counter[ENTRIES]
    frame[FIRST] = frame[LAST] = counter[LIST]
    counter[NOW] += 1
    now = counter[NOW]
    begin_self = frame[SELF]
    product = 0.0
    end_variables = work[begin_self]
    for at in range(begin_self + 2, begin_self + end_variables):
        v = work[at]
        if value[2 * v] != 0:
            product += model.log_weight[2 * v if value[2 * v] > 0 else 2 * v + 1]
    for at in range(begin_self + 2, begin_self + end_variables):
        v = work[at]
        if value[2 * v] != 0 or count.seen_variable[v] == now:
            continue
        # The component of v.
        first = counter[WORK]
        if first + work[begin_self + 1] + 8 > len(work) or counter[LIST] + 1 >= len(count.listed):
            return False
        end, place = first + 3, first + 2
        work[first + 2] = v
        count.seen_variable[v] = now
        num_clauses = 0
        while place < end:
            u = work[place]
            place += 1
            for literal in range(2 * u, 2 * u + 2):
                for other in range(formula.other_start[literal], formula.other_start[literal + 1]):
                    w = formula.other[other] >> 1
                    if value[2 * w] == 0 and count.seen_variable[w] != now:
                        count.seen_variable[w] = now
                        work[end] = w
                        end += 1
            for other in range(model.occurs_start[u], model.occurs_start[u + 1]):
                clause = model.occurs[other]
                if count.seen_clause[clause] == now or count.seen_clause[clause] == -now:
                    continue
                satisfied = False
                for spot in range(formula.start[clause], formula.start[clause + 1]):
                    if value[formula.literal[spot]] > 0:
                        satisfied = True
                        break
                formula.counter[STEP] += 2
                if satisfied:
                    count.seen_clause[clause] = -now
                    continue
                count.seen_clause[clause] = now
                count.clause[num_clauses] = clause
                num_clauses += 1
                for spot in range(formula.start[clause], formula.start[clause + 1]):
                    w = formula.literal[spot] >> 1
                    if value[2 * w] == 0 and count.seen_variable[w] != now:
                        count.seen_variable[w] = now
                        work[end] = w
                        end += 1
        if end - first == 3:
            product += model.log_free[v]
            continue
        work[first] = end - first
        work[first + 1] = end - first + num_clauses
        for number in range(num_clauses):
            work[end + number] = count.clause[number]
        shell_sort(work, first + 2, end)
        shell_sort(work, end, end + num_clauses)
        formula.counter[STEP] += work[first + 1]
        place = end + num_clauses
        found = find_cached(count, first)
        if found != NONE:
            product += count.log_value[found]
            if product == -math.inf:
                break
            continue
        count.listed[counter[LIST]] = first
        counter[LIST] += 1
        counter[WORK] = place
    frame[LAST] = counter[LIST]
    count.number[depth, PRODUCT] = product
    return True


@inner
def shell_sort(numbers, first, last):  # type: ignore[no-untyped-def]
    """Sort a range in place by Shell's method: the ranges are short and nearly sorted."""
    gap = 1
    while gap * 9 // 4 + 1 < last - first:
        gap = gap * 9 // 4 + 1
    while gap:
        for at in range(first + gap, last):
            moved = numbers[at]
            place = at
            while place - gap >= first and numbers[place - gap] > moved:
                numbers[place] = numbers[place - gap]
                place -= gap
            numbers[place] = moved
        gap = gap * 4 // 9


@inner
def write_key(count, first):  # type: ignore[no-untyped-def]
    """Write the key of a component after the last one; return its end and hash, −1 if no room."""
    work, key = count.work, count.key
    at = count.counter[KEY_END]
    if at + 5 * work[first + 1] > len(key):
        return np.int64(-1), np.uint64(0)
    hashed = np.uint64(1469598103934665603)
    for part in range(2):
        low = first + 2 if part == 0 else first + work[first]
        high = first + work[first] if part == 0 else first + work[first + 1]
        before = np.int64(-1)
        for place in range(low, high):
            gap = np.int64(work[place]) - before
            before = np.int64(work[place])
            hashed = (hashed ^ np.uint64(gap)) * np.uint64(1099511628211)
            hashed ^= hashed >> np.uint64(29)
            while gap >= 128:
                key[at] = np.uint8((gap & 127) | 128)
                at += 1
                gap >>= 7
            key[at] = np.uint8(gap)
            at += 1
        key[at] = 0  # no gap is 0
        at += 1
    return at, hashed


@inner
def find_cached(count, first):  # type: ignore[no-untyped-def]
    """Return the cache entry of a component whose value is known, or NONE."""
    end, hashed = write_key(count, first)
    if end < 0:
        return NONE
    wanted = count.key[count.counter[KEY_END] : end]
    mask = np.uint64(len(count.slot) - 1)
    place = hashed & mask
    while count.slot[place]:
        number = count.slot[place] - 1
        alike = count.hashed[number] == hashed and count.is_known[number]
        if alike and is_row(count.key_start, count.key, number, wanted):
            return number
        place = (place + np.uint64(1)) & mask
    return NONE


@inner
def add_entry(count, first):  # type: ignore[no-untyped-def]
    """Add a cache entry for a component; return NONE if there is no room."""
    counter = count.counter
    number = counter[ENTRIES]
    if number >= len(count.log_value):
        return NONE
    end, hashed = write_key(count, first)
    if end < 0:
        return NONE
    mask = np.uint64(len(count.slot) - 1)
    place = hashed & mask
    while count.slot[place]:
        place = (place + np.uint64(1)) & mask
    count.slot[place] = number + 1
    count.hashed[number] = hashed
    count.key_start[number + 1] = end
    count.is_known[number] = False
    counter[KEY_END] = end
    counter[ENTRIES] = number + 1
    return number


@inner
def drop_entries(count, end):  # type: ignore[no-untyped-def]
    """Remove the last cache entries in reverse order, which restores the slots."""
    mask = np.uint64(len(count.slot) - 1)
    for number in range(count.counter[ENTRIES] - 1, end - 1, -1):
        place = count.hashed[number] & mask
        while count.slot[place] != number + 1:
            place = (place + np.uint64(1)) & mask
        count.slot[place] = 0
    count.counter[ENTRIES] = end
    count.counter[KEY_END] = count.key_start[end]


@entry
def forget_components(count):  # type: ignore[no-untyped-def]
    """Empty the cache; the components of open frames will not be cached."""
    counter = count.counter
    count.slot[:] = 0
    counter[ENTRIES] = counter[KEY_END] = 0
    for depth in range(counter[DEPTH]):
        count.frame[depth, ENTRY] = NONE
        count.frame[depth, CACHE_END] = 0


@entry
def run_count(model, formula, count, budget):  # type: ignore[no-untyped-def]
    """Continue for `budget` steps; return a status, CROWDED if learned clauses fill their room."""
    counter = count.counter
    last = formula.counter[STEP] + budget
    while formula.counter[STEP] < last:
        depth = counter[DEPTH] - 1
        frame, number = count.frame[depth], count.number[depth]
        if number[PRODUCT] > -math.inf and frame[LAST] > frame[FIRST]:
            frame[LAST] -= 1
            status = open_component(model, formula, count, count.listed[frame[LAST]])
            if status != RUNNING:
                if status == NO_ROOM:
                    frame[LAST] += 1
                return status
            continue
        # The branch is done.
        number[TOTAL] = log_sum(number[TOTAL], number[PRODUCT])
        counter[WORK], counter[LIST] = frame[WORK_END], frame[FIRST]
        if frame[IS_SECOND] == 0:
            frame[IS_SECOND] = 1
            literal = frame[LITERAL] ^ 1
            frame[LITERAL] = literal
            unassign_literals(formula, frame[TRAIL_END])
            assign_literal(formula, literal, DECIDED, depth)
            if not propagate_decision(model, formula, count):
                return TOO_DEEP
            continue
        if depth == 0:
            return DONE
        unassign_literals(formula, frame[TRAIL_END])
        total = number[TOTAL]
        counter[DEPTH] -= 1
        if frame[ENTRY] != NONE:
            count.log_value[frame[ENTRY]] = total
            count.is_known[frame[ENTRY]] = True
        below = count.frame[depth - 1]
        count.number[depth - 1, PRODUCT] += total
        if total == -math.inf:
            # Learned clauses may have used this component's conflict in the others.
            drop_entries(count, below[CACHE_END])
        if formula.counter[CLAUSES] + 8 > len(formula.start) - 1:
            return CROWDED
    return RUNNING


@inner
def log_sum(one, other):  # type: ignore[no-untyped-def]
    """Return log(exp(one) + exp(other))."""
    high, low = max(one, other), min(one, other)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


@inner
def open_component(model, formula, count, first):  # type: ignore[no-untyped-def]
    """Push a frame for a component and decide a variable."""
    counter = count.counter
    number = add_entry(count, first)
    if number == NONE:
        return NO_ROOM
    depth = counter[DEPTH]
    counter[DEPTH] += 1
    frame = count.frame[depth]
    frame[ENTRY], frame[IS_SECOND], frame[SELF] = number, 0, first
    frame[TRAIL_END] = formula.counter[TRAIL]
    count.number[depth, TOTAL] = -math.inf
    literal = choose_literal(formula, count, first)
    frame[LITERAL] = literal
    assign_literal(formula, literal, DECIDED, depth)
    return RUNNING if propagate_decision(model, formula, count) else TOO_DEEP


@inner
def choose_literal(formula, count, first):  # type: ignore[no-untyped-def]
    """Choose a literal whose variable is in many clauses and recent conflicts."""
    work, score = count.work, count.score
    for at in range(first + 2, first + work[first]):
        v = work[at]
        score[v] = 0
        for literal in range(2 * v, 2 * v + 2):
            for other in range(formula.other_start[literal], formula.other_start[literal + 1]):
                if formula.value[formula.other[other]] == 0:
                    score[v] += 1
    for at in range(first + work[first], first + work[first + 1]):
        clause = work[at]
        for spot in range(formula.start[clause], formula.start[clause + 1]):
            literal = formula.literal[spot]
            if formula.value[literal] == 0:
                score[literal >> 1] += 1
    best, best_score = work[first + 2], -math.inf
    for at in range(first + 2, first + work[first]):
        v = work[at]
        found = score[v] + 10.0 * formula.activity[v] / formula.bump[0]
        if found > best_score:
            best, best_score = v, found
    positive, negative = 0, 0
    for other in range(formula.other_start[2 * best], formula.other_start[2 * best + 1]):
        positive += formula.value[formula.other[other]] == 0
    for other in range(formula.other_start[2 * best + 1], formula.other_start[2 * best + 2]):
        negative += formula.value[formula.other[other]] == 0
    formula.counter[STEP] += work[first + 1]
    return 2 * best if positive >= negative else 2 * best + 1


@inner
def propagate_decision(model, formula, count):  # type: ignore[no-untyped-def]
    """Propagate the decision of the last frame; return False if there is no room.

    A conflict is learned from, and the other value of the variable is tried.
    """
    depth = count.counter[DEPTH] - 1
    frame = count.frame[depth]
    while True:
        clause, one, other = propagate_literals(formula, depth)
        if clause == NONE:
            return list_components(model, formula, count)
        frame[WORK_END], frame[CACHE_END] = count.counter[WORK], count.counter[ENTRIES]
        frame[FIRST] = frame[LAST] = count.counter[LIST]
        count.number[depth, PRODUCT] = -math.inf
        length = learn_clause(formula, clause, one, other, depth)
        learned = add_clause(formula, length) if length > 1 else NONE
        if frame[IS_SECOND] != 0:
            return True
        frame[IS_SECOND] = 1
        frame[LITERAL] ^= 1
        unassign_literals(formula, frame[TRAIL_END])
        assign_literal(formula, frame[LITERAL], DECIDED, depth)
        implied = formula.learned[0]
        if learned != NONE and formula.value[implied] == 0:
            assign_literal(formula, implied, learned, depth)
        elif length == 1 and formula.value[implied] == 0:
            assign_literal(formula, implied, DECIDED, 0)  # a fact
