"""Gibbs sampling on a network of decision trees (Lowd, thesis 2010, section 5.7.3).

A variable is drawn given all others, from its own tree and from the trees that are split on it. The
estimate of P(query | evidence) is the share of sweeps in which all query variables are in their
states, with a count of 1 spread over all states of the query: (hits + 1/|states|) / (sweeps + 1).

The weights of a variable's states are kept until a variable changes that was read for them. Most
variables of sparse data rarely change, and paths through trees read few of them. The draws are the
same as without this.

Each chain is cut into batches. The standard error is that of the mean of all batches, or of the
mean of the chains if that is larger; R-hat is that of half chains, as in
`inference/sampling/diagnostics.py`. Neither can detect states that no chain visited.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lapis.circuits.evaluation import run_in_threads
from lapis.circuits.tree_networks.tree_network import TreeNetwork, tree_arrays
from lapis.inference.random_numbers import random_states, uniform, uniform_below
from lapis.runtime.kernels import entry, inner

NUM_BATCHES = 20  # of a chain
MAX_RHAT = 1.05


class GibbsEstimates(NamedTuple):
    """Estimated probabilities."""

    log_probability: np.ndarray  # float64[num_values]
    stderr: np.ndarray  # float64[num_values], of the probability
    rhat: np.ndarray  # float64[num_values]


class TreeChainOptions(NamedTuple):
    num_chains: int = 1  # for each row
    burn_in: int = 100  # discarded sweeps of each chain
    num_sweeps: int = 1000  # counted sweeps of each chain
    seed: int = 0


def estimate_conditionals(
    network: TreeNetwork, query: np.ndarray, evidence: np.ndarray, options: TreeChainOptions
) -> GibbsEstimates:
    """Estimate P(query | evidence) of each row; negative states are not in the query or evidence.

    Query and evidence are int[num_rows, num_variables].
    """
    event, given = np.asarray(query), np.asarray(evidence)
    hits, _ = count_sweeps(network, event, given, options)
    size = np.array([len(states) for states in network.states])
    log_states = np.where((event >= 0) & (given < 0), np.log(size), 0.0).sum(axis=1)
    found = estimates(hits, options.num_sweeps, log_states)
    contradict = ((event >= 0) & (given >= 0) & (event != given)).any(axis=1)
    found.log_probability[contradict] = -np.inf
    found.stderr[contradict] = 0.0
    return found


def estimate_marginals(
    network: TreeNetwork, evidence: np.ndarray, options: TreeChainOptions
) -> GibbsEstimates:
    """Estimate P(state | evidence) of all states of all variables, given one row."""
    row = np.atleast_2d(evidence)
    _, states = count_sweeps(network, np.full_like(row, -1), row, options, with_states=True)
    size = np.array([len(states) for states in network.states])
    return estimates(np.moveaxis(states, -1, 0), options.num_sweeps, np.log(np.repeat(size, size)))


def sample_given(
    network: TreeNetwork, num_samples: int, evidence: np.ndarray, burn_in: int, seed: int
) -> np.ndarray:
    """int32[num_samples, num_variables], the last states of independent chains, one each.

    Each chain has `burn_in` sweeps; the samples have the posterior distribution as far as these
    suffice.
    """
    rows = np.repeat(np.atleast_2d(evidence), num_samples, axis=0).astype(np.int32)
    found = rows.copy()
    options = TreeChainOptions(1, burn_in, 0, seed)
    count_sweeps(network, np.full_like(rows, -1), rows, options, last=found)
    return found


def count_sweeps(
    network: TreeNetwork,
    query: np.ndarray,
    evidence: np.ndarray,
    options: TreeChainOptions,
    with_states: bool = False,
    last: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Run chains for each row; count the sweeps in which its query holds, and in each state.

    int64[num_rows, num_chains, NUM_BATCHES], and int64[num_chains, NUM_BATCHES, num_states] of one
    row. The last states of the chains are written to `last`.
    """
    num_chains, burn_in, num_sweeps, seed = options
    event = np.ascontiguousarray(query, np.int32)
    given = np.ascontiguousarray(evidence, np.int32)
    trees = tree_arrays(network)
    num_states = int(trees.size.sum()) if with_states else 0
    hits = np.zeros((len(event), num_chains, NUM_BATCHES), np.int64)
    states = np.zeros((num_chains, NUM_BATCHES, num_states), np.int64)
    children = children_of(network)
    rng = random_states(seed, len(event))
    rows = given.copy() if last is None else last

    def work(part: slice) -> None:
        _run_chains(
            trees, *children, event[part], given[part], burn_in, num_sweeps, rng[part], rows[part],
            new_cache(trees.size), hits[part], states,
        )  # fmt: skip

    cost = num_chains * (burn_in + num_sweeps) * len(trees.size) * 10
    run_in_threads(work, len(event), cost)
    return hits, states


