"""The common methods of all results: frames, text, HTML, JSON and a summary."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import lapis
from lapis.cli.render import json_pieces
from lapis.problem.check import check
from lapis.results.result import Figures, Result, Table

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
    "sampled": lambda: lapis.infer(MODEL, WORLDS, QUERY, method="gibbs", max_samples=400),
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
    "predictions": lambda: predictions(),
    "table": lambda: lapis.infer(MODEL, WORLDS, QUERY).table("Cancer"),
    "figures": lambda: Figures({"atoms": 3, "gap": 0.5, "nothing": None}),
    "nothing": lambda: Table({"name": [], "value": []}),
}


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
