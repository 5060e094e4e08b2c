"""The nodes of a circuit under construction: equal nodes are one node.

Nodes are numbered in the order in which they are made, children before parents. The first nodes are
the indicators λ of all states. ZERO and ONE are no nodes; sums and products simplify them away. A
node is found by the hash of its kind and its sorted children. So table entries that do not depend
on some variable share a node: context-specific independence and equal parameters make circuits
small.

Memory is reserved once, and untouched memory costs nothing. FULL means that it is used up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.circuits.circuit import INDICATOR, PARAMETER, PRODUCT, SUM
from lapis.runtime.kernels import entry, inner

ZERO, ONE = -1, -2
FULL = -3  # no node: there is no room


class Gates(NamedTuple):
    kind: np.ndarray  # int8[room]
    child_start: np.ndarray  # int64[room + 1]
    child: np.ndarray  # int32[edge room]
    log_value: np.ndarray  # float64[room], of parameters
    slot: np.ndarray  # int32[2^k], node + 1 by hash, 0 where empty
    made: np.ndarray  # int64[1], nodes so far
    number: np.ndarray  # float64[1], work space to read the bits of a number
    bits: np.ndarray  # uint64[1], the same memory


def new_gates(num_states: int, room: int, edge_room: int) -> Gates:
    """Reserve memory for nodes and edges, and make the indicators."""
    room = min(room + num_states, 2**31 - 8)
    slots = 1 << int(np.ceil(np.log2(2 * room + 2)))
    number = np.zeros(1)
    gates = Gates(
        np.empty(room, np.int8),
        np.zeros(room + 1, np.int64),
        np.empty(edge_room, np.int32),
        np.zeros(room),
        np.zeros(slots, np.int32),
        np.array([num_states], np.int64),
        number,
        number.view(np.uint64),
    )
    gates.kind[:num_states] = INDICATOR
    return gates


@entry
def add_constant(gates, log_value):  # type: ignore[no-untyped-def]
    """Call `make_constant` from Python."""
    return make_constant(gates, log_value)


@entry
def add_node(gates, kind, children):  # type: ignore[no-untyped-def]
    """Call `make_node` from Python."""
    return make_node(gates, kind, children)


@inner
def hash_step(hashed, value):  # type: ignore[no-untyped-def]
    """Add an integer to a hash."""
    hashed = (hashed ^ np.uint64(value)) * np.uint64(0x9E3779B97F4A7C15)
    return hashed ^ (hashed >> np.uint64(29))


@inner
def is_row(start, entry, row, wanted):  # type: ignore[no-untyped-def]
    """Whether a row of a ragged array equals `wanted`."""
    first, same, at = start[row], start[row + 1] - start[row] == len(wanted), 0
    while same and at < len(wanted):
        same = entry[first + at] == wanted[at]
        at += 1
    return same


@inner
def make_constant(gates, log_value):  # type: ignore[no-untyped-def]
    """Return the node of a constant, given as its logarithm."""
    if log_value == 0.0:
        return ONE
    if log_value == -np.inf:
        return ZERO
    mask = np.uint64(len(gates.slot) - 1)
    gates.number[0] = log_value
    place = hash_step(hash_step(np.uint64(PARAMETER), gates.bits[0]), 1) & mask
    while gates.slot[place]:
        node = gates.slot[place] - 1
        if gates.kind[node] == PARAMETER and gates.log_value[node] == log_value:
            return node
        place = (place + np.uint64(1)) & mask
    node = gates.made[0]
    if node >= len(gates.kind):
        return FULL
    gates.kind[node] = PARAMETER
    gates.log_value[node] = log_value
    gates.child_start[node + 1] = gates.child_start[node]
    gates.slot[place] = node + 1
    gates.made[0] = node + 1
    return node


@inner
def _simplify_children(kind, children):  # type: ignore[no-untyped-def]
    """Sort the children in place, without ZERO and ONE; return their number, −1 for ZERO."""
    count = 0
    for at in range(len(children)):
        node = children[at]
        if node == ZERO and kind == PRODUCT:
            return -1
        if node == (ZERO if kind == SUM else ONE):
            continue
        place = count
        while place > 0 and children[place - 1] > node:
            children[place] = children[place - 1]
            place -= 1
        children[place] = node
        count += 1
    return count


@inner
def make_node(gates, kind, children):  # type: ignore[no-untyped-def]
    """Return the sum or product of nodes, FULL if there is no room; `children` is overwritten."""
    count = _simplify_children(kind, children)
    if count < 0:
        return ZERO
    if count == 0:
        return ZERO if kind == SUM else ONE
    if count == 1:
        return children[0]
    hashed = hash_step(np.uint64(kind), count)
    for at in range(count):
        hashed = hash_step(hashed, children[at])
    mask = np.uint64(len(gates.slot) - 1)
    place = hashed & mask
    while gates.slot[place]:
        node = gates.slot[place] - 1
        wanted = children[:count]
        if gates.kind[node] == kind and is_row(gates.child_start, gates.child, node, wanted):
            return node
        place = (place + np.uint64(1)) & mask
    node = gates.made[0]
    first = gates.child_start[node]
    if node >= len(gates.kind) or first + count > len(gates.child):
        return FULL
    for at in range(count):
        gates.child[first + at] = children[at]
    gates.kind[node] = kind
    gates.child_start[node + 1] = first + count
    gates.slot[place] = node + 1
    gates.made[0] = node + 1
    return node
