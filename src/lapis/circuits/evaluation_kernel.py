"""Compiled passes over the nodes of a circuit (`evaluation.py`); circuits are `CircuitArrays`."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lapis.circuits.circuit import INDICATOR, PARAMETER, PRODUCT, SUM
from lapis.inference.random_numbers import uniform
from lapis.runtime.kernels import allocating_entry, entry, inner

LANES = 8  # rows that are evaluated side by side


@inner
def evaluate_nodes(circuit, row, maximise, value):  # type: ignore[no-untyped-def]
    """Write the log value of every node; with `maximise` a sum is its largest child."""
    kind, leaf, start, child = circuit.kind, circuit.leaf, circuit.start, circuit.child
    for n in range(len(kind)):
        if kind[n] == INDICATOR:
            v = circuit.variable_of_state[leaf[n]]
            agrees = row[v] < 0 or row[v] == leaf[n] - circuit.state_start[v]
            value[n] = 0.0 if agrees else -math.inf
        elif kind[n] == PARAMETER:
            value[n] = circuit.log_parameter[leaf[n]]
        elif kind[n] == PRODUCT:
            total = 0.0
            for e in range(start[n], start[n + 1]):
                total += value[child[e]]
            value[n] = total
        else:
            value[n] = _evaluate_sum(circuit, n, maximise, value)


@inner
def _evaluate_sum(circuit, n, maximise, value):  # type: ignore[no-untyped-def]
    """Log Σ exp of the children of a sum; with one possible child no exponential is needed."""
    best = -math.inf
    possible = 0
    for e in range(circuit.start[n], circuit.start[n + 1]):
        one = value[circuit.child[e]]
        if one > -math.inf:
            possible += 1
            if one > best:
                best = one
    if possible > 1 and not maximise:
        total = 0.0
        for e in range(circuit.start[n], circuit.start[n + 1]):
            one = value[circuit.child[e]]
            if one > -math.inf:
                total += math.exp(one - best)
        best += math.log(total)
    return best


@entry
def evaluate_rows(circuit, rows, value, found):  # type: ignore[no-untyped-def]
    """Write the log value of the root for each row."""
    for r in range(len(rows)):
        evaluate_nodes(circuit, rows[r], False, value)
        found[r] = value[len(circuit.kind) - 1]


@entry
def propagate_flows(circuit, rows, weight, memory, found, states, parameters):  # type: ignore[no-untyped-def]
    """Write log values of rows; flows into `states` by row, or their weighted sum to `parameters`.

    `memory` is float64[2, num_nodes]. An array of length 0 is not written to.
    """
    kind, leaf, start, child = circuit.kind, circuit.leaf, circuit.start, circuit.child
    value, flow = memory[0], memory[1]
    root = len(kind) - 1
    for r in range(len(rows)):
        evaluate_nodes(circuit, rows[r], False, value)
        found[r] = value[root]
        if value[root] == -math.inf:
            if len(states):
                states[r, :] = math.nan
            continue
        flow[:] = 0.0
        flow[root] = 1.0
        for n in range(root, -1, -1):
            if flow[n] == 0.0:
                continue
            if kind[n] == INDICATOR:
                if len(states):
                    states[r, leaf[n]] += flow[n]
            elif kind[n] == PARAMETER:
                if len(parameters):
                    parameters[leaf[n]] += weight[r] * flow[n]
            elif kind[n] == PRODUCT:
                for e in range(start[n], start[n + 1]):
                    flow[child[e]] += flow[n]
            else:
                for e in range(start[n], start[n + 1]):
                    c = child[e]
                    if value[c] == value[n]:
                        flow[c] += flow[n]
                    elif value[c] > -math.inf:
                        flow[c] += flow[n] * math.exp(value[c] - value[n])


class RelativeCircuit(NamedTuple):
    """A circuit of averages and products of indicators, in topological order; node 0 is 1."""

    is_sum: np.ndarray  # bool[num_nodes]
    state: np.ndarray  # int32[num_nodes], of an indicator; else -1
    start: np.ndarray  # int64[num_nodes + 1]
    child: np.ndarray  # int32[num_edges]
    weight: np.ndarray  # float64[num_edges], of a child in an average


@allocating_entry
def relative_circuit(circuit, value):  # type: ignore[no-untyped-def]
    """Divide a circuit by its log values without evidence, float64[num_nodes]."""
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
            # A product that is 0 without evidence is no child of a sum.
            if value[c] == -np.inf if is_sum[size] else circuit.kind[c] == PARAMETER:
                continue
            child[num_edges] = number[c]
            weight[num_edges] = np.exp(value[c] - value[n]) if is_sum[size] else 1.0
            num_edges += 1
        number[n] = size
        size += 1
        start[size] = num_edges
    return RelativeCircuit(
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


@inner
def _choose_states(circuit, value, rng, stack, row):  # type: ignore[no-untyped-def]
    """Go down from the root, at a sum to a random child, or without a generator to the largest."""
    kind, leaf, start, child = circuit.kind, circuit.leaf, circuit.start, circuit.child
    stack[0] = len(kind) - 1
    height = 1
    while height:
        height -= 1
        n = stack[height]
        if kind[n] == INDICATOR:
            v = circuit.variable_of_state[leaf[n]]
            row[v] = leaf[n] - circuit.state_start[v]
        elif kind[n] == PRODUCT:
            for e in range(start[n], start[n + 1]):
                stack[height] = child[e]
                height += 1
        elif kind[n] == SUM:
            chosen = -1
            rest = uniform(rng) if len(rng) else 0.0
            best = -math.inf
            for e in range(start[n], start[n + 1]):
                one = value[child[e]]
                if one == -math.inf:
                    continue
                if len(rng):
                    chosen = child[e]  # the last possible one, if rounding leaves a rest
                    rest -= math.exp(one - value[n])
                    if rest < 0.0:
                        break
                elif one > best:
                    best, chosen = one, child[e]
            stack[height] = chosen
            height += 1


@entry
def maximise_rows(circuit, rows, value, stack, found, worlds):  # type: ignore[no-untyped-def]
    """Write the largest log value given each row, and its states to `worlds`."""
    no_generator = circuit.log_parameter[:0].view(np.uint64)
    for r in range(len(rows)):
        evaluate_nodes(circuit, rows[r], True, value)
        found[r] = value[len(circuit.kind) - 1]
        if found[r] > -math.inf:
            _choose_states(circuit, value, no_generator, stack, worlds[r])


@entry
def sample_rows(circuit, row, value, stack, rng, worlds):  # type: ignore[no-untyped-def]
    """Draw the missing states of a row, once for each of `worlds`."""
    evaluate_nodes(circuit, row, False, value)
    if value[len(circuit.kind) - 1] > -math.inf:
        for r in range(len(worlds)):
            _choose_states(circuit, value, rng, stack, worlds[r])


@entry
def fill_rows(circuit, value, stack, rng, rows, possible):  # type: ignore[no-untyped-def]
    """Draw the missing states of each row given its others; write which rows are possible."""
    for r in range(len(rows)):
        possible[r] = True
        for v in range(rows.shape[1]):
            if rows[r, v] < 0:
                evaluate_nodes(circuit, rows[r], False, value)
                possible[r] = value[len(circuit.kind) - 1] > -math.inf
                if possible[r]:
                    _choose_states(circuit, value, rng, stack, rows[r])
                break


@entry
def sum_entropies(circuit, row, value, found):  # type: ignore[no-untyped-def]
    """Write the log value and the entropy of every node."""
    evaluate_nodes(circuit, row, False, value)
    kind, start, child = circuit.kind, circuit.start, circuit.child
    for n in range(len(kind)):
        for e in range(start[n], start[n + 1]):
            c = child[e]
            if kind[n] == PRODUCT:
                found[n] += found[c]
            elif value[c] > -math.inf:
                log_share = value[c] - value[n]
                found[n] += math.exp(log_share) * (found[c] - log_share)
