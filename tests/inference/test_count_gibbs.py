"""Gibbs sampling from counts, against exact answers on small models."""

from __future__ import annotations

import numpy as np
import pytest

import lapis
from lapis.errors import LapisError

SMOKERS = """
Friends(person, person)
Smokes(person)
Cancer(person)
0.8 Smokes(x) => Cancer(x)
0.5 Friends(x, y) ^ Smokes(x) => Smokes(y)
-0.3 EXIST y (Friends(x, y) ^ Smokes(y))
"""
FACTS = "Friends(A,B) Friends(B,C) Friends(C,A) Smokes(B)"


def agree(model: str, facts: str, query: list[str], **options: object) -> None:
    parsed, data = lapis.parse(model), lapis.Database.parse(facts)
    exact = lapis.infer(parsed, data, query, method="enumerate")
    found = lapis.infer(parsed, data, query, method="count-gibbs", random_state=3, **options)
    assert not found.exact
    assert found.atoms == exact.atoms
    error = np.abs(found.probability - exact.probability)
    assert (error <= np.maximum(4 * found.errors, 0.01)).all()
    assert error.max() <= 0.05
    np.testing.assert_allclose(found.expected_counts, exact.expected_counts, rtol=0.1, atol=0.1)


def test_soft_rules_and_quantifiers() -> None:
    agree(SMOKERS, FACTS, ["Smokes", "Cancer"])


def test_open_relations() -> None:
    agree(SMOKERS, "person = {A, B}\nSmokes(A)", ["Friends", "Smokes"])


def test_blocks() -> None:
    model = """
    topic = {X, Y, Z}
    Topic(page, topic!)
    At(page, place?)
    Link(page, page)
    0.7 Link(p, q) ^ Topic(p, t) => Topic(q, t)
    0.4 Topic(p, X) ^ At(p, s)
    """
    agree(model, "Link(P,Q) Link(Q,R) place = {S}", ["Topic", "At"])


def test_hard_rules_are_never_broken() -> None:
    model = "t = {A, B, C}\nP(t)\nQ(t)\nP(x) v Q(x).\n1 P(x)\n0.5 P(x) ^ Q(y)"
    agree(model, "", ["P", "Q"])


def test_estimated_counts_that_are_exact_give_the_same() -> None:
    agree(
        SMOKERS.replace("-0.3 EXIST y (Friends(x, y) ^ Smokes(y))", ""), FACTS, ["Smokes"], ibound=3
    )


def test_estimates_cannot_keep_hard_rules() -> None:
    model = lapis.parse("t = {A}\nP(t)\nP(x).")
    with pytest.raises(LapisError, match="hard rules need exact counts"):
        lapis.infer(model, query="P", method="count-gibbs", ibound=2)


def test_the_same_seed_gives_the_same_answer() -> None:
    model, data = lapis.parse(SMOKERS), lapis.Database.parse(FACTS)
    first, again = (
        lapis.infer(model, data, ["Smokes"], method="count-gibbs", random_state=5) for _ in "ab"
    )
    np.testing.assert_array_equal(first.probability, again.probability)
