"""The common methods of all results: frames, text, HTML, JSON and a summary."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pandas
import pytest

import lapis
from lapis import circuits
from lapis.circuits.circuit_results import CircuitAnswer, RowAnswers, Samples
from lapis.cli.render import json_pieces
from lapis.evaluation.cross_validation import CrossValidation
from lapis.evaluation.predictions import Predictions
from lapis.evaluation.score import Score
from lapis.learning.weight_posterior import WeightPosterior
from lapis.lifted.lifted_answer import Lifted
from lapis.problem.check import CheckReport, check
from lapis.results.answer import Counts, ExpectedCountTable
from lapis.results.atom_result import AtomResult
from lapis.results.plan_report import PlanReport
from lapis.results.result import Figures, Result, Table
from lapis.structure.learned_rules import LearnedRules

MODEL = lapis.parse("""
Friends(person, person)
Smokes(person)
Cancer(person)
1.5 Smokes(x) => Cancer(x)
1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)
-0.4 Cancer(x)
""")
WORLDS = [
    lapis.Database.parse("Friends(A,B) Smokes(A) Cancer(A) Friends(B,C)", name="north"),
    lapis.Database.parse("Friends(A,B) Smokes(B) Cancer(B)", name="south"),
]
QUERY = ["Smokes", "Cancer"]

RESULTS: dict[str, Callable[[], Result]] = {
    "answer": lambda: lapis.infer(MODEL, WORLDS[0], QUERY),
    "answer of worlds": lambda: lapis.infer(MODEL, WORLDS, [*QUERY, "Smokes(x) ^ Cancer(x)"]),
    "sampled": lambda: sampled(),
    "world": lambda: lapis.map(MODEL, WORLDS, QUERY),
    "lifted": lambda: lapis.lift(MODEL, sizes={"person": 20}),
    "cells of worlds": lambda: lapis.lift(MODEL, WORLDS, method="cells"),
    "classes of worlds": lambda: lapis.lift(MODEL, WORLDS, classes=True),
    "counts": lambda: lapis.count(MODEL, WORLDS),
    "estimated counts": lambda: lapis.count(MODEL, WORLDS, counts="ijgp", measure_error=True),
    "fit": lambda: lapis.learn(MODEL, WORLDS, QUERY),
    "fit at the mean": lambda: fit_at_mean(),
    "posterior": lambda: posterior(),
    "average": lambda: lapis.infer(posterior(), WORLDS, QUERY, num_draws=8),
    "score": lambda: lapis.score(MODEL, WORLDS, QUERY),
    "score without a query": lambda: lapis.score(MODEL, WORLDS),
    "folds": lambda: lapis.cross_validate(
        MODEL, WORLDS, QUERY, jobs=1, learn_options={"objective": "pseudo"}
    ),
    "report": lambda: check(MODEL, WORLDS),
    "by bp": lambda: lapis.infer(MODEL, WORLDS, QUERY, method="bp"),
    "with bounds": lambda: lapis.infer(MODEL, WORLDS, QUERY, method="bp", bounds=True),
    "expected counts": lambda: lapis.infer(MODEL, WORLDS, QUERY).expected,
    "expected counts of chains": lambda: sampled().expected,
    "expected counts of lifting": lambda: lapis.lift(MODEL, WORLDS).expected,
    "plan": lambda: lapis.plan(MODEL, WORLDS, QUERY),
    "rules": lambda: lapis.learn_structure(MODEL.with_rules(()), WORLDS, max_literals=2),
    "circuit": lambda: circuit(),
    "circuit query": lambda: circuits.query(circuit().circuit, query=["a"]),
    "circuit samples": lambda: circuits.sample(circuit().circuit, num_samples=3),
    "row answers": lambda: circuits.query_rows(circuit().circuit, TABLE),
    "circuit marginals": lambda: circuits.marginals(MODEL, WORLDS[0], QUERY),
    "predictions": lambda: predictions(),
    "table": lambda: lapis.infer(MODEL, WORLDS, QUERY).table("Cancer"),
    "figures": lambda: Figures({"atoms": 3, "gap": 0.5, "nothing": None}),
    "nothing": lambda: Table({"name": [], "value": []}),
}


TABLE = pandas.DataFrame({"a": [0, 1, 1, 0, 1], "b": [0, 1, 1, 0, 0], "c": [1, 1, 0, 0, 1]})


def sampled() -> lapis.Answer:
    return lapis.infer(MODEL, WORLDS, QUERY, method="gibbs", max_samples=400)


def circuit() -> circuits.LearnedCircuit:
    return circuits.learn(TABLE)


def fit_at_mean() -> lapis.Fit:
    return lapis.learn(
        MODEL, WORLDS, QUERY, estimate="mean", posterior_method="laplace", num_draws=10
    )


def posterior() -> lapis.WeightPosterior:
    found = fit_at_mean().posterior
    assert found is not None
    return found


def predictions() -> Result:
    found = lapis.score(MODEL, WORLDS, QUERY).predictions
    assert found is not None
    return found


@pytest.fixture(scope="module")
def made() -> dict[str, Result]:
    return {}


@pytest.fixture(params=RESULTS)
def result(request: pytest.FixtureRequest, made: dict[str, Result]) -> Result:
    name = str(request.param)
    if name not in made:
        made[name] = RESULTS[name]()
    return made[name]


def test_the_three_frames_are_the_same(result: Result) -> None:
    columns = list(result.columns())
    pandas, polars, arrow = result.to_pandas(), result.to_polars(), result.to_arrow()
    assert columns == list(pandas.columns) == polars.columns == arrow.column_names
    assert len(pandas) == len(polars) == arrow.num_rows
    for name in columns:
        texts = [[plain(value) for value in values] for values in (
            pandas[name].tolist(), polars[name].to_list(), arrow[name].to_pylist()
        )]  # fmt: skip
        assert texts[0] == texts[1] == texts[2]


def plain(value: Any) -> Any:
    """None and NaN are both nothing."""
    return None if value is None or value != value else value


def test_json_is_the_same_at_once_and_in_pieces(result: Result) -> None:
    whole = json.loads(json.dumps(result.to_json(), default=float).replace("NaN", "null"))
    assert json.loads("".join(json_pieces(result.document()))) == whole


# Where the rows of a frame stand in the JSON document.
ROWS: dict[type[Result], str] = {
    lapis.Answer: "atoms", lapis.MostLikelyWorld: "atoms", Predictions: "atoms",
    Lifted: "formulas", Counts: "formulas", CheckReport: "formulas", lapis.Fit: "weights",
    WeightPosterior: "weights", Score: "predicates", PlanReport: "steps", LearnedRules: "rules",
    Table: "rows", ExpectedCountTable: "rows", RowAnswers: "queries", Samples: "samples",
}  # fmt: skip
SPLIT = re.compile(r"predicate|arg\d+")  # the parts of an atom, which JSON names as a whole


def json_rows(result: Result) -> list[dict[str, Any]]:
    """The rows of the JSON document as it is printed."""
    document = json.loads("".join(json_pieces(result.document())))
    if isinstance(result, CrossValidation):
        return [row for fold in document["folds"] for row in fold_rows(result, fold)]
    if isinstance(result, CircuitAnswer):
        return [
            {"variable": name, "state": state, "probability": probability}
            for name, states in document["distribution"].items()
            for state, probability in states.items()
        ]
    document.pop("trials", None)  # a table of its own
    place = ROWS.get(type(result))
    return [document] if place is None else list(document[place])


def fold_rows(result: CrossValidation, fold: dict[str, Any]) -> list[dict[str, Any]]:
    """A fold as rows: all predicates, then each."""
    parts = [{**part, "auc_pr": part["average_precision"]} for part in fold["predicates"]]
    common = {"fold": fold["fold"], "test": ", ".join(fold["test"])}
    rows = [{**fold, "predicate": "(all)"}, *parts]
    return [{c: (row | common).get(c) for c in result.columns()} for row in rows]


def test_json_and_frames_have_the_same_rows(result: Result) -> None:
    """Keys are columns, null is NaN or None, and lists are texts in frames."""
    rows = json_rows(result)
    columns = {
        name: [plain(value) for value in result.to_pandas()[name].tolist()]
        for name in result.columns()
        if not (isinstance(result, AtomResult) and SPLIT.fullmatch(name))
    }
    for number, row in enumerate(rows):
        shown = {name: values[number] for name, values in columns.items()}
        # Counts that are exact have no keys of estimates.
        assert set(row) | {n for n, v in shown.items() if v is None} == set(shown)
        for name, value in row.items():
            assert isinstance(value, list) or value == shown[name], name
    assert all(len(values) == len(rows) for values in columns.values())


def test_an_exact_answer_has_no_standard_errors() -> None:
    """An answer that is exact in part has 0 for its exact atoms, in JSON and frames alike."""
    exact = lapis.infer(MODEL, WORLDS[0], QUERY)
    assert {row["stderr"] for row in exact.to_json()["atoms"]} == {None}
    assert exact.to_pandas()["stderr"].isna().all()
    part = lapis.infer(
        MODEL, WORLDS, [*QUERY, "Smokes(A)"], method="gibbs", max_samples=400, random_state=1
    )
    known = [row for row in part.to_json()["atoms"] if row["atom"] == "Smokes(A)"]
    assert {row["stderr"] for row in known} == {0.0} or part.exact


def test_text_and_html_say_what_the_views_hold(result: Result) -> None:
    text, page = str(result), result._repr_html_()
    for view in result.views():
        for row in view.rows:
            for cell in row:
                assert cell in text
        assert all(heading in text and f"<th>{heading}" in page for heading in view.headings)
        assert page.count("<td") >= sum(map(len, view.rows))
    for note in (result.caption(), *result.remarks()):
        assert note in text
    assert result.summary() in repr(result)
    assert "\n" not in repr(result)


def test_counts_are_still_a_sequence_of_rows() -> None:
    counts = lapis.count(MODEL, WORLDS)
    assert len(counts) == 3
    assert [row.formula for row in counts] == [rule.text for rule in MODEL.rules]
    assert counts[-1] is list(counts)[2]
    assert counts[:2] == (counts[0], counts[1])
    assert counts[1] in counts


def test_missing_packages_are_said() -> None:
    from lapis.results.result import import_package

    with pytest.raises(lapis.LapisError, match=r"needs no_such_package, which is not installed"):
        import_package("no_such_package")
