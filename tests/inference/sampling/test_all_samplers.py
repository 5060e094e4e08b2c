"""All samplers through one protocol, against exact answers and their own standard errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lapis
from exact_networks import make_network
from golden_models import GoldenModel
from lapis.inference.exact.enumerate import enumerate_worlds
from lapis.inference.random_numbers import random_states
from lapis.inference.sampling.chains import SampleResult, run_chains
from lapis.inference.sampling.cluster import ClusterSampler
from lapis.inference.sampling.diagnostics import summarize
from lapis.inference.sampling.gibbs import Gibbs
from lapis.inference.sampling.mcsat import MCSAT
from lapis.inference.sampling.sampler import Sampler
from lapis.inference.sampling.tally import extend_worlds, new_tallies
from lapis.inference.sampling.tempering import Tempering
from lapis.network.network import Network
from lapis.runtime.progress import Progress
from sampled_networks import (
    GOLDEN,
    HARD_TO_SAMPLE,
    agreement,
    check_against_exact,
    equivalence,
    golden_network,
    implications,
    random_networks,
    start_chain,
    witnesses,
)

SAMPLERS: list[Sampler[Any, Any]] = [
    Gibbs(),
    MCSAT(),
    # No component is listed in full: every move of large components has to be right.
    MCSAT(node_budget=8, name="mcsat-large"),
    Tempering(),
    ClusterSampler(),
]
each_sampler = pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: sampler.name)


def sample(network: Network, sampler: Sampler[Any, Any], seed: int = 1) -> SampleResult:
    return run_chains(network, sampler, precision=0.002, max_samples=160_000, seed=seed)


@each_sampler
@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)
def test_golden_model(golden: GoldenModel, sampler: Sampler[Any, Any]) -> None:
    network = golden_network(golden)
    check_against_exact(network, sample(network, sampler))


@each_sampler
@pytest.mark.parametrize("name", HARD_TO_SAMPLE)
def test_hard_to_sample(name: str, sampler: Sampler[Any, Any]) -> None:
    result = sample(HARD_TO_SAMPLE[name], sampler)
    check_against_exact(HARD_TO_SAMPLE[name], result)
    assert result.worst_rhat <= 1.05


@each_sampler
def test_random_networks(sampler: Sampler[Any, Any]) -> None:
    for network in random_networks(40):
        check_against_exact(network, sample(network, sampler))


@pytest.mark.slow
@each_sampler
def test_random_networks_at_length(sampler: Sampler[Any, Any]) -> None:
    """Errors of 4σ occur once in 16,000 estimates; many more indicate a bug."""
    figures, beyond = 0, 0
    for seed, network in enumerate(random_networks(400)):
        exact = enumerate_worlds(network)
        result = sample(network, sampler, seed)
        atoms = np.abs(result.marginal - exact.marginal) > 4 * result.stderr + 1e-9
        counted = np.abs(result.expected_count - exact.expected_count)
        counts = counted > 4 * result.expected_count_stderr + 1e-9
        figures += len(atoms) + len(counts)
        beyond += int(atoms.sum() + counts.sum())
    assert figures > 4_000
    assert beyond <= 2


@each_sampler
def test_counters_stay_true(sampler: Sampler[Any, Any]) -> None:
    """After many steps every world is feasible, and its counts equal a recount."""
    for network in [*random_networks(20), *HARD_TO_SAMPLE.values()]:
        plan, state, tallies = start_chain(sampler, network, 0, 0)
        for _ in range(5):
            sampler.step(plan, state, tallies, 10)
            world = sampler.world(state)
            assert network.is_feasible(world)
            counted = network.counts(world) - network.constant_count
            assert counted == pytest.approx(sampler.counts(state))


@each_sampler
def test_starts_at_the_world_given_and_follows_the_weights(sampler: Sampler[Any, Any]) -> None:
    """Other weights change the units, and the chain continues from its world."""
    network = implications(6, 1.0)
    plan = sampler.prepare(network)
    given = np.array([True, True, False, False, True, False])
    state = sampler.init(plan, given, random_states(4, 1)[0].copy())
    if sampler.name != "tempering":  # tunes its ladder first
        assert sampler.world(state).tolist() == given.tolist()
    for strength in (0.2, 9.0, 1.0):
        weights = np.array([strength, 0.4])
        before = sampler.world(state)
        plan, state = sampler.reweigh(plan, state, weights)
        assert sampler.world(state).tolist() == before.tolist()
        tallies = new_tallies(network.num_base_atoms, np.zeros(2))
        sampler.step(plan, state, new_tallies(network.num_base_atoms, np.zeros(2)), 200)
        sampler.step(plan, state, tallies, 20_000)
        exact = enumerate_worlds(network.with_weights(weights)).marginal
        found = summarize([tallies.atoms])
        assert (np.abs(found.mean - exact) <= 4 * found.stderr).all()


@each_sampler
def test_the_worlds_kept_are_those_counted(sampler: Sampler[Any, Any]) -> None:
    network = equivalence(4, 0.3)
    plan, state, _ = start_chain(sampler, network, 2, 7)
    tallies = new_tallies(network.num_base_atoms, np.zeros(2), kept_atoms=network.num_atoms)
    for size in (70, 131):
        tallies = tallies._replace(worlds=extend_worlds(tallies.worlds, size))
        sampler.step(plan, state, tallies, size - int(tallies.worlds.size[0]))
    bits, size = tallies.worlds
    worlds = np.array([bits[s // 64] >> np.uint64(s % 64) & np.uint64(1) for s in range(131)]) > 0
    assert size.tolist() == [131]
    assert all(map(network.is_feasible, worlds))
    counted = np.mean([network.counts(world) for world in worlds], axis=0)
    assert summarize([tallies.counts]).mean == pytest.approx(counted)


@each_sampler
def test_same_seed_same_answer_on_any_number_of_cores(sampler: Sampler[Any, Any]) -> None:
    network = witnesses(4)
    results = [
        run_chains(network, sampler, precision=0.01, seed=seed, num_threads=threads)
        for seed, threads in ((5, 1), (5, 2), (6, 2))
    ]
    assert (results[0].marginal == results[1].marginal).all()
    assert (results[0].stderr == results[1].stderr).all()
    assert (results[0].expected_count == results[1].expected_count).all()
    assert (results[0].marginal != results[2].marginal).any()


@each_sampler
def test_stops_at_the_precision_asked_for(sampler: Sampler[Any, Any]) -> None:
    network = agreement(5, 0.3, 0.1)
    rough = run_chains(network, sampler, precision=0.02)
    fine = run_chains(network, sampler, precision=0.004)
    assert rough.converged
    assert fine.converged
    assert rough.worst_stderr <= 0.02
    assert fine.worst_stderr <= 0.004
    assert rough.num_samples < fine.num_samples


@each_sampler
def test_standard_errors_are_neither_too_small_nor_too_large(sampler: Sampler[Any, Any]) -> None:
    """Over many seeds, errors divided by standard errors have a standard deviation of about 1."""
    network = implications(7, 1.2)
    exact = enumerate_worlds(network).marginal
    scaled = []
    for seed in range(40):
        result = run_chains(network, sampler, precision=0, max_samples=2000, seed=seed)
        scaled.append((result.marginal - exact) / result.stderr)
    size = float(np.sqrt(np.mean(np.square(scaled))))
    assert 0.7 < size < 1.4


@each_sampler
def test_interrupted_by_the_user(sampler: Sampler[Any, Any]) -> None:
    network = agreement(5, 0.3, 0.1)

    def interrupt(progress: Progress) -> None:
        if progress.phase == "sampling":
            raise KeyboardInterrupt

    result = run_chains(network, sampler, precision=0, max_samples=10**9, progress=interrupt)
    assert result.interrupted
    assert not result.converged
    assert 0 < result.num_samples < 10**9
    assert ((result.marginal > 0) & (result.marginal < 1)).all()


@each_sampler
def test_told_to_stop(sampler: Sampler[Any, Any]) -> None:
    seen: list[Progress] = []
    result = run_chains(
        agreement(5, 0.3, 0.1),
        sampler,
        precision=0,
        max_samples=10**9,
        progress=seen.append,
        should_stop=lambda: len(seen) > 40,
    )
    assert result.interrupted
    assert seen[-1].seconds > 0
    assert {progress.phase for progress in seen} == {"warm-up", "sampling"}


@each_sampler
def test_time_limit(sampler: Sampler[Any, Any]) -> None:
    result = run_chains(
        agreement(5, 0.3, 0.1), sampler, precision=0, max_samples=10**9, time_limit=0.0
    )
    assert not result.interrupted
    assert not result.converged
    assert result.num_samples > 0


@each_sampler
def test_contradictions_are_proven(sampler: Sampler[Any, Any]) -> None:
    clauses = [([1, 2], -1, 1.0), ([1, -2], -1, 1.0), ([-1, 2], -1, 1.0), ([-1, -2], -1, 1.0)]
    with pytest.raises(lapis.LapisError) as caught:
        run_chains(make_network(2, clauses), sampler)
    assert caught.value.code == "unsatisfiable"


@pytest.mark.parametrize("sampler", [Gibbs(), MCSAT()], ids=lambda sampler: sampler.name)
def test_no_start_found_is_said(
    sampler: Sampler[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten pigeons in nine holes: neither WalkSAT nor a short search finds a world or a proof."""
    monkeypatch.setattr("lapis.network.satisfiability.MAX_CONFLICTS", 1_000)
    holes = 9
    clauses: list[tuple[list[int], int, float]] = []
    for pigeon in range(holes + 1):
        clauses.append(([pigeon * holes + hole + 1 for hole in range(holes)], -1, 1.0))
    for hole in range(holes):
        for one in range(holes + 1):
            for other in range(one + 1, holes + 1):
                pair = [-(one * holes + hole + 1), -(other * holes + hole + 1)]
                clauses.append((pair, -1, 1.0))
    with pytest.raises(lapis.LapisError) as caught:
        run_chains(make_network((holes + 1) * holes, clauses), sampler)
    assert caught.value.code == "no-initial-state"
    assert caught.value.hint is not None


def test_ergodicity_is_known_or_not_claimed() -> None:
    """Groups of hard clauses that fit in one unit, or have one sign for each atom, are ergodic."""
    ring = [([-a, -(a % 30 + 1)], -1, 1.0) for a in range(1, 31)]  # neighbours not both
    assert Gibbs().prepare(make_network(30, ring)).ergodic is True
    assert Gibbs().prepare(equivalence(5, 0.5)).ergodic is True
    assert Gibbs().prepare(equivalence(7, 0.5)).ergodic is None
    assert MCSAT().prepare(implications(5, 3.0)).ergodic is True
