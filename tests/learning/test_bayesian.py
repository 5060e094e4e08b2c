"""The posterior of the weights, compared with sums over a grid of weights.

The likelihood on the grid is written out from the definition, by enumerating worlds.
"""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import lapis
from brute_force import brute_force
from lapis.learning.weight_posterior import WeightPosterior
from lapis.runtime.progress import Progress
from oracle import Facts, render_database

TEN = lapis.parse("t = {0, ..., 9}\nP(t)\n0 P(x)")
THREE_TRUE = lapis.Database.parse("P(0) P(1) P(2)")
TWO = lapis.parse("t = {A, B, C}\nP(t)\nQ(t)\n0 P(x) ^ Q(y)\n0 Q(x)\n")
TWO_FACTS = Facts((("P", ("A",)), ("Q", ("A",)), ("Q", ("B",))), (), ())
TWO_DATA = lapis.Database.parse(render_database(TWO.predicates, TWO_FACTS))


def posterior_of(fit: lapis.Fit) -> WeightPosterior:
    assert fit.posterior is not None
    return fit.posterior


class Grid:
    """A density over a grid of weights, as one over points."""

    def __init__(self, axes: list[np.ndarray], log_density: np.ndarray) -> None:
        self.points = np.array(list(itertools.product(*axes)))
        chance = np.exp(log_density - log_density.max())
        self.chance = chance / chance.sum()

    @property
    def mean(self) -> np.ndarray:
        return self.chance @ self.points

    @property
    def deviation(self) -> np.ndarray:
        return np.sqrt(self.chance @ (self.points - self.mean) ** 2)

    def quantile(self, number: int, share: float) -> float:
        order = np.argsort(self.points[:, number], kind="stable")
        total = np.cumsum(self.chance[order])
        return float(self.points[order[np.searchsorted(total, share)], number])


def grid_of_one(log_prior: np.ndarray, weight: np.ndarray) -> Grid:
    """Ten atoms, three true: each is a coin with odds exp(weight)."""
    return Grid([weight], 3 * weight - 10 * np.logaddexp(0.0, weight) + log_prior)


def grid_of_two(width: float) -> Grid:
    """log P(data) = w·n(data) − log Σ_worlds exp(w·n(world)), by the oracle's worlds."""
    fit = lapis.learn(TWO, TWO_DATA, ["P", "Q"])
    worlds = brute_force(TWO, [TWO_FACTS], fit.parameters, ("P", "Q"))
    axis = np.linspace(-6 * width, 6 * width, 161)
    points = np.array(list(itertools.product(axis, axis)))
    scores = points @ worlds.free[0].counts.T
    likelihood = points @ worlds.clamped[0].counts[0] - np.logaddexp.reduce(scores, axis=1)
    return Grid([axis, axis], likelihood - (points**2).sum(axis=1) / (2 * width**2))


def agree(posterior: WeightPosterior, grid: Grid) -> None:
    """Within four standard errors, which effective sizes give."""
    size = np.sqrt(posterior.least_size)
    lower, upper = posterior.interval(0.9)
    for number in range(len(posterior)):
        spread = grid.deviation[number]
        assert abs(posterior.mean[number] - grid.mean[number]) <= 4 * spread / size
        assert posterior.deviation[number] == pytest.approx(spread, rel=6 / size)
        # The density at the ends of a Gaussian's 90 % interval is 0.103 / deviation.
        error = np.sqrt(0.05 * 0.95) / (0.103 / spread) / size
        assert abs(lower[number] - grid.quantile(number, 0.05)) <= 4 * error
        assert abs(upper[number] - grid.quantile(number, 0.95)) <= 4 * error


def test_nuts_agrees_with_a_grid_of_one_weight() -> None:
    weight = np.linspace(-12.0, 10.0, 20_001)
    grid = grid_of_one(-(weight**2) / 8, weight)
    assert grid.mean[0] == pytest.approx(-0.8278, abs=1e-4)
    fit = lapis.learn(TEN, THREE_TRUE, "P", prior="gaussian:2", estimate="mean")
    assert fit.converged
    agree(posterior_of(fit), grid)
    # Control variates make the mean far better than the draws are.
    assert fit.weights[0] == pytest.approx(grid.mean[0], abs=0.01)


