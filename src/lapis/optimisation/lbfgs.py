"""L-BFGS-B for objectives with exact values: scipy's, refined to the last digits.

Byrd, Lu, Nocedal and Zhu (1995, "A limited memory algorithm for bound constrained optimization").
It supports bounds. An L1 penalty becomes linear by splitting a weight, w = p − q with p, q ≥ 0; the
weight is exactly zero if both are at their bound.

We add two things. First, counts whose variances differ by a factor of a million make it slow. After
`FIRST_ROUND` iterations without convergence the search continues in weights scaled by the root of
the curvature's diagonal (not earlier, because the diagonal is expensive for some objectives).
Second, a line search compares values and fails once they differ by less than rounding: 1e-16 of the
value, for a million groundings a gradient of 1e-4. So scipy's test on values is off, and if the
search ends above the tolerance, Newton steps follow. They solve H s = g by conjugate gradients with
exact curvature products, and are accepted if the gradient becomes smaller.

At a kink of the objective a line search finds no step, although a step along the kink, or away from
it on one side, would ascend. So the search first ignores kinks until it stops. Then it continues
within the orthant in which it stopped, where the objective is smooth. If a weight at the edge of
the orthant ascends on the other side, the search moves to that orthant. At the end no weight
ascends on either side: the point is a local maximum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lapis.errors import LapisError
from lapis.optimisation.history import max_norm
from lapis.optimisation.objective import EDGE, PenalizedObjective, Point
from lapis.registry.option_field import option

FIRST_ROUND = 100  # iterations
LATER_ROUNDS = 300
MAX_ROUNDS = 20
MIN_VARIANCE = 1e-12  # relative to the largest
MAX_NEWTON_STEPS = 20
MAX_HALVINGS = 10
MAX_LINE_SEARCH = 40
MAX_FALL = 1e-10  # relative decrease of the value that rounding explains
NEWTON_PRECISION = 1e-8  # of a Newton step, relative to the gradient
MAX_ORTHANTS = 100
UNLIMITED = 10**9  # `record` enforces the limits


@dataclass(frozen=True)
class Lbfgs:
    """The optimiser."""

    memory: int = option(20, "steps that the curvature is estimated from", low=1, high=1000)
    name: str = "lbfgs"

    def solve(
        self,
        objective: PenalizedObjective,
        start: Point,
        tolerance: float,
        record: Callable[[Point], None],
    ) -> Point:
        """Return a local maximum; calls `record` at each iteration, which may raise."""
        if objective.corners is None:
            return self.solve_smooth(objective, start, tolerance, record)

        def record_unfinished(point: Point) -> None:
            # The maximum of an orthant is final only if no other orthant is better.
            if max_norm(point.gradient) > tolerance:
                record(point)

        scale = np.ones(objective.num_parameters)
        point = run_lbfgs(objective, start, scale, self.memory, FIRST_ROUND, tolerance, record)
        if max_norm(point.gradient) <= tolerance:
            return point
        side = choose_side(
            objective, point.weights, np.where(point.weights < 0, -1.0, 1.0), tolerance
        )
        for _ in range(MAX_ORTHANTS):
            orthant = objective.within_orthant(side)
            begin = orthant.evaluate(orthant.clip(point.weights))
            point = self.solve_smooth(orthant, begin, tolerance, record_unfinished)
            next_side = choose_side(objective, point.weights, side, tolerance)
            if np.array_equal(next_side, side):
                break
            side = next_side
        return point

    def solve_smooth(
        self,
        objective: PenalizedObjective,
        start: Point,
        tolerance: float,
        record: Callable[[Point], None],
    ) -> Point:
        """Return a local maximum of an objective without kinks."""
        point, scale = start, np.ones(objective.num_parameters)
        for limit in (FIRST_ROUND, *[LATER_ROUNDS] * MAX_ROUNDS):
            reached = run_lbfgs(objective, point, scale, self.memory, limit, tolerance, record)
            reached = refine_by_newton(objective, reached, tolerance, record)
            if max_norm(reached.gradient) <= tolerance or not is_better(reached, point):
                return reached
            point = reached
            variance = point.curvature_diagonal()
            scale = np.sqrt(np.maximum(variance, MIN_VARIANCE * variance.max(initial=0.0)))
            scale = np.where(scale > 0, scale, 1.0)
        return point


def choose_side(
    objective: PenalizedObjective, weights: np.ndarray, side: np.ndarray, tolerance: float
) -> np.ndarray:
    """Return float64[num_parameters], the sign of the orthant to continue in.

    A weight at the edge changes sides if the objective ascends there and not on its own side.
    """
    edge = objective.corners & (np.abs(weights) <= EDGE)
    if not edge.any():
        return side
    slopes = []
    for each in (side, -side):
        facing = objective.within_orthant(np.where(edge, each, side))
        slopes.append(each * facing.evaluate(facing.clip(weights)).gradient)
    return np.where(edge & (slopes[0] <= 0) & (slopes[1] > tolerance), -side, side)


def run_lbfgs(
    objective: PenalizedObjective,
    start: Point,
    scale: np.ndarray,
    memory: int,
    max_iterations: int,
    tolerance: float,
    record: Callable[[Point], None],
) -> Point:
    """Run scipy's L-BFGS-B until the gradient is small or the line search fails."""
    if max_norm(start.gradient) <= tolerance:
        return start
    from scipy.optimize import Bounds, minimize

    split = split_weights(objective, scale)
    last = start
    # scipy's first step has the length of the gradient. In this unit the length is about one.
    unit = max_norm(start.gradient / scale)

    def locate(x: np.ndarray) -> Point:
        nonlocal last
        weights = objective.clip(split.join(x))
        if not np.array_equal(weights, last.weights):
            last = objective.evaluate(weights)
        return last

    def descend(x: np.ndarray) -> tuple[float, np.ndarray]:
        point = locate(x)
        smooth = point.smooth or point
        if smooth.value is None or not np.isfinite(smooth.value):
            raise LapisError(
                "learning diverged: the objective is not a number at some weights",
                code="diverged",
                hint="add a prior, or bounds",
            )
        value = smooth.value - split.penalty(x)
        return -value / unit, -split.gradient(smooth.gradient) / unit

    def report(x: np.ndarray) -> None:
        point = locate(x)
        record(point)
        if max_norm(point.gradient) <= tolerance:
            raise StopIteration

    lower, upper = split.bounds(objective)
    found = minimize(
        descend,
        split.divide(start.weights),
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(lower, upper),
        callback=report,
        options={
            "maxcor": memory,
            "ftol": 0.0,
            "gtol": 0.0,
            "maxiter": max_iterations,
            "maxfun": UNLIMITED,
            "maxls": MAX_LINE_SEARCH,
        },
    )
    return locate(found.x)


