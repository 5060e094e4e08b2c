"""The truth of ground formulas in a world, by recursion over their syntax."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod

from lapis.data.database import Domain
from lapis.language.names import read_number
from lapis.language.syntax import (
    And,
    Atom,
    Comparison,
    Constant,
    CountExists,
    Exists,
    ForAll,
    Formula,
    Iff,
    Implies,
    Not,
    Offset,
    Or,
    Term,
    Truth,
    Variable,
)

GroundAtom = tuple[str, tuple[str, ...]]  # predicate and constants
Values = Mapping[str, str]  # constants by variable
Holds = Callable[[GroundAtom], bool]

COMPARE: Mapping[str, Callable[[object, object], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,  # type: ignore[dict-item]
    ">": operator.gt,  # type: ignore[dict-item]
    "<=": operator.le,  # type: ignore[dict-item]
    ">=": operator.ge,  # type: ignore[dict-item]
}


class FormulaInstance:
    """A formula at constants of its free variables."""

    def __init__(
        self,
        formula: Formula,
        values: Values,
        bound: Sequence[tuple[str, str]],
        domains: Mapping[str, Domain],
    ) -> None:
        self.formula, self.given = formula, values
        self.types, self.domains = dict(bound), domains

    @property
    def num_leaves(self) -> int:
        """The number of ground atoms of the formula if every variable is quantified apart."""
        return prod(len(self.domains[kind]) for kind in self.types.values())

    def holds(self, truth: Holds) -> bool:
        """Return whether the formula is true in a world."""
        return self._holds(self.formula, self.given, truth)

    def atoms(self) -> list[GroundAtom]:
        """Return the ground atoms in order of occurrence, each once."""
        return list(dict.fromkeys(self._atoms(self.formula, self.given)))

    def _atoms(self, formula: Formula, values: Values) -> Iterator[GroundAtom]:
        match formula:
            case Atom(predicate, terms):
                yield predicate, tuple(constant_of(term, values) for term in terms)
            case Not(body):
                yield from self._atoms(body, values)
            case And(parts) | Or(parts):
                yield from (atom for part in parts for atom in self._atoms(part, values))
            case Implies(left, right) | Iff(left, right):
                yield from self._atoms(left, values)
                yield from self._atoms(right, values)
            case Exists() | ForAll() | CountExists():
                for inner in self._extend(formula.variables, values):
                    yield from self._atoms(formula.body, inner)

    def _holds(self, formula: Formula, values: Values, truth: Holds) -> bool:
        match formula:
            case Atom(predicate, terms):
                return truth((predicate, tuple(constant_of(term, values) for term in terms)))
            case Comparison(comparison, left, right):
                return compare(comparison, left, right, values)
            case Truth(value):
                return value
            case Not() | And() | Or() | Implies() | Iff():
                return self._connective(formula, values, truth)
            case Exists() | ForAll() | CountExists():
                return self._quantifier(formula, values, truth)

    def _connective(
        self, formula: Not | And | Or | Implies | Iff, values: Values, truth: Holds
    ) -> bool:
        match formula:
            case Not(body):
                return not self._holds(body, values, truth)
            case And(parts):
                return all(self._holds(part, values, truth) for part in parts)
            case Or(parts):
                return any(self._holds(part, values, truth) for part in parts)
            case Implies(premise, conclusion):
                if not self._holds(premise, values, truth):
                    return True
                return self._holds(conclusion, values, truth)
            case Iff(left, right):
                return self._holds(left, values, truth) == self._holds(right, values, truth)

    def _quantifier(
        self, formula: Exists | ForAll | CountExists, values: Values, truth: Holds
    ) -> bool:
        held = (
            self._holds(formula.body, inner, truth)
            for inner in self._extend(formula.variables, values)
        )
        match formula:
            case Exists():
                return any(held)
            case ForAll():
                return all(held)
            case CountExists():
                return COMPARE[formula.operator](sum(held), formula.bound)

    def _extend(self, names: Sequence[str], values: Values) -> Iterator[Values]:
        domains = [self.domains[self.types[name]].constants for name in names]
        for constants in itertools.product(*domains):
            yield {**values, **dict(zip(names, constants, strict=True))}


def constant_of(term: Term, values: Values) -> str:
    """Return the constant that a term of an atom denotes."""
    assert isinstance(term, Variable | Constant)
    return values[term.name] if isinstance(term, Variable) else term.name


def compare(comparison: str, left: Term, right: Term, values: Values) -> bool:
    """Compare constants as names by = and !=, and as numbers otherwise."""
    if comparison in ("=", "!=") and not isinstance(left, Offset) and not isinstance(right, Offset):
        return COMPARE[comparison](constant_of(left, values), constant_of(right, values))
    numbers = number_of(left, values), number_of(right, values)
    return numbers[0] == numbers[0] and numbers[1] == numbers[1] and COMPARE[comparison](*numbers)


def number_of(term: Term, values: Values) -> float:
    """Return the number that a term denotes; NaN if it is none."""
    if isinstance(term, Offset):
        return number_of(term.variable, values) + term.amount
    return read_number(constant_of(term, values))
