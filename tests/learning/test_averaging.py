"""Predictions averaged over the posterior: the mean of what the oracle says at each draw."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import lapis
import oracle
from cli_run import Run
from lapis.learning.weight_posterior import WeightPosterior
from lapis.runtime.progress import Progress
from oracle import Facts, render_database

MODEL = lapis.parse("""
person = {A, B, C}
Friends(person, person)
Smokes(person)
Cancer(person)
Smokes(x)
Smokes(x) => Cancer(x)
Friends(x, y) ^ Smokes(x) => Smokes(y)
Smokes(A) v Smokes(B) v Smokes(C).
""")
TRAINING = lapis.Database.parse("Friends(A,B) Friends(B,C) Smokes(A) Smokes(B) Cancer(A)")
ASKED = Facts((("Friends", ("A", "B")), ("Friends", ("C", "A"))), (), ())
QUERY = ["Smokes", "Cancer"]


@pytest.fixture(scope="module")
def posterior() -> WeightPosterior:
    fit = lapis.learn(
        MODEL, TRAINING, QUERY, prior="gaussian:2", estimate="mean", posterior_method="laplace",
        num_draws=10, num_chains=2,
    )  # fmt: skip
    assert fit.posterior is not None
    return fit.posterior


def asked() -> lapis.Database:
    return lapis.Database.parse(render_database(MODEL.predicates, ASKED))


def weighted(weights: np.ndarray) -> lapis.Model:
    soft = iter(weights.tolist())
    rules = [rule if rule.hard else replace(rule, weight=next(soft)) for rule in MODEL.rules]
    return MODEL.with_rules(tuple(rules))


def by_oracle(draws: np.ndarray) -> tuple[dict[str, float], dict[str, float]]:
    """Means and standard errors over the draws, of the marginals of the definition."""
    answers = [oracle.infer(weighted(draw), ASKED, frozenset(QUERY)).marginals for draw in draws]
    names = [atom for atom in answers[0] if atom.startswith(tuple(QUERY))]
    table = {atom: np.array([found[atom] for found in answers]) for atom in names}
    error = {atom: float(row.std(ddof=1) / len(row) ** 0.5) for atom, row in table.items()}
    return {atom: float(row.mean()) for atom, row in table.items()}, error


@pytest.mark.parametrize("method", ["auto", "exact", "enumerate", "lifted"])
def test_an_average_is_the_mean_of_the_answers_at_the_draws(
    posterior: WeightPosterior, method: str
) -> None:
    answer = lapis.infer(posterior, asked(), QUERY, method=method)
    mean, error = by_oracle(posterior.draws.reshape(-1, 3))
    assert {str(atom): answer[atom] for atom in answer.atoms} == pytest.approx(mean, abs=1e-8)
    found = dict(zip(answer.atoms, answer.errors.tolist(), strict=True))
    assert found == pytest.approx(error, abs=1e-8)
    assert (answer.method, answer.exact, answer.log_partition) == ("posterior", False, None)
    assert answer.diagnostics["draws"] == 20
    assert answer.diagnostics["draws_exact"]
    assert "averaged over 20 draws" in str(answer)
    assert "approximated by a Gaussian" in str(answer)


def test_few_draws_are_taken_at_equal_distances(posterior: WeightPosterior) -> None:
    answer = lapis.infer(posterior, asked(), QUERY, num_draws=6)
    chosen = posterior.draws[:, [0, 4, 9]].reshape(-1, 3)  # 4.5 is rounded to even
    mean, _ = by_oracle(chosen)
    assert {str(atom): answer[atom] for atom in answer.atoms} == pytest.approx(mean, abs=1e-8)


def test_formulas_soft_evidence_and_several_worlds(posterior: WeightPosterior) -> None:
    """As the means of the answers to each draw's own model."""
    worlds = [asked(), lapis.Database.parse("Friends(B,A) Cancer(A)", name="other")]
    query = ["Cancer", "Smokes(x) ^ Cancer(x)"]
    beliefs = {"Smokes(A)": 0.7}
    answer = lapis.infer(
        posterior, worlds, query, open_predicates=["Smokes"], soft_evidence=beliefs
    )
    each = [
        lapis.infer(
            weighted(draw), worlds, query, open_predicates=["Smokes"], soft_evidence=beliefs
        )
        for draw in posterior.draws.reshape(-1, 3)
    ]
    assert answer.atoms == each[0].atoms
    assert answer.probability == pytest.approx(np.mean([a.probability for a in each], axis=0))
    counts = np.mean([a.expected_counts for a in each], axis=0)
    assert answer.expected_counts == pytest.approx(counts)
    assert answer.diagnostics["draws"] == 20


def test_sampled_answers_add_their_noise(posterior: WeightPosterior) -> None:
    answer = lapis.infer(posterior, asked(), QUERY, method="count-gibbs", num_draws=4)
    mean, _ = by_oracle(posterior.thinned(4))
    assert answer.diagnostics["draw_methods"] == ["count-gibbs"]
    assert not answer.diagnostics["draws_exact"]
    assert {str(atom): answer[atom] for atom in answer.atoms} == pytest.approx(mean, abs=0.05)


