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
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.circuits.circuit import PRODUCT, SUM
from lapis.circuits.compilation.diagrams import LEAF, build_diagrams
from lapis.circuits.compilation.gates import (
    FULL,
    ZERO,
    Gates,
    add_constant,
    add_node,
    is_row,
    make_constant,
    make_node,
    mix,
)
from lapis.circuits.compilation.orders import times_of
from lapis.circuits.factors.factor_graph import FactorGraph
from lapis.network.csr import row_starts
from lapis.runtime.kernels import entry, inner
from lapis.runtime.progress import Progress, Report, Stop

SLICE = 2_000_000  # units of work between looks at the clock
RUNNING, DONE, NO_ROOM = 0, 1, 2
PENDING = -4  # a component that is being compiled
# Fields of a frame.
KEY, KEY_END, SCOPE_END, VARIABLE, STATE, TERMS, FACTORS, FACTORS_END, AT, END, ENTRY = range(11)
NUM_FIELDS = 11


class Cache(NamedTuple):
    slot: np.ndarray  # int32[2^k], entry + 1
    key_start: np.ndarray  # int64[room + 1]
    key: np.ndarray  # int32[...]
    node: np.ndarray  # int32[room]


class Search(NamedTuple):
    size: np.ndarray  # int32[num_positions], states of the variable at each position
    first_state: np.ndarray  # int64[num_positions], its first indicator
    free: np.ndarray  # int32[num_positions], the node Σ λ of it
    frame: np.ndarray  # int64[num_positions + 2, NUM_FIELDS]
    work: np.ndarray  # int32[...], keys, scopes, terms and factors of the frames
    seen: np.ndarray  # int64[num_positions], when a position was last met
    owner: np.ndarray  # int32[num_positions], the member that met it
    counter: np.ndarray  # int64[4]: depth, work's end, entries in the cache, looks


def search(
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
    diagrams = build_diagrams(graph, times_of(order).astype(np.int32))
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
    cache = Cache(
        np.zeros(1 << int(np.ceil(np.log2(2 * room + 2))), np.int32),
        np.zeros(room + 1, np.int64),
        np.empty(8 * room, np.int32),
        np.empty(room, np.int32),
    )
    longest = num_positions * 2 + len(key) * 3 + int(size.max(initial=1)) + 16
    state = Search(
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
            found, is_new = _look_up(cache, state.counter, key)
            budget -= length
            if found < 0:
                return NO_ROOM
            if is_new:
                _push(state, diagrams, key, found)
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
def _push(state, diagrams, key, number):  # type: ignore[no-untyped-def]
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
def _look_up(cache, counter, key):  # type: ignore[no-untyped-def]
    """The entry of a component, and whether it was made just now; −1 if there is no room."""
    hashed = np.uint64(len(key))
    for node in key:
        hashed = mix(hashed, node)
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
