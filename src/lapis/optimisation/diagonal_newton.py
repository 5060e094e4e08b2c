"""Newton's method with the curvature's diagonal: each weight is scaled by its count's variance.

Thesis section 4.2.4 (after Becker and LeCun 1988): d_i = g_i / Var(n_i), with the step along d from
`trust_region`, which uses the full curvature. It costs no more than gradient ascent and is not
held up by counts of different magnitudes; correlated counts still hold it up.

Variances of five samples are rough, and zero for a count that happened not to change. So a sampled
variance is averaged over iterations, starting from the true count, which the thesis (4.2.3) takes
for a stand-in of the variance, and no sampled direction asks for a step of more than `MAX_STEP`
in a weight: weights are log-odds. An exact variance is used as it is; one that is zero beside the
others (a count that never varies) is floored, since the gradient there is zero or the data is
separable. Flooring alone, without the average, took three times as many iterations on rare words.
Where gradients are sampled, an average of the recent iterations is returned (`gradient_ascent`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lapis.optimisation.gradient_ascent import follow
from lapis.optimisation.history import AveragedState
from lapis.optimisation.objective import PenalizedObjective, Point
from lapis.optimisation.trust_region import renew, try_step
from lapis.registry.option_field import option

MEMORY = 10  # iterations that an averaged variance remembers
MAX_STEP = 10.0
MIN_VARIANCE = 1e-12  # of the largest


@dataclass(frozen=True)
class DiagonalNewtonState(AveragedState):
    """Where the run stands."""

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
        point, rejections = renew(objective, trial.point, rejections)
        iteration = state.iteration + 1
        variance = state.variance
        if point is not state.point:
            variance = estimate_variance(objective, point, variance, iteration)
        average = follow(objective, state.average, point, iteration)
        return DiagonalNewtonState(point, iteration, average, trial.damping, variance, rejections)


def estimate_variance(
    objective: PenalizedObjective, point: Point, earlier: np.ndarray | None, iteration: int
) -> np.ndarray:
    """float64[num_parameters], never zero: the curvature's diagonal, averaged where sampled."""
    variance = point.curvature_diagonal()
    if point.gradient_stderr is not None:
        if earlier is None:
            earlier = np.maximum(objective.true_counts, 1.0)
        variance = earlier + (variance - earlier) / min(iteration + 2, MEMORY)
    largest = float(variance.max(initial=0.0))
    return np.maximum(variance, MIN_VARIANCE * largest if largest > 0 else 1.0)


def scale_by_variance(point: Point, variance: np.ndarray) -> np.ndarray:
    """g / variance; within ±MAX_STEP where it was sampled."""
    scaled = point.gradient / variance
    if point.gradient_stderr is None:
        return scaled
    return np.clip(scaled, -MAX_STEP, MAX_STEP)
