"""Samples of a product of tables: forward for a Bayesian network, by Gibbs sampling otherwise.

A Gibbs chain sweeps over the variables that evidence leaves open. Impossible entries count as
e^FLOOR, so a chain that starts at an impossible world finds its way out. Each kept world comes
with P(x_v | all others) of every variable at that world, for Rao–Blackwellised estimates.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lapis.circuits.approximation.variational import FLOOR
from lapis.circuits.factors.factor_graph import FactorGraph
from lapis.inference.compiled import entry
from lapis.inference.random_numbers import random_states, uniform
from lapis.network.csr import row_starts

NUM_CHAINS = 4
BURN_IN = 100  # sweeps of a chain that are thrown away


class GibbsSamples(NamedTuple):
    rows: np.ndarray  # int32[num_samples, num_variables]
    conditional: np.ndarray  # float64[num_samples, num_states], P(x_v | all others) there


class _Tables(NamedTuple):
    scope_start: np.ndarray
    scope: np.ndarray
    stride: np.ndarray  # int64[...], along each member of a scope
    table_start: np.ndarray
    log_value: np.ndarray
    own_start: np.ndarray  # int64[num_variables + 1]
    own: np.ndarray  # int64[...], places in `scope` where a variable stands
    factor: np.ndarray  # int32[...], the factor of each place in `scope`
    size: np.ndarray
    state_start: np.ndarray


def sample_forward(graph: FactorGraph, num_samples: int, seed: int) -> np.ndarray:
    """int32[num_samples, num_variables], independent samples of a Bayesian network."""
    assert graph.child is not None
    rng = np.random.default_rng(seed)
    rows = np.zeros((num_samples, graph.num_variables), np.int32)
    for factor, child in enumerate(graph.child.tolist()):
        scope = graph.variables_of(factor).tolist()
        table = np.moveaxis(np.exp(graph.table(factor)), scope.index(child), -1)
        parents = [v for v in scope if v != child]
        edges = np.cumsum(table, axis=-1)[tuple(rows[:, parents].T)]
        edges = np.broadcast_to(edges, (num_samples, table.shape[-1]))
        drawn = rng.random(num_samples) * edges[:, -1]
        rows[:, child] = (drawn[:, None] >= edges[:, :-1]).sum(axis=1)
    return rows


def sample_gibbs(
    graph: FactorGraph,
    row: np.ndarray,
    num_samples: int,
    seed: int,
    start: np.ndarray | None = None,
    thin: int = 1,
) -> GibbsSamples:
    """Worlds of several chains given a row of states, negative where nothing is known.

    Chains start at `start`, int32[NUM_CHAINS, num_variables], or at random states.
    """
    length = np.diff(graph.scope_start)
    stride = np.empty(len(graph.scope), np.int64)
    for factor in range(graph.num_factors):
        table = graph.table(factor)
        begin, end = graph.scope_start[factor : factor + 2]
        stride[begin:end] = np.array(table.strides, np.int64) // 8
    size = graph.size
    state_start = row_starts(size)
    tables = _Tables(
        graph.scope_start, graph.scope, stride, graph.table_start,
        np.maximum(graph.log_value, FLOOR),
        row_starts(np.bincount(graph.scope, minlength=len(size))),
        np.argsort(graph.scope, kind="stable"),
        np.repeat(np.arange(graph.num_factors, dtype=np.int32), length), size, state_start,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    generators = random_states(seed, NUM_CHAINS)
    free = np.flatnonzero(row < 0).astype(np.int32)
    share = -(-num_samples // NUM_CHAINS)
    rows = np.empty((NUM_CHAINS, share, len(size)), np.int32)
    conditional = np.zeros((NUM_CHAINS, share, int(state_start[-1])))
    for chain in range(NUM_CHAINS):
        first = rng.integers(0, size) if start is None else start[chain]
        state = np.where(row < 0, first, row).astype(np.int32)
        _sweep(
            tables, free, state, generators[chain], BURN_IN, thin, np.empty(int(size.max())),
            rows[chain], conditional[chain],
        )  # fmt: skip
    return GibbsSamples(
        rows.reshape(-1, len(size))[:num_samples],
        conditional.reshape(-1, int(state_start[-1]))[:num_samples],
    )


@entry
def _sweep(tables, free, state, rng, burn_in, thin, score, rows, conditional):  # type: ignore[no-untyped-def]
    """Go on from a state; after the burn-in every `thin`-th world is kept."""
    for number in range(-burn_in, len(rows) * thin):
        is_kept = number >= 0 and number % thin == thin - 1
        kept = number // thin
        for v in free:
            size = tables.size[v]
            for s in range(size):
                score[s] = 0.0
            for at in range(tables.own_start[v], tables.own_start[v + 1]):
                member = tables.own[at]
                factor = tables.factor[member]
                place = tables.table_start[factor]
                for other in range(tables.scope_start[factor], tables.scope_start[factor + 1]):
                    if other != member:
                        place += tables.stride[other] * state[tables.scope[other]]
                for s in range(size):
                    score[s] += tables.log_value[place + s * tables.stride[member]]
            best, total = -math.inf, 0.0
            for s in range(size):
                best = max(best, score[s])
            for s in range(size):
                score[s] = math.exp(score[s] - best)
                total += score[s]
            rest = uniform(rng) * total
            chosen = 0
            while chosen < size - 1 and rest >= score[chosen]:
                rest -= score[chosen]
                chosen += 1
            state[v] = chosen
            if is_kept:
                for s in range(size):
                    conditional[kept, tables.state_start[v] + s] = score[s] / total
        if is_kept:
            for v in range(len(state)):
                rows[kept, v] = state[v]
