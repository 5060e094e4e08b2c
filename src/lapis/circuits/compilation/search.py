"""Compilation by top-down search with component caching.

The search sets variables in a fixed order, the reverse of an elimination order. What is left of
the model is then a set of diagram nodes (`diagrams.py`), which falls into components that share
no variable; each is compiled once:

    node(C) = Σ_s λ_{v=s} · θ · Π_{components D of C | v=s} node(D) · Π_{u dropped out} Σ_t λ_{u=t}

with v the first variable of C, θ the product of tables that v=s turned into numbers, and u the
variables that no table mentions any more. A branch in which a table became zero is dropped. The
cache's key is the set of diagram nodes itself, so it merges contexts that leave the same tables,
not only those with equal values (as in Mateescu & Dechter's AND/OR decision diagrams, and finer
than the contexts of recursive conditioning): determinism, context-specific independence and equal
parameters all shrink it. Along a pseudo-tree order the number of components is at most the
entries of the elimination's tables.

The whole state of the search is in arrays, so that it runs in slices and can be stopped.

Tables as ordered decision diagrams, in which equal sub-tables are one node.

A node decides the variable at one position of the order and has a child for each state; a leaf is
a number. A sub-table that is the same for all states of a variable does not decide it. So what is
left of a table once some variables are set is a single number, the node reached, and two contexts
in which a table is left the same are seen to be the same (Bahar et al. 1997).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.circuits.circuit import PRODUCT, SUM
from lapis.circuits.compilation.elimination import elimination_times
from lapis.circuits.compilation.gates import (
    FULL,
    ZERO,
    Gates,
    add_constant,
    add_node,
    hash_step,
    is_row,
    make_constant,
    make_node,
)
from lapis.circuits.factor_graph import FactorGraph
from lapis.network.csr import row_starts
from lapis.runtime.kernels import entry, inner
from lapis.runtime.progress import Progress, Report, Stop

SLICE = 2_000_000  # units of work between looks at the clock
RUNNING, DONE, NO_ROOM = 0, 1, 2
PENDING = -4  # a component that is being compiled
# Fields of a frame.
KEY, KEY_END, SCOPE_END, VARIABLE, STATE, TERMS, FACTORS, FACTORS_END, AT, END, ENTRY = range(11)
NUM_FIELDS = 11


class ComponentCache(NamedTuple):
    slot: np.ndarray  # int32[2^k], entry + 1
    key_start: np.ndarray  # int64[room + 1]
    key: np.ndarray  # int32[...]
    node: np.ndarray  # int32[room]


class SearchArrays(NamedTuple):
    size: np.ndarray  # int32[num_positions], states of the variable at each position
    first_state: np.ndarray  # int64[num_positions], its first indicator
    free: np.ndarray  # int32[num_positions], the node Σ λ of it
    frame: np.ndarray  # int64[num_positions + 2, NUM_FIELDS]
    work: np.ndarray  # int32[...], keys, scopes, terms and factors of the frames
    seen: np.ndarray  # int64[num_positions], when a position was last met
    owner: np.ndarray  # int32[num_positions], the member that met it
    counter: np.ndarray  # int64[4]: depth, work's end, entries in the cache, looks


def search_circuit(
    graph: FactorGraph,
    order: np.ndarray,
    gates: Gates,
    max_work: int,
    stop: Stop | None = None,
    progress: Report | None = None,
) -> int:
    """The root of the circuit found with variables set in an order; FULL if there is too much."""
    size = graph.size[order]
    num_positions = len(order)
    diagrams = build_diagrams(graph, elimination_times(order).astype(np.int32))
    first_state = row_starts(graph.size)[:-1][order]
    free = np.empty(num_positions, np.int32)
    for at in range(num_positions):
        states = np.arange(first_state[at], first_state[at] + size[at], dtype=np.int32)
        free[at] = add_node(gates, SUM, states)
    constant = float(
        diagrams.log_value[diagrams.root][diagrams.position[diagrams.root] == LEAF].sum()
    )
    if constant == -np.inf:
        return ZERO
    key = np.sort(diagrams.root[diagrams.position[diagrams.root] != LEAF])
    room = len(gates.kind)
    cache = ComponentCache(
        np.zeros(1 << int(np.ceil(np.log2(2 * room + 2))), np.int32),
        np.zeros(room + 1, np.int64),
        np.empty(8 * room, np.int32),
        np.empty(room, np.int32),
    )
    longest = num_positions * 2 + len(key) * 3 + int(size.max(initial=1)) + 16
    state = SearchArrays(
        size.astype(np.int32),
        first_state,
        free,
        np.zeros((num_positions + 2, NUM_FIELDS), np.int64),
        np.empty(min(longest * (num_positions + 2), 1 << 28), np.int32),
        np.full(num_positions, -1, np.int64),
        np.zeros(num_positions, np.int32),
        np.zeros(4, np.int64),
    )
    _begin(state, key)
    status = RUNNING
    for _ in range(0, max_work, SLICE):
        status = _run(state, diagrams, cache, gates, SLICE)
        if status != RUNNING:
            break
        if progress is not None:
            progress(Progress("searching", int(state.counter[2]), text="components"))
        if stop is not None and stop.is_over():
            return FULL
    root = np.array([add_constant(gates, constant), state.work[0]], np.int32)
    return int(add_node(gates, PRODUCT, root)) if status == DONE else FULL


@entry
def _begin(state, key):  # type: ignore[no-untyped-def]
    """A first frame that sets nothing: its only branch is the whole model."""
    frame, work = state.frame[0], state.work
    frame[TERMS] = 0
    frame[KEY] = 1
    for at in range(len(key)):
        work[1 + at] = key[at]
    frame[KEY_END] = 1 + len(key)
    end = frame[KEY_END]
    for position in range(len(state.size)):
        work[end] = position
        end += 1
    frame[SCOPE_END] = end
    frame[VARIABLE], frame[STATE], frame[FACTORS], frame[ENTRY] = -1, 0, -1, -1
    state.counter[0], state.counter[1] = 1, end


@entry
def _run(state, diagrams, cache, gates, budget):  # type: ignore[no-untyped-def]
    work = state.work
    room = len(work) - 2 * len(state.size) - 64
    while budget > 0:
        depth = state.counter[0]
        if depth == 0:
            return DONE
        frame = state.frame[depth - 1]
        variable = frame[VARIABLE]
        num_states = state.size[variable] if variable >= 0 else 1
        if frame[STATE] == num_states:
            terms = work[frame[TERMS] : frame[TERMS] + num_states]
            node = make_node(gates, SUM, terms)
            if node == FULL:
                return NO_ROOM
            if frame[ENTRY] >= 0:
                cache.node[frame[ENTRY]] = node
                state.counter[1] = frame[TERMS]
            else:
                work[0] = node
            state.counter[0] -= 1
            continue
        if frame[FACTORS] < 0:
            if state.counter[1] + 3 * (frame[KEY_END] - frame[KEY]) > room:
                return NO_ROOM
            budget -= _open_branch(state, diagrams, gates, frame)
            continue
        if frame[AT] < frame[END]:
            length = work[frame[AT]]
            key = work[frame[AT] + 1 : frame[AT] + 1 + length]
            found, is_new = _find_component(cache, state.counter, key)
            budget -= length
            if found < 0:
                return NO_ROOM
            if is_new:
                _push_component(state, diagrams, key, found)
                continue
            node = cache.node[found]
            frame[AT] = frame[END] if node == ZERO else frame[AT] + 1 + length
            work[frame[FACTORS_END]] = node
            frame[FACTORS_END] += 1
            continue
        node = make_node(gates, PRODUCT, work[frame[FACTORS] : frame[FACTORS_END]])
        if node == FULL:
            return NO_ROOM
        work[frame[TERMS] + frame[STATE]] = node
        state.counter[1] = frame[FACTORS]
        frame[FACTORS] = -1
        frame[STATE] += 1
    return RUNNING


@inner
def _open_branch(state, diagrams, gates, frame):  # type: ignore[no-untyped-def]
    """Set the frame's variable: the factors known at once, and the components left; the work."""
    work, seen, owner = state.work, state.seen, state.owner
    variable, value = frame[VARIABLE], frame[STATE]
    begin = state.counter[1]
    state.counter[3] += 1
    now = state.counter[3]
    # What is left of each table, after a place for as many links of a forest.
    count = 0
    members = begin
    log_value = 0.0
    for at in range(frame[KEY], frame[KEY_END]):
        node = work[at]
        if diagrams.position[node] == variable:
            node = diagrams.child[diagrams.child_start[node] + value]
        if diagrams.position[node] == LEAF:
            log_value += diagrams.log_value[node]
        else:
            work[members + count] = node
            count += 1
    if log_value == -np.inf:
        work[frame[TERMS] + value] = ZERO
        frame[STATE] += 1
        return frame[KEY_END] - frame[KEY]
    link = members + count
    spent = count
    for number in range(count):
        work[link + number] = number
        node = work[members + number]
        spent += diagrams.support_start[node + 1] - diagrams.support_start[node]
        for at in range(diagrams.support_start[node], diagrams.support_start[node + 1]):
            position = diagrams.support[at]
            if seen[position] != now:
                seen[position] = now
                owner[position] = number
            else:
                one, other = _top(work, link, owner[position]), _top(work, link, number)
                work[link + max(one, other)] = min(one, other)
    factors = link + count
    end = factors
    frame[FACTORS] = factors
    if variable >= 0:
        work[end] = state.first_state[variable] + value
        end += 1
    work[end] = make_constant(gates, log_value)
    end += 1
    num_parts = 0
    for number in range(count):
        num_parts += _top(work, link, number) == number
    for at in range(frame[KEY_END], frame[SCOPE_END]):
        position = work[at]
        if position != variable and seen[position] != now:
            work[end] = state.free[position]
            end += 1
    frame[FACTORS_END] = end
    end += num_parts
    frame[AT] = end
    for number in range(count):
        if _top(work, link, number) != number:
            continue
        head = end
        end += 1
        for other in range(number, count):
            if _top(work, link, other) == number:
                node = work[members + other]
                place = end
                while place > head + 1 and work[place - 1] > node:
                    work[place] = work[place - 1]
                    place -= 1
                work[place] = node
                end += 1
        work[head] = end - head - 1
        spent += count
    frame[END] = end
    state.counter[1] = end
    return spent


