"""The trust region against traces worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from known_objectives import PlainPoint, Quadratic, SampledLogistic, random_logistic
from lapis.optimisation.objective import penalize
from lapis.optimisation.trust_region import (
    expected_noise_gain,
    find_gain,
    gain_stderr,
    resample_rejected,
    try_step,
)

ONE = np.ones(1)


class Scripted:
    """Answers with a value and a gradient prepared for each call, in one dimension."""

    name = "scripted"
    is_exact = True
    is_fixed = True
    num_parameters = 1
    true_counts = ONE

    def __init__(self, *replies: tuple[float | None, float], curvature: float) -> None:
        self.replies = list(replies)
        self.curvature = np.array([[curvature]])

    def evaluate(self, weights: np.ndarray) -> PlainPoint:
        value, gradient = self.replies.pop(0)
        return PlainPoint(weights, value, np.array([gradient]), None, self.curvature)


def test_steps_trusted_doubted_kept_and_rejected() -> None:
    """w = 0, g = 6, H = 2, λ = 1: α = 36/(72 + 36) = 1/3 along d = 6, a step of 2.

    Δpred = 2·6 − ½·2·2² = 8. The function's gains are chosen on either side of 6 and 2.
    """
    for gain, accepted, damping in [
        (6.1, True, 0.5),
        (5.9, True, 1.0),
        (2.1, True, 1.0),
        (1.9, True, 4.0),
        (0.0, True, 4.0),
        (-0.1, False, 4.0),
        (np.nan, False, 4.0),
    ]:
        penalized = penalize(Scripted((1.0, 6.0), (1.0 + gain, 5.0), curvature=2.0))
        origin = penalized.evaluate(np.zeros(1))
        trial = try_step(penalized, origin, origin.gradient, ONE, 1.0, 0)
        assert (trial.accepted, trial.damping) == (accepted, damping), gain
        assert trial.point.weights[0] == pytest.approx(2.0 if accepted else 0.0)


def test_without_values_the_new_slope_bounds_the_gain() -> None:
    """The same step of 2: Δactual = 2 g_new, so g_new = 3 and 1 are the thresholds."""
    for slope, accepted, damping in [
        (3.05, True, 0.5),
        (2.95, True, 1.0),
        (1.05, True, 1.0),
        (0.95, True, 4.0),
        (-0.05, False, 4.0),
    ]:
        penalized = penalize(Scripted((None, 6.0), (None, slope), curvature=2.0))
        origin = penalized.evaluate(np.zeros(1))
        trial = try_step(penalized, origin, origin.gradient, ONE, 1.0, 0)
        assert (trial.accepted, trial.damping) == (accepted, damping), slope


def test_a_rejected_step_is_redone_with_four_times_the_damping() -> None:
    """Steps 36/(72 + 36λ)·6 for λ = 1, 4, 16: 2, then 1, then 1/3, which is taken."""
    penalized = penalize(
        Scripted((0.0, 6.0), (-1.0, -9.0), (-0.5, -9.0), (1.0, 5.0), curvature=2.0)
    )
    point, damping = penalized.evaluate(np.zeros(1)), 1.0
    tried = []
    for _ in range(3):
        trial = try_step(penalized, point, point.gradient, ONE, damping, 0)
        tried.append((trial.accepted, trial.damping))
        point, damping = trial.point, trial.damping
    assert tried == [(False, 4.0), (False, 16.0), (True, 16.0)]  # 1/(2 − 1/9) is between
    assert point.weights[0] == pytest.approx(1 / 3)


def test_a_negligible_damping_matters_again_after_one_rejection() -> None:
    penalized = penalize(Scripted((0.0, 6.0), (-1.0, -9.0), curvature=2.0))
    origin = penalized.evaluate(np.zeros(1))
    trial = try_step(penalized, origin, origin.gradient, ONE, 1e-20, 0)
    assert trial.damping == 2.0 / 4


def test_a_direction_that_does_not_ascend_costs_no_evaluation() -> None:
    objective = Quadratic(np.eye(2), np.ones(2))
    penalized = penalize(objective)
    origin = penalized.evaluate(np.zeros(2))
    trial = try_step(penalized, origin, -origin.gradient, np.ones(2), 1.0, 0)
    assert not trial.accepted
    assert objective.evaluations == 1


def test_gains_below_rounding_are_read_off_the_gradients() -> None:
    origin = PlainPoint(np.zeros(1), 1e6, np.array([2e-5]), None, np.eye(1))
    reached = PlainPoint(np.full(1, 1e-5), 1e6 - 1e-10, np.array([1e-5]), None, np.eye(1))
    gain = find_gain(origin, reached)
    assert gain == pytest.approx(1.5e-10)


def test_sampled_curvature_of_zero_does_not_make_an_endless_step() -> None:
    flat = PlainPoint(np.zeros(2), None, np.array([1.0, 2.0]), np.ones(2), np.zeros((2, 2)))
    penalized = penalize(Quadratic(np.eye(2), np.ones(2), gradient_only=True))
    trial = try_step(penalized, flat, flat.gradient, np.full(2, 4.0), 1e-30, 0)
    # α = dᵀg / (0.1 dᵀMd) = 2.5: a step that overshoots and is rejected for sure.
    assert not trial.accepted
    assert trial.damping == pytest.approx(0.1 * 4 / 4)


def test_damping_of_sampled_steps_is_bounded_by_the_pace_of_averaging() -> None:
    """At iteration 20 a step is at least a quarter of its length at λ = 0."""
    noisy = PlainPoint(np.zeros(1), None, np.array([8.0]), np.ones(1), np.array([[2.0]]))
    penalized = penalize(Quadratic(np.array([[2.0]]), np.array([4.0]), gradient_only=True))
    trial = try_step(penalized, noisy, noisy.gradient, ONE, 1e12, 20)
    assert trial.point.weights[0] == pytest.approx(4.0 / (2 + 20 / 10))


def test_standard_error_of_a_sampled_gain() -> None:
    """Var(sᵀ mean of S counts) = sᵀHs / S, in the mean over many gradients of one point."""
    exact = random_logistic(np.random.default_rng(1), 200, 4, ridge=0.0)
    sampled = SampledLogistic(exact, num_samples=5, seed=2)
    weights, step = np.full(4, 0.2), np.array([0.1, -0.2, 0.05, 0.1])
    points = [sampled.evaluate(weights) for _ in range(4000)]
    spread = np.std([step @ point.gradient for point in points])
    estimates = [gain_stderr(p, float(step @ p.curvature_product(step))) ** 2 for p in points]
    assert np.sqrt(np.mean(estimates)) == pytest.approx(spread, rel=0.15)


def test_optimism_is_what_noise_adds_to_the_slope_along_the_gradient() -> None:
    exact = random_logistic(np.random.default_rng(1), 200, 4, ridge=0.0)
    sampled = SampledLogistic(exact, num_samples=5, seed=3)
    weights, metric = np.full(4, 0.2), np.array([10.0, 20.0, 30.0, 40.0])
    truth = exact.evaluate(weights).gradient
    points = [sampled.evaluate(weights) for _ in range(4000)]
    seen = np.mean([p.gradient @ (p.gradient / metric) for p in points])
    assert np.mean([expected_noise_gain(p, metric, 1.0) for p in points]) == pytest.approx(
        seen - truth @ (truth / metric), rel=0.1
    )


def test_optimism_of_a_whole_metric() -> None:
    """α tr(M⁻¹ N): with M and N in proportion it is α P times their ratio."""
    matrix = np.array([[4.0, 1.0], [1.0, 9.0]])
    point = PlainPoint(np.zeros(2), None, np.ones(2), np.sqrt(np.diag(matrix) / 5), matrix)
    assert expected_noise_gain(point, matrix, 0.5) == pytest.approx(0.5 * 2 / 5)
    diagonal = np.diag([4.0, 9.0])
    assert expected_noise_gain(point, diagonal, 0.5) == pytest.approx(
        expected_noise_gain(point, np.diag(diagonal), 0.5)
    )


def test_an_unlucky_sampled_point_is_sampled_anew() -> None:
    exact = random_logistic(np.random.default_rng(1), 50, 2, ridge=0.0)
    penalized = penalize(SampledLogistic(exact))
    point = penalized.evaluate(np.zeros(2))
    assert resample_rejected(penalized, point, 1) == (point, 1)
    fresh, rejections = resample_rejected(penalized, point, 2)
    assert rejections == 0
    assert fresh is not point
    assert np.array_equal(fresh.weights, point.weights)
    exact_penalized = penalize(exact)
    settled = exact_penalized.evaluate(np.zeros(2))
    assert resample_rejected(exact_penalized, settled, 50) == (settled, 50)
