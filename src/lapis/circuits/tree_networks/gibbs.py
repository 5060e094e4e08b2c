"""Gibbs sampling on a network of decision trees: what circuits are compared with (thesis, 5.7.3).

A variable is drawn given all others, from its own tree and from those that ask for it. The estimate
of P(query | evidence) is the share of sweeps in which all query variables are in their states, with
a count of 1 spread over all states of the query: (hits + 1/|states|) / (sweeps + 1).
"""

from __future__ import annotations

import math

import numpy as np

from lapis.circuits.evaluation import run_in_shares
from lapis.circuits.tree_networks.tree_network import TreeNetwork, leaf_of
from lapis.compiled import entry
from lapis.inference.random_numbers import below, random_states, uniform


def gibbs_log_conditionals(
    network: TreeNetwork,
    query: np.ndarray,
    evidence: np.ndarray,
    *,
    num_chains: int = 1,
    burn_in: int = 100,
    num_sweeps: int = 1000,
    seed: int = 0,
) -> np.ndarray:
    """float64[num_rows], estimates of log P(query | evidence), rows of states, -1 for missing."""
    asked = np.ascontiguousarray(query, np.int32)
    given = np.ascontiguousarray(evidence, np.int32)
    size = np.array([len(states) for states in network.states], np.int32)
    child_start, child = children_of(network)
    hits = np.zeros(len(asked), np.int64)
    rng = random_states(seed, len(asked))

    def work(part: slice) -> None:
        _count_hits(
            network.split_on, network.first_child, network.first_parameter, network.log_parameter,
            size, child_start, child, asked[part], given[part], num_chains, burn_in, num_sweeps,
            rng[part], given[part].copy(), np.empty(int(size.max())), hits[part],
        )  # fmt: skip

    run_in_shares(work, len(asked), num_chains * num_sweeps * len(size) * 10)
    log_states = np.where(asked >= 0, np.log(size), 0.0).sum(axis=1)
    smoothed = np.logaddexp(np.log(np.maximum(hits, 1e-300)), -log_states)
    return np.asarray(smoothed - math.log(num_chains * num_sweeps + 1))


def children_of(network: TreeNetwork) -> tuple[np.ndarray, np.ndarray]:
    """The variables whose trees ask for each variable, as rows one after another."""
    pairs = [(p, own) for own, parents in enumerate(network.parents()) for p in parents]
    pairs.sort()
    start = np.searchsorted([parent for parent, _ in pairs], np.arange(len(network.names) + 1))
    return start.astype(np.int64), np.array([own for _, own in pairs], np.int32)


@entry
def _count_hits(split_on, first_child, first_parameter, log_parameter, size, child_start, child, query, evidence, num_chains, burn_in, num_sweeps, rng, rows, weight, hits):  # type: ignore[no-untyped-def] # fmt: skip # noqa: E501
    for r in range(len(query)):
        row = rows[r]
        for _ in range(num_chains):
            for v in range(len(size)):
                if evidence[r, v] < 0:
                    row[v] = below(rng[r], size[v])
            for sweep in range(burn_in + num_sweeps):
                for v in range(len(size)):
                    if evidence[r, v] >= 0:
                        continue
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
                    total = 0.0
                    for s in range(size[v]):
                        weight[s] = math.exp(weight[s] - best)
                        total += weight[s]
                    rest = uniform(rng[r]) * total
                    for s in range(size[v]):
                        row[v] = s
                        rest -= weight[s]
                        if rest < 0.0:
                            break
                if sweep >= burn_in:
                    agrees = True
                    for v in range(len(size)):
                        if query[r, v] >= 0 and row[v] != query[r, v]:
                            agrees = False
                            break
                    hits[r] += agrees
