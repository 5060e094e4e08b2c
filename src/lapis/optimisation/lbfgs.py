"""L-BFGS-B for objectives with exact values: scipy's, driven to the last digits.

Byrd, Lu, Nocedal and Zhu (1995). Bounds are its own. An L1 penalty splits a weight, w = p − q with
p, q ≥ 0, which makes it linear: weights become exactly zero where both stand at their bound.

Two things are added. Counts whose variances differ by a million make it slow, so a search that has
not arrived after `FIRST_ROUND` iterations goes on in weights scaled by the root of the curvature's
diagonal; not at once, because some objectives pay dearly for the diagonal. And a line search
compares values, which it cannot tell apart once they differ by less than rounding (1e-16 of the
value, which for a million groundings is a gradient of 1e-4). So the test on values is off, and
where the search gives up above the tolerance on the gradient, Newton steps take over: they solve
H s = g by conjugate gradients with exact curvature products and judge a step by the gradient it
leaves, which has no such limit.

At a corner of the objective a line search finds no step, although a step along the corner, or away
from it on one side, would ascend. So the search crosses corners as if there were none until it
stops, and goes on within the orthant it stopped in, which has bounds and is smooth. Where a weight
at the edge ascends on the other side, the next orthant is that one. At the end no weight ascends to
either side: the point is a local maximum, be it a corner.
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
MIN_VARIANCE = 1e-12  # of the largest
MAX_NEWTON_STEPS = 20
MAX_HALVINGS = 10
MAX_LINE_SEARCH = 40
MAX_FALL = 1e-10  # of the value, that rounding explains
NEWTON_PRECISION = 1e-8  # of a Newton step, relative to the gradient
MAX_ORTHANTS = 100
UNLIMITED = 10**9  # the recorder knows the limits


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
        """The maximum, as far as it can be told; `record` sees each iteration and may raise."""
        if objective.corners is None:
            return self.solve_smooth(objective, start, tolerance, record)

        def record_unfinished(point: Point) -> None:
            # The end of an orthant is the end of all only if the other side is no better.
            if max_norm(point.gradient) > tolerance:
                record(point)

        scale = np.ones(objective.num_parameters)
        point = search(objective, start, scale, self.memory, FIRST_ROUND, tolerance, record)
        if max_norm(point.gradient) <= tolerance:
            return point
        side = ascending_side(
            objective, point.weights, np.where(point.weights < 0, -1.0, 1.0), tolerance
        )
        for _ in range(MAX_ORTHANTS):
            orthant = objective.within_orthant(side)
            begin = orthant.evaluate(orthant.clip(point.weights))
            point = self.solve_smooth(orthant, begin, tolerance, record_unfinished)
            next_side = ascending_side(objective, point.weights, side, tolerance)
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
        """The maximum of an objective without corners."""
        point, scale = start, np.ones(objective.num_parameters)
        for limit in (FIRST_ROUND, *[LATER_ROUNDS] * MAX_ROUNDS):
            reached = search(objective, point, scale, self.memory, limit, tolerance, record)
            reached = polish(objective, reached, tolerance, record)
            if max_norm(reached.gradient) <= tolerance or not is_better(reached, point):
                return reached
            point = reached
            variance = point.curvature_diagonal()
            scale = np.sqrt(np.maximum(variance, MIN_VARIANCE * variance.max(initial=0.0)))
            scale = np.where(scale > 0, scale, 1.0)
        return point


def ascending_side(
    objective: PenalizedObjective, weights: np.ndarray, side: np.ndarray, tolerance: float
) -> np.ndarray:
    """float64[num_parameters], the side of zero to continue on: of weights at the edge, the other
    one if that ascends and this one does not."""
    edge = objective.corners & (np.abs(weights) <= EDGE)
    if not edge.any():
        return side
    slopes = []
    for each in (side, -side):
        facing = objective.within_orthant(np.where(edge, each, side))
        slopes.append(each * facing.evaluate(facing.clip(weights)).gradient)
    return np.where(edge & (slopes[0] <= 0) & (slopes[1] > tolerance), -side, side)


def search(
    objective: PenalizedObjective,
    start: Point,
    scale: np.ndarray,
    memory: int,
    max_iterations: int,
    tolerance: float,
    record: Callable[[Point], None],
) -> Point:
    """scipy's L-BFGS-B, until the gradient is small or values no longer tell steps apart."""
    if max_norm(start.gradient) <= tolerance:
        return start
    from scipy.optimize import Bounds, minimize

    split = split_weights(objective, scale)
    last = start
    # The first step of the search has the length of the gradient: about one, in this unit.
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
                "learning diverged: the objective is not a number at weights that were tried",
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
    """Whether a round has led anywhere."""
    if max_norm(point.gradient) < max_norm(before.gradient):
        return True
    return point.value is not None and before.value is not None and point.value > before.value


