"""Queries to a circuit: passes up and down its nodes, for many rows of evidence.

Values go up, in log space: a product adds its children, a sum takes log Σ exp. Flows go down:

    flow(node) = ∂ log root / ∂ log node,   1 at the root,
    to a child of a product: all of it;   to a child of a sum: the part exp(child − sum).

The flow of an indicator is the posterior probability of its state; that of a parameter is the
expected number of its uses. Flows are probabilities, so they do not overflow. The other queries:

    log P(q | e)        two values, the first with the query's states added to the evidence
    most likely states  max in place of +, then down along the maxima
    samples             down, at each sum to a child in proportion to its value
    entropy             of a sum Σ_c w_c (H_c − log w_c), w_c = child / sum; of a product Σ_c H_c

Most likely states and entropies need determinism. If two children of a sum share a world, neither
its largest term nor the entropies of its terms determine the probability of the world.

**Many rows.** Logarithms take most of the time of an evaluation in log space. With `LANES` rows or
more, a node's number is its value divided by its value without evidence,

    r(n) = value(n | e) / value(n),   0 ≤ r ≤ 1.

A parameter's number is 1, a product's is the product of its children's, and a sum's is their
average with weights value(child) / value(sum). Several rows go through the nodes side by side, so
the inner loops are vector instructions; this is 4 to 10 times faster. A number that underflows is
below 1e-308 and enters the root with a weight of at most 1. So no digit is lost where the root is
above `TINY`; the other rows are evaluated again in log space.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from lapis.circuits import evaluation_kernel as kernel
from lapis.circuits.circuit import Circuit, circuit_arrays
from lapis.circuits.evaluation_kernel import LANES
from lapis.errors import LapisError
from lapis.inference.random_numbers import random_states
from lapis.runtime.processes import ThreadPool, num_cores

Found = TypeVar("Found")
MISSING = -1  # the state of a variable that evidence does not mention
TINY = 1e-280
SHARES = 8  # parts of the rows that threads work on
SMALL = 2_000_000  # edges × rows below which a second thread does not pay


def log_values(circuit: Circuit, evidence: np.ndarray) -> np.ndarray:
    """float64[num_rows], the log of the root for rows of states, int[num_rows, num_variables].

    A negative state is missing: the variable is summed out.
    """
    rows = as_evidence_rows(circuit, evidence)
    if len(rows) >= LANES:
        return log_values_in_blocks(circuit, rows)
    found = np.empty(len(rows))
    kernel.evaluate_rows(circuit_arrays(circuit), rows, np.empty(circuit.num_nodes), found)
    return found


def log_values_in_blocks(circuit: Circuit, rows: np.ndarray) -> np.ndarray:
    """Evaluate many rows relative to no evidence; rows with the smallest values in log space."""
    arrays = circuit_arrays(circuit)
    total, value = np.empty(1), np.empty(circuit.num_nodes)
    kernel.evaluate_rows(arrays, no_evidence(circuit), value, total)
    if total[0] == -np.inf:
        return np.full(len(rows), -np.inf)
    relative = kernel.relative_circuit(arrays, value)
    share = np.empty(len(rows))

    def work(part: slice) -> None:
        memory = np.ones((len(relative.state), LANES))
        kernel.evaluate_blocks(
            relative, arrays.variable_of_state, arrays.state_start, rows[part], memory, share[part]
        )

    run_in_threads(work, len(rows), circuit.num_edges // LANES)
    found = np.log(np.maximum(share, TINY)) + total[0]
    small = np.flatnonzero(share < TINY)
    again = np.empty(len(small))
    kernel.evaluate_rows(arrays, rows[small], value, again)
    found[small] = again
    return found


def posteriors(circuit: Circuit, evidence: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return log P(evidence), [num_rows], and P(state | evidence), [num_rows, num_states].

    Rows of probability 0 have NaN for all states.
    """
    circuit.require("marginals")
    rows = as_evidence_rows(circuit, evidence)
    found = np.zeros((len(rows), circuit.num_states))
    value = np.empty(len(rows))
    arrays, unused = circuit_arrays(circuit), np.zeros(0)

    def work(part: slice) -> None:
        memory = np.empty((2, circuit.num_nodes))
        kernel.propagate_flows(arrays, rows[part], unused, memory, value[part], found[part], unused)

    run_in_threads(work, len(rows), 2 * circuit.num_edges)
    return value, found


