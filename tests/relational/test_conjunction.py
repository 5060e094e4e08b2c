"""Expand negatives of signed conjunctions by inclusion–exclusion."""

from __future__ import annotations

from lapis.language.syntax import Variable
from lapis.relational.conjunction import Conjunction, RelationAtom, Scope, expand_negatives

X, Y = Variable("x"), Variable("y")
A, B = RelationAtom("A", (X,)), RelationAtom("B", (Y,))
SCOPE = Scope({"x": "t", "y": "t"}, ("x", "y"), {})


def test_what_the_clauses_of_one_formula_say_twice_cancels() -> None:
    """1[A ∧ B] = 1 − 1[¬A] − 1[A ∧ ¬B], and 1 − 1[¬A] alone would have to be listed by y."""
    clauses = [Conjunction(1), Conjunction(-1, false=(A,)), Conjunction(-1, (A,), (B,))]
    (left,) = expand_negatives(clauses, SCOPE, lambda conjunction, negative: True)
    assert (left.coefficient, set(left.true), left.false) == (1, {A, B}, ())


def test_what_must_be_false_is_expanded() -> None:
    found = expand_negatives(
        [Conjunction(-1, false=(A,))], SCOPE, lambda conjunction, negative: True
    )
    assert {(each.true, each.coefficient) for each in found} == {((), -1), ((A,), 1)}
