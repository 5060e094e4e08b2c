"""Gradient ascent: its steps, averages and rates, from their definitions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from objectives import (
    Logistic,
    PlainPoint,
    Quadratic,
    SampledLogistic,
    random_logistic,
    scaled_curvature,
)

from lapis.optimisation.climb import climb, make_optimizer
from lapis.optimisation.gradient_ascent import GradientAscent, overshoots, stable_rate
from lapis.optimisation.orthant import Terrain


def test_the_answer_is_the_average_of_the_weights_of_all_iterations() -> None:
    objective = Quadratic(np.diag([1.0, 2.0]), np.array([3.0, -1.0]))
    weights, seen = np.zeros(2), []
    for _ in range(6):
        weights = weights + 0.1 * objective.evaluate(weights).gradient
        seen.append(weights)
    course = climb(objective, make_optimizer("cd", rate=0.1), np.zeros(2), max_iterations=6)
    assert course.weights == pytest.approx(np.mean(seen, axis=0), rel=1e-12)
    assert course.value == pytest.approx(objective.evaluate(np.mean(seen, axis=0)).value)


def test_forgetting_weighs_late_iterations_more() -> None:
    """With ρ = 1, iteration t counts t: weights t / Σ t."""
    terrain = Terrain(Quadratic(np.eye(1), np.ones(1)))
    optimizer = GradientAscent("cd", rate=0.3, forget=1.0)
    state = optimizer.init(terrain, terrain.evaluate(np.zeros(1)))
    seen = []
    for _ in range(5):
        state = optimizer.step(terrain, state)
        seen.append(state.weights[0])
    share = np.arange(1, 6) / 15
    assert state.answer[0] == pytest.approx(share @ seen, rel=1e-12)


def test_rates_per_weight_are_divided_by_true_counts() -> None:
    """η_i = η / n_i, and η where there are no true groundings."""
    objective = Quadratic(np.diag([4.0, 10.0]), np.ones(2))
    terrain = Terrain(objective)
    optimizer = GradientAscent("cd-pw", per_weight=True, rate=0.5)
    assert optimizer.scale(terrain).tolist() == [1 / 4, 1 / 10]
    state = optimizer.init(terrain, terrain.evaluate(np.zeros(2)))
    assert optimizer.step(terrain, state).weights == pytest.approx([0.5 / 4 * 4, 0.5 / 10 * 10])
    nothing = Terrain(Logistic(np.ones((3, 1)), np.zeros(3)))
    assert optimizer.scale(nothing).tolist() == [1.0]


def test_decay_divides_the_rate() -> None:
    terrain = Terrain(Quadratic(np.eye(1), np.ones(1)))
    optimizer = GradientAscent("cd", rate=0.5, decay=1.0)
    state = optimizer.init(terrain, terrain.evaluate(np.zeros(1)))
    state = optimizer.step(terrain, state)
    assert state.weights[0] == 0.5
    state = optimizer.step(terrain, state)
    assert state.weights[0] == pytest.approx(0.5 + 0.5 / 2 * 0.5)


@pytest.mark.parametrize("per_weight", [False, True], ids=["one rate", "per weight"])
def test_the_automatic_rate_is_stable_and_not_timid(per_weight: bool) -> None:
    rng = np.random.default_rng(0)
    objective = Quadratic(scaled_curvature(rng, 30, 1e6), rng.normal(size=30))
    terrain = Terrain(objective)
    scale = GradientAscent("cd", per_weight).scale(terrain)
    rate = stable_rate(terrain.evaluate(np.zeros(30)), scale, objective.true_counts)
    root = np.sqrt(scale)
    largest = np.linalg.eigvalsh(root[:, None] * objective.curvature * root).max()
    assert rate * largest >= 1.0 - 1e-9
    assert rate * largest < 2.0


def test_the_automatic_rate_without_any_curvature_comes_from_the_counts() -> None:
    flat = PlainPoint(np.zeros(2), None, np.ones(2), np.zeros(2), np.zeros((2, 2)))
    assert stable_rate(flat, np.ones(2), np.array([50.0, 3.0])) == 1 / 50
    assert stable_rate(flat, np.ones(2), np.zeros(2)) == 1.0


class Stiffening(Quadratic):
    """A quadratic that is a hundred times as stiff beyond the first unit."""

    def evaluate(self, weights: np.ndarray) -> PlainPoint:
        away = self.peak - weights
        near = np.clip(away, -1, 1)
        gradient = near + 100 * (away - near) if not self.gradient_only else away
        value = -float((0.5 * near**2 + (away - near) * (near + 50 * (away - near))).sum())
        return PlainPoint(weights, value, gradient, None, self.curvature)


def test_an_automatic_rate_is_halved_when_the_value_falls() -> None:
    """From a start whose curvature says 1 while it is 100: η must come down by itself."""
    objective = Stiffening(np.eye(1), np.zeros(1))
    course = climb(objective, make_optimizer("cd"), np.full(1, -5.0), max_iterations=5000)
    values = [point.value for point in course.curve]
    assert course.converged
    assert all(later >= earlier for earlier, later in itertools.pairwise(values))


class Coins(Quadratic):
    """n coins that are nearly always 0: a curvature of n/4 at weight 0, of 1 at the maximum."""

    def evaluate(self, weights: np.ndarray) -> PlainPoint:
        number = self.curvature[0, 0]
        p = 1 / (1 + np.exp(-weights))
        stderr = np.sqrt(number * p * (1 - p) / 5)
        curvature = np.diag(number * p * (1 - p))
        if self.gradient_only:
            return PlainPoint(weights, None, 1 - number * p, stderr, curvature)
        value = float(weights[0] - number * np.logaddexp(0, weights[0]))
        return PlainPoint(weights, value, 1 - number * p, None, curvature)


@pytest.mark.parametrize("sampled", [False, True], ids=["exact", "sampled"])
@pytest.mark.parametrize("number", [1e3, 1e6])
def test_an_automatic_rate_grows_as_the_curvature_falls(number: float, sampled: bool) -> None:
    """At the rate of the start, the way to −log n takes about n/4 steps."""
    objective = Coins(np.array([[number]]), np.zeros(1), sampled, is_fixed=not sampled)
    state = (optimizer := GradientAscent("cd")).init(
        terrain := Terrain(objective), terrain.evaluate(np.zeros(1))
    )
    for _ in range(60):
        state = optimizer.step(terrain, state)
    assert state.weights[0] == pytest.approx(-np.log(number), abs=0.5)


def test_a_given_rate_does_not_grow() -> None:
    terrain = Terrain(Coins(np.array([[1e3]]), np.zeros(1)))
    optimizer = GradientAscent("cd", rate=1e-4)
    state = optimizer.init(terrain, terrain.evaluate(np.zeros(1)))
    for _ in range(5):
        state = optimizer.step(terrain, state)
    assert state.rate == 1e-4


def test_sampled_overshooting_is_judged_beyond_the_noise() -> None:
    def point(weight: float, gradient: float, stderr: float) -> PlainPoint:
        return PlainPoint(
            np.array([weight]), None, np.array([gradient]), np.array([stderr]), np.eye(1)
        )

    origin = point(0.0, 1.0, 0.1)
    assert overshoots(origin, point(1.0, -1.5, 0.1))
    assert not overshoots(origin, point(1.0, -0.9, 0.1))
    assert not overshoots(origin, point(1.0, -1.5, 0.3))


def test_an_averaged_weight_is_zero_if_it_was_zero_half_of_the_time() -> None:
    exact = random_logistic(np.random.default_rng(8), 80, 8, ridge=0.5)
    exact_zeros = climb(exact, make_optimizer("lbfgs"), np.zeros(8), l1=np.full(8, 12.0)).weights
    assert 3 <= (exact_zeros == 0).sum() <= 7
    course = climb(
        SampledLogistic(exact), make_optimizer("cd"), np.zeros(8), l1=np.full(8, 12.0),
        max_iterations=400,
    )  # fmt: skip
    assert (course.weights == 0).sum() >= 2
    assert np.abs(course.weights - exact_zeros).max() < 0.25
