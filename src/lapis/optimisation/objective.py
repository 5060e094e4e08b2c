"""Objectives, and what is known of one at a vector of weights: a `Point`.

Objectives are maximised. With n the true groundings in the data and n̄ those the model expects,
the gradient of a log-likelihood is n − n̄, and its curvature (minus the Hessian) is the
covariance of the counts, which is positive semidefinite. Optimisers see nothing but this: an
objective may be exact or sampled, and a sampled one moves its chains at each evaluation.

Prior, fixed weights, L1 penalty and bounds around an objective, as optimisers see it.

    value      objective(w) − Σ (w_i − m_i)² p_i / 2 − Σ λ_i |w_i|      p = 1/s² of a Gaussian prior
    gradient   ∇objective − p (w − m), of the penalty the steepest one-sided derivative
    curvature  −∇²objective + diag(p)

Fixed weights are not parameters here. Weights are relative to the corner of their L1 prior.

The penalty −Σ λ_i |w_i| has a kink at zero, where an optimiser that follows gradients would step
from side to side for ever. Andrew and Gao (2007, "Scalable training of L1-regularized log-linear
models", section 3) observe that the penalty is linear within an orthant, so: take the one-sided
derivative that allows the steepest ascent (the pseudo-gradient, zero where neither side ascends),
move, and set to zero every weight that would leave the orthant the pseudo-gradient points into.
Bounds are of the same kind: no gradient across them, and proposals are cut off at them.

An objective may have corners of its own at w_i = 0 (recursive random fields have), whose slopes
change from point to point. Within an orthant it is smooth, too: `within_orthant` gives the bounds.

Deviation from the paper: there is no line search here; the optimisers judge a projected step by
what it gains and shorten the next where it failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, Self, runtime_checkable

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


# A weight on the edge of an orthant. A power of 2, so that scaling it is exact.
EDGE = 2.0**-1000


@dataclass(frozen=True)
class PenalizedObjective:
    """An objective of the free weights alone, with their prior and bounds."""

    objective: Objective
    free: np.ndarray  # int64[num_free], the parameters that are not fixed
    base: np.ndarray  # float64[num_parameters], values of those that are
    precision: np.ndarray  # float64[num_free], p
    mean: np.ndarray  # float64[num_free], m
    origin: np.ndarray  # float64[num_free], subtracted from the objective's weights
    l1: np.ndarray | None = None  # float64[num_free], λ; 0 where a weight has no penalty
    lower: np.ndarray | None = None  # float64[num_free]
    upper: np.ndarray | None = None  # float64[num_free]
    corners: np.ndarray | None = None  # bool[num_free], the objective may have one at w_i = 0

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
        return len(self.free)

    @property
    def true_counts(self) -> np.ndarray:
        return self.objective.true_counts[self.free]

    @property
    def is_unconstrained(self) -> bool:
        """Whether there is neither an L1 penalty nor a bound."""
        return self.l1 is None and self.lower is None and self.upper is None

    def keep(self) -> dict[str, np.ndarray]:
        return self.objective.keep() if isinstance(self.objective, Moving) else {}

    def resume(self, kept: Mapping[str, np.ndarray]) -> None:
        if isinstance(self.objective, Moving):
            self.objective.resume(kept)

    def all_weights(self, weights: np.ndarray) -> np.ndarray:
        """float64[num_parameters], the objective's weights, fixed ones included."""
        everywhere = self.base.copy()
        everywhere[self.free] = weights + self.origin
        return everywhere

    def free_weights(self, weights: np.ndarray) -> np.ndarray:
        """float64[num_free], the free ones of the objective's weights float64[num_parameters]."""
        return weights[self.free] - self.origin

    def gaussian(self, weights: np.ndarray) -> float:
        """−Σ (w_i − m_i)² p_i / 2, of weights float64[num_free]."""
        return -0.5 * float(self.precision @ (weights - self.mean) ** 2)

    def log_prior(self, weights: np.ndarray) -> float:
        """The log-density of the free weights, L1 included, up to a constant."""
        corner = 0.0 if self.l1 is None else float(self.l1 @ np.abs(weights))
        return self.gaussian(weights) - corner

    def evaluate(self, weights: np.ndarray) -> Point:
        """The point with penalty and bounds: its gradient is the one that may be followed."""
        smooth = self.evaluate_smooth(weights)
        if self.is_unconstrained:
            return smooth
        value, gradient = smooth.value, smooth.gradient
        if self.l1 is not None:
            gradient = pseudo_gradient(weights, gradient, self.l1)
            value = None if value is None else value - float(self.l1 @ np.abs(weights))
        gradient = self.within_bounds(weights, gradient)
        return replace(smooth, value=value, gradient=gradient, smooth=smooth)

    def evaluate_smooth(self, weights: np.ndarray) -> Point:
        """The point without L1 penalty and bounds."""
        inner = self.objective.evaluate(self.all_weights(weights))
        stderr = inner.gradient_stderr
        taken: np.ndarray = inner.gradient[self.free]
        pull: np.ndarray = self.precision * (weights - self.mean)
        return Point(
            weights,
            None if inner.value is None else inner.value + self.gaussian(weights),
            taken - pull,
            partial(self._diagonal, inner),
            partial(self._product, inner),
            None if stderr is None else stderr[self.free],
        )

    def _diagonal(self, inner: Point) -> np.ndarray:
        taken: np.ndarray = inner.curvature_diagonal()[self.free]
        return taken + self.precision

    def _product(self, inner: Point, direction: np.ndarray) -> np.ndarray:
        everywhere = np.zeros(self.objective.num_parameters)
        everywhere[self.free] = direction
        taken: np.ndarray = inner.curvature_product(everywhere)[self.free]
        return taken + self.precision * direction

    def within_orthant(self, side: np.ndarray) -> Self:
        """The same where each weight with a corner stays on its side of zero.

        `side` float64[num_free] holds 1 or −1. A weight goes no closer to zero than `EDGE`,
        so that derivatives there are those from its side.
        """
        assert self.corners is not None
        infinite = np.full(self.num_parameters, np.inf)
        lower = np.where(self.corners & (side > 0), EDGE, -infinite)
        upper = np.where(self.corners & (side < 0), -EDGE, infinite)
        if self.lower is not None:
            lower = np.maximum(lower, self.lower)
        if self.upper is not None:
            upper = np.minimum(upper, self.upper)
        return replace(self, lower=lower, upper=upper, corners=None)

    def align(self, origin: Point, direction: np.ndarray) -> np.ndarray:
        """The direction without what would lead a weight out of its orthant or bounds."""
        if self.l1 is not None:
            leaves = (self.l1 > 0) & (origin.weights == 0) & (direction * origin.gradient <= 0)
            direction = np.where(leaves, 0.0, direction)
        return self.within_bounds(origin.weights, direction)

    def project(self, origin: Point, proposal: np.ndarray) -> np.ndarray:
        """The proposal, zero where a penalised weight has left the origin's orthant."""
        if self.l1 is not None:
            orthant = np.where(origin.weights != 0, origin.weights, origin.gradient)
            proposal = np.where((self.l1 > 0) & (proposal * orthant <= 0), 0.0, proposal)
        return self.clip(proposal)

    def clip(self, weights: np.ndarray) -> np.ndarray:
        """The nearest weights within the bounds."""
        if self.lower is not None:
            weights = np.maximum(weights, self.lower)
        return weights if self.upper is None else np.minimum(weights, self.upper)

    def movable(self, point: Point) -> np.ndarray:
        """bool[num_free], the weights that neither a penalty nor a bound holds where they are."""
        inside = np.ones(self.num_parameters, bool)
        if self.l1 is not None:
            inside &= (self.l1 == 0) | (point.weights != 0)
        if self.lower is not None:
            inside &= point.weights > self.lower
        if self.upper is not None:
            inside &= point.weights < self.upper
        return inside | (point.gradient != 0)

    def within_bounds(self, weights: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """The direction, zero where it leads out of the bounds at once."""
        if self.lower is not None:
            direction = np.where((weights <= self.lower) & (direction < 0), 0.0, direction)
        if self.upper is not None:
            direction = np.where((weights >= self.upper) & (direction > 0), 0.0, direction)
        return direction


def penalize(
    objective: Objective,
    l1: np.ndarray | None = None,
    lower: np.ndarray | None = None,
    upper: np.ndarray | None = None,
    corners: np.ndarray | None = None,
) -> PenalizedObjective:
    """An objective with all weights free and no Gaussian prior; arrays [num_parameters] each."""
    nothing = np.zeros(objective.num_parameters)
    free = np.arange(objective.num_parameters)
    return PenalizedObjective(
        objective, free, nothing, nothing, nothing, nothing, l1, lower, upper, corners
    )


def pseudo_gradient(weights: np.ndarray, gradient: np.ndarray, l1: np.ndarray) -> np.ndarray:
    """The steepest one-sided derivative of f(w) − Σ λ_i |w_i| along each weight.

    >>> pseudo_gradient(np.array([2.0, -2.0, 0.0, 0.0]), np.array([3.0, 3.0, 3.0, 0.5]), np.ones(4))
    array([2., 4., 2., 0.])
    """
    at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - l1, 0.0)
    return np.where(weights != 0, gradient - l1 * np.sign(weights), at_zero)
