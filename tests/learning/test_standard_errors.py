"""Standard errors against the inverse of the curvature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import lapis
from lapis.learning.reliability import standard_errors


@dataclass(frozen=True)
class Curved:
    matrix: np.ndarray
    value: float = 0.0
    gradient_stderr: None = None

    @property
    def weights(self) -> np.ndarray:
        return np.zeros(len(self.matrix))

    @property
    def gradient(self) -> np.ndarray:
        return np.zeros(len(self.matrix))

    def curvature_diagonal(self) -> np.ndarray:
        return np.diag(self.matrix)

    def curvature_product(self, direction: np.ndarray) -> np.ndarray:
        return self.matrix @ direction


def test_full_errors_are_those_of_the_inverse() -> None:
    rng = np.random.default_rng(1)
    root = rng.normal(size=(5, 5)) * np.array([1, 10, 100, 1, 1e3])[:, None]
    matrix = root @ root.T
    errors, method = standard_errors(Curved(matrix), full=True)
    assert method == "full"
    assert errors == pytest.approx(np.sqrt(np.diag(np.linalg.inv(matrix))), rel=1e-6)


def test_the_diagonal_bounds_them_from_below() -> None:
    rng = np.random.default_rng(2)
    root = rng.normal(size=(4, 4))
    matrix = root @ root.T
    full, _ = standard_errors(Curved(matrix), full=True)
    diagonal, method = standard_errors(Curved(matrix), full=False)
    assert method == "diagonal"
    assert diagonal == pytest.approx(1 / np.sqrt(np.diag(matrix)))
    assert (diagonal <= full + 1e-12).all()


def test_undetermined_weights_have_none() -> None:
    # Weights 0 and 1 matter only through their sum, weight 2 not at all.
    matrix = np.array([[2.0, 2.0, 0.0, 0.0], [2.0, 2.0, 0.0, 0.0], [0.0] * 4, [0.0, 0.0, 0.0, 4.0]])
    errors, _ = standard_errors(Curved(matrix), full=True)
    assert np.isnan(errors).tolist() == [True, True, True, False]
    assert errors[3] == pytest.approx(0.5)


@pytest.mark.parametrize("full", [True, False])
def test_held_weights_are_as_if_they_were_not_there(full: bool) -> None:
    rng = np.random.default_rng(3)
    root = rng.normal(size=(5, 5))
    matrix = root @ root.T
    held = np.array([False, True, False, True, False])
    errors, method = standard_errors(Curved(matrix), full=full, held=held)
    alone, same = standard_errors(Curved(matrix[np.ix_(~held, ~held)]), full=full)
    assert method == same
    assert np.isnan(errors[held]).all()
    assert errors[~held] == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize("objective", ["pseudo", "conditional"])
def test_errors_of_l1_are_of_the_weights_that_move(objective: str) -> None:
    """Three of ten have P, whether or not they have Q; a prior holds the rule of both at 0.

    The weight of P alone is then that of ten coins: its curvature is Σ p(1 − p).
    """
    model = lapis.parse("P(t)\nQ(t)\nP(x)\nP(x) ^ Q(x)")
    names = [f"A{i}" for i in range(10)]
    facts = [f"P({a})" for a in names[:3]] + [f"Q({a})" for a in names[::2]]
    data = lapis.Database.parse(f"t = {{{', '.join(names)}}}\n" + " ".join(facts))
    fit = lapis.learn(
        model, data, query=["P"], objective=objective, prior=lapis.Prior("l1", np.array([0.1, 9.0]))
    )
    assert fit.weights[1] == 0.0
    p = 1 / (1 + np.exp(-fit.weights[0]))
    assert fit.standard_errors is not None
    assert fit.standard_errors[0] == pytest.approx(1 / np.sqrt(10 * p * (1 - p)), rel=1e-9)
    assert np.isnan(fit.standard_errors[1])


def test_nothing_to_say_of_no_weights() -> None:
    errors, _ = standard_errors(Curved(np.zeros((0, 0))), full=True)
    assert errors.shape == (0,)