def is_better(point: Point, before: Point) -> bool:
    """Test whether a round has decreased the gradient or increased the value."""
    if max_norm(point.gradient) < max_norm(before.gradient):
        return True
    return point.value is not None and before.value is not None and point.value > before.value


@dataclass(frozen=True)
class SplitWeights:
    """Scaled weights x = (p, q): w = p, and w = p − q for penalized weights."""

    scale: np.ndarray  # float64[num_parameters], x = scale · w
    l1: np.ndarray  # float64[num_parameters]
    penalised: np.ndarray  # int64[num_penalised], parameters

    def join(self, x: np.ndarray) -> np.ndarray:
        weights: np.ndarray = x[: len(self.l1)].copy()
        weights[self.penalised] -= x[len(self.l1) :]
        return weights / self.scale

    def divide(self, weights: np.ndarray) -> np.ndarray:
        scaled = weights * self.scale
        positive = np.where(self.l1 > 0, np.maximum(scaled, 0.0), scaled)
        return np.concatenate([positive, np.maximum(-scaled[self.penalised], 0.0)])

    def penalty(self, x: np.ndarray) -> float:
        """Compute Σ λ (p + q), which is Σ λ |w| if p or q is zero."""
        size, l1 = len(self.l1), self.l1 / self.scale
        return float(l1 @ x[:size] + l1[self.penalised] @ x[size:])

    def gradient(self, smooth: np.ndarray) -> np.ndarray:
        up, down = (smooth - self.l1) / self.scale, (-smooth - self.l1) / self.scale
        return np.concatenate([up, down[self.penalised]])

    def bounds(self, objective: PenalizedObjective) -> tuple[np.ndarray, np.ndarray]:
        """Return the bounds of p and q (w = p − q): those of w, and p, q ≥ 0."""
        lower = self.scale * (-np.inf if objective.lower is None else objective.lower)
        upper = self.scale * (np.inf if objective.upper is None else objective.upper)
        least = np.where(self.l1 > 0, 0.0, -np.inf)
        mirrored_lower, mirrored_upper = -upper[self.penalised], -lower[self.penalised]
        return (
            np.concatenate([np.maximum(lower, least), np.maximum(mirrored_lower, 0.0)]),
            np.concatenate([np.maximum(upper, least), np.maximum(mirrored_upper, 0.0)]),
        )


