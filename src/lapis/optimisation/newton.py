"""Newton's method with the whole curvature, for a handful of weights.

    s = (H + μ D)⁻¹ g,   w += s, s/2, s/4, … the first that goes up

D is the diagonal of H. The damping μ is small and matters only if H is singular (formulas whose
counts are linearly dependent). A concave objective needs about ten evaluations of the value and the
curvature. H costs a curvature product for each weight: cheap if atoms are grouped in classes,
expensive if each product needs inference. L-BFGS would need twice as many evaluations, and loading
scipy's optimisers takes half a second, longer than learning a small model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lapis.optimisation.history import max_norm
from lapis.optimisation.objective import PenalizedObjective, Point

MAX_WEIGHTS = 50  # up to which it is the default optimiser
MAX_STEPS = 100
MAX_HALVINGS = 40
FIRST_DAMPING = 1e-12
VALUE_PRECISION = 1e-9  # relative; smaller differences of values may be rounding


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
        """Return the maximum; calls `record` at each iteration, which may raise."""
        point = start
        for _ in range(MAX_STEPS):
            if max_norm(point.gradient) <= tolerance:
                break
            reached = backtrack(objective, point, damped_newton_step(objective, point))
            if reached is None:
                break
            point = reached
            record(point)
        return point


def damped_newton_step(objective: PenalizedObjective, point: Point) -> np.ndarray:
    """Compute (H + μ D)⁻¹ g on the movable weights; zero for the others."""
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


def backtrack(objective: PenalizedObjective, point: Point, step: np.ndarray) -> Point | None:
    """Return the first point of s, s/2, s/4, … that ascends; None if none does."""
    for halving in range(MAX_HALVINGS):
        proposal = objective.project(point, point.weights + 0.5**halving * step)
        if np.array_equal(proposal, point.weights):
            return None
        reached = objective.evaluate(proposal)
        if is_ascent(point, reached):
            return reached
    return None


def is_ascent(before: Point, after: Point) -> bool:
    """Compare values; if they differ by no more than rounding, compare gradient norms."""
    assert before.value is not None
    assert after.value is not None
    if abs(after.value - before.value) > VALUE_PRECISION * abs(before.value):
        return after.value > before.value
    return max_norm(after.gradient) < max_norm(before.gradient)
