"""Scaled conjugate gradients, plain (SCG) and preconditioned (PSCG).

Thesis section 4.2.5, after Møller (1993, "A scaled conjugate gradient algorithm for fast supervised
learning"). Each direction is conjugate to the previous one:

    d = z + β d_old      β = max(0, z·(g − g_old) / z_old·g_old)      z = M⁻¹ g

(Polak–Ribière; M = 1 for SCG, the counts' variances for PSCG). The length of the step along d comes
from the curvature (`trust_region`), not from a line search. A rejected step is repeated along the
same direction with a larger λ.

Conjugacy assumes a fixed metric and a fixed set of movable weights. So the search restarts from z
if d does not ascend, if an L1 penalty or a bound has changed the set of movable weights, and after
min(`PERIOD`, 4 · number of weights) accepted steps. Restarting after as many steps as weights, as
in textbooks, took five times as long on quadratics of condition 1e6, where rounding spoils the
first cycle. Exact variances are computed at restarts only: to update M at each step costs a
diagonal per iteration and loses conjugacy. Sampled variances and the returned weights are running
averages, as in `diagonal_newton`.

For up to `max_covariances` weights the sampled M (our addition) is the whole covariance of the
counts, averaged over recent iterations and shrunk towards its diagonal while samples are few: with
sampled gradients steps shorten, and what is correlated would not arrive. On IMDB with transitivity
34 iterations lead where variances alone lead in over 300. A variance is at least the smaller of 1
and the average that starts at the true counts, so rare counts that samples miss do not leap. After
steps were rejected the next direction is that of the variances alone: without it a run on UW-CSE
stayed where a few samples had seen too little curvature.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lapis.optimisation.diagonal_newton import (
    MAX_STEP,
    estimate_variance,
    scale_by_variance,
)
from lapis.optimisation.gradient_ascent import FORGET, averaging_weight, update_average
from lapis.optimisation.history import MAX_COVARIANCES, AveragedState
from lapis.optimisation.objective import PenalizedObjective, Point
from lapis.optimisation.trust_region import resample_rejected, try_step
from lapis.registry.option_field import option

PERIOD = 100  # accepted steps between restarts, at most
SAMPLES = 5  # of an evaluation, of which there are at least two


@dataclass(frozen=True)
class ConjugateGradientState(AveragedState):
    """The state of (preconditioned) scaled conjugate gradients."""

    damping: float  # λ
    variance: np.ndarray  # float64[num_parameters], of the counts; ones for SCG
    covariance: np.ndarray  # float64[P, P], of the counts; [0, 0] if it is not in use
    direction: np.ndarray  # float64[num_parameters], of the next step
    rejections: int  # in a row
    age: int  # accepted steps since the last restart

    @property
    def metric(self) -> np.ndarray:
        """M or its diagonal, float64[P, P] or float64[P]."""
        if not self.covariance.size:
            return self.variance
        share = 1 / (1 + len(self.variance) / (SAMPLES * (1 + 2 * self.iteration / (1 + FORGET))))
        least = np.minimum(self.variance, 1.0)
        matrix: np.ndarray = share * self.covariance
        np.fill_diagonal(matrix, np.maximum(np.diag(self.covariance), least))
        return matrix


@dataclass(frozen=True)
class ConjugateGradient:
    """SCG, or PSCG if `preconditioned`."""

    preconditioned: bool = True
    damping: float = option(1.0, "λ at the start: larger means shorter first steps", low=0)
    max_covariances: int = option(
        MAX_COVARIANCES,
        "weights up to which sampled pscg uses covariances; 0: variances alone, as in the thesis",
        low=0,
    )
    state_type: type[ConjugateGradientState] = ConjugateGradientState

    @property
    def name(self) -> str:
        return "pscg" if self.preconditioned else "scg"

    def init(self, objective: PenalizedObjective, point: Point) -> ConjugateGradientState:
        nothing, none = np.zeros(objective.num_parameters), np.zeros((0, 0))
        state = ConjugateGradientState(
            point, 0, point.weights, self.damping, nothing, none, nothing, 0, 0
        )
        state = self.update_metric(objective, state, None)
        return replace(state, direction=self.precondition(point, state.metric))

    def step(
        self, objective: PenalizedObjective, state: ConjugateGradientState
    ) -> ConjugateGradientState:
        trial = try_step(
            objective, state.point, state.direction, state.metric, state.damping, state.iteration
        )
        point, rejections = trial.point, 0
        if not trial.accepted:
            point, rejections = resample_rejected(objective, point, state.rejections + 1)
        iteration = state.iteration + 1
        after = replace(
            state,
            point=point,
            iteration=iteration,
            damping=trial.damping,
            rejections=rejections,
            average=update_average(objective, state.average, point, iteration),
        )
        if point is state.point:
            return after
        return self.choose_direction(objective, state, after, trial.accepted)

    def choose_direction(
        self,
        objective: PenalizedObjective,
        before: ConjugateGradientState,
        after: ConjugateGradientState,
        moved: bool,
    ) -> ConjugateGradientState:
        """Return the state with its next direction: conjugate to the last one, or a restart."""
        point = after.point
        if point.gradient_stderr is not None:
            after = self.update_metric(objective, after, before)
            if not moved:
                # Where sampled covariances mislead, variances lead on.
                return replace(after, direction=self.precondition(point, after.variance), age=0)
        scaled = self.precondition(point, after.metric)
        direction = objective.align(point, scaled + self.momentum(before, point, scaled))
        same_face = objective.is_unconstrained or np.array_equal(
            point.gradient == 0, before.point.gradient == 0
        )
        is_young = before.age + 1 < min(4 * objective.num_parameters, PERIOD)
        if moved and same_face and is_young and float(direction @ point.gradient) > 0:
            return replace(after, direction=direction, age=before.age + 1)
        if point.gradient_stderr is None:
            after = self.update_metric(objective, after, before)
            scaled = self.precondition(point, after.metric)
        return replace(after, direction=scaled, age=0)

    def momentum(
        self, state: ConjugateGradientState, point: Point, scaled: np.ndarray
    ) -> np.ndarray:
        """Compute β d_old."""
        before = float(self.precondition(state.point, state.metric) @ state.point.gradient)
        change = point.gradient - state.point.gradient
        beta = max(float(scaled @ change) / before, 0.0) if before > 0 else 0.0
        return beta * state.direction

    def update_metric(
        self,
        objective: PenalizedObjective,
        state: ConjugateGradientState,
        before: ConjugateGradientState | None,
    ) -> ConjugateGradientState:
        """Return the state with the variances and covariances at its point."""
        point, iteration = state.point, state.iteration
        if not self.preconditioned:
            return replace(state, variance=np.ones(objective.num_parameters))
        earlier = None if before is None else before.variance
        variance = estimate_variance(objective, point, earlier, iteration)
        if point.gradient_stderr is None or objective.num_parameters > self.max_covariances:
            return replace(state, variance=variance)
        covariance = point.curvature_matrix
        if before is not None:
            share = averaging_weight(iteration, FORGET)
            covariance = before.covariance + share * (covariance - before.covariance)
        return replace(state, variance=variance, covariance=covariance)

    def precondition(self, point: Point, metric: np.ndarray) -> np.ndarray:
        """Compute z = M⁻¹ g."""
        if not self.preconditioned:
            return point.gradient
        return scale_by_variance(point, metric) if metric.ndim == 1 else solve_metric(point, metric)


def solve_metric(point: Point, metric: np.ndarray) -> np.ndarray:
    """Compute M⁻¹ g; no weight changes by more than MAX_STEP."""
    root = 1 / np.sqrt(np.diag(metric))
    direction = root * np.linalg.solve(root[:, None] * metric * root, root * point.gradient)
    return direction / max(1.0, float(np.abs(direction).max(initial=0.0)) / MAX_STEP)
