"""Expected counts with the formulas they are of."""

from __future__ import annotations

import math

import pytest

import lapis
from cli_run import Run
from lapis import fields

PLUS = "P(t)\nQ(t, s)\n0.7 P(+x) => Q(x, y)\n-0.2 P(x)\nP(x) v Q(x, y).\n1.1 Q(x, +y)\n"
EAST = lapis.Database.parse("P(A) !Q(A,U)\ns = {U}\nt = {A, B}", "east")
WEST = lapis.Database.parse("!P(C)\ns = {U, V}\nt = {C, B}", "west")


def test_each_count_stands_by_its_formula() -> None:
    """One weight at a time is free: its own count alone is the derivative of log Z."""
    model = lapis.parse("P(t)\nQ(t)\nt = {A, B}\n0.3 P(+x)\n0.9 P(x) => Q(x)\n")
    found = lapis.infer(model, None, ["P", "Q"]).expected.to_pandas()
    chance = math.exp(0.3) * (1 + math.exp(0.9)) / (
        math.exp(0.3) * (1 + math.exp(0.9)) + 2 * math.exp(0.9)
    )  # fmt: skip
    expected = dict(zip(found["formula"], found["expected_count"], strict=True))
    false = math.exp(0.3) / (math.exp(0.3) * (1 + math.exp(0.9)) + 2 * math.exp(0.9))
    assert expected == pytest.approx(
        {"P(A)": chance, "P(B)": chance, "P(x) => Q(x)": 2 * (1 - false)}
    )


@pytest.mark.parametrize("worlds", [[EAST], [EAST, WEST], [WEST, EAST]])
def test_constants_of_all_worlds_are_named_as_in_the_counts(worlds: list[lapis.Database]) -> None:
    model = lapis.parse(PLUS)
    answer = lapis.infer(model, worlds, ["P", "Q"])
    names = [row.formula for row in lapis.count(model, worlds) if row.weight is not None]
    assert list(answer.formulas) == names
    alone = [lapis.infer(model, world, ["P", "Q"]).expected for world in worlds]
    for name in names:
        own = [part[name] for part in alone if name in list(part.values["formula"])]
        assert answer.expected[name] == pytest.approx(sum(own))


def test_lifting_names_them_alike() -> None:
    model = lapis.parse(PLUS)
    here = lapis.infer(model, [EAST, WEST], ["P", "Q"]).expected.to_pandas()
    there = lapis.lift(model, [EAST, WEST]).expected.to_pandas()
    assert list(there["formula"]) == list(here["formula"])
    assert there["expected_count"].tolist() == pytest.approx(here["expected_count"].tolist())


def test_json_has_both(run: Run) -> None:
    for command in (
        ["infer", "-q", "Smokes"],
        ["lift"],
        ["infer", "-q", "Smokes", "--method", "gibbs"],
    ):
        found = run.json(command[0], "m.mln", "d.db", *command[1:])
        rows = found["expected"]
        assert [row["expected_count"] for row in rows] == found["expected_counts"]
        assert [row["formula"] for row in rows] == [
            "Smokes(x) => Cancer(x)", "Friends(x, y) ^ Smokes(x) => Smokes(y)",
        ]  # fmt: skip
        if command[0] == "infer":
            errors = found.get("expected_counts_stderr", [None, None])
            assert [row["stderr"] for row in rows] == errors


def test_an_engine_names_them_too(tmp_path: object) -> None:
    model = lapis.parse(PLUS)
    here = lapis.infer(model, EAST, ["P", "Q"])
    there = lapis.infer_to_store(
        model, EAST, ["P", "Q"], engine="duckdb", output=f"{tmp_path}/answers.parquet", jobs=1
    )
    assert list(there.formulas) == list(here.formulas)
    found = [row["expected_count"] for row in there.to_json()["expected"]]
    assert found == pytest.approx(here.expected_counts.tolist())


def test_a_field_names_the_children_of_its_root() -> None:
    field = fields.parse(
        "t = {A, B}\nP(t)\nQ(t)\nroot:\n 0.5 f(x)\n 0 P(x)\nf(x):\n 1 P(x)\n 2 Q(x)"
    )
    found = fields.infer(field, None, "P").expected
    assert list(found.values["formula"]) == ["root: f(x)", "root: P(x)"]
    assert found["root: P(x)"] == pytest.approx(
        sum(fields.infer(field, None, "P").probability.tolist())
    )


def test_a_formula_that_is_not_there() -> None:
    found = lapis.infer(lapis.parse("P(t)\nt = {A}\n1 P(x)"), None, "P").expected
    with pytest.raises(
        lapis.LapisError, match=r"unknown formula 'P\(y\)'\n    did you mean 'P\(x\)'"
    ):
        found["P(y)"]
