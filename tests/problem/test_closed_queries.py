"""A query opens a predicate declared as evidence (*P), with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import lapis
from lapis.errors import LapisWarning

MODEL = lapis.parse("*F(p, p)\nS(p)\n1 F(x, y) ^ S(x) => S(y)")
DATA = lapis.Database.parse("F(A,B) S(A)")
ASKING: dict[str, Callable[..., Any]] = {
    "infer": lapis.infer,
    "map": lapis.map,
    "score": lapis.score,
    "learn": lapis.learn,
}
GOLDEN = """\
<text>:1:1: warning: 'F' is declared as evidence, but the query opens it
    *F(p, p)
    ^^^^^^^^
    query other predicates, or remove the *"""


@pytest.mark.parametrize("command", ASKING)
def test_a_query_for_evidence_is_told(command: str) -> None:
    with pytest.warns(LapisWarning) as told:
        ASKING[command](MODEL, DATA, query=["S", "F"])
    assert [str(warning.message) for warning in told] == [GOLDEN]


@pytest.mark.parametrize("command", ASKING)
def test_a_query_for_others_is_not(command: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ASKING[command](MODEL, DATA, query=["S"])


def test_queries_open_and_formulas_do_not() -> None:
    """F(B,A), F(A,A) and F(B,B) are unknown if F is queried, and false otherwise."""
    with pytest.warns(LapisWarning, match="the query opens it"):
        opened = lapis.infer(MODEL, DATA, query=["F(x, y)", "S"])
    assert set(opened.marginals) == {"F(A,A)", "F(B,A)", "F(B,B)", "S(B)"}
    by_name = lapis.infer(MODEL, DATA, query=["S"], open_predicates=["F"])  # queried explicitly
    assert by_name.marginals["S(B)"] == pytest.approx(opened.marginals["S(B)"], rel=1e-12)
    read_off = lapis.infer(MODEL, DATA, query=["EXIST y (F(B, y) ^ S(B))"])
    assert list(read_off.probability) == [0.0]
