"""One number in two spellings: every function that reads data warns once."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lapis
from cli_run import Run
from lapis.errors import LapisWarning
from lapis.problem.task import warn_same_numbers

MODEL = "n = {1, 2}\nP(n)\nQ(n)\n1 P(x) => Q(x)\n"
TOLD = (
    "1.0 and 1 of type 'n' are one number, but two constants\n"
    "    constants are compared as texts: write a number in one way"
)
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "infer": lambda model, data: lapis.infer(model, data, "Q"),
    "map": lambda model, data: lapis.map(model, data, "Q"),
    "count": lapis.count,
    "score": lambda model, data: lapis.score(model, data, "Q"),
    "learn": lambda model, data: lapis.learn(model, data, "Q"),
    "lift": lapis.lift,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_is_told_once(name: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        FUNCTIONS[name](lapis.parse(MODEL), lapis.Database.parse("P(1.0) Q(2)"))
    [warning] = caught
    assert warning.category is LapisWarning
    assert str(warning.message) == TOLD


@pytest.mark.parametrize(
    "command", ["infer m.mln d.db -q Q", "count m.mln d.db", "check m.mln d.db"]
)
def test_commands_print_it(command: str, run: Run) -> None:
    run.write("m.mln", MODEL)
    run.write("d.db", "P(1.0)\nQ(2)\n")
    code, _, err = run(*command.split())
    assert (code, err) == (0, f"warning: {TOLD}\n")


def test_check_counts_it(run: Run) -> None:
    run.write("m.mln", MODEL)
    run.write("d.db", "P(1.0)\nQ(2)\n")
    _, out, _ = run("check", "m.mln", "d.db", "--json")
    assert [warning["code"] for warning in json.loads(out)["warnings"]] == ["same-number"]


SPELLED = "1 01 1.0 1.00 1e0 +1 -1 -1.0 1.5 1.50 2 0 -0 0.0 .5 0.5 5. 5 1e3 1000 inf nan A 1_0 10"
SPELLINGS = st.sampled_from(SPELLED.split())


@given(st.lists(SPELLINGS, unique=True, max_size=5))
def test_it_is_told_where_it_is_so(names: list[str]) -> None:
    """By the definition: two names of finite numbers that are equal."""
    values = [float(n) for n in names if n not in ("inf", "nan", "A", "1_0")]
    facts = " ".join(f'P("{name}")' for name in names[:2])
    facts += " " + " ".join(f'Q("{name}")' for name in names[2:])
    found = warn_same_numbers(lapis.parse("P(n)\nQ(n)"), [lapis.Database.parse(facts)])
    assert bool(found) == (len(set(values)) < len(values))
