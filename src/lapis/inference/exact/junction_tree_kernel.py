"""The kernels of `junction_tree`: forming cliques, and passes over their tables."""

from __future__ import annotations

import math

import numpy as np

from lapis.runtime.kernels import allocating_entry, allocating_inner, entry, inner

ROOT = -1
CORE = -2
ADD, SUM, MAX, SUM_EXP = 0, 1, 2, 3  # operations of `_exchange`


@allocating_entry
def form_tree(size, cube_start, cube_variable, order):  # type: ignore[no-untyped-def]
    """Return scopes, parents, the cubes of each clique, and the number of states of each scope."""
    num_cliques, num_variables, num_cubes = len(order), len(size), len(cube_start) - 1
    position = np.full(num_variables, num_cliques, np.int32)
    for i in range(num_cliques):
        position[order[i]] = i
    clique_of = np.full(num_cubes, num_cliques, np.int32)
    own_start = np.zeros(num_cliques + 2, np.int64)
    for c in range(num_cubes):
        for at in range(cube_start[c], cube_start[c + 1]):
            clique_of[c] = min(clique_of[c], position[cube_variable[at]])
        own_start[clique_of[c] + 1] += 1
    for i in range(num_cliques):
        own_start[i + 1] += own_start[i]
    place = own_start.copy()
    own = np.empty(own_start[num_cliques], np.int32)
    for c in range(num_cubes):
        if clique_of[c] < num_cliques:
            own[place[clique_of[c]]] = c
            place[clique_of[c]] += 1

    scope_start = np.zeros(num_cliques + 1, np.int64)
    scope = np.empty(16, np.int32)
    parent = np.empty(num_cliques, np.int32)
    entries = np.ones(num_cliques, np.int64)
    first_child = np.full(num_cliques, -1, np.int32)
    next_child = np.full(num_cliques, -1, np.int32)
    seen = np.full(num_variables, -1, np.int32)
    for i in range(num_cliques):
        begin = scope_start[i]
        end = begin
        seen[order[i]] = i
        for j in range(own_start[i], own_start[i + 1]):
            members = cube_variable[cube_start[own[j]] : cube_start[own[j] + 1]]
            scope, end = _extend(scope, end, members, seen, i)
        child = first_child[i]
        while child >= 0:
            members = scope[scope_start[child] : scope_start[child + 1]].copy()
            scope, end = _extend(scope, end, members, seen, i)
            child = next_child[child]
        _sort_latest_first(scope, begin, end, position)
        scope_start[i + 1] = end
        for at in range(begin, end):
            entries[i] *= size[scope[at]]
        if begin == end:
            parent[i] = ROOT
        elif position[scope[end - 1]] == num_cliques:
            parent[i] = CORE
        else:
            parent[i] = position[scope[end - 1]]
            next_child[i] = first_child[parent[i]]
            first_child[parent[i]] = i
    return scope_start, scope[: scope_start[-1]].copy(), parent, own_start[:-1].copy(), own, entries


@allocating_inner
def _extend(scope, end, members, seen, mark):  # type: ignore[no-untyped-def]
    """Append the members not yet seen; return the array, which may have grown, and its end."""
    while end + len(members) > len(scope):
        scope = np.concatenate((scope, scope))
    for u in members:
        if seen[u] != mark:
            seen[u] = mark
            scope[end] = u
            end += 1
    return scope, end


@inner
def _sort_latest_first(scope, begin, end, position):  # type: ignore[no-untyped-def]
    """Sort a scope by insertion: latest eliminated first; core variables by number before them."""
    for at in range(begin + 1, end):
        u = scope[at]
        place = at
        while place > begin:
            w = scope[place - 1]
            earlier = position[w] < position[u] or (position[w] == position[u] and w > u)
            if not earlier:
                break
            scope[place] = w
            place -= 1
        scope[place] = u


@entry
def collect_cliques(  # type: ignore[no-untyped-def]
    tree, cubes, penalty, maximise, table, message, first_clique, last_clique, axis, work
):
    """Add the cubes to tables, initially zero, and fill messages in order of elimination.

    Only for cliques `first_clique` to `last_clique`; those before must be done.
    """
    for i in range(first_clique, last_clique):
        rows = number_axes(tree, cubes.size, i, axis, work)
        begin, states = tree.table_start[i], cubes.size[tree.order[i]]
        for j in range(tree.cube_start[i], tree.cube_start[i + 1]):
            cube = tree.cube[j]
            if penalty[cube] != 0.0:
                visit_cube(table, begin, cubes, cube, axis, rows, work, penalty[cube])
        out = tree.message_start[i]
        for row in range(tree.message_start[i + 1] - out):
            first = begin + row * states
            best, place = table[first], first
            for at in range(first + 1, first + states):
                if table[at] > best:
                    best, place = table[at], at
            if not maximise and best > -np.inf:
                others = 0.0
                for at in range(first, first + states):
                    if at != place:
                        others += math.exp(table[at] - best)
                best += math.log1p(others)
            message[out + row] = best
        if tree.parent[i] >= 0:
            _exchange(tree, cubes.size, i, table, message, out, axis, work, ADD, message)


