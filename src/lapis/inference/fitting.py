"""Fit weights until formulas have the probabilities stated for them.

The distribution closest to a model P₀ among those with E[n_i] = p_i·N_i is the I-projection
(Csiszár 1975, I-Divergence Geometry of Probability Distributions)

    P(x) ∝ P₀(x) · exp(Σ_i θ_i n_i(x)),     θ = argmin log Z(θ) − Σ_i θ_i p_i N_i,

a convex problem whose gradient is E_θ[n_i] − p_i·N_i. Iterative proportional fitting (Deming and
Stephan 1940) changes one θ_i at a time by logit p_i − logit E[n_i]/N_i, which needs as many
inferences a round as there are constraints. We change all of them at once: the first step is that
of proportional fitting in every coordinate, exact for independent constraints, and later steps
are those of BFGS. The line search looks at the slope only. Near the minimum log Z cannot
distinguish two points whose gradients differ by 1e-9, and sampled inference has no log Z; the slope
along a direction increases, as log Z is convex, so its sign is enough.

Constraints that contradict each other have no minimum: the weights grow without end, and the
deviations stay. Constraints that hold only in the limit (P(A) = P(B) beside A => B) converge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lapis.errors import LapisError
from lapis.inference.marginals import Answered, InferenceOptions
from lapis.inference.solve import infer_problem
from lapis.problem.problem import Problem
from lapis.problem.stated_probabilities import Constraint
from lapis.problem.task import World
from lapis.runtime.progress import Progress, report_progress

TOLERANCE = 1e-9  # of the share of true groundings, where inference is exact
CONTRADICTION = 1e-6  # a larger deviation at the end is refused, where inference is exact
MAX_ROUNDS, MAX_SAMPLED_ROUNDS = 200, 30
MAX_STEPS = 12  # of a line search
LARGEST_STEP = 8.0  # change of a weight in one step
CURVATURE, OVERSHOOT = 0.9, 0.5  # slopes accepted, relative to the first one
LEAST_SHARE = 1e-15
MOST_NAMED = 8


class FitResult(NamedTuple):
    """A world with fitted weights, and its answer if one was computed with them."""

    world: World
    answered: Answered | None
    diagnostics: dict[str, Any]


class ConstraintPoint(NamedTuple):
    """Changes of weights, and what inference finds at them."""

    change: np.ndarray  # float64[num_constraints], θ
    share: np.ndarray  # float64[num_constraints], expected share of true groundings
    deviation: np.ndarray  # float64[num_constraints], share − probability
    answered: Answered

    @property
    def largest(self) -> float:
        return float(np.abs(self.deviation).max())


def fit_world(world: World, method: str, options: InferenceOptions) -> FitResult:
    """Fit the weights of all constraints of a world: first those without evidence."""
    if not world.constraints:
        return FitResult(world, None, {})
    rows: list[dict[str, Any]] = []
    notes: dict[str, Any] = {"constraints": rows}
    answered: Answered | None = None
    weights = world.problem.weight_table.value.copy()
    for posterior in (False, True):
        own = [each for each in world.constraints if each.posterior == posterior]
        problem = world.problem if posterior else world.prior
        if not own or problem is None:
            continue
        fitting = ConstraintFitting(problem, own, weights, method, options)
        found = fitting.fit()
        weights[fitting.ids] += found.change
        answered = found.answered if posterior else None
        rows += fitting.rows(found)
        name = "posterior" if posterior else "prior"
        notes[f"{name}_rounds"] = fitting.num_rounds
        notes[f"{name}_deviation"] = found.largest
        notes[f"{name}_fitted"] = found.largest <= fitting.tolerance(found)
    return FitResult(world._replace(problem=world.problem.with_weights(weights)), answered, notes)


class ConstraintFitting:
    """One problem, the constraints on it, and the inferences so far."""

    def __init__(
        self,
        problem: Problem,
        constraints: Sequence[Constraint],
        weights: np.ndarray,
        method: str,
        options: InferenceOptions,
    ) -> None:
        self.problem, self.constraints = problem, constraints
        self.weights = weights[: len(problem.weight_table.value)]
        self.method, self.options = method, options
        self.ids = np.array([each.weight_id for each in constraints], np.int64)
        self.groundings = np.array([each.groundings for each in constraints], np.float64)
        self.target = np.array([each.probability for each in constraints])
        self.num_rounds = 0

    def infer(self, change: np.ndarray) -> ConstraintPoint:
        """Infer at some changes of the weights."""
        weights = self.weights.copy()
        weights[self.ids] += change
        answered = infer_problem(self.problem.with_weights(weights), self.method, self.options)
        share = answered[1].expected_count[self.ids] / self.groundings
        return ConstraintPoint(change, share, share - self.target, answered)

    def fit(self) -> ConstraintPoint:
        """Return the point at which all constraints hold, as far as inference can tell."""
        point = self.infer(np.zeros(len(self.ids)))
        self.refuse_decided(point)
        best = point
        inverse = InverseHessian(point.share)
        limit = MAX_ROUNDS if point.answered[1].exact else MAX_SAMPLED_ROUNDS
        while best.largest > self.tolerance(best) and self.num_rounds < limit:
            if self.options.stop is not None and self.options.stop():
                break
            if self.num_rounds == 0:
                direction = limit_step(logit_of_share(self.target) - logit_of_share(point.share))
            else:
                direction = inverse.step(self.scaled(point))
            found = self.search(point, direction)
            inverse.update(found.change - point.change, self.scaled(found) - self.scaled(point))
            if np.array_equal(found.change, point.change):
                break
            point, best = found, min(best, found, key=lambda each: each.largest)
            self.num_rounds += 1
            text = f"round {self.num_rounds}, largest deviation {best.largest:.1e}"
            report_progress(self.options.progress, Progress("fitting", self.num_rounds, text=text))
        self.refuse_contradiction(best)
        return best

    def scaled(self, point: ConstraintPoint) -> np.ndarray:
        """Return the gradient, float64[num_constraints]."""
        return point.deviation * self.groundings

    def search(self, point: ConstraintPoint, direction: np.ndarray) -> ConstraintPoint:
        """Return a point along a direction at which the slope has become flat enough."""
        first = float(self.scaled(point) @ direction)
        if not first < 0:
            return point
        low, high, length = 0.0, np.inf, 1.0
        low_slope, best = first, point
        for _ in range(MAX_STEPS):
            found = self.infer(point.change + length * direction)
            slope = float(self.scaled(found) @ direction)
            best = found
            if CURVATURE * first <= slope <= -OVERSHOOT * first:
                break
            if slope < 0:
                low, low_slope = length, slope
                length = min(4.0 * length, (length + high) / 2)
            else:
                share = low_slope / (low_slope - slope)
                high, length = length, low + (length - low) * min(max(share, 0.1), 0.9)
            if not np.isfinite(length) or np.abs(length * direction).max() > 4 * LARGEST_STEP:
                break
        return best

    def tolerance(self, point: ConstraintPoint) -> float:
        """Return the deviation that counts as fitted."""
        return TOLERANCE if point.answered[1].exact else self.options.precision

    def rows(self, found: ConstraintPoint) -> list[dict[str, Any]]:
        """Return the constraints with their fitted weights, for the diagnostics."""
        return [
            {
                "formula": each.name,
                "probability": each.probability,
                "posterior": each.posterior,
                "weight": weight,
                "fitted": share,
            }
            for each, weight, share in zip(
                self.constraints, found.change.tolist(), found.share.tolist(), strict=True
            )
        ]

    def refuse_decided(self, point: ConstraintPoint) -> None:
        """Raise if a formula is certain before anything is fitted."""
        if not point.answered[1].exact:
            return
        for each, share in zip(self.constraints, point.share.tolist(), strict=True):
            if LEAST_SHARE < share < 1 - LEAST_SHARE:
                continue
            given = (
                "the evidence and the hard formulas make" if each.posterior else "the rules make"
            )
            raise LapisError(
                f"{each.name} cannot have probability {each.probability:g}: {given} it "
                f"{'true' if share > 0.5 else 'false'}",
                code="contradictory-probability",
                span=each.span,
                hint="correct the probability or the evidence; a predicate that is neither queried "
                "nor open (-q, --open) is false where the data is silent",
            )

    def refuse_contradiction(self, point: ConstraintPoint) -> None:
        """Raise if the constraints cannot hold together."""
        if not point.answered[1].exact or point.largest <= CONTRADICTION:
            return
        if self.options.stop is not None and self.options.stop():
            return
        off = np.argsort(-np.abs(point.deviation), kind="stable")
        named = [int(i) for i in off if abs(point.deviation[i]) > CONTRADICTION]
        listed = ", ".join(
            f"P({self.constraints[i].name}) = {self.target[i]:g} (nearest {point.share[i]:.4g})"
            for i in named[:MOST_NAMED]
        )
        more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
        raise LapisError(
            f"these probabilities cannot hold together: {listed}{more}",
            code="contradictory-probability",
            span=self.constraints[named[0]].span,
            hint="they contradict each other or the hard formulas; correct one of them, or read "
            "soft evidence as virtual",
        )


class InverseHessian:
    """The approximation of the inverse Hessian by BFGS, float64[n, n]."""

    def __init__(self, share: np.ndarray) -> None:
        spread = np.maximum(share * (1.0 - share), 1e-4)
        self.value: np.ndarray = np.diag(1.0 / spread)
        self.is_scaled = False

    def step(self, gradient: np.ndarray) -> np.ndarray:
        direction = -(self.value @ gradient)
        return limit_step(direction)

    def update(self, moved: np.ndarray, changed: np.ndarray) -> None:
        """Take in one step and the change of the gradient along it."""
        product = float(moved @ changed)
        if product <= 1e-300:
            return
        if not self.is_scaled:
            self.value *= product / float(changed @ self.value @ changed)
            self.is_scaled = True
        left = np.eye(len(moved)) - np.outer(moved, changed) / product
        self.value = left @ self.value @ left.T + np.outer(moved, moved) / product


def limit_step(step: np.ndarray) -> np.ndarray:
    """Shorten a step whose largest entry is over the limit."""
    largest = float(np.abs(step).max())
    return step if largest <= LARGEST_STEP else step * (LARGEST_STEP / largest)


def logit_of_share(share: np.ndarray) -> np.ndarray:
    inside = np.clip(share, LEAST_SHARE, 1.0 - LEAST_SHARE)
    return np.asarray(np.log(inside) - np.log1p(-inside))
