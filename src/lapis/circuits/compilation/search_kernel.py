"""Compiled search of `search.py`: frames, the component cache, and decision diagrams."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.circuits.circuit import PRODUCT, SUM
from lapis.circuits.compilation.gates import FULL, ZERO, hash_step, is_row, make_constant, make_node
from lapis.runtime.kernels import entry, inner

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
    seen: np.ndarray  # int64[num_positions], stamp of the last visit
    owner: np.ndarray  # int32[num_positions], the member that visited it
    counter: np.ndarray  # int64[4]: depth, end of `work`, cache entries, stamp of `seen`


LEAF = -1


class Diagrams(NamedTuple):
    position: np.ndarray  # int32[num_nodes], of the variable decided; LEAF for a number
    child_start: np.ndarray  # int64[num_nodes + 1]
    child: np.ndarray  # int32[...], lower numbers than their parent
    log_value: np.ndarray  # float64[num_nodes], of leaves
    support_start: np.ndarray  # int64[num_nodes + 1]
    support: np.ndarray  # int32[...], positions that a node depends on
    root: np.ndarray  # int32[num_factors]


class NewDiagrams(NamedTuple):
    position: np.ndarray
    child_start: np.ndarray
    child: np.ndarray
    log_value: np.ndarray
    slot: np.ndarray
    made: np.ndarray
    number: np.ndarray
    bits: np.ndarray


@entry
def start_search(state, key):  # type: ignore[no-untyped-def]
    """Make a first frame that sets no variable; its only branch is the whole model."""
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
def run_search(state, diagrams, cache, gates, budget):  # type: ignore[no-untyped-def]
    """Search until the budget of work is spent; return RUNNING, DONE or NO_ROOM."""
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
    """Set the frame's variable: write the known factors and the components; return the work."""
    work, seen, owner = state.work, state.seen, state.owner
    variable, value = frame[VARIABLE], frame[STATE]
    begin = state.counter[1]
    state.counter[3] += 1
    now = state.counter[3]
    # The rest of each table; the links of a union-find forest follow.
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
                one, other = _find_root(work, link, owner[position]), _find_root(work, link, number)
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
        num_parts += _find_root(work, link, number) == number
    for at in range(frame[KEY_END], frame[SCOPE_END]):
        position = work[at]
        if position != variable and seen[position] != now:
            work[end] = state.free[position]
            end += 1
    frame[FACTORS_END] = end
    end += num_parts
    frame[AT] = end
    for number in range(count):
        if _find_root(work, link, number) != number:
            continue
        head = end
        end += 1
        for other in range(number, count):
            if _find_root(work, link, other) == number:
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
def _find_root(work, link, number):  # type: ignore[no-untyped-def]
    """Return the root of a member in the union-find forest, halving its path."""
    while work[link + number] != number:
        work[link + number] = work[link + work[link + number]]
        number = work[link + number]
    return number


@inner
def _push_component(state, diagrams, key, number):  # type: ignore[no-untyped-def]
    """Push a frame for a new component."""
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
    """Return the cache entry of a component, and whether it is new; −1 if there is no room."""
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


@entry
def reduce_table(nodes, log_value, shape, positions, ids):  # type: ignore[no-untyped-def]
    """Return the diagram of a table; its axes are folded from the last to the first."""
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
    """Return the diagram node with this content; add it if there is none."""
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
def find_support(nodes, start, support, seen):  # type: ignore[no-untyped-def]
    """Write the positions of the variables on which each node depends."""
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
