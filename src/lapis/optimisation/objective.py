"""Objectives, and the penalized objective that optimisers maximise.

Let n be the true groundings in the data and n̄ their expected number. The gradient of a
log-likelihood is n − n̄. Its curvature (minus the Hessian) is the covariance of the counts, which is
positive semidefinite. An objective is exact or sampled; a sampled one moves its chains at each
evaluation.

`PenalizedObjective` adds a prior, fixed weights, an L1 penalty and bounds:

    value      objective(w) − Σ (w_i − m_i)² p_i / 2 − Σ λ_i |w_i|      p = 1/s² of a Gaussian prior
    gradient   ∇objective − p (w − m) + steepest one-sided derivative of the penalty
    curvature  −∇²objective + diag(p)

Its parameters are the free weights. Weights are relative to the center of their L1 prior.

The penalty −Σ λ_i |w_i| has a kink at zero. Plain gradient steps would oscillate across it. Andrew
and Gao (2007, "Scalable training of L1-regularized log-linear models", section 3) observe that the
penalty is linear within an orthant. They step along the pseudo-gradient (the one-sided derivative
of steepest ascent, zero if neither side ascends), and set to zero every weight that would leave
the orthant. Bounds are handled in the same way: the gradient across a bound is zero, and proposals
are clipped. Deviation from the paper: no line search; the optimisers measure the gain of a
projected step and shorten the next one if it failed.

The objective itself may have kinks at w_i = 0 (recursive random fields do), with slopes that
change from point to point. It is smooth within an orthant: `within_orthant` adds these bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Protocol, Self, runtime_checkable

import numpy as np


@dataclass(frozen=True, eq=False)
class Point:
    """Value and derivatives of an objective at one vector of weights; curvatures are lazy."""

    weights: np.ndarray  # float64[num_parameters]
    value: float | None  # None if only the gradient is available
    gradient: np.ndarray  # float64[num_parameters]
    curvature_diagonal: Callable[[], np.ndarray]  # float64[num_parameters], of −∇²; not negative
    curvature_product: Callable[[np.ndarray], np.ndarray]  # −∇² times a direction
    gradient_stderr: np.ndarray | None = None  # float64[num_parameters]; None if it is exact
    smooth: Point | None = None  # the point without L1 penalty and bounds, if there are any

    @cached_property
    def curvature_matrix(self) -> np.ndarray:
        """float64[P, P], the whole curvature: a product for each weight."""
        units = np.eye(len(self.weights))
        products = np.array([self.curvature_product(unit) for unit in units]).reshape(units.shape)
        return 0.5 * (products + products.T)


class Objective(Protocol):
    """A function of the parameters that learning maximises."""

    @property
    def name(self) -> str: ...

    @property
    def is_exact(self) -> bool:
        """Whether values and gradients are computed without sampling or approximation."""

    @property
    def is_fixed(self) -> bool:
        """Whether evaluations at equal weights are equal: exact, or estimated once in advance."""

    @property
    def num_parameters(self) -> int: ...

    @property
    def true_counts(self) -> np.ndarray:
        """float64[num_parameters], n in the data, without groundings that evidence decides."""

    def evaluate(self, weights: np.ndarray) -> Point: ...


@runtime_checkable
class ChainObjective(Protocol):
    """An objective whose evaluations move chains or searches."""

    def keep(self) -> dict[str, np.ndarray]:
        """Return the states of all chains by name; empty if there are none."""

    def resume(self, kept: Mapping[str, np.ndarray]) -> None:
        """Set the states of all chains."""


# Distance from zero of a weight at the edge of an orthant. A power of 2, so that scaling is exact.
EDGE = 2.0**-1000


@dataclass(frozen=True)
class PenalizedObjective:
    """An objective as a function of its free weights, with prior, penalty and bounds."""

    objective: Objective
    free: np.ndarray  # int64[num_free], the parameters that are not fixed
    base: np.ndarray  # float64[num_parameters], values of the fixed parameters
    precision: np.ndarray  # float64[num_free], p
    mean: np.ndarray  # float64[num_free], m
    origin: np.ndarray  # float64[num_free], subtracted from the objective's weights
    l1: np.ndarray | None = None  # float64[num_free], λ; 0 where a weight has no penalty
    lower: np.ndarray | None = None  # float64[num_free]
    upper: np.ndarray | None = None  # float64[num_free]
    corners: np.ndarray | None = None  # bool[num_free], the objective may have a kink at w_i = 0

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
        return self.objective.keep() if isinstance(self.objective, ChainObjective) else {}

    def resume(self, kept: Mapping[str, np.ndarray]) -> None:
        if isinstance(self.objective, ChainObjective):
            self.objective.resume(kept)

    def all_weights(self, weights: np.ndarray) -> np.ndarray:
        """Return float64[num_parameters], all weights of the objective, from the free ones."""
        values = self.base.copy()
        values[self.free] = weights + self.origin
        return values

    def free_weights(self, weights: np.ndarray) -> np.ndarray:
        """Return float64[num_free], the free weights, from all weights of the objective."""
        return weights[self.free] - self.origin

    def gaussian(self, weights: np.ndarray) -> float:
        """Compute −Σ (w_i − m_i)² p_i / 2 of weights float64[num_free]."""
        return -0.5 * float(self.precision @ (weights - self.mean) ** 2)

    def log_prior(self, weights: np.ndarray) -> float:
        """Compute the log-density of the free weights, L1 included, up to a constant."""
        penalty = 0.0 if self.l1 is None else float(self.l1 @ np.abs(weights))
        return self.gaussian(weights) - penalty

    def evaluate(self, weights: np.ndarray) -> Point:
        """Evaluate with penalty and bounds; the gradient is the pseudo-gradient."""
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
        """Evaluate without L1 penalty and bounds."""
        inner = self.objective.evaluate(self.all_weights(weights))
        stderr = inner.gradient_stderr
        free_gradient: np.ndarray = inner.gradient[self.free]
        prior_gradient: np.ndarray = self.precision * (weights - self.mean)
        return Point(
            weights,
            None if inner.value is None else inner.value + self.gaussian(weights),
            free_gradient - prior_gradient,
            partial(self._diagonal, inner),
            partial(self._product, inner),
            None if stderr is None else stderr[self.free],
        )

    def _diagonal(self, inner: Point) -> np.ndarray:
        free_diagonal: np.ndarray = inner.curvature_diagonal()[self.free]
        return free_diagonal + self.precision

    def _product(self, inner: Point, direction: np.ndarray) -> np.ndarray:
        extended = np.zeros(self.objective.num_parameters)
        extended[self.free] = direction
        free_product: np.ndarray = inner.curvature_product(extended)[self.free]
        return free_product + self.precision * direction

    def within_orthant(self, side: np.ndarray) -> Self:
        """Return the objective restricted to one side of zero for each weight with a kink.

        `side` float64[num_free] holds 1 or −1. Weights keep a distance of `EDGE` from zero, so that
        their derivatives are those of the chosen side.
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
        """Set to zero the components of a direction that leave the orthant or the bounds."""
        if self.l1 is not None:
            leaves = (self.l1 > 0) & (origin.weights == 0) & (direction * origin.gradient <= 0)
            direction = np.where(leaves, 0.0, direction)
        return self.within_bounds(origin.weights, direction)

    def project(self, origin: Point, proposal: np.ndarray) -> np.ndarray:
        """Set to zero each penalized weight that has left the origin's orthant; apply bounds."""
        if self.l1 is not None:
            orthant = np.where(origin.weights != 0, origin.weights, origin.gradient)
            proposal = np.where((self.l1 > 0) & (proposal * orthant <= 0), 0.0, proposal)
        return self.clip(proposal)

    def clip(self, weights: np.ndarray) -> np.ndarray:
        """Return the nearest weights within the bounds."""
        if self.lower is not None:
            weights = np.maximum(weights, self.lower)
        return weights if self.upper is None else np.minimum(weights, self.upper)

    def movable(self, point: Point) -> np.ndarray:
        """Return bool[num_free], the weights not held in place by a penalty or a bound."""
        inside = np.ones(self.num_parameters, bool)
        if self.l1 is not None:
            inside &= (self.l1 == 0) | (point.weights != 0)
        if self.lower is not None:
            inside &= point.weights > self.lower
        if self.upper is not None:
            inside &= point.weights < self.upper
        return inside | (point.gradient != 0)

    def within_bounds(self, weights: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """Set to zero the components of a direction that leave the bounds at once."""
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
    """Build a penalized objective with all weights free and no Gaussian prior."""
    nothing = np.zeros(objective.num_parameters)
    free = np.arange(objective.num_parameters)
    return PenalizedObjective(
        objective, free, nothing, nothing, nothing, nothing, l1, lower, upper, corners
    )


def pseudo_gradient(weights: np.ndarray, gradient: np.ndarray, l1: np.ndarray) -> np.ndarray:
    """Compute the steepest one-sided derivative of f(w) − Σ λ_i |w_i| along each weight.

    >>> pseudo_gradient(np.array([2.0, -2.0, 0.0, 0.0]), np.array([3.0, 3.0, 3.0, 0.5]), np.ones(4))
    array([2., 4., 2., 0.])
    """
    at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - l1, 0.0)
    return np.where(weights != 0, gradient - l1 * np.sign(weights), at_zero)
