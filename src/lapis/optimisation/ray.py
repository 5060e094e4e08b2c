"""How far along a direction: the maximum of an objective on a ray from zero.

A perceptron learns which way, not how far. Started at zero, its weights are the rate times a
sequence that does not depend on the rate, because a most likely world stays the most likely one
when all weights are multiplied by the same number; only a likelihood tells large weights from
small ones. So the length is that of greatest likelihood,

    c maximises f(c·d),      derivative d·∇f(c·d),      curvature dᵀH d,

one concave problem in one unknown, maximised by Newton's method on exact or sampled counts. The
thesis chooses the rate by validation (4.2.1), which is the same choice, made by trying.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lapis.optimisation.maximize import make_optimizer, maximize
from lapis.optimisation.objective import Point
from lapis.optimisation.penalized import PenalizedObjective, penalize

MAX_ITERATIONS = 50


@dataclass(frozen=True)
class Ray:
    """An objective of one number: the length c of c·d."""

    objective: PenalizedObjective
    direction: np.ndarray  # float64[num_parameters], d
    num_parameters: int = 1

    @property
    def name(self) -> str:
        return self.objective.name

    @property
    def is_exact(self) -> bool:
        return self.objective.is_exact

    @property
    def is_fixed(self) -> bool:
        return self.objective.is_fixed

    @property
    def true_counts(self) -> np.ndarray:
        return np.array([np.abs(self.direction) @ self.objective.true_counts])

    def evaluate(self, weights: np.ndarray) -> Point:
        """f(c·d) as a function of c float64[1].

        The standard error is that of independent counts; those of one world agree more, which is
        seen in the gradients.
        """
        inner = self.objective.evaluate_smooth(weights[0] * self.direction)
        stderr = inner.gradient_stderr

        def product(along: np.ndarray) -> np.ndarray:
            bend = self.direction @ inner.curvature_product(self.direction)
            return np.array([max(float(bend), 0.0)]) * along

        return Point(
            weights,
            inner.value,
            np.array([self.direction @ inner.gradient]),
            lambda: product(np.ones(1)),
            product,
            None if stderr is None else np.array([np.linalg.norm(self.direction * stderr)]),
        )


def find_length(
    objective: PenalizedObjective,
    direction: np.ndarray,
    *,
    should_stop: Callable[[], bool] | None = None,
) -> float:
    """The c ≥ 0 at which f(c·d) − c Σ l1_i |d_i| is greatest, d float64[num_parameters]."""
    l1 = None if objective.l1 is None else np.array([objective.l1 @ np.abs(direction)])
    trajectory = maximize(
        penalize(Ray(objective, direction), l1=l1, lower=np.zeros(1)),
        make_optimizer("dn"),
        np.zeros(1),
        max_iterations=MAX_ITERATIONS,
        should_stop=should_stop,
    )
    return float(trajectory.weights[0])
