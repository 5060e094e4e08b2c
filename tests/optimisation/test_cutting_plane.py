"""Cutting planes against general-purpose solvers, and their certificates."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from lapis.optimisation.cutting_plane import (
    Cut,
    CuttingPlaneState,
    Minimum,
    maximise_on_simplex,
    minimise_by_cuts,
    new_bundle,
)

Oracle = Callable[[np.ndarray, float | None], Cut]


@given(
    st.integers(1, 8), st.integers(1, 8), st.sampled_from((0, 3)), st.sampled_from((1.0, 1e6)),
    st.integers(0, 10**6),
)  # fmt: skip
def test_simplex_optimum(size: int, rank: int, copies: int, scale: float, seed: int) -> None:
    """A point is a maximum on the simplex if no vertex has a slope above the mean."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(size, rank)) * scale
    gain = rng.normal(size=size)
    rows = np.vstack([rows, rows[:copies]])
    gain = np.concatenate([gain, gain[:copies] + rng.choice([0.0, 0.5], len(gain[:copies]))])
    gram = rows @ rows.T
    start = np.zeros(len(gain))
    start[rng.integers(len(gain))] = 1.0
    x = maximise_on_simplex(gram, gain, start)
    assert (x >= 0).all()
    assert x.sum() == pytest.approx(1.0)
    slope = gain - gram @ x
    assert slope.max() - slope @ x <= 1e-9 * max(1.0, gram.max())


@given(st.integers(1, 6), st.integers(0, 10**6))
@settings(max_examples=25)
def test_simplex_against_slsqp(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, gain = rng.normal(size=(size, 4)), rng.normal(size=size)
    gram = rows @ rows.T

    def loss(x: np.ndarray) -> float:
        return 0.5 * float(x @ gram @ x) - float(gain @ x)

    found = minimize(
        loss, np.full(size, 1.0 / size), method="SLSQP", bounds=[(0.0, None)] * size,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1.0},
        options={"ftol": 1e-12, "maxiter": 500},
    )  # fmt: skip
    x = maximise_on_simplex(gram, gain, np.eye(size)[0])
    assert loss(x) <= found.fun + 1e-7
    assert loss(x) == pytest.approx(found.fun, abs=1e-5)


def hinges(features: np.ndarray) -> Oracle:
    """Σ max(0, 1 − row·w), the hinge loss of a linear classifier."""

    def worst(weights: np.ndarray, _: float | None) -> Cut:
        violated = features @ weights < 1.0
        return Cut(features[violated].sum(axis=0), float(violated.sum()))

    return worst


def classes(rng: np.random.Generator, number: int, scale: np.ndarray) -> np.ndarray:
    """Rows of features, with signs such that w·row > 0 is correct; not separable."""
    features = rng.normal(size=(number, len(scale))) * scale
    truth = features @ (rng.normal(size=len(scale)) / scale) + rng.normal(size=number)
    return features * np.sign(truth)[:, None]


@given(st.integers(1, 4), st.sampled_from((0.3, 5.0)), st.integers(0, 10**6))
@settings(max_examples=25)
def test_classifier_against_slsqp(size: int, width: float, seed: int) -> None:
    """The same problem with a slack for each row, small enough for a general solver."""
    rng = np.random.default_rng(seed)
    features = classes(rng, 15, np.ones(size))
    mean = rng.normal(size=size)
    precision = np.full(size, width**-2)
    slack = len(features)

    def loss(x: np.ndarray) -> float:
        return 0.5 * float(precision @ (x[slack:] - mean) ** 2) + 0.7 * float(x[:slack].sum())

    start = np.concatenate([np.maximum(0.0, 1.0 - features @ mean), mean])
    expected = minimize(
        loss, start, method="SLSQP", bounds=[(0.0, None)] * slack + [(None, None)] * size,
        constraints={"type": "ineq", "fun": lambda x: features @ x[slack:] + x[:slack] - 1.0},
        options={"ftol": 1e-13, "maxiter": 1000},
    )  # fmt: skip
    found = minimise_by_cuts(
        hinges(features), new_bundle(precision, mean, 0.7), mean, tolerance=1e-9
    )
    last = found.rounds[-1]
    assert found.converged
    assert found.proven
    assert last.upper == pytest.approx(expected.fun, rel=1e-5)
    assert last.lower <= expected.fun + 1e-6
    assert last.weights == pytest.approx(expected.x[slack:], abs=1e-2)


