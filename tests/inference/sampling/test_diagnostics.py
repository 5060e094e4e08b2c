"""Standard errors, split R-hat and effective sample sizes against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from lapis.inference.sampling.diagnostics import (
    VISITS,
    WarmUp,
    collect_trace,
    num_tallied,
    raise_island_errors,
    summarize,
)
from lapis.inference.sampling.tally import (
    NUM_BATCHES,
    TRACE_LENGTH,
    Tally,
    new_tally,
    record_values,
)


def tally_of(values: np.ndarray, traced: list[int] | None = None) -> Tally:
    """Build the tally of one chain, float64[num_samples, num_values]."""
    tally = new_tally(np.zeros(values.shape[1]), np.array(traced or [], np.int64))
    for row in values:
        record_values(tally, row)
    return tally


def autoregressive(rng: np.random.Generator, samples: int, memory: float) -> np.ndarray:
    noise = rng.normal(size=samples)
    values = np.zeros(samples)
    values[0] = noise[0]
    for at in range(1, samples):
        values[at] = memory * values[at - 1] + np.sqrt(1 - memory**2) * noise[at]
    return values


def test_moments_are_those_of_the_chains() -> None:
    """2^11 samples fill all batches evenly: split R-hat must equal its textbook definition."""
    rng = np.random.default_rng(0)
    chains = 0.5 + 0.1 * rng.normal(size=(4, 2048, 3)) + 0.03 * rng.normal(size=(4, 1, 3))
    tallies = [tally_of(chain) for chain in chains]
    assert num_tallied(tallies[0]) == 2048
    found = summarize(tallies, max_rhat=np.inf)
    halves = chains.reshape(8, 1024, 3)
    within = halves.var(axis=1).mean(axis=0)
    between = halves.mean(axis=1).var(axis=0, ddof=1)
    np.testing.assert_allclose(found.mean, chains.mean(axis=(0, 1)))
    np.testing.assert_allclose(
        found.rhat, np.sqrt((within * 1023 / 1024 + between) / within), rtol=1e-9
    )
    # The chains are further apart than their batches explain: each is one draw.
    apart = np.sqrt(chains.mean(axis=1).var(axis=0, ddof=1) / 4)
    np.testing.assert_allclose(found.stderr, np.hypot(apart, 1 / (4 * 2048)), rtol=1e-9)
    together = chains - chains.mean(axis=1, keepdims=True)
    batches = together.reshape(4, 16, 128, 3).mean(axis=2)
    error = np.hypot(np.sqrt(batches.var(axis=1, ddof=1).mean(axis=0) / 64), 1 / (4 * 2048))
    found = summarize([tally_of(chain) for chain in together])
    np.testing.assert_allclose(found.stderr, error, rtol=1e-9)


@pytest.mark.parametrize("samples", [1, 2, 3, 37, 64, 1000, 4099])
def test_batches_lose_nothing(samples: int) -> None:
    values = np.random.default_rng(samples).random((samples, 2))
    tally = tally_of(values)
    assert num_tallied(tally) == samples
    np.testing.assert_allclose(tally.batch_sum.sum(axis=0), values.sum(axis=0))
    np.testing.assert_allclose(tally.square_sum, (values**2).sum(axis=0))
    assert tally.cursor[0] < NUM_BATCHES


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.9])
def test_correlated_chains_count_for_less(memory: float) -> None:
    """The effective size of an AR(1) chain is (1 − ρ)/(1 + ρ) of its samples."""
    rng = np.random.default_rng(1)
    values = np.array(
        [
            [autoregressive(rng, 8192, memory) for _ in range(20)]
            for _ in range(4)
        ]
    ).transpose(0, 2, 1)  # fmt: skip
    found = summarize([tally_of(chain) for chain in values], span=np.ones(20))
    worth = float(found.ess.mean()) / (4 * 8192)
    assert worth == pytest.approx((1 - memory) / (1 + memory), rel=0.2)
    assert found.worst_rhat < 1.02


def test_chains_that_disagree_are_the_only_witnesses() -> None:
    """Two chains near 0 and two near 1: the error is that of four numbers."""
    rng = np.random.default_rng(2)
    level = np.array([0.01, 0.02, 0.98, 0.99])
    chains = level[:, None, None] + 0.001 * rng.random((4, 512, 1))
    found = summarize([tally_of(chain) for chain in chains])
    assert found.rhat[0] > 100
    assert found.stderr[0] == pytest.approx(np.std(level, ddof=1) / 2, rel=0.01)
    assert found.ess[0] < 5


def test_chains_stuck_at_different_values() -> None:
    stuck = [np.full((128, 1), value) for value in (0.0, 1.0)]
    found = summarize([tally_of(chain) for chain in stuck])
    assert found.rhat[0] == np.inf
    assert found.mean[0] == 0.5
    assert found.stderr[0] == pytest.approx(np.hypot(0.5, 1 / 256))


def test_values_that_never_change() -> None:
    """Constant values may be certain, or a rare event was missed."""
    constant = np.tile([0.25, 0.0, 1.0], (100, 1))
    found = summarize([tally_of(constant) for _ in range(4)])
    assert found.rhat.tolist() == [1.0, 1.0, 1.0]
    assert found.stderr.tolist() == pytest.approx([1 / 400] * 3)
    counts = summarize([tally_of(constant) for _ in range(4)], span=np.array([10.0, 0.0, 4.0]))
    assert counts.stderr.tolist() == pytest.approx([10 / 400, 0.0, 4 / 400])


def test_an_event_in_the_unfinished_batch_is_not_certain() -> None:
    """Full batches contain no information about the last, partial batch."""
    values = np.zeros((65, 1))
    values[64] = 1.0
    found = summarize([tally_of(values) for _ in range(4)])
    assert found.mean[0] == pytest.approx(1 / 65)
    assert found.stderr[0] >= 1 / (4 * 65)


def test_origin_keeps_the_digits() -> None:
    """Counts of a billion that vary by one still have a variance."""
    rng = np.random.default_rng(3)
    tallies = []
    for _ in range(4):
        tally = new_tally(np.array([1e9]), np.empty(0, np.int64))
        for value in rng.integers(0, 2, 4096):
            record_values(tally, np.array([1e9 + value]))
        tallies.append(tally)
    found = summarize(tallies, span=np.ones(1))
    assert found.mean[0] - 1e9 == pytest.approx(0.5, abs=0.05)
    assert found.stderr[0] == pytest.approx(0.5 / 128, rel=0.4)


def test_too_few_samples_have_no_error_yet() -> None:
    found = summarize([tally_of(np.ones((1, 1)))])
    assert found.stderr[0] == np.inf
    assert found.rhat[0] == np.inf


def test_slowest_values_and_their_traces() -> None:
    rng = np.random.default_rng(4)
    memory = np.linspace(0.0, 0.99, 40)
    chains = [
        np.stack([autoregressive(rng, 6000, rho) for rho in memory], axis=1) for _ in range(2)
    ]
    found = summarize([tally_of(chain) for chain in chains], span=np.ones(40))
    slowest = found.slowest(3)
    assert set(slowest.tolist()) <= set(range(33, 40))
    trace = collect_trace([tally_of(chain, slowest.tolist()) for chain in chains])
    assert trace.atoms.tolist() == slowest.tolist()
    assert trace.stride == 4
    assert trace.values.shape == (2, 6000 // 4, 3)
    assert trace.values.shape[1] < TRACE_LENGTH
    np.testing.assert_allclose(trace.values[1], chains[1][3::4][:, slowest], rtol=1e-6)


def test_a_place_left_in_warm_up_is_an_error_until_it_no_longer_matters() -> None:
    """All chains are at 0.99; one was at 0.01 for 1000 samples of warm-up, and none returned."""
    rng = np.random.default_rng(3)
    total = np.full((4, 1), 990.0)
    total[2] = 10.0
    for samples in (2_000, 32_000):
        chains = [tally_of(0.99 + 1e-3 * rng.normal(size=(samples, 1))) for _ in range(4)]
        found = summarize(chains, warm_up=WarmUp(total, 1000))
        assert found.rhat[0] <= 1.01
        missing = VISITS * 980 / (4 * samples)
        assert found.missed[0] == pytest.approx(missing, rel=0.01)
        assert found.stderr[0] == pytest.approx(missing, rel=0.01)
        assert summarize(chains).stderr[0] < 2e-4


def test_chains_on_islands_are_as_many_draws() -> None:
    """Atom 0 is constant in each chain and differs between them; atom 1 is equal in all."""
    worlds = np.array([[0.0, 1.0, 0.3], [1.0, 1.0, 0.3], [1.0, 1.0, 0.3], [0.0, 1.0, 0.3]])
    found = summarize([tally_of(np.tile(world, (500, 1))) for world in worlds])
    assert found.still.tolist() == [False, True, True]
    doubted = raise_island_errors(found, np.array([0, 0, 1]), 4, True)
    assert doubted.rhat.tolist() == [np.inf, 1.0, 1.0]
    assert doubted.stderr[1] == pytest.approx(np.sqrt(0.9 * 0.1 / 4))
    assert doubted.stderr[2] == found.stderr[2]  # another component, and alone in it
    # A component of several atoms that never moved at all is believed only if it is known to.
    still = found._replace(rhat=np.ones(3))
    assert raise_island_errors(still, np.array([0, 1, 1]), 4, True).rhat.tolist() == [1, 1, 1]
    assert raise_island_errors(still, np.array([0, 1, 1]), 4, None).rhat.tolist() == [
        1,
        np.inf,
        np.inf,
    ]
