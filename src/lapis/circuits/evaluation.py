"""Values and derivatives of a circuit, in log space, for many rows of evidence.

Upward, a product adds its children and a sum takes log Σ exp; a sum of which evidence leaves one
child needs no exponential, which is why rows of complete data are cheap. Downward goes the flow

    flow(node) = ∂ log root / ∂ log node,   1 at the root,
    to a child of a product: all of it;   of a sum: the part exp(child − sum),

so the flow of an indicator is the posterior probability of its state, that of a parameter the
expected number of times it is used; being probabilities, flows never overflow. (Derivatives in log
space, product by product, would cost a logarithm an edge and say no more about evidence that is
possible.) Rows are dealt to the cores in shares; kernels hold no lock.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np

from lapis.circuits.blocks import LANES, TINY, as_averages, evaluate_blocks
from lapis.circuits.circuit import INDICATOR, PARAMETER, PRODUCT, Circuit
from lapis.runtime.kernels import entry, inner
from lapis.runtime.processes import num_cores

Found = TypeVar("Found")
MISSING = -1  # the state of a variable that evidence does not mention
SHARES = 8  # that rows are dealt in
SMALL = 2_000_000  # edges × rows below which a second thread is not worth its start


class CircuitArrays(NamedTuple):
    """What kernels read of a circuit; fields as in `Circuit`."""

    kind: np.ndarray
    leaf: np.ndarray
    start: np.ndarray
    child: np.ndarray
    log_parameter: np.ndarray
    variable_of_state: np.ndarray
    state_start: np.ndarray


def structure_of(circuit: Circuit) -> CircuitArrays:
    return CircuitArrays(*(getattr(circuit, name) for name in CircuitArrays._fields))


def log_values(circuit: Circuit, evidence: np.ndarray) -> np.ndarray:
    """float64[num_rows], the log of the root for rows of states, int[num_rows, num_variables].

    A negative state is missing: the variable is summed out.
    """
    rows = as_rows(circuit, evidence)
    if len(rows) >= LANES:
        return log_values_in_blocks(circuit, rows)
    found = np.empty(len(rows))
    _evaluate(structure_of(circuit), rows, np.empty(circuit.num_nodes), found)
    return found


def log_values_in_blocks(circuit: Circuit, rows: np.ndarray) -> np.ndarray:
    """The same for many rows; those of the smallest values again, in log space."""
    structure = structure_of(circuit)
    nothing = np.full((1, circuit.num_variables), MISSING, np.int32)
    whole, value = np.empty(1), np.empty(circuit.num_nodes)
    _evaluate(structure, nothing, value, whole)
    if whole[0] == -np.inf:
        return np.full(len(rows), -np.inf)
    averages = as_averages(structure, value)
    share = np.empty(len(rows))

    def work(part: slice) -> None:
        memory = np.ones((len(averages.state), LANES))
        evaluate_blocks(
            averages, structure.variable_of_state, structure.state_start, rows[part], memory,
            share[part],
        )  # fmt: skip

    run_in_shares(work, len(rows), circuit.num_edges // LANES)
    lost = np.flatnonzero(share < TINY)
    found = np.log(np.maximum(share, TINY)) + whole[0]
    again = np.empty(len(lost))
    _evaluate(structure, rows[lost], value, again)
    found[lost] = again
    return found


def posteriors(circuit: Circuit, evidence: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """log P(evidence), float64[num_rows], and P(state | evidence), float64[num_rows, num_states].

    Rows of probability 0 have NaN for all states.
    """
    circuit.require("marginals")
    rows = as_rows(circuit, evidence)
    found = np.zeros((len(rows), circuit.num_states))
    value = np.empty(len(rows))
    structure = structure_of(circuit)
    nobody = np.zeros(0)

    def work(part: slice) -> None:
        memory = np.empty((2, circuit.num_nodes))
        _flow(structure, rows[part], nobody, memory, value[part], found[part], nobody)

    run_in_shares(work, len(rows), 2 * circuit.num_edges)
    return value, found


def expected_parameters(
    circuit: Circuit, evidence: np.ndarray, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """log P(evidence) of each row, and Σ over rows of weight × expected uses of each parameter.

    float64[num_rows], float64[num_parameters]; rows of probability 0 add nothing.
    """
    circuit.require("expected counts")
    rows = as_rows(circuit, evidence)
    weights = np.ones(len(rows)) if weight is None else np.asarray(weight, np.float64)
    value = np.empty(len(rows))
    structure = structure_of(circuit)
    nobody = np.zeros((0, 0))

    def work(part: slice) -> np.ndarray:
        memory = np.empty((2, circuit.num_nodes))
        total = np.zeros(circuit.num_parameters)
        _flow(structure, rows[part], weights[part], memory, value[part], nobody, total)
        return total

    totals = run_in_shares(work, len(rows), 2 * circuit.num_edges)
    return value, sum(totals, np.zeros(circuit.num_parameters))


def as_rows(circuit: Circuit, evidence: np.ndarray) -> np.ndarray:
    """int32[num_rows, num_variables]"""
    rows = np.ascontiguousarray(evidence, np.int32)
    return rows if rows.ndim == 2 else rows.reshape(-1, circuit.num_variables)


def run_in_shares(work: Callable[[slice], Found], num_rows: int, cost: int) -> list[Found]:
    """Do the work on shares of the rows, on all cores if it is enough.

    Shares do not depend on the cores, so that sums over them do not either.
    """
    if num_rows < 2 or num_rows * cost < SMALL:
        return [work(slice(0, num_rows))]
    size = -(-num_rows // SHARES)
    parts = [slice(first, min(first + size, num_rows)) for first in range(0, num_rows, size)]
    with ThreadPoolExecutor(num_cores()) as pool:
        return list(pool.map(work, parts))


@inner
def climb(circuit, row, maximise, value):  # type: ignore[no-untyped-def]
    """Write the log value of every node; with the largest child of a sum in the place of all."""
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
            best = -math.inf
            possible = 0
            for e in range(start[n], start[n + 1]):
                one = value[child[e]]
                if one > -math.inf:
                    possible += 1
                    if one > best:
                        best = one
            if possible > 1 and not maximise:
                total = 0.0
                for e in range(start[n], start[n + 1]):
                    one = value[child[e]]
                    if one > -math.inf:
                        total += math.exp(one - best)
                best += math.log(total)
            value[n] = best


@entry
def _evaluate(circuit, rows, value, found):  # type: ignore[no-untyped-def]
    for r in range(len(rows)):
        climb(circuit, rows[r], False, value)
        found[r] = value[len(circuit.kind) - 1]


@entry
def _flow(circuit, rows, weight, memory, found, states, parameters):  # type: ignore[no-untyped-def]
    """Log values of rows; flows into `states` by row, or their weighted sum into `parameters`."""
    kind, leaf, start, child = circuit.kind, circuit.leaf, circuit.start, circuit.child
    value, flow = memory[0], memory[1]
    root = len(kind) - 1
    for r in range(len(rows)):
        climb(circuit, rows[r], False, value)
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
