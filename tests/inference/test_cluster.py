"""Cluster moves: modes that single flips do not leave, and couplings against their definition."""

from __future__ import annotations

import numpy as np
from exact_networks import make_network
from sampled_networks import agreement, check_against_exact, random_networks

from lapis.inference.sampling.chains import run_chains
from lapis.inference.sampling.couplings.cluster import Cluster
from lapis.inference.sampling.couplings.pairs import find_pairs
from lapis.inference.sampling.kernels.clause_graph import build_graph
from lapis.network.network import Network


def glass(size: int, seed: int) -> Network:
    """Couplings of both signs between all pairs, some of three atoms, and a hard clause."""
    rng = np.random.default_rng(seed)
    clauses: list[tuple[list[int], int, float]] = [([1, -2, 3], -1, 1.0), ([2, 4], -1, 1.0)]
    for one in range(1, size + 1):
        clauses.append(([one], 0, float(rng.normal())))
        for other in range(one + 1, size + 1):
            sign = rng.choice([-1, 1], 2)
            clauses.append(([int(sign[0]) * one, int(sign[1]) * other], 0, float(rng.normal())))
    for _ in range(4):
        three = (rng.choice(size, 3, replace=False) + 1) * rng.choice([-1, 1], 3)
        clauses.append((three.tolist(), 0, float(rng.normal())))
    return make_network(size, clauses, [1.5])


def test_a_mode_is_left_in_one_move() -> None:
    """Fourteen atoms that hold together: Gibbs and tempering need 60,000 samples for this."""
    network = agreement(14, 0.9, 0.05)
    result = run_chains(network, Cluster(), precision=0.01)
    assert result.converged
    assert result.num_samples < 10_000
    check_against_exact(network, run_chains(network, Cluster(), precision=0.002))


def test_frustrated_couplings_are_slow_but_right() -> None:
    for seed in range(6):
        network = glass(9, seed)
        check_against_exact(network, run_chains(network, Cluster(), precision=0.003, seed=seed))


def test_couplings_and_fields_say_what_the_clauses_say() -> None:
    """Score = constant + Σ h s + Σ J s s' + the clauses of the rest, in every world."""
    for network in [*random_networks(30), glass(7, 0)]:
        graph = build_graph(network)
        pairs = find_pairs(network, graph)
        rng = np.random.default_rng(0)
        offset = set()
        for _ in range(20):
            world = network.complete(rng.random(network.num_base_atoms) < 0.5)
            spin = np.where(world[: network.num_base_atoms], 1.0, -1.0)
            said = pairs.field @ spin
            said += (pairs.coupling * spin[pairs.one] * spin[pairs.other]).sum()
            holds = world[np.abs(graph.literal) - 1] == (graph.literal > 0)
            true = np.array([c.any() for c in np.split(holds, graph.clause_start[1:-1])])
            soft = np.isfinite(graph.weight)
            said += pairs.rest[soft] @ true[: len(soft)][soft]
            score = network.weights @ (network.counts(world) - network.constant_count)
            offset.add(round(float(score - said), 9))
        assert len(offset) == 1
