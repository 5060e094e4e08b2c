"""Answers of queries as rows of literals, before references to derived atoms are resolved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from lapis.data.keys import fits, pack
from lapis.errors import TooLarge
from lapis.grounding.known_relations import GroundedWorld
from lapis.grounding.templates import GroundLiteral, Query
from lapis.relational.join_plan import Bindings, Column


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
    bindings: Bindings


def fetch_rows(query: Query, world: GroundedWorld) -> Rows:
    """Run a query and look its atoms up."""
    bindings = _sum_terms(query, world)
    base = [literal for literal in query.literals if literal.predicate in world.atoms]
    matrix = np.empty((len(bindings), len(base)), np.int32)
    for position, literal in enumerate(base):
        signed = world.atoms[literal.predicate].literal(_codes(literal, bindings, world))
        matrix[:, position] = signed if literal.positive else -signed
    references = tuple(
        Reference(literal.predicate, literal.positive, _codes(literal, bindings, world))
        for literal in query.literals
        if literal.predicate not in world.atoms
    )
    return Rows(matrix, references, bindings.count, bindings)


def variable_codes(
    names: Sequence[str], sizes: Sequence[int], query: Query, bindings: Bindings
) -> np.ndarray:
    """int64[num_rows], the packed values of some variables of the template."""
    columns = [bindings.columns[query.representative[name]] for name in names]
    return pack(columns, sizes, len(bindings))


def expect_packable(predicate: str, sizes: Sequence[int]) -> None:
    if not fits(sizes):
        raise TooLarge(
            f"the quantified part '{predicate}' has more than 2^62 instances",
            code="too-large",
            hint="split the formula so that fewer variables reach into its quantifier",
        )


def _codes(literal: GroundLiteral, bindings: Bindings, world: GroundedWorld) -> np.ndarray:
    sizes = [len(world.domains[name]) for name in world.types[literal.predicate]]
    length = len(bindings)

    def column(entry: Column) -> np.ndarray:
        if isinstance(entry, str):
            return bindings.columns[entry]
        return np.full(length, entry, np.int32)

    return pack([column(entry) for entry in literal.columns], sizes, length)


def _sum_terms(query: Query, world: GroundedWorld) -> Bindings:
    if len(query.terms) == 1 and query.terms[0][0] == 1:
        return world.engine.fetch(query.terms[0][1])
    outputs = query.terms[0][1].outputs
    sizes = [query.terms[0][1].size[name] for name in outputs]
    answers = [(sign, world.engine.fetch(plan)) for sign, plan in query.terms]
    count = np.concatenate([sign * answer.count for sign, answer in answers])
    columns = [np.concatenate([answer.columns[name] for _, answer in answers]) for name in outputs]
    code = pack(columns, sizes, len(count))
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    total = np.bincount(inverse, weights=count, minlength=len(first))
    first, total = first[total > 0], total[total > 0]
    return Bindings(
        {name: column[first] for name, column in zip(outputs, columns, strict=True)}, total
    )


def reference_codes(rows: Sequence[Rows], predicate: str) -> Iterator[np.ndarray]:
    for block in rows:
        for reference in block.references:
            if reference.predicate == predicate:
                yield reference.code
