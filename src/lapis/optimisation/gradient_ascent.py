"""Gradient ascent with averaged weights: voted perceptron and contrastive divergence.

Thesis sections 4.2.1 to 4.2.3. Both step w += η g. They differ only in how the objective estimates
the expected counts (the most likely world, or a few samples). The answer is the average of the
weights over the iterations. With `per_weight` the rates are η_i = η / n_i, where n_i are the true
groundings that evidence does not decide (η if there are none). The thesis chooses the rate on
validation data. A given rate is never changed.

Without a given rate (our addition) the first rate is 1 / the largest eigenvalue of the curvature at
the start, in the scale S of the rates, by a few power iterations. The curvature changes during the
run: if nearly all atoms are false, it is hundreds of times larger at weights zero than at the
maximum. With s a step, g and g' the gradients before and after it, and y = g − g', the next rate is

exact     that of Barzilai and Borwein (1988, "Two-point step size gradient methods"), s·S⁻¹s / s·y,
          or the shorter s·y / y·Sy if that is less than half of it (Zhou, Gao and Dai 2006). A step
          is accepted if the value exceeds the least of the last ten by 10⁻⁴ of the predicted gain
          (Raydan 1997). Otherwise it is undone, and the rate reduced to the maximum of a parabola.
          The answer is the best point. On UW-CSE this takes 289 steps; a rate that was doubled or
          halved did not converge in 1,000.
sampled   f is concave, so the gain of a step is at least s·g'. If that is below −2 standard errors,
          the step is undone and the rate halved, as in the thesis for diagonal Newton. If more than
          half of the slope is left, beyond the noise, the rate is doubled; otherwise it grows by a
          tenth, to compensate for rejections due to noise. A rule that compared s·g' with s·g and
          undid no step diverged on UW-CSE (CLL −156): directions of large curvature have a small
          gradient at first, and too large a rate makes them grow unnoticed.
map       constant: most likely worlds have no information about lengths. `find_length` scales the
          perceptron's weights.

One option of the average is not in the thesis: `forget` = ρ gives iteration t a weight of about t^ρ
(Shamir and Zhang 2013, "Stochastic gradient descent for non-smooth optimization"), which discounts
a poor start. It is 0 (the thesis) if a rate is given and for perceptrons, and 8 if the rate is
estimated from samples, since the first rates are far too small. With an L1 penalty the average of a
weight is zero if the weight was zero in at least half of the iterations, weighted in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lapis.optimisation.history import AveragedState
from lapis.optimisation.objective import PenalizedObjective, Point
from lapis.optimisation.trust_region import (
    curvature_along,
    find_gain,
    gain_stderr,
    resample_rejected,
)
from lapis.registry.option_field import option

POWER_ITERATIONS = 8
FORGET = 8.0  # ρ if gradients are sampled and no rate is given
NOISE = 2.0  # standard errors
RECENT = 10  # values with which a new value is compared
SUFFICIENT = 1e-4  # least gain, relative to that predicted by the slope
SHORTER = 0.5  # ratio of the short to the long rate below which the short one is used
LEAP = 10.0  # factor of the rate after a step without curvature
GROWTH = 1.1  # factor of the rate after a step that was neither too short nor too long


@dataclass(frozen=True)
class GradientAscentState(AveragedState):
    """The state of gradient ascent."""

    rate: float  # η before decay
    zero_share: np.ndarray  # float64[num_parameters], share of the iterations with weight zero
    rejections: int  # in a row
    recent: np.ndarray  # float64[≤ RECENT], values of the last points; empty if not available
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
            rate = find_stable_rate(point, self.scale(objective), objective.true_counts)
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
            after = adapt_exact_rate(state, after, scale)
        elif self.rate is None and point.gradient_stderr is not None:
            after = adapt_sampled_rate(objective, state, after)
        return self.average(objective, after)

    def average(
        self, objective: PenalizedObjective, state: GradientAscentState
    ) -> GradientAscentState:
        """Return the state with its point added to the average."""
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


def adapt_exact_rate(
    before: GradientAscentState, after: GradientAscentState, scale: np.ndarray
) -> GradientAscentState:
    """Accept or undo a step between exact points, and set the next rate."""
    origin, point = before.point, after.point
    assert origin.value is not None
    assert point.value is not None
    step = point.weights - origin.weights
    slope, gain = float(step @ origin.gradient), find_gain(origin, point)
    slack = origin.value - float(before.recent.min())
    # Written such that NaN is rejected, too.
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
    """Compute the rate of Barzilai and Borwein from a step and the decrease of the gradient."""
    curvature = float(step @ change)
    if not curvature > 0:
        return LEAP * rate
    longer = float(step @ (step / scale)) / curvature
    shorter = curvature / float(change @ (scale * change))
    return shorter if shorter < SHORTER * longer else longer


def adapt_sampled_rate(
    objective: PenalizedObjective, before: GradientAscentState, after: GradientAscentState
) -> GradientAscentState:
    """Accept or undo a step between sampled points, and set the next rate."""
    origin, point = before.point, after.point
    left, noise = end_slope(origin, point)
    if not left >= -noise:
        kept, rejections = resample_rejected(objective, origin, before.rejections + 1)
        return replace(after, point=kept, rate=before.rate / 2, rejections=rejections)
    slope = float((point.weights - origin.weights) @ origin.gradient)
    return replace(after, rate=before.rate * (2.0 if left - noise > slope / 2 else GROWTH))


def end_slope(origin: Point, reached: Point) -> tuple[float, float]:
    """Return the slope at the end of a step, s·g', and its noise."""
    step = reached.weights - origin.weights
    stderr = reached.gradient_stderr
    assert stderr is not None
    independent = float(np.sqrt(np.square(step) @ np.square(stderr)))
    joint = gain_stderr(reached, curvature_along(reached, step))
    return float(step @ reached.gradient), NOISE * max(independent, joint)


def averaging_weight(iteration: int, forget: float) -> float:
    """Return the weight of iteration t = 1, 2, … in the average up to it: (1 + ρ) / (t + ρ)."""
    return (1 + forget) / (iteration + forget)


def update_average(
    objective: PenalizedObjective, average: np.ndarray, point: Point, iteration: int
) -> np.ndarray:
    """Update an average that discounts early iterations; zero where L1 holds a weight at zero."""
    average = average + averaging_weight(iteration, FORGET) * (point.weights - average)
    return average if objective.l1 is None else np.where(point.weights == 0, 0.0, average)


def find_stable_rate(point: Point, scale: np.ndarray, true_counts: np.ndarray) -> float:
    """Compute 1 / the largest eigenvalue of S^½ H S^½, S the diagonal matrix of the scale.

    If the curvature is zero in all tested directions (equal samples), the true counts replace the
    variances.
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
