"""Objectives, and what is known of one at a vector of weights: a `Point`.

Objectives are maximised. With n the true groundings in the data and n̄ those the model expects,
the gradient of a log-likelihood is n − n̄, and its curvature (minus the Hessian) is the
covariance of the counts, which is positive semidefinite. Optimisers see nothing but this: an
objective may be exact or sampled, and a sampled one moves its chains at each evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np


@dataclass(frozen=True, eq=False)
class Point:
    """An objective at one vector of weights. Curvatures are computed when they are called for."""

    weights: np.ndarray  # float64[num_parameters]
    value: float | None  # None where only the gradient is known
    gradient: np.ndarray  # float64[num_parameters]
    curvature_diagonal: Callable[[], np.ndarray]  # float64[num_parameters], of −∇²; not negative
    curvature_product: Callable[[np.ndarray], np.ndarray]  # −∇² times a direction
    gradient_stderr: np.ndarray | None = None  # float64[num_parameters]; None if it is exact
    smooth: Point | None = None  # the same without L1 penalty and bounds, if there are any


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


@runtime_checkable
class Moving(Protocol):
    """An objective whose evaluations move chains or searches."""

    def keep(self) -> dict[str, np.ndarray]:
        """Return the states of all chains; empty if there are none."""

    def resume(self, kept: Mapping[str, np.ndarray]) -> None:
        """Set the states of all chains."""
