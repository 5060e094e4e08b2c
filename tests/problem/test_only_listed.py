"""Queries of listed atoms alone, and the warning about very many open atoms."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable

import pytest

import lapis
from lapis.errors import LapisWarning

MODEL = "Sim(r, r)\nDup(r, r)\n1 Dup(x, y)\n2 Sim(x, y) => Dup(x, y)\n3 Dup(x, y) => Dup(y, x)"
FACTS = "?Dup(A, B) ?Dup(A, C) Dup(B, C) !Dup(C, C) Sim(A, B) Sim(C, A)"
MANY = " ".join(f"Sim(R{i}, R{i + 1})" for i in range(400)) + " Dup(R0, R1) !Dup(R1, R2)"


def logistic(score: float) -> float:
    return 1.0 / (1.0 + math.exp(-score))


def test_only_listed_atoms_are_inferred() -> None:
    # The others are as in the data: Dup(B, A) and Dup(C, A) are false, so the symmetry costs 3.
    answer = lapis.infer(lapis.parse(MODEL), lapis.Database.parse(FACTS), "Dup", only_listed=True)
    assert set(answer.marginals) == {"Dup(A,B)", "Dup(A,C)"}
    assert answer["Dup(A,B)"] == pytest.approx(logistic(1 + 2 - 3))
    assert answer["Dup(A,C)"] == pytest.approx(logistic(1 - 3))


def test_only_listed_atoms_are_in_the_world() -> None:
    world = lapis.map(
        lapis.parse("P(t)\n2 P(x)"), lapis.Database.parse("?P(A) !P(B)"), "P", only_listed=True
    )
    assert world.true_atoms == ["P(A)"]


def test_an_atom_that_is_not_listed_is_as_in_the_data() -> None:
    query = ["Dup(A, B)", "Dup(C, A)", "Dup(B, C)"]
    answer = lapis.infer(lapis.parse(MODEL), lapis.Database.parse(FACTS), query, only_listed=True)
    assert (answer["Dup(C,A)"], answer["Dup(B,C)"]) == (0.0, 1.0)


def test_nothing_listed_is_an_error() -> None:
    with pytest.raises(lapis.LapisError, match="no atom is marked unknown") as caught:
        lapis.infer(lapis.parse(MODEL), lapis.Database.parse("Sim(A, B)"), "Dup", only_listed=True)
    assert "Dup.unknown" in str(caught.value)


def infer_many(data: lapis.Database, only_listed: bool) -> None:
    with contextlib.suppress(lapis.TooLarge):
        lapis.infer(lapis.parse(MODEL), data, "Dup", time_limit=1e-9, only_listed=only_listed)


def learn_many(data: lapis.Database, only_listed: bool) -> None:
    with pytest.raises(lapis.TooLarge):
        lapis.learn(lapis.parse(MODEL), data, "Dup", time_limit=1e-9, only_listed=only_listed)


@pytest.mark.parametrize("call", [infer_many, learn_many])
def test_very_many_open_atoms_are_announced_before_the_work(
    call: Callable[[lapis.Database, bool], None],
) -> None:
    with pytest.warns(LapisWarning, match="160,799 Dup atoms are open, the data mentions 2: only"):
        call(lapis.Database.parse(MANY), False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call(lapis.Database.parse(f"{MANY} ?Dup(R7, R8)"), True)


def test_atoms_in_proportion_to_the_data_are_not_announced() -> None:
    facts = " ".join(f"Old(P{i})" for i in range(3000))
    model = lapis.parse("Old(p)\nWise(p, k)\nk = {A, B}\n1 Old(x) => Wise(x, A)")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lapis.infer(model, lapis.Database.parse(facts), "Wise")