@inner
def _top(work, link, number):  # type: ignore[no-untyped-def]
    while work[link + number] != number:
        work[link + number] = work[link + work[link + number]]
        number = work[link + number]
    return number


@inner
def _push_component(state, diagrams, key, number):  # type: ignore[no-untyped-def]
    """A frame for a component that was not met before."""
    work = state.work
    state.counter[3] += 1
    now = state.counter[3]
    variable = len(state.size)
    for node in key:
        variable = min(variable, diagrams.position[node])
    frame = state.frame[state.counter[0]]
    end = state.counter[1]
    frame[TERMS] = end
    end += state.size[variable]
    frame[KEY] = end
    for node in key:
        work[end] = node
        end += 1
    frame[KEY_END] = end
    for node in key:
        for at in range(diagrams.support_start[node], diagrams.support_start[node + 1]):
            position = diagrams.support[at]
            if state.seen[position] != now:
                state.seen[position] = now
                work[end] = position
                end += 1
    frame[SCOPE_END] = end
    frame[VARIABLE], frame[STATE], frame[FACTORS], frame[ENTRY] = variable, 0, -1, number
    state.counter[0] += 1
    state.counter[1] = end


@inner
def _find_component(cache, counter, key):  # type: ignore[no-untyped-def]
    """The entry of a component, and whether it was made just now; −1 if there is no room."""
    hashed = np.uint64(len(key))
    for node in key:
        hashed = hash_step(hashed, node)
    mask = np.uint64(len(cache.slot) - 1)
    place = hashed & mask
    while cache.slot[place]:
        number = cache.slot[place] - 1
        if is_row(cache.key_start, cache.key, number, key):
            return number, False
        place = (place + np.uint64(1)) & mask
    number = counter[2]
    if number >= len(cache.node):
        return -1, False
    first = cache.key_start[number]
    if first + len(key) > len(cache.key):
        return -1, False
    for at in range(len(key)):
        cache.key[first + at] = key[at]
    cache.key_start[number + 1] = first + len(key)
    cache.node[number] = PENDING
    cache.slot[place] = number + 1
    counter[2] = number + 1
    return number, True


