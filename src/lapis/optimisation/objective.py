"""What a learner climbs: an objective, and what is known of it at one vector of weights.

Objectives are maximised. With n the true groundings in the data and n̄ those the model expects,
the gradient of a log-likelihood is n − n̄, and its curvature (minus the Hessian) is the
covariance of the counts, which is positive semidefinite. Optimisers see nothing but this: an
objective may be exact or sampled, and a sampled one moves its chains at each evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np


class Point(Protocol):
    """An objective at one vector of weights."""

    @property
    def weights(self) -> np.ndarray:
        """float64[num_parameters]."""

    @property
    def value(self) -> float | None:
        """None where only the gradient is known."""

    @property
    def gradient(self) -> np.ndarray:
        """float64[num_parameters]."""

    @property
    def gradient_stderr(self) -> np.ndarray | None:
        """float64[num_parameters], of a sampled gradient; None where it is exact."""

    def curvature_diagonal(self) -> np.ndarray:
        """float64[num_parameters], the diagonal of −∇²; never negative."""

    def curvature_product(self, direction: np.ndarray) -> np.ndarray:
        """float64[num_parameters], −∇² times a direction."""


class Objective(Protocol):
    """A function of the parameters that learning maximises."""

    @property
    def name(self) -> str: ...

    @property
    def is_exact(self) -> bool:
        """Whether it is what its name says, and no estimate of it."""

    @property
    def is_fixed(self) -> bool:
        """Whether values, gradients and curvatures are those of one function, at every call.

        So they are where it is exact, and where it was estimated once and for all.
        """

    @property
    def num_parameters(self) -> int: ...

    @property
    def true_counts(self) -> np.ndarray:
        """float64[num_parameters], n in the data, groundings that evidence decides left out."""

    def evaluate(self, weights: np.ndarray) -> Point: ...


@dataclass(frozen=True)
class Around:
    """An objective that stands for another: like that one but where it says otherwise."""

    objective: Objective

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
    def num_parameters(self) -> int:
        return self.objective.num_parameters

    @property
    def true_counts(self) -> np.ndarray:
        return self.objective.true_counts


@runtime_checkable
class Moving(Protocol):
    """An objective whose evaluations move something: chains, searches."""

    def keep(self) -> dict[str, np.ndarray]:
        """Where everything stands; empty where nothing moves."""

    def resume(self, kept: Mapping[str, np.ndarray]) -> None:
        """Stand where an objective of the same problem stood."""
