"""Signed sums of conjunctions, the input of every count and every listing.

    Σ coefficient · 1[all atoms of `true` hold, none of `false` does, all tests pass]

`unify` replaces equal terms by one and decides tests that no grounding can change.
`expand_negatives` removes false atoms and inequalities by inclusion–exclusion, 1[¬A] = 1 − 1[A]
and 1[x ≠ y] = 1 − 1[x = y], if the caller requests it; the others stay filters.
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


Negative = RelationAtom | Test  # an atom that must be false, or a negated comparison


class Conjunction(NamedTuple):
    """coefficient · 1[all of `true`, none of `false`, all tests]."""

    coefficient: int = 1
    true: tuple[RelationAtom, ...] = ()
    false: tuple[RelationAtom, ...] = ()
    tests: tuple[Test, ...] = ()
    bindings: tuple[tuple[str, SimpleTerm], ...] = ()  # variables, and the terms that replace them

    @property
    def negatives(self) -> tuple[Negative, ...]:
        """The false atoms and negated comparisons that `expand_negatives` may remove."""
        negated = (
            test
            for test in self.tests
            if len(test.variables) == 2
            and (test.equates is False or (test.numeric and not test.expected))
        )
        return (*self.false, *negated)


class Scope(NamedTuple):
    """The variables of a conjunction: their types, and those that the result keeps."""

    types: Mapping[str, str]
    keep: tuple[str, ...]  # in order of preference as representatives of equal variables
    domains: Mapping[str, Domain]
    determined: frozenset[str] = frozenset()  # never replace a variable that is counted


def conjoin(*parts: Conjunction) -> Conjunction:
    """Return the conjunction of all parts."""
    return Conjunction(
        prod(part.coefficient for part in parts),
        tuple(atom for part in parts for atom in part.true),
        tuple(atom for part in parts for atom in part.false),
        tuple(test for part in parts for test in part.tests),
        tuple(binding for part in parts for binding in part.bindings),
    )


def flip_sign(conjunction: Conjunction) -> Conjunction:
    """Return the conjunction with the opposite coefficient."""
    return conjunction._replace(coefficient=-conjunction.coefficient)


def require_literals(literals: Iterable[Literal]) -> Conjunction:
    """Return 1[every literal is true]."""
    literals = tuple(literals)
    return Conjunction(
        true=tuple(RelationAtom(each.predicate, each.terms) for each in literals if each.positive),
        false=tuple(
            RelationAtom(each.predicate, each.terms) for each in literals if not each.positive
        ),
    )


def equate_terms(left: Iterable[SimpleTerm], right: Iterable[SimpleTerm]) -> Conjunction:
    """Return 1[the two lists of terms are equal, term by term]."""
    pairs = zip(left, right, strict=True)
    return Conjunction(tests=tuple(Test(Condition("=", a, b)) for a, b in pairs))


def require_conditions(conditions: Iterable[Condition], expected: bool) -> Conjunction:
    """Return 1[every condition is `expected`]."""
    return Conjunction(tests=tuple(make_test(each, expected) for each in conditions))


def require_cube(cube: Cube) -> Conjunction:
    """Return 1[every literal and every condition of the cube is true]."""
    return conjoin(require_literals(cube.literals), require_conditions(cube.conditions, True))


def falsify_clause(clause: Clause) -> Conjunction:
    """Return 1[every literal and every condition of the clause is false]."""
    falsified = (literal.negate() for literal in clause.literals)
    return conjoin(require_literals(falsified), require_conditions(clause.conditions, False))


def unify(conjunction: Conjunction, scope: Scope) -> Conjunction | None:
    """Replace equal terms by one; None if the conjunction cannot be true."""
    equalities = [test for test in conjunction.tests if _is_unifiable(test, scope)]
    swap = _choose_representatives(equalities, scope)
    if swap is None:
        return None
    rest = conjunction._replace(
        tests=tuple(test for test in conjunction.tests if test not in equalities)
    )
    replaced = _replace_variables(rest, swap, scope) if swap else rest
    outcomes = {test: _decide_test(test) for test in replaced.tests}
    true, false = tuple(dict.fromkeys(replaced.true)), tuple(dict.fromkeys(replaced.false))
    if False in outcomes.values() or not set(true).isdisjoint(false):
        return None
    undecided = tuple(test for test, outcome in outcomes.items() if outcome is None)
    unified = replaced._replace(true=true, false=false, tests=undecided)
    # A comparison across types becomes unifiable once one side is a constant.
    if any(_is_unifiable(test, scope) for test in undecided):
        return unify(unified, scope)
    return unified


def _choose_representatives(
    equalities: Iterable[Test], scope: Scope
) -> dict[str, SimpleTerm] | None:
    """Map variables to the terms that replace them; None if the equalities contradict."""
    parent: dict[SimpleTerm, SimpleTerm] = {}

    def find(term: SimpleTerm) -> SimpleTerm:
        while term in parent:
            term = parent[term]
        return term

    for test in equalities:
        left, right = sorted(
            (find(test.condition.left), find(test.condition.right)),
            key=lambda term: _rank_representative(term, scope),
        )
        if left == right:
            continue
        if isinstance(right, Constant):
            return None
        if isinstance(left, Constant):
            domain = scope.domains[scope.types[right.name]]
            if left.name not in domain.index:
                return None
        parent[right] = left
    return {term.name: find(term) for term in parent}


def _replace_variables(
    conjunction: Conjunction, swap: Mapping[str, SimpleTerm], scope: Scope
) -> Conjunction:
    """Replace variables in all atoms, tests and bindings."""
    bindings = {
        name: swap.get(term.name, term) if isinstance(term, Variable) else term
        for name, term in conjunction.bindings
    }
    bindings |= {name: term for name, term in swap.items() if name not in scope.determined}
    return Conjunction(
        conjunction.coefficient,
        tuple(substitute_terms(atom, swap) for atom in conjunction.true),
        tuple(substitute_terms(atom, swap) for atom in conjunction.false),
        tuple(substitute_terms(test, swap) for test in conjunction.tests),
        tuple(sorted(bindings.items())),
    )


def expand_negatives(
    conjunctions: Iterable[Conjunction],
    scope: Scope,
    is_expanded: Callable[[Conjunction, Negative], bool],
) -> list[Conjunction]:
    """Return an equal sum of unified conjunctions without the negatives to be expanded.

    Equal conjunctions are merged and those with coefficient 0 dropped, so that −1[¬A] − 1[A ∧ ¬B]
    (the clauses of ¬(A ∧ B)) becomes one conjunction again.
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
    """Replace variables of an atom or test."""

    def swapped(term: SimpleTerm) -> SimpleTerm:
        return terms.get(term.name, term) if isinstance(term, Variable) else term

    if isinstance(item, RelationAtom):
        return RelationAtom(item.relation, tuple(map(swapped, item.terms)))
    left, right = swapped(item.condition.left), swapped(item.condition.right)
    return Test(item.condition._replace(left=left, right=right), item.expected)