def test_nuts_agrees_with_a_grid_of_two_weights() -> None:
    fit = lapis.learn(
        TWO, TWO_DATA, ["P", "Q"], prior="gaussian:1.5", estimate="mean", num_draws=600
    )
    agree(posterior_of(fit), grid_of_two(1.5))


def test_nuts_follows_the_corner_of_an_l1_prior() -> None:
    weight = np.linspace(-12.0, 10.0, 20_001)
    grid = grid_of_one(-2.0 * np.abs(weight), weight)
    fit = lapis.learn(TEN, THREE_TRUE, "P", prior="l1:2", estimate="mean")
    agree(posterior_of(fit), grid)


def test_a_flat_prior_is_taken_where_the_data_bounds_all_weights() -> None:
    weight = np.linspace(-15.0, 12.0, 20_001)
    fit = lapis.learn(TEN, THREE_TRUE, "P", prior="none", estimate="mean")
    agree(posterior_of(fit), grid_of_one(0.0 * weight, weight))
    assert "the prior is flat" in str(fit)


def test_hidden_atoms_are_summed_out_of_the_posterior() -> None:
    """Of P(x) <=> Q(x) with Q hidden and Q(x) of weight 1 only: P has odds by two sums."""
    model = lapis.parse("t = {0, ..., 5}\nP(t)\nQ(t)\n0 P(x) <=> Q(x)\n@fixed 1 Q(x)")
    data = lapis.Database.parse("P(0) P(1) P(2) P(3) P(4)")
    axis = np.linspace(-12.0, 12.0, 4001)
    true, false = np.logaddexp(axis + 1, 0.0), np.logaddexp(1.0, axis)  # over Q, P given
    grid = Grid([axis], 5 * true + false - 6 * np.logaddexp(true, false) - axis**2 / 8)
    fit = lapis.learn(
        model, data, objective="likelihood", unobserved=["Q"], prior="gaussian:2", estimate="mean",
        num_draws=400,
    )  # fmt: skip
    posterior = posterior_of(fit)
    assert posterior.fixed.tolist() == [False, True]
    assert (posterior.draws[:, :, 1] == 1.0).all()
    agree_first(posterior, grid)
    assert "several modes" in str(fit)


def agree_first(posterior: WeightPosterior, grid: Grid) -> None:
    size = np.sqrt(posterior.least_size)
    assert abs(posterior.mean[0] - grid.mean[0]) <= 4 * grid.deviation[0] / size
    assert posterior.deviation[0] == pytest.approx(grid.deviation[0], rel=6 / size)


def test_laplace_is_the_gaussian_of_the_definition() -> None:
    """Mode and curvature by finite differences of the log-posterior on a fine grid."""
    weight = np.linspace(-3.0, 2.0, 500_001)
    logs = 3 * weight - 10 * np.logaddexp(0.0, weight) - weight**2 / 8
    best, step = int(np.argmax(logs)), weight[1] - weight[0]
    wide = 1000
    bend = (2 * logs[best] - logs[best - wide] - logs[best + wide]) / (wide * step) ** 2
    fit = lapis.learn(
        TEN, THREE_TRUE, "P", prior="gaussian:2", estimate="mean", posterior_method="laplace"
    )
    posterior = posterior_of(fit)
    assert posterior.mean[0] == pytest.approx(weight[best], abs=1e-4)
    assert posterior.deviation[0] == pytest.approx(bend**-0.5, rel=1e-4)
    lower, upper = posterior.interval(0.5)
    assert upper[0] - lower[0] == pytest.approx(2 * 0.6744898 * bend**-0.5, rel=1e-4)
    draws = posterior.draws.ravel()
    assert draws.mean() == pytest.approx(weight[best], abs=4 * bend**-0.5 / len(draws) ** 0.5)
    assert 0.9 < posterior.details["effective_share"] < 1.0
    assert "approximated by a Gaussian" in str(fit)


def test_laplace_says_where_the_posterior_is_no_gaussian() -> None:
    """All of three atoms true under a wide prior: a long tail to the right."""
    model = lapis.parse("t = {A, B, C}\nP(t)\n0 P(x)")
    data = lapis.Database.parse("P(A) P(B) P(C)")
    fit = lapis.learn(
        model, data, "P", prior="gaussian:50", estimate="mean", posterior_method="laplace"
    )
    share = posterior_of(fit).details["effective_share"]
    assert share < 0.5
    assert "the posterior is not Gaussian" in str(fit)


