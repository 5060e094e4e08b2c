"""A fit that is saved and loaded is the same fit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import lapis

MODEL = """
Has(page, word)
Link(page, page)
Course(page)
Course(x)
Has(p, +w) => Course(p)
Link(p, q) ^ Course(p) => Course(q)
@fixed 0.5 Link(p, q) => Link(q, p)
"""
DATA = (
    "Has(A, Java) Has(B, art) Has(C, Java) Has(D, Java) Course(A) Course(C) Link(A, C) Link(B, D)"
)


def learn(**options: object) -> lapis.Fit:
    model, data = lapis.parse(MODEL, "pages.mln"), lapis.Database.parse(DATA)
    return lapis.learn(model, data, "Course", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"prior": "none"},  # unbounded weights
        {"prior": "l1:0.1"},
        {"objective": "pseudo", "max_iterations": 2},
        {"objective": "weighted-pseudo"},  # without standard errors
        {"objective": "max-margin"},
        {"expectation": "gibbs", "max_iterations": 5},
        {"optimizer": "vp", "max_iterations": 5},
    ],
    ids=str,
)
def test_a_round_trip_changes_nothing(options: dict[str, object], tmp_path: Path) -> None:
    fit = learn(**options)
    fit.save(tmp_path / "fit.json")
    again = lapis.Fit.load(tmp_path / "fit.json")
    np.testing.assert_array_equal(again.weights, fit.weights)
    if fit.standard_errors is None:
        assert again.standard_errors is None
    else:
        np.testing.assert_array_equal(again.standard_errors, fit.standard_errors)
    assert again.to_json() == json.loads(json.dumps(fit.to_json(), default=lambda x: x.tolist()))
    assert (again.curve, again.warnings, again.unbounded) == (
        fit.curve, fit.warnings, fit.unbounded,
    )  # fmt: skip
    assert (str(again), again.text, repr(again)) == (str(fit), fit.text, repr(fit))
    assert (again.query, again.constants) == (fit.query, fit.constants)
    data = lapis.Database.parse("Has(E, Java) Has(F, art) Link(E, F)")
    assert (
        lapis.infer(again.model, data, "Course").marginals
        == lapis.infer(fit.model, data, "Course").marginals
    )


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[1]", "1.5 Smokes(x)", '{"format": "lapis-fit 1"}', "[" * 100_000, '{"format": 2}'],
    ids=["empty", "object", "list", "model", "cut", "deep", "other"],
)
def test_another_file_is_no_fit(text: str, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(lapis.LapisError, match="this is no fit that Lapis has written"):
        lapis.Fit.load(tmp_path / "other.json")


@pytest.mark.parametrize("field", ["weights", "standard_errors", "model", "domains", "curve"])
def test_a_damaged_fit_is_refused(field: str, tmp_path: Path) -> None:
    path = tmp_path / "fit.json"
    learn().save(path)
    content = json.loads(path.read_text())
    content[field] = [1.0]
    path.write_text(json.dumps(content))
    with pytest.raises(lapis.LapisError):
        lapis.Fit.load(path)


def test_a_missing_fit_is_named(tmp_path: Path) -> None:
    with pytest.raises(lapis.LapisError, match=r"nothing\.json: No such file"):
        lapis.Fit.load(tmp_path / "nothing.json")
