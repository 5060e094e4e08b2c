"""L-BFGS-B: the split for L1 penalties, and Newton steps below the precision of values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from known_objectives import (
    Logistic,
    PlainPoint,
    Quadratic,
    maximize,
    newton_maximum,
    random_curvature,
    random_logistic,
)
from lapis.errors import LapisError
from lapis.optimisation.lbfgs import Lbfgs, refine_by_newton, solve_newton_step, split_weights
from lapis.optimisation.objective import penalize


@given(st.lists(st.floats(-3, 3), min_size=3, max_size=3), st.floats(0.1, 10))
def test_split_and_join_are_inverse_and_the_penalty_is_that_of_w(
    values: list[float], scale: float
) -> None:
    weights, l1 = np.array(values), np.array([0.5, 0.0, 2.0])
    penalized = penalize(Quadratic(np.eye(3), np.zeros(3)), l1)
    split = split_weights(penalized, np.array([1.0, scale, scale]))
    x = split.divide(weights)
    assert split.join(x) == pytest.approx(weights, abs=1e-15)
    assert split.penalty(x) == pytest.approx(float(l1 @ np.abs(weights)), abs=1e-12)
    lower, upper = split.bounds(penalized)
    assert np.all((lower <= x) & (x <= upper))


def test_the_split_gradient_is_the_difference_quotient() -> None:
    objective = random_logistic(np.random.default_rng(0), 30, 3, ridge=0.1)
    l1 = np.array([0.5, 0.0, 2.0])
    split = split_weights(penalize(objective, l1), np.array([1.0, 3.0, 0.2]))

    def value(x: np.ndarray) -> float:
        return objective.evaluate(split.join(x)).value - split.penalty(x)

    x = np.array([0.3, -0.2, 0.4, 0.1, 0.7])
    found = split.gradient(objective.evaluate(split.join(x)).gradient)
    quotient = [(value(x + e) - value(x - e)) / 2e-6 for e in 1e-6 * np.eye(5)]
    assert found == pytest.approx(quotient, abs=1e-6)


def test_condition_a_million_in_directions_no_diagonal_shows() -> None:
    rng = np.random.default_rng(7)
    objective = Quadratic(random_curvature(rng, 40, 1e6), rng.normal(size=40))
    trajectory = maximize(objective, Lbfgs(), np.zeros(40), max_iterations=3000)
    assert trajectory.converged
    assert np.abs(trajectory.weights - objective.peak).max() < 1e-3  # 1e-6 / the least eigenvalue


class Large(Logistic):
    """Values in the billions, so that those near the maximum differ by rounding only."""

    def evaluate(self, weights: np.ndarray) -> PlainPoint:
        point = super().evaluate(weights)
        return PlainPoint(weights, point.value - 1e9, point.gradient, None, point.curvature)


@pytest.mark.parametrize("penalised", [False, True], ids=["smooth", "l1"])
def test_the_gradient_becomes_small_where_values_are_rounded(penalised: bool) -> None:
    base = random_logistic(np.random.default_rng(2), 100, 6, ridge=0.5)
    l1 = np.full(6, 5.0) if penalised else None
    trajectory = maximize(Large(base.features, base.truth, 0.5), Lbfgs(), np.zeros(6), l1=l1)
    plain = maximize(base, Lbfgs(), np.zeros(6), l1=l1)
    assert trajectory.converged
    assert trajectory.gradient_norm <= 1e-6
    assert np.abs(trajectory.weights - plain.weights).max() < 1e-6
    assert np.array_equal(trajectory.weights == 0, plain.weights == 0)


def test_newton_steps_solve_for_the_free_weights_alone() -> None:
    curvature = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]])
    penalized = penalize(Quadratic(curvature, np.array([1.0, 2.0, -9.0])), None, np.full(3, -1.0))
    point = penalized.evaluate(np.array([0.0, 0.0, -1.0]))
    free = penalized.movable(point)
    assert free.tolist() == [True, True, False]
    step = solve_newton_step(point, free, 0.0)
    assert step[2] == 0
    assert curvature[:2, :2] @ step[:2] == pytest.approx(point.gradient[:2], rel=1e-7)
    done = refine_by_newton(penalized, point, 1e-9, lambda _: None)
    assert np.abs(done.gradient).max() <= 1e-9


def test_a_start_out_of_bounds_is_moved_within() -> None:
    objective = random_logistic(np.random.default_rng(0), 30, 2, ridge=0.1)
    trajectory = maximize(
        objective, Lbfgs(), np.full(2, 9.0), lower=np.full(2, -1.0), upper=np.ones(2)
    )
    best = newton_maximum(objective)
    assert np.all(np.abs(trajectory.weights) <= 1)
    inside = np.abs(best) < 1
    assert inside.any() or np.abs(trajectory.weights).max() == 1


def test_a_separable_weight_without_prior_stops_at_its_bound() -> None:
    objective = Logistic(np.ones((5, 1)), np.ones(5))
    trajectory = maximize(
        objective, Lbfgs(), np.zeros(1), lower=np.full(1, -9.0), upper=np.full(1, 9.0)
    )
    assert trajectory.converged
    assert trajectory.weights.tolist() == [9.0]


class Broken(Quadratic):
    def evaluate(self, weights: np.ndarray) -> PlainPoint:
        point = super().evaluate(weights)
        value = point.value if not weights.any() else np.nan
        return PlainPoint(weights, value, point.gradient, None, self.curvature)


def test_a_value_that_is_no_number_is_an_error() -> None:
    with pytest.raises(LapisError) as caught:
        maximize(Broken(np.eye(2), np.ones(2)), Lbfgs(), np.zeros(2))
    assert caught.value.code == "diverged"


class FlatPoint:
    """A slope without curvature."""

    gradient = np.array([1.0, -2.0])

    def curvature_product(self, direction: np.ndarray) -> np.ndarray:
        return np.zeros(len(direction))


def test_no_newton_step_where_there_is_no_curvature() -> None:
    """Warnings are errors: a division by zero would fail."""
    step = solve_newton_step(FlatPoint(), np.ones(2, bool), 0.0)  # type: ignore[arg-type]
    assert step.tolist() == [0.0, 0.0]
