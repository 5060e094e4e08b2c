"""What can be asked of a circuit beyond the probability of evidence.

    log P(q | e)        two values, the first with the query's states added to the evidence
    P(X | e)            flows (`evaluation.posteriors`)
    most likely states  max in the place of +, then down along the maxima
    samples             down, at each sum to a child in proportion to its value
    entropy             of a sum Σ_c w_c (H_c − log w_c), w_c = child / sum; of a product Σ_c H_c

The third and the last need determinism: where two children of a sum share a world, neither its
largest term nor its terms' entropies say how likely it is.
"""

from __future__ import annotations

import math

import numpy as np

from lapis.circuits.circuit import INDICATOR, PRODUCT, SUM, Circuit
from lapis.circuits.evaluation import MISSING, as_rows, climb, log_values, structure_of
from lapis.errors import LapisError
from lapis.inference.random_numbers import random_states, uniform
from lapis.runtime.kernels import entry, inner


def no_evidence(circuit: Circuit) -> np.ndarray:
    """int32[1, num_variables], a row that mentions nothing."""
    return np.full((1, circuit.num_variables), MISSING, np.int32)


def log_partition(circuit: Circuit) -> float:
    """log Z: 0 for a circuit that is normalised, such as a learned one."""
    return float(log_values(circuit, no_evidence(circuit))[0])


def log_probabilities(circuit: Circuit, rows: np.ndarray) -> np.ndarray:
    """float64[num_rows], log P of rows of states; negative states are missing."""
    return log_values(circuit, rows) - log_partition(circuit)


def log_conditionals(circuit: Circuit, query: np.ndarray, evidence: np.ndarray) -> np.ndarray:
    """float64[num_rows], log P(query | evidence), both rows of states with missing ones.

    Where both mention a variable in different states the answer is -inf; where the evidence is
    impossible it is NaN.
    """
    asked, given = as_rows(circuit, query), as_rows(circuit, evidence)
    contradict = ((asked >= 0) & (given >= 0) & (asked != given)).any(axis=1)
    both = log_values(circuit, np.where(given >= 0, given, asked))
    alone = log_values(circuit, given)
    with np.errstate(invalid="ignore"):
        found = np.where(contradict, -np.inf, both) - alone
    return np.asarray(found)


def most_likely(circuit: Circuit, evidence: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The likeliest complete rows that agree with the evidence, and log P(row and evidence).

    int32[num_rows, num_variables], float64[num_rows].
    """
    circuit.require("the most likely states", deterministic=True)
    rows = as_rows(circuit, evidence)
    found = rows.copy()
    value = np.empty(len(rows))
    _maximise(
        structure_of(circuit), rows, np.empty(circuit.num_nodes),
        np.empty(0, np.uint64), np.empty(circuit.num_nodes, np.int32), value, found,
    )  # fmt: skip
    refuse_impossible(value)
    return found, value - log_partition(circuit)


def draw_samples(
    circuit: Circuit, num_samples: int, seed: int, evidence: np.ndarray | None = None
) -> np.ndarray:
    """int32[num_samples, num_variables], independent samples given one row of evidence."""
    circuit.require("samples")
    row = no_evidence(circuit)[0] if evidence is None else as_rows(circuit, evidence)[0]
    found = np.tile(row, (num_samples, 1))
    value = np.empty(circuit.num_nodes)
    stack = np.empty(circuit.num_nodes, np.int32)
    _sample(structure_of(circuit), row, value, stack, random_states(seed, 1)[0], found)
    refuse_impossible(value[-1:])
    return found


def complete_rows(circuit: Circuit, rows: np.ndarray, seed: int) -> np.ndarray:
    """int32[num_rows, num_variables], rows with their missing states drawn given the others."""
    circuit.require("samples")
    found = as_rows(circuit, rows).copy()
    value, stack = np.empty(circuit.num_nodes), np.empty(circuit.num_nodes, np.int32)
    possible = np.empty(len(found), np.bool_)
    _complete(structure_of(circuit), value, stack, random_states(seed, 1)[0], found, possible)
    refuse_impossible(np.where(possible, 0.0, -np.inf))
    return found


def entropy(circuit: Circuit, evidence: np.ndarray | None = None) -> float:
    """−Σ_x P(x | e) log P(x | e), in nats."""
    circuit.require("the entropy", deterministic=True)
    row = no_evidence(circuit)[0] if evidence is None else as_rows(circuit, evidence)[0]
    memory = np.zeros((2, circuit.num_nodes))
    _entropy(structure_of(circuit), row, memory[0], memory[1])
    refuse_impossible(memory[0, -1:])
    return float(memory[1, -1])


def refuse_impossible(value: np.ndarray) -> None:
    if (value == -np.inf).any():
        raise LapisError("the evidence has probability 0", code="impossible-evidence")


@inner
def _descend(circuit, value, rng, stack, row):  # type: ignore[no-untyped-def]
    """Walk down from the root: at a sum to a random child, or without a generator to the best."""
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
def _maximise(circuit, rows, value, rng, stack, found, worlds):  # type: ignore[no-untyped-def]
    for r in range(len(rows)):
        climb(circuit, rows[r], True, value)
        found[r] = value[len(circuit.kind) - 1]
        if found[r] > -math.inf:
            _descend(circuit, value, rng, stack, worlds[r])


@entry
def _sample(circuit, row, value, stack, rng, worlds):  # type: ignore[no-untyped-def]
    climb(circuit, row, False, value)
    if value[len(circuit.kind) - 1] > -math.inf:
        for r in range(len(worlds)):
            _descend(circuit, value, rng, stack, worlds[r])


@entry
def _complete(circuit, value, stack, rng, rows, possible):  # type: ignore[no-untyped-def]
    for r in range(len(rows)):
        possible[r] = True
        for v in range(rows.shape[1]):
            if rows[r, v] < 0:
                climb(circuit, rows[r], False, value)
                possible[r] = value[len(circuit.kind) - 1] > -math.inf
                if possible[r]:
                    _descend(circuit, value, rng, stack, rows[r])
                break


@entry
def _entropy(circuit, row, value, found):  # type: ignore[no-untyped-def]
    climb(circuit, row, False, value)
    kind, start, child = circuit.kind, circuit.start, circuit.child
    for n in range(len(kind)):
        for e in range(start[n], start[n + 1]):
            c = child[e]
            if kind[n] == PRODUCT:
                found[n] += found[c]
            elif value[c] > -math.inf:
                log_share = value[c] - value[n]
                found[n] += math.exp(log_share) * (found[c] - log_share)
