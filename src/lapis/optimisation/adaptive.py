"""Adam and AdaGrad: rates for each weight from the gradients seen so far.

AdaGrad (Duchi, Hazan and Singer 2011): w_i += η g_i / √(Σ g_i²). Adam (Kingma and Ba 2015): both
the gradient and its square are running averages, corrected for their start at zero. Neither asks
for curvature, so they suit objectives whose samples are too few to tell it. Adam's steps do not
shrink by themselves: give it a `decay` where the gradient is sampled. What is returned for a
sampled objective is an average of the iterations that forgets the early ones (`gradient_ascent`),
for an exact one the current weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lapis.optimisation.gradient_ascent import follow
from lapis.optimisation.history import AveragedState
from lapis.optimisation.objective import PenalizedObjective, Point
from lapis.registry.option_field import option

EPSILON = 1e-8


@dataclass(frozen=True)
class AdaptiveState(AveragedState):
    """Where the run stands."""

    mean: np.ndarray  # float64[num_parameters], running average of the gradient; AdaGrad: unused
    square: np.ndarray  # float64[num_parameters], running average (AdaGrad: sum) of its square


@dataclass(frozen=True)
class Adam:
    """w += η m̂ / (√v̂ + ε)."""

    rate: float = option(0.1, "step of a weight whose gradient is steady", above=0)
    decay: float = option(0.0, "the rate at iteration t is divided by 1 + decay t", low=0)
    first: float = 0.9  # what the average of gradients keeps
    second: float = 0.99  # what the average of squares keeps
    name: str = "adam"
    state_type: type[AdaptiveState] = AdaptiveState

    def init(self, objective: PenalizedObjective, point: Point) -> AdaptiveState:
        return start(point)

    def step(self, objective: PenalizedObjective, state: AdaptiveState) -> AdaptiveState:
        t = state.iteration + 1
        gradient = state.point.gradient
        mean = self.first * state.mean + (1 - self.first) * gradient
        square = self.second * state.square + (1 - self.second) * gradient**2
        unbiased = np.sqrt(square / (1 - self.second**t))
        move = mean / (1 - self.first**t) / (unbiased + EPSILON)
        rate = self.rate / (1 + self.decay * state.iteration)
        return advance(objective, state, rate * move, mean, square)


@dataclass(frozen=True)
class AdaGrad:
    """w += η g / √(Σ g²)."""

    rate: float = option(0.5, "first step of each weight", above=0)
    name: str = "adagrad"
    state_type: type[AdaptiveState] = AdaptiveState

    def init(self, objective: PenalizedObjective, point: Point) -> AdaptiveState:
        return start(point)

    def step(self, objective: PenalizedObjective, state: AdaptiveState) -> AdaptiveState:
        gradient = state.point.gradient
        square = state.square + gradient**2
        move = self.rate * gradient / (np.sqrt(square) + EPSILON)
        return advance(objective, state, move, state.mean, square)


def start(point: Point) -> AdaptiveState:
    nothing = np.zeros_like(point.weights)
    return AdaptiveState(point, 0, point.weights, nothing, nothing)


def advance(
    objective: PenalizedObjective,
    state: AdaptiveState,
    move: np.ndarray,
    mean: np.ndarray,
    square: np.ndarray,
) -> AdaptiveState:
    """The state after a move, projected onto the orthant it started in."""
    iteration = state.iteration + 1
    point = objective.evaluate(objective.project(state.point, state.weights + move))
    average = follow(objective, state.average, point, iteration)
    return AdaptiveState(point, iteration, average, mean, square)
