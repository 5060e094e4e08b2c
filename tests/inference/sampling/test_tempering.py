"""Parallel tempering: levels, and networks in which Gibbs stays in one mode."""

from __future__ import annotations

import numpy as np

from lapis.inference.sampling.chains import run_chains
from lapis.inference.sampling.gibbs import Gibbs
from lapis.inference.sampling.tempering import Tempering, spread_levels
from sampled_networks import agreement, check_against_exact, start_chain


def test_crosses_between_modes_that_gibbs_does_not() -> None:
    network = agreement(14, 0.9, 0.05)
    stuck = run_chains(network, Gibbs(), precision=0.002, max_samples=8_000)
    assert not stuck.converged
    assert stuck.worst_rhat > 1.2
    assert stuck.worst_stderr > 0.1  # it knows that its chains disagree
    result = run_chains(network, Tempering(), precision=0.002, max_samples=60_000)
    assert result.worst_rhat <= 1.05
    check_against_exact(network, result)


def test_swaps_are_accepted_about_equally() -> None:
    network = agreement(14, 0.9, 0.05)
    sampler = Tempering()
    _, state, _ = start_chain(sampler, network, 0, 0)
    assert state.ladder.beta[0] == 1.0
    assert state.ladder.beta[-1] == 0.0
    assert (np.diff(state.ladder.beta) < 0).all()
    result = run_chains(network, sampler, precision=0, max_samples=4_000)
    assert 0.2 < result.events["swaps"] / result.events["swaps_tried"] < 0.9


def test_levels_cut_the_barrier_evenly() -> None:
    beta = np.array([1.0, 0.5, 0.0])
    spread = spread_levels(beta, np.array([0.6, 0.2]), 5)
    # Three quarters of the barrier lie above 0.5, so do three of the four steps.
    np.testing.assert_allclose(spread, [1, 5 / 6, 2 / 3, 1 / 2, 0], atol=2e-3)
    np.testing.assert_allclose(spread_levels(beta, np.zeros(2), 3), beta)


def test_the_ladder_has_bounds() -> None:
    assert Tempering(max_levels=6).num_levels(np.full(7, 0.9)) == 6
    assert Tempering().num_levels(np.zeros(7)) == 3
