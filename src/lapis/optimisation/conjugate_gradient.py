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
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lapis.optimisation.diagonal_newton import estimate_variance, scale_by_variance
from lapis.optimisation.gradient_ascent import update_average
from lapis.optimisation.history import AveragedState
from lapis.optimisation.objective import PenalizedObjective, Point
from lapis.optimisation.trust_region import resample_rejected, try_step
from lapis.registry.option_field import option

PERIOD = 100  # accepted steps between restarts, at most


@dataclass(frozen=True)
class ConjugateGradientState(AveragedState):
    """The state of (preconditioned) scaled conjugate gradients."""

    damping: float  # λ
    variance: np.ndarray  # float64[num_parameters], M; ones for SCG
    direction: np.ndarray  # float64[num_parameters], of the next step
    rejections: int  # in a row
    age: int  # accepted steps since the last restart


@dataclass(frozen=True)
class ConjugateGradient:
    """SCG, or PSCG if `preconditioned`."""

    preconditioned: bool = True
    damping: float = option(1.0, "λ at the start: larger means shorter first steps", low=0)
    state_type: type[ConjugateGradientState] = ConjugateGradientState

    @property
    def name(self) -> str:
        return "pscg" if self.preconditioned else "scg"

    def init(self, objective: PenalizedObjective, point: Point) -> ConjugateGradientState:
        variance = self.find_metric(objective, point, None, 0)
        direction = self.precondition(point, variance)
        return ConjugateGradientState(
            point, 0, point.weights, self.damping, variance, direction, 0, 0
        )

    def step(
        self, objective: PenalizedObjective, state: ConjugateGradientState
    ) -> ConjugateGradientState:
        trial = try_step(
            objective, state.point, state.direction, state.variance, state.damping, state.iteration
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
        point, variance = after.point, before.variance
        if point.gradient_stderr is not None:
            variance = self.find_metric(objective, point, variance, after.iteration)
        scaled = self.precondition(point, variance)
        direction = objective.align(point, scaled + self.momentum(before, point, scaled))
        same_face = objective.is_unconstrained or np.array_equal(
            point.gradient == 0, before.point.gradient == 0
        )
        is_young = before.age + 1 < min(4 * objective.num_parameters, PERIOD)
        if moved and same_face and is_young and float(direction @ point.gradient) > 0:
            return replace(after, variance=variance, direction=direction, age=before.age + 1)
        if point.gradient_stderr is None:
            variance = self.find_metric(objective, point, variance, after.iteration)
            scaled = self.precondition(point, variance)
        return replace(after, variance=variance, direction=scaled, age=0)

    def momentum(
        self, state: ConjugateGradientState, point: Point, scaled: np.ndarray
    ) -> np.ndarray:
        """Compute β d_old."""
        before = float(self.precondition(state.point, state.variance) @ state.point.gradient)
        change = point.gradient - state.point.gradient
        beta = max(float(scaled @ change) / before, 0.0) if before > 0 else 0.0
        return beta * state.direction

    def find_metric(
        self,
        objective: PenalizedObjective,
        point: Point,
        earlier: np.ndarray | None,
        iteration: int,
    ) -> np.ndarray:
        """Return the diagonal of M, float64[num_parameters]."""
        if not self.preconditioned:
            return np.ones(objective.num_parameters)
        return estimate_variance(objective, point, earlier, iteration)

    def precondition(self, point: Point, variance: np.ndarray) -> np.ndarray:
        """Compute z = M⁻¹ g."""
        return scale_by_variance(point, variance) if self.preconditioned else point.gradient
