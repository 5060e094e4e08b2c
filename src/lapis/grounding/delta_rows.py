"""Ground only the clauses that contain one atom, or one constant.

A ground clause that contains the atom A comes from an occurrence of A's predicate in a clause:
unifying the occurrence with A binds its variables, and the other literals are joined from there by
indexes (`live_atoms`), the most selective first. A grounding with several such occurrences is
listed for the first. For a new constant the first variable that has it is bound.

A step joins the true and unknown atoms of a negative literal over a sparse predicate, which are
few. Other literals only filter: their variables are bound before, by other literals, by an
equation, or by all constants of their type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lapis.data.database import Domain
from lapis.errors import TooLarge
from lapis.grounding.live_atoms import FALSE_ATOM, TRUE_ATOM, AtomRow, LiveAtoms
from lapis.language.syntax import Constant, Variable
from lapis.logic.clauses import Clause, Feature, Literal, SimpleTerm
from lapis.relational.algebra import Test, make_test
from lapis.relational.comparison import compare_constants, test_rows
from lapis.relational.factor import Factor
from lapis.runtime.limits import format_bytes

ROW_BYTES = 64  # of a grounding while it is joined, beside 16 bytes for each variable


class DeltaRows(NamedTuple):
    """Groundings of a clause that evidence does not satisfy."""

    feature: Feature
    literal: np.ndarray  # int64[num_rows, num_literals], 0 where evidence dropped it
    plus: np.ndarray  # int64[num_rows, num_plus], the constants that select the weight
    multiplicity: int  # groundings of each row: variables that occur nowhere


@dataclass(frozen=True)
class DeltaWorld:
    """The atoms and constants that clauses are joined with."""

    atoms: Mapping[str, LiveAtoms]
    types: Mapping[str, tuple[str, ...]]  # of each predicate's arguments
    domains: Mapping[str, Domain]
    max_memory: int

    def code(self, term: SimpleTerm, type_name: str) -> int:
        """Return the code of a constant."""
        return self.domains[type_name].index[term.name]


def rows_with_atom(
    features: Sequence[Feature], predicate: str, row: AtomRow, world: DeltaWorld
) -> Iterator[DeltaRows]:
    """Yield the groundings that contain an atom, each once; its status must be unknown."""
    for feature in features:
        for clause in feature.clauses:
            places = [n for n, each in enumerate(clause.literals) if each.predicate == predicate]
            for number, place in enumerate(places):
                values = unify_atom(clause.literals[place], row, world)
                if values is None:
                    continue
                join = DeltaJoin(feature, clause, values, world)
                join.excluded = [(clause.literals[other], row) for other in places[:number]]
                yield join.run()


def rows_with_constant(
    features: Sequence[Feature], type_name: str, code: int, world: DeltaWorld
) -> Iterator[DeltaRows]:
    """Yield the groundings in which a variable is this constant, each once."""
    for feature in features:
        places = [name for name, own in feature.variables if own == type_name]
        for number, name in enumerate(places):
            for clause in feature.clauses:
                join = DeltaJoin(feature, clause, {name: code}, world)
                join.different = [(other, code) for other in places[:number]]
                yield join.run()


def unify_atom(literal: Literal, row: AtomRow, world: DeltaWorld) -> dict[str, int] | None:
    """Return the values of the variables that give a literal this atom; None if none do."""
    values: dict[str, int] = {}
    types = world.types[literal.predicate]
    for term, type_name, code in zip(literal.terms, types, row, strict=True):
        if isinstance(term, Constant):
            if world.code(term, type_name) != code:
                return None
        elif values.setdefault(term.name, code) != code:
            return None
    return values


class DeltaJoin:
    """The groundings of a clause with some variables bound."""

    excluded: Sequence[tuple[Literal, AtomRow]] = ()  # literals that must not have these atoms
    different: Sequence[tuple[str, int]] = ()  # variables that must not have these values

    def __init__(
        self, feature: Feature, clause: Clause, values: Mapping[str, int], world: DeltaWorld
    ) -> None:
        self.feature, self.clause, self.world = feature, clause, world
        self.type_of = dict(feature.variables)
        self.column = {name: np.array([code], np.int32) for name, code in values.items()}
        self.num_rows = 1
        self.literals = list(dict.fromkeys(clause.literals))
        self.found: dict[Literal, np.ndarray] = {}  # signed numbers, 0 where dropped
        self.tests = [make_test(condition, False) for condition in clause.conditions]

    def run(self) -> DeltaRows:
        """Join all literals."""
        self.settle()
        while self.num_rows and (name := self.next_variable()) is not None:
            literal = self.best_join()
            if literal is not None:
                self.join(literal)
            else:
                self.list_constants(name)
            self.settle()
        for name, code in self.different:
            if name in self.column:
                self.keep(self.column[name] != code)
        plus = [self.column[name] for name in self.feature.plus if self.num_rows]
        numbers = [self.found[each] for each in self.literals if self.num_rows]
        return DeltaRows(
            self.feature,
            np.stack(numbers, axis=1) if numbers else np.zeros((self.num_rows, 0), np.int64),
            np.stack(plus, axis=1) if plus else np.zeros((self.num_rows, 0), np.int64),
            self.count_unused(),
        )

    def count_unused(self) -> int:
        """Return the number of values of the variables that occur nowhere."""
        number = 1
        excluded = {name for name, _ in self.different}
        for name, type_name in self.feature.variables:
            if name not in self.column:
                number *= len(self.world.domains[type_name]) - (name in excluded)
        return number

    def settle(self) -> None:
        """Apply all tests and literals whose variables are bound."""
        for test in self.tests:
            self.bind_by_equation(test)
        for test in [each for each in self.tests if self.is_bound(each.variables)]:
            self.tests.remove(test)
            if not test.variables:
                self.keep(np.full(self.num_rows, compare_constants(test)))
            else:
                self.keep(self.test(test))
        for literal in self.literals:
            if literal not in self.found and self.is_bound(variables_of(literal)):
                self.filter(literal)

    def bind_by_equation(self, test: Test) -> None:
        """Bind a variable that must equal a bound one, or a constant."""
        left, right = test.condition.left, test.condition.right
        if not test.equates:
            return
        for one, other in ((left, right), (right, left)):
            if not isinstance(one, Variable) or one.name in self.column:
                continue
            domain = self.world.domains[self.type_of[one.name]]
            if isinstance(other, Constant):
                code = domain.index.get(other.name)
                self.keep(np.full(self.num_rows, code is not None))
                self.column[one.name] = np.full(self.num_rows, code or 0, np.int32)
            elif other.name in self.column and self.type_of[other.name] == domain.name:
                self.column[one.name] = self.column[other.name]

    def test(self, test: Test) -> np.ndarray:
        rows = np.stack([self.column[name] for name in test.variables], axis=1)
        factor = Factor(test.variables, rows, np.ones(self.num_rows, np.int64))
        domains = {name: self.world.domains[self.type_of[name]] for name in test.variables}
        return test_rows(test, factor, domains)

    def is_bound(self, names: Sequence[str]) -> bool:
        return all(name in self.column for name in names)

    def keep(self, kept: np.ndarray) -> None:
        """Keep some rows, bool[num_rows]."""
        if kept.all():
            return
        self.take(np.flatnonzero(kept))

    def take(self, rows: np.ndarray) -> None:
        self.column = {name: values[rows] for name, values in self.column.items()}
        self.found = {literal: values[rows] for literal, values in self.found.items()}
        self.num_rows = len(rows)

    def filter(self, literal: Literal) -> None:
        """Drop the rows in which a literal is true; find its numbers in the others."""
        rows = self.atom_rows(literal)
        status = self.world.atoms[literal.predicate].statuses(rows)
        self.found[literal] = np.where(status > 0, status if literal.positive else -status, 0)
        kept = status != (TRUE_ATOM if literal.positive else FALSE_ATOM)
        for other, row in self.excluded:
            if other == literal:
                kept &= (rows != np.array(row, np.int32)).any(axis=1)
        self.keep(kept)

    def atom_rows(self, literal: Literal) -> np.ndarray:
        """Return int32[num_rows, arity], the atom of a literal in each row."""
        types = self.world.types[literal.predicate]
        rows = np.empty((self.num_rows, len(types)), np.int32)
        for place, (term, type_name) in enumerate(zip(literal.terms, types, strict=True)):
            if isinstance(term, Variable):
                rows[:, place] = self.column[term.name]
            else:
                rows[:, place] = self.world.code(term, type_name)
        return rows

    def next_variable(self) -> str | None:
        """Return an unbound variable that a literal, a test or the weight needs."""
        needed = [
            *(name for each in self.literals for name in variables_of(each)),
            *(name for test in self.tests for name in test.variables),
            *self.feature.plus,
        ]
        return next((name for name in needed if name not in self.column), None)

    def best_join(self) -> Literal | None:
        """Return the negative literal over a sparse predicate with the most arguments bound."""
        best, most = None, -1
        for literal in self.literals:
            if literal in self.found or literal.positive:
                continue
            bound = sum(
                not isinstance(term, Variable) or term.name in self.column for term in literal.terms
            )
            if self.world.atoms[literal.predicate].sparse and bound > most:
                best, most = literal, bound
        return best

    def join(self, literal: Literal) -> None:
        """Join the true and unknown atoms of a literal."""
        types = self.world.types[literal.predicate]
        bound = {}
        for place, (term, type_name) in enumerate(zip(literal.terms, types, strict=True)):
            if not isinstance(term, Variable):
                code = self.world.code(term, type_name)
                bound[place] = np.full(self.num_rows, code, np.int32)
            elif term.name in self.column:
                bound[place] = self.column[term.name]
        atoms = self.world.atoms[literal.predicate]
        if bound:
            place_of, rows = atoms.candidates(bound)
        else:
            _, rows = atoms.candidates({})
            self.check_rows(self.num_rows * len(rows))
            place_of = np.repeat(np.arange(self.num_rows), len(rows))
            rows = np.tile(rows, (self.num_rows, 1))
        self.check_rows(len(rows))
        self.take(place_of)
        for place, term in enumerate(literal.terms):
            if not isinstance(term, Variable) or place in bound:
                continue
            values = rows[:, place]
            if term.name not in self.column:
                self.column[term.name] = values
            else:  # it occurs twice in the literal
                agree = values == self.column[term.name]
                self.keep(agree)
                rows = rows[agree]

    def list_constants(self, name: str) -> None:
        """Bind a variable to all constants of its type."""
        size = len(self.world.domains[self.type_of[name]])
        self.check_rows(self.num_rows * size)
        number = self.num_rows
        self.take(np.repeat(np.arange(number), size))
        self.column[name] = np.tile(np.arange(size, dtype=np.int32), number)

    def check_rows(self, number: int) -> None:
        needed = number * (ROW_BYTES + 16 * len(self.type_of))
        if needed > self.world.max_memory:
            raise TooLarge(
                f"the change touches about {number:,} groundings of a rule; about "
                f"{format_bytes(needed)} of memory, over the limit of "
                f"{format_bytes(self.world.max_memory)}",
                code="too-large",
                hint="raise max_memory, or give more evidence",
            )


def variables_of(literal: Literal) -> list[str]:
    return [term.name for term in literal.terms if isinstance(term, Variable)]
