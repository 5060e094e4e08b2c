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

import numpy as np
from numba import njit

from lapis.network.cubes import Cubes

NONE = -1


def low_degree_order(
    cubes: Cubes, eligible: np.ndarray, max_scope: int, max_entries: float
) -> np.ndarray:
    """int32[num_eliminated], eligible variables in an order that stays within the limits."""
    order: np.ndarray = _eliminate(
        cubes.size, cubes.start, cubes.variable, eligible, max_scope, float(max_entries)
    )
    return order


@njit(cache=True)
def _eliminate(size, cube_start, cube_variable, eligible, max_scope, max_entries):  # type: ignore[no-untyped-def]
    num_variables, num_cubes = len(size), len(cube_start) - 1
    begin, end, listed = _cubes_of_variables(num_variables, cube_start, cube_variable)
    dead_cube = np.zeros(num_cubes, np.bool_)
    dead_message = np.zeros(num_variables, np.bool_)
    scope_start = np.zeros(num_variables + 1, np.int64)
    scope_variable = np.empty(16, np.int32)
    # Lists of messages: entry → (message, next entry).
    head = np.full(num_variables, NONE, np.int64)
    entry_message = np.empty(16, np.int32)
    entry_next = np.empty(16, np.int64)
    num_entries = 0
    # A stack for each number of neighbours, the last for too many; linked through the variables.
    top = np.full(max_scope + 2, NONE, np.int32)
    under = np.full(num_variables, NONE, np.int32)
    above = np.full(num_variables, NONE, np.int32)
    level_of = np.full(num_variables, NONE, np.int32)  # the stack a variable is on
    refused = np.zeros(num_variables, np.bool_)
    for v in range(num_variables):
        if eligible[v]:
            _push(v, 0, top, under, above, level_of)

    order = np.empty(num_variables, np.int32)
    gone = np.zeros(num_variables, np.bool_)
    seen = np.full(num_variables, NONE, np.int64)
    scope = np.empty(max_scope + 1, np.int32)
    looks, count, level = 0, 0, 0
    while level <= max_scope + 1:
        v = top[level]
        if v == NONE:
            level += 1
            continue
        _take(v, top, under, above, level_of)
        looks += 1
        neighbours = _neighbours(
            v, looks, begin, end, listed, cube_start, cube_variable, dead_cube, head,
            entry_message, entry_next, scope_start, scope_variable, dead_message, seen, scope,
            max_scope,
        )  # fmt: skip
        entries = 1.0
        for at in range(min(neighbours, max_scope)):
            entries *= size[scope[at]]
        refused[v] = neighbours > max_scope or entries > max_entries
        if refused[v]:
            continue
        if neighbours > level or level > max_scope:
            _push(v, neighbours, top, under, above, level_of)
            level = min(level, neighbours)
            continue
        for at in range(begin[v], end[v]):
            dead_cube[listed[at]] = True
        entry = head[v]
        while entry != NONE:
            dead_message[entry_message[entry]] = True
            entry = entry_next[entry]
        gone[v] = True
        order[count] = v
        place = scope_start[count]
        while place + neighbours > len(scope_variable):
            scope_variable = np.concatenate((scope_variable, scope_variable))
        scope_variable[place : place + neighbours] = scope[:neighbours]
        scope_start[count + 1] = place + neighbours
        for at in range(neighbours):
            u = scope[at]
            if neighbours > 1:
                if num_entries == len(entry_message):
                    entry_message = np.concatenate((entry_message, entry_message))
                    entry_next = np.concatenate((entry_next, entry_next))
                entry_message[num_entries] = count
                entry_next[num_entries] = head[u]
                head[u] = num_entries
                num_entries += 1
            if not eligible[u] or gone[u] or (refused[u] and level_of[u] != NONE):
                continue
            if level_of[u] != NONE:
                _take(u, top, under, above, level_of)
            soon = max_scope + 1 if refused[u] else 0
            _push(u, soon, top, under, above, level_of)
            level = min(level, soon)
        count += 1
    return order[:count].copy()


@njit(cache=True)
def _cubes_of_variables(num_variables, cube_start, cube_variable):  # type: ignore[no-untyped-def]
    """The cubes of two variables or more that each variable is in."""
    begin = np.zeros(num_variables + 1, np.int64)
    for cube in range(len(cube_start) - 1):
        if cube_start[cube + 1] - cube_start[cube] > 1:
            for at in range(cube_start[cube], cube_start[cube + 1]):
                begin[cube_variable[at] + 1] += 1
    for v in range(num_variables):
        begin[v + 1] += begin[v]
    end = begin[:-1].copy()
    listed = np.empty(begin[-1], np.int32)
    for cube in range(len(cube_start) - 1):
        if cube_start[cube + 1] - cube_start[cube] > 1:
            for at in range(cube_start[cube], cube_start[cube + 1]):
                v = cube_variable[at]
                listed[end[v]] = cube
                end[v] += 1
    return begin, end, listed


@njit(cache=True)
def _push(v, level, top, under, above, level_of):  # type: ignore[no-untyped-def]
    under[v] = top[level]
    above[v] = NONE
    if top[level] != NONE:
        above[top[level]] = v
    top[level] = v
    level_of[v] = level


@njit(cache=True)
def _take(v, top, under, above, level_of):  # type: ignore[no-untyped-def]
    """Take a variable out of its stack, from wherever it is."""
    if above[v] == NONE:
        top[level_of[v]] = under[v]
    else:
        under[above[v]] = under[v]
    if under[v] != NONE:
        above[under[v]] = above[v]
    level_of[v] = NONE


@njit(cache=True)
def _neighbours(  # type: ignore[no-untyped-def]
    v, look, begin, end, listed, cube_start, cube_variable, dead_cube, head,
    entry_message, entry_next, scope_start, scope_variable, dead_message, seen, scope, max_scope,
):  # fmt: skip
    """Write the neighbours of v to `scope`; how many, or max_scope + 1 as soon as it is more."""
    seen[v] = look
    count = 0
    at = begin[v]
    while at < end[v]:
        cube = listed[at]
        if dead_cube[cube]:
            end[v] -= 1
            listed[at] = listed[end[v]]
            continue
        members = cube_variable[cube_start[cube] : cube_start[cube + 1]]
        count = _join(members, look, seen, scope, count, max_scope)
        if count > max_scope:
            return count
        at += 1
    entry, before = head[v], np.int64(NONE)
    while entry != NONE:
        message = entry_message[entry]
        if dead_message[message]:
            if before == NONE:
                head[v] = entry_next[entry]
            else:
                entry_next[before] = entry_next[entry]
            entry = entry_next[entry]
            continue
        members = scope_variable[scope_start[message] : scope_start[message + 1]]
        count = _join(members, look, seen, scope, count, max_scope)
        if count > max_scope:
            return count
        before = entry
        entry = entry_next[entry]
    return count


@njit(cache=True)
def _join(members, look, seen, scope, count, max_scope):  # type: ignore[no-untyped-def]
    """Add the members not seen in this look to the scope; its new length."""
    for u in members:
        if seen[u] != look:
            if count == max_scope:
                return max_scope + 1
            seen[u] = look
            scope[count] = u
            count += 1
    return count
