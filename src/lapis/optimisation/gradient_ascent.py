"""Gradient ascent with averaged weights: voted perceptron and contrastive divergence.

Thesis sections 4.2.1 to 4.2.3. Both step w += η g; they differ only in how the objective estimates
the counts that the model expects (the most likely state, or a few samples). What they return is the
average of the weights over the iterations, which is steadier than the last ones. With `per_weight`
rates η_i = η / n_i, n_i the true groundings that evidence does not decide (η where there are none).
The thesis tries rates on validation data. A rate that is given is left alone.

Where none is given (our addition), the first rate is 1 / the largest eigenvalue of the curvature at
the start, in the scale S of the rates, found by a few power iterations. The curvature changes on
the way: where nearly all atoms are false it is hundreds of times larger at weights zero than at the
maximum. What follows depends on what the objective tells of a step s with gradients g before and
g' after it, y = g − g':

exact     The rate of Barzilai and Borwein (1988), s·S⁻¹s / s·y, or the shorter s·y / y·Sy where
          that is less than half of it (Zhou, Gao and Dai 2006). A step is undone, and the rate cut
          to where a parabola has its maximum, unless the value rises above the least of the last
          ten by 10⁻⁴ of what the slope promised (Raydan 1997). The answer is the best point so
          far. A rate that was doubled or halved instead did not arrive on UW-CSE in 1,000 steps;
          this one takes 289.
sampled   f is concave, so a step gains at least s·g'. Where that is negative by more than two
          standard errors the step is undone and the rate halved, as the thesis has it for diagonal
          Newton. Where more than half of the slope is left, beyond the noise, the rate is doubled;
          other steps raise it by a tenth, which makes up for what noise rejects. A rule that
          compared s·g' with s·g and undid nothing ended at a CLL of −156 on UW-CSE: directions in
          which the curvature is large have little of the gradient at first, and a rate too large
          for them makes them grow unseen until they have all of it.
map       Most likely worlds tell nothing of lengths: the rate stays, and `ray` gives the
          perceptron's weights their length.

Averaging has one option beyond the thesis: `forget` = ρ weighs iteration t by about t^ρ (Shamir and
Zhang 2013), so that a start far off is forgotten sooner. It is 0 (the thesis) where a rate is given
and for perceptrons, and 8 where the rate is found from samples, since the first rates are far too
small. With an L1 penalty the average of a weight is zero if the weight was zero in at least half of
the iterations, by the same weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lapis.optimisation.history import AveragedState
from lapis.optimisation.objective import PenalizedObjective, Point
from lapis.optimisation.trust_region import curvature_along, find_gain, gain_stderr, renew
from lapis.registry.option_field import option

POWER_ITERATIONS = 8
FORGET = 8.0  # ρ of the average where gradients are sampled and steps find their own length
NOISE = 2.0  # standard errors
RECENT = 10  # values, above the least of which a step must end
SUFFICIENT = 1e-4  # of the gain that the slope promises
SHORTER = 0.5  # of the long rate: then the short one is taken
LEAP = 10.0  # of a rate whose step met no curvature
GROWTH = 1.1  # of a rate whose step was neither short nor long


@dataclass(frozen=True)
class GradientAscentState(AveragedState):
    """Where the run stands."""

    rate: float  # η before decay
    zero_share: np.ndarray  # float64[num_parameters], of the iterations with weight zero
    rejections: int  # in a row
    recent: np.ndarray  # float64[≤ RECENT], values of the last points; none where not known
    best: np.ndarray  # float64[num_parameters], weights of the greatest value so far
    best_value: float

    @property
    def answer(self) -> np.ndarray:
        if np.isfinite(self.best_value):
            return self.best
        return np.where(self.zero_share >= 0.5, 0.0, self.average)


@dataclass(frozen=True)
class GradientAscent:
    """w += η g / (1 + decay · t)."""

    name: str
    per_weight: bool = False
    rate: float | None = option(None, "learning rate (η); found by itself if absent", above=0)
    decay: float = option(0.0, "the rate at iteration t is divided by 1 + decay t", low=0)
    forget: float | None = option(
        None,
        "weighs iteration t by t^forget in the average; if absent 8 where the rate is found "
        "from samples, else 0",
        low=0,
    )
    state_type: type[GradientAscentState] = GradientAscentState

    def init(self, objective: PenalizedObjective, point: Point) -> GradientAscentState:
        rate = self.rate
        if rate is None:
            rate = stable_rate(point, self.scale(objective), objective.true_counts)
        value = -np.inf if self.rate is not None or point.value is None else point.value
        recent = np.array([value] if np.isfinite(value) else [])
        nothing = np.zeros(objective.num_parameters)
        return GradientAscentState(
            point, 0, point.weights, rate, nothing, 0, recent, point.weights, value
        )

    def step(
        self, objective: PenalizedObjective, state: GradientAscentState
    ) -> GradientAscentState:
        origin, scale = state.point, self.scale(objective)
        rates = state.rate / (1 + self.decay * state.iteration) * scale
        point = objective.evaluate(
            objective.project(origin, origin.weights + rates * origin.gradient)
        )
        after = replace(state, point=point, iteration=state.iteration + 1, rejections=0)
        if self.rate is None and origin.value is not None and point.value is not None:
            after = follow_value(state, after, scale)
        elif self.rate is None and point.gradient_stderr is not None:
            after = follow_samples(objective, state, after)
        return self.average(objective, after)

    def average(
        self, objective: PenalizedObjective, state: GradientAscentState
    ) -> GradientAscentState:
        """The state with its point in the average."""
        forget = self.forget
        if forget is None:
            finds_rate = self.rate is None and state.point.gradient_stderr is not None
            forget = FORGET if finds_rate else 0.0
        weight, weights = averaging_weight(state.iteration, forget), state.point.weights
        zero_share = state.zero_share
        if objective.l1 is not None:
            is_zero = (weights == 0) & (objective.l1 > 0)
            zero_share = zero_share + weight * (is_zero - zero_share)
        average = state.average + weight * (weights - state.average)
        return replace(state, average=average, zero_share=zero_share)

    def scale(self, objective: PenalizedObjective) -> np.ndarray:
        """float64[num_parameters], η_i / η."""
        if not self.per_weight:
            return np.ones(objective.num_parameters)
        counts = np.asarray(objective.true_counts, np.float64)
        return 1.0 / np.where(counts > 0, counts, 1.0)


def follow_value(
    before: GradientAscentState, after: GradientAscentState, scale: np.ndarray
) -> GradientAscentState:
    """The state after a step between exact points: the step kept or undone, and the next rate."""
    origin, point = before.point, after.point
    assert origin.value is not None
    assert point.value is not None
    step = point.weights - origin.weights
    slope, gain = float(step @ origin.gradient), find_gain(origin, point)
    slack = origin.value - float(before.recent.min())
    # Written so that a value that is not a number is rejected, too.
    if not gain >= SUFFICIENT * slope - slack:
        peak = 0.5 * slope / (slope - gain) if np.isfinite(gain) else 0.0
        return replace(
            before,
            iteration=after.iteration,
            rate=before.rate * min(max(peak, 0.1), 0.5),
            rejections=before.rejections + 1,
        )
    after = replace(
        after,
        rate=spectral_rate(step, origin.gradient - point.gradient, scale, before.rate),
        recent=np.append(before.recent, point.value)[-RECENT:],
    )
    if gain > 0 and point.value >= before.best_value:
        after = replace(after, best=point.weights, best_value=point.value)
    return after


def spectral_rate(step: np.ndarray, change: np.ndarray, scale: np.ndarray, rate: float) -> float:
    """The rate whose step would have the curvature that a step has met (Barzilai and Borwein).

    `change` float64[num_parameters] is what the gradient lost on the way.
    """
    met = float(step @ change)
    if not met > 0:
        return LEAP * rate
    longer, shorter = float(step @ (step / scale)) / met, met / float(change @ (scale * change))
    return shorter if shorter < SHORTER * longer else longer


def follow_samples(
    objective: PenalizedObjective, before: GradientAscentState, after: GradientAscentState
) -> GradientAscentState:
    """The state after a step between sampled points: the step kept or undone, and the next rate."""
    origin, point = before.point, after.point
    left, noise = slopes(origin, point)
    if not left >= -noise:
        kept, rejections = renew(objective, origin, before.rejections + 1)
        return replace(after, point=kept, rate=before.rate / 2, rejections=rejections)
    slope = float((point.weights - origin.weights) @ origin.gradient)
    return replace(after, rate=before.rate * (2.0 if left - noise > slope / 2 else GROWTH))


def slopes(origin: Point, reached: Point) -> tuple[float, float]:
    """What is left of the slope at the end of a step, s·g', and the noise of that."""
    step = reached.weights - origin.weights
    stderr = reached.gradient_stderr
    assert stderr is not None
    alone = float(np.sqrt(np.square(step) @ np.square(stderr)))
    joint = gain_stderr(reached, curvature_along(reached, step))
    return float(step @ reached.gradient), NOISE * max(alone, joint)


