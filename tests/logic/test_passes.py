"""Each rewriting pass has golden pairs in passes.txt. A sweep checks that meanings are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from lapis.language import parse_formula, print_formula
from lapis.logic import passes

GOLDEN = Path(__file__).parent / "passes.txt"


def pairs() -> list[tuple[str, str, str]]:
    found, name = [], ""
    for line in GOLDEN.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            name = line[3:]
        elif line.strip():
            before, after = line.split("|")
            found.append((name, before.strip(), after.strip()))
    return found


@pytest.mark.parametrize(("name", "before", "after"), pairs())
def test_pass(name: str, before: str, after: str) -> None:
    apply = getattr(passes, name)
    assert print_formula(apply(parse_formula(before))) == after


def test_every_pass_has_golden_pairs() -> None:
    assert {p.__name__ for p in passes.PASSES} <= {name for name, _, _ in pairs()}


def test_a_hard_formula_is_split_into_what_must_hold() -> None:
    formula = passes.rewrite(parse_formula("P(x) ^ (FORALL y (F(x, y) ^ Q(y))) ^ !(A v B)"))
    parts = [(names, print_formula(part)) for names, part in passes.split_hard(formula)]
    assert parts == [
        ((), "P(x)"),
        (("y",), "F(x, y)"),
        (("y",), "Q(y)"),
        ((), "!A"),
        ((), "!B"),
    ]