@dataclass(frozen=True)
class Split:
    """x = (p, q), in units of the scale: w = p, and w = p − q where it is penalised."""

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
        """Σ λ (p + q), which is Σ λ |w| where one of them is zero."""
        size, l1 = len(self.l1), self.l1 / self.scale
        return float(l1 @ x[:size] + l1[self.penalised] @ x[size:])

    def gradient(self, smooth: np.ndarray) -> np.ndarray:
        up, down = (smooth - self.l1) / self.scale, (-smooth - self.l1) / self.scale
        return np.concatenate([up, down[self.penalised]])

    def bounds(self, objective: PenalizedObjective) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of p and q (w = p − q): those of w, and p, q ≥ 0."""
        lower = self.scale * (-np.inf if objective.lower is None else objective.lower)
        upper = self.scale * (np.inf if objective.upper is None else objective.upper)
        least = np.where(self.l1 > 0, 0.0, -np.inf)
        mirrored_lower, mirrored_upper = -upper[self.penalised], -lower[self.penalised]
        return (
            np.concatenate([np.maximum(lower, least), np.maximum(mirrored_lower, 0.0)]),
            np.concatenate([np.maximum(upper, least), np.maximum(mirrored_upper, 0.0)]),
        )


def split_weights(objective: PenalizedObjective, scale: np.ndarray) -> Split:
    l1 = np.zeros(objective.num_parameters) if objective.l1 is None else objective.l1
    return Split(scale, l1, np.flatnonzero(l1 > 0))


def polish(
    objective: PenalizedObjective, point: Point, tolerance: float, record: Callable[[Point], None]
) -> Point:
    """Newton steps on the weights that are free to move, until the gradient is small."""
    for _ in range(MAX_NEWTON_STEPS):
        if max_norm(point.gradient) <= tolerance:
            break
        step = newton_step(point, objective.movable(point), tolerance)
        better = take_newton_step(objective, point, step)
        if better is None:
            break
        point = better
        record(point)
    return point


def newton_step(point: Point, free: np.ndarray, tolerance: float) -> np.ndarray:
    """s with H s = g on the free weights, by conjugate gradients; zero elsewhere.

    H s comes as near to g as a tenth of the tolerance, which is what the step is for; each product
    costs several evaluations.
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
    """The first of the step, its half, its quarter, … that leaves a smaller gradient.

    Never down by more than rounding: where the objective is not concave, a saddle may lie there.
    """
    for halving in range(MAX_HALVINGS):
        proposal = objective.project(point, point.weights + 0.5**halving * step)
        reached = objective.evaluate(proposal)
        if max_norm(reached.gradient) < max_norm(point.gradient) and not falls(point, reached):
            return reached
    return None


def falls(before: Point, after: Point) -> bool:
    """Whether the value went down, beyond rounding."""
    if before.value is None or after.value is None:
        return False
    return after.value < before.value - MAX_FALL * abs(before.value)
