"""Signed sums of conjunctions, in the form that sparse sum-products can take.

Everything counted here is Σ coefficient · #{assignments that make a conjunction true}, where a
conjunction has atoms that must be true, atoms that must be false, and comparisons. `simplify`
rewrites one conjunction into an equal sum of conjunctions in which

- equal variables are one variable (a variable that the caller wants to keep is remembered in
  `bindings` when another stands for it),
- an atom that must be false either has at most one variable (its complement is no larger than a
  domain; for counting at one atom, no variable), or is a filter on the rows of one true atom;
  any other is expanded as 1[¬A] = 1 − 1[A] (inclusion–exclusion, DESIGN section 3),
- x ≠ y likewise filters a true atom, or is expanded as 1 − 1[x = y].

Expanding only what no true atom covers keeps the number of terms far below 2^(false atoms).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lapis.data.database import Domain
from lapis.language.syntax import Constant, Variable
from lapis.logic.clauses import Condition, Literal, SimpleTerm


class Atom(NamedTuple):
    predicate: str
    terms: tuple[SimpleTerm, ...]


class Check(NamedTuple):
    """A condition and how it must come out; = and != always as `holds`."""

    condition: Condition
    holds: bool = True

    @property
    def compares_codes(self) -> bool:
        """Whether it asks for the same or another constant, not for numbers."""
        return self.condition.operator in ("=", "!=") and self.condition.offset == 0

    @property
    def variables(self) -> frozenset[str]:
        sides = (self.condition.left, self.condition.right)
        return frozenset(term.name for term in sides if isinstance(term, Variable))


class Conjunction(NamedTuple):
    """coefficient · 1[all of `true`, none of `false`, all checks]."""

    coefficient: int = 1
    true: tuple[Atom, ...] = ()
    false: tuple[Atom, ...] = ()
    checks: tuple[Check, ...] = ()
    bindings: tuple[tuple[str, SimpleTerm], ...] = ()  # variables that another term stands for


class Scope(NamedTuple):
    """The variables of a conjunction: their types, and those that the result is kept by."""

    types: Mapping[str, str]
    kept: tuple[str, ...]  # in order of preference as representatives of equal variables
    domains: Mapping[str, Domain]
    determined: frozenset[str] = frozenset()  # never stand for a variable that is counted
    known: frozenset[str] | None = None  # have values when counting; None: all atoms at once


def multiply(*parts: Conjunction) -> Conjunction:
    """The conjunction of all parts."""
    coefficient = 1
    for part in parts:
        coefficient *= part.coefficient
    return Conjunction(
        coefficient,
        tuple(atom for part in parts for atom in part.true),
        tuple(atom for part in parts for atom in part.false),
        tuple(check for part in parts for check in part.checks),
        tuple(binding for part in parts for binding in part.bindings),
    )


def literals_hold(literals: Iterable[Literal]) -> Conjunction:
    """1[every literal is true]."""
    literals = tuple(literals)
    return Conjunction(
        true=tuple(Atom(each.predicate, each.terms) for each in literals if each.positive),
        false=tuple(Atom(each.predicate, each.terms) for each in literals if not each.positive),
    )


def equal(left: Iterable[SimpleTerm], right: Iterable[SimpleTerm]) -> Conjunction:
    """1[the two lists of terms are equal, term by term]."""
    pairs = zip(left, right, strict=True)
    return Conjunction(checks=tuple(Check(Condition("=", a, b)) for a, b in pairs))


def conditions_come_out(conditions: Iterable[Condition], expected: bool) -> Conjunction:
    """1[every condition is `expected`]."""
    return Conjunction(checks=tuple(_check(condition, expected) for condition in conditions))


def _check(condition: Condition, expected: bool) -> Check:
    """A failing x = y is a holding x != y; numeric comparisons have no such opposite.

    A constant that is not a number fails both x < y and x >= y.
    """
    check = Check(condition, expected)
    if not check.compares_codes or expected:
        return check
    return Check(condition._replace(operator="!=" if condition.operator == "=" else "="))


def simplify(conjunction: Conjunction, scope: Scope) -> list[Conjunction]:
    """An equal sum of conjunctions, each ready to be a sum-product."""
    pending = [conjunction]
    done: dict[Conjunction, int] = {}
    while pending:
        unified = unify(pending.pop(), scope)
        if unified is None:
            continue
        expanded = _expand(unified, scope)
        if expanded is None:
            bare = unified._replace(coefficient=1)
            done[bare] = done.get(bare, 0) + unified.coefficient
        else:
            pending.extend(expanded)
    return [bare._replace(coefficient=total) for bare, total in done.items() if total]


def unify(conjunction: Conjunction, scope: Scope) -> Conjunction | None:
    """One variable for equal variables; None where the conjunction cannot be true."""
    parent: dict[SimpleTerm, SimpleTerm] = {}

    def find(term: SimpleTerm) -> SimpleTerm:
        while term in parent:
            term = parent[term]
        return term

    rest: list[Check] = []
    for check in conjunction.checks:
        if not _is_unifiable(check, scope):
            rest.append(check)
            continue
        left, right = find(check.condition.left), find(check.condition.right)
        if left == right:
            continue
        if _rank(left, scope) > _rank(right, scope):
            left, right = right, left
        if isinstance(right, Constant):
            return None
        if isinstance(left, Constant):
            domain = scope.domains[scope.types[right.name]]
            if left.name not in domain.index:
                return None
        parent[right] = left

    def replaced(atoms: tuple[Atom, ...]) -> dict[Atom, None]:
        return {atom._replace(terms=tuple(map(find, atom.terms))): None for atom in atoms}

    true, false = replaced(conjunction.true), replaced(conjunction.false)
    if true.keys() & false.keys():
        return None
    checks: dict[Check, None] = {}
    for check in rest:
        left, right = find(check.condition.left), find(check.condition.right)
        check = check._replace(condition=check.condition._replace(left=left, right=right))
        if check.compares_codes and not check.variables:
            if (left == right) != (check.condition.operator == "="):
                return None
        elif check.compares_codes and left == right:
            if check.condition.operator == "!=":
                return None
        else:
            checks[check] = None
    bindings = {name: find(term) for name, term in conjunction.bindings}
    bindings |= {
        term.name: find(term)
        for term in parent
        if isinstance(term, Variable) and term.name not in scope.determined
    }
    return Conjunction(
        conjunction.coefficient,
        tuple(sorted(true, key=repr)),
        tuple(sorted(false, key=repr)),
        tuple(sorted(checks, key=repr)),
        tuple(sorted(bindings.items())),
    )


def atom_variables(atom: Atom) -> frozenset[str]:
    return frozenset(term.name for term in atom.terms if isinstance(term, Variable))


def _is_unifiable(check: Check, scope: Scope) -> bool:
    """Whether it says that two terms are the same code of one domain."""
    if not check.compares_codes or check.condition.operator != "=":
        return False
    return len({scope.types[name] for name in check.variables}) <= 1


def _rank(term: SimpleTerm, scope: Scope) -> tuple[int, str]:
    """Which of two equal terms stands for both: a constant, a kept variable, the first name."""
    if isinstance(term, Constant):
        return (-1, term.name)
    if term.name in scope.kept:
        return (scope.kept.index(term.name), term.name)
    return (len(scope.kept) + (term.name in scope.determined), term.name)


def _expand(conjunction: Conjunction, scope: Scope) -> list[Conjunction] | None:
    """The two parts of a false atom or an inequality that no true atom covers; None if none."""
    covers = [atom_variables(atom) for atom in conjunction.true]

    def is_open(variables: frozenset[str]) -> bool:
        if scope.known is None:
            is_small = len(variables) <= 1
        else:
            variables = variables - scope.known
            is_small = not variables
        return not is_small and not any(variables <= cover for cover in covers)

    for atom in conjunction.false:
        if is_open(atom_variables(atom)):
            others = tuple(other for other in conjunction.false if other != atom)
            without = conjunction._replace(false=others)
            return [without, negate(without._replace(true=(*without.true, atom)))]
    for check in conjunction.checks:
        one_type = len({scope.types[name] for name in check.variables}) == 1
        if check.compares_codes and one_type and is_open(check.variables):
            remaining = tuple(other for other in conjunction.checks if other != check)
            same = Check(check.condition._replace(operator="="))
            return [
                conjunction._replace(checks=remaining),
                negate(conjunction._replace(checks=(*remaining, same))),
            ]
    return None


def negate(conjunction: Conjunction) -> Conjunction:
    """The same conjunction with the opposite coefficient."""
    return conjunction._replace(coefficient=-conjunction.coefficient)
