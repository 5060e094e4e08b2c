"""Objectives with priors and fixed weights, against differences of their definition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from lapis.errors import LapisError
from lapis.learning.objectives.priors import Prior, expand_prior, parse_prior, with_prior
from lapis.optimisation.objective import Point


@dataclass(frozen=True)
class Bowl:
    """b·w − wᵀAw/2, so the gradient is b − Aw and the curvature A."""

    matrix: np.ndarray
    slope: np.ndarray
    name: str = "bowl"
    is_exact: bool = True
    is_fixed: bool = True

    @property
    def num_parameters(self) -> int:
        return len(self.slope)

    @property
    def true_counts(self) -> np.ndarray:
        return np.arange(len(self.slope), dtype=float)

    def value(self, w: np.ndarray) -> float:
        return float(self.slope @ w - w @ self.matrix @ w / 2)

    def evaluate(self, weights: np.ndarray) -> Point:
        gradient = self.slope - self.matrix @ weights
        diagonal = np.diag(self.matrix)
        return Point(
            weights, self.value(weights), gradient, diagonal.copy, lambda d: self.matrix @ d
        )


def bowl(rng: np.random.Generator, size: int) -> Bowl:
    root = rng.normal(size=(size, size))
    return Bowl(root @ root.T, rng.normal(size=size))


@pytest.mark.parametrize("kind", ["none", "gaussian", "l1"])
def test_derivatives_of_the_free_weights(kind: str) -> None:
    rng = np.random.default_rng(5)
    size = 6
    inner = bowl(rng, size)
    fixed = np.array([False, True, False, False, True, False])
    base = rng.normal(size=size)
    prior = Prior(kind, rng.uniform(0.5, 2.0, size), rng.normal(size=size))
    posterior = with_prior(inner, prior, base, fixed)
    w = rng.normal(size=4)

    def value(free: np.ndarray) -> float:
        full = base.copy()
        full[~fixed] = free + (expand_prior(prior, size).mean[~fixed] if kind == "l1" else 0.0)
        away = (full - expand_prior(prior, size).mean)[~fixed]
        loss = away @ (expand_prior(prior, size).precision[~fixed] * away) / 2
        if kind == "l1":
            loss += prior.strength[~fixed] @ np.abs(away)
        return inner.value(full) - loss

    point = posterior.evaluate(w)
    assert point.value == pytest.approx(value(w))
    step = 1e-5
    for i in range(4):
        e = np.eye(4)[i] * step
        assert point.gradient[i] == pytest.approx(
            (value(w + e) - value(w - e)) / (2 * step), abs=1e-6
        )
        lower, upper = (posterior.evaluate(w + s * e).gradient for s in (-1, 1))
        column = (lower - upper) / (2 * step)
        assert point.curvature_product(np.eye(4)[i]) == pytest.approx(column, abs=1e-6)
        assert point.curvature_diagonal()[i] == pytest.approx(column[i], abs=1e-6)
    assert posterior.free_weights(posterior.all_weights(w)) == pytest.approx(w)
    assert posterior.true_counts.tolist() == [0, 2, 3, 5]
    assert (posterior.l1 is None) == (kind != "l1")


@pytest.mark.parametrize(
    ("text", "expected"), [("none", 0.0), ("gaussian:2", -(1 + 4) / 8), ("l1:0.5", -1.5)]
)
def test_log_prior_is_the_definition(text: str, expected: float) -> None:
    inner = bowl(np.random.default_rng(0), 3)
    fixed = np.array([False, True, False])
    posterior = with_prior(inner, parse_prior(text), np.array([0.0, 9.0, 0.0]), fixed)
    assert posterior.log_prior(np.array([1.0, -2.0])) == pytest.approx(expected)


@pytest.mark.parametrize(
    "text", ["gauss", "gaussian:x", "gaussian:0", "gaussian:-1", "none:2", "l1:"]
)
def test_words_that_are_no_prior(text: str) -> None:
    if text == "l1:":
        assert parse_prior(text).strength == 1.0
        return
    with pytest.raises(LapisError, match="is not a prior"):
        parse_prior(text)


def test_a_prior_for_other_parameters_is_refused() -> None:
    with pytest.raises(LapisError, match="3 numbers for 2 parameters"):
        expand_prior(Prior("gaussian", np.ones(3)), 2)
