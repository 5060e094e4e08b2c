"""Answers of queries as rows of literals, before references to derived atoms are resolved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from lapis.data.keys import fits, pack
from lapis.errors import TooLarge
from lapis.grounding.known_relations import GroundedWorld
from lapis.grounding.templates import Query
from lapis.language.syntax import Variable
from lapis.logic.clauses import SimpleTerm, TypedVariable
from lapis.relational.factor import Factor


class Reference(NamedTuple):
    """A column of literals over a derived predicate, as codes of its tuples."""

    predicate: str
    positive: bool
    code: np.ndarray  # int64[num_rows]


class Rows(NamedTuple):
    """Ground clauses: the disjunction of the base literals and of the referenced atoms."""

    literal: np.ndarray  # int32[num_rows, num_base_literals], 0 where evidence dropped it
    references: tuple[Reference, ...]
    multiplicity: np.ndarray  # float64[num_rows], groundings that became this row
    answer: Factor  # the assignments of the query's kept variables that the rows come from


def fetch_rows(query: Query, world: GroundedWorld) -> Rows:
    """Run a query and look its atoms up."""
    answer = world.fetch(query.plan)
    base = [literal for literal in query.literals if literal.predicate in world.atoms]
    matrix = np.empty((len(answer), len(base)), np.int32)
    for position, literal in enumerate(base):
        codes = _codes(literal.terms, world.types[literal.predicate], answer, world)
        signed = world.atoms[literal.predicate].literal(codes)
        matrix[:, position] = signed if literal.positive else -signed
    references = tuple(
        Reference(
            literal.predicate,
            literal.positive,
            _codes(literal.terms, world.types[literal.predicate], answer, world),
        )
        for literal in query.literals
        if literal.predicate not in world.atoms
    )
    return Rows(matrix, references, answer.value.astype(np.float64), answer)


def variable_codes(
    variables: Sequence[TypedVariable], query: Query, answer: Factor, world: GroundedWorld
) -> np.ndarray:
    """int64[num_rows], the packed values of some variables of the template."""
    terms = tuple(query.stands_for[name] for name, _ in variables)
    return _codes(terms, [type_name for _, type_name in variables], answer, world)


def expect_packable(predicate: str, sizes: Sequence[int]) -> None:
    if not fits(sizes):
        raise TooLarge(
            f"the quantified part '{predicate}' has more than 2^62 instances",
            code="too-large",
            hint="split the formula so that fewer variables reach into its quantifier",
        )


def _codes(
    terms: Sequence[SimpleTerm], types: Sequence[str], answer: Factor, world: GroundedWorld
) -> np.ndarray:
    """int64[num_rows], the packed values of terms of these types."""
    domains = [world.domains[type_name] for type_name in types]
    columns = [
        answer.column(term.name)
        if isinstance(term, Variable)
        else np.full(len(answer), domain.index[term.name], np.int32)
        for term, domain in zip(terms, domains, strict=True)
    ]
    return pack(columns, list(map(len, domains)), len(answer))


def reference_codes(rows: Sequence[Rows], predicate: str) -> Iterator[np.ndarray]:
    for block in rows:
        for reference in block.references:
            if reference.predicate == predicate:
                yield reference.code
