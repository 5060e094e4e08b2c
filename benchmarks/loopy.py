"""Loopy belief propagation on products of tables, for comparison with circuits.

Kernels are not cached: scripts import this module as `loopy`, modules as `benchmarks.loopy`, and a
cache contains the name.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from lapis.circuits.factor_graph import FactorGraph
from lapis.network.csr import row_starts

MAX_PASSES = 200
TOLERANCE = 1e-6
DAMPING = 0.3


class Propagated(NamedTuple):
    state: np.ndarray  # float64[num_states], beliefs
    log_partition: float  # of the Bethe free energy
    converged: bool


def propagate(graph: FactorGraph, row: np.ndarray) -> Propagated:
    """Return the beliefs given a row of states, which are negative if unknown."""
    size = graph.size
    first = row_starts(size)
    evidence = np.ones(int(first[-1]))
    for v in np.flatnonzero(row >= 0):
        evidence[first[v] : first[v + 1]] = np.arange(size[v]) == row[v]
    peak = np.maximum.reduceat(graph.log_value, graph.table_start[:-1])
    value = np.exp(graph.log_value - np.repeat(peak, np.diff(graph.table_start)))
    message_start = row_starts(size[graph.scope])
    up = np.ones(int(message_start[-1]))  # from tables to variables
    belief = np.empty(int(first[-1]))
    in_table = np.empty_like(value)
    converged = _pass(
        graph.scope_start, graph.scope, graph.table_start, value, size, first, evidence,
        message_start, up, belief, in_table,
    )  # fmt: skip
    positive = in_table > 0
    energy = float(
        (in_table[positive] * (graph.log_value[positive] - np.log(in_table[positive]))).sum()
    )
    degree = np.repeat(np.bincount(graph.scope, minlength=len(size)), size)
    return Propagated(
        belief, energy + float(((degree - 1) * belief * _logs(belief)).sum()), bool(converged)
    )


def _logs(value: np.ndarray) -> np.ndarray:
    return np.log(np.where(value > 0, value, 1.0))


@njit
def next_entry(digit, size, scope, begin, end):  # type: ignore[no-untyped-def]
    """Increment the digits of a table's entry, the last axis first."""
    axis = end - begin - 1
    while axis >= 0:
        digit[axis] += 1
        if digit[axis] < size[scope[begin + axis]]:
            return
        digit[axis] = 0
        axis -= 1


@njit
def _pass(  # type: ignore[no-untyped-def]
    scope_start, scope, table_start, value, size, first, evidence, start, up, belief, in_table
):
    down = np.empty_like(up)
    new = np.empty(size.max())
    digit = np.zeros(64, np.int64)
    converged = False
    for _ in range(MAX_PASSES):
        belief[:] = evidence
        for member in range(len(scope)):
            v = scope[member]
            total = 0.0
            for s in range(size[v]):
                belief[first[v] + s] *= up[start[member] + s]
                total += belief[first[v] + s]
            for s in range(size[v]):
                belief[first[v] + s] /= max(total, 1e-300)
        change = 0.0
        for factor in range(len(scope_start) - 1):
            begin, end = scope_start[factor], scope_start[factor + 1]
            for member in range(begin, end):
                v = scope[member]
                for s in range(size[v]):
                    down[start[member] + s] = belief[first[v] + s] / max(
                        up[start[member] + s], 1e-300
                    )
            for member in range(begin, end):
                v = scope[member]
                new[: size[v]] = 0.0
                digit[: end - begin] = 0
                for at in range(table_start[factor], table_start[factor + 1]):
                    term = value[at]
                    for other in range(begin, end):
                        if other != member:
                            term *= down[start[other] + digit[other - begin]]
                    new[digit[member - begin]] += term
                    next_entry(digit, size, scope, begin, end)
                total = new[: size[v]].sum()
                for s in range(size[v]):
                    fresh = new[s] / max(total, 1e-300)
                    old = up[start[member] + s]
                    change = max(change, abs(fresh - old))
                    up[start[member] + s] = DAMPING * old + (1 - DAMPING) * fresh
        if change < TOLERANCE:
            converged = True
            break
    for v in range(len(size)):
        total = 0.0
        for s in range(size[v]):
            total += belief[first[v] + s]
        for s in range(size[v]):
            belief[first[v] + s] /= max(total, 1e-300)
    for factor in range(len(scope_start) - 1):
        begin, end = scope_start[factor], scope_start[factor + 1]
        digit[: end - begin] = 0
        total = 0.0
        for at in range(table_start[factor], table_start[factor + 1]):
            in_table[at] = value[at]
            for other in range(begin, end):
                in_table[at] *= down[start[other] + digit[other - begin]]
            total += in_table[at]
            next_entry(digit, size, scope, begin, end)
        for at in range(table_start[factor], table_start[factor + 1]):
            in_table[at] /= max(total, 1e-300)
    return converged