def split_weights(objective: PenalizedObjective, scale: np.ndarray) -> SplitWeights:
    l1 = np.zeros(objective.num_parameters) if objective.l1 is None else objective.l1
    return SplitWeights(scale, l1, np.flatnonzero(l1 > 0))


def refine_by_newton(
    objective: PenalizedObjective, point: Point, tolerance: float, record: Callable[[Point], None]
) -> Point:
    """Take Newton steps on the movable weights until the gradient is small."""
    for _ in range(MAX_NEWTON_STEPS):
        if max_norm(point.gradient) <= tolerance:
            break
        step = solve_newton_step(point, objective.movable(point), tolerance)
        better = take_newton_step(objective, point, step)
        if better is None:
            break
        point = better
        record(point)
    return point


def solve_newton_step(point: Point, free: np.ndarray, tolerance: float) -> np.ndarray:
    """Solve H s = g on the free weights by conjugate gradients; s is zero for the others.

    The tolerance of H s is a tenth of that of the gradient, since each product costs several
    evaluations.
    """
    from scipy.sparse.linalg import LinearOperator, cg

    def product(values: np.ndarray) -> np.ndarray:
        direction = np.zeros(len(free))
        direction[free] = values.ravel()
        return point.curvature_product(direction)[free]

    size = int(free.sum())
    operator = LinearOperator((size, size), matvec=product, dtype=np.float64)
    gradient = point.gradient[free]
    with np.errstate(all="ignore"):  # a direction without curvature ends in a division by zero
        solution, _ = cg(
            operator, gradient, rtol=NEWTON_PRECISION, atol=0.1 * tolerance, maxiter=2 * size + 10
        )
    step = np.zeros(len(free))
    if np.isfinite(solution).all():
        step[free] = solution
    return step


def take_newton_step(objective: PenalizedObjective, point: Point, step: np.ndarray) -> Point | None:
    """Return the first point of s, s/2, s/4, … with a smaller gradient; None if there is none.

    The value must not decrease beyond rounding: Newton steps also lead to saddle points.
    """
    for halving in range(MAX_HALVINGS):
        proposal = objective.project(point, point.weights + 0.5**halving * step)
        reached = objective.evaluate(proposal)
        if max_norm(reached.gradient) < max_norm(point.gradient) and not is_lower(point, reached):
            return reached
    return None


def is_lower(before: Point, after: Point) -> bool:
    """Test whether the value decreased beyond rounding."""
    if before.value is None or after.value is None:
        return False
    return after.value < before.value - MAX_FALL * abs(before.value)
