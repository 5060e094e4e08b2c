"""Values of a circuit for many rows: blocks of lanes, in numbers relative to no evidence.

Logarithms cost most of an evaluation in log space. Here a node's number is its value divided by its
value without evidence,

    r(n) = value(n | e) / value(n),   0 ≤ r ≤ 1,

so a parameter's is 1 and drops out of products, a product's is the product of its children's, and a
sum's their average with weights value(child) / value(sum). A handful of rows go through the nodes
side by side, one a lane, and the inner loops are vector instructions. What underflows is below
1e-308 and enters the root with a weight of at most 1: where the root is above `TINY` no digit is
lost, and the other rows are told to the caller, who has logarithms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.circuits.circuit import INDICATOR, PARAMETER, SUM
from lapis.runtime.kernels import allocating_entry, entry

LANES = 8
TINY = 1e-280


class AveragesAndProducts(NamedTuple):
    """A circuit as averages and products of indicators, in topological order; node 0 is 1."""

    is_sum: np.ndarray  # bool[num_nodes]
    state: np.ndarray  # int32[num_nodes], of an indicator; else -1
    start: np.ndarray  # int64[num_nodes + 1]
    child: np.ndarray  # int32[num_edges]
    weight: np.ndarray  # float64[num_edges], of a child in an average


@allocating_entry
def as_averages(circuit, value):  # type: ignore[no-untyped-def]
    """The circuit relative to its log values without evidence, float64[num_nodes]."""
    num_nodes = len(circuit.kind)
    number = np.zeros(num_nodes, np.int32)
    is_sum = np.zeros(num_nodes + 1, np.bool_)
    state = np.full(num_nodes + 1, -1, np.int32)
    start = np.zeros(num_nodes + 2, np.int64)
    child = np.empty(len(circuit.child), np.int32)
    weight = np.empty(len(circuit.child))
    size, num_edges = 1, 0
    for n in range(num_nodes):
        if circuit.kind[n] == PARAMETER:
            continue
        if circuit.kind[n] == INDICATOR:
            state[size] = circuit.leaf[n]
        is_sum[size] = circuit.kind[n] == SUM
        for e in range(circuit.start[n], circuit.start[n + 1]):
            c = circuit.child[e]
            if value[c] == -np.inf if is_sum[size] else circuit.kind[c] == PARAMETER:
                continue  # of a product that is 0 without evidence nobody asks
            child[num_edges] = number[c]
            weight[num_edges] = np.exp(value[c] - value[n]) if is_sum[size] else 1.0
            num_edges += 1
        number[n] = size
        size += 1
        start[size] = num_edges
    return AveragesAndProducts(
        is_sum[:size].copy(), state[:size].copy(), start[: size + 1].copy(),
        child[:num_edges].copy(), weight[:num_edges].copy(),
    )  # fmt: skip


@entry
def evaluate_blocks(circuit, variable_of_state, state_start, rows, memory, found):  # type: ignore[no-untyped-def]
    """Write the root's number for each row; `memory` is float64[num_nodes, LANES]."""
    root = len(circuit.state) - 1
    for first in range(0, len(rows), LANES):
        lanes = min(LANES, len(rows) - first)
        for n in range(root + 1):
            here = memory[n]
            if circuit.state[n] >= 0:
                v = variable_of_state[circuit.state[n]]
                own = circuit.state[n] - state_start[v]
                for b in range(lanes):
                    given = rows[first + b, v]
                    here[b] = 1.0 if given < 0 or given == own else 0.0
            elif circuit.is_sum[n]:
                for b in range(LANES):
                    here[b] = 0.0
                for e in range(circuit.start[n], circuit.start[n + 1]):
                    other, weight = memory[circuit.child[e]], circuit.weight[e]
                    for b in range(LANES):
                        here[b] += weight * other[b]
            else:
                for b in range(LANES):
                    here[b] = 1.0
                for e in range(circuit.start[n], circuit.start[n + 1]):
                    other = memory[circuit.child[e]]
                    for b in range(LANES):
                        here[b] *= other[b]
        for b in range(lanes):
            found[first + b] = memory[root, b]
