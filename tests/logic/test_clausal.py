"""Clauses as in Alchemy: their conjunction is the formula."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given

import lapis
import oracle
from cli_run import Run
from lapis.errors import LapisError, TooLarge
from lapis.language import parse_formula
from lapis.language.model import Model
from lapis.language.syntax import Atom, Comparison, Formula, Implies, Not, Or, Quantifier
from lapis.logic.clausal import MAX_CLAUSES, clausal
from strategies import Case, cases

HALVES = "i = {A, B}\no = {C, D, E}\nH(i)\nS(o)\n"


def is_literal(formula: Formula) -> bool:
    body = formula.body if isinstance(formula, Not) else formula
    return isinstance(body, Atom | Comparison | Quantifier)


def is_split(formula: Formula) -> bool:
    parts = formula.parts if isinstance(formula, Or) else (formula,)
    return all(map(is_literal, parts))


def num_worlds(model: Model, case: Case) -> float:
    """log of how many worlds keep all formulas as hard ones."""
    hard = tuple(replace(rule, hard=True, weight=None, plus=()) for rule in model.rules)
    try:
        return oracle.infer(model.with_rules(hard), case.facts, case.query).log_partition
    except oracle.NoWorld:
        return -np.inf


@given(cases())
def test_clauses_hold_together_iff_the_formula_does(case: Case) -> None:
    model = lapis.parse(case.model)
    assume(all(oracle.constants_of(model, case.facts).values()))  # ∀ over nothing is dropped
    try:
        found = clausal(model)
    except LapisError as error:
        assume(error.code != "clause-plus")
        raise
    assert num_worlds(found, case) == pytest.approx(num_worlds(model, case))
    for rule in found.rules:
        assert parse_formula(rule.text) is not None
        assert rule in model.rules or is_split(rule.formula)


def test_the_weight_is_shared_and_clauses_have_their_own_variables() -> None:
    model = lapis.parse(HALVES + "1 H(x) ^ S(y)\n-0.6 H(x) <=> S(y)\nH(x) ^ S(y)\nH(x) ^ S(y).")
    found = [(rule.weight, rule.hard, rule.text) for rule in clausal(model).rules]
    assert found == [
        (0.5, False, "H(x)"),
        (0.5, False, "S(y)"),
        (-0.3, False, "!H(x) v S(y)"),
        (-0.3, False, "H(x) v !S(y)"),
        (None, False, "H(x)"),
        (None, False, "S(y)"),
        (None, True, "H(x)"),
        (None, True, "S(y)"),
    ]


def test_a_conjunction_gives_each_atom_its_half(run: Run) -> None:
    run.write("c.mln", HALVES + "1 H(x) ^ S(y)\n")
    found = run.json("infer", "c.mln", "-q", "H,S", "--cnf")
    assert [row["probability"] for row in found["atoms"]] == pytest.approx(
        [1 / (1 + np.exp(-0.5))] * 5
    )
    whole = run.json("infer", "c.mln", "-q", "H,S")  # a feature for each of six pairs
    assert whole["atoms"][0]["probability"] > found["atoms"][0]["probability"]


@pytest.mark.parametrize(
    "command", ["check", "count", "ground -q H", "map -q H", "lift", "score -q H", "learn -q H"]
)
def test_every_command_reads_clauses(run: Run, command: str) -> None:
    run.write("c.mln", HALVES + "1 H(x) ^ S(y)\n1 H(x) => S(y)\n")
    run.write("clauses.mln", HALVES + "0.5 H(x)\n0.5 S(y)\n1 H(x) => S(y)\n")
    data = run.write("c.db", "H(A) S(C) S(D)\n")
    name, *options = command.split()
    found = [
        run.json(name, *typed, data, *options) for typed in (("c.mln", "--cnf"), ("clauses.mln",))
    ]
    for each in found:
        for timed in ("seconds", "curve"):
            each.pop(timed, None)
    assert found[0] == found[1]


def test_weights_of_constants_are_shared_too() -> None:
    model = lapis.parse(HALVES + "2 H(+x) <=> S(y) @ x = A\n")
    first, second = clausal(model).rules
    assert first.instance_weights is not None
    assert (first.plus, first.instance_weights.value) == (("x",), (1.0,))
    assert second.text == "H(+x) v !S(y)"


def test_a_clause_without_a_plus_variable_is_refused(run: Run) -> None:
    run.write("c.mln", HALVES + "1 H(+x) ^ S(y)\n")
    code, _, err = run("check", "c.mln", "--cnf")
    assert code == 1
    assert err == (
        "c.mln:5:1: 'H(+x) ^ S(y)' has a clause without '+x', so its weight is not determined\n"
        "    1 H(+x) ^ S(y)\n    ^^^^^^^^^^^^^^\n"
        "    write each clause as a formula with a weight\n"
    )


def test_too_many_clauses_are_refused() -> None:
    atoms = [f"P{i}" for i in range(2 * (MAX_CLAUSES.bit_length() + 1))]
    pairs = " v ".join(f"({a} ^ {b})" for a, b in zip(atoms[::2], atoms[1::2], strict=True))
    model = lapis.parse("\n".join(atoms) + f"\n1 {pairs}\n")
    with pytest.raises(TooLarge, match="has more than 1,000 clauses"):
        clausal(model)


def test_implications_stay_as_they_were_written() -> None:
    model = lapis.parse(HALVES + "1 H(x) => S(y)\n")
    assert clausal(model).rules == model.rules
    assert isinstance(model.rules[0].formula, Implies)