def test_the_seed_decides_the_draws() -> None:
    def draws(seed: int) -> np.ndarray:
        fit = lapis.learn(
            TEN, THREE_TRUE, "P", estimate="mean", num_draws=50, num_chains=2, random_state=seed
        )
        return posterior_of(fit).draws

    first = draws(3)
    assert first.shape == (2, 50, 1)
    assert np.array_equal(first, draws(3))
    assert not np.array_equal(first, draws(4))


def test_fit_and_posterior_say_the_same() -> None:
    fit = lapis.learn(TWO, TWO_DATA, "Q", estimate="mean", num_draws=300, level=0.5)
    posterior = posterior_of(fit)
    document = fit.to_json()
    assert (document["estimate"], document["posterior"]["level"]) == ("mean", 0.5)
    assert [row["weight"] for row in document["weights"]] == posterior.mean.tolist()
    assert [row["stderr"] for row in document["weights"]] == posterior.deviation.tolist()
    assert [row["mean"] for row in document["posterior"]["weights"]] == posterior.mean.tolist()
    assert [rule.weight for rule in fit.model.rules] == posterior.mean.tolist()
    assert "50% interval" in str(fit)
    assert "posterior means" in fit.text
    mode = lapis.learn(TWO, TWO_DATA, "Q")
    assert mode.to_json()["posterior"] is None
    assert posterior.mode == pytest.approx(mode.weights, abs=1e-6)
    inside = (posterior["Q(x)"] >= posterior.interval()[0][1]) & (
        posterior["Q(x)"] <= posterior.interval()[1][1]
    )
    assert inside.mean() == pytest.approx(0.5, abs=0.01)


def test_a_time_limit_keeps_the_draws_there_are() -> None:
    events: list[Progress] = []
    wanted = 1_000_000
    fit = lapis.learn(
        TWO, TWO_DATA, "Q", estimate="mean", num_draws=wanted, time_limit=2.0,
        progress=events.append,
    )  # fmt: skip
    posterior = posterior_of(fit)
    assert 0 < posterior.num_draws < wanted
    assert posterior.interrupted
    assert not fit.converged
    told = [event for event in events if event.phase == "posterior"]
    assert told[-1].total == 4 * (wanted + 200)  # of all chains, also those that hardly began
    assert told[-1].done <= told[-1].total
    assert 1 <= posterior.num_chains <= 4


def test_stopped_before_the_draws_the_mode_is_given() -> None:
    fit = lapis.learn(TEN, THREE_TRUE, "P", estimate="mean", stop=lambda: True)
    assert fit.posterior is None
    assert not fit.converged
    assert "stopped before the posterior was found" in str(fit)


def test_chains_that_stay_apart_have_not_converged() -> None:
    fit = lapis.learn(TEN, THREE_TRUE, "P", estimate="mean", num_draws=400, num_chains=2)
    posterior = posterior_of(fit)
    apart = posterior.draws + np.array([0.0, 9.0])[:, None, None]
    parted = replace(posterior, draws=apart)
    assert posterior.converged
    assert not parted.converged
    assert "chains disagree" in str(parted)


def test_rhat_and_effective_sizes_are_those_of_arviz() -> None:
    arviz = pytest.importorskip("arviz")
    fit = lapis.learn(TWO, TWO_DATA, "Q", estimate="mean", num_draws=400)
    posterior = posterior_of(fit)
    data = posterior.to_arviz()
    for number, formula in enumerate(posterior.formulas):
        draws = data.posterior[formula].values
        assert np.array_equal(draws, posterior.draws[:, :, number])
        assert posterior.rhat[number] == pytest.approx(float(arviz.rhat(draws)), abs=1e-6)
        bulk, tail = posterior.effective_sizes[number]
        assert bulk == pytest.approx(float(arviz.ess(draws, method="bulk")), rel=0.02)
        assert tail == pytest.approx(float(arviz.ess(draws, method="tail")), rel=0.02)


