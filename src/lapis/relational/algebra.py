"""What a plan is made of: expressions over sparse factors.

    expression = Tuples | Universe | Matches
               | Join | RangeJoin | Project | Without | Restrict

Expressions are immutable and compare by content, so a subexpression that several terms of a plan
share is computed once. They say what to compute; engines say how. Every expression denotes a
factor: a function from assignments of its `variables` to integers, zero but for a sparse set of
rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from lapis.language.syntax import Variable
from lapis.logic.clauses import Condition


@dataclass(frozen=True)
class Tuples:
    """1 on the listed tuples of a relation that match the terms: variables or constants' codes.

    What is listed are the true tuples, or the false ones if the extension is complemented.
    """

    relation: str
    terms: tuple[str | int, ...]

    @cached_property
    def variables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(term for term in self.terms if isinstance(term, str)))


@dataclass(frozen=True)
class Test:
    """A comparison of variables and constants that must come out as `expected`.

    Comparing a constant that is not a number is false, so ¬(x < y) is not the same as x >= y.
    """

    condition: Condition
    expected: bool = True

    @cached_property
    def variables(self) -> tuple[str, ...]:
        sides = self.condition.left, self.condition.right
        return tuple(dict.fromkeys(side.name for side in sides if isinstance(side, Variable)))

    @property
    def numeric(self) -> bool:
        """Whether values are compared, not names."""
        return self.condition.operator not in ("=", "!=") or self.condition.offset != 0

    @property
    def orders(self) -> bool:
        """Whether it holds for a range of numbers on one side, given the other."""
        return self.expected and self.condition.operator in ("<", ">", "<=", ">=")

    @property
    def equates(self) -> bool | None:
        """True if the test says that both sides are the same constant, False if different."""
        if self.numeric:
            return None
        return (self.condition.operator == "=") == self.expected

    @property
    def opposite(self) -> Test:
        """The test that passes exactly where this one does not."""
        return make_test(self.condition, not self.expected)


def make_test(condition: Condition, expected: bool) -> Test:
    """A failing x = y is a holding x != y, so that equal tests are written alike."""
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

    The parts share no variable; the test compares a number of the left one, on its left side,
    with a number of the right one by <, >, <= or >=. So each left row meets a range of right rows.
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
    """The expressions directly below."""
    match expression:
        case Join(left, right) | RangeJoin(left, right):
            return (left, right)
        case Project(part) | Restrict(part):
            return (part,)
        case Without(part, excluded):
            return (part, excluded)
        case _:
            return ()
