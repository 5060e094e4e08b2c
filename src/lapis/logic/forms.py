"""Clauses of formulas without quantifiers and comparisons, worked out once for each form.

Which atoms a formula has does not matter to its disjoint cubes, only where they are equal. So a
formula of plain atoms is taken apart into its form, connectives over numbers, and its list of
different atoms; thousands of ground rules share a form, and expand it once.
"""

from __future__ import annotations

from typing import Any

from lapis.language.syntax import And, Atom, Formula, Iff, Implies, Not, Or, children
from lapis.logic.clauses import Clause, Literal, simple
from lapis.logic.cubes import disjoint_cubes
from lapis.logic.passes import rewrite, split_hard

Form = Any  # number of an atom, or (connective, form, …)
ClauseForm = tuple[tuple[int, bool], ...]  # (number of an atom, sign)


CONNECTIVES = {And, Or, Not, Implies, Iff}


class FormTable:
    """The forms met so far, and the literals of atoms made so far."""

    def __init__(self) -> None:
        self._number_of: dict[int, int] = {}  # by identity, which is quicker than by value
        self._numbers: dict[Atom, int] = {}
        self._literals: list[tuple[Literal, Literal]] = []  # (negative, positive)
        self._clauses: dict[tuple[Form, bool], tuple[tuple[ClauseForm, ...], ...]] = {}

    def clauses(self, formula: Formula, hard: bool) -> list[tuple[Clause, ...]] | None:
        """The clauses of each part of a formula (a hard one may have several), None if it has
        more than atoms and connectives. The atoms must outlive the table."""
        own: dict[int, int] = {}
        form = self._form(formula, own)
        if form is None:
            return None
        parts = self._clauses.get((form, hard))
        if parts is None:
            parts = self._clauses[form, hard] = expand(form, hard)
        found = [self._literals[number] for number in own]
        return [
            tuple([Clause(tuple([found[atom][sign] for atom, sign in clause])) for clause in part])
            for part in parts
        ]

    def _form(self, formula: Formula, own: dict[int, int]) -> Form | None:
        if isinstance(formula, Atom):
            number = self._number_of.get(id(formula))
            if number is None:
                number = self._add(formula)
            return own.setdefault(number, len(own))
        if type(formula) not in CONNECTIVES:
            return None
        forms = [self._form(part, own) for part in children(formula)]
        return None if None in forms else (type(formula), *forms)

    def _add(self, atom: Atom) -> int:
        number = self._numbers.setdefault(atom, len(self._literals))
        if number == len(self._literals):
            terms = tuple(map(simple, atom.terms))
            pair = Literal(atom.predicate, terms, False), Literal(atom.predicate, terms, True)
            self._literals.append(pair)
        self._number_of[id(atom)] = number
        return number


def expand(form: Form, hard: bool) -> tuple[tuple[ClauseForm, ...], ...]:
    """The clauses of a form, over numbers of atoms."""
    number: dict[Formula, int] = {}
    formula = rewrite(formula_of(form, number))
    parts = [part for _, part in split_hard(formula)] if hard else [formula]
    return tuple(
        tuple(
            tuple((number[leaf], not sign) for leaf, sign in cube)
            for cube in disjoint_cubes(part, False)
        )
        for part in parts
    )


def formula_of(form: Form, number: dict[Formula, int]) -> Formula:
    """A formula of the form; `number` gets the atoms it is made of."""
    if isinstance(form, int):
        atom = Atom(str(form), ())
        number[atom] = form
        return atom
    kind, *inner = form
    parts = tuple(formula_of(part, number) for part in inner)
    return kind(parts) if kind is And or kind is Or else kind(*parts)
