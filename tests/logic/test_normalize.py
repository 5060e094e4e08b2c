"""Clauses of formulas, checked against truth tables and by hand."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapis.errors import LapisError
from lapis.language import parse_formula, parse_model
from lapis.language.syntax import And, Atom, Formula, Iff, Implies, Not, Or
from lapis.logic.normalize import disjoint_cubes, is_constant, normalize
from lapis.problem.check import print_clause

LETTERS = "ABCD"


@st.composite
def propositions(draw: st.DrawFn, depth: int = 4) -> Formula:
    inner = propositions(depth - 1)
    match draw(st.integers(0, 5 if depth else 0)):
        case 0:
            return Atom(draw(st.sampled_from(LETTERS)), ())
        case 1:
            return Not(draw(inner))
        case 2:
            return And((draw(inner), draw(inner)))
        case 3:
            return Or((draw(inner), draw(inner)))
        case 4:
            return Implies(draw(inner), draw(inner))
        case _:
            return Iff(draw(inner), draw(inner))


def holds(formula: Formula, world: dict[str, bool]) -> bool:
    match formula:
        case Atom(name, _):
            return world[name]
        case Not(body):
            return not holds(body, world)
        case And(parts):
            return all(holds(part, world) for part in parts)
        case Or(parts):
            return any(holds(part, world) for part in parts)
        case Implies(left, right):
            return not holds(left, world) or holds(right, world)
        case Iff(left, right):
            return holds(left, world) == holds(right, world)
    raise AssertionError(formula)


def worlds() -> list[dict[str, bool]]:
    values = itertools.product((False, True), repeat=len(LETTERS))
    return [dict(zip(LETTERS, chosen, strict=True)) for chosen in values]


@given(propositions(), st.booleans())
def test_cubes_are_disjoint_and_cover(formula: Formula, value: bool) -> None:
    cubes = disjoint_cubes(formula, value)
    for world in worlds():
        inside = [all(world[leaf.predicate] == sign for leaf, sign in cube) for cube in cubes]
        assert sum(inside) == (holds(formula, world) == value)


@given(propositions())
def test_constant_formulas_are_recognised(formula: Formula) -> None:
    found = {holds(formula, world) for world in worlds()}
    assert is_constant(formula) == (found.pop() if len(found) == 1 else None)


@pytest.mark.parametrize(
    ("text", "constant", "clauses"),
    [
        ("P(x) v !Q(x)", 0, ["P(x) v !Q(x)"]),
        ("P(x) => Q(x)", 0, ["!P(x) v Q(x)"]),
        ("P(x) ^ Q(x)", -1, ["!P(x) v Q(x)", "P(x)"]),
        ("P(x) <=> Q(x)", -1, ["!P(x) v Q(x)", "P(x) v !Q(x)"]),
        ("P(x) v !P(x)", 1, []),
        ("P(x) ^ !P(x)", 0, ["false"]),
        ("P(x) v x = A", 0, ["P(x) v x = A"]),
        ("P(x) ^ x != y => Q(y)", 0, ["!P(x) v Q(y) v x = y"]),
        ("EXIST y F(x, y)", 0, ["_exists_1(x)"]),
        ("FORALL y F(x, y)", 0, ["!_exists_1(x)"]),
    ],
)
def test_clauses(text: str, constant: int, clauses: list[str]) -> None:
    feature = normalize(parse_model(f"P(t)\nQ(t)\nF(t, t)\n1 {text}")).features[0]
    assert (feature.constant, [print_clause(c) for c in feature.clauses]) == (constant, clauses)


def test_unused_variables_stay_in_the_list() -> None:
    feature = normalize(parse_model("P(t)\nQ(t)\n1 P(x) ^ Q(y)")).features[0]
    assert feature.variables == (("x", "t"), ("y", "t"))
    assert print_clause(feature.clauses[1]) == "P(x)"


def test_quantified_parts_are_defined_inside_out() -> None:
    form = normalize(parse_model("F(t, t)\nP(t)\n1 FORALL y (F(x, y) => EXIST z (F(y, z) ^ P(z)))"))
    first, second = form.definitions
    assert first.variables == (("y", "t"),)
    assert [literal.predicate for literal in second.cubes[0].literals] == [
        "F",
        first.predicate.name,
    ]


def test_an_existential_over_a_disjunction_has_a_cube_for_each_part() -> None:
    form = normalize(parse_model("P(t)\nQ(t)\n1 EXIST x (P(x) v Q(x))"))
    assert [len(cube.literals) for cube in form.definitions[0].cubes] == [1, 1]


def test_hard_formulas_become_clauses_over_their_own_variables() -> None:
    form = normalize(parse_model("P(t)\nF(t, u)\nP(x) ^ (FORALL y F(x, y))."))
    assert [(f.variables, print_clause(f.clauses[0])) for f in form.features] == [
        ((("x", "t"),), "P(x)"),
        ((("x", "t"), ("y", "u")), "F(x, y)"),
    ]


def test_formulas_with_too_many_clauses_are_refused() -> None:
    text = " <=> ".join(f"P(A{i})" for i in range(14))
    with pytest.raises(LapisError, match="becomes 8,192 clauses"):
        normalize(parse_model(f"P(t)\n1 {text}"))


def test_parsing_a_formula_needs_no_declarations() -> None:
    assert is_constant(parse_formula("P(x) => P(x)")) is True
