"""L1 penalties and bounds for every stepwise optimiser, with weights that are exactly zero.

The penalty −Σ λ_i |w_i| has a kink at zero, where an optimiser that follows gradients would step
from side to side for ever. Andrew and Gao (2007, "Scalable training of L1-regularized log-linear
models", section 3) observe that the penalty is linear within an orthant, so: take the one-sided
derivative that allows the steepest ascent (the pseudo-gradient, zero where neither side ascends),
move, and set to zero every weight that would leave the orthant the pseudo-gradient points into.
Bounds are of the same kind: no gradient across them, and proposals are cut off at them.

An objective may have corners of its own at w_i = 0 (recursive random fields have), whose slopes
change from point to point. Within an orthant it is smooth, too: `within_orthant` gives the bounds.

`Terrain` does this for all optimisers: it is an objective like any other, whose points carry
the gradient that may be followed, and which can `project` a proposal. Without penalty and bounds
it changes nothing, so optimisers are written once. Deviation from the paper: there is no line
search here; the optimisers judge a projected step by what it gains and shorten the next where it
failed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from lapis.optimisation.objective import Around, Moving, Point

EDGE = (
    2.0**-1000
)  # a weight on the edge of an orthant; a power of 2: scaled and back, it is the same


@dataclass(frozen=True)
class TerrainPoint:
    """f(w) − Σ λ_i |w_i| at one vector of weights."""

    smooth: Point  # f
    l1: np.ndarray | None  # float64[num_parameters], λ
    gradient: np.ndarray  # float64[num_parameters], pseudo-gradient without what bounds forbid

    @property
    def weights(self) -> np.ndarray:
        return self.smooth.weights

    @property
    def value(self) -> float | None:
        value = self.smooth.value
        if value is None or self.l1 is None:
            return value
        return value - float(self.l1 @ np.abs(self.weights))

    @property
    def gradient_stderr(self) -> np.ndarray | None:
        return self.smooth.gradient_stderr

    def curvature_diagonal(self) -> np.ndarray:
        return self.smooth.curvature_diagonal()

    def curvature_product(self, direction: np.ndarray) -> np.ndarray:
        return self.smooth.curvature_product(direction)


@dataclass
class Origins:
    """Where the chains of a moving objective stood before its points were evaluated.

    A point evaluated again from there is the same point. Rejected steps move chains, too, so where
    they stand now is another matter.
    """

    objective: Moving
    seen: list[tuple[Point, dict[str, np.ndarray]]] = field(default_factory=list)
    now: dict[str, np.ndarray] = field(default_factory=dict)

    def look(self) -> dict[str, np.ndarray]:
        return self.objective.keep()

    def settle(self, point: Point) -> None:
        """Take down where all stands at this point; forget the others."""
        self.seen = [each for each in self.seen if each[0] is point]
        self.now = self.look()

    def pack(self) -> dict[str, np.ndarray]:
        before = self.seen[0][1] if self.seen else {}
        arrays = {f"before.{name}": array for name, array in before.items()}
        return arrays | {f"now.{name}": array for name, array in self.now.items()}


@dataclass(frozen=True)
class Terrain(Around):
    """An objective with its penalty and bounds, if any, as optimisers see it."""

    l1: np.ndarray | None = None  # float64[num_parameters], λ; 0 where a weight has no penalty
    lower: np.ndarray | None = None  # float64[num_parameters]
    upper: np.ndarray | None = None  # float64[num_parameters]
    origins: Origins | None = None  # where chains stood, for checkpoints
    corners: np.ndarray | None = None  # bool[num_parameters], f may have a corner at w_i = 0

    @property
    def is_open(self) -> bool:
        """Whether there is neither penalty nor bound: a step goes where it is told."""
        return self.l1 is None and self.lower is None and self.upper is None

    def evaluate(self, weights: np.ndarray) -> Point:
        before = None if self.origins is None else self.origins.look()
        point = self.objective.evaluate(weights)
        if not self.is_open:
            gradient = point.gradient
            if self.l1 is not None:
                gradient = pseudo_gradient(weights, gradient, self.l1)
            point = TerrainPoint(point, self.l1, self.within_bounds(weights, gradient))
        if self.origins is not None and before is not None:
            self.origins.seen.append((point, before))
        return point

    def within_orthant(self, side: np.ndarray) -> Terrain:
        """The same where each weight with a corner stays on its side of zero.

        `side` float64[num_parameters] holds 1 or −1. A weight goes no closer to zero than `EDGE`,
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

    def free_weights(self, point: Point) -> np.ndarray:
        """bool[num_parameters], those that neither a penalty nor a bound holds where they are."""
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


def pseudo_gradient(weights: np.ndarray, gradient: np.ndarray, l1: np.ndarray) -> np.ndarray:
    """The steepest one-sided derivative of f(w) − Σ λ_i |w_i| along each weight.

    >>> pseudo_gradient(np.array([2.0, -2.0, 0.0, 0.0]), np.array([3.0, 3.0, 3.0, 0.5]), np.ones(4))
    array([2., 4., 2., 0.])
    """
    at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - l1, 0.0)
    return np.where(weights != 0, gradient - l1 * np.sign(weights), at_zero)