def test_weights_of_constants_are_found_by_name() -> None:
    """Java has another number in the test world, and Art is not in the training data."""
    model = lapis.parse("Has(page, word)\nCourse(page)\nHas(p, +w) => Course(p)")
    training = lapis.Database.parse("Has(A,Math) Has(B,Java) Course(B) Has(C,Java)")
    fit = lapis.learn(
        model, training, "Course", estimate="mean", posterior_method="laplace", num_draws=10
    )
    assert fit.posterior is not None
    world = lapis.Database.parse("Has(X,Art) Has(Y,Java)")
    answer = lapis.infer(fit.posterior, world, "Course")
    java = fit.posterior["Has(p, Java) => Course(p)"]
    assert answer["Course(Y)"] == pytest.approx(float(np.mean(1 / (1 + np.exp(-java)))))
    assert answer["Course(X)"] == 0.5


def test_a_time_limit_averages_what_there_is(posterior: WeightPosterior) -> None:
    events: list[Progress] = []
    many = replace(posterior, draws=np.tile(posterior.draws, (1, 20_000, 1)))
    answer = lapis.infer(
        many, asked(), QUERY, num_draws=400_000, time_limit=0.5, progress=events.append
    )
    assert answer.interrupted
    assert 2 <= answer.diagnostics["draws"] < 400_000
    assert events[-1].phase == "averaging"
    with pytest.raises(lapis.TooLarge, match="at least two are needed"):
        lapis.infer(posterior, asked(), QUERY, stop=lambda: True)


@pytest.mark.parametrize(
    "options",
    [
        {"bounds": True},
        {"relax": True},
        {"engine": "duckdb"},
        {"tables": "x"},
        {"jobs": 2},
    ],
)
def test_what_an_average_does_not_have_is_refused(
    posterior: WeightPosterior, options: dict[str, object]
) -> None:
    with pytest.raises(lapis.LapisError, match=f"does not read {next(iter(options))}"):
        lapis.infer(posterior, asked(), QUERY, **options)  # type: ignore[arg-type]


def test_an_average_is_not_left_in_a_store(posterior: WeightPosterior) -> None:
    with pytest.raises(lapis.LapisError, match="not a WeightPosterior"):
        lapis.infer_to_store(
            posterior,
            asked(),
            QUERY,
            engine="duckdb",
            output="x.parquet",  # type: ignore[arg-type]
        )


def test_draws_are_for_a_posterior() -> None:
    with pytest.raises(lapis.LapisError, match="num_draws needs a posterior"):
        lapis.infer(MODEL, asked(), QUERY, num_draws=7)


def test_a_most_likely_world_has_one_set_of_weights(posterior: WeightPosterior) -> None:
    with pytest.raises(lapis.LapisError, match="not a WeightPosterior") as found:
        lapis.map(posterior, asked(), QUERY)  # type: ignore[call-overload]
    assert "fit.model" in str(found.value)


RULES = "Smokes(person)\nCancer(person)\nSmokes(x) => Cancer(x)\n@fixed 0.5 Smokes(x)\n"


def test_the_command_line_writes_and_reads_a_posterior(run: Run) -> None:
    run.write("rules.mln", RULES)
    run.write("facts.db", "Smokes(A) Cancer(A) Smokes(B) Cancer(B) Smokes(C) !Cancer(C)\n")
    run.write("new.db", "Smokes(Z)\n")
    how = [
        "--estimate",
        "mean",
        "--num-draws",
        "700",
        "--num-chains",
        "2",
        "--level",
        "0.8",
        "--seed",
        "5",
    ]
    code, out, err = run(
        "learn", "rules.mln", "facts.db", "-q", "Cancer", *how, "-o", "out.mln", "--posterior",
        "fit.npz",
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert "80% interval" in out
    found = run.json("learn", "rules.mln", "facts.db", "-q", "Cancer", *how)
    assert found["posterior"]["weights"][0]["formula"] == "Smokes(x) => Cancer(x)"
    assert found["posterior"]["weights"][1]["rhat"] is None
    answer = run.json("infer", "out.mln", "new.db", "-q", "Cancer", "--posterior", "fit.npz")
    draws = WeightPosterior.read("fit.npz", lapis.read("out.mln")).thinned(200)
    expected = float(np.mean(1 / (1 + np.exp(-draws[:, 0]))))
    (atom,) = answer["atoms"]
    assert atom["probability"] == pytest.approx(expected)
    assert (answer["exact"], answer["log_partition"], answer["draws"]) == (False, None, 200)
    assert json.dumps(answer, allow_nan=False)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["learn", "rules.mln", "facts.db", "--posterior", "x.npz"], "add --estimate mean"),
        (
            ["learn", "rules.mln", "facts.db", "--estimate", "mean", "--posterior", "no/x.npz"],
            "cannot be written",
        ),
        (
            ["infer", "rules.mln", "facts.db", "-q", "Cancer", "--posterior", "x.npz"],
            "no such file",
        ),
        (
            ["infer", "rules.mln", "facts.db", "-q", "Cancer", "--num-draws", "7"],
            "num_draws needs a posterior",
        ),
        (
            ["infer", "rules.mln", "facts.db", "-q", "Cancer", "--posterior", "rules.mln"],
            "not a posterior, or a damaged one",
        ),
    ],
)
def test_wrong_words_are_refused(run: Run, words: list[str], message: str) -> None:
    run.write("rules.mln", RULES)
    run.write("facts.db", "Smokes(A) Cancer(A) Smokes(B)\n")
    code, _, err = run(*words)
    assert code == 1
    assert message in err
    assert not Path("x.npz").exists()
