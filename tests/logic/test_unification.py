"""Unification and shattering, against all groundings over a small domain."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from lapis.language.syntax import Constant, Variable
from lapis.logic.clauses import Condition, Cube, Literal, SimpleTerm
from lapis.logic.unification import shatter, substitute_literal, unify

NAMES = ("x", "y", "z")
CONSTANTS = ("A", "B", "C")
terms = st.one_of(
    st.sampled_from(NAMES).map(Variable), st.sampled_from(CONSTANTS[:2]).map(Constant)
)
literals = st.builds(Literal, st.just("P"), st.tuples(terms, terms), st.booleans())
conditions = st.builds(Condition, st.sampled_from(["=", "!="]), terms, terms)
cubes = st.builds(
    Cube,
    st.lists(literals, min_size=1, max_size=3).map(tuple),
    st.lists(conditions, max_size=1).map(tuple),
)
WORLDS = st.frozensets(st.tuples(st.sampled_from(CONSTANTS), st.sampled_from(CONSTANTS)))
Grounding = dict[str, str]


def groundings() -> list[Grounding]:
    chosen = itertools.product(CONSTANTS, repeat=len(NAMES))
    return [dict(zip(NAMES, values, strict=True)) for values in chosen]


def value(term: SimpleTerm, grounding: Grounding) -> str:
    return grounding[term.name] if isinstance(term, Variable) else term.name


def atom(literal: Literal, grounding: Grounding) -> tuple[str, ...]:
    return tuple(value(term, grounding) for term in literal.terms)


def holds(cube: Cube, grounding: Grounding, world: frozenset[tuple[str, str]]) -> bool:
    return all(
        (atom(literal, grounding) in world) == literal.positive for literal in cube.literals
    ) and all(
        (value(c.left, grounding) == value(c.right, grounding)) == (c.operator == "=")
        for c in cube.conditions
    )


@given(literals, literals)
def test_unify_finds_exactly_the_common_groundings(first: Literal, second: Literal) -> None:
    substitution = unify(first, second)
    for grounding in groundings():
        same = atom(first, grounding) == atom(second, grounding)
        fits = substitution is not None and all(
            grounding[name] == value(term, grounding) for name, term in substitution.items()
        )
        assert same == fits
    if substitution is not None:
        left, right = (substitute_literal(x, substitution).terms for x in (first, second))
        assert left == right


@given(cubes, WORLDS)
def test_shattered_cubes_are_disjoint_and_cover(
    cube: Cube, world: frozenset[tuple[str, str]]
) -> None:
    parts = shatter(cube)
    for grounding in groundings():
        inside = sum(holds(part, grounding, world) for part in parts)
        assert inside == holds(cube, grounding, world)


@given(cubes)
def test_in_a_shattered_cube_literals_are_one_atom_or_never(cube: Cube) -> None:
    for part in shatter(cube):
        for first, second in itertools.combinations(part.literals, 2):
            same = {
                atom(first, grounding) == atom(second, grounding)
                for grounding in groundings()
                if holds(Cube((), part.conditions), grounding, frozenset())
            }
            assert len(same) <= 1
