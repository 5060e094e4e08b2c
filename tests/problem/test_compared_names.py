"""Comparisons by order and offsets need numbers, also if their value does not depend on them."""

from __future__ import annotations

import itertools

import pytest

import lapis
import oracle

PLAIN, SHIFTED = ("i", "j"), ("i+1", "j-2")
OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
COMPARISONS = [
    f"{left} {operator} {right}"
    for left, right in itertools.product(PLAIN + SHIFTED, repeat=2)
    for operator in OPERATORS
]


def model_of(comparison: str, constants: str) -> lapis.Model:
    return lapis.parse(f"t = {{{constants}}}\nP(t, t)\n0.7 P(i, j) ^ {comparison}")


@pytest.mark.parametrize("comparison", COMPARISONS)
def test_names_have_no_order_and_no_sums(comparison: str) -> None:
    model = model_of(comparison, "1, B")
    left, operator, right = comparison.split()
    if operator in ("=", "!=") and {left, right} <= set(PLAIN):
        lapis.infer(model, query=["P"])
        return
    with pytest.raises(lapis.LapisError) as error:
        lapis.infer(model, query=["P"])
    assert str(error.value).splitlines()[0] == (
        f"<text>:3:1: 'P(i, j) ^ {comparison}' compares numbers, but B of type 't' is not a number"
    )


@pytest.mark.parametrize("comparison", COMPARISONS)
def test_numbers_have_both(comparison: str) -> None:
    model = model_of(comparison, "1, 2")
    expected = oracle.infer(model, oracle.Facts(), ("P",)).log_partition
    found = lapis.infer(model, query=["P"]).log_partition
    assert found == pytest.approx(expected, rel=1e-12)
