"""Diagonal Newton: the gradient of each weight is divided by the variance of its count.

Thesis section 4.2.4, after Becker and LeCun (1988, "Improving the convergence of back-propagation
learning with second order methods"): d_i = g_i / Var(n_i). The step along d comes from
`trust_region`, which uses the full curvature. It costs no more than gradient ascent. Counts of
different magnitudes do not slow it down; correlated counts do.

Variances of five samples are rough, and zero for a count that did not change in any sample. So
sampled variances are averaged over iterations, starting from the true count, the thesis's
substitute for the variance (4.2.3). A sampled direction changes no weight by more than `MAX_STEP`
(weights are log-odds). Exact variances are used unchanged, except that zeros are floored: the count
never varies, and its gradient is zero or the data is separable. Flooring alone, without the
average, took three times as many iterations on rare words. The answer for a sampled objective is an
average over recent iterations (`gradient_ascent`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lapis.optimisation.gradient_ascent import update_average
from lapis.optimisation.history import AveragedState
from lapis.optimisation.objective import PenalizedObjective, Point
from lapis.optimisation.trust_region import resample_rejected, try_step
from lapis.registry.option_field import option

MEMORY = 10  # iterations in the average of a variance
MAX_STEP = 10.0
MIN_VARIANCE = 1e-12  # relative to the largest


@dataclass(frozen=True)
class DiagonalNewtonState(AveragedState):
    """The state of diagonal Newton."""

    damping: float  # λ
    variance: np.ndarray  # float64[num_parameters], of the counts
    rejections: int  # in a row


@dataclass(frozen=True)
class DiagonalNewton:
    """d = g / diagonal of the curvature."""

    damping: float = option(1.0, "λ at the start: larger means shorter first steps", low=0)
    name: str = "dn"
    state_type: type[DiagonalNewtonState] = DiagonalNewtonState

    def init(self, objective: PenalizedObjective, point: Point) -> DiagonalNewtonState:
        variance = estimate_variance(objective, point, None, 0)
        return DiagonalNewtonState(point, 0, point.weights, self.damping, variance, 0)

    def step(
        self, objective: PenalizedObjective, state: DiagonalNewtonState
    ) -> DiagonalNewtonState:
        direction = scale_by_variance(state.point, state.variance)
        trial = try_step(
            objective, state.point, direction, state.variance, state.damping, state.iteration
        )
        rejections = 0 if trial.accepted else state.rejections + 1
        point, rejections = resample_rejected(objective, trial.point, rejections)
        iteration = state.iteration + 1
        variance = state.variance
        if point is not state.point:
            variance = estimate_variance(objective, point, variance, iteration)
        average = update_average(objective, state.average, point, iteration)
        return DiagonalNewtonState(point, iteration, average, trial.damping, variance, rejections)


def estimate_variance(
    objective: PenalizedObjective, point: Point, earlier: np.ndarray | None, iteration: int
) -> np.ndarray:
    """Return the curvature's diagonal, floored above zero; averaged if gradients are sampled."""
    variance = point.curvature_diagonal()
    if point.gradient_stderr is not None:
        if earlier is None:
            earlier = np.maximum(objective.true_counts, 1.0)
        variance = earlier + (variance - earlier) / min(iteration + 2, MEMORY)
    largest = float(variance.max(initial=0.0))
    return np.maximum(variance, MIN_VARIANCE * largest if largest > 0 else 1.0)


def scale_by_variance(point: Point, variance: np.ndarray) -> np.ndarray:
    """Compute g / variance; clipped to ±MAX_STEP if gradients are sampled."""
    scaled = point.gradient / variance
    if point.gradient_stderr is None:
        return scaled
    return np.clip(scaled, -MAX_STEP, MAX_STEP)
