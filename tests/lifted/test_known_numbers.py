"""Partition functions with closed forms, and known numbers of structures."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, localcontext
from math import comb, exp, log

import numpy as np
import pytest

import lapis
from lapis.lifted.evaluation.evaluate import LiftedPartition
from lapis.lifted.lift import LiftedProblem, lift_problem

SMOKERS = """
Smokes(person)
Friends(person, person)
Cancer(person)
1 Smokes(x) ^ Friends(x, y) => Smokes(y)
1.5 Smokes(x) => Cancer(x)
-1 Smokes(x)
-0.5 Cancer(x)
-0.3 Friends(x, y)
"""


def lift(text: str, **sizes: int) -> LiftedProblem:
    model = lapis.parse(text)
    return lift_problem(lapis.build_problem(model, query=list(model.predicates)), sizes)


def smokers(n: int) -> tuple[Decimal, Decimal]:
    """Return log Z and the expected number of smokers, by a sum over the number of smokers.

    A friendship has weight −0.3; a friendship of a smoker with a non-smoker violates the rule.
    """
    with localcontext() as context:
        context.prec = 60
        e = Decimal(1).exp()
        friends = Decimal("-0.3").exp()
        alike, apart = e * (1 + friends), e + friends
        cancer = Decimal("-0.5").exp()
        own = Decimal("1.5").exp()
        z = total = Decimal(0)
        for m in range(n + 1):
            pairs = alike ** (n * n - m * (n - m)) * apart ** (m * (n - m))
            people = ((own * cancer + 1) / e) ** m * (own * (cancer + 1)) ** (n - m)
            term = comb(n, m) * pairs * people
            z, total = z + term, total + m * term
        return z.ln(), total / z


@pytest.mark.parametrize("n", [1, 10, 100, 400])
def test_smokers_have_twelve_digits(n: int) -> None:
    found = lift(SMOKERS, person=n).at()
    log_z, smoking = smokers(n)
    assert abs(found.log_partition - float(log_z)) <= 1e-12 * float(log_z)
    assert abs(Decimal(found.log_partition) - log_z) <= Decimal(found.error_bound)
    assert found.expected_count[2] == pytest.approx(float(smoking), rel=1e-9, abs=1e-15)


def test_one_circuit_serves_all_sizes() -> None:
    lifted = lift(SMOKERS, person=3)
    for n in (0, 1, 2, 7, 30):
        log_z, _ = smokers(n)
        assert lifted.at(sizes={"person": n}).log_partition == pytest.approx(
            float(log_z), rel=1e-13
        )


def surjections(n: int, k: int) -> int:
    return sum((-1) ** i * comb(k, i) * (k - i) ** n for i in range(k + 1))


COUNTS: dict[str, tuple[str, Callable[[int], int]]] = {
    "everyone has a friend": ("F(p, p)\n(EXIST y F(x, y)).", lambda n: (2**n - 1) ** n),
    "someone has a friend": ("F(p, p)\n(EXIST x, y F(x, y)).", lambda n: 2 ** (n * n) - 1),
    "a friend of all": (
        "F(p, p)\nEXIST x (FORALL y F(x, y)).",
        lambda n: 2 ** (n * n) - (2**n - 1) ** n,
    ),
    "functions": ("F(p, p!)", lambda n: n**n),
    "partial functions": ("F(p, p?)", lambda n: (n + 1) ** n),
    "functions to three": ("q = {A, B, C}\nF(p, q!)", lambda n: 3**n),
    "functions onto three": (
        "q = {A, B, C}\nF(p, q!)\n(EXIST x F(x, y)).",
        lambda n: surjections(n, 3),
    ),
    "symmetric": ("F(p, p)\nF(x, y) => F(y, x).", lambda n: 2 ** (n * (n + 1) // 2)),
    "tournaments": (
        "F(p, p)\nx != y => (F(x, y) <=> !F(y, x)).\n!F(x, x).",
        lambda n: 2 ** (n * (n - 1) // 2),
    ),
    "cliques": (
        "R(p)\nF(p, p)\nR(x) ^ R(y) => F(x, y).",
        lambda n: sum(comb(n, m) * 2 ** (n * n - m * m) for m in range(n + 1)),
    ),
    "equality alone": ("R(p)\nR(x) ^ R(y) => x = y.", lambda n: n + 1),
}


def check_count(found: LiftedPartition, count: int) -> None:
    assert found.log_partition == pytest.approx(log(count), rel=1e-13, abs=1e-13)
    assert abs(found.log_partition - log(count)) <= found.error_bound + 1e-15 * log(count)


@pytest.mark.parametrize("name", COUNTS)
def test_numbers_of_structures(name: str) -> None:
    text, count = COUNTS[name]
    lifted = lift(text, p=3)
    for n in (1, 2, 3, 4, 9, 30):
        number = count(n)
        if number:
            check_count(lifted.at(sizes={"p": n}), number)
        else:
            with pytest.raises(lapis.LapisError, match="no possible world"):
                lifted.at(sizes={"p": n})


def test_cancellation_is_done_in_balls_and_certified() -> None:
    """The number of onto functions from 60 to 40 is 10⁻¹⁴ of the terms that cancel."""
    text = "F(p, q!)\n(EXIST x F(x, y))."
    found = lift(text, p=60, q=40).at()
    assert found.bits > 64
    check_count(found, surjections(60, 40))
    assert np.all(np.isfinite(found.expected_count))
    assert exp(found.error_bound) < 1 + 1e-8
