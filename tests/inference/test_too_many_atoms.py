"""Test that every method checks the number of atoms before it lists them."""

from __future__ import annotations

import pytest

import lapis
from lapis.errors import LapisWarning, TooLarge
from lapis.methods import methods_of

MODEL = "t = {1,...,200000}\nP(t)\nR(t, t)\n1 R(x, y) ^ P(x) => P(y)\n2 R(1, 2)"


@pytest.mark.parametrize(
    ("command", "method"),
    [(command, method) for command in ("infer", "map") for method in methods_of(command)],
)
def test_no_method_lists_more_atoms_than_fit(command: str, method: str) -> None:
    ask = lapis.infer if command == "infer" else lapis.map
    refused = pytest.raises(TooLarge, match="'R' has 40,000,000,000 unknown atoms")
    with pytest.warns(LapisWarning, match="atoms are open"), refused as refusal:
        ask(lapis.parse(MODEL), lapis.Database.parse("P(3)"), ["P", "R"], method=method)
    assert refusal.value.code == "too-large"
