"""Unification of atoms without functions, and shattering of cubes.

Counting per ground atom must know in which groundings two literals of a cube are the same atom.
Shattering splits a cube into disjoint cubes, by conditions x = y or x ≠ y, until any two of its
literals are either the same atom in all groundings or different in all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lapis.language.syntax import Constant, Variable
from lapis.logic.clauses import Condition, Cube, Literal, SimpleTerm

Substitution = Mapping[str, SimpleTerm]


def unify(first: Literal, second: Literal) -> Substitution | None:
    """The most general substitution that makes the two atoms equal, signs aside, or None.

    >>> x, y, a = Variable("x"), Variable("y"), Constant("A")
    >>> unify(Literal("P", (x, a), True), Literal("P", (y, y), False))
    {'x': Constant(name='A'), 'y': Constant(name='A')}
    """
    if first.predicate != second.predicate or len(first.terms) != len(second.terms):
        return None
    bound: dict[str, SimpleTerm] = {}

    def resolve(term: SimpleTerm) -> SimpleTerm:
        while isinstance(term, Variable) and term.name in bound:
            term = bound[term.name]
        return term

    for left, right in zip(first.terms, second.terms, strict=True):
        left, right = resolve(left), resolve(right)
        if left == right:
            continue
        if isinstance(left, Variable):
            bound[left.name] = right
        elif isinstance(right, Variable):
            bound[right.name] = left
        else:
            return None
    return {name: resolve(term) for name, term in bound.items()}


def substitute_term(term: SimpleTerm, substitution: Substitution) -> SimpleTerm:
    return substitution.get(term.name, term) if isinstance(term, Variable) else term


def substitute_literal(literal: Literal, substitution: Substitution) -> Literal:
    terms = tuple(substitute_term(term, substitution) for term in literal.terms)
    return literal._replace(terms=terms)


def substitute_cube(cube: Cube, substitution: Substitution) -> Cube | None:
    """The cube under a substitution; None where that makes it false."""
    literals = tuple(dict.fromkeys(substitute_literal(x, substitution) for x in cube.literals))
    if any(literal.negate() in literals for literal in literals):
        return None
    conditions: list[Condition] = []
    for condition in cube.conditions:
        left = substitute_term(condition.left, substitution)
        right = substitute_term(condition.right, substitution)
        replaced = condition._replace(left=left, right=right)
        decided = decide(replaced)
        if decided is False:
            return None
        if decided is None:
            conditions.append(replaced)
    return Cube(literals, tuple(dict.fromkeys(conditions)))


def decide(condition: Condition) -> bool | None:
    """The truth of an equality between equal terms or between constants; None if it is open."""
    if condition.offset or condition.operator not in ("=", "!="):
        return None
    same = condition.left == condition.right
    if not same and not (
        isinstance(condition.left, Constant) and isinstance(condition.right, Constant)
    ):
        return None
    return same == (condition.operator == "=")


def shatter(cube: Cube) -> tuple[Cube, ...]:
    """Disjoint cubes with the same groundings, in which unifiable literals are identical.

    In each case x = t the variable is replaced, and the condition x = t is kept so that the
    groundings stay assignments to all of the original variables.
    """
    settled = settle(cube)
    return tuple(settled)


def settle(cube: Cube) -> Iterator[Cube]:
    pair = undecided_pair(cube)
    if pair is None:
        yield cube
        return
    substitution = unify(*pair)
    assert substitution is not None
    apart: tuple[Condition, ...] = ()
    for name, term in substitution.items():
        # x₁ ≠ t₁; or x₁ = t₁ and x₂ ≠ t₂; and so on: disjoint, and together the complement.
        differs = Condition("!=", Variable(name), term)
        yield from settle(Cube(cube.literals, (*cube.conditions, *apart, differs)))
        apart = (*apart, Condition("=", Variable(name), term))
    same = substitute_cube(cube, substitution)
    if same is not None:
        yield from settle(Cube(same.literals, (*same.conditions, *apart)))


def undecided_pair(cube: Cube) -> tuple[Literal, Literal] | None:
    """Two literals that are the same atom in some groundings of the cube but not in all."""
    for i, first in enumerate(cube.literals):
        for second in cube.literals[i + 1 :]:
            substitution = unify(first, second)
            if substitution and not excluded(substitution, cube.conditions):
                return first, second
    return None


def excluded(substitution: Substitution, conditions: tuple[Condition, ...]) -> bool:
    """Whether some condition x ≠ t fails under the substitution."""
    return any(
        decide(
            condition._replace(
                left=substitute_term(condition.left, substitution),
                right=substitute_term(condition.right, substitution),
            )
        )
        is False
        for condition in conditions
    )
