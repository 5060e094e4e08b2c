"""Standard errors against the inverse of the curvature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from lapis.learning.standard_errors import standard_errors


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


def test_nothing_to_say_of_no_weights() -> None:
    errors, _ = standard_errors(Curved(np.zeros((0, 0))), full=True)
    assert errors.shape == (0,)
