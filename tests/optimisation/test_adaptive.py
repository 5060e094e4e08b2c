"""Adam and AdaGrad against their recurrences, written out."""

from __future__ import annotations

import numpy as np
import pytest

from known_objectives import Quadratic
from lapis.optimisation.adaptive import EPSILON, AdaGrad, Adam
from lapis.optimisation.objective import penalize

PENALIZED = penalize(Quadratic(np.diag([1.0, 50.0]), np.array([2.0, -1.0])))


def test_adam_from_weighted_sums_of_all_gradients() -> None:
    """m̂ = Σ β^(t−s) g_s / Σ β^(t−s), and the same for squares."""
    optimizer = Adam(rate=0.2, decay=0.5)
    state = optimizer.init(PENALIZED, PENALIZED.evaluate(np.zeros(2)))
    weights, gradients = np.zeros(2), []
    for t in range(1, 8):
        gradients.append(PENALIZED.evaluate(weights).gradient)
        first = 0.9 ** np.arange(t - 1, -1, -1)
        second = 0.99 ** np.arange(t - 1, -1, -1)
        mean = first @ np.array(gradients) / first.sum()
        square = second @ np.square(gradients) / second.sum()
        weights = weights + 0.2 / (1 + 0.5 * (t - 1)) * mean / (np.sqrt(square) + EPSILON)
        state = optimizer.step(PENALIZED, state)
        assert state.weights == pytest.approx(weights, rel=1e-10)
    assert state.iteration == 7


def test_adagrad_from_sums_of_squares() -> None:
    optimizer = AdaGrad(rate=0.3)
    state = optimizer.init(PENALIZED, PENALIZED.evaluate(np.zeros(2)))
    weights, total = np.zeros(2), np.zeros(2)
    for _ in range(7):
        gradient = PENALIZED.evaluate(weights).gradient
        total += gradient**2
        weights = weights + 0.3 * gradient / (np.sqrt(total) + EPSILON)
        state = optimizer.step(PENALIZED, state)
        assert state.weights == pytest.approx(weights, rel=1e-12)
