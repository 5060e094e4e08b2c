"""Gibbs sampling on a network of decision trees: what circuits are compared with (thesis, 5.7.3).

A variable is drawn given all others, from its own tree and from those that ask for it. The estimate
of P(query | evidence) is the share of sweeps in which all query variables are in their states, with
a count of 1 spread over all states of the query: (hits + 1/|states|) / (sweeps + 1).

Each chain is cut into batches. The standard error is that of the mean of all batches, or of the
mean of the chains if that is larger; R-hat is that of half chains, as in
`inference/sampling/diagnostics.py`. Neither can detect states that no chain visited.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from lapis.circuits.evaluation import run_in_threads
from lapis.circuits.tree_networks.tree_network import TreeNetwork, leaf_of
from lapis.inference.random_numbers import random_states, uniform, uniform_below
from lapis.runtime.kernels import entry, inner

NUM_BATCHES = 20  # of a chain
MAX_RHAT = 1.05


class GibbsEstimates(NamedTuple):
    """Probabilities, one entry each."""

    log_probability: np.ndarray  # float64[num_values]
    stderr: np.ndarray  # float64[num_values], of the probability
    rhat: np.ndarray  # float64[num_values]


def estimate_conditionals(
    network: TreeNetwork,
    query: np.ndarray,
    evidence: np.ndarray,
    *,
    num_chains: int = 1,
    burn_in: int = 100,
    num_sweeps: int = 1000,
    seed: int = 0,
) -> GibbsEstimates:
    """Estimate P(query | evidence) of each row.

    Parameters
    ----------
    network
        The network.
    query, evidence
        int[num_rows, num_variables], states, negative where nothing is asked or known.
    num_chains, burn_in, num_sweeps
        Chains for each row, sweeps of each that are left out, and sweeps that are counted.
    seed
        Of the random numbers.

    Returns
    -------
    GibbsEstimates
        One entry for each row.
    """
    hits, _ = count_sweeps(
        network, query, evidence, num_chains, burn_in, num_sweeps, seed, with_states=False
    )
    asked, given = np.asarray(query), np.asarray(evidence)
    size = np.array([len(states) for states in network.states])
    log_states = np.where((asked >= 0) & (given < 0), np.log(size), 0.0).sum(axis=1)
    found = estimates(hits, num_sweeps, log_states)
    contradict = ((asked >= 0) & (given >= 0) & (asked != given)).any(axis=1)
    found.log_probability[contradict] = -np.inf
    found.stderr[contradict] = 0.0
    return found


def estimate_marginals(
    network: TreeNetwork,
    evidence: np.ndarray,
    *,
    num_chains: int = 1,
    burn_in: int = 100,
    num_sweeps: int = 1000,
    seed: int = 0,
) -> GibbsEstimates:
    """Estimate P(state | evidence) of all states of all variables, given one row.

    Parameters and result as of `estimate_conditionals`; one entry for each state.
    """
    row = np.atleast_2d(evidence)
    _, states = count_sweeps(
        network, np.full_like(row, -1), row, num_chains, burn_in, num_sweeps, seed,
        with_states=True,
    )  # fmt: skip
    size = np.array([len(states) for states in network.states])
    return estimates(np.moveaxis(states, -1, 0), num_sweeps, np.log(np.repeat(size, size)))


def sample_given(
    network: TreeNetwork, num_samples: int, evidence: np.ndarray, burn_in: int, seed: int
) -> np.ndarray:
    """int32[num_samples, num_variables], the last states of chains of `burn_in` sweeps, one each.

    They are independent, and have the distribution given the evidence as far as chains forget
    where they started.
    """
    rows = np.repeat(np.atleast_2d(evidence), num_samples, axis=0).astype(np.int32)
    found = rows.copy()
    count_sweeps(network, np.full_like(rows, -1), rows, 1, burn_in, 0, seed, False, found)
    return found


def count_sweeps(
    network: TreeNetwork,
    query: np.ndarray,
    evidence: np.ndarray,
    num_chains: int,
    burn_in: int,
    num_sweeps: int,
    seed: int,
    with_states: bool,
    last: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Run chains for each row; in how many sweeps its query held, and each state of a variable.

    int64[num_rows, num_chains, NUM_BATCHES], and int64[num_chains, NUM_BATCHES, num_states] of one
    row. `last` is where the chains are in the end.
    """
    asked = np.ascontiguousarray(query, np.int32)
    given = np.ascontiguousarray(evidence, np.int32)
    size = np.array([len(states) for states in network.states], np.int32)
    child_start, child = children_of(network)
    hits = np.zeros((len(asked), num_chains, NUM_BATCHES), np.int64)
    states = np.zeros((num_chains, NUM_BATCHES, int(size.sum()) if with_states else 0), np.int64)
    rng = random_states(seed, len(asked))
    rows = given.copy() if last is None else last

    def work(part: slice) -> None:
        _run_chains(
            network.split_on, network.first_child, network.first_parameter, network.log_parameter,
            size, child_start, child, asked[part], given[part], burn_in, num_sweeps,
            rng[part], rows[part], np.empty(int(size.max())), hits[part], states,
        )  # fmt: skip

    run_in_threads(work, len(asked), num_chains * (burn_in + num_sweeps) * len(size) * 10)
    return hits, states