def expected_parameters(
    circuit: Circuit, evidence: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return log P(evidence) of each row and Σ_rows weight × expected uses of each parameter.

    float64[num_rows], float64[num_parameters]; rows of probability 0 add nothing.
    """
    circuit.require("expected counts")
    rows = as_evidence_rows(circuit, evidence)
    value = np.empty(len(rows))
    arrays, unused = circuit_arrays(circuit), np.zeros((0, 0))

    def work(part: slice) -> np.ndarray:
        memory = np.empty((2, circuit.num_nodes))
        total = np.zeros(circuit.num_parameters)
        kernel.propagate_flows(arrays, rows[part], weight[part], memory, value[part], unused, total)
        return total

    totals = run_in_threads(work, len(rows), 2 * circuit.num_edges)
    return value, sum(totals, np.zeros(circuit.num_parameters))


def as_evidence_rows(circuit: Circuit, evidence: np.ndarray) -> np.ndarray:
    """Return evidence as contiguous int32[num_rows, num_variables]."""
    rows = np.ascontiguousarray(evidence, np.int32)
    return rows if rows.ndim == 2 else rows.reshape(-1, circuit.num_variables)


def run_in_threads(work: Callable[[slice], Found], num_rows: int, cost: int) -> list[Found]:
    """Call `work` on parts of the rows, in threads if rows × cost is large.

    The parts do not depend on the number of cores, so neither do sums over them.
    """
    if num_rows < 2 or num_rows * cost < SMALL:
        return [work(slice(0, num_rows))]
    size = -(-num_rows // SHARES)
    parts = [slice(first, min(first + size, num_rows)) for first in range(0, num_rows, size)]
    with ThreadPool(num_cores()) as pool:
        return list(pool.map(work, parts))


def no_evidence(circuit: Circuit) -> np.ndarray:
    """int32[1, num_variables], a row in which all states are missing."""
    return np.full((1, circuit.num_variables), MISSING, np.int32)


def log_partition(circuit: Circuit) -> float:
    """Return log Z; it is 0 for a normalised circuit, such as a learned one."""
    return float(log_values(circuit, no_evidence(circuit))[0])


def log_probabilities(circuit: Circuit, rows: np.ndarray) -> np.ndarray:
    """float64[num_rows], log P of rows of states; negative states are missing."""
    return log_values(circuit, rows) - log_partition(circuit)


def log_conditionals(circuit: Circuit, query: np.ndarray, evidence: np.ndarray) -> np.ndarray:
    """float64[num_rows], log P(query | evidence), both rows of states with missing ones.

    -inf where query and evidence give a variable different states, NaN where the evidence is
    impossible.
    """
    event, given = as_evidence_rows(circuit, query), as_evidence_rows(circuit, evidence)
    contradict = ((event >= 0) & (given >= 0) & (event != given)).any(axis=1)
    joint = log_values(circuit, np.where(given >= 0, given, event))
    with np.errstate(invalid="ignore"):
        found = np.where(contradict, -np.inf, joint) - log_values(circuit, given)
    return np.asarray(found)


def most_likely(circuit: Circuit, evidence: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the most likely complete rows that agree with the evidence, and log P(row).

    int32[num_rows, num_variables], float64[num_rows].
    """
    circuit.require("most likely states", deterministic=True)
    rows = as_evidence_rows(circuit, evidence)
    found = rows.copy()
    value = np.empty(len(rows))
    kernel.maximise_rows(circuit_arrays(circuit), rows, *node_memory(circuit), value, found)
    require_possible_evidence(value)
    return found, value - log_partition(circuit)


def draw_samples(
    circuit: Circuit, num_samples: int, seed: int, evidence: np.ndarray | None = None
) -> np.ndarray:
    """int32[num_samples, num_variables], independent samples given one row of evidence."""
    circuit.require("samples")
    row = no_evidence(circuit)[0] if evidence is None else as_evidence_rows(circuit, evidence)[0]
    found = np.tile(row, (num_samples, 1))
    value, stack = node_memory(circuit)
    kernel.sample_rows(circuit_arrays(circuit), row, value, stack, random_states(seed, 1)[0], found)
    require_possible_evidence(value[-1:])
    return found


def complete_rows(circuit: Circuit, rows: np.ndarray, seed: int) -> np.ndarray:
    """int32[num_rows, num_variables], rows with their missing states drawn given the others."""
    circuit.require("samples")
    found = as_evidence_rows(circuit, rows).copy()
    possible = np.empty(len(found), np.bool_)
    rng = random_states(seed, 1)[0]
    kernel.fill_rows(circuit_arrays(circuit), *node_memory(circuit), rng, found, possible)
    require_possible_evidence(np.where(possible, 0.0, -np.inf))
    return found


def entropy(circuit: Circuit, evidence: np.ndarray | None = None) -> float:
    """Return −Σ_x P(x | e) log P(x | e), in nats."""
    circuit.require("entropy", deterministic=True)
    row = no_evidence(circuit)[0] if evidence is None else as_evidence_rows(circuit, evidence)[0]
    memory = np.zeros((2, circuit.num_nodes))
    kernel.sum_entropies(circuit_arrays(circuit), row, memory[0], memory[1])
    require_possible_evidence(memory[0, -1:])
    return float(memory[1, -1])


def node_memory(circuit: Circuit) -> tuple[np.ndarray, np.ndarray]:
    """Return work space of kernels: float64[num_nodes] values, int32[num_nodes] stack."""
    return np.empty(circuit.num_nodes), np.empty(circuit.num_nodes, np.int32)


def require_possible_evidence(log_value: np.ndarray) -> None:
    """Refuse evidence of probability 0."""
    if (log_value == -np.inf).any():
        raise LapisError("the evidence has probability 0", code="impossible-evidence")
