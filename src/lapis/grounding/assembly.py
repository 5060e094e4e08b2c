"""Rows of literals → the flat arrays of a Network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lapis.grounding.atoms import PredicateAtoms, atom_table
from lapis.grounding.auxiliary import definition_clauses, keep_used
from lapis.grounding.blocks import network_blocks
from lapis.grounding.definitions import Auxiliaries
from lapis.language.model import Predicate
from lapis.network.csr import row_starts
from lapis.network.merge import TAUTOLOGY, MergedRows, merge_rows
from lapis.network.network import Network
from lapis.problem.problem import Problem

HARD = -1


class FlatRows(NamedTuple):
    """Ground clauses with their weights, not merged yet."""

    length: np.ndarray  # int64[num_rows], entries of each row in
    literal: np.ndarray  # int32[...], 0 for nothing
    weight_id: np.ndarray  # int32[num_rows], HARD or the id
    multiplicity: np.ndarray  # float64[num_rows], groundings that became this row

    def take(self, kept: np.ndarray) -> FlatRows:
        """The rows kept, bool[num_rows]."""
        literal = self.literal[np.repeat(kept, self.length)]
        return FlatRows(self.length[kept], literal, self.weight_id[kept], self.multiplicity[kept])


class Assembled(NamedTuple):
    network: Network
    clause_of_row: np.ndarray  # int32[num_rows], the clause of each row, or TAUTOLOGY or EMPTY


def concatenate_rows(parts: Sequence[FlatRows]) -> FlatRows:
    parts = [part for part in parts if len(part.length)]
    if len(parts) == 1:
        return parts[0]
    return FlatRows(
        np.concatenate([np.empty(0, np.int64), *(part.length for part in parts)]),
        np.concatenate([np.empty(0, np.int32), *(part.literal for part in parts)]),
        np.concatenate([np.empty(0, np.int32), *(part.weight_id for part in parts)]),
        np.concatenate([np.empty(0), *(part.multiplicity for part in parts)]),
    )


def weigh(rows: FlatRows, num_weights: int, chosen: np.ndarray | None = None) -> np.ndarray:
    """float64[num_weights], the counts of the chosen rows, or of all, added up by weight."""
    weight_id, count = rows.weight_id, rows.multiplicity
    if chosen is not None:
        index = np.flatnonzero(chosen)
        weight_id, count = weight_id[index], count[index]
    sums = np.bincount(weight_id - HARD, weights=count, minlength=num_weights + 1)[1:]
    return sums.astype(np.float64, copy=False)  # numpy makes integers of nothing


def total_counts(problem: Problem) -> np.ndarray:
    """float64[num_weights], what each weight would count if every clause were true: since J
    clauses come with a constant 1 − J, the groundings of its formula."""
    table = problem.weight_table
    total = np.zeros(len(table.value))
    offset = table.offset.tolist()
    for feature in problem.normal_form.features:
        first, last = offset[feature.rule], offset[feature.rule + 1]
        if last > first:
            groundings = problem.num_groundings(feature.variables) // (last - first)
            total[first:last] += (feature.constant + len(feature.clauses)) * groundings
    return total


def decided_counts(problem: Problem, rows: FlatRows) -> np.ndarray:
    """float64[num_weights], what evidence alone makes true: all but the rows that survive it."""
    total = total_counts(problem)
    return total - weigh(rows, len(total))


def signatures(problem: Problem) -> Mapping[str, Predicate]:
    """Base and derived predicates by name."""
    derived = {d.predicate.name: d.predicate for d in problem.normal_form.definitions}
    return {**problem.model.predicates, **derived}


def assemble(
    problem: Problem,
    base: Mapping[str, PredicateAtoms],
    auxiliaries: Auxiliaries,
    rows: FlatRows,
    constant_count: np.ndarray,
    distinct: np.ndarray | None = None,
) -> Assembled:
    """Merge rows and add what definitions and blocks require.

    `constant_count` holds what is counted apart from the rows; rows that turn out to be true in
    every world are added to it here, and rows without literals count for nothing. `distinct`,
    bool[num_weights], marks weights no two of whose rows are equal.
    """
    atoms = atom_table(base)
    num_base_atoms = len(atoms)
    literal, definition_start = rows.literal, np.zeros(1, np.int64)
    definition_literal = np.empty(0, np.int32)
    if auxiliaries.count:
        used = keep_used(auxiliaries, atoms, literal)
        atoms, literal = used.atoms, used.literal
        definition_start, definition_literal = used.definition_start, used.definition_literal
    rows = rows._replace(literal=literal)
    definitions = num_base_atoms, definition_start, definition_literal
    merged = merge_clauses(rows, definitions, distinct)
    blocks = network_blocks(problem, base)
    network = Network(
        atoms=atoms,
        num_base_atoms=num_base_atoms,
        clause_start=merged.start,
        literal=merged.literal,
        weight_id=merged.weight_id,
        coefficient=merged.coefficient,
        weights=problem.weight_table.value.copy(),
        constant_count=constant_count
        + weigh(rows, len(constant_count), merged.merged == TAUTOLOGY),
        block_start=blocks.start,
        block_atom=blocks.atom,
        block_exact=blocks.exact,
        definition_start=definition_start,
        definition_literal=definition_literal,
        domains=problem.domains,
        signatures=signatures(problem),
    )
    return Assembled(network, merged.merged)


def merge_clauses(
    rows: FlatRows,
    definitions: tuple[int, np.ndarray, np.ndarray],
    distinct: np.ndarray | None = None,
) -> MergedRows:
    """Rows and the hard clauses of definitions, equal ones merged; `merged` is of the rows.

    `definitions` are the first auxiliary atom and, as CSR, what each of them is defined by.
    """
    start, literal = definition_clauses(*definitions)
    num_hard = len(start) - 1
    merged = merge_rows(
        row_starts(np.concatenate((rows.length, np.diff(start)))),
        np.concatenate((rows.literal, literal)),
        np.concatenate((rows.weight_id, np.full(num_hard, HARD, np.int32))),
        np.concatenate((rows.multiplicity, np.ones(num_hard))),
        distinct,
    )
    return merged._replace(
        coefficient=np.where(merged.weight_id == HARD, 1.0, merged.coefficient),
        merged=merged.merged[: len(rows.length)],
    )
