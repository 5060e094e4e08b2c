"""Small objectives with known maxima."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lapis.optimisation.maximize import Optimizer, Solver, Trajectory
from lapis.optimisation.maximize import maximize as maximize_penalized
from lapis.optimisation.objective import Objective, Point, penalize


class PlainPoint(Point):
    """A point with its full curvature, float64[P, P]."""

    curvature: np.ndarray

    def __init__(
        self,
        weights: np.ndarray,
        value: float | None,
        gradient: np.ndarray,
        stderr: np.ndarray | None,
        curvature: np.ndarray,
    ) -> None:
        super().__init__(
            weights,
            value,
            gradient,
            lambda: np.diag(curvature).copy(),
            lambda direction: curvature @ direction,
            stderr,
        )
        object.__setattr__(self, "curvature", curvature)


def maximize(
    objective: Objective,
    optimizer: Optimizer | Solver,
    start: np.ndarray,
    *,
    l1: np.ndarray | None = None,
    lower: np.ndarray | None = None,
    upper: np.ndarray | None = None,
    **options: Any,
) -> Trajectory:
    """Maximise an objective whose weights are all free."""
    return maximize_penalized(penalize(objective, l1, lower, upper), optimizer, start, **options)


@dataclass
class Quadratic:
    """−½ (w − peak)ᵀ H (w − peak); without its value if `gradient_only`."""

    curvature: np.ndarray
    peak: np.ndarray
    gradient_only: bool = False
    is_exact: bool = True
    is_fixed: bool = True
    name: str = "quadratic"
    evaluations: int = 0

    @property
    def num_parameters(self) -> int:
        return len(self.peak)

    @property
    def true_counts(self) -> np.ndarray:
        return np.diag(self.curvature).copy()

    def evaluate(self, weights: np.ndarray) -> PlainPoint:
        self.evaluations += 1
        gradient = self.curvature @ (self.peak - weights)
        value = -0.5 * float((self.peak - weights) @ gradient)
        return PlainPoint(
            weights, None if self.gradient_only else value, gradient, None, self.curvature
        )


@dataclass
class Logistic:
    """Σ log σ(±x·w) − ridge/2 |w|², which is the likelihood of independent atoms."""

    features: np.ndarray  # float64[N, P]
    truth: np.ndarray  # float64[N], 0 or 1
    ridge: float = 0.0
    name: str = "logistic"
    is_exact: bool = True
    is_fixed: bool = True

    @property
    def num_parameters(self) -> int:
        return self.features.shape[1]

    @property
    def true_counts(self) -> np.ndarray:
        return np.abs(self.features).T @ self.truth

    def evaluate(self, weights: np.ndarray) -> PlainPoint:
        score = self.features @ weights
        p = 1 / (1 + np.exp(-score))
        value = float(self.truth @ score - np.logaddexp(0, score).sum())
        value -= 0.5 * self.ridge * float(weights @ weights)
        gradient = self.features.T @ (self.truth - p) - self.ridge * weights
        curvature = (self.features.T * (p * (1 - p))) @ self.features
        curvature += self.ridge * np.eye(len(weights))
        return PlainPoint(weights, value, gradient, None, curvature)


@dataclass
class RoundedLogistic(Logistic):
    """The same on another processor: sums that come out differently in their last bits.

    The noise is a function of the weights, as rounding is, so this is one fixed objective.
    """

    seed: int = 0

    def evaluate(self, weights: np.ndarray) -> PlainPoint:
        point = super().evaluate(weights)
        rng = np.random.default_rng([self.seed, *np.frombuffer(weights.tobytes(), np.uint32)])
        bits = 4 * np.finfo(float).eps
        value = point.value * (1 + bits * rng.uniform(-1, 1))
        noise = bits * rng.uniform(-1, 1, len(weights)) * np.maximum(self.true_counts, 1)
        return PlainPoint(weights, value, point.gradient + noise, None, point.curvature)


@dataclass
class SampledLogistic:
    """The same, with expected counts and their covariance from a few samples, and no value."""

    exact: Logistic
    num_samples: int = 5
    seed: int = 0
    name: str = "sampled logistic"
    is_exact: bool = False
    is_fixed: bool = False
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    @property
    def num_parameters(self) -> int:
        return self.exact.num_parameters

    @property
    def true_counts(self) -> np.ndarray:
        return self.exact.true_counts

    def evaluate(self, weights: np.ndarray) -> PlainPoint:
        features, ridge = self.exact.features, self.exact.ridge
        p = 1 / (1 + np.exp(-features @ weights))
        worlds = self.rng.random((self.num_samples, len(p))) < p
        counts = worlds @ features
        mean = counts.mean(axis=0)
        spread = counts - mean
        curvature = spread.T @ spread / self.num_samples + ridge * np.eye(len(weights))
        gradient = self.exact.truth @ features - mean - ridge * weights
        stderr = counts.std(axis=0, ddof=1) / np.sqrt(self.num_samples)
        return PlainPoint(weights, None, gradient, stderr, curvature)


def random_curvature(rng: np.random.Generator, size: int, condition: float) -> np.ndarray:
    """float64[size, size], positive definite, with eigenvalues from 1/√condition to √condition."""
    rotation, _ = np.linalg.qr(rng.normal(size=(size, size)))
    eigenvalues = np.geomspace(condition**-0.5, condition**0.5, size)
    return (rotation * eigenvalues) @ rotation.T


def scaled_curvature(rng: np.random.Generator, size: int, ratio: float) -> np.ndarray:
    """float64[size, size], correlated counts whose variances differ by a ratio."""
    scale = np.sqrt(np.geomspace(1.0, ratio, size))
    return scale[:, None] * random_curvature(rng, size, 10.0) * scale


def random_logistic(
    rng: np.random.Generator, num_rows: int, num_weights: int, ridge: float, spread: float = 1.0
) -> Logistic:
    """Correlated features of magnitudes that differ up to `spread`-fold, and labels from them."""
    scale = np.geomspace(1.0, spread, num_weights)
    features = rng.normal(size=(num_rows, num_weights)) + rng.normal(size=(num_rows, 1))
    weights = rng.normal(size=num_weights)
    truth = (rng.random(num_rows) < 1 / (1 + np.exp(-features @ weights))).astype(float)
    return Logistic(features * scale, truth, ridge)


def newton_maximum(objective: Logistic) -> np.ndarray:
    """The maximum by Newton's method with the full Hessian and halving, to machine precision."""
    weights = np.zeros(objective.num_parameters)
    for _ in range(60):
        point = objective.evaluate(weights)
        step = np.linalg.solve(point.curvature, point.gradient)
        size = 1.0
        while objective.evaluate(weights + size * step).value < point.value and size > 1e-8:
            size /= 2
        weights = weights + size * step
    return weights


def coordinate_descent(objective: Logistic, l1: np.ndarray, sweeps: int = 3000) -> np.ndarray:
    """max f(w) − Σ l1 |w|: each weight in turn by soft thresholding its majorised quadratic.

    The curvature of a logistic along weight i is at most ¼ Σ x_i² + ridge, so every update ascends.
    """
    bound = 0.25 * np.square(objective.features).sum(axis=0) + objective.ridge
    weights = np.zeros(objective.num_parameters)
    score = objective.features @ weights
    for _ in range(sweeps):
        for i in range(len(weights)):
            x = objective.features[:, i]
            slope = x @ (objective.truth - 1 / (1 + np.exp(-score))) - objective.ridge * weights[i]
            target = weights[i] + slope / bound[i]
            new = np.sign(target) * max(abs(target) - l1[i] / bound[i], 0.0)
            score += (new - weights[i]) * x
            weights[i] = new
    return weights