def averaging_weight(iteration: int, forget: float) -> float:
    """What iteration t = 1, 2, … counts in the average up to it: (1 + ρ) / (t + ρ)."""
    return (1 + forget) / (iteration + forget)


def follow(
    objective: PenalizedObjective, average: np.ndarray, point: Point, iteration: int
) -> np.ndarray:
    """An average that forgets early iterations; zero where an L1 penalty holds a weight at zero."""
    average = average + averaging_weight(iteration, FORGET) * (point.weights - average)
    return average if objective.l1 is None else np.where(point.weights == 0, 0.0, average)


def stable_rate(point: Point, scale: np.ndarray, true_counts: np.ndarray) -> float:
    """1 / the largest eigenvalue of S^½ H S^½, S the diagonal matrix of the scale.

    Where the curvature is zero along all that was tried (samples that happen to agree), the true
    counts stand in for the variances.
    """
    root = np.sqrt(scale)
    vector = root * point.gradient
    largest = 0.0
    for _ in range(POWER_ITERATIONS):
        norm = float(np.linalg.norm(vector))
        if norm == 0 or not np.isfinite(norm):
            break
        vector = root * point.curvature_product(root * (vector / norm))
        largest = max(largest, float(np.linalg.norm(vector)))
    if largest == 0:
        largest = max(float((scale * true_counts).max(initial=0.0)), 1.0)
    return 1.0 / largest