LEAF = -1


class Diagrams(NamedTuple):
    position: np.ndarray  # int32[num_nodes], of the variable decided; LEAF for a number
    child_start: np.ndarray  # int64[num_nodes + 1]
    child: np.ndarray  # int32[...], lower numbers than their parent
    log_value: np.ndarray  # float64[num_nodes], of leaves
    support_start: np.ndarray  # int64[num_nodes + 1]
    support: np.ndarray  # int32[...], positions that a node depends on
    root: np.ndarray  # int32[num_factors]


class _SearchNodes(NamedTuple):
    position: np.ndarray
    child_start: np.ndarray
    child: np.ndarray
    log_value: np.ndarray
    slot: np.ndarray
    made: np.ndarray
    number: np.ndarray
    bits: np.ndarray


def build_diagrams(graph: FactorGraph, position: np.ndarray) -> Diagrams:
    """All tables, with variables decided by position, int32[num_variables], the lowest first."""
    room = 2 * len(graph.log_value) + 2
    number = np.zeros(1)
    nodes = _SearchNodes(
        np.empty(room, np.int32),
        np.zeros(room + 1, np.int64),
        np.empty(room, np.int32),
        np.zeros(room),
        np.zeros(1 << int(np.ceil(np.log2(2 * room))), np.int32),
        np.zeros(1, np.int64),
        number,
        number.view(np.uint64),
    )
    ids = np.empty(int(np.diff(graph.table_start).max(initial=0)), np.int32)
    roots = np.empty(graph.num_factors, np.int32)
    widest = 1
    for factor in range(graph.num_factors):
        scope, table = graph.variables_of(factor), graph.table(factor)
        by_position = np.argsort(position[scope])
        turned = np.ascontiguousarray(table.transpose(by_position))
        shape = np.array(turned.shape, np.int64)
        roots[factor] = _reduce(
            nodes, turned.ravel(), shape, position[scope[by_position]], ids[: table.size]
        )
        widest = max(widest, len(scope))
    count = int(nodes.made[0])
    start = np.zeros(count + 1, np.int64)
    support = np.empty(count * widest, np.int32)
    _support(nodes, start, support, np.full(len(position), -1, np.int64))
    edges = int(nodes.child_start[count])
    return Diagrams(
        nodes.position[:count].copy(),
        nodes.child_start[: count + 1].copy(),
        nodes.child[:edges].copy(),
        nodes.log_value[:count].copy(),
        start,
        support[: start[-1]].copy(),
        roots,
    )


