"""All distributions with the structure of a circuit, given evidence.

In a deterministic circuit each sum takes one child, with a probability. Here these probabilities,
one for each edge of a sum, are the parameters, also where the circuit tied them. There are no
parameter nodes, and every set of shares is normalised:

    π(n, c) = value(c) / value(n)

Evidence removes the children that contradict it, turns observed indicators into 1, and replaces a
node with one child by this child: the circuit conditioned and pruned (AC², step 2).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lapis.circuits.circuit import (
    INDICATOR,
    PARAMETER,
    PRODUCT,
    SUM,
    Circuit,
    NodeList,
    circuit_arrays,
)
from lapis.circuits.evaluation import require_possible_evidence
from lapis.circuits.evaluation_kernel import evaluate_nodes
from lapis.runtime.kernels import entry, inner

NO_NODE = -1  # number of a node that evidence turned into a constant


class Family(NamedTuple):
    """A circuit whose parameters are the shares of the children in their sums."""

    kind: np.ndarray  # int8[num_nodes], INDICATOR, SUM or PRODUCT; children first, the root last
    leaf: np.ndarray  # int32[num_nodes], the state of an indicator
    start: np.ndarray  # int64[num_nodes + 1]
    child: np.ndarray  # int32[num_edges]
    log_share: np.ndarray  # float64[num_edges], log π below sums, 0 below products
    variable_of_state: np.ndarray  # int32[num_states]
    state_start: np.ndarray  # int32[num_variables + 1]


def condition_circuit(circuit: Circuit, row: np.ndarray) -> Family:
    """Return the family of a circuit given a row of states, negative where unobserved."""
    circuit.require("an approximation", deterministic=True)
    num_nodes = circuit.num_nodes
    value = np.empty(num_nodes)
    arrays = circuit_arrays(circuit)
    new = Family(
        np.empty(num_nodes, np.int8), np.full(num_nodes, -1, np.int32),
        np.zeros(num_nodes + 1, np.int64), np.empty(circuit.num_edges, np.int32),
        np.zeros(circuit.num_edges), arrays.variable_of_state, arrays.state_start,
    )  # fmt: skip
    used, number = np.zeros(num_nodes, np.bool_), np.empty(num_nodes, np.int32)
    count = _prune(arrays, np.asarray(row, np.int32), value, used, number, new)
    require_possible_evidence(value[-1:])
    num_edges = int(new.start[count])
    return new._replace(
        kind=new.kind[:count].copy(), leaf=new.leaf[:count].copy(),
        start=new.start[: count + 1].copy(), child=new.child[:num_edges].copy(),
        log_share=new.log_share[:num_edges].copy(),
    )  # fmt: skip


def family_circuit(family: Family, circuit: Circuit, row: np.ndarray) -> Circuit:
    """Return the circuit of a family: shares as parameters, observed indicators restored."""
    num_nodes = len(family.kind)
    of_sum = np.repeat(family.kind == SUM, np.diff(family.start))
    # A product with one parent, a sum, takes in its share; other shares get a product of their own.
    parent_edge = np.full(num_nodes, NO_NODE)
    parent_edge[family.child] = np.arange(len(family.child))
    has_share = (np.bincount(family.child, minlength=num_nodes) == 1) & (family.kind == PRODUCT)
    has_share[has_share] = of_sum[parent_edge[has_share]]
    nodes = NodeList()
    observed = nodes.add_leaves(INDICATOR, circuit.state_start[:-1][row >= 0] + row[row >= 0])
    parameter = np.full(len(of_sum), NO_NODE)
    parameter[of_sum] = nodes.add_leaves(PARAMETER, np.arange(int(of_sum.sum())))
    number = np.empty(num_nodes, np.int64)
    for node in range(num_nodes):
        edges = np.arange(family.start[node], family.start[node + 1])
        below = number[family.child[edges]]
        if family.kind[node] == SUM:
            plain = np.flatnonzero(~has_share[family.child[edges]])
            below[plain] = nodes.add_weighted(parameter[edges[plain]], below[plain])
        elif has_share[node]:
            below = np.append(parameter[parent_edge[node]], below)
        number[node] = nodes.add(
            family.kind[node], family.leaf[node], np.array([len(below)]), below
        )[0]
    if len(observed) or not num_nodes:
        factors = np.concatenate((observed, number[-1:]))
        nodes.add(PRODUCT, -1, np.array([len(factors)]), factors)
    return nodes.finish(circuit.names, circuit.states, family.log_share[of_sum], circuit.properties)


@entry
def _prune(circuit, row, value, used, number, new):  # type: ignore[no-untyped-def]
    """Fill the arrays of a family, `new`; return the number of its nodes."""
    kind, leaf = circuit.kind, circuit.leaf
    evaluate_nodes(circuit, row, False, value)
    _mark_used(circuit, value, used)
    count = 0
    for n in range(len(kind)):
        number[n] = NO_NODE
        if not used[n] or kind[n] == PARAMETER:
            continue
        if kind[n] == INDICATOR:
            if row[circuit.variable_of_state[leaf[n]]] >= 0:
                continue
            new.leaf[count] = leaf[n]
        end = _copy_edges(circuit, n, value, number, new, new.start[count])
        if kind[n] != INDICATOR and end - new.start[count] < 2:
            if end > new.start[count]:
                number[n] = new.child[end - 1]
            continue
        new.kind[count] = kind[n]
        number[n] = count
        count += 1
        new.start[count] = end
    return count


@inner
def _mark_used(circuit, value, used):  # type: ignore[no-untyped-def]
    """Mark the nodes that a possible world reaches."""
    root = len(circuit.kind) - 1
    used[root] = value[root] > -math.inf
    for n in range(root, -1, -1):
        if used[n]:
            for e in range(circuit.start[n], circuit.start[n + 1]):
                if value[circuit.child[e]] > -math.inf:
                    used[circuit.child[e]] = True


@inner
def _copy_edges(circuit, n, value, number, new, end):  # type: ignore[no-untyped-def]
    """Copy the edges of a node to possible children, from place `end` on; return their new end."""
    for e in range(circuit.start[n], circuit.start[n + 1]):
        c = circuit.child[e]
        if value[c] > -math.inf and number[c] != NO_NODE:
            new.child[end] = number[c]
            new.log_share[end] = value[c] - value[n] if circuit.kind[n] == SUM else 0.0
            end += 1
    return end


@inner
def find_holding_nodes(family, row, holds):  # type: ignore[no-untyped-def]
    """Write for each node whether it is 1 in a world, with all shares 1."""
    kind, start, child = family.kind, family.start, family.child
    for n in range(len(kind)):
        if kind[n] == INDICATOR:
            v = family.variable_of_state[family.leaf[n]]
            holds[n] = row[v] == family.leaf[n] - family.state_start[v]
        else:
            is_product = kind[n] == PRODUCT
            holds[n] = is_product
            for e in range(start[n], start[n + 1]):
                if holds[child[e]] != is_product:
                    holds[n] = not is_product
                    break