UNBOUNDED = "the data sets no bound to the weight of 'P(x)'"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "max-margin"}, "the margin of the data's world is no probability"),
        ({"objective": "weighted-pseudo"}, "weighted by predicates is a mean over atoms"),
        ({"expectation": "mcsat"}, "expectation 'mcsat' samples gradients and has no value"),
        ({"expectation": "gibbs"}, "expectation 'gibbs' samples gradients and has no value"),
        ({"expectation": "map"}, "expectation 'map' \\(voted perceptron\\) has no value"),
        ({"optimizer": "vp"}, "expectation 'map' \\(voted perceptron\\) has no value"),
        ({"expectation": "count-gibbs"}, "give no exact value"),
        ({"objective": "pseudo", "counts": "ijgp"}, "give no exact value"),
        ({"prior": "l1:1", "posterior_method": "laplace"}, "an l1 prior has a corner"),
        ({"posterior_method": "gibs"}, "unknown posterior_method 'gibs'"),
        ({"level": 1.0}, "level must be"),
        ({"estimate": "mode", "num_draws": 7}, "num_draws must be"),
        ({"estimate": "mode", "num_draws": 70}, "num_draws is for a posterior"),
        ({"estimate": "mode", "level": 0.5}, "level is for a posterior"),
        ({"estimate": "median"}, "estimate must be mode or mean"),
    ],
)
def test_what_has_no_posterior_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(lapis.LapisError, match=message):
        lapis.learn(TEN, THREE_TRUE, "P", **{"estimate": "mean", **options})  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["nuts", "laplace"])
@pytest.mark.parametrize("objective", ["conditional", "pseudo"])
def test_an_improper_posterior_is_refused(method: str, objective: str) -> None:
    all_true = lapis.Database.parse(" ".join(f"P({i})" for i in range(10)))
    with pytest.raises(
        lapis.LapisError, match="without a prior the posterior has no mean"
    ) as found:
        lapis.learn(
            TEN, all_true, "P", objective=objective, prior="none", estimate="mean",
            posterior_method=method,
        )  # fmt: skip
    assert UNBOUNDED in str(found.value)
    assert "give a prior" in str(found.value)


def test_a_direction_without_information_needs_a_prior() -> None:
    twice = lapis.parse("t = {0, ..., 9}\nP(t)\n0 P(x)\n0 P(x) ^ P(x)")
    with pytest.raises(lapis.LapisError, match="without a prior the posterior has no mean"):
        lapis.learn(twice, THREE_TRUE, "P", prior="none", estimate="mean")
    fit = lapis.learn(twice, THREE_TRUE, "P", prior="gaussian:2", estimate="mean", num_draws=300)
    first, second = posterior_of(fit).draws.reshape(-1, 2).T
    assert np.corrcoef(first, second)[0, 1] < -0.5  # only their sum is known


def test_hidden_atoms_need_a_prior_and_a_likelihood() -> None:
    data = lapis.Database.parse("P(A) ?Q(A) Q(B)")
    with pytest.raises(lapis.LapisError, match="completes hidden atoms by sampling"):
        lapis.learn(TWO, data, objective="pseudo", estimate="mean")


def test_a_pseudo_posterior_is_called_one() -> None:
    fit = lapis.learn(TWO, TWO_DATA, estimate="mean", num_draws=100)
    assert fit.objective == "pseudo"
    assert "pseudo-posterior" in str(fit)
    assert "pseudo-posterior" in fit.text


def test_a_likelihood_out_of_reach_says_what_else_has_a_posterior() -> None:
    model = lapis.parse("P(t)\nR(t, t)\n0 R(x, y) ^ P(x) => P(y)")
    rows = np.argwhere(np.random.default_rng(0).random((30, 30)) < 0.6).tolist()
    pairs = " ".join(f"R({i},{j})" for i, j in rows)  # no two constants can change places
    data = lapis.Database.parse(f"t = {{0, ..., 29}} P(0) {pairs}")
    with pytest.raises(lapis.TooLarge, match="no posterior mean without exact values") as found:
        lapis.learn(model, data, "P", estimate="mean", max_memory=1 << 20)
    assert "--objective pseudo" in str(found.value)
    assert "GB" in str(found.value) or "MB" in str(found.value)  # the estimate


def test_nothing_to_learn_has_no_posterior() -> None:
    model = lapis.parse("t = {A}\nP(t)\n@fixed 1 P(x)")
    with pytest.raises(lapis.LapisError, match="every rule is hard or @fixed"):
        lapis.learn(model, lapis.Database.parse("P(A)"), "P", estimate="mean")


def test_without_nutpie_laplace_is_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nutpie", None)
    with pytest.raises(lapis.LapisError, match="needs nutpie") as found:
        lapis.learn(TEN, THREE_TRUE, "P", estimate="mean")
    assert "lapis-mln[bayes]" in str(found.value)
    fit = lapis.learn(TEN, THREE_TRUE, "P", estimate="mean", posterior_method="laplace")
    assert fit.posterior is not None


