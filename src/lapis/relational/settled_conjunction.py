"""A conjunction with everything decided that can be decided before counting.

Equalities are substituted away, comparisons of constants and atoms without variables evaluated,
repeated atoms merged, contradictions noticed. What remains are atoms whose listed tuples must
match (`present`), pairs from listable equalities (`matches`), what must not match (`negatives`),
and comparisons to test row by row (`tests`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from lapis.language.syntax import Constant, Variable
from lapis.logic.clauses import Literal, SimpleTerm, TypedVariable
from lapis.relational.algebra import (
    Filter,
    Matches,
    Test,
    Tuples,
    substitute_test,
    substitute_tuples,
)
from lapis.relational.comparison import passes
from lapis.relational.factor import scalar, select
from lapis.relational.interpretation import Interpretation


class Negative(NamedTuple):
    """What must not hold: an atom's tuples must not match, or a test denies a comparison."""

    item: Filter
    expand: bool = False  # by inclusion–exclusion, rather than as a filter on rows


@dataclass(frozen=True)
class Conjunction:
    variables: tuple[TypedVariable, ...]  # what the groundings range over
    keep: tuple[str, ...]  # never substituted
    present: tuple[Tuples, ...]
    matches: tuple[Matches, ...]
    negatives: tuple[Negative, ...]
    tests: tuple[Test, ...]

    @property
    def mentioned(self) -> frozenset[str]:
        """The variables of all its parts."""
        items = (negative.item for negative in self.negatives)
        groups = (*self.present, *self.matches, *self.tests, *items)
        return frozenset(name for item in groups for name in item.variables)


def conjoin(
    literals: Sequence[Literal],
    tests: Sequence[Test],
    variables: tuple[TypedVariable, ...],
    keep: tuple[str, ...],
    extensions: Interpretation,
) -> Conjunction:
    """Literals by what their extension lists: true tuples, or false ones if complemented."""
    listed = [list_tuples(literal, extensions) for literal in literals]
    present = tuple(tuples for tuples, holds in listed if holds)
    negatives = tuple(Negative(tuples) for tuples, holds in listed if not holds)
    return Conjunction(variables, keep, present, (), negatives, tuple(tests))


def list_tuples(literal: Literal, extensions: Interpretation) -> tuple[Tuples, bool]:
    """The listed tuples that a literal is about, and whether it holds where they match."""
    extension = extensions.relations[literal.predicate]
    terms = (
        term.name
        if isinstance(term, Variable)
        else extensions.domains[type_name].index.get(term.name, -1)
        for term, type_name in zip(literal.terms, extension.types, strict=True)
    )
    return Tuples(literal.predicate, tuple(terms)), literal.positive != extension.complemented


def settle(conjunction: Conjunction, extensions: Interpretation) -> Conjunction | None:
    """An equivalent conjunction with the decidable parts gone; None if it is never true."""
    tests: list[Test] = []
    matches = list(conjunction.matches)
    negatives = list(conjunction.negatives)
    for test in conjunction.tests:
        decided = _decide(test, extensions)
        if decided is False:
            return None
        if decided is True:
            continue
        swap = _replacement(test, conjunction.keep)
        if swap is not None:
            swapped = _substitute(conjunction, *swap, extensions)
            return None if swapped is None else settle(swapped, extensions)
        if _is_listable(test):
            matches.append(Matches(test))
        elif _is_denial(test):
            negatives.append(Negative(test))
        else:
            tests.append(test)
    return _settle_atoms(
        replace(
            conjunction,
            tests=tuple(dict.fromkeys(tests)),
            matches=tuple(dict.fromkeys(matches)),
            negatives=tuple(negatives),
        ),
        extensions,
    )


def _decide(test: Test, extensions: Interpretation) -> bool | None:
    """The outcome of a test that does not depend on the grounding."""
    if not test.variables:
        return bool(passes(test, scalar(1), extensions.domains)[0])
    if test.condition.left == test.condition.right:
        return test.equates
    return None


def _replacement(test: Test, keep: tuple[str, ...]) -> tuple[str, SimpleTerm] | None:
    """(variable, what to write for it) if the test is an equality that allows it."""
    if not test.equates:
        return None
    sides = test.condition.left, test.condition.right
    for one, other in (sides, sides[::-1]):
        if isinstance(one, Variable) and one.name not in keep:
            alike = isinstance(other, Constant) or test.types[0] == test.types[1]
            return (one.name, other) if alike else None
    return None


def _is_listable(test: Test) -> bool:
    """Equal numbers, or equal names across types: the pairs are few and found by sorting."""
    equal = test.condition.operator == "=" and test.expected
    return (equal or test.equates is True) and len(test.variables) == 2


def _is_denial(test: Test) -> bool:
    """x ≠ y, or a numeric comparison that must fail: inclusion–exclusion can expand it."""
    return len(test.variables) == 2 and (
        test.equates is False or (test.numeric and not test.expected)
    )


def _substitute(
    conjunction: Conjunction, name: str, term: SimpleTerm, extensions: Interpretation
) -> Conjunction | None:
    """Write `term` for the variable everywhere; None if the constant is not of its type."""
    value: str | int = term.name
    if isinstance(term, Constant):
        domain = extensions.domains[dict(conjunction.variables)[name]]
        if term.name not in domain.index:
            return None
        value = domain.index[term.name]

    def swapped(item: Filter) -> Filter:
        if isinstance(item, Tuples):
            return substitute_tuples(item, {name: value})
        return substitute_test(item, name, term)

    tests = (*conjunction.tests, *(found.test for found in conjunction.matches))
    return replace(
        conjunction,
        variables=tuple(pair for pair in conjunction.variables if pair[0] != name),
        present=tuple(substitute_tuples(found, {name: value}) for found in conjunction.present),
        matches=(),
        negatives=tuple(
            negative._replace(item=swapped(negative.item)) for negative in conjunction.negatives
        ),
        tests=tuple(substitute_test(test, name, term) for test in tests),
    )


def _settle_atoms(conjunction: Conjunction, extensions: Interpretation) -> Conjunction | None:
    """Merge repeated atoms, decide those without variables, notice contradictions."""
    present: dict[Tuples, None] = {}
    for tuples in conjunction.present:
        if tuples.variables:
            present[tuples] = None
        elif not _is_listed(tuples, extensions):
            return None
    negatives: dict[Filter, Negative] = {}
    for negative in conjunction.negatives:
        item = negative.item
        if isinstance(item, Test):
            decided = _decide(item, extensions)
        elif item in present:
            decided = False
        else:
            decided = None if item.variables else not _is_listed(item, extensions)
        if decided is False:
            return None
        if decided is None:
            negatives.setdefault(item, negative)
    return replace(conjunction, present=tuple(present), negatives=tuple(negatives.values()))


def _is_listed(tuples: Tuples, extensions: Interpretation) -> bool:
    listed = extensions.relations[tuples.predicate].tuples
    return len(select(tuples.terms, listed)) > 0
