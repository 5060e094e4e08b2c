"""Conjugate gradients: conjugate directions, restarts, and the effect of the preconditioner."""

from __future__ import annotations

import numpy as np
import pytest

from known_objectives import (
    Quadratic,
    maximize,
    random_curvature,
    random_logistic,
    scaled_curvature,
)
from lapis.optimisation.conjugate_gradient import ConjugateGradient
from lapis.optimisation.maximize import make_optimizer
from lapis.optimisation.objective import penalize


@pytest.mark.parametrize("preconditioned", [False, True], ids=["scg", "pscg"])
def test_without_damping_directions_are_conjugate_and_p_steps_suffice(preconditioned: bool) -> None:
    rng = np.random.default_rng(1)
    curvature = random_curvature(rng, 6, 100.0)
    penalized = penalize(Quadratic(curvature, rng.normal(size=6)))
    optimizer = ConjugateGradient(preconditioned, damping=0.0)
    state = optimizer.init(penalized, penalized.evaluate(np.zeros(6)))
    directions = []
    for _ in range(6):
        directions.append(state.direction)
        state = optimizer.step(penalized, state)
    assert np.abs(state.point.gradient).max() < 1e-8
    product = np.array(directions) @ curvature @ np.array(directions).T
    scale = np.sqrt(np.diag(product))
    assert np.abs(product / scale[:, None] / scale - np.eye(6)).max() < 1e-7


def test_condition_a_million_in_directions_no_diagonal_shows() -> None:
    rng = np.random.default_rng(7)
    objective = Quadratic(random_curvature(rng, 40, 1e6), rng.normal(size=40))
    for name in ("scg", "pscg"):
        trajectory = maximize(objective, make_optimizer(name), np.zeros(40), max_iterations=3000)
        assert trajectory.converged, name
        assert (
            np.abs(trajectory.weights - objective.peak).max() < 1e-3
        )  # 1e-6 / the least eigenvalue


def test_the_preconditioner_makes_ill_scaled_counts_easy() -> None:
    rng = np.random.default_rng(2)
    objective = Quadratic(scaled_curvature(rng, 40, 1e6), rng.normal(size=40))
    plain = maximize(objective, make_optimizer("scg"), np.zeros(40), max_iterations=80)
    preconditioned = maximize(objective, make_optimizer("pscg"), np.zeros(40), max_iterations=80)
    assert preconditioned.converged
    assert not plain.converged
    assert plain.gradient_norm > 1e6 * preconditioned.gradient_norm


def test_a_rejected_step_is_redone_along_the_same_direction() -> None:
    objective = random_logistic(np.random.default_rng(3), 40, 4, ridge=0.01, spread=30.0)
    penalized = penalize(objective)
    optimizer = ConjugateGradient(damping=0.0)
    state = optimizer.init(penalized, penalized.evaluate(np.full(4, 3.0)))
    rejections = 0
    while np.abs(state.point.gradient).max() > 1e-3:
        after = optimizer.step(penalized, state)
        if np.array_equal(after.weights, state.weights):
            rejections += 1
            assert np.array_equal(after.direction, state.direction)
            assert after.damping > state.damping
            assert after.rejections == state.rejections + 1
        else:
            assert after.point.value > state.point.value
            assert after.rejections == 0
        state = after
    assert 0 < rejections < state.iteration
