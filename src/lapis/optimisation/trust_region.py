"""Step lengths from the curvature along a direction, with a trust region.

Thesis section 4.2.4, after Møller (1993) and Fletcher (1987, "Practical methods of optimization").
A line search needs values, and the likelihood of a Markov logic network can rarely be computed. Its
curvature along a direction, the variance of Σ d_i n_i, can be sampled. If f is minimised, the step
is α d with

    α = −dᵀg / (dᵀHd + λ dᵀd)

where λ keeps the step within the region in which the quadratic model holds. After the step,

    Δpred = sᵀg + ½ sᵀHs           Δactual = sᵀg_new, or the change of the value if available
    Δactual/Δpred > 0.75: λ/2      < 0.25: 4λ      worse than before: rejected, repeated with 4λ

sᵀg_new bounds the change of a convex function from above, so the test accepts no bad step. Here f
is maximised: g and all Δ change their signs, the formulas stay the same.

Our additions, for floating point and for gradients from few samples:
- After a rejection λ is at least a quarter of the curvature along d. A λ that was halved a hundred
  times would otherwise need as many rejections to have an effect.
- Five samples have no variance along most directions. A sampled dᵀHd is taken as at least a tenth
  of dᵀMd, where M are the variances averaged over iterations.
- Near the maximum a sampled sᵀg_new is negative half of the time, and sᵀg is too large because s
  is correlated with the noise of g. Without correction λ grows without limit and the weights stop
  moving. So a step is rejected only if sᵀg_new is two standard errors below zero, λ grows only if
  the ratio is too small beyond the noise, and the steps of iteration t are at least 1/(2 + t/10)
  of the length without λ: the rate at which averaging removes noise.
- After two rejections in a row a sampled point is sampled again.
- Near the maximum the difference of two values is rounding error. There the change is taken as
  ½ sᵀ(g + g_new), which is exact for quadratics.

What did not help: measuring the length in the metric of the variances, λ dᵀMd.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.optimisation.objective import PenalizedObjective, Point

TRUSTED, DOUBTED = 0.75, 0.25
SHRINK, GROW = 0.5, 4.0
MIN_DAMPING = 1e-30  # positive, so that λ can grow again
MIN_SAMPLED_CURVATURE = 0.1
REJECTED = 2.0  # standard errors
VALUE_PRECISION = 1e-9  # relative; smaller differences of values may be rounding
SLOWING = 10  # sampled steps of iteration t are at least 1/(2 + t/SLOWING) of their length at λ = 0
MAX_REJECTIONS = 2  # of a sampled point before it is sampled again


class StepTrial(NamedTuple):
    """The outcome of a step."""

    accepted: bool
    point: Point  # the current point after the step
    damping: float  # λ for the next step


def try_step(
    objective: PenalizedObjective,
    origin: Point,
    direction: np.ndarray,
    metric: np.ndarray,
    damping: float,
    iteration: int,
) -> StepTrial:
    """Try the step of length α along a direction: one evaluation.

    `metric` is M, which scaled the gradient in the direction: its diagonal, float64[P], or all of
    it, float64[P, P].
    """
    direction = objective.align(origin, direction)
    slope = float(direction @ origin.gradient)
    length = float(direction @ direction)
    if slope <= 0 or length == 0:
        return StepTrial(False, origin, damping)
    curvature = curvature_along(origin, direction)
    stiffness = curvature / length
    if origin.gradient_stderr is not None:
        scaled = metric * direction if metric.ndim == 1 else metric @ direction
        averaged = float(direction @ scaled) / length
        stiffness = max(stiffness, MIN_SAMPLED_CURVATURE * averaged)
        damping = min(damping, stiffness * (1 + iteration / SLOWING))
    alpha = slope / length / (stiffness + damping)
    unprojected = origin.weights + alpha * direction
    proposal = objective.project(origin, unprojected)
    reached = objective.evaluate(proposal)
    step = proposal - origin.weights
    is_straight = np.array_equal(proposal, unprojected)
    step_curvature = alpha**2 * curvature if is_straight else curvature_along(origin, step)
    predicted = float(step @ origin.gradient) - 0.5 * step_curvature
    actual = find_gain(origin, reached)
    noise = gain_stderr(origin, step_curvature)
    # Written such that NaN is rejected, too.
    if not (predicted > 0 and actual >= -REJECTED * noise):
        return StepTrial(False, origin, max(GROW * damping, stiffness / GROW))
    if actual > TRUSTED * predicted:
        damping = max(SHRINK * damping, MIN_DAMPING)
    elif actual + noise < DOUBTED * (predicted - expected_noise_gain(origin, metric, alpha)):
        damping = GROW * damping
    return StepTrial(True, reached, damping)


def curvature_along(point: Point, direction: np.ndarray) -> float:
    """Compute dᵀHd."""
    return max(float(direction @ point.curvature_product(direction)), 0.0)


def find_gain(origin: Point, reached: Point) -> float:
    """Compute Δactual, the gain of a step; a lower bound of it if there are no values."""
    step = reached.weights - origin.weights
    slope, bound = float(step @ origin.gradient), float(step @ reached.gradient)
    if origin.value is None or reached.value is None:
        return bound
    difference = reached.value - origin.value
    if max(abs(difference), slope) <= VALUE_PRECISION * max(abs(origin.value), 1.0):
        return 0.5 * (slope + bound)
    return difference


def gain_stderr(origin: Point, step_curvature: float) -> float:
    """Compute the standard error of a sampled sᵀg_new; 0 if gradients are exact.

    The variance of sᵀn is sᵀHs. Its mean over the samples has this variance divided by the
    effective number of samples, which is Σ H_ii / Σ stderr_i².
    """
    if origin.gradient_stderr is None:
        return 0.0
    variance = float(origin.curvature_diagonal().sum())
    noise = float(np.square(origin.gradient_stderr).sum())
    return float(np.sqrt(step_curvature * noise / variance)) if variance > 0 else 0.0


def expected_noise_gain(origin: Point, metric: np.ndarray, alpha: float) -> float:
    """Compute the expectation of sᵀg due to noise, since s depends on g: α tr(M⁻¹ N).

    N is the covariance of the noise. Of it the diagonal is available, stderr²; its correlations
    are taken to be those of M.
    """
    if origin.gradient_stderr is None:
        return 0.0
    if metric.ndim == 1:
        return alpha * float((np.square(origin.gradient_stderr) / metric).sum())
    share = origin.gradient_stderr / np.sqrt(np.diag(metric))
    return alpha * float(np.trace(np.linalg.solve(metric, share[:, None] * metric * share)))


def resample_rejected(
    objective: PenalizedObjective, point: Point, rejections: int
) -> tuple[Point, int]:
    """Return the point to continue from and its rejections; sample it again after too many."""
    if point.gradient_stderr is None or rejections < MAX_REJECTIONS:
        return point, rejections
    return objective.evaluate(point.weights), 0
