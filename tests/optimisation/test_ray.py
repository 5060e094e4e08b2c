"""The length of a direction: against the maximum of a likelihood on a grid."""

from __future__ import annotations

import numpy as np
import pytest

from known_objectives import Logistic, SampledLogistic, newton_maximum, random_logistic
from lapis.optimisation.maximize import Ray, find_length
from lapis.optimisation.objective import penalize


def best_on_grid(objective: Logistic, direction: np.ndarray) -> float:
    lengths = np.linspace(0.0, 10.0, 20_001)
    values = [objective.evaluate(length * direction).value for length in lengths]
    return float(lengths[int(np.argmax(values))])


@pytest.mark.parametrize("seed", range(5))
def test_the_length_is_that_of_greatest_likelihood(seed: int) -> None:
    rng = np.random.default_rng(seed)
    objective = random_logistic(rng, 200, 4, ridge=1.0)
    direction = newton_maximum(objective) * rng.uniform(0.3, 2.0, 4)
    assert find_length(penalize(objective), direction) == pytest.approx(
        best_on_grid(objective, direction), abs=1e-3
    )


def test_a_direction_that_leads_down_has_no_length() -> None:
    objective = random_logistic(np.random.default_rng(0), 200, 3, ridge=1.0)
    assert find_length(penalize(objective), -objective.evaluate(np.zeros(3)).gradient) == 0.0


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_the_length_of_samples_is_within_their_noise(scale: float) -> None:
    """The result does not depend on the length of the direction."""
    exact = random_logistic(np.random.default_rng(3), 400, 3, ridge=1.0)
    direction = newton_maximum(exact) / scale
    found = find_length(penalize(SampledLogistic(exact)), direction) / scale
    information = (
        Ray(penalize(exact), direction).evaluate(np.array([scale])).curvature_diagonal()[0]
    )
    assert abs(found - 1.0) * scale * np.sqrt(information) < 1.0


def test_gradients_along_the_ray_are_derivatives() -> None:
    exact = random_logistic(np.random.default_rng(1), 50, 3, ridge=0.5)
    ray = Ray(penalize(exact), np.array([1.0, -2.0, 0.5]))
    here, step = ray.evaluate(np.array([0.4])), 1e-5
    ahead, behind = (ray.evaluate(np.array([0.4 + sign * step])) for sign in (1, -1))
    assert here.gradient[0] == pytest.approx((ahead.value - behind.value) / (2 * step), rel=1e-6)
    slope = (ahead.gradient[0] - behind.gradient[0]) / (2 * step)
    assert here.curvature_diagonal()[0] == pytest.approx(-slope, rel=1e-6)
