"""MC-SAT: uniform sampling of the slice, and the bias of SampleSAT."""

from __future__ import annotations

import numpy as np
import pytest

import lapis
from exact_networks import make_network, possible_worlds
from lapis.inference.exact.enumerate import enumerate_worlds
from lapis.inference.random_numbers import random_states
from lapis.inference.sampling.chains import run_chains
from lapis.inference.sampling.mcsat import MCSAT, restart
from lapis.inference.sampling.tally import new_tallies
from sampled_networks import agreement, colouring, equivalence, random_networks, start_chain


@pytest.mark.parametrize("budget", [4096, 8])
def test_hard_constraints_are_sampled_uniformly(budget: int) -> None:
    """With hard clauses only, every world is equally likely: a χ² test over all of them."""
    from scipy.stats import chi2

    for network in (colouring(4, 3).with_weights(np.zeros(1)), equivalence(4, 0.0)):
        worlds, _ = possible_worlds(network)
        place = {world.tobytes(): number for number, world in enumerate(worlds)}
        sampler = MCSAT(node_budget=budget)
        plan, state, tallies = start_chain(sampler, network, 0, 3)
        seen = np.zeros(len(worlds))
        draws = 400 * len(worlds)
        for _ in range(draws):
            sampler.step(plan, state, tallies, 3)  # nearly independent
            seen[place[sampler.world(state).tobytes()]] += 1
        statistic = float(((seen - 400) ** 2 / 400).sum())
        assert chi2.sf(statistic, len(worlds) - 1) > 1e-3


def test_free_atoms_get_fair_coins() -> None:
    result = run_chains(make_network(4, [([1], 0, 1.0)], [0.0]), MCSAT(), precision=0.01)
    assert result.marginal.tolist() == [0.5] * 4


def test_large_moves_are_used_and_return() -> None:
    result = run_chains(equivalence(6, 0.4), MCSAT(node_budget=8), precision=0, max_samples=2000)
    assert result.events["large_components"] > 0
    assert result.events["regions"] > 0
    assert 0 < result.events["returned_excursions"] <= result.events["excursions"]


def test_restarts_stay_in_the_slice() -> None:
    """SampleSAT moves to another solution of the same constraints; failures keep the state."""
    for network in [*random_networks(15), colouring(5, 3), equivalence(5, 0.5)]:
        sampler = MCSAT()
        plan, state, tallies = start_chain(sampler, network, 2, 1)
        for _ in range(10):
            sampler.step(plan, state, tallies, 1)
            restart(plan, state, 10_000)
            slice_weight = state.part.weight
            value = sampler.world(state)
            truth = network.is_satisfied(value)
            assert network.is_feasible(value)
            assert truth[slice_weight == np.inf].all()
            assert not truth[slice_weight == -np.inf].any()


def test_restarts_are_counted_and_bias_the_answer() -> None:
    """Restarts are off because WalkSAT does not find all solutions equally often."""
    network = equivalence(6, 0.0)
    exact = enumerate_worlds(network).marginal
    fair = run_chains(network, MCSAT(), precision=0, max_samples=8_000)
    jumping = MCSAT(node_budget=0, restart_probability=1.0)
    jumped = run_chains(network, jumping, precision=0, max_samples=4_000)
    assert fair.events["restarts"] == 0
    assert jumped.events["restarts"] == jumped.num_samples
    assert np.abs(fair.marginal - exact).max() < 0.01
    assert jumped.events["failed_restarts"] < jumped.events["restarts"]
    bias = np.abs(jumped.marginal - exact)
    assert (bias > 4 * jumped.stderr).all()
    assert bias.max() > 0.05


def test_leaves_a_mode_that_a_hundred_atoms_hold_together() -> None:
    """All true is e^−30 times as likely as all false; its slices have these two solutions only."""
    network = agreement(100, 0.4, -0.3)
    sampler = MCSAT()
    plan = sampler.prepare(network)
    state = sampler.init(plan, np.ones(100, bool), random_states(0, 1)[0].copy())
    sampler.step(plan, state, new_tallies(0, np.empty(0)), 60)
    assert sampler.world(state).mean() < 0.1


def test_moves_between_modes_of_atoms_whose_ties_were_eliminated() -> None:
    """Friends are summed out; the remaining factors must not fix each person separately."""
    model = lapis.parse(
        "person = {1,...,16}\nFriends(person, person)\nSmokes(person)\n"
        "1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)\n-0.05 Smokes(x)"
    )
    exact = lapis.infer(model, query=["Smokes", "Friends"], method="exact").probability
    found = lapis.infer(model, query=["Smokes", "Friends"], method="mcsat", random_state=2)
    assert found.diagnostics["converged"]
    assert (np.abs(found.probability - exact) <= 4 * found.errors).all()
