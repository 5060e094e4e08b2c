"""Cluster moves: modes that single flips do not leave, and couplings against their definition."""

from __future__ import annotations

import numpy as np

from exact_networks import make_network
from lapis.inference.random_numbers import random_states
from lapis.inference.sampling.chains import run_chains
from lapis.inference.sampling.clause_graph import build_graph
from lapis.inference.sampling.cluster import ClusterSampler, find_pairs
from lapis.inference.sampling.cluster_kernel import MEASURED_TO, SWEEPS, run_clusters
from lapis.inference.sampling.gibbs import Gibbs
from lapis.inference.sampling.tally import new_tallies
from lapis.network.network import Network
from sampled_networks import agreement, check_against_exact, random_networks


def glass(size: int, seed: int) -> Network:
    """Couplings of both signs between all pairs, some clauses of three atoms, and a hard clause."""
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
    """Fourteen strongly coupled atoms: Gibbs and tempering need 60,000 samples."""
    network = agreement(14, 0.9, 0.05)
    result = run_chains(network, ClusterSampler(), precision=0.01)
    assert result.converged
    assert result.num_samples < 10_000
    check_against_exact(network, run_chains(network, ClusterSampler(), precision=0.002))


def test_frustrated_couplings_are_slow_but_right() -> None:
    for seed in range(6):
        network = glass(9, seed)
        check_against_exact(
            network, run_chains(network, ClusterSampler(), precision=0.003, seed=seed)
        )


def held_together(size: int) -> Network:
    """Two atoms with strong fields, others coupled to both: bonds fix these, sweeps do not."""
    clauses: list[tuple[list[int], int, float]] = [([1], 1, 1.0), ([-2], 1, 1.0)]
    for atom in range(3, size + 1):
        for held in (1, 2):
            clauses += [([-held, atom], 0, 1.0), ([held, -atom], 0, 1.0)]
    return make_network(size, clauses, [1.5, 20.0])


def run_pieces(network: Network, pieces: list[int]) -> tuple[np.ndarray, list[int]]:
    """Return the last world of a chain, and the bonds in each piece of it."""
    sampler = ClusterSampler()
    plan = sampler.prepare(network)
    rng = random_states(3, 1)[0].copy()
    state = sampler.init(plan, sampler.start(plan, 1, rng), rng)
    tallies = new_tallies(network.num_base_atoms, sampler.counts(state).copy())
    bonds = [sampler.step(plan, state, tallies, size).bonds for size in pieces]
    return sampler.world(state), bonds


def test_moves_that_change_less_than_sweeps_become_rare() -> None:
    network = held_together(12)
    _, bonds = run_pieces(network, [MEASURED_TO] + [1] * (4 * SWEEPS))
    made = np.array(bonds[1:]) > 0
    assert made.tolist() == [place % SWEEPS == 0 for place in range(len(made))]
    check_against_exact(network, run_chains(network, ClusterSampler(), precision=0.003))


def test_moves_that_turn_modes_over_stay() -> None:
    _, bonds = run_pieces(agreement(14, 0.9, 0.05), [MEASURED_TO] + [1] * (4 * SWEEPS))
    assert min(bonds) > 0


def test_where_a_run_is_cut_does_not_show() -> None:
    """The length of rounds depends on timing; the answer must not."""
    network = held_together(12)
    whole, _ = run_pieces(network, [100])
    for cuts in ([31, 69], [33, 1, 66], [50, 50]):
        world, _ = run_pieces(network, cuts)
        assert np.array_equal(world, whole)


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


def test_the_gibbs_sampler_is_the_same_kernel() -> None:
    """Pilots run both samplers, and compiling one takes seconds."""
    network = agreement(6, 0.5, 0.1)
    run_chains(network, ClusterSampler(), max_samples=8)
    compiled = list(run_clusters.overloads)
    run_chains(network, Gibbs(), max_samples=8)
    assert list(run_clusters.overloads) == compiled
