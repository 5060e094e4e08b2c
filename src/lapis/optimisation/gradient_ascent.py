"""Gradient ascent with averaged weights: voted perceptron and contrastive divergence.

Thesis sections 4.2.1 to 4.2.3. Both step w += η g; they differ only in how the objective estimates
the counts that the model expects (the most likely state, or a few samples). What they return is the
average of the weights over the iterations, which is steadier than the last ones. With `per_weight`
rates η_i = η / n_i, n_i the true groundings that evidence does not decide (η where there are none).

A rate has to be right within a factor of a few, and the right one depends on the data. Where none
is given it is 1 / the largest eigenvalue of the curvature at the start, in the scale of the rates,
found by a few power iterations; twice that would diverge on a quadratic. Curvature changes on the
way: where nearly all atoms are false it is hundreds of times larger at weights zero, which call
every atom a coin, than where it matters. So such a rate is doubled when more than half of the slope
along a step is left at its end, beyond the noise, and halved when a step overshoots: where values
are known, when the value fell (the step is undone); where gradients are sampled, when the slope has
turned to more than its opposite, beyond the noise. A rate that was given is left alone. On UW-CSE
the rate of the start alone ended at a CLL of -0.135, rates tuned by hand at -0.033, this at -0.022.
Near the maximum values differ by their last bits, and half of all steps seem to fall: there the
slopes at both ends tell (`trust_region.find_gain`), or the rate would be halved to nothing short of
the goal. Gradients whose noise is not known, those of most likely worlds, say nothing of lengths:
`ray` gives the perceptron's weights theirs.

Averaging has one option beyond the thesis: `forget` = ρ weighs iteration t by about t^ρ (Shamir and
Zhang 2013), so that a start far off is forgotten sooner. With an L1 penalty the average of a weight
is zero if the weight was zero in at least half of the iterations, by the same weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lapis.optimisation.logbook import AveragedState
from lapis.optimisation.objective import Point
from lapis.optimisation.orthant import Terrain
from lapis.optimisation.trust_region import find_gain

POWER_ITERATIONS = 8
FORGET = 8.0  # ρ of the average that other optimisers return where gradients are sampled
NOISE = 2.0  # standard errors


@dataclass(frozen=True)
class State(AveragedState):
    """Where the climb stands."""

    rate: float  # η before decay
    zero_share: np.ndarray  # float64[num_parameters], of the iterations with weight zero

    @property
    def answer(self) -> np.ndarray:
        return np.where(self.zero_share >= 0.5, 0.0, self.average)


@dataclass(frozen=True)
class GradientAscent:
    """w += η g / (1 + decay · t)."""

    name: str
    per_weight: bool = False
    rate: float | None = None  # η; None: from the curvature
    decay: float = 0.0
    forget: float = 0.0  # ρ of the average
    state_type: type[State] = State

    def init(self, terrain: Terrain, point: Point) -> State:
        rate = self.rate
        if rate is None:
            rate = stable_rate(point, self.scale(terrain), terrain.true_counts)
        nothing = np.zeros(terrain.num_parameters)
        return State(point, 0, point.weights, rate, nothing)

    def step(self, terrain: Terrain, state: State) -> State:
        origin, iteration = state.point, state.iteration + 1
        rates = state.rate / (1 + self.decay * state.iteration) * self.scale(terrain)
        point = terrain.evaluate(terrain.project(origin, origin.weights + rates * origin.gradient))
        rate = state.rate
        if self.rate is None and overshoots(origin, point):
            rate /= 2
            if point.value is not None:
                point = origin
        elif self.rate is None and falls_short(origin, point):
            rate *= 2
        weight = averaging_weight(iteration, self.forget)
        average = state.average + weight * (point.weights - state.average)
        zero_share = state.zero_share
        if terrain.l1 is not None:
            is_zero = (point.weights == 0) & (terrain.l1 > 0)
            zero_share = zero_share + weight * (is_zero - zero_share)
        return State(point, iteration, average, rate, zero_share)

    def scale(self, terrain: Terrain) -> np.ndarray:
        """float64[num_parameters], η_i / η."""
        if not self.per_weight:
            return np.ones(terrain.num_parameters)
        counts = np.asarray(terrain.true_counts, np.float64)
        return 1.0 / np.where(counts > 0, counts, 1.0)


def averaging_weight(iteration: int, forget: float) -> float:
    """What iteration t = 1, 2, … counts in the average up to it: (1 + ρ) / (t + ρ)."""
    return (1 + forget) / (iteration + forget)


def follow(terrain: Terrain, average: np.ndarray, point: Point, iteration: int) -> np.ndarray:
    """An average that forgets early iterations; zero where an L1 penalty holds a weight at zero."""
    average = average + averaging_weight(iteration, FORGET) * (point.weights - average)
    return average if terrain.l1 is None else np.where(point.weights == 0, 0.0, average)


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


def overshoots(origin: Point, reached: Point) -> bool:
    """Whether a step along the gradient was so long that the objective fell."""
    if origin.value is not None and reached.value is not None:
        return not find_gain(origin, reached) >= 0
    before, after, noise = slopes(origin, reached)
    return after + noise < -before


def falls_short(origin: Point, reached: Point) -> bool:
    """Whether more than half of the slope along a step is left: twice the step would be safe."""
    before, after, noise = slopes(origin, reached)
    return after - noise > before / 2


def slopes(origin: Point, reached: Point) -> tuple[float, float, float]:
    """Along a step, before and after it, and the noise of the latter; infinite if not known."""
    step = reached.weights - origin.weights
    before, after = float(step @ origin.gradient), float(step @ reached.gradient)
    stderr = reached.gradient_stderr
    if stderr is None:
        return before, after, 0.0 if reached.value is not None else np.inf
    return before, after, NOISE * float(np.sqrt(np.square(step) @ np.square(stderr)))
