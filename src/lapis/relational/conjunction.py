"""Signed sums of conjunctions: what everything that is counted or listed begins with.

    Σ coefficient · 1[all atoms of `true` hold, none of `false` does, all tests pass]

`unify` writes one term for equal ones and decides what no grounding can change. `expand_negatives`
takes what must be false out by inclusion–exclusion (DESIGN section 3), 1[¬A] = 1 − 1[A] and 1[x ≠
y] = 1 − 1[x = y], where whoever runs the conjunction says so; the rest stays a filter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import prod
from typing import NamedTuple, overload

from lapis.data.database import Domain
from lapis.language.syntax import Constant, Variable
from lapis.logic.clauses import Clause, Condition, Cube, Literal, SimpleTerm
from lapis.relational.algebra import Test, make_test
from lapis.relational.comparison import compare_constants


class RelationAtom(NamedTuple):
    relation: str
    terms: tuple[SimpleTerm, ...]

    @property
    def variables(self) -> frozenset[str]:
        return frozenset(term.name for term in self.terms if isinstance(term, Variable))


Negative = RelationAtom | Test  # an atom that must be false, or a test that denies a comparison


class Conjunction(NamedTuple):
    """coefficient · 1[all of `true`, none of `false`, all tests]."""

    coefficient: int = 1
    true: tuple[RelationAtom, ...] = ()
    false: tuple[RelationAtom, ...] = ()
    tests: tuple[Test, ...] = ()
    bindings: tuple[tuple[str, SimpleTerm], ...] = ()  # variables that another term stands for

    @property
    def negatives(self) -> tuple[Negative, ...]:
        """List the false atoms and denied comparisons that `expand_negatives` may take out."""
        denied = (
            test
            for test in self.tests
            if len(test.variables) == 2
            and (test.equates is False or (test.numeric and not test.expected))
        )
        return (*self.false, *denied)


class Scope(NamedTuple):
    """The variables of a conjunction: their types, and those that the result is kept by."""

    types: Mapping[str, str]
    keep: tuple[str, ...]  # in order of preference as representatives of equal variables
    domains: Mapping[str, Domain]
    determined: frozenset[str] = frozenset()  # never stand for a variable that is counted


def conjoin(*parts: Conjunction) -> Conjunction:
    """The conjunction of all parts."""
    return Conjunction(
        prod(part.coefficient for part in parts),
        tuple(atom for part in parts for atom in part.true),
        tuple(atom for part in parts for atom in part.false),
        tuple(test for part in parts for test in part.tests),
        tuple(binding for part in parts for binding in part.bindings),
    )


def flip_sign(conjunction: Conjunction) -> Conjunction:
    """The same conjunction with the opposite coefficient."""
    return conjunction._replace(coefficient=-conjunction.coefficient)


def require_literals(literals: Iterable[Literal]) -> Conjunction:
    """1[every literal is true]."""
    literals = tuple(literals)
    return Conjunction(
        true=tuple(RelationAtom(each.predicate, each.terms) for each in literals if each.positive),
        false=tuple(
            RelationAtom(each.predicate, each.terms) for each in literals if not each.positive
        ),
    )


def equate_terms(left: Iterable[SimpleTerm], right: Iterable[SimpleTerm]) -> Conjunction:
    """1[the two lists of terms are equal, term by term]."""
    pairs = zip(left, right, strict=True)
    return Conjunction(tests=tuple(Test(Condition("=", a, b)) for a, b in pairs))


def require_conditions(conditions: Iterable[Condition], expected: bool) -> Conjunction:
    """1[every condition is `expected`]."""
    return Conjunction(tests=tuple(make_test(each, expected) for each in conditions))


def require_cube(cube: Cube) -> Conjunction:
    """1[every literal and every condition of the cube is true]."""
    return conjoin(require_literals(cube.literals), require_conditions(cube.conditions, True))


def falsify_clause(clause: Clause) -> Conjunction:
    """1[every literal and every condition of the clause is false]."""
    falsified = (literal.negate() for literal in clause.literals)
    return conjoin(require_literals(falsified), require_conditions(clause.conditions, False))


def unify(conjunction: Conjunction, scope: Scope) -> Conjunction | None:
    """One term for equal terms; None where the conjunction cannot be true."""
    parent: dict[SimpleTerm, SimpleTerm] = {}

    def find(term: SimpleTerm) -> SimpleTerm:
        while term in parent:
            term = parent[term]
        return term

    rest: list[Test] = []
    for test in conjunction.tests:
        if not _is_unifiable(test, scope):
            rest.append(test)
            continue
        left, right = find(test.condition.left), find(test.condition.right)
        if left == right:
            continue
        if _rank_representative(left, scope) > _rank_representative(right, scope):
            left, right = right, left
        if isinstance(right, Constant):
            return None
        if isinstance(left, Constant):
            domain = scope.domains[scope.types[right.name]]
            if left.name not in domain.index:
                return None
        parent[right] = left
    true, false, tests = conjunction.true, conjunction.false, tuple(rest)
    if parent:
        swap = {term.name: find(term) for term in parent if isinstance(term, Variable)}
        true, false = (
            tuple(substitute_terms(atom, swap) for atom in atoms) for atoms in (true, false)
        )
        tests = tuple(substitute_terms(test, swap) for test in tests)
        bindings = {
            name: swap.get(term.name, term) if isinstance(term, Variable) else term
            for name, term in conjunction.bindings
        }
        bindings |= {name: term for name, term in swap.items() if name not in scope.determined}
        conjunction = conjunction._replace(bindings=tuple(sorted(bindings.items())))
    undecided: dict[Test, None] = {}
    for test in tests:
        outcome = _decide_test(test)
        if outcome is False:
            return None
        if outcome is None:
            undecided[test] = None
    true, false = tuple(dict.fromkeys(true)), tuple(dict.fromkeys(false))
    if not set(true).isdisjoint(false):
        return None
    unified = conjunction._replace(true=true, false=false, tests=tuple(undecided))
    # A comparison across types becomes one with a constant when a side is found out.
    if any(_is_unifiable(test, scope) for test in undecided):
        return unify(unified, scope)
    return unified


def expand_negatives(
    conjunctions: Iterable[Conjunction],
    scope: Scope,
    is_expanded: Callable[[Conjunction, Negative], bool],
) -> list[Conjunction]:
    """An equal sum of unified conjunctions, none of which has a negative to be expanded.

    Equal ones are added up, and those that cancel are gone: A ∧ B as the clauses of its negation,
    −1[¬A] − 1[A ∧ ¬B], is one conjunction again.
    """
    pending = list(conjunctions)[::-1]
    done: dict[object, Conjunction] = {}
    while pending:
        unified = unify(pending.pop(), scope)
        if unified is None:
            continue
        found = next((each for each in unified.negatives if is_expanded(unified, each)), None)
        if found is not None:
            pending += reversed(_include_and_exclude(unified, found))
            continue
        sets = frozenset(unified.true), frozenset(unified.false), frozenset(unified.tests)
        key = sets, unified.bindings
        before = done.get(key)
        total = unified.coefficient + (before.coefficient if before else 0)
        done[key] = (before or unified)._replace(coefficient=total)
    return [each for each in done.values() if each.coefficient]


@overload
def substitute_terms(item: RelationAtom, terms: Mapping[str, SimpleTerm]) -> RelationAtom: ...
@overload
def substitute_terms(item: Test, terms: Mapping[str, SimpleTerm]) -> Test: ...
def substitute_terms(item: Negative, terms: Mapping[str, SimpleTerm]) -> Negative:
    """The same atom or test with variables replaced."""

    def swapped(term: SimpleTerm) -> SimpleTerm:
        return terms.get(term.name, term) if isinstance(term, Variable) else term

    if isinstance(item, RelationAtom):
        return RelationAtom(item.relation, tuple(map(swapped, item.terms)))
    left, right = swapped(item.condition.left), swapped(item.condition.right)
    return Test(item.condition._replace(left=left, right=right), item.expected)


def _include_and_exclude(conjunction: Conjunction, negative: Negative) -> list[Conjunction]:
    """Without the negative, minus with its opposite."""
    if isinstance(negative, RelationAtom):
        others = tuple(other for other in conjunction.false if other != negative)
        without = conjunction._replace(false=others)
        return [without, flip_sign(without._replace(true=(*without.true, negative)))]
    remaining = tuple(other for other in conjunction.tests if other != negative)
    opposite = conjunction._replace(tests=(*remaining, negative.opposite))
    return [conjunction._replace(tests=remaining), flip_sign(opposite)]


def _decide_test(test: Test) -> bool | None:
    """The outcome of a test that does not depend on the grounding."""
    if not test.variables:
        return compare_constants(test)
    return test.equates if test.condition.left == test.condition.right else None


def _is_unifiable(test: Test, scope: Scope) -> bool:
    """Whether it says that two terms are the same constant of one domain."""
    return test.equates is True and len({scope.types[name] for name in test.variables}) == 1


def _rank_representative(term: SimpleTerm, scope: Scope) -> tuple[int, str]:
    """Which of two equal terms stands for both: a constant, a kept variable, the first name."""
    if isinstance(term, Constant):
        return (-1, term.name)
    if term.name in scope.keep:
        return (scope.keep.index(term.name), term.name)
    return (len(scope.keep) + (term.name in scope.determined), term.name)
