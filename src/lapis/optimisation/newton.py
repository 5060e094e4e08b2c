"""Newton's method with the whole curvature, for a handful of weights.

    s = (H + μ D)⁻¹ g,   w += s, s/2, s/4, … the first that goes up

D is the diagonal of H and μ so small that it matters only where H is singular (formulas that the
data cannot tell apart). A concave objective is maximised from anywhere, in about ten evaluations of
the value and the curvature; forming H costs a product for each weight, which is cheap where the
atoms stand in classes and dear where inference is behind it. L-BFGS would need twice as many
evaluations, and half a second before the first of them: loading scipy's optimisers takes longer
than learning friends and smokers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lapis.optimisation.history import max_norm
from lapis.optimisation.objective import PenalizedObjective, Point

MAX_WEIGHTS = 50  # for which it is chosen without being asked for
MAX_STEPS = 100
MAX_HALVINGS = 40
FIRST_DAMPING = 1e-12
VALUE_PRECISION = 1e-9  # of the value: smaller gains are not read off it


@dataclass(frozen=True)
class Newton:
    """The optimiser."""

    name: str = "newton"

    def solve(
        self,
        objective: PenalizedObjective,
        start: Point,
        tolerance: float,
        record: Callable[[Point], None],
    ) -> Point:
        """The maximum; `record` sees each iteration and may raise."""
        point = start
        for _ in range(MAX_STEPS):
            if max_norm(point.gradient) <= tolerance:
                break
            reached = take_step(objective, point, newton_step(objective, point))
            if reached is None:
                break
            point = reached
            record(point)
        return point


def newton_step(objective: PenalizedObjective, point: Point) -> np.ndarray:
    """float64[num_parameters], zero where a penalty or a bound holds a weight."""
    free = np.flatnonzero(objective.movable(point))
    units = np.eye(objective.num_parameters)[free]
    curvature = np.array([point.curvature_product(unit)[free] for unit in units])
    diagonal = np.maximum(np.diag(curvature), np.finfo(float).tiny)
    root = 1.0 / np.sqrt(diagonal)
    scaled = root[:, None] * curvature * root
    damping = FIRST_DAMPING
    while True:
        try:
            np.linalg.cholesky(scaled + damping * np.eye(len(free)))
            break
        except np.linalg.LinAlgError:
            damping *= 10.0
    solution = np.linalg.solve(scaled + damping * np.eye(len(free)), root * point.gradient[free])
    step = np.zeros(objective.num_parameters)
    step[free] = root * solution
    return step


def take_step(objective: PenalizedObjective, point: Point, step: np.ndarray) -> Point | None:
    """The first of the step, its half, its quarter, … that goes up; None if none does."""
    for halving in range(MAX_HALVINGS):
        proposal = objective.project(point, point.weights + 0.5**halving * step)
        if np.array_equal(proposal, point.weights):
            return None
        reached = objective.evaluate(proposal)
        if goes_up(point, reached):
            return reached
    return None


def goes_up(before: Point, after: Point) -> bool:
    """By value; where that is lost in rounding, by a gradient that is smaller."""
    assert before.value is not None
    assert after.value is not None
    if abs(after.value - before.value) > VALUE_PRECISION * abs(before.value):
        return after.value > before.value
    return max_norm(after.gradient) < max_norm(before.gradient)
