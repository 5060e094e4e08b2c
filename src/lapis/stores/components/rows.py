"""A ground network as rows of numbers, and the network of a parcel's rows.

On an engine there is no array that numbers the atoms. An atom is the number that its predicate and
arguments determine. A row is a ground clause, a block or a definition:

    weight   the weight id of a clause, or HARD, AT_MOST_ONE, EXACTLY_ONE, DEFINITION
    piece    −1 for a whole row; rows of equal weight and piece are parts of one long row
    n        the number of groundings with this row
    l0, l1…  literals, atom + 1, negative if negated, 0 for none

The piece of a block is its smallest atom. The piece of a definition is the auxiliary atom that it
defines. Its number is larger than those of the user's atoms and of the atoms in its definition. Its
hard clauses are added here. All columns are numbers, which every engine stores and transfers.

The network of a parcel does not depend on the order of its rows: they are sorted first. So all
engines give the same network, and a component has the same numbers in any parcel.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lapis.grounding.assembly import HARD, FlatRows, merge_with_definitions, sum_multiplicities
from lapis.network.csr import row_starts
from lapis.network.merge import TAUTOLOGY
from lapis.network.network import AtomTable, Network
from lapis.stores.grounding.stored_atoms import AT_MOST_ONE, DEFINITION, EXACTLY_ONE
from lapis.stores.store import Columns


class ParcelRows(NamedTuple):
    """Rows of whole components, in any order."""

    weight: np.ndarray  # int64[num_rows]
    piece: np.ndarray  # int64[num_rows]
    multiplicity: np.ndarray  # float64[num_rows]
    literal: np.ndarray  # int64[num_rows, width]

    def take(self, chosen: np.ndarray) -> ParcelRows:
        return ParcelRows(*(column[chosen] for column in self))


class ParcelNetwork(NamedTuple):
    """A network over local numbers, and their numbers on the engine."""

    network: Network  # the tuple of an atom is its index in `atom`
    atom: np.ndarray  # int64[num_atoms], sorted
    weight: np.ndarray  # int64[num_weights], sorted


def read_columns(columns: Columns) -> ParcelRows:
    """Convert the columns of a table to rows."""
    width = sum(name[0] == "l" and name[1:].isdigit() for name in columns)
    literal = np.stack([columns[f"l{place}"] for place in range(width)], axis=1)
    return ParcelRows(
        columns["weight"].astype(np.int64),
        columns["piece"].astype(np.int64),
        columns["n"].astype(np.float64),
        literal.astype(np.int64),
    )


def build_network(rows: ParcelRows, weights: np.ndarray) -> ParcelNetwork:
    """Build the network of a parcel; `weights`, float64[...], are all weights of the model."""
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
        atoms=local_atom_table(num_base_atoms, definition_start, definition_literal),
        num_base_atoms=num_base_atoms,
        clause_start=merged.start,
        literal=merged.literal,
        weight_id=merged.weight_id,
        coefficient=merged.coefficient,
        weights=weights[weight],
        constant_count=sum_multiplicities(found, len(weight), merged.merged == TAUTOLOGY),
        block_start=row_starts(length[blocks]),
        block_atom=flat[np.repeat(blocks, length)] - 1,
        block_exact=kind[blocks] == EXACTLY_ONE,
        definition_start=definition_start,
        definition_literal=definition_literal,
    )
    return ParcelNetwork(network, atom, weight)


def join_pieces(rows: ParcelRows, literal: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return CSR (start, literal) of sorted rows with their pieces joined, and each first piece.

    Literals 0 are left out.
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


def local_atom_table(num_base: int, start: np.ndarray, literal: np.ndarray) -> AtomTable:
    """Return a table of atoms named by index. Definitions in a group use only earlier groups.

    `start`, `literal`: CSR of the definitions of auxiliary atoms, which come last.
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
