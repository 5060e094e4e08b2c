"""Gradient ascent: its steps, averages and rates, from their definitions."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from known_objectives import (
    Logistic,
    PlainPoint,
    Quadratic,
    SampledLogistic,
    maximize,
    random_logistic,
    scaled_curvature,
)
from lapis.optimisation.gradient_ascent import (
    RECENT,
    GradientAscent,
    adapt_sampled_rate,
    find_stable_rate,
    spectral_rate,
)
from lapis.optimisation.maximize import make_optimizer
from lapis.optimisation.objective import penalize


def test_the_answer_is_the_average_of_the_weights_of_all_iterations() -> None:
    objective = Quadratic(np.diag([1.0, 2.0]), np.array([3.0, -1.0]))
    weights, seen = np.zeros(2), []
    for _ in range(6):
        weights = weights + 0.1 * objective.evaluate(weights).gradient
        seen.append(weights)
    trajectory = maximize(objective, make_optimizer("cd", rate=0.1), np.zeros(2), max_iterations=6)
    assert trajectory.weights == pytest.approx(np.mean(seen, axis=0), rel=1e-12)
    assert trajectory.value == pytest.approx(objective.evaluate(np.mean(seen, axis=0)).value)


def test_forgetting_weighs_late_iterations_more() -> None:
    """With ρ = 1, iteration t has the weight t / Σ t."""
    penalized = penalize(Quadratic(np.eye(1), np.ones(1)))
    optimizer = GradientAscent("cd", rate=0.3, forget=1.0)
    state = optimizer.init(penalized, penalized.evaluate(np.zeros(1)))
    seen = []
    for _ in range(5):
        state = optimizer.step(penalized, state)
        seen.append(state.weights[0])
    share = np.arange(1, 6) / 15
    assert state.answer[0] == pytest.approx(share @ seen, rel=1e-12)


def test_rates_per_weight_are_divided_by_true_counts() -> None:
    """η_i = η / n_i, and η where there are no true groundings."""
    objective = Quadratic(np.diag([4.0, 10.0]), np.ones(2))
    penalized = penalize(objective)
    optimizer = GradientAscent("cd-pw", per_weight=True, rate=0.5)
    assert optimizer.scale(penalized).tolist() == [1 / 4, 1 / 10]
    state = optimizer.init(penalized, penalized.evaluate(np.zeros(2)))
    assert optimizer.step(penalized, state).weights == pytest.approx([0.5 / 4 * 4, 0.5 / 10 * 10])
    nothing = penalize(Logistic(np.ones((3, 1)), np.zeros(3)))
    assert optimizer.scale(nothing).tolist() == [1.0]


def test_decay_divides_the_rate() -> None:
    penalized = penalize(Quadratic(np.eye(1), np.ones(1)))
    optimizer = GradientAscent("cd", rate=0.5, decay=1.0)
    state = optimizer.init(penalized, penalized.evaluate(np.zeros(1)))
    state = optimizer.step(penalized, state)
    assert state.weights[0] == 0.5
    state = optimizer.step(penalized, state)
    assert state.weights[0] == pytest.approx(0.5 + 0.5 / 2 * 0.5)


@pytest.mark.parametrize("per_weight", [False, True], ids=["one rate", "per weight"])
def test_the_automatic_rate_is_stable_and_not_timid(per_weight: bool) -> None:
    rng = np.random.default_rng(0)
    objective = Quadratic(scaled_curvature(rng, 30, 1e6), rng.normal(size=30))
    penalized = penalize(objective)
    scale = GradientAscent("cd", per_weight).scale(penalized)
    rate = find_stable_rate(penalized.evaluate(np.zeros(30)), scale, objective.true_counts)
    root = np.sqrt(scale)
    largest = np.linalg.eigvalsh(root[:, None] * objective.curvature * root).max()
    assert rate * largest >= 1.0 - 1e-9
    assert rate * largest < 2.0


def test_the_automatic_rate_without_any_curvature_comes_from_the_counts() -> None:
    flat = PlainPoint(np.zeros(2), None, np.ones(2), np.zeros(2), np.zeros((2, 2)))
    assert find_stable_rate(flat, np.ones(2), np.array([50.0, 3.0])) == 1 / 50
    assert find_stable_rate(flat, np.ones(2), np.zeros(2)) == 1.0


class Stiffening(Quadratic):
    """A quadratic that is a hundred times as stiff beyond the first unit."""

    def evaluate(self, weights: np.ndarray) -> PlainPoint:
        away = self.peak - weights
        near = np.clip(away, -1, 1)
        gradient = near + 100 * (away - near) if not self.gradient_only else away
        value = -float((0.5 * near**2 + (away - near) * (near + 50 * (away - near))).sum())
        return PlainPoint(weights, value, gradient, None, self.curvature)


def test_a_step_ends_above_the_least_of_the_last_ten_values() -> None:
    """The curvature at the start is 1, elsewhere 100: η must decrease automatically."""
    objective = Stiffening(np.eye(1), np.zeros(1))
    trajectory = maximize(objective, make_optimizer("cd"), np.full(1, -5.0), max_iterations=5000)
    assert trajectory.converged
    values = [value for value, _ in itertools.groupby(point.value for point in trajectory.curve)]
    assert all(values[k] >= min(values[max(k - RECENT, 0) : k]) for k in range(1, len(values)))
    assert trajectory.value == max(values)


@pytest.mark.parametrize("per_weight", [False, True], ids=["one rate", "per weight"])
@pytest.mark.parametrize("seed", range(5))
def test_a_spectral_rate_is_the_inverse_of_a_curvature_that_exists(
    per_weight: bool, seed: int
) -> None:
    """Between 1 / the largest and 1 / the least eigenvalue of S^½ H S^½ on a quadratic."""
    rng = np.random.default_rng(seed)
    curvature = scaled_curvature(rng, 6, 1e3)
    scale = rng.uniform(0.1, 10.0, 6) if per_weight else np.ones(6)
    root = np.sqrt(scale)
    least, *_, largest = np.linalg.eigvalsh(root[:, None] * curvature * root)
    step = rng.normal(size=6)
    rate = spectral_rate(step, curvature @ step, scale, 1.0)
    assert 1 / largest <= rate * (1 + 1e-9)
    assert rate <= (1 + 1e-9) / least
    assert spectral_rate(step, -step, scale, 1.0) == 10.0  # upwards: no curvature was met


@pytest.mark.parametrize("name", ["cd", "cd-pw"])
@pytest.mark.parametrize("seed", range(3))
def test_ill_conditioned_likelihoods_are_climbed_to_the_end(name: str, seed: int) -> None:
    """Counts that differ by a thousand: curvatures by a million."""
    rng = np.random.default_rng(seed)
    objective = random_logistic(rng, 200, 6, ridge=1.0)
    scaled = Logistic(objective.features * np.geomspace(1, 30, 6), objective.truth, ridge=1.0)
    trajectory = maximize(scaled, make_optimizer(name), np.zeros(6))
    assert trajectory.converged, trajectory.reason
    best = maximize(scaled, make_optimizer("lbfgs"), np.zeros(6))
    assert trajectory.value == pytest.approx(best.value, abs=1e-8)


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
    """At the first rate, about n/4 steps would lead to −log n."""
    objective = Coins(np.array([[number]]), np.zeros(1), sampled, is_fixed=not sampled)
    state = (optimizer := GradientAscent("cd")).init(
        penalized := penalize(objective), penalized.evaluate(np.zeros(1))
    )
    for _ in range(60):
        state = optimizer.step(penalized, state)
    assert state.weights[0] == pytest.approx(-np.log(number), abs=0.5)


def test_a_given_rate_does_not_grow() -> None:
    penalized = penalize(Coins(np.array([[1e3]]), np.zeros(1)))
    optimizer = GradientAscent("cd", rate=1e-4)
    state = optimizer.init(penalized, penalized.evaluate(np.zeros(1)))
    for _ in range(5):
        state = optimizer.step(penalized, state)
    assert state.rate == 1e-4


@pytest.mark.parametrize(
    ("gradient", "stderr", "rate", "kept"),
    [(-0.3, 0.1, 0.5, False), (-0.3, 0.2, 1.1, True), (0.3, 0.1, 1.1, True), (0.9, 0.1, 2.0, True)],
    ids=["fell", "within the noise", "rose", "fell short"],
)
def test_a_sampled_step_is_judged_by_the_slope_left_beyond_the_noise(
    gradient: float, stderr: float, rate: float, kept: bool
) -> None:
    def point(weight: float, gradient: float) -> PlainPoint:
        none = np.zeros((1, 1))
        return PlainPoint(np.array([weight]), None, np.array([gradient]), np.array([stderr]), none)

    penalized = penalize(Quadratic(np.eye(1), np.zeros(1), gradient_only=True, is_fixed=False))
    before = GradientAscent("cd").init(penalized, point(0.0, 1.0))
    reached = replace(before, point=point(1.0, gradient), iteration=1)
    after = adapt_sampled_rate(penalized, before, reached)
    assert after.rate == pytest.approx(rate * before.rate)
    assert after.weights[0] == (1.0 if kept else 0.0)
    assert after.rejections == (0 if kept else 1)


@pytest.mark.parametrize("name", ["cd", "cd-pw"])
@pytest.mark.parametrize("seed", range(3))
def test_stiff_directions_do_not_grow_unseen(name: str, seed: int) -> None:
    """Noise is largest where the curvature is; a rate too large for it is found out.

    One rate for all weights is slow here and does not arrive, which it must say.
    """
    rng = np.random.default_rng(seed)
    objective = random_logistic(rng, 300, 6, ridge=1.0)
    scaled = Logistic(objective.features * np.geomspace(1, 30, 6), objective.truth, ridge=1.0)
    best = maximize(scaled, make_optimizer("lbfgs"), np.zeros(6)).value
    sampled = SampledLogistic(scaled, seed=seed)
    trajectory = maximize(sampled, make_optimizer(name), np.zeros(6))
    assert trajectory.converged == (name == "cd-pw")
    value = scaled.evaluate(trajectory.weights).value
    if trajectory.converged:
        assert best - value < 6 / 2
    else:
        again = SampledLogistic(scaled, seed=seed)
        early = maximize(again, make_optimizer(name), np.zeros(6), max_iterations=100)
        assert value > scaled.evaluate(early.weights).value


def test_an_averaged_weight_is_zero_if_it_was_zero_half_of_the_time() -> None:
    exact = random_logistic(np.random.default_rng(8), 80, 8, ridge=0.5)
    exact_zeros = maximize(exact, make_optimizer("lbfgs"), np.zeros(8), l1=np.full(8, 12.0)).weights
    assert 3 <= (exact_zeros == 0).sum() <= 7
    trajectory = maximize(
        SampledLogistic(exact), make_optimizer("cd"), np.zeros(8), l1=np.full(8, 12.0),
        max_iterations=400,
    )  # fmt: skip
    assert (trajectory.weights == 0).sum() >= 2
    assert np.abs(trajectory.weights - exact_zeros).max() < 0.25
