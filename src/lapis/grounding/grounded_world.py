"""Relations of the true, false and unknown tuples of each predicate, and plans on them.

The result of a plan becomes rows of literals, in which references to derived atoms are not resolved
yet.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from lapis.data.database import Domain
from lapis.data.keys import fits, pack
from lapis.errors import TooLarge
from lapis.grounding.ground_atoms import PredicateAtoms
from lapis.grounding.templates import GroundingQuery
from lapis.language.syntax import Variable
from lapis.logic.clauses import SimpleTerm, TypedVariable
from lapis.relational.conjunction import RelationAtom
from lapis.relational.factor import Factor
from lapis.relational.interpretation import Extension, Interpretation, run_plans
from lapis.relational.query_plan import QueryPlan, list_answer_rows


@dataclass(frozen=True)
class GroundedWorld:
    """The predicates' atoms; their relations are added to `relations` on first use.

    A predicate without an entry in `atoms` is derived and undecided: all its atoms are unknown.
    """

    domains: Mapping[str, Domain]
    types: Mapping[str, tuple[str, ...]]  # of each base and derived predicate's arguments
    atoms: dict[str, PredicateAtoms]
    max_memory: int  # bytes that the rows of a query may take
    relations: dict[str, Extension] = field(default_factory=dict)
    _created: dict[tuple[str, str], str | None] = field(default_factory=dict)
    _number: itertools.count[int] = field(default_factory=itertools.count)

    def atom_numbers(self, predicate: str) -> PredicateAtoms | None:
        return self.atoms.get(predicate)

    def known_atom(
        self, predicate: str, kind: str, terms: tuple[SimpleTerm, ...]
    ) -> RelationAtom | None:
        """Return an atom of the relation of some tuples of a predicate; None if there are none.

        `kind` is true, false, unknown, possible (true or unknown) or known (true or false).
        """
        key = (predicate, kind)
        if key not in self._created:
            rows = self._rows(self.atoms[predicate], kind)
            types = self.types[predicate]
            self._created[key] = self.add_rows(rows, types) if len(rows) else None
        name = self._created[key]
        return None if name is None else RelationAtom(name, terms)

    def add_rows(self, rows: np.ndarray, types: tuple[str, ...]) -> str:
        """Add a relation of these distinct rows and return its name."""
        name = f"relation {next(self._number)}"
        self.relations[name] = Extension(types, rows)
        return name

    def fetch(self, plan: QueryPlan) -> Factor:
        """Run a plan; return its rows and their counts, sorted by the kept variables."""
        world = Interpretation(self.domains, self.relations)
        [answers] = run_plans([plan], world, self.max_memory)
        return list_answer_rows(plan, answers)

    def _rows(self, atoms: PredicateAtoms, kind: str) -> np.ndarray:
        match kind:
            case "true":
                return atoms.true
            case "false":
                return atoms.false
            case "unknown":
                return atoms.unknown
            case "possible":
                return np.concatenate((atoms.true, atoms.unknown))
            case _:
                return np.concatenate((atoms.true, atoms.false))


class DerivedReference(NamedTuple):
    """A column of literals over a derived predicate, as codes of its tuples."""

    predicate: str
    positive: bool
    code: np.ndarray  # int64[num_rows]


class ClauseRows(NamedTuple):
    """Ground clauses: the disjunction of the base literals and of the referenced atoms."""

    literal: np.ndarray  # int32[num_rows, num_base_literals], 0 where evidence dropped it
    references: tuple[DerivedReference, ...]
    multiplicity: np.ndarray  # float64[num_rows], groundings that became this row
    answer: Factor  # the assignments of the query's kept variables, one for each row


def fetch_rows(query: GroundingQuery, world: GroundedWorld) -> ClauseRows:
    """Run a query and look up the numbers of its atoms."""
    answer = world.fetch(query.plan)
    base = [literal for literal in query.literals if literal.predicate in world.atoms]
    matrix = np.empty((len(answer), len(base)), np.int32)
    for position, literal in enumerate(base):
        codes = _pack_terms(literal.terms, world.types[literal.predicate], answer, world)
        signed = world.atoms[literal.predicate].literal(codes)
        matrix[:, position] = signed if literal.positive else -signed
    references = tuple(
        DerivedReference(
            literal.predicate,
            literal.positive,
            _pack_terms(literal.terms, world.types[literal.predicate], answer, world),
        )
        for literal in query.literals
        if literal.predicate not in world.atoms
    )
    return ClauseRows(matrix, references, answer.value.astype(np.float64), answer)


def variable_codes(
    variables: Sequence[TypedVariable], query: GroundingQuery, answer: Factor, world: GroundedWorld
) -> np.ndarray:
    """Return int64[num_rows], the packed values of some variables of the template."""
    terms = tuple(query.stands_for[name] for name, _ in variables)
    return _pack_terms(terms, [type_name for _, type_name in variables], answer, world)


def expect_packable(predicate: str, sizes: Sequence[int]) -> None:
    if not fits(sizes):
        raise TooLarge(
            f"the quantified part '{predicate}' has more than 2^62 instances",
            code="too-large",
            hint="split the formula so that its quantified part has fewer free variables",
        )


def _pack_terms(
    terms: Sequence[SimpleTerm], types: Sequence[str], answer: Factor, world: GroundedWorld
) -> np.ndarray:
    """Return int64[num_rows], the packed values of terms of these types."""
    domains = [world.domains[type_name] for type_name in types]
    columns = [
        answer.column(term.name)
        if isinstance(term, Variable)
        else np.full(len(answer), domain.index[term.name], np.int32)
        for term, domain in zip(terms, domains, strict=True)
    ]
    return pack(columns, list(map(len, domains)), len(answer))


def reference_codes(rows: Sequence[ClauseRows], predicate: str) -> Iterator[np.ndarray]:
    for block in rows:
        for reference in block.references:
            if reference.predicate == predicate:
                yield reference.code
