"""Diagonal Newton: its direction, and sampled variances of zero."""

from __future__ import annotations

import numpy as np
import pytest

from known_objectives import (
    Logistic,
    PlainPoint,
    Quadratic,
    SampledLogistic,
    maximize,
    random_logistic,
)
from lapis.optimisation.diagonal_newton import (
    MAX_STEP,
    DiagonalNewton,
    estimate_variance,
    scale_by_variance,
)
from lapis.optimisation.maximize import make_optimizer
from lapis.optimisation.objective import penalize


def test_uncorrelated_counts_are_solved_in_one_step_but_for_the_damping() -> None:
    """d = H⁻¹ g leads to the peak, with dᵀg = dᵀHd = 18 and dᵀd = 30: α = 18/(18 + 30 λ)."""
    objective = Quadratic(np.diag([0.4, 1.0, 4.0]), np.array([5.0, -2.0, 1.0]))
    penalized = penalize(objective)
    for damping in (1.0, 1e-3):
        optimizer = DiagonalNewton(damping)
        state = optimizer.step(
            penalized, optimizer.init(penalized, penalized.evaluate(np.zeros(3)))
        )
        assert state.weights == pytest.approx(18 / (18 + 30 * damping) * objective.peak)
        assert state.damping == damping / 2


def test_exact_variances_are_taken_as_they_are_and_zero_ones_floored() -> None:
    penalized = penalize(Quadratic(np.diag([4.0, 0.0, 1e6]), np.zeros(3)))
    point = penalized.evaluate(np.ones(3))
    variance = estimate_variance(penalized, point, np.full(3, 99.0), 5)
    assert variance.tolist() == [4.0, 1e-6, 1e6]
    nothing = penalize(Quadratic(np.zeros((2, 2)), np.zeros(2)))
    assert estimate_variance(nothing, nothing.evaluate(np.ones(2)), None, 0).tolist() == [1.0, 1.0]


def test_a_sampled_variance_of_zero_is_averaged_away_from_zero() -> None:
    """The average starts at the true counts and discounts them within about ten iterations."""
    exact = Logistic(np.diag([30.0, 1.0]), np.ones(2))
    penalized = penalize(SampledLogistic(exact))
    silent = PlainPoint(np.zeros(2), None, np.ones(2), np.zeros(2), np.zeros((2, 2)))
    variance = estimate_variance(penalized, silent, None, 0)
    assert variance.tolist() == [15.0, 0.5]
    for iteration in range(1, 200):
        variance = estimate_variance(penalized, silent, variance, iteration)
        assert np.all(variance > 0)
    assert variance[0] < 1e-6
    assert scale_by_variance(silent, variance).tolist() == [MAX_STEP, MAX_STEP]


def test_rare_counts_that_samples_miss_do_not_leap() -> None:
    """With rare features and five samples, no weight diverges and the others are learned."""
    rng = np.random.default_rng(0)
    features = np.column_stack([np.ones(200), rng.random((200, 60)) < 0.01]).astype(float)
    truth = (rng.random(200) < 0.2).astype(float)
    exact = Logistic(features, truth, ridge=0.05)
    for name in ("dn", "pscg"):
        trajectory = maximize(SampledLogistic(exact), make_optimizer(name), np.zeros(61))
        assert np.abs(trajectory.weights).max() < 10
        assert exact.evaluate(trajectory.weights).value > exact.evaluate(np.zeros(61)).value + 20


def test_sampled_climbs_return_an_average_and_exact_ones_do_not() -> None:
    exact = random_logistic(np.random.default_rng(0), 50, 3, ridge=1.0)
    optimizer = DiagonalNewton()
    for objective, averaged in ((exact, False), (SampledLogistic(exact), True)):
        penalized = penalize(objective)
        state = optimizer.init(penalized, penalized.evaluate(np.zeros(3)))
        for _ in range(8):
            state = optimizer.step(penalized, state)
        assert np.array_equal(state.answer, state.weights) is not averaged
