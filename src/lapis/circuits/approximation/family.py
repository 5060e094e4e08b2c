"""Everything that a circuit's structure can express, given evidence.

A deterministic circuit is a tree of decisions that are shared: at each sum one child is taken, with
a probability. Here these probabilities, one for each edge of a sum, are the parameters, however
the circuit tied them; there are no parameter nodes, and a set of them is always normalised:

    π(n, c) = value(c) / value(n)

With evidence, children that contradict it are gone, observed indicators are 1, and what is left
with one child is this child: the circuit conditioned and pruned (AC², step 2).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lapis.circuits.circuit import INDICATOR, PARAMETER, PRODUCT, SUM, Circuit, new_circuit
from lapis.circuits.evaluation import climb, structure_of
from lapis.circuits.queries import refuse_impossible
from lapis.runtime.kernels import entry, inner

NOTHING = -1  # a node that evidence turned into a number


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
    """The family of a circuit given a row of states, negative where nothing is known."""
    circuit.require("an approximation", deterministic=True)
    num_nodes = circuit.num_nodes
    value = np.empty(num_nodes)
    number = np.empty(num_nodes, np.int32)
    used = np.zeros(num_nodes, np.bool_)
    made = (
        np.empty(num_nodes, np.int8),
        np.full(num_nodes, -1, np.int32),
        np.zeros(num_nodes + 1, np.int64),
        np.empty(circuit.num_edges, np.int32),
        np.zeros(circuit.num_edges),
    )
    structure = structure_of(circuit)
    count = _prune(structure, np.asarray(row, np.int32), value, used, number, *made)
    refuse_impossible(value[-1:])
    kind, leaf, start, child, log_share = made
    edges = int(start[count])
    return Family(
        kind[:count].copy(), leaf[:count].copy(), start[: count + 1].copy(), child[:edges].copy(),
        log_share[:edges].copy(), structure.variable_of_state, structure.state_start,
    )  # fmt: skip


def family_circuit(family: Family, circuit: Circuit, row: np.ndarray) -> Circuit:
    """A circuit with these shares for parameters; what was observed is in it again."""
    num_nodes = len(family.kind)
    counts = np.diff(family.start)
    of_sum = np.repeat(family.kind == SUM, counts)
    num_shares = int(of_sum.sum())
    observed = circuit.state_start[:-1][row >= 0] + row[row >= 0]
    # Observed indicators and parameters, then the nodes, each sum after the products it needs.
    parameter = len(observed) + np.cumsum(of_sum) - 1
    # A product that one sum alone has for a child takes its share in; others get one of their own.
    own_edge = np.full(num_nodes, NOTHING)
    own_edge[family.child] = np.arange(len(family.child))
    is_own = (np.bincount(family.child, minlength=num_nodes) == 1) & (family.kind == PRODUCT)
    is_own[is_own] = of_sum[own_edge[is_own]]
    first = len(observed) + num_shares
    kind = [np.full(len(observed), INDICATOR), np.full(num_shares, PARAMETER)]
    leaf = [observed, np.arange(num_shares)]
    lengths = [np.zeros(first, np.int64)]
    child: list[np.ndarray] = []
    number = np.empty(num_nodes, np.int64)
    place = first
    for node in range(num_nodes):
        edges = np.arange(family.start[node], family.start[node + 1])
        below = number[family.child[edges]]
        if family.kind[node] == SUM:
            plain = np.flatnonzero(~is_own[family.child[edges]])
            child.append(np.column_stack((parameter[edges[plain]], below[plain])).ravel())
            kind.append(np.full(len(plain), PRODUCT))
            leaf.append(np.full(len(plain), -1))
            lengths.append(np.full(len(plain), 2))
            below[plain] = place + np.arange(len(plain))
            place += len(plain)
        elif is_own[node]:
            below = np.concatenate((parameter[own_edge[node]][None], below))
        child.append(below)
        kind.append(family.kind[node][None])
        leaf.append(family.leaf[node][None])
        lengths.append(np.array([len(below)]))
        number[node] = place
        place += 1
    if len(observed) or not num_nodes:
        top = [place - 1] if num_nodes else []
        child.append(np.concatenate((np.arange(len(observed)), top)))
        kind.append(np.array([PRODUCT]))
        leaf.append(np.array([-1]))
        lengths.append(np.array([len(child[-1])]))
    return new_circuit(
        circuit.names, circuit.states, np.concatenate(kind), np.concatenate(leaf),
        np.concatenate(([0], np.cumsum(np.concatenate(lengths)))), np.concatenate(child),
        family.log_share[of_sum], circuit.properties,
    )  # fmt: skip


@entry
def _prune(  # type: ignore[no-untyped-def]
    circuit, row, value, used, number, new_kind, new_leaf, new_start, new_child, log_share
):
    """Fill the arrays of a family; the number of its nodes."""
    kind, leaf, start, child = circuit.kind, circuit.leaf, circuit.start, circuit.child
    root = len(kind) - 1
    climb(circuit, row, False, value)
    used[root] = value[root] > -math.inf
    for n in range(root, -1, -1):
        if used[n]:
            for e in range(start[n], start[n + 1]):
                if value[child[e]] > -math.inf:
                    used[child[e]] = True
    count = 0
    for n in range(root + 1):
        number[n] = NOTHING
        if not used[n] or kind[n] == PARAMETER:
            continue
        if kind[n] == INDICATOR:
            if row[circuit.variable_of_state[leaf[n]]] >= 0:
                continue
            new_leaf[count] = leaf[n]
        end = new_start[count]
        for e in range(start[n], start[n + 1]):
            c = child[e]
            if value[c] > -math.inf and number[c] != NOTHING:
                new_child[end] = number[c]
                log_share[end] = value[c] - value[n] if kind[n] == SUM else 0.0
                end += 1
        if kind[n] != INDICATOR:
            length = end - new_start[count]
            if length == 0:
                continue
            if length == 1:
                number[n] = new_child[end - 1]
                continue
        new_kind[count] = kind[n]
        number[n] = count
        count += 1
        new_start[count] = end
    return count


@inner
def hold(family, row, holds):  # type: ignore[no-untyped-def]
    """Which nodes a world is below."""
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