@entry
def subtract_messages(tree, size, table, message):  # type: ignore[no-untyped-def]
    """Subtract its message from each row of the tables, except messages to the core."""
    for i in range(len(tree.order)):
        states = size[tree.order[i]]
        for row in range(tree.message_start[i + 1] - tree.message_start[i]):
            total = message[tree.message_start[i] + row]
            if tree.parent[i] != CORE and total > -np.inf:
                first = tree.table_start[i] + row * states
                for at in range(first, first + states):
                    table[at] -= total


@entry
def distribute_cliques(  # type: ignore[no-untyped-def]
    tree, cubes, table, message, outside, belief, state_start, state, cube,
    first_clique, last_clique, axis, work, scope_belief,
):  # fmt: skip
    """Fill beliefs of cliques from the roots down, and probabilities of states and cubes.

    Only for cliques `first_clique` to `last_clique`; those after must be done.
    """
    size = cubes.size
    for i in range(last_clique - 1, first_clique - 1, -1):
        fill_belief(tree, size, i, table, message, outside, belief, axis, work, scope_belief)
        begin, states = tree.table_start[i], size[tree.order[i]]
        own = state_start[tree.order[i]]
        for first in range(begin, tree.table_start[i + 1], states):
            for s in range(states):
                state[own + s] += belief[first + s]
        axes = number_axes(tree, size, i, axis, work)
        for j in range(tree.cube_start[i], tree.cube_start[i + 1]):
            c = tree.cube[j]
            cube[c] = visit_cube(belief, begin, cubes, c, axis, axes, work, 0.0)


@inner
def fill_belief(tree, size, i, table, message, outside, belief, axis, work, scope_belief):  # type: ignore[no-untyped-def]
    """Fill the belief of clique i, P(scope)·exp(ψ − m), from its parent's or from `outside`."""
    begin, states = tree.table_start[i], size[tree.order[i]]
    num_rows = tree.message_start[i + 1] - tree.message_start[i]
    if tree.parent[i] == ROOT:
        scope_belief[0] = 1.0
    elif tree.parent[i] == CORE:
        for row in range(num_rows):
            scope_belief[row] = outside[tree.message_start[i] + row]
    else:
        for row in range(num_rows):
            scope_belief[row] = 0.0
        _exchange(tree, size, i, belief, scope_belief, 0, axis, work, SUM, scope_belief)
    for row in range(num_rows):
        total = message[tree.message_start[i] + row]
        for at in range(begin + row * states, begin + (row + 1) * states):
            if scope_belief[row] == 0.0 or total == -np.inf:
                belief[at] = 0.0
            else:
                belief[at] = scope_belief[row] * math.exp(table[at] - total)


@entry
def distribute_logs(  # type: ignore[no-untyped-def]
    tree, size, table, message, state_start, state, axis, work, peak, above
):
    """Fill the logarithm of each state's belief; slower than beliefs, which underflow below 1e-308.

    The tables become logarithms of beliefs. There must be no core.
    """
    for i in range(len(tree.order) - 1, -1, -1):
        begin, states = tree.table_start[i], size[tree.order[i]]
        num_rows = tree.message_start[i + 1] - tree.message_start[i]
        for row in range(num_rows):
            peak[row], above[row] = -np.inf, 0.0
        if tree.parent[i] == ROOT:
            peak[0], above[0] = 0.0, 1.0
        else:
            _exchange(tree, size, i, table, peak, 0, axis, work, MAX, peak)
            _exchange(tree, size, i, table, above, 0, axis, work, SUM_EXP, peak)
        for row in range(num_rows):
            total = message[tree.message_start[i] + row]
            for at in range(begin + row * states, begin + (row + 1) * states):
                if peak[row] == -np.inf or total == -np.inf:
                    table[at] = -np.inf
                else:
                    table[at] += peak[row] + np.log(above[row]) - total
        own = state_start[tree.order[i]]
        for s in range(states):
            best, others = -np.inf, 0.0
            for row in range(num_rows):
                best = max(best, table[begin + row * states + s])
            if best > -np.inf:
                for row in range(num_rows):
                    others += np.exp(table[begin + row * states + s] - best)
                best += np.log(others)
            state[own + s] = best


