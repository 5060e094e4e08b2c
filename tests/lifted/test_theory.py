"""Simplified hard clauses are equivalent, and none subsumes another."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from lapis.lifted.compilation.theory import (
    Hard,
    TheoryAtom,
    TheoryClause,
    TheoryLiteral,
    simplify_hard,
)

NAMES = ("P", "Q", "R", "S", "T")


@st.composite
def hard_clauses(draw: st.DrawFn) -> set[Hard]:
    signs = st.dictionaries(st.sampled_from(NAMES), st.booleans(), min_size=1, max_size=4)
    chosen = draw(st.lists(signs, min_size=1, max_size=24))
    return {
        Hard(
            TheoryClause(
                frozenset(TheoryLiteral(TheoryAtom(name, ()), sign) for name, sign in one.items()),
                (),
            ),
            frozenset(),
        )
        for one in chosen
    }


def models(hards: frozenset[Hard] | set[Hard]) -> list[dict[str, bool]]:
    worlds = [
        dict(zip(NAMES, values, strict=True))
        for values in itertools.product((False, True), repeat=len(NAMES))
    ]
    return [
        world
        for world in worlds
        if all(
            any(
                world[literal.atom.predicate] == literal.positive
                for literal in hard.clause.literals
            )
            for hard in hards
        )
    ]


@given(hard_clauses())
def test_the_same_worlds_and_nothing_implied(hards: set[Hard]) -> None:
    found = simplify_hard(hards)
    assert models(found) == models(hards)
    for one, other in itertools.permutations(found, 2):
        assert not one.clause.literals <= other.clause.literals