@entry
def _reduce(nodes, log_value, shape, positions, ids):  # type: ignore[no-untyped-def]
    """The root of a table, its axes folded from the last to the first."""
    for at in range(len(log_value)):
        ids[at] = _find_diagram(nodes, LEAF, ids[:0], log_value[at])
    count = len(ids)
    for axis in range(len(shape) - 1, -1, -1):
        width = shape[axis]
        count //= width
        for row in range(count):
            children = ids[row * width : (row + 1) * width]
            same = True
            for at in range(1, width):
                same = same and children[at] == children[0]
            ids[row] = children[0] if same else _find_diagram(nodes, positions[axis], children, 0.0)
    return ids[0]


@inner
def _find_diagram(nodes, position, children, log_value):  # type: ignore[no-untyped-def]
    mask = np.uint64(len(nodes.slot) - 1)
    nodes.number[0] = log_value
    hashed = hash_step(np.uint64(position + 1), nodes.bits[0])
    for child in children:
        hashed = hash_step(hashed, child)
    place = hashed & mask
    while nodes.slot[place]:
        node = nodes.slot[place] - 1
        alike = nodes.position[node] == position and nodes.log_value[node] == log_value
        if alike and is_row(nodes.child_start, nodes.child, node, children):
            return node
        place = (place + np.uint64(1)) & mask
    node = nodes.made[0]
    first = nodes.child_start[node]
    nodes.position[node] = position
    nodes.log_value[node] = log_value
    for at in range(len(children)):
        nodes.child[first + at] = children[at]
    nodes.child_start[node + 1] = first + len(children)
    nodes.slot[place] = node + 1
    nodes.made[0] = node + 1
    return node


@entry
def _support(nodes, start, support, seen):  # type: ignore[no-untyped-def]
    """The positions of the variables that each node depends on."""
    end = 0
    for node in range(len(start) - 1):
        if nodes.position[node] != LEAF:
            support[end] = nodes.position[node]
            end += 1
        for edge in range(nodes.child_start[node], nodes.child_start[node + 1]):
            child = nodes.child[edge]
            for at in range(start[child], start[child + 1]):
                position = support[at]
                if seen[position] != node:
                    seen[position] = node
                    support[end] = position
                    end += 1
        start[node + 1] = end
