"""A model that is written and read again means the same, whole or as clauses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given

import lapis
import oracle
from lapis.errors import LapisError, TooLarge
from lapis.language import parse_model
from lapis.language.model import Model
from lapis.language.printer import print_model
from strategies import Case, cases

Scores = tuple[np.ndarray, np.ndarray]


def score_worlds(model: Model, case: Case) -> Scores:
    """The score of each world that agrees with the facts, and whether it is possible."""
    domains = oracle.constants_of(model, case.facts)
    known = oracle.known_atoms(model, case.facts, domains, set(case.query))
    found = oracle.weigh(model, domains, oracle.worlds_agreeing_with(known))
    return found.score, found.possible


def assert_same(model: Model, case: Case) -> None:
    again = parse_model(print_model(model))
    (score, possible), (read_score, read_possible) = (
        score_worlds(each, case) for each in (model, again)
    )
    assert np.array_equal(possible, read_possible)
    assert read_score == pytest.approx(score, abs=1e-9)


@given(cases())
def test_a_written_model_means_the_same(case: Case) -> None:
    assert_same(parse_model(case.model), case)


@given(cases())
def test_written_clauses_mean_the_same(case: Case) -> None:
    try:
        model = lapis.clausal(parse_model(case.model))
    except (LapisError, TooLarge):  # a clause without the variable marked +
        assume(False)
    assert_same(model, case)


@pytest.mark.parametrize(
    ("formula", "clauses"),
    [
        ("1 P(x, y) ^ x != y", ["P(x, y)"]),
        ("1 R(z) v (P(x, y) ^ x != y)", ["R(z) v P(x, y)", "R(z) v !(x = y) v P(x, y) ^ !P(x, y)"]),
        (
            "R(z) v (P(x, y) ^ x != w ^ P(w, u)).",
            [
                "R(z) v P(x, y)",
                "R(z) v !(w = x) v (EXIST y P(x, y) ^ !P(x, y))",
                "R(z) v P(w, u)",
            ],
        ),
    ],
)
def test_compared_variables_keep_their_type(formula: str, clauses: list[str]) -> None:
    model = lapis.clausal(parse_model(f"P(t, t)\nR(t)\n{formula}"))
    assert [rule.text for rule in model.rules] == clauses
    assert parse_model(print_model(model)).rules[-1].variables == model.rules[-1].variables
