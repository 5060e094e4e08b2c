"""Undeclared data: similar names are errors, the rest is ignored with one warning."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lapis
from cli_run import Run
from lapis.errors import LapisErrors, LapisWarning
from lapis.problem.check import check

MODEL = "Smokes(person)\nCancer(person)\n1 Smokes(x) => Cancer(x)\n"
KNOWN = "Smokes(Ann) Cancer(Ann) Smokes(Bob)\n"
FOREIGN = "Height(Ann, 172)\nHeight(Bob, 180)\n!Married\ncolour = {Red, Green}\n"
IGNORED = (
    "ignored data that the model does not declare: 'Height' (2 facts), 'Married' (1 fact), "
    "the type 'colour'\n    --strict (strict=True) makes this an error"
)

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "infer": lambda model, data, **more: lapis.infer(model, data, "Cancer", **more).marginals,
    "map": lambda model, data, **more: lapis.map(model, data, "Cancer", **more).atoms,
    "count": lambda model, data, **more: [r.true for r in lapis.count(model, data, **more)],
    "score": lambda model, data, **more: lapis.score(model, data, "Cancer", **more).cll,
    "learn": lambda model, data, **more: lapis.learn(model, data, "Cancer", **more).value,
    "cross_validate": lambda model, data, **more: lapis.cross_validate(
        model, [data, data], ["Cancer"], jobs=1, **more
    ).pooled,
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_rest_is_ignored_with_one_warning(name: str) -> None:
    model = lapis.parse(MODEL)
    known, both = lapis.Database.parse(KNOWN), lapis.Database.parse(KNOWN + FOREIGN)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = FUNCTIONS[name](model, both)
    [warning] = caught
    assert warning.category is LapisWarning
    assert warning.filename == __file__
    expected = (
        IGNORED
        if name != "cross_validate"
        else IGNORED.replace("(2", "(4").replace("(1 fact", "(2 facts")
    )
    assert str(warning.message) == expected
    assert found == FUNCTIONS[name](model, known)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_strict_refuses_all_of_it(name: str) -> None:
    data = lapis.Database.parse(KNOWN + FOREIGN, "d.db")
    with pytest.raises(LapisErrors) as caught:
        FUNCTIONS[name](lapis.parse(MODEL), data, strict=True)
    messages = {(error.message, str(error.span)) for error in caught.value.errors}
    assert messages == {
        ("data for an unknown predicate 'Height'", "d.db:2:1"),
        ("data for an unknown predicate 'Married'", "d.db:4:2"),
        ("data for an unknown type 'colour'", "d.db:5:1"),
    }


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            "Smoke(Ann)\n",
            "d.db:2:1: data for an unknown predicate 'Smoke'\n    Smoke(Ann)\n    ^^^^^\n"
            "    did you mean 'Smokes', declared at <text>:1:1?",
        ),
        (
            "persons = {Ann}\n",
            "d.db:2:1: data for an unknown type 'persons'\n    persons = {Ann}\n"
            "    ^^^^^^^\n"
            "    did you mean 'person'?",
        ),
    ],
)
def test_near_misses_are_mistakes(name: str, data: str, message: str) -> None:
    with pytest.raises(lapis.LapisError) as caught:
        FUNCTIONS[name](lapis.parse(MODEL), lapis.Database.parse(KNOWN + data, "d.db"))
    assert str(caught.value).startswith(message)


COMMANDS = {
    "check": [],
    "count": [],
    "ground": ["-q", "Cancer"],
    "infer": ["-q", "Cancer"],
    "map": ["-q", "Cancer"],
    "score": ["-q", "Cancer"],
    "learn": ["-q", "Cancer"],
    "evaluate": ["-q", "Cancer", "--jobs", "1"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_say_it_on_stderr_and_refuse_it_if_strict(command: str, run: Run) -> None:
    Path("m.mln").write_text(MODEL)
    Path("d.db").write_text(KNOWN + FOREIGN)
    Path("e.db").write_text(KNOWN)
    data = ["d.db", "e.db"] if command == "evaluate" else ["d.db"]
    code, out, err = run(command, "m.mln", *data, *COMMANDS[command], "--json")
    assert code == 0
    assert err.count(f"warning: {IGNORED}") == (command != "check")
    if command == "check":
        assert [w["code"] for w in json.loads(out)["warnings"]] == ["ignored-data"]
    code, out, err = run(command, "m.mln", *data, *COMMANDS[command], "--strict")
    assert (code, out) == (1, "")
    assert "data for an unknown predicate 'Height'" in err


def test_check_lists_it() -> None:
    report = check(lapis.parse(MODEL), lapis.Database.parse(KNOWN + FOREIGN))
    assert [warning.code for warning in report.warnings] == ["ignored-data"]


def test_problems_built_by_hand_ignore_it_too() -> None:
    with pytest.warns(LapisWarning, match="'Height'"):
        problem = lapis.build_problem(lapis.parse(MODEL), lapis.Database.parse(KNOWN + FOREIGN))
    assert problem.domains["person"].constants == ("Ann", "Bob")
