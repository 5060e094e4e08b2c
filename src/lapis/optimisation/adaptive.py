"""Adam and AdaGrad: a rate for each weight from the past gradients.

AdaGrad (Duchi, Hazan and Singer 2011, "Adaptive subgradient methods"): w_i += η g_i / √(Σ g_i²).
Adam (Kingma and Ba 2015): gradient and squared gradient are running averages, corrected for their
start at zero. Neither uses curvature, so they suit objectives with too few samples to estimate it.
Adam's steps do not shrink by themselves: use `decay` if the gradient is sampled. The answer for a
sampled objective is an average that discounts early iterations (`gradient_ascent`), for an exact
one the current weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lapis.optimisation.gradient_ascent import update_average
from lapis.optimisation.history import AveragedState
from lapis.optimisation.objective import PenalizedObjective, Point
from lapis.registry.option_field import option

EPSILON = 1e-8


@dataclass(frozen=True)
class AdaptiveState(AveragedState):
    """The state of Adam or AdaGrad."""

    mean: np.ndarray  # float64[num_parameters], running average of the gradient; AdaGrad: unused
    square: np.ndarray  # float64[num_parameters], running average (AdaGrad: sum) of its square


@dataclass(frozen=True)
class Adam:
    """w += η m̂ / (√v̂ + ε)."""

    rate: float = option(0.1, "step of a weight whose gradient is steady", above=0)
    decay: float = option(0.0, "the rate at iteration t is divided by 1 + decay t", low=0)
    first: float = 0.9  # decay of the average of gradients
    second: float = 0.99  # decay of the average of squares
    name: str = "adam"
    state_type: type[AdaptiveState] = AdaptiveState

    def init(self, objective: PenalizedObjective, point: Point) -> AdaptiveState:
        return initial_state(point)

    def step(self, objective: PenalizedObjective, state: AdaptiveState) -> AdaptiveState:
        t = state.iteration + 1
        gradient = state.point.gradient
        mean = self.first * state.mean + (1 - self.first) * gradient
        square = self.second * state.square + (1 - self.second) * gradient**2
        unbiased = np.sqrt(square / (1 - self.second**t))
        move = mean / (1 - self.first**t) / (unbiased + EPSILON)
        rate = self.rate / (1 + self.decay * state.iteration)
        return advance_state(objective, state, rate * move, mean, square)


@dataclass(frozen=True)
class AdaGrad:
    """w += η g / √(Σ g²)."""

    rate: float = option(0.5, "first step of each weight", above=0)
    name: str = "adagrad"
    state_type: type[AdaptiveState] = AdaptiveState

    def init(self, objective: PenalizedObjective, point: Point) -> AdaptiveState:
        return initial_state(point)

    def step(self, objective: PenalizedObjective, state: AdaptiveState) -> AdaptiveState:
        gradient = state.point.gradient
        square = state.square + gradient**2
        move = self.rate * gradient / (np.sqrt(square) + EPSILON)
        return advance_state(objective, state, move, state.mean, square)


def initial_state(point: Point) -> AdaptiveState:
    nothing = np.zeros_like(point.weights)
    return AdaptiveState(point, 0, point.weights, nothing, nothing)


def advance_state(
    objective: PenalizedObjective,
    state: AdaptiveState,
    move: np.ndarray,
    mean: np.ndarray,
    square: np.ndarray,
) -> AdaptiveState:
    """Return the state after a move, projected onto the orthant in which it started."""
    iteration = state.iteration + 1
    point = objective.evaluate(objective.project(state.point, state.weights + move))
    average = update_average(objective, state.average, point, iteration)
    return AdaptiveState(point, iteration, average, mean, square)
