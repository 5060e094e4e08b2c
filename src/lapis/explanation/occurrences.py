"""Occurrences of atoms in formulas, and what must be possible for an occurrence to matter.

The value of a ground formula depends on one of its atoms only if the formula around the occurrence
leaves it open. In `Friends(x, y) ^ Smokes(x) => Smokes(y)` the atom Smokes(y) matters only where
Friends(x, y) is not false. Such conditions on predicates whose true atoms are few turn the search
for the ground formulas around an atom into joins of short tables.

Atoms that the data states count as possible both ways, since explanations also ask what holds
without a fact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lapis.language.model import Rule
from lapis.language.syntax import (
    And,
    Atom,
    CountExists,
    Exists,
    ForAll,
    Formula,
    Iff,
    Implies,
    Not,
    Or,
)


class Occurrence(NamedTuple):
    """An atom of a formula, and the atoms that must not be false for it to matter."""

    rule: int
    atom: Atom
    needed: tuple[Atom, ...]


def list_occurrences(number: int, rule: Rule) -> list[Occurrence]:
    """List the occurrences of atoms in a rule, each form once."""
    found = (Occurrence(number, atom, needed) for atom, needed in descend(rule.formula, ()))
    return list(dict.fromkeys(found))


def descend(formula: Formula, needed: tuple[Atom, ...]) -> Iterator[tuple[Atom, tuple[Atom, ...]]]:
    """Yield the atoms of a formula with the atoms that they need."""
    match formula:
        case Atom():
            yield formula, needed
        case Not(body) | Exists(_, body) | ForAll(_, body) | CountExists(_, body):
            yield from descend(body, needed)
        case And(parts):
            yield from descend_parts(parts, True, needed)
        case Or(parts):
            yield from descend_parts(parts, False, needed)
        case Implies(premise, conclusion):
            yield from descend(premise, (*needed, *require(conclusion, False)))
            yield from descend(conclusion, (*needed, *require(premise, True)))
        case Iff(left, right):
            yield from descend(left, needed)
            yield from descend(right, needed)


def descend_parts(
    parts: Sequence[Formula], value: bool, needed: tuple[Atom, ...]
) -> Iterator[tuple[Atom, tuple[Atom, ...]]]:
    """Yield the atoms of parts that matter only while all other parts have a value."""
    for number, part in enumerate(parts):
        others = (other for n, other in enumerate(parts) if n != number)
        more = [atom for other in others for atom in require(other, value)]
        yield from descend(part, (*needed, *more))


def require(formula: Formula, value: bool) -> Iterator[Atom]:
    """Yield atoms that are not false wherever the formula has the value (for some bound values)."""
    match formula:
        case Atom() if value:
            yield formula
        case Not(body):
            yield from require(body, not value)
        case And(parts) if value:
            yield from (atom for part in parts for atom in require(part, True))
        case Or(parts) if not value:
            yield from (atom for part in parts for atom in require(part, False))
        case Implies(premise, conclusion) if not value:
            yield from require(premise, True)
            yield from require(conclusion, False)
        case Exists(_, body) if value:
            yield from require(body, True)
        case ForAll(_, body) if not value:
            yield from require(body, False)