def _include_and_exclude(conjunction: Conjunction, negative: Negative) -> list[Conjunction]:
    """Apply 1[¬A] = 1 − 1[A] to one negative of the conjunction."""
    if isinstance(negative, RelationAtom):
        others = tuple(other for other in conjunction.false if other != negative)
        without = conjunction._replace(false=others)
        return [without, flip_sign(without._replace(true=(*without.true, negative)))]
    remaining = tuple(other for other in conjunction.tests if other != negative)
    opposite = conjunction._replace(tests=(*remaining, negative.opposite))
    return [conjunction._replace(tests=remaining), flip_sign(opposite)]


def _decide_test(test: Test) -> bool | None:
    """Return the result of a test that is the same in all groundings, else None."""
    if not test.variables:
        return compare_constants(test)
    return test.equates if test.condition.left == test.condition.right else None


def _is_unifiable(test: Test, scope: Scope) -> bool:
    """Return whether the test equates two terms of one type."""
    return test.equates is True and len({scope.types[name] for name in test.variables}) == 1


def _rank_representative(term: SimpleTerm, scope: Scope) -> tuple[int, str]:
    """Rank equal terms; the lowest replaces the others: a constant, a kept variable, by name."""
    if isinstance(term, Constant):
        return (-1, term.name)
    if term.name in scope.keep:
        return (scope.keep.index(term.name), term.name)
    return (len(scope.keep) + (term.name in scope.determined), term.name)
