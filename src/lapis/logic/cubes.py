"""Disjoint cubes by Shannon expansion.

A quantifier-free formula F over leaves a₁…a_m (atoms, comparisons, quantified parts) is split on
one leaf at a time, F = (a ∧ F|a) ∨ (¬a ∧ F|¬a); every path that ends in `value` is a cube, and
two paths differ in the sign of a leaf, so the cubes are disjoint. A leaf that decides one side
at once is split first: that keeps a clause one cube and a conjunction of k literals k cubes.
"""

from __future__ import annotations

from lapis.language.syntax import Formula, Truth, children, with_children
from lapis.logic.passes import is_leaf, simplify

SignedLeaf = tuple[Formula, bool]


def disjoint_cubes(formula: Formula, value: bool) -> tuple[tuple[SignedLeaf, ...], ...]:
    """Disjoint cubes whose union is where the formula has the truth value given."""
    formula = simplify(formula)
    if isinstance(formula, Truth):
        return ((),) if formula.value == value else ()
    leaf, sides = best_split(formula)
    return tuple(
        ((leaf, sign), *rest)
        for sign in (True, False)
        for rest in disjoint_cubes(sides[sign], value)
    )


def best_split(formula: Formula) -> tuple[Formula, dict[bool, Formula]]:
    """The first leaf with a decided side, or the first leaf."""
    first: tuple[Formula, dict[bool, Formula]] | None = None
    for leaf in leaves(formula):
        sides = {sign: simplify(assume(formula, leaf, sign)) for sign in (True, False)}
        if isinstance(sides[True], Truth) or isinstance(sides[False], Truth):
            return leaf, sides
        first = first or (leaf, sides)
    assert first is not None
    return first


def leaves(formula: Formula) -> dict[Formula, None]:
    """Atoms, comparisons and quantified parts, in reading order, each once."""
    if is_leaf(formula):
        return {formula: None}
    return {leaf: None for child in children(formula) for leaf in leaves(child)}


def assume(formula: Formula, leaf: Formula, value: bool) -> Formula:
    if formula == leaf:
        return Truth(value)
    if is_leaf(formula):
        return formula
    return with_children(formula, tuple(assume(child, leaf, value) for child in children(formula)))