def ill_scaled(tolerance: float, max_iterations: int) -> tuple[np.ndarray, Minimum]:
    features = classes(np.random.default_rng(3), 500, 10.0 ** np.linspace(-1, 2, 10))
    bundle = new_bundle(np.ones(10), np.zeros(10), 1.0)
    found = minimise_by_cuts(
        hinges(features), bundle, np.zeros(10), tolerance=tolerance, max_iterations=max_iterations
    )
    return features, found


def test_features_of_different_scale() -> None:
    """The reported value is J at the final weights, and no weights are below the bound."""
    features, found = ill_scaled(1e-6, 400)
    assert found.converged
    last = found.rounds[-1]

    def cost(weights: np.ndarray) -> float:
        return 0.5 * float(weights @ weights) + float(np.maximum(0, 1 - features @ weights).sum())

    assert last.upper == pytest.approx(cost(last.weights), rel=1e-12)
    rng = np.random.default_rng(0)
    for spread in (1e-4, 1e-2, 1.0):
        nearby = last.weights + spread * rng.normal(size=(200, 10)) / np.logspace(-1, 2, 10)
        assert min(map(cost, nearby)) >= last.lower


def test_bounds_close_in_from_both_sides() -> None:
    _, found = ill_scaled(1e-6, 400)
    upper = np.array([now.upper for now in found.rounds])
    lower = np.array([now.lower for now in found.rounds])
    assert (np.diff(upper) <= 0).all()
    assert (np.diff(lower) >= 0).all()
    assert (lower <= upper).all()


def test_oracle_that_may_miss() -> None:
    """The gap is at least the oracle's uncertainty."""
    features = classes(np.random.default_rng(1), 40, np.ones(3))
    exact = hinges(features)

    def unsure(weights: np.ndarray, seconds: float | None) -> Cut:
        return exact(weights, seconds)._replace(excess=0.25)

    bundle = new_bundle(np.ones(3), np.zeros(3), 2.0)
    found = minimise_by_cuts(unsure, bundle, np.zeros(3), tolerance=1e-9)
    last = found.rounds[-1]
    assert found.converged
    assert not found.proven
    assert last.upper - last.lower >= 0.5
    assert "gap of at most 0.5" in found.reason


def test_limits_and_interruptions() -> None:
    features = classes(np.random.default_rng(1), 40, np.ones(3))
    seen: list[CuttingPlaneState] = []
    exact = hinges(features)

    def run(oracle: Oracle = exact, **limits: object) -> Minimum:
        bundle = new_bundle(np.ones(3), np.zeros(3), 1.0)
        options = {"tolerance": 1e-12, "progress": seen.append, **limits}
        return minimise_by_cuts(oracle, bundle, np.zeros(3), **options)  # type: ignore[arg-type]

    few = run(max_iterations=3)
    assert (len(few.rounds), few.converged, few.reason) == (3, False, "3 iterations")
    assert [now.iteration for now in seen] == [1, 2, 3]
    assert run(time_limit=0.0).reason == "time limit"
    stopped = run(should_stop=lambda: True)
    assert (len(stopped.rounds), stopped.interrupted) == (1, True)

    asked = 0

    def interrupted(weights: np.ndarray, seconds: float | None) -> Cut:
        nonlocal asked
        asked += 1
        if asked == 4:
            raise KeyboardInterrupt
        return exact(weights, seconds)

    kept = run(interrupted)
    assert (len(kept.rounds), kept.interrupted) == (3, True)
    assert kept.rounds[-1].upper == few.rounds[-1].upper
    cut_short = run(lambda w, s: exact(w, s)._replace(interrupted=True))
    assert (len(cut_short.rounds), cut_short.interrupted) == (1, True)