def estimates(hits: np.ndarray, num_sweeps: int, log_states: np.ndarray) -> GibbsEstimates:
    """Smooth counts, int64[num_values, num_chains, NUM_BATCHES], and say how sure they are."""
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
    one_more = 1.0 / (num_chains * num_sweeps)  # what was never seen may be as likely as that
    return GibbsEstimates(
        smoothed - math.log(num_chains * num_sweeps + 1),
        np.sqrt(spread + one_more**2),
        split_rhat(hits, bounds),
    )


def split_rhat(hits: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """sqrt((W (L − 1)/L + B) / W) of half chains of length L.

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
    """The variables whose trees ask for each variable, as rows one after another."""
    pairs = [(p, own) for own, parents in enumerate(network.parents()) for p in parents]
    pairs.sort()
    start = np.searchsorted([parent for parent, _ in pairs], np.arange(len(network.names) + 1))
    return start.astype(np.int64), np.array([own for _, own in pairs], np.int32)


@entry
def _run_chains(split_on, first_child, first_parameter, log_parameter, size, child_start, child, query, evidence, burn_in, num_sweeps, rng, rows, weight, hits, states):  # type: ignore[no-untyped-def] # fmt: skip # noqa: E501
    num_batches = hits.shape[2]
    for r in range(len(query)):
        row = rows[r]
        for chain in range(hits.shape[1]):
            for v in range(len(size)):
                if evidence[r, v] < 0:
                    row[v] = uniform_below(rng[r], size[v])
            batch = 0
            for sweep in range(burn_in + num_sweeps):
                for v in range(len(size)):
                    if evidence[r, v] < 0:
                        draw_variable(
                            split_on, first_child, first_parameter, log_parameter, size,
                            child_start, child, v, weight, rng[r], row,
                        )  # fmt: skip
                if sweep < burn_in:
                    continue
                while (batch + 1) * num_sweeps // num_batches <= sweep - burn_in:
                    batch += 1
                agrees = True
                for v in range(len(size)):
                    if query[r, v] >= 0 and row[v] != query[r, v]:
                        agrees = False
                        break
                hits[r, chain, batch] += agrees
                if states.shape[2]:
                    first = 0
                    for v in range(len(size)):
                        states[chain, batch, first + row[v]] += 1
                        first += size[v]


@inner
def draw_variable(split_on, first_child, first_parameter, log_parameter, size, child_start, child, v, weight, rng, row):  # type: ignore[no-untyped-def] # fmt: skip # noqa: E501
    """Draw a variable given all others: its own distribution times those of its children."""
    own = first_parameter[leaf_of(row, v, split_on, first_child)]
    best = -math.inf
    for s in range(size[v]):
        row[v] = s
        weight[s] = log_parameter[own + s]
        for e in range(child_start[v], child_start[v + 1]):
            c = child[e]
            leaf = leaf_of(row, c, split_on, first_child)
            weight[s] += log_parameter[first_parameter[leaf] + row[c]]
        best = max(best, weight[s])
    if best == -math.inf:  # impossible given the others, as a chain may begin: all states alike
        row[v] = uniform_below(rng, size[v])
        return
    total = 0.0
    for s in range(size[v]):
        weight[s] = math.exp(weight[s] - best)
        total += weight[s]
    rest = uniform(rng) * total
    for s in range(size[v]):
        row[v] = s
        rest -= weight[s]
        if rest < 0.0:
            break
