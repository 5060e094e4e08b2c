"""Scaled conjugate gradients, plain (SCG) and preconditioned (PSCG).

Thesis section 4.2.5, from Møller (1993). Each direction keeps what the earlier ones gained:

    d = z + β d_old      β = max(0, z·(g − g_old) / z_old·g_old)      z = M⁻¹ g

(Polak–Ribière; M = 1 for SCG, the counts' variances for PSCG), and the step along d comes from
the curvature, as `trust_region` says, instead of a line search. A rejected step is redone along
the same direction with a larger λ.

Conjugacy is about one metric and one set of weights that may move. So the search restarts from z
when d does not ascend, when an L1 penalty or a bound has changed which weights are held, and after
`PERIOD` accepted steps, or four times as many as there are weights: restarting after as many as
there are weights, as textbooks have it, took five times as long on quadratics of condition 1e6,
where rounding spoils the first round. Where variances are exact, M stays what it was at the
restart: renewing it at each step costs a diagonal an iteration and loses conjugacy. Where they are
sampled, M is the running average of `diagonal_newton`, and so are the weights that are returned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lapis.optimisation.diagonal_newton import estimate_variance, scale_by_variance
from lapis.optimisation.gradient_ascent import follow
from lapis.optimisation.history import AveragedState
from lapis.optimisation.objective import PenalizedObjective, Point
from lapis.optimisation.trust_region import renew, try_step
from lapis.registry.option_field import option

PERIOD = 100  # accepted steps between restarts, at most


@dataclass(frozen=True)
class ConjugateGradientState(AveragedState):
    """The current point and the next direction."""

    damping: float  # λ
    variance: np.ndarray  # float64[num_parameters], M; ones for SCG
    direction: np.ndarray  # float64[num_parameters], of the next step
    rejections: int  # in a row
    age: int  # accepted steps since the last restart


@dataclass(frozen=True)
class ConjugateGradient:
    """SCG, or PSCG where `preconditioned`."""

    preconditioned: bool = True
    damping: float = option(1.0, "λ at the start: larger means shorter first steps", low=0)
    state_type: type[ConjugateGradientState] = ConjugateGradientState

    @property
    def name(self) -> str:
        return "pscg" if self.preconditioned else "scg"

    def init(self, objective: PenalizedObjective, point: Point) -> ConjugateGradientState:
        variance = self.metric(objective, point, None, 0)
        direction = self.scale(point, variance)
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
            point, rejections = renew(objective, point, state.rejections + 1)
        iteration = state.iteration + 1
        after = replace(
            state,
            point=point,
            iteration=iteration,
            damping=trial.damping,
            rejections=rejections,
            average=follow(objective, state.average, point, iteration),
        )
        return after if point is state.point else self.turn(objective, state, after, trial.accepted)

    def turn(
        self,
        objective: PenalizedObjective,
        before: ConjugateGradientState,
        after: ConjugateGradientState,
        moved: bool,
    ) -> ConjugateGradientState:
        """The state with its next direction: conjugate to the last one, or a restart."""
        point, variance = after.point, before.variance
        if point.gradient_stderr is not None:
            variance = self.metric(objective, point, variance, after.iteration)
        scaled = self.scale(point, variance)
        direction = objective.align(point, scaled + self.momentum(before, point, scaled))
        same_face = objective.is_unconstrained or np.array_equal(
            point.gradient == 0, before.point.gradient == 0
        )
        is_young = before.age + 1 < min(4 * objective.num_parameters, PERIOD)
        if moved and same_face and is_young and float(direction @ point.gradient) > 0:
            return replace(after, variance=variance, direction=direction, age=before.age + 1)
        if point.gradient_stderr is None:
            variance = self.metric(objective, point, variance, after.iteration)
            scaled = self.scale(point, variance)
        return replace(after, variance=variance, direction=scaled, age=0)

    def momentum(
        self, state: ConjugateGradientState, point: Point, scaled: np.ndarray
    ) -> np.ndarray:
        """β d_old."""
        before = float(self.scale(state.point, state.variance) @ state.point.gradient)
        change = point.gradient - state.point.gradient
        beta = max(float(scaled @ change) / before, 0.0) if before > 0 else 0.0
        return beta * state.direction

    def metric(
        self,
        objective: PenalizedObjective,
        point: Point,
        earlier: np.ndarray | None,
        iteration: int,
    ) -> np.ndarray:
        if not self.preconditioned:
            return np.ones(objective.num_parameters)
        return estimate_variance(objective, point, earlier, iteration)

    def scale(self, point: Point, variance: np.ndarray) -> np.ndarray:
        """z = M⁻¹ g."""
        return scale_by_variance(point, variance) if self.preconditioned else point.gradient
