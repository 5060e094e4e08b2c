"""Importance sampling: measure the distance of a circuit to its model, and correct the circuit.

V minimises KL(V ‖ P). It is close to P where it has mass, but too narrow, and may miss modes. So
most worlds are drawn from V and some from F, which is broader: from the mixture
Q = (1 − α) V + α F of two members of one family. The weight of a world x is w = P̃(x) / Q(x). The
mean weight is an unbiased estimate of Z with a standard error. The spread of the weights measures
the distance of Q to P where Q has mass:

    E_Q[w] = Z,    effective samples = (Σ w)² / Σ w²

The shares that match P (those of KL(P ‖ ·), as in G) follow from the weighted worlds, with Q itself
as control variate. With q(n, c) the probability that Q takes c at n,

    P(c taken at n)  ≈  q(n, c) + Σ_i (w_i / Σ w − 1/N) [x_i takes c at n]

The noise is that of the weights around 1, not that of the worlds. Each correction Δ is shrunk
towards V by Δ² / (Δ² + var Δ).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lapis.circuits.approximation.family import Family, find_holding_nodes
from lapis.circuits.circuit import INDICATOR, PRODUCT, SUM
from lapis.circuits.factor_graph import FactorGraph
from lapis.inference.random_numbers import random_states, uniform
from lapis.runtime.kernels import entry, inner

NUM_WORLDS = 4000
BROAD = 0.3  # share of worlds drawn from F


class ImportanceEstimate(NamedTuple):
    family: Family  # with corrected shares
    log_partition: float  # estimate of log Z
    stderr: float  # of it
    effective: float  # effective samples, as a fraction of all
    state_stderr: np.ndarray  # float64[num_states], of the probabilities after correction


def importance_sample(
    sharp: Family,
    broad: Family,
    graph: FactorGraph,
    row: np.ndarray,
    seed: int,
    num_worlds: int = NUM_WORLDS,
) -> ImportanceEstimate:
    """Correct V (`sharp`) by weighted worlds of V and F (`broad`) given a row of states."""
    num_nodes, num_edges = len(sharp.kind), len(sharp.child)
    log_share = np.stack((sharp.log_share, broad.log_share))
    share = np.exp(log_share)
    num_broad = round(BROAD * num_worlds)
    rows = np.tile(np.asarray(row, np.int32), (num_worlds, 1))
    memory = (
        np.empty(num_nodes, np.bool_),
        np.empty(num_nodes + 1, np.int32),
        np.empty(num_nodes, np.int32),
    )
    for part, generator, rows_of in zip(
        share, random_states(seed, 2), np.split(rows, [num_worlds - num_broad]), strict=True
    ):
        _draw_worlds(sharp, part, generator, rows_of, memory[1])
    log_q = np.zeros((2, num_worlds))
    _probability(sharp, log_share, rows, *memory, log_q)
    mixed = np.logaddexp(log_q[0] + math.log(1 - BROAD), log_q[1] + math.log(BROAD))
    log_weight = graph.log_score(rows) - mixed
    top = float(log_weight.max())
    if top == -np.inf:
        return ImportanceEstimate(
            sharp, -np.inf, np.inf, 0.0, np.full(int(sharp.state_start[-1]), 0.5)
        )
    weight = np.exp(log_weight - top)
    mean = float(weight.mean())
    effective = mean**2 / float(np.square(weight).mean())
    stderr = math.sqrt(max(0.0, 1.0 / effective - 1.0) / num_worlds)
    tilt = weight / weight.sum() - 1.0 / num_worlds
    change, noise = np.zeros(num_edges), np.zeros(num_edges)
    _sum_tilts(sharp, rows, tilt, *memory, change, noise)
    taken = np.zeros((2, num_edges))
    for part, found in zip(share, taken, strict=True):
        _edge_probabilities(sharp, part, np.zeros(num_nodes), found)
    change += BROAD * (taken[1] - taken[0])  # from V to P
    squared = np.square(change)
    change *= np.divide(squared, squared + noise, out=np.zeros(num_edges), where=squared > 0)
    corrected = sharp.log_share.copy()
    _correct(sharp, taken[0], change, corrected)
    return ImportanceEstimate(
        sharp._replace(log_share=corrected), top + math.log(mean), stderr, effective,
        state_errors(sharp, rows, tilt),
    )  # fmt: skip


def state_errors(family: Family, rows: np.ndarray, tilt: np.ndarray) -> np.ndarray:
    """float64[num_states], the standard error of Σ_i tilt_i [x_i in state s]."""
    found = np.zeros(int(family.state_start[-1]))
    squared = np.square(tilt)
    for v in range(rows.shape[1]):
        first, last = family.state_start[v], family.state_start[v + 1]
        inside = np.bincount(rows[:, v], weights=squared, minlength=last - first)
        share = np.bincount(rows[:, v], minlength=last - first) / len(rows)
        found[first:last] = inside * (1 - share) ** 2 + (squared.sum() - inside) * share**2
    return np.sqrt(np.maximum(found, 0.0))


@entry
def _draw_worlds(family, share, rng, rows, stack):  # type: ignore[no-untyped-def]
    """Draw the unobserved states of rows from the family."""
    for r in range(len(rows)):
        height = 0
        if len(family.kind):
            stack[0] = len(family.kind) - 1
            height = 1
        while height:
            height -= 1
            n = stack[height]
            if family.kind[n] == INDICATOR:
                v = family.variable_of_state[family.leaf[n]]
                rows[r, v] = family.leaf[n] - family.state_start[v]
            elif family.kind[n] == PRODUCT:
                for e in range(family.start[n], family.start[n + 1]):
                    stack[height] = family.child[e]
                    height += 1
            else:
                rest = uniform(rng)
                chosen = family.start[n + 1] - 1
                for e in range(family.start[n], family.start[n + 1]):
                    rest -= share[e]
                    if rest < 0.0:
                        chosen = e
                        break
                stack[height] = family.child[chosen]
                height += 1


@inner
def _trace_edges(family, row, holds, stack, path):  # type: ignore[no-untyped-def]
    """Write the edges of sums that a world takes; return their number."""
    find_holding_nodes(family, row, holds)
    height, length = 0, 0
    if len(family.kind):
        stack[0] = len(family.kind) - 1
        height = 1
    while height:
        height -= 1
        n = stack[height]
        for e in range(family.start[n], family.start[n + 1]):
            if holds[family.child[e]]:
                if family.kind[n] == SUM:
                    path[length] = e
                    length += 1
                stack[height] = family.child[e]
                height += 1
    return length


@entry
def _probability(family, log_share, rows, holds, stack, path, log_q):  # type: ignore[no-untyped-def]
    """Add the log-probabilities of worlds under both sets of shares."""
    for r in range(len(rows)):
        for at in range(_trace_edges(family, rows[r], holds, stack, path)):
            log_q[0, r] += log_share[0, path[at]]
            log_q[1, r] += log_share[1, path[at]]


@entry
def _sum_tilts(family, rows, tilt, holds, stack, path, change, noise):  # type: ignore[no-untyped-def]
    """Add Σ_i tilt_i [edge taken] and Σ_i tilt_i² [edge taken]."""
    for r in range(len(rows)):
        for at in range(_trace_edges(family, rows[r], holds, stack, path)):
            change[path[at]] += tilt[r]
            noise[path[at]] += tilt[r] * tilt[r]


@entry
def _edge_probabilities(family, share, reach, taken):  # type: ignore[no-untyped-def]
    """Write the probability that each edge is taken."""
    if len(family.kind):
        reach[len(family.kind) - 1] = 1.0
    for n in range(len(family.kind) - 1, -1, -1):
        for e in range(family.start[n], family.start[n + 1]):
            taken[e] = reach[n] * share[e] if family.kind[n] == SUM else reach[n]
            reach[family.child[e]] += taken[e]


@entry
def _correct(family, taken, change, log_share):  # type: ignore[no-untyped-def]
    """Change the probabilities of edges, none to less than a hundredth, and renormalise shares."""
    for n in range(len(family.kind)):
        if family.kind[n] != SUM:
            continue
        total = 0.0
        for e in range(family.start[n], family.start[n + 1]):
            total += max(taken[e] + change[e], 0.01 * taken[e])
        if total > 0.0:
            for e in range(family.start[n], family.start[n + 1]):
                new = max(taken[e] + change[e], 0.01 * taken[e])
                if new > 0.0:
                    log_share[e] = math.log(new / total)
