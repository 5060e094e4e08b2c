"""Expressions over sparse factors, of which plans consist.

    expression = Tuples | Universe | Matches
               | Join | RangeJoin | Project | Without | Restrict

An expression denotes a factor: a function from assignments of its `variables` to integers that is
zero except on a sparse set of rows. Expressions are immutable and compare by content, so that a
subexpression shared by several terms of a plan is computed once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from lapis.language.syntax import Variable
from lapis.logic.clauses import Condition


@dataclass(frozen=True)
class Tuples:
    """1 on the listed tuples of a relation that match the terms: variables or constants' codes.

    An extension lists its true tuples, or its false ones if it is complemented.
    """

    relation: str
    terms: tuple[str | int, ...]

    @cached_property
    def variables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(term for term in self.terms if isinstance(term, str)))


@dataclass(frozen=True)
class Test:
    """A comparison of variables and constants whose result must be `expected`.

    Comparisons with a constant that is not a number are false, so ¬(x < y) differs from x >= y.
    """

    condition: Condition
    expected: bool = True

    @cached_property
    def variables(self) -> tuple[str, ...]:
        sides = self.condition.left, self.condition.right
        return tuple(dict.fromkeys(side.name for side in sides if isinstance(side, Variable)))

    @property
    def numeric(self) -> bool:
        """Whether constants are compared as numbers, not by name."""
        return self.condition.operator not in ("=", "!=") or self.condition.offset != 0

    @property
    def orders(self) -> bool:
        """Whether the test accepts a range of numbers on one side, given the other."""
        return self.expected and self.condition.operator in ("<", ">", "<=", ">=")

    @property
    def equates(self) -> bool | None:
        """True for a test of equal constants, False for one of different constants, else None."""
        if self.numeric:
            return None
        return (self.condition.operator == "=") == self.expected

    @property
    def opposite(self) -> Test:
        """The test that passes exactly if this one fails."""
        return make_test(self.condition, not self.expected)


def make_test(condition: Condition, expected: bool) -> Test:
    """Create a test; a false x = y becomes x != y, so that equivalent tests are equal."""
    test = Test(condition, expected)
    if expected or test.numeric:
        return test
    return Test(condition._replace(operator="!=" if condition.operator == "=" else "="))


@dataclass(frozen=True)
class Universe:
    """1 for every constant of a type."""

    variable: str
    type: str

    @property
    def variables(self) -> tuple[str, ...]:
        return (self.variable,)


@dataclass(frozen=True)
class Matches:
    """1 on the pairs of constants that pass an equality test, listed explicitly."""

    test: Test

    @property
    def variables(self) -> tuple[str, ...]:
        return self.test.variables


@dataclass(frozen=True)
class Join:
    """Σ over the variables not in `keep` of left · right."""

    left: Expression
    right: Expression
    keep: tuple[str, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        return self.keep


@dataclass(frozen=True)
class RangeJoin:
    """Σ over the variables not in `keep` of left · right · [test].

    The operands share no variable. The test compares a number of the left operand, on its left
    side, with a number of the right one by <, >, <= or >=, so each left row matches a range of
    right rows.
    """

    left: Expression
    right: Expression
    test: Test
    keep: tuple[str, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        return self.keep


@dataclass(frozen=True)
class Project:
    """Σ over the variables not in `keep` of the part."""

    part: Expression
    keep: tuple[str, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        return self.keep


@dataclass(frozen=True)
class Without:
    """The part's rows that match none of the excluded tuples."""

    part: Expression
    excluded: Tuples

    @property
    def variables(self) -> tuple[str, ...]:
        return self.part.variables


@dataclass(frozen=True)
class Restrict:
    """The part's rows that pass the test."""

    part: Expression
    test: Test

    @property
    def variables(self) -> tuple[str, ...]:
        return self.part.variables


Expression = Tuples | Universe | Matches | Join | RangeJoin | Project | Without | Restrict
Filter = Tuples | Test  # as a filter, Tuples must not match


def operands(expression: Expression) -> tuple[Expression, ...]:
    """Return the direct subexpressions."""
    match expression:
        case Join(left, right) | RangeJoin(left, right):
            return (left, right)
        case Project(part) | Restrict(part):
            return (part,)
        case Without(part, excluded):
            return (part, excluded)
        case _:
            return ()
