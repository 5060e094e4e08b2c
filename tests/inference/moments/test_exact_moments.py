"""Derivatives by extrapolated differences, and variances from exact samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from conditional_cases import PAGES, SMOKERS, SMOKING, TOPICS, random_weights, set_up
from lapis.inference.moments import exact as expectation_exact
from lapis.inference.moments.exact import differentiate
from lapis.learning.objectives.conditional import conditional_objective

FUNCTIONS: dict[str, tuple[Callable[[float], np.ndarray], list[float]]] = {
    "logistic": (lambda t: 1.0 / (1.0 + np.exp(-np.array([5.0 * t, t]))), [1.25, 0.25]),
    "constant": (lambda t: np.array([3.0]), [0.0]),
    "linear": (lambda t: np.array([1e6 + 2.0 * t, -t]), [2.0, -1.0]),
    "steep": (lambda t: np.tanh(np.array([40.0 * t + 1.0])), [40.0 / np.cosh(1.0) ** 2]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives(name: str) -> None:
    function, wanted = FUNCTIONS[name]
    assert differentiate(function, 0.2) == pytest.approx(wanted, rel=1e-8, abs=1e-9)


@pytest.mark.parametrize(
    ("text", "data", "asked"),
    [(SMOKING, SMOKERS, ("Smokes", "Cancer")), (TOPICS, PAGES, ("Topic",))],
    ids=["smokers", "pages"],
)
def test_variances_of_many_parameters(
    text: str, data: tuple[str, ...], asked: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    examples, parameters = set_up(text, data, asked)
    point = conditional_objective(examples, parameters).evaluate(random_weights(parameters, 0))
    wanted = point.curvature_diagonal()
    monkeypatch.setattr(expectation_exact, "MAX_DIFFERENCED", 0)
    monkeypatch.setattr(expectation_exact, "NUM_SAMPLES", 5000)
    sampled = point.curvature_diagonal()
    assert (sampled != wanted).any()
    # The variance of a variance from 5000 draws of bounded counts: within a tenth.
    assert sampled == pytest.approx(wanted, rel=0.1, abs=0.01)
    assert point.curvature_diagonal().tolist() == sampled.tolist()


def test_products_beside_samples_come_from_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """With many samples they are the exact ones."""
    examples, parameters = set_up(SMOKING, SMOKERS, ("Smokes", "Cancer"))
    objective = conditional_objective(examples, parameters)
    rough = replace(objective, free=tuple(side.with_rough_curvature() for side in objective.free))
    monkeypatch.setattr(expectation_exact, "FEW_SAMPLES", 20_000)
    weights = random_weights(parameters, 0)
    exact, sampled = objective.evaluate(weights), rough.evaluate(weights)
    assert sampled.value == exact.value
    assert sampled.gradient.tolist() == exact.gradient.tolist()
    for direction in np.eye(len(parameters)):
        wanted = exact.curvature_product(direction)
        found = sampled.curvature_product(direction)
        assert (found != wanted).any() or not wanted.any()
        # Entries are covariances of 20,000 draws, whose errors are about √(V_ii V_jj / 20,000).
        spread = np.sqrt(exact.curvature_diagonal() * (direction @ wanted) / 20_000)
        assert np.abs(found - wanted).max() <= 6 * spread.max()