@entry
def pick_states(tree, size, table, message, uniform, states):  # type: ignore[no-untyped-def]
    """Set each variable given the later ones, row by row of states[num_worlds, num_variables].

    At random by uniform[num_worlds, num_cliques], or the best state if that is empty.
    """
    for world in range(len(states)):
        state = states[world]
        for i in range(len(tree.order) - 1, -1, -1):
            v = tree.order[i]
            row = 0
            for at in range(tree.scope_start[i], tree.scope_start[i + 1]):
                u = tree.scope_variable[at]
                row = row * size[u] + state[u]
            first = tree.table_start[i] + row * size[v]
            chosen = 0
            for s in range(1, size[v]):
                if table[first + s] > table[first + chosen]:
                    chosen = s
            if len(uniform):
                # Start at the most likely state, so that rounding never ends in an impossible one.
                left = uniform[world, i]
                s = chosen
                for _ in range(size[v]):
                    left -= np.exp(table[first + s] - message[tree.message_start[i] + row])
                    if left < 0.0:
                        chosen = s
                        break
                    s = (s + 1) % size[v]
            state[v] = chosen


@inner
def number_axes(tree, size, i, axis, work):  # type: ignore[no-untyped-def]
    """Number the axes of a clique in `axis`, with sizes in work[0], strides in work[1]."""
    begin = tree.scope_start[i]
    last = tree.scope_start[i + 1] - begin
    for a in range(last):
        u = tree.scope_variable[begin + a]
        axis[u] = a
        work[0, a] = size[u]
    v = tree.order[i]
    axis[v] = last
    work[0, last] = size[v]
    stride = 1
    for a in range(last, -1, -1):
        work[1, a] = stride
        stride *= work[0, a]
    return last + 1


@inner
def visit_cube(table, begin, cubes, cube, axis, num_axes, work, value):  # type: ignore[no-untyped-def]
    """Add `value` to the entries of a cube in a table laid out in `work`; return their old sum."""
    count, listed, digit, stride = work[2], work[3], work[4], work[5]
    for a in range(num_axes):
        count[a] = work[0, a]
        listed[a] = -1
    for member in range(cubes.start[cube], cubes.start[cube + 1]):
        a = axis[cubes.variable[member]]
        count[a] = cubes.state_start[member + 1] - cubes.state_start[member]
        listed[a] = cubes.state_start[member]
    at = begin
    active = 0
    for a in range(num_axes):
        if listed[a] >= 0:
            at += work[1, a] * cubes.state[listed[a]]
        if count[a] > 1:
            count[active], listed[active], stride[active] = count[a], listed[a], work[1, a]
            digit[active] = 0
            active += 1
    total = 0.0
    while True:
        total += table[at]
        table[at] += value
        a = active - 1
        while a >= 0:
            now = digit[a]
            then = now + 1 if now + 1 < count[a] else 0
            digit[a] = then
            if listed[a] >= 0:
                at += stride[a] * (cubes.state[listed[a] + then] - cubes.state[listed[a] + now])
            else:
                at += stride[a] * (then - now)
            if then > 0:
                break
            a -= 1
        if a < 0:
            return total


@inner
def _exchange(tree, size, i, table, message, begin, axis, work, what, peak):  # type: ignore[no-untyped-def]
    """Add clique i's message to its parent's table, or reduce the table to the message.

    The reduction is by sums, maxima, or sums of exponentials relative to `peak`. Axes of the table
    are joined into runs that the message has or lacks as a whole; it has the last run, with the
    parent's own variable.
    """
    parent = tree.parent[i]
    num_axes = number_axes(tree, size, parent, axis, work)
    length, step, digit, shared = work[2], work[3], work[4], work[5]
    for a in range(num_axes):
        shared[a] = 0
    for at in range(tree.scope_start[i], tree.scope_start[i + 1]):
        shared[axis[tree.scope_variable[at]]] = 1
    runs = 0
    for a in range(num_axes):
        if a > 0 and shared[a] == shared[a - 1]:
            length[runs - 1] *= work[0, a]
        else:
            length[runs] = work[0, a]
            step[runs] = shared[a]
            runs += 1
    stride = 1
    for run in range(runs - 1, -1, -1):
        if step[run] == 1:
            step[run] = stride
            stride *= length[run]
    for run in range(runs):
        digit[run] = 0
    inner = length[runs - 1]
    place = begin
    at = tree.table_start[parent]
    end = tree.table_start[parent + 1]
    while True:
        if what == SUM:
            for offset in range(inner):
                message[place + offset] += table[at + offset]
        elif what == MAX:
            for offset in range(inner):
                message[place + offset] = max(message[place + offset], table[at + offset])
        elif what == SUM_EXP:
            for offset in range(inner):
                if table[at + offset] > -np.inf:
                    message[place + offset] += np.exp(table[at + offset] - peak[place + offset])
        else:
            for offset in range(inner):
                table[at + offset] += message[place + offset]
        at += inner
        if at == end:
            return
        run = runs - 2
        while digit[run] == length[run] - 1:
            digit[run] = 0
            place -= step[run] * (length[run] - 1)
            run -= 1
        digit[run] += 1
        place += step[run]
