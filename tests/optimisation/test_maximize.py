"""Every optimiser through one loop: known maxima, noise, limits, Ctrl-C, checkpoints, options."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from known_objectives import (
    Logistic,
    PlainPoint,
    Quadratic,
    RoundedLogistic,
    SampledLogistic,
    coordinate_descent,
    maximize,
    newton_maximum,
    random_logistic,
    scaled_curvature,
)
from lapis.errors import LapisError
from lapis.methods import methods_of
from lapis.optimisation.maximize import make_optimizer
from lapis.runtime.progress import Progress

OPTIMIZERS = {n: m for n, m in methods_of("optimizer").items() if m.takes == "objective"}
STEPWISE = [name for name in OPTIMIZERS if name not in ("lbfgs", "newton")]
SECOND_ORDER = ["lbfgs", "dn", "scg", "pscg"]


@pytest.mark.parametrize("name", ["lbfgs", "cd-pw", "dn", "pscg"])
def test_quadratic_whose_variances_differ_a_million_fold(name: str) -> None:
    rng = np.random.default_rng(3)
    objective = Quadratic(scaled_curvature(rng, 40, 1e6), rng.normal(size=40))
    trajectory = maximize(objective, make_optimizer(name), np.zeros(40), max_iterations=1000)
    assert trajectory.converged
    assert trajectory.reason == "gradient below 1e-06"
    assert trajectory.gradient_norm <= 1e-6
    assert np.abs(trajectory.weights - objective.peak).max() < 1e-6


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_logistic_regression_reaches_newtons_maximum(name: str) -> None:
    objective = random_logistic(np.random.default_rng(5), 60, 5, ridge=2.0)
    trajectory = maximize(objective, make_optimizer(name), np.zeros(5), max_iterations=5000)
    assert trajectory.converged
    assert np.abs(trajectory.weights - newton_maximum(objective)).max() < 1e-6
    assert trajectory.value == pytest.approx(
        objective.evaluate(trajectory.weights).value, abs=1e-12
    )
    assert trajectory.iterations == trajectory.curve[-1].iteration == len(trajectory.curve) - 1


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_l1_gives_the_zeros_of_coordinate_descent(name: str) -> None:
    objective = random_logistic(np.random.default_rng(8), 80, 8, ridge=0.5)
    l1 = np.full(8, 6.0)
    l1[2] = 0.0
    expected = coordinate_descent(objective, l1)
    assert 2 <= (expected == 0).sum() <= 6
    trajectory = maximize(objective, make_optimizer(name), np.zeros(8), l1=l1, max_iterations=5000)
    assert trajectory.converged
    assert np.array_equal(trajectory.weights == 0, expected == 0)
    assert np.abs(trajectory.weights - expected).max() < 1e-6
    smooth = objective.evaluate(trajectory.weights).value
    assert trajectory.value == pytest.approx(
        smooth - 6 * np.abs(np.delete(trajectory.weights, 2)).sum()
    )


@pytest.mark.parametrize("penalty", [0.0, 6.0], ids=["smooth", "l1"])
@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_the_last_bits_of_values_and_gradients_do_not_decide(name: str, penalty: float) -> None:
    plain = random_logistic(np.random.default_rng(8), 80, 8, ridge=0.5)
    l1 = np.full(8, penalty)
    expected = coordinate_descent(plain, l1)
    for seed in range(4):
        rounded = RoundedLogistic(plain.features, plain.truth, plain.ridge, seed=seed)
        trajectory = maximize(
            rounded, make_optimizer(name), np.zeros(8), l1=l1, max_iterations=5000
        )
        assert trajectory.converged
        assert np.array_equal(trajectory.weights == 0, expected == 0)
        assert np.abs(trajectory.weights - expected).max() < 1e-6


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_l1_from_a_start_on_the_wrong_side(name: str) -> None:
    objective = random_logistic(np.random.default_rng(8), 80, 4, ridge=0.5)
    l1 = np.full(4, 8.0)
    expected = coordinate_descent(objective, l1)
    start = np.where(expected >= 0, -1.0, 1.0)
    trajectory = maximize(objective, make_optimizer(name), start, l1=l1, max_iterations=5000)
    assert np.abs(trajectory.weights - expected).max() < 1e-6
    assert np.array_equal(trajectory.weights == 0, expected == 0)


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_bounds_hold_and_bind_where_the_gradient_presses(name: str) -> None:
    objective = random_logistic(np.random.default_rng(4), 60, 4, ridge=1.0)
    free = newton_maximum(objective)
    lower, upper = free - 10, free + 10
    upper[0], lower[1] = free[0] - 0.5, free[1] + 0.25
    trajectory = maximize(
        objective, make_optimizer(name), np.zeros(4), lower=lower, upper=upper, max_iterations=5000
    )
    assert trajectory.converged
    assert np.all((trajectory.weights >= lower) & (trajectory.weights <= upper))
    gradient = objective.evaluate(trajectory.weights).gradient
    assert trajectory.weights[0] == upper[0]
    assert gradient[0] > 0
    assert trajectory.weights[1] == lower[1]
    assert gradient[1] < 0
    assert np.abs(gradient[2:]).max() <= 1e-6


@pytest.mark.parametrize("name", ["dn", "scg", "pscg", "adam"])
@pytest.mark.parametrize("seed", [0, 1])
def test_sampled_gradients_end_within_the_noise(name: str, seed: int) -> None:
    """The loss is far below P/2, the loss due to sampling of the data."""
    exact = random_logistic(np.random.default_rng(seed), 300, 10, ridge=1.0)
    best = exact.evaluate(newton_maximum(exact)).value
    sampled = SampledLogistic(exact, seed=seed)
    trajectory = maximize(sampled, make_optimizer(name), np.zeros(10), max_iterations=200)
    lost = best - exact.evaluate(trajectory.weights).value
    assert 0 <= lost < 0.1 * 10 / 2
    assert trajectory.value is None


def test_contrastive_divergence_converges_in_the_mean() -> None:
    exact = random_logistic(np.random.default_rng(2), 300, 3, ridge=1.0)
    sampled = SampledLogistic(exact, seed=1)
    trajectory = maximize(sampled, make_optimizer("cd", forget=3), np.zeros(3), max_iterations=2000)
    best = exact.evaluate(newton_maximum(exact)).value
    # Within half of its uncertainty a weight costs an eighth.
    assert best - exact.evaluate(trajectory.weights).value < 3 / 8
    assert trajectory.converged
    assert "within 2 standard errors" in trajectory.reason


def correlated_logistic(seed: int, size: int) -> Logistic:
    """Features with a common part, so that few directions are well determined."""
    rng = np.random.default_rng(seed)
    common = 1.5 / np.sqrt(size) * np.ones((size, size)) + 0.15 * np.eye(size)
    features = rng.normal(size=(300, size)) @ common
    chance = 1 / (1 + np.exp(-features @ rng.normal(size=size)))
    return Logistic(features, (rng.random(300) < chance).astype(float), ridge=0.04)


def rms_error(exact: Logistic, weights: np.ndarray) -> float:
    """Compute the error of weights in their standard errors, in the mean square."""
    best = newton_maximum(exact)
    curvature, error = exact.evaluate(best).curvature, weights - best
    return float(np.sqrt(error @ curvature @ error / len(best)))


@pytest.mark.parametrize("name", ["pscg", "dn", "cd", "adam"])
@pytest.mark.parametrize("size", [4, 15])
def test_convergence_on_correlated_counts_is_not_overclaimed(name: str, size: int) -> None:
    for seed in range(4):
        exact = correlated_logistic(seed, size)
        sampled = SampledLogistic(exact, seed=seed)
        trajectory = maximize(sampled, make_optimizer(name), np.zeros(size))
        if trajectory.converged:
            assert rms_error(exact, trajectory.weights) < 0.5
        elif name == "pscg":
            pytest.fail(f"the default did not converge: {trajectory.reason}")


class UnderstatedNoise(SampledLogistic):
    """Standard errors are a tenth of the true ones, as those of correlated samples may be."""

    def evaluate(self, weights: np.ndarray) -> PlainPoint:
        point = super().evaluate(weights)
        return PlainPoint(
            weights, None, point.gradient, 0.1 * point.gradient_stderr, point.curvature
        )


@pytest.mark.parametrize("seed", range(3))
def test_a_small_newton_step_is_convergence_beyond_the_noise(seed: int) -> None:
    exact = correlated_logistic(seed, 6)
    trajectory = maximize(UnderstatedNoise(exact, seed=seed), make_optimizer("pscg"), np.zeros(6))
    assert trajectory.converged
    assert "within 0.1 standard errors" in trajectory.reason
    assert rms_error(exact, trajectory.weights) < 0.5


def test_a_rate_far_too_small_is_not_called_convergence() -> None:
    exact = random_logistic(np.random.default_rng(2), 300, 3, ridge=1.0)
    trajectory = maximize(
        SampledLogistic(exact), make_optimizer("cd", rate=1e-9), np.zeros(3), max_iterations=100
    )
    assert not trajectory.converged
    assert trajectory.reason == "100 iterations"


class HalfSampled(SampledLogistic):
    """Sampled, except for the last weight, which is independent and has no noise."""

    def evaluate(self, weights: np.ndarray) -> PlainPoint:
        point = super().evaluate(weights)
        gradient, stderr = point.gradient.copy(), point.gradient_stderr.copy()
        curvature = point.curvature.copy()
        gradient[-1], stderr[-1] = 50 * (2.0 - weights[-1]), 0.0
        curvature[-1], curvature[:, -1] = 0.0, 0.0
        curvature[-1, -1] = 50.0
        return PlainPoint(weights, None, gradient, stderr, curvature)


@pytest.mark.parametrize("name", ["cd", "dn", "pscg"])
def test_weights_without_noise_must_arrive_too(name: str) -> None:
    exact = random_logistic(np.random.default_rng(2), 100, 4, ridge=1.0)
    trajectory = maximize(
        HalfSampled(exact), make_optimizer(name), np.zeros(4), max_iterations=4000
    )
    assert trajectory.converged
    assert "standard errors" in trajectory.reason
    assert abs(trajectory.weights[-1] - 2.0) < 0.05


class Flat(Quadratic):
    """Neither exact nor with standard errors, as in the voted perceptron."""


def test_unknown_noise_is_judged_by_the_change_of_the_weights() -> None:
    objective = Flat(np.eye(2), np.ones(2), gradient_only=True, is_fixed=False)
    trajectory = maximize(
        objective, make_optimizer("vp", rate=0.5), np.zeros(2), max_iterations=10_000
    )
    assert trajectory.converged
    assert "weights changed by less than 0.001" in trajectory.reason
    assert np.abs(trajectory.weights - 1).max() < 0.01


@pytest.mark.parametrize("name", ["dn", "pscg"])
def test_unknown_noise_that_rejects_every_step_is_not_convergence(name: str) -> None:
    objective = Kink(np.eye(2), np.ones(2), is_fixed=False)
    trajectory = maximize(objective, make_optimizer(name), np.ones(2), max_iterations=100)
    assert trajectory.reason == "100 iterations"
    assert not trajectory.converged


def test_lbfgs_refuses_what_has_no_value() -> None:
    sampled = SampledLogistic(random_logistic(np.random.default_rng(0), 10, 2, 1.0))
    with pytest.raises(LapisError) as caught:
        maximize(sampled, make_optimizer("lbfgs"), np.zeros(2))
    assert caught.value.code == "needs-exact-objective"


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_no_parameters_are_learned_at_once(name: str) -> None:
    objective = Quadratic(np.empty((0, 0)), np.empty(0))
    trajectory = maximize(objective, make_optimizer(name), np.empty(0))
    assert trajectory.converged
    assert trajectory.iterations == 0
    assert trajectory.weights.shape == (0,)


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_a_weight_without_curvature_or_gradient_stays(name: str) -> None:
    logistic = random_logistic(np.random.default_rng(1), 40, 3, ridge=0.0)
    features = np.column_stack([logistic.features[:, :2], np.zeros(40)])
    objective = Logistic(features, logistic.truth)
    start = np.array([0.0, 0.0, 0.7])
    trajectory = maximize(
        objective, make_optimizer(name), start, max_iterations=20_000, tolerance=1e-5
    )
    assert trajectory.converged
    assert trajectory.weights[2] == 0.7


@pytest.mark.parametrize("name", [*STEPWISE, "lbfgs"])
def test_iterations_are_limited_and_reported(name: str) -> None:
    rng = np.random.default_rng(3)
    objective = Quadratic(scaled_curvature(rng, 10, 1e4), rng.normal(size=10))
    steps: list[Progress] = []
    trajectory = maximize(
        objective, make_optimizer(name), np.zeros(10), max_iterations=4, progress=steps.append
    )
    assert trajectory.reason == "4 iterations"
    assert not trajectory.converged
    assert not trajectory.interrupted
    assert [step.done for step in steps] == [0, 1, 2, 3, 4]
    assert [point.iteration for point in trajectory.curve] == [0, 1, 2, 3, 4]
    seconds = [step.seconds for step in steps]
    assert seconds == sorted(seconds)
    assert np.array_equal(steps[-1].weights, trajectory.weights)


def test_a_time_limit_of_nothing_ends_at_the_start() -> None:
    objective = random_logistic(np.random.default_rng(1), 40, 3, ridge=0.1)
    trajectory = maximize(objective, make_optimizer("pscg"), np.zeros(3), time_limit=0.0)
    assert (trajectory.reason, trajectory.iterations, trajectory.converged) == (
        "time limit",
        0,
        False,
    )


def test_the_callers_time_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("lapis.runtime.progress.time.monotonic", lambda: now[0])

    def look(step: Progress) -> None:
        now[0] += 100.0

    objective = random_logistic(np.random.default_rng(1), 40, 3, ridge=0.1)
    trajectory = maximize(objective, make_optimizer("pscg"), np.zeros(3), progress=look)
    assert trajectory.seconds == 0.0
    assert {point.seconds for point in trajectory.curve} == {0.0}


def test_should_stop_is_the_user() -> None:
    objective = random_logistic(np.random.default_rng(1), 40, 3, ridge=0.1)
    calls: list[int] = []

    def stop() -> bool:
        calls.append(1)
        return len(calls) > 3

    trajectory = maximize(objective, make_optimizer("dn"), np.zeros(3), should_stop=stop)
    assert trajectory.interrupted
    assert trajectory.reason == "stopped by the user"
    assert trajectory.iterations == 3


class Interrupted(Quadratic):
    """A user who presses Ctrl-C during evaluation number 6."""

    def evaluate(self, weights: np.ndarray) -> PlainPoint:
        if self.evaluations == 5:
            self.evaluations += 1
            raise KeyboardInterrupt
        return super().evaluate(weights)


@pytest.mark.parametrize("name", [*STEPWISE, "lbfgs"])
def test_ctrl_c_keeps_the_best_so_far(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    objective = Interrupted(scaled_curvature(rng, 10, 1e4), rng.normal(size=10))
    trajectory = maximize(
        objective, make_optimizer(name), np.zeros(10), checkpoint=tmp_path / "run", fingerprint="x"
    )
    assert trajectory.interrupted
    assert trajectory.reason == "stopped by the user"
    assert 0 < trajectory.iterations <= 5
    assert objective.evaluate(trajectory.weights).value > objective.evaluate(np.zeros(10)).value
    assert (tmp_path / "run").exists()


def test_ctrl_c_before_anything_is_known_returns_the_start() -> None:
    objective = Interrupted(np.eye(2), np.ones(2), evaluations=5)
    trajectory = maximize(objective, make_optimizer("pscg"), np.full(2, 0.3))
    assert trajectory.interrupted
    assert trajectory.weights.tolist() == [0.3, 0.3]
    assert trajectory.value is None
    assert trajectory.curve == ()


@pytest.mark.parametrize("name", STEPWISE)
@pytest.mark.parametrize("penalised", [False, True], ids=["smooth", "l1"])
def test_a_resumed_climb_is_bitwise_the_uninterrupted_one(
    name: str, penalised: bool, tmp_path: Path
) -> None:
    objective = random_logistic(np.random.default_rng(6), 60, 6, ridge=0.3, spread=10.0)
    l1 = np.full(6, 3.0) if penalised else None
    whole = maximize(objective, make_optimizer(name), np.zeros(6), l1=l1, max_iterations=30)
    path = tmp_path / "run.npz"
    for limit in (7, 8, 19, 30):
        trajectory = maximize(
            objective, make_optimizer(name), np.zeros(6), l1=l1, max_iterations=limit,
            checkpoint=path, fingerprint="six weights",
        )  # fmt: skip
    assert trajectory.weights.tobytes() == whole.weights.tobytes()
    assert [p._replace(seconds=0.0) for p in trajectory.curve] == [
        p._replace(seconds=0.0) for p in whole.curve
    ]
    assert (trajectory.value, trajectory.reason, trajectory.iterations, trajectory.converged) == (
        whole.value, whole.reason, whole.iterations, whole.converged,
    )  # fmt: skip


def test_a_resumed_lbfgs_goes_on_from_where_it_was(tmp_path: Path) -> None:
    objective = random_logistic(np.random.default_rng(6), 60, 6, ridge=0.3)
    path = tmp_path / "run"
    first = maximize(
        objective, make_optimizer("lbfgs"), np.zeros(6), max_iterations=5, checkpoint=path
    )
    trajectory = maximize(objective, make_optimizer("lbfgs"), np.zeros(6), checkpoint=path)
    assert trajectory.curve[: len(first.curve)] == first.curve
    assert trajectory.converged
    assert trajectory.iterations > 5
    assert np.abs(trajectory.weights - newton_maximum(objective)).max() < 1e-6


def test_a_sampled_climb_resumes_with_its_window(tmp_path: Path) -> None:
    exact = random_logistic(np.random.default_rng(2), 200, 3, ridge=1.0)
    path = tmp_path / "run"
    stopped = maximize(
        SampledLogistic(exact), make_optimizer("pscg"), np.zeros(3), max_iterations=10,
        checkpoint=path,
    )  # fmt: skip
    trajectory = maximize(
        SampledLogistic(exact, seed=1), make_optimizer("pscg"), np.zeros(3), max_iterations=400,
        checkpoint=path,
    )  # fmt: skip
    assert stopped.iterations == 10
    assert trajectory.curve[:11] == stopped.curve
    assert trajectory.converged
    best = exact.evaluate(newton_maximum(exact)).value
    assert best - exact.evaluate(trajectory.weights).value < 0.3


def test_a_converged_checkpoint_needs_no_further_step(tmp_path: Path) -> None:
    objective = random_logistic(np.random.default_rng(6), 60, 3, ridge=0.3)
    path = tmp_path / "run"
    first = maximize(objective, make_optimizer("pscg"), np.zeros(3), checkpoint=path)
    again = maximize(objective, make_optimizer("pscg"), np.zeros(3), checkpoint=path)
    assert first.converged
    assert again.converged
    assert again.curve == first.curve
    assert again.weights.tobytes() == first.weights.tobytes()


def test_a_given_rate_that_diverges_is_an_error() -> None:
    objective = Quadratic(np.diag([1.0, 100.0]), np.ones(2))
    with pytest.raises(LapisError) as caught, np.errstate(over="ignore", invalid="ignore"):
        maximize(objective, make_optimizer("cd", rate=1.0), np.zeros(2), max_iterations=10_000)
    assert caught.value.code == "diverged"
    assert "smaller rate" in str(caught.value)


class Kink(Quadratic):
    """−Σ |w − peak|, with a wrong gradient of a hundredth at the peak."""

    def evaluate(self, weights: np.ndarray) -> PlainPoint:
        away = self.peak - weights
        gradient = np.where(away == 0, 0.01, np.sign(away))
        return PlainPoint(weights, -float(np.abs(away).sum()), gradient, None, self.curvature)


def test_a_standstill_is_not_called_convergence() -> None:
    objective = Kink(np.eye(2), np.ones(2))
    trajectory = maximize(objective, make_optimizer("dn"), np.ones(2), max_iterations=1000)
    assert not trajectory.converged
    assert trajectory.reason == "no step leads further up (gradient 0.01)"
    assert trajectory.iterations < 1000


@pytest.mark.parametrize(
    ("name", "options", "code"),
    [
        ("pcsg", {}, "unknown-optimizer"),
        ("cd", {"damping": 1.0}, "unknown-option"),
        ("cd", {"rate": -1.0}, "option-value"),
        ("cd", {"rate": math.nan}, "option-value"),
        ("lbfgs", {"memory": 2.5}, "option-value"),
    ],
    ids=["name", "option", "range", "nan", "kind"],
)
def test_wrong_options_are_refused(name: str, options: dict[str, float], code: str) -> None:
    with pytest.raises(LapisError) as caught:
        make_optimizer(name, **options)
    assert caught.value.code == code


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_the_table_of_options_is_what_optimizers_take(name: str) -> None:
    entry = OPTIMIZERS[name]
    optimizer = make_optimizer(name)
    assert optimizer.name == name
    for option in entry.own:
        assert getattr(optimizer, option.name) == option.default
        given = 3 if option.kind == "integer" else 3.0
        assert getattr(make_optimizer(name, **{option.name: given}), option.name) == given
