"""Newton's method: few steps, singular curvatures, bounds, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from objectives import Logistic, Quadratic, random_logistic

from lapis.errors import LapisError
from lapis.optimisation.climb import climb, make_optimizer
from lapis.optimisation.newton import Newton


def test_a_quadratic_takes_one_step() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 6)) * np.array([1, 1e-3, 1, 1e3, 1, 1])[:, None]
    objective = Quadratic(root @ root.T, rng.normal(size=6))
    course = climb(objective, Newton(), np.zeros(6), tolerance=1e-6)
    assert course.converged
    assert course.iterations <= 3  # the first, and what rounding leaves of it
    assert course.weights == pytest.approx(objective.peak, rel=1e-4)


def test_a_start_far_off_is_no_obstacle() -> None:
    logistic = random_logistic(np.random.default_rng(2), 200, 8, ridge=0.1)
    near = climb(logistic, Newton(), np.zeros(8))
    with np.errstate(over="ignore"):  # where the curvature is flat the first step is very long
        far = climb(logistic, Newton(), np.full(8, 2.0))
    assert near.converged
    assert far.converged
    assert far.weights == pytest.approx(near.weights, abs=1e-5)
    lbfgs = climb(logistic, make_optimizer("lbfgs"), np.zeros(8))
    assert near.weights == pytest.approx(lbfgs.weights, abs=1e-5)


def test_formulas_that_cannot_be_told_apart() -> None:
    single = random_logistic(np.random.default_rng(3), 100, 2, ridge=0.0)
    doubled = np.column_stack([single.features, single.features[:, 0]])
    objective = Logistic(doubled, single.truth)
    course = climb(objective, Newton(), np.zeros(3))
    assert course.converged
    alone = climb(single, Newton(), np.zeros(2))
    assert course.weights[0] + course.weights[2] == pytest.approx(alone.weights[0], abs=1e-4)


def test_bounds_are_kept() -> None:
    objective = Quadratic(np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([4.0, -2.0]))
    course = climb(objective, Newton(), np.zeros(2), upper=np.array([1.0, 9.0]))
    assert course.converged
    # With the first weight at its bound, the second's gradient 1·(4 − 1) + 2·(−2 − w) is zero.
    assert course.weights == pytest.approx([1.0, -0.5], abs=1e-6)


def test_sampled_objectives_are_refused() -> None:
    objective = Quadratic(np.eye(2), np.ones(2), is_fixed=False)
    with pytest.raises(LapisError, match="newton needs exact values"):
        climb(objective, Newton(), np.zeros(2))
