"""Tables as ordered decision diagrams, in which equal sub-tables are one node.

A node decides the variable at one position of the order and has a child for each state; a leaf is
a number. A sub-table that is the same for all states of a variable does not decide it. So what is
left of a table once some variables are set is a single number, the node reached, and two contexts
in which a table is left the same are seen to be the same (Bahar et al. 1997).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.circuits.compilation.gates import is_row, mix
from lapis.circuits.factors.factor_graph import FactorGraph
from lapis.runtime.kernels import entry, inner

LEAF = -1


class Diagrams(NamedTuple):
    position: np.ndarray  # int32[num_nodes], of the variable decided; LEAF for a number
    child_start: np.ndarray  # int64[num_nodes + 1]
    child: np.ndarray  # int32[...], lower numbers than their parent
    log_value: np.ndarray  # float64[num_nodes], of leaves
    support_start: np.ndarray  # int64[num_nodes + 1]
    support: np.ndarray  # int32[...], positions that a node depends on
    root: np.ndarray  # int32[num_factors]


class _Nodes(NamedTuple):
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
    nodes = _Nodes(
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
        ids[at] = _find(nodes, LEAF, ids[:0], log_value[at])
    count = len(ids)
    for axis in range(len(shape) - 1, -1, -1):
        width = shape[axis]
        count //= width
        for row in range(count):
            children = ids[row * width : (row + 1) * width]
            same = True
            for at in range(1, width):
                same = same and children[at] == children[0]
            ids[row] = children[0] if same else _find(nodes, positions[axis], children, 0.0)
    return ids[0]


@inner
def _find(nodes, position, children, log_value):  # type: ignore[no-untyped-def]
    mask = np.uint64(len(nodes.slot) - 1)
    nodes.number[0] = log_value
    hashed = mix(np.uint64(position + 1), nodes.bits[0])
    for child in children:
        hashed = mix(hashed, child)
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
