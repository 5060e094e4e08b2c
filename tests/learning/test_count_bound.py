"""Theorem 1, with likelihoods by enumeration and counts that are perturbed on purpose."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import lapis
import oracle
from lapis.counting.ijgp import IjgpSettings
from lapis.learning.examples import build_examples
from lapis.learning.parameters import share_parameters
from lapis.learning.reliability import likelihood_bound, measure_errors

MODEL = """
E(n, n)
S(n)
E(x,y) ^ S(x) => S(y)
E(x,y) ^ E(y,x)
S(x)
"""
FACTS = oracle.Facts(true=(("E", ("A", "B")), ("E", ("B", "A")), ("S", ("A",)), ("E", ("A", "A"))))


def all_counts() -> tuple[np.ndarray, int]:
    """float64[num_worlds, num_weights] of every world, and which of them is the data."""
    model = lapis.parse(MODEL)
    domains = oracle.constants_of(model, FACTS)
    observed = oracle.observed_world(model, FACTS, domains)
    worlds = oracle.worlds_agreeing_with(dict.fromkeys(observed.column))
    weighing = oracle.weigh(model, domains, worlds)
    counts = [weighing.counts[key] for key in oracle.weight_keys(model, domains)]
    [data] = np.flatnonzero((worlds.truth == observed.truth[0]).all(axis=1))
    return np.stack(counts, axis=1).astype(float), int(data)


def log_likelihood(counts: np.ndarray, data: int, weights: np.ndarray) -> float:
    return float(counts[data] @ weights) - oracle.log_sum_exp(counts @ weights)


def maximise(counts: np.ndarray, data: int) -> np.ndarray:
    found = minimize(
        lambda w: -log_likelihood(counts, data, w), np.zeros(counts.shape[1]), method="L-BFGS-B"
    )
    weights: np.ndarray = found.x
    return weights


@pytest.mark.parametrize("seed", range(6))
def test_perturbed_counts_lose_no_more_than_the_bound(seed: int) -> None:
    counts, data = all_counts()
    rng = np.random.default_rng(seed)
    errors = rng.uniform(0.05, 1.0, counts.shape[1])
    shift = errors * rng.uniform(-1.0, 1.0, counts.shape)
    # Shifting the data against the rest is the worst that can happen.
    if seed % 2:
        shift = np.full(counts.shape, 1.0) * -errors
        shift[data] = errors
    perturbed = counts + shift
    exact, approximate = maximise(counts, data), maximise(perturbed, data)
    loss = log_likelihood(counts, data, exact) - log_likelihood(counts, data, approximate)
    both = [likelihood_bound(weights, errors).value for weights in (exact, approximate)]
    assert 0.0 <= loss + 1e-9 <= sum(both)
    for weights in (exact, approximate, rng.normal(size=len(errors))):
        off = log_likelihood(counts, data, weights) - log_likelihood(perturbed, data, weights)
        assert abs(off) <= likelihood_bound(weights, errors).value + 1e-9


def test_lemma_is_tight() -> None:
    """All worlds but the data raised, the data lowered: the lemma's value is nearly reached."""
    counts, data = all_counts()
    weights = np.array([0.3, 0.2, 0.1])
    errors = np.full(3, 0.01)
    shift = np.full(counts.shape, 0.01)
    shift[data] = -0.01
    off = log_likelihood(counts, data, weights) - log_likelihood(counts + shift, data, weights)
    share = np.exp(log_likelihood(counts, data, weights))  # the data's own part of Z
    assert off == pytest.approx(likelihood_bound(weights, errors).value * (1 - share), rel=1e-3)


def test_words() -> None:
    bound = likelihood_bound(np.array([1.5, -2.0]), np.array([0.5, 0.0]))
    assert (bound.value, bound.largest_error) == (1.5, 0.5)
    assert "is off by at most 1.5" in bound.words
    assert "other worlds, which were not measured" in bound.words


def test_measured_errors_of_the_data() -> None:
    model = lapis.parse("E(n, n)\nE(x,y) ^ E(y,z) ^ E(z,u) ^ E(u,x)\nE(x,y)\nE(x,+y) ^ E(+y,x)")
    facts = " ".join(f"E({a},{b})" for a in range(5) for b in range(5) if (b - a) % 5 in (1, 2))
    databases = [lapis.Database.parse(facts), lapis.Database.parse("E(0,1) E(1,0)")]
    examples = build_examples(model, databases)
    parameters = share_parameters(model, [example.complete for example in examples])
    exact = measure_errors(examples, parameters, IjgpSettings(4))
    np.testing.assert_array_equal(exact, np.zeros(len(parameters)))
    rough = measure_errors(examples, parameters, IjgpSettings(1))
    assert rough[0] > 0.0
    assert rough[1] == 0.0
