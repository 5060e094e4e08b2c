"""A ground network as rows of numbers, and a parcel of them as a network again.

On an engine there is no array to number atoms by. An atom is the number that its predicate and
arguments spell, a row is a ground clause, a block or a definition:

    weight   what the row is: the number of a weight, HARD, AT_MOST_ONE, EXACTLY_ONE or DEFINITION
    piece    −1 for a row that is whole; rows of one kind and equal pieces are one long row
    n        how many groundings became this row
    l0, l1…  literals, atom + 1, negative if negated, 0 for nothing

A block's piece is its smallest atom, a definition's the auxiliary atom that it defines, which has a
number above those of the user's atoms and of all atoms that it is defined by; the hard clauses that
make it what it is are added here. All columns are numbers, so that every engine stores and ships
them without a word about arrays.

A parcel is rows of whole components. What it becomes does not depend on the order in which an
engine delivers rows: they are sorted first, so that all engines give the same network, and the same
component is numbered alike in whatever parcel it comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lapis.grounding.assembly import HARD, FlatRows, merge_with_definitions, sum_counts
from lapis.network.csr import row_starts
from lapis.network.merge import TAUTOLOGY
from lapis.network.network import AtomTable, Network

AT_MOST_ONE, EXACTLY_ONE, DEFINITION = -2, -3, -4
Columns = Mapping[str, np.ndarray]


class ParcelRows(NamedTuple):
    """Rows of whole components, in any order."""

    weight: np.ndarray  # int64[num_rows]
    piece: np.ndarray  # int64[num_rows]
    multiplicity: np.ndarray  # float64[num_rows]
    literal: np.ndarray  # int64[num_rows, width]

    def take(self, chosen: np.ndarray) -> ParcelRows:
        return ParcelRows(*(column[chosen] for column in self))


class ParcelNetwork(NamedTuple):
    """A network over local numbers, and what they are on the engine."""

    network: Network  # the tuple of an atom is its place in `atom`
    atom: np.ndarray  # int64[num_atoms], sorted
    weight: np.ndarray  # int64[num_weights], sorted


def read_columns(columns: Columns) -> ParcelRows:
    """Rows from columns of a table."""
    width = sum(name[0] == "l" and name[1:].isdigit() for name in columns)
    literal = np.stack([columns[f"l{place}"] for place in range(width)], axis=1)
    return ParcelRows(
        columns["weight"].astype(np.int64),
        columns["piece"].astype(np.int64),
        columns["n"].astype(np.float64),
        literal.astype(np.int64),
    )


def build_network(rows: ParcelRows, weights: np.ndarray) -> ParcelNetwork:
    """The network of a parcel; `weights`, float64[...], are all weights of the model."""
    rows = rows.take(np.lexsort((*rows.literal.T[::-1], rows.piece, rows.weight)))
    used = np.abs(rows.literal[rows.literal != 0]) - 1
    defined = np.unique(rows.piece[rows.weight == DEFINITION])
    atom = np.unique(np.concatenate((used, defined)))
    weight = np.unique(rows.weight[rows.weight >= 0])
    number = np.searchsorted(atom, np.abs(rows.literal) - 1).astype(np.int32) + 1
    literal = np.where(rows.literal == 0, 0, np.sign(rows.literal) * number).astype(np.int32)
    start, flat, first = join_pieces(rows, literal)
    kind, times = rows.weight[first], rows.multiplicity[first]

    clauses = kind >= HARD
    weight_id = np.where(kind >= 0, np.searchsorted(weight, kind), HARD).astype(np.int32)
    length = np.diff(start)
    definitions = kind == DEFINITION
    definition_start = row_starts(length[definitions])
    definition_literal = flat[np.repeat(definitions, length)]
    num_base_atoms = len(atom) - len(defined)
    found = FlatRows(length, flat, weight_id, times).take(clauses)
    merged = merge_with_definitions(found, (num_base_atoms, definition_start, definition_literal))
    blocks = (kind == AT_MOST_ONE) | (kind == EXACTLY_ONE)
    network = Network(
        atoms=atom_table(num_base_atoms, definition_start, definition_literal),
        num_base_atoms=num_base_atoms,
        clause_start=merged.start,
        literal=merged.literal,
        weight_id=merged.weight_id,
        coefficient=merged.coefficient,
        weights=weights[weight],
        constant_count=sum_counts(found, len(weight), merged.merged == TAUTOLOGY),
        block_start=row_starts(length[blocks]),
        block_atom=flat[np.repeat(blocks, length)] - 1,
        block_exact=kind[blocks] == EXACTLY_ONE,
        definition_start=definition_start,
        definition_literal=definition_literal,
    )
    return ParcelNetwork(network, atom, weight)


def join_pieces(rows: ParcelRows, literal: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """CSR (start, literal) of sorted rows with their pieces joined, and the first piece of each.

    Literals 0 stand for nothing and are left out.
    """
    begins = np.ones(len(rows.weight), bool)
    begins[1:] = (
        (rows.piece[1:] < 0)
        | (rows.piece[1:] != rows.piece[:-1])
        | (rows.weight[1:] != rows.weight[:-1])
    )
    first = np.flatnonzero(begins)
    there = (literal != 0).sum(axis=1)
    length = np.add.reduceat(there, first) if len(first) else np.empty(0, np.int64)
    return row_starts(length), literal[literal != 0], first


def atom_table(num_base: int, start: np.ndarray, literal: np.ndarray) -> AtomTable:
    """Atoms named by their places, auxiliary ones last, in groups that do not refer to themselves.

    `start`, `literal`: CSR of what defines each auxiliary atom.
    """
    aux = np.abs(literal) - 1 - num_base  # below 0 for base atoms
    latest = np.maximum.reduceat(aux, start[:-1]) if len(aux) else aux
    cuts = [num_base]
    while (first := cuts[-1] - num_base) < len(latest):
        refers = np.flatnonzero(latest[first:] >= first)
        cuts.append(num_base + (first + int(refers[0]) if len(refers) else len(latest)))
    place = np.arange(cuts[-1], dtype=np.int32)[:, None]
    groups = {"atom": place[:num_base]} if num_base else {}
    for number, (first, last) in enumerate(pairwise(cuts)):
        groups[f"auxiliary {number}"] = place[first:last]
    offset = row_starts(np.array([len(tuples) for tuples in groups.values()], np.int64))
    return AtomTable(tuple(groups), offset, tuple(groups.values()))
