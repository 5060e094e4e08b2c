"""Newton's method: few steps, singular curvatures, bounds, and errors."""

from __future__ import annotations

import numpy as np
import pytest

from known_objectives import Logistic, Quadratic, maximize, random_logistic
from lapis.errors import LapisError
from lapis.optimisation.maximize import make_optimizer
from lapis.optimisation.newton import Newton


def test_a_quadratic_takes_one_step() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 6)) * np.array([1, 1e-3, 1, 1e3, 1, 1])[:, None]
    objective = Quadratic(root @ root.T, rng.normal(size=6))
    trajectory = maximize(objective, Newton(), np.zeros(6), tolerance=1e-6)
    assert trajectory.converged
    assert trajectory.iterations <= 3  # the first, and what rounding leaves of it
    assert trajectory.weights == pytest.approx(objective.peak, rel=1e-4)


def test_a_start_far_off_is_no_obstacle() -> None:
    logistic = random_logistic(np.random.default_rng(2), 200, 8, ridge=0.1)
    near = maximize(logistic, Newton(), np.zeros(8))
    with np.errstate(over="ignore"):  # where the curvature is flat the first step is very long
        far = maximize(logistic, Newton(), np.full(8, 2.0))
    assert near.converged
    assert far.converged
    assert far.weights == pytest.approx(near.weights, abs=1e-5)
    lbfgs = maximize(logistic, make_optimizer("lbfgs"), np.zeros(8))
    assert near.weights == pytest.approx(lbfgs.weights, abs=1e-5)


def test_formulas_that_cannot_be_told_apart() -> None:
    single = random_logistic(np.random.default_rng(3), 100, 2, ridge=0.0)
    doubled = np.column_stack([single.features, single.features[:, 0]])
    objective = Logistic(doubled, single.truth)
    trajectory = maximize(objective, Newton(), np.zeros(3))
    assert trajectory.converged
    alone = maximize(single, Newton(), np.zeros(2))
    assert trajectory.weights[0] + trajectory.weights[2] == pytest.approx(
        alone.weights[0], abs=1e-4
    )


def test_bounds_are_kept() -> None:
    objective = Quadratic(np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([4.0, -2.0]))
    trajectory = maximize(objective, Newton(), np.zeros(2), upper=np.array([1.0, 9.0]))
    assert trajectory.converged
    # With the first weight at its bound, the second's gradient 1·(4 − 1) + 2·(−2 − w) is zero.
    assert trajectory.weights == pytest.approx([1.0, -0.5], abs=1e-6)


def test_sampled_objectives_are_refused() -> None:
    objective = Quadratic(np.eye(2), np.ones(2), is_fixed=False)
    with pytest.raises(LapisError, match="newton needs exact values"):
        maximize(objective, Newton(), np.zeros(2))
