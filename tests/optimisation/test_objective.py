"""Pseudo-gradients and projections against the definition of the penalised function."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from known_objectives import Quadratic
from lapis.optimisation.objective import penalize, pseudo_gradient

NUMBERS = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])


@given(NUMBERS, NUMBERS, st.sampled_from([0.0, 0.5, 1.0]))
def test_pseudo_gradient_is_the_steepest_one_sided_slope(
    w: float, g: float, strength: float
) -> None:
    """Of f(w) − λ|w| with f linear; zero where neither side ascends."""
    tiny = 1e-6

    def slope(sign: int) -> float:
        gain = sign * tiny * g - strength * (abs(w + sign * tiny) - abs(w))
        return gain / tiny

    right, left = slope(1), slope(-1)
    expected = right if right > max(left, 1e-9) else -left if left > 1e-9 else 0.0
    found = pseudo_gradient(np.array([w]), np.array([g]), np.array([strength]))
    assert found[0] == pytest.approx(expected, abs=1e-8)


@given(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=6))
def test_a_projected_step_stays_in_the_closed_orthant(
    rows: list[tuple[float, float, float]],
) -> None:
    weights, peak, proposal = np.array(rows).T
    l1 = np.full(len(rows), 0.5)
    l1[0] = 0.0
    penalized = penalize(Quadratic(np.eye(len(rows)), peak), l1)
    origin = penalized.evaluate(weights)
    reached = penalized.project(origin, proposal)
    assert reached[0] == proposal[0]
    sign = np.where(weights != 0, np.sign(weights), np.sign(origin.gradient))
    assert np.all((reached[1:] == 0) | (np.sign(reached[1:]) == sign[1:]))
    kept = (reached != 0) | (proposal == 0)
    assert np.array_equal(reached[kept], proposal[kept])
    aligned = penalized.align(origin, proposal)
    at_zero = (weights == 0) & (l1 > 0)
    assert np.all(aligned[at_zero] * origin.gradient[at_zero] >= 0)
    assert np.array_equal(aligned[~at_zero], proposal[~at_zero])


def test_without_penalty_and_bounds_steps_are_left_alone() -> None:
    objective = Quadratic(np.eye(2), np.ones(2))
    penalized = penalize(objective)
    point = penalized.evaluate(np.zeros(2))
    own = objective.evaluate(np.zeros(2))
    assert (point.value, point.gradient.tolist()) == (own.value, own.gradient.tolist())
    assert point.smooth is None
    proposal = np.array([3.0, -3.0])
    assert penalized.project(point, proposal) is proposal
    assert penalized.align(point, proposal) is proposal


def test_bounds_take_away_what_presses_against_them() -> None:
    penalized = penalize(
        Quadratic(np.eye(3), np.array([5.0, -5.0, 5.0])),
        None,
        np.array([-1.0, -1.0, -1.0]),
        np.array([1.0, 1.0, 1.0]),
    )
    point = penalized.evaluate(np.array([1.0, -1.0, -1.0]))
    assert point.gradient.tolist() == [0.0, 0.0, 6.0]
    assert penalized.project(point, np.array([9.0, 0.0, -9.0])).tolist() == [1.0, 0.0, -1.0]


def test_the_penalised_value_and_what_is_passed_through() -> None:
    objective = Quadratic(np.diag([2.0, 3.0]), np.ones(2))
    penalized = penalize(objective, np.array([0.5, 0.0]))
    weights = np.array([-2.0, 4.0])
    point, smooth = penalized.evaluate(weights), objective.evaluate(weights)
    assert point.value == smooth.value - 0.5 * 2.0
    assert point.curvature_diagonal().tolist() == [2.0, 3.0]
    assert point.curvature_product(np.array([1.0, 1.0])).tolist() == [2.0, 3.0]
    assert point.gradient_stderr is None
    objective.gradient_only = True
    assert penalized.evaluate(weights).value is None
