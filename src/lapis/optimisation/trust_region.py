"""Steps whose length the curvature decides and whose outcome decides how far to trust it.

Thesis section 4.2.4, from Møller (1993) and Fletcher (1987). A line search needs values, and the
likelihood of a Markov logic network has none that could be computed; its curvature along a
direction, the variance of Σ d_i n_i, can be sampled. Where f is minimised, the step is α d with

    α = −dᵀg / (dᵀHd + λ dᵀd)

and λ keeps it within the region where the quadratic model holds. After the step,

    Δpred = sᵀg + ½ sᵀHs           Δactual = sᵀg_new, or the true change where values are known
    Δactual/Δpred > 0.75: λ/2      < 0.25: 4λ      worse than before: rejected, redone with 4λ

sᵀg_new bounds the change of a convex function from above, so a step that it calls good is good.
Here f is maximised: g and all Δ change their signs, the formulas stay.

Additions, for values in floating point and for gradients from a few samples:
- A λ that was halved a hundred times takes as many rejections to matter again; after a rejection
  it is at least a quarter of the curvature along d.
- Five samples have no variance at all along most directions. A sampled dᵀHd counts as at least a
  tenth of dᵀMd, M the variances that the optimiser has averaged over iterations.
- A sampled sᵀg_new is negative half of the time near the maximum, and sᵀg is too large, since s
  follows the noise of g. Taken at their word, λ grows without end and freezes the weights where
  they are. So a step is rejected when sᵀg_new is two standard errors below zero, λ grows when the
  ratio is too small beyond the noise, and it never shortens the steps of iteration t to less than
  1/(2 + t/10) of what the curvature suggests: the pace at which averaging removes noise.
- After two rejections in a row a sampled point is sampled anew: its gradient was unlucky.
- Near the maximum a difference of two values is rounding error; there the change is taken as
  ½ sᵀ(g + g_new), which is exact for quadratics.

Measuring length in the metric of the variances, λ dᵀMd, made no consistent difference on six kinds
of problems, exact and sampled, so it stays dᵀd.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.optimisation.objective import PenalizedObjective, Point

TRUSTED, DOUBTED = 0.75, 0.25
SHRINK, GROW = 0.5, 4.0
MIN_DAMPING = 1e-30  # halving must not end at zero, which no factor brings back
MIN_SAMPLED_CURVATURE = 0.1
REJECTED = 2.0  # standard errors
VALUE_PRECISION = 1e-9  # of the value: smaller differences are not read off it
SLOWING = 10  # iterations after which sampled steps may shrink to half of the least, a third, …
MAX_REJECTIONS = 2  # of a sampled point before it is sampled anew


class StepTrial(NamedTuple):
    """A step that was tried."""

    accepted: bool
    point: Point  # the current point afterwards
    damping: float  # λ for the next step


def try_step(
    objective: PenalizedObjective,
    origin: Point,
    direction: np.ndarray,
    variance: np.ndarray,
    damping: float,
    iteration: int,
) -> StepTrial:
    """One evaluation: the step along a direction that the curvature and λ suggest.

    `variance` float64[num_parameters] is M, what scaled the gradient that the direction follows.
    """
    direction = objective.align(origin, direction)
    slope = float(direction @ origin.gradient)
    length = float(direction @ direction)
    if slope <= 0 or length == 0:
        return StepTrial(False, origin, damping)
    curvature = curvature_along(origin, direction)
    stiffness = curvature / length
    if origin.gradient_stderr is not None:
        averaged = float(direction @ (variance * direction)) / length
        stiffness = max(stiffness, MIN_SAMPLED_CURVATURE * averaged)
        damping = min(damping, stiffness * (1 + iteration / SLOWING))
    alpha = slope / length / (stiffness + damping)
    unhindered = origin.weights + alpha * direction
    proposal = objective.project(origin, unhindered)
    reached = objective.evaluate(proposal)
    step = proposal - origin.weights
    is_straight = np.array_equal(proposal, unhindered)
    bend = alpha**2 * curvature if is_straight else curvature_along(origin, step)
    predicted = float(step @ origin.gradient) - 0.5 * bend
    actual = find_gain(origin, reached)
    noise = gain_stderr(origin, bend)
    # Written so that a value or gradient that is not a number is worse than before, too.
    if not (predicted > 0 and actual >= -REJECTED * noise):
        return StepTrial(False, origin, max(GROW * damping, stiffness / GROW))
    if actual > TRUSTED * predicted:
        damping = max(SHRINK * damping, MIN_DAMPING)
    elif actual + noise < DOUBTED * (predicted - optimism(origin, variance, alpha)):
        damping = GROW * damping
    return StepTrial(True, reached, damping)


def curvature_along(point: Point, direction: np.ndarray) -> float:
    """dᵀHd."""
    return max(float(direction @ point.curvature_product(direction)), 0.0)


def find_gain(origin: Point, reached: Point) -> float:
    """Δactual: the gain of a step, or a lower bound where no values are known.

    Not a number where the value reached is none.
    """
    step = reached.weights - origin.weights
    slope, bound = float(step @ origin.gradient), float(step @ reached.gradient)
    if origin.value is None or reached.value is None:
        return bound
    difference = reached.value - origin.value
    if max(abs(difference), slope) <= VALUE_PRECISION * max(abs(origin.value), 1.0):
        return 0.5 * (slope + bound)
    return difference


def gain_stderr(origin: Point, bend: float) -> float:
    """The standard error of a sampled sᵀg_new; 0 where gradients are exact.

    The variance of sᵀn is sᵀHs, and its mean over the samples has that variance divided by their
    effective number, which the gradient's own standard errors tell: Σ H_ii / Σ stderr_i².
    """
    if origin.gradient_stderr is None:
        return 0.0
    variance = float(origin.curvature_diagonal().sum())
    noise = float(np.square(origin.gradient_stderr).sum())
    return float(np.sqrt(bend * noise / variance)) if variance > 0 else 0.0


def optimism(origin: Point, variance: np.ndarray, alpha: float) -> float:
    """What noise alone adds to sᵀg, since s follows g: α Σ stderr_i² / M_ii."""
    if origin.gradient_stderr is None:
        return 0.0
    return alpha * float((np.square(origin.gradient_stderr) / variance).sum())


def renew(objective: PenalizedObjective, point: Point, rejections: int) -> tuple[Point, int]:
    """The point to continue from and its rejections: sampled anew after too many of them."""
    if point.gradient_stderr is None or rejections < MAX_REJECTIONS:
        return point, rejections
    return objective.evaluate(point.weights), 0