class WeightCache(NamedTuple):
    """The weights of the states of each variable, given the states that were read for them."""

    is_valid: np.ndarray  # bool[num_variables]
    weight: np.ndarray  # float64[num_variables, largest size], relative to the largest one
    reads: np.ndarray  # uint64[num_variables, num_words], bits of the variables that were read


def new_cache(size: np.ndarray) -> WeightCache:
    return WeightCache(
        np.zeros(len(size), np.bool_),
        np.empty((len(size), int(size.max()))),
        np.zeros((len(size), -(-len(size) // 64)), np.uint64),
    )


def estimates(hits: np.ndarray, num_sweeps: int, log_states: np.ndarray) -> GibbsEstimates:
    """Smooth counts, int64[num_values, num_chains, NUM_BATCHES], and find their errors."""
    num_values, num_chains, _ = hits.shape
    total = hits.sum(axis=(1, 2))
    smoothed = np.logaddexp(np.log(np.maximum(total, 1e-300)), -log_states)
    bounds = np.arange(NUM_BATCHES + 1) * num_sweeps // NUM_BATCHES
    length = np.diff(bounds)
    used = length > 0
    mean = hits[:, :, used] / length[used]
    spread = mean.reshape(num_values, -1).var(axis=1, ddof=1) / (num_chains * used.sum())
    if num_chains > 1:
        chain = mean.mean(axis=2).var(axis=1, ddof=1) / num_chains
        spread = np.maximum(spread, chain)
    one_more = 1.0 / (
        num_chains * num_sweeps
    )  # the probability of an unseen state may be that large
    return GibbsEstimates(
        smoothed - math.log(num_chains * num_sweeps + 1),
        np.sqrt(spread + one_more**2),
        split_rhat(hits, bounds),
    )


def split_rhat(hits: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return sqrt((W (L − 1)/L + B) / W) of half chains of length L.

    The variance within a half chain with a share p of ones is W = p (1 − p) L/(L − 1).
    """
    middle = NUM_BATCHES // 2
    halves = np.concatenate(
        [hits[:, :, :middle].sum(axis=2), hits[:, :, middle:].sum(axis=2)], axis=1
    )
    length = np.repeat([bounds[middle], bounds[-1] - bounds[middle]], hits.shape[1])
    least = int(length.min())
    if least < 2:
        return np.full(len(hits), np.inf)
    share = halves / length
    within = (share * (1 - share) * length / (length - 1)).mean(axis=1)
    between = share.var(axis=1, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.sqrt((within * (least - 1) / least + between) / within)
    return np.where(between > 0, found, 1.0)


def children_of(network: TreeNetwork) -> tuple[np.ndarray, np.ndarray]:
    """Return the variables whose trees are split on each variable, as ragged rows."""
    pairs = [(p, own) for own, parents in enumerate(network.parents()) for p in parents]
    pairs.sort()
    start = np.searchsorted([parent for parent, _ in pairs], np.arange(len(network.names) + 1))
    return start.astype(np.int64), np.array([own for _, own in pairs], np.int32)


@entry
def _run_chains(trees, child_start, child, query, evidence, burn_in, num_sweeps, rng, rows, cache, hits, states):  # type: ignore[no-untyped-def] # fmt: skip # noqa: E501
    """Run the chains of each row; `child` are the variables whose trees are split on a variable."""
    num_batches = hits.shape[2]
    for r in range(len(query)):
        row = rows[r]
        for chain in range(hits.shape[1]):
            for v in range(len(row)):
                if evidence[r, v] < 0:
                    row[v] = uniform_below(rng[r], trees.size[v])
            cache.is_valid[:] = False
            batch = 0
            for sweep in range(burn_in + num_sweeps):
                for v in range(len(row)):
                    if evidence[r, v] < 0:
                        draw_variable(trees, child_start, child, v, cache, rng[r], row)
                if sweep < burn_in:
                    continue
                while (batch + 1) * num_sweeps // num_batches <= sweep - burn_in:
                    batch += 1
                _count_world(trees, query[r], row, hits[r, chain], states[chain], batch)


@inner
def _count_world(trees, query, row, hits, states, batch):  # type: ignore[no-untyped-def]
    """Count whether the query holds, and the states if there is room for them."""
    agrees = True
    for v in range(len(row)):
        if query[v] >= 0 and row[v] != query[v]:
            agrees = False
            break
    hits[batch] += agrees
    if states.shape[1]:
        first = 0
        for v in range(len(row)):
            states[batch, first + row[v]] += 1
            first += trees.size[v]


@inner
def draw_variable(trees, child_start, child, v, cache, rng, row):  # type: ignore[no-untyped-def]
    """Draw a variable given all others; weights that read its old state become invalid."""
    if not cache.is_valid[v]:
        weigh_states(trees, child_start, child, v, cache.weight[v], cache.reads[v], row)
        cache.is_valid[v] = True
    size, weight, old = trees.size[v], cache.weight[v], row[v]
    total = 0.0
    for s in range(size):
        total += weight[s]
    if total == 0.0:  # impossible given the others, as a chain may begin: draw uniformly
        row[v] = uniform_below(rng, size)
    else:
        rest = uniform(rng) * total
        for s in range(size):
            row[v] = s
            rest -= weight[s]
            if rest < 0.0:
                break
    if row[v] != old:
        word, bit = v >> 6, np.uint64(1) << np.uint64(v & 63)
        for u in range(len(row)):
            if cache.reads[u, word] & bit:
                cache.is_valid[u] = False


@inner
def weigh_states(trees, child_start, child, v, weight, reads, row):  # type: ignore[no-untyped-def]
    """Weigh the states: the own distribution times those of the children.

    A child whose tree reaches a leaf without a split on the variable has the same factor for all.
    """
    size, old = trees.size[v], row[v]
    reads[:] = 0
    own = read_leaf(trees, row, v, -1, reads)
    for s in range(size):
        weight[s] = trees.log_parameter[trees.first_parameter[own] + s]
    for e in range(child_start[v], child_start[v + 1]):
        c = child[e]
        node = read_leaf(trees, row, c, v, reads)
        if trees.split_on[node] < 0:
            continue
        reads[c >> 6] |= np.uint64(1) << np.uint64(c & 63)
        for s in range(size):
            row[v] = s
            leaf = read_leaf(trees, row, trees.first_child[node] + s, -1, reads)
            weight[s] += trees.log_parameter[trees.first_parameter[leaf] + row[c]]
    row[v] = old
    best = -math.inf
    for s in range(size):
        best = max(best, weight[s])
    for s in range(size):
        weight[s] = math.exp(weight[s] - best) if best > -math.inf else 0.0


@inner
def read_leaf(trees, row, node, stop, reads):  # type: ignore[no-untyped-def]
    """Return the leaf below a node, or the first split on `stop`; set the bits of what was read."""
    on = trees.split_on[node]
    while on >= 0 and on != stop:
        reads[on >> 6] |= np.uint64(1) << np.uint64(on & 63)
        node = trees.first_child[node] + row[on]
        on = trees.split_on[node]
    return node
