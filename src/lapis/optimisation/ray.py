"""How far along a direction: the maximum of an objective on a ray from zero.

A perceptron learns which way, not how far. Started at zero, its weights are the rate times a
sequence that does not depend on the rate, because a most likely world stays the most likely one
when all weights are multiplied by the same number; only a likelihood tells large weights from
small ones. So the length is that of greatest likelihood,

    c maximises f(c·d),      derivative d·∇f(c·d),      curvature dᵀH d,

one concave problem in one unknown, climbed by Newton's method on exact or sampled counts. The
thesis chooses the rate by validation (4.2.1), which is the same choice, made by trying.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lapis.optimisation.climb import climb, make_optimizer
from lapis.optimisation.objective import Around, Objective, Point

MAX_ITERATIONS = 50


@dataclass(frozen=True)
class RayPoint:
    """f(c·d) as a function of c."""

    weights: np.ndarray  # float64[1], c
    direction: np.ndarray  # float64[num_parameters], d
    inner: Point  # f at c·d

    @property
    def value(self) -> float | None:
        return self.inner.value

    @property
    def gradient(self) -> np.ndarray:
        return np.array([self.direction @ self.inner.gradient])

    @property
    def gradient_stderr(self) -> np.ndarray | None:
        """Of independent counts; those of one world agree more, which is seen in the gradients."""
        stderr = self.inner.gradient_stderr
        return None if stderr is None else np.array([np.linalg.norm(self.direction * stderr)])

    def curvature_diagonal(self) -> np.ndarray:
        return self.curvature_product(np.ones(1))

    def curvature_product(self, direction: np.ndarray) -> np.ndarray:
        along = self.direction @ self.inner.curvature_product(self.direction)
        return np.array([max(float(along), 0.0)]) * direction


@dataclass(frozen=True)
class Ray(Around):
    """An objective of one number: the length."""

    direction: np.ndarray  # float64[num_parameters]
    num_parameters: int = 1

    @property
    def true_counts(self) -> np.ndarray:
        return np.array([np.abs(self.direction) @ self.objective.true_counts])

    def evaluate(self, weights: np.ndarray) -> RayPoint:
        inner = self.objective.evaluate(weights[0] * self.direction)
        return RayPoint(weights, self.direction, inner)


def find_length(
    objective: Objective,
    direction: np.ndarray,
    *,
    l1: np.ndarray | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> float:
    """The c ≥ 0 at which f(c·d) − c Σ l1_i |d_i| is greatest, d float64[num_parameters]."""
    course = climb(
        Ray(objective, direction),
        make_optimizer("dn"),
        np.zeros(1),
        l1=None if l1 is None else np.array([l1 @ np.abs(direction)]),
        lower=np.zeros(1),
        max_iterations=MAX_ITERATIONS,
        should_stop=should_stop,
    )
    return float(course.weights[0])
