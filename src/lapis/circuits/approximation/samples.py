"""Samples of a product of tables.

Forward sampling for a Bayesian network, junction trees where one is small enough, particles where
tables have zeros, and Gibbs sampling otherwise.

A Gibbs chain sweeps over the unobserved variables. Impossible entries count as e^FLOOR, so a chain
can leave an impossible world. Each kept world comes with P(x_v | all others) of every variable, for
Rao–Blackwellised estimates. After each sweep the kept conditionals are those at which the states
were drawn.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lapis.circuits.approximation.variational import FLOOR
from lapis.circuits.compilation.compile_model import no_possible_state
from lapis.circuits.compilation.mini_buckets import estimate_partition
from lapis.circuits.compilation.numeric_elimination import MAX_SEARCHED, find_elimination_order
from lapis.circuits.evaluation import require_possible_evidence
from lapis.circuits.factor_graph import FactorGraph, entry_cubes, make_consistent
from lapis.inference.exact.junction_tree import build_tree, collect_messages, sample_states
from lapis.inference.random_numbers import random_states, uniform
from lapis.network.csr import row_starts
from lapis.runtime.kernels import entry, inner
from lapis.runtime.progress import Stop

NUM_CHAINS = 4
BURN_IN = 100  # discarded sweeps of a chain
CHUNK = 100_000  # draws by each chain between two checks of `stop`
MAX_ENTRIES = 4e6  # of a junction tree's tables


class GibbsSamples(NamedTuple):
    rows: np.ndarray  # int32[num_samples, num_variables]
    # float64[num_samples, num_states], P(x_v | all others) there; no columns if not requested
    conditional: np.ndarray


class _Tables(NamedTuple):
    scope_start: np.ndarray
    scope: np.ndarray
    stride: np.ndarray  # int64[...], along each member of a scope
    table_start: np.ndarray
    log_value: np.ndarray
    own_start: np.ndarray  # int64[num_variables + 1]
    own: np.ndarray  # int64[...], places of a variable in `scope`
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


class ExactSamples(NamedTuple):
    rows: np.ndarray  # int32[num_samples, num_variables], independent
    log_partition: float


def sample_exactly(graph: FactorGraph, num_samples: int, seed: int) -> ExactSamples | None:
    """Draw worlds by a junction tree; None if its tables are too large."""
    order = find_elimination_order(graph, MAX_ENTRIES, seed)
    if not order.is_complete:
        return None
    cubes, log_value = entry_cubes(graph)
    tree = build_tree(cubes, order.variable)
    rows = np.zeros((num_samples, graph.num_variables), np.int32)
    potentials = collect_messages(tree, cubes, log_value)
    roots = potentials.root_values(tree)[1]
    require_possible_evidence(roots)
    sample_states(tree, graph.size, potentials, rows, np.random.default_rng(seed))
    return ExactSamples(rows, float(roots.sum()) + graph.log_constant)


class ParticleSamples(NamedTuple):
    rows: np.ndarray  # int32[num_samples, num_variables], possible worlds; none if all died
    log_partition: float  # an estimate
    stderr: float
    upper: float  # at least log Z
    state_stderr: np.ndarray  # float64[num_states], by the differences between runs


def sample_particles(
    graph: FactorGraph, seed: int, stop: Stop | None = None
) -> ParticleSamples | None:
    """Draw worlds by mini-bucket elimination; None if the model has too many variables."""
    consistent = make_consistent(graph)
    if consistent is None:
        raise no_possible_state()
    if graph.num_variables > MAX_SEARCHED:
        return None
    found = estimate_partition(consistent.graph, seed, stop=stop)
    first, small = row_starts(graph.size)[:-1], row_starts(consistent.graph.size)[:-1]
    shares = np.zeros((len(found.runs), int(graph.size.sum())))
    for share, run in zip(shares, found.runs, strict=True):
        states = consistent.state[small + run.rows]
        np.add.at(share, states.ravel(), np.repeat(run.weight, graph.num_variables))
    rows = (consistent.state[small + found.rows] - first).astype(np.int32)
    between = shares.std(axis=0, ddof=1) if len(shares) > 1 else np.zeros(shares.shape[1])
    mean = shares.mean(axis=0) if len(shares) else between
    drawn = np.sqrt(mean * (1.0 - np.minimum(mean, 1.0)) / max(1, len(rows)))
    stderr = np.hypot(between / math.sqrt(max(1, len(shares))), drawn)
    return ParticleSamples(rows, found.log_partition, found.stderr, found.bound, stderr)


def sample_gibbs(
    graph: FactorGraph,
    row: np.ndarray,
    num_samples: int,
    seed: int,
    start: np.ndarray | None = None,
    thin: int = 1,
    stop: Stop | None = None,
    with_conditional: bool = True,
) -> GibbsSamples:
    """Draw worlds by several chains given a row of states, negative where unobserved.

    If the time is up there are fewer, the same number from each chain. With worlds of the model as
    `start`, int32[num_samples, num_variables], each moves by one sweep, which keeps their
    distribution.
    """
    length = np.diff(graph.scope_start)
    stride = np.empty(len(graph.scope), np.int64)
    for factor, (_, table) in enumerate(graph.tables):
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
    num_columns = int(state_start[-1]) if with_conditional else 0
    conditional = np.zeros((NUM_CHAINS, share, num_columns))
    starts = np.empty((NUM_CHAINS, 0, len(size)), np.int32)
    if start is not None:
        starts = np.resize(start, (NUM_CHAINS, share, len(size)))
    states = [
        np.where(row < 0, rng.integers(0, size), row).astype(np.int32) for _ in range(NUM_CHAINS)
    ]
    burn_in, score = BURN_IN if start is None else 0, np.empty(int(size.max()))
    done, chunk = 0, max(1, CHUNK // (thin * len(size)))
    while done < share and not (done and stop and stop.is_over()):
        part = slice(done, done + chunk)
        for chain, state in enumerate(states):
            _sweep(
                tables, free, state, generators[chain], 0 if done else burn_in, thin,
                starts[chain, part], score, rows[chain, part], conditional[chain, part],
            )  # fmt: skip
        done += chunk
    return GibbsSamples(
        rows[:, :done].reshape(-1, len(size))[:num_samples],
        conditional[:, :done].reshape(NUM_CHAINS * min(done, share), num_columns)[:num_samples],
    )


@entry
def _sweep(tables, free, state, rng, burn_in, thin, starts, score, rows, conditional):  # type: ignore[no-untyped-def]
    """Sweep from a state, or from each of `starts`; after the burn-in keep every `thin`-th."""
    for number in range(-burn_in, len(rows) * thin):
        is_kept = number >= 0 and number % thin == thin - 1
        kept = number // thin
        if len(starts):
            for v in free:
                state[v] = starts[number, v]
        for v in free:
            total = _draw_table_state(tables, v, state, rng, score)
            if is_kept and conditional.shape[1]:
                for s in range(tables.size[v]):
                    conditional[kept, tables.state_start[v] + s] = score[s] / total
        if is_kept:
            for v in range(len(state)):
                rows[kept, v] = state[v]


@inner
def _draw_table_state(tables, v, state, rng, score):  # type: ignore[no-untyped-def]
    """Draw a variable given all others; write the weights of its states and return their sum."""
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
    return total
