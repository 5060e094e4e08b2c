"""Elimination in order of degree on networks of any size: low-degree variables first.

Eliminating a variable joins the factors (cubes, and messages of earlier eliminations) that
contain it and leaves a message over its neighbours. A variable is a candidate while its
neighbours number at most `max_scope` and have at most `max_entries` joint states; candidates
wait on a stack for each number of neighbours and are checked again when their turn comes, as
other eliminations may have joined or removed neighbours meanwhile. Stacks let eliminations go on
next to the last one and sweep through a chain or a ladder; with queues they started everywhere
at once and met in tables over eight variables instead of three.

A million leaves of a hub must not cost a million looks at the whole hub. So a look stops at the
first neighbour too many, and a variable that had too many waits until all others are through
before it is looked at again. Dead factors are dropped from a variable's list when met, and
factors over one variable are not listed at all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.network.csr import narrow, row_starts
from lapis.network.cubes import Cubes
from lapis.runtime.kernels import entry, inner

NONE = -1


class Work(NamedTuple):
    """What is known of cubes and messages. A list of messages links entries (message, next).

    Places are int32 where these are wide enough, else int64.
    """

    begin: np.ndarray  # int[num_variables + 1], into `listed`
    end: np.ndarray  # int[num_variables]
    listed: np.ndarray  # int32[...], the cubes of two variables or more that a variable is in
    dead_cube: np.ndarray  # bool[num_cubes]
    dead_message: np.ndarray  # bool[num_variables]
    scope_start: np.ndarray  # int[num_variables + 1], of messages
    scope_variable: np.ndarray  # int32[...]
    head: np.ndarray  # int[num_variables], the first entry of a variable's messages
    entry_message: np.ndarray  # int32[...]
    entry_next: np.ndarray  # int[...]
    seen: np.ndarray  # int64[num_variables], the last look that met a variable
    scope: np.ndarray  # int32[max_scope + 1], the neighbours found


class Stacks(NamedTuple):
    """A stack for each number of neighbours, the last for too many; linked both ways."""

    top: np.ndarray  # int32[max_scope + 2]
    under: np.ndarray  # int32[num_variables]
    above: np.ndarray  # int32[num_variables]
    level_of: np.ndarray  # int32[num_variables], the stack a variable is on


def low_degree_order(
    cubes: Cubes, eligible: np.ndarray, max_scope: int, max_entries: float
) -> np.ndarray:
    """int32[num_eliminated], eligible variables in an order that stays within the limits."""
    num_variables = len(cubes.size)
    room = num_variables * max_scope + 1  # pages that nobody writes to cost nothing
    long = np.diff(cubes.start) > 1
    listed = cubes.variable[np.repeat(long, np.diff(cubes.start))]
    begin = narrow(row_starts(np.bincount(listed, minlength=num_variables)))
    place = narrow(np.array([room])).dtype
    work = Work(
        begin,
        begin[:-1].copy(),
        np.empty(begin[-1], np.int32),
        np.zeros(len(long), bool),
        np.zeros(num_variables, bool),
        np.zeros(num_variables + 1, place),
        np.empty(room, np.int32),
        np.full(num_variables, NONE, place),
        np.empty(room, np.int32),
        np.empty(room, place),
        np.full(num_variables, NONE, np.int64),
        np.empty(max_scope + 1, np.int32),
    )
    stacks = Stacks(
        np.full(max_scope + 2, NONE, np.int32),
        *(np.full(num_variables, NONE, np.int32) for _ in range(3)),
    )
    order = np.empty(num_variables, np.int32)
    refused, gone = np.zeros((2, num_variables), bool)
    count = _eliminate(
        cubes.size, cubes.start, cubes.variable, eligible, max_scope, float(max_entries),
        work, stacks, refused, gone, order,
    )  # fmt: skip
    return order[:count].copy()


@entry
def _eliminate(  # type: ignore[no-untyped-def]
    size, cube_start, cube_variable, eligible, max_scope, max_entries,
    work, stacks, refused, gone, order,
):  # fmt: skip
    """Fill the order; its length."""
    _list_cubes(cube_start, cube_variable, work)
    for v in range(len(size)):
        if eligible[v]:
            _push(v, 0, stacks)
    num_entries, looks, count, level = 0, 0, 0, 0
    while level <= max_scope + 1:
        v = stacks.top[level]
        if v == NONE:
            level += 1
            continue
        _take(v, stacks)
        looks += 1
        neighbours = _neighbours(v, looks, cube_start, cube_variable, work, max_scope)
        entries = 1.0
        for at in range(min(neighbours, max_scope)):
            entries *= size[work.scope[at]]
        refused[v] = neighbours > max_scope or entries > max_entries
        if refused[v]:
            continue
        if neighbours > level or level > max_scope:
            _push(v, neighbours, stacks)
            level = min(level, neighbours)
            continue
        for at in range(work.begin[v], work.end[v]):
            work.dead_cube[work.listed[at]] = True
        entry = work.head[v]
        while entry != NONE:
            work.dead_message[work.entry_message[entry]] = True
            entry = work.entry_next[entry]
        gone[v] = True
        order[count] = v
        place = work.scope_start[count]
        work.scope_start[count + 1] = place + neighbours
        for at in range(neighbours):
            u = work.scope[at]
            work.scope_variable[place + at] = u
            if neighbours > 1:
                work.entry_message[num_entries] = count
                work.entry_next[num_entries] = work.head[u]
                work.head[u] = num_entries
                num_entries += 1
            if not eligible[u] or gone[u] or (refused[u] and stacks.level_of[u] != NONE):
                continue
            if stacks.level_of[u] != NONE:
                _take(u, stacks)
            soon = max_scope + 1 if refused[u] else 0
            _push(u, soon, stacks)
            level = min(level, soon)
        count += 1
    return count


@inner
def _list_cubes(cube_start, cube_variable, work):  # type: ignore[no-untyped-def]
    """The cubes of two variables or more that each variable is in."""
    for cube in range(len(cube_start) - 1):
        if cube_start[cube + 1] - cube_start[cube] > 1:
            for at in range(cube_start[cube], cube_start[cube + 1]):
                v = cube_variable[at]
                work.listed[work.end[v]] = cube
                work.end[v] += 1


@inner
def _push(v, level, stacks):  # type: ignore[no-untyped-def]
    first = stacks.top[level]
    stacks.under[v] = first
    stacks.above[v] = NONE
    if first != NONE:
        stacks.above[first] = v
    stacks.top[level] = v
    stacks.level_of[v] = level


@inner
def _take(v, stacks):  # type: ignore[no-untyped-def]
    """Take a variable out of its stack, from wherever it is."""
    over, below = stacks.above[v], stacks.under[v]
    if over == NONE:
        stacks.top[stacks.level_of[v]] = below
    else:
        stacks.under[over] = below
    if below != NONE:
        stacks.above[below] = over
    stacks.level_of[v] = NONE


@inner
def _neighbours(v, look, cube_start, cube_variable, work, max_scope):  # type: ignore[no-untyped-def]
    """Write the neighbours of v to `scope`; how many, or max_scope + 1 as soon as it is more."""
    work.seen[v] = look
    count = 0
    at = work.begin[v]
    while at < work.end[v]:
        cube = work.listed[at]
        if work.dead_cube[cube]:
            work.end[v] -= 1
            work.listed[at] = work.listed[work.end[v]]
            continue
        begin, end = cube_start[cube], cube_start[cube + 1]
        count = _join(cube_variable, begin, end, look, work, count, max_scope)
        if count > max_scope:
            return count
        at += 1
    entry, before = work.head[v], np.int64(NONE)
    while entry != NONE:
        message = work.entry_message[entry]
        if work.dead_message[message]:
            if before == NONE:
                work.head[v] = work.entry_next[entry]
            else:
                work.entry_next[before] = work.entry_next[entry]
            entry = work.entry_next[entry]
            continue
        begin, end = work.scope_start[message], work.scope_start[message + 1]
        count = _join(work.scope_variable, begin, end, look, work, count, max_scope)
        if count > max_scope:
            return count
        before = entry
        entry = work.entry_next[entry]
    return count


@inner
def _join(members, begin, end, look, work, count, max_scope):  # type: ignore[no-untyped-def]
    """Add the members not seen in this look to the scope; its new length."""
    for at in range(begin, end):
        u = members[at]
        if work.seen[u] != look:
            if count == max_scope:
                return max_scope + 1
            work.seen[u] = look
            work.scope[count] = u
            count += 1
    return count