def test_an_error_of_the_density_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    from lapis.learning import bayesian

    def fail(*_: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(bayesian.LogPosterior, "evaluate", fail)
    with pytest.raises(MemoryError, match="no room"):
        lapis.learn(TEN, THREE_TRUE, "P", estimate="mean")


def test_pictures_show_the_weights_that_vary() -> None:
    pytest.importorskip("matplotlib").use("Agg")
    model = lapis.parse("t = {0, ..., 9}\nP(t)\nQ(t)\n0 P(x)\n@fixed 1 Q(x)\n0 P(x) ^ Q(x)")
    fit = lapis.learn(model, THREE_TRUE, ["P", "Q"], estimate="mean", posterior_method="laplace")
    posterior = posterior_of(fit)
    axes = posterior.plot()
    assert [text.get_text() for text in axes.get_yticklabels()] == ["P(x)", "P(x) ^ Q(x)"]
    figure = posterior.plot_densities()
    assert [a.get_title() for a in figure.axes] == ["P(x)", "P(x) ^ Q(x)"]


def test_arviz_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = lapis.learn(TEN, THREE_TRUE, "P", estimate="mean", posterior_method="laplace")
    monkeypatch.setitem(
        sys.modules, "arviz", SimpleNamespace(convert_to_datatree=lambda draws: draws)
    )
    assert list(posterior_of(fit).to_arviz()) == ["P(x)"]
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(lapis.LapisError, match="this needs arviz"):
        posterior_of(fit).to_arviz()


def test_a_file_gives_the_posterior_back(tmp_path: Path) -> None:
    model = lapis.parse(
        "Has(page, word)\nCourse(page)\nHas(p, +w) => Course(p)\n@fixed 1 Course(p)"
    )
    data = lapis.Database.parse("Has(A,Java) Course(A) Has(B,Java) Has(C,Art) Course(C) Has(D,Art)")
    fit = lapis.learn(
        model, data, "Course", estimate="mean", posterior_method="laplace", num_draws=20
    )
    posterior = posterior_of(fit)
    posterior.save(tmp_path / "fit.npz")
    fit.save(tmp_path / "learned.mln")
    for again in (model, lapis.read(tmp_path / "learned.mln")):
        found = WeightPosterior.read(tmp_path / "fit.npz", again)
        assert np.array_equal(found.draws, posterior.draws)
        assert found.to_json() == posterior.to_json()
        assert [rule.text for rule in found.model.rules] == [rule.text for rule in model.rules]


def test_a_file_of_other_rules_is_refused(tmp_path: Path) -> None:
    fit = lapis.learn(TWO, TWO_DATA, "Q", estimate="mean", posterior_method="laplace", num_draws=10)
    path = tmp_path / "fit.npz"
    posterior_of(fit).save(path)
    other = lapis.parse("P(t)\nQ(t)\n0 P(x) ^ Q(y)\n0 P(x)\n")
    with pytest.raises(lapis.LapisError) as found:
        WeightPosterior.read(path, other)
    assert str(found.value).splitlines() == [
        f"<text>:4:1: rule 2 is 'P(x)', and that of the posterior {path} is 'Q(x)'",
        "    0 P(x)",
        "    ^^^^^^",
        "    give the model that learn -o wrote with the posterior",
    ]
    fewer = lapis.parse("P(t)\nQ(t)\n0 P(x) ^ Q(y)\n")
    with pytest.raises(lapis.LapisError, match=r"has a rule 'Q\(x\)' that <text> lacks"):
        WeightPosterior.read(path, fewer)
    more = lapis.parse("P(t)\nQ(t)\n0 P(x) ^ Q(y)\n0 Q(x)\nP(A).\n")
    with pytest.raises(lapis.LapisError, match=r"rule 3 is 'P\(A\)\.', and .* is missing"):
        WeightPosterior.read(path, more)


def test_what_is_no_posterior_is_refused(tmp_path: Path) -> None:
    with pytest.raises(lapis.LapisError, match="there is no such file"):
        WeightPosterior.read(tmp_path / "none.npz", TWO)
    (tmp_path / "text.npz").write_text("P(x)")
    with pytest.raises(lapis.LapisError, match="not a posterior, or a damaged one"):
        WeightPosterior.read(tmp_path / "text.npz", TWO)
