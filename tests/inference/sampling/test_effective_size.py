"""Bulk and tail effective sample sizes of chains with known autocorrelation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import norm

from lapis.inference.sampling.diagnostics import (
    NUM_SLOWEST,
    autocorrelated_size,
    effective_size,
    normal_scores,
    slowest_size,
    summarize,
)
from lapis.inference.sampling.tally import Tally, new_tally, record_values
from lapis.results.answer import quality_remarks


def autoregressive(memory: float, seed: int) -> np.ndarray:
    """float64[4, 2000, 1], x_t = ρ x_{t−1} + √(1 − ρ²) ε, stationary from the first."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(4, 2000)) * np.sqrt(1 - memory**2)
    noise[:, 0] = rng.normal(size=4)
    chains: np.ndarray = lfilter([1.0], [1.0, -memory], noise, axis=1)
    return chains[:, :, None]


@pytest.mark.parametrize("memory", [-0.5, 0.0, 0.5, 0.9])
def test_correlated_draws_are_worth_less_and_antithetic_ones_more(memory: float) -> None:
    worth = 8000 * (1 - memory) / (1 + memory)
    found = [effective_size(autoregressive(memory, seed)).bulk for seed in range(20)]
    assert np.mean(found) == pytest.approx(worth, rel=0.15)


def test_ranks_do_not_see_the_scale() -> None:
    """A heavy tail changes the plain size, not that of ranks."""
    trace = autoregressive(0.5, 0)
    stretched = np.sinh(5 * trace)
    assert effective_size(stretched).bulk == pytest.approx(effective_size(trace).bulk)
    assert effective_size(stretched).tail == pytest.approx(effective_size(trace).tail)


def test_tails_that_stay_are_seen_where_the_bulk_moves() -> None:
    """Every chain is in the tail for its first twentieth, and moves freely otherwise."""
    trace = np.random.default_rng(1).normal(size=(4, 2000, 1))
    trace[:, :100] = 5 + 0.1 * trace[:, :100]
    found = effective_size(trace)
    assert found.tail < 100 < found.bulk


def test_chains_apart_are_worth_their_number() -> None:
    trace = 0.01 * np.random.default_rng(2).normal(size=(4, 500, 2))
    trace[2:, :, 1] += 1.0
    found = effective_size(trace)
    assert found.bulk < 8
    assert effective_size(trace[:, :, :1]).bulk > 1500


def test_what_never_changes_counts_fully_and_nothing_counts_for_nothing() -> None:
    assert autocorrelated_size(np.ones((2, 50))) == 100.0
    assert effective_size(np.ones((4, 100, 2))) == (400.0, 400.0)
    assert effective_size(np.zeros((4, 100, 0))) == (0.0, 0.0)
    assert effective_size(np.zeros((4, 7, 2))) == (0.0, 0.0)


def tallied(chains: np.ndarray) -> list[Tally]:
    """The tallies of float64[num_chains, num_samples, num_values]."""
    found = []
    for chain in chains:
        tally = new_tally(np.zeros(chain.shape[1]), np.empty(0, np.int64))
        for row in chain:
            record_values(tally, row)
        found.append(tally)
    return found


def test_the_slowest_of_many_is_found_wherever_it_is() -> None:
    """Untraced: two thousand values have no autocorrelation, eight have a time of 99 samples."""
    rng = np.random.default_rng(0)
    chains = rng.normal(size=(4, 4096, 2008))
    noise = rng.normal(size=(4, 4096, 8)) * np.sqrt(1 - 0.98**2)
    chains[:, :, 1000:1008] = lfilter([1.0], [1.0, -0.98], noise, axis=1)
    worth = 4 * 4096 * 0.02 / 1.98
    assert slowest_size(tallied(chains)) == pytest.approx(worth, rel=0.5)


def test_the_worst_of_many_figures_is_not_taken_for_slow() -> None:
    """The minimum over all sizes by batches would be half of the samples."""
    chains = np.random.default_rng(1).normal(size=(4, 512, 5000))
    tallies = tallied(chains)
    assert slowest_size(tallies) > 0.7 * 4 * 512
    assert summarize(tallies).ess.min() < 0.6 * 4 * 512


def test_chains_that_sit_apart_are_worth_no_more_than_their_halves() -> None:
    """Batches of a chain that stays in one mode agree with each other."""
    rng = np.random.default_rng(2)
    chains = rng.normal(size=(4, 256, 300))
    chains[:, :, 7] += 5 * np.arange(4)[:, None]
    assert slowest_size(tallied(chains)) < 8 * NUM_SLOWEST
    assert slowest_size(tallied(chains[:, :, 7:8])) < 8
    assert slowest_size(tallied(chains[:1])) > 0.5 * 256


def test_too_few_samples_tell_nothing() -> None:
    assert slowest_size(tallied(np.random.default_rng(3).normal(size=(4, 7, 5)))) == 0.0


def test_few_effective_samples_of_any_atom_are_remarked() -> None:
    notes = {"converged": True, "chains": 4, "ess": 143.2, "ess_bulk": 1378.0, "ess_tail": 900.0}
    (remark,) = quality_remarks(notes)
    assert remark.startswith("few effective samples (143 in 4 chains, 100 a chain are wanted)")
    assert quality_remarks(notes | {"ess": 401.0}) == []


def test_normal_scores_are_quantiles_of_ranks() -> None:
    values = np.array([[3.0, 1.0, 1.0], [2.0, 7.0, 1.0]])
    rank = np.array([[5.0, 2.0, 2.0], [4.0, 6.0, 2.0]])
    assert normal_scores(values) == pytest.approx(norm.ppf((rank - 0.375) / 6.25), abs=1e-12)
