"""A ground network as rows of numbers, and a parcel of them as a network again.

On an engine there is no array to number atoms by. An atom is the number that its predicate and
arguments spell, a row is a ground clause, a block or a definition:

    weight   what the row is: the number of a weight, HARD, AT_MOST_ONE, EXACTLY_ONE or DEFINITION
    piece    −1 for a row that is whole; rows of one kind and equal pieces are one long row
    n        how many groundings became this row
    l0, l1…  literals, atom + 1, negative if negated, 0 for nothing

A block's piece is its smallest atom, a definition's the auxiliary atom that it defines. All columns
are numbers, so that every engine stores and ships them without a word about arrays.

A parcel is rows of whole components. What it becomes does not depend on the order in which an
engine delivers rows: they are sorted first, so that all engines give the same network, and the same
component is numbered alike in whatever parcel it comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from lapis.network.csr import row_starts
from lapis.network.merge import TAUTOLOGY, merge_rows
from lapis.network.network import AtomTable, Network

HARD, AT_MOST_ONE, EXACTLY_ONE, DEFINITION = -1, -2, -3, -4
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
    merged = merge_rows(
        row_starts(length[clauses]),
        flat[np.repeat(clauses, length)],
        weight_id[clauses],
        times[clauses],
    )
    always = np.flatnonzero(clauses)[(merged.merged == TAUTOLOGY) & (weight_id[clauses] >= 0)]
    blocks = (kind == AT_MOST_ONE) | (kind == EXACTLY_ONE)
    definitions = kind == DEFINITION
    own = np.zeros(len(atom), bool)
    own[np.searchsorted(atom, defined)] = True
    network = Network(
        atoms=atom_table(own),
        num_base_atoms=int((~own).sum()),
        clause_start=merged.start,
        literal=merged.literal,
        weight_id=merged.weight_id,
        coefficient=np.where(merged.weight_id == HARD, 1.0, merged.coefficient),
        weights=weights[weight],
        constant_count=np.bincount(weight_id[always], times[always], len(weight)).astype(float),
        block_start=row_starts(length[blocks]),
        block_atom=flat[np.repeat(blocks, length)] - 1,
        block_exact=kind[blocks] == EXACTLY_ONE,
        definition_start=row_starts(length[definitions]),
        definition_literal=flat[np.repeat(definitions, length)],
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


def atom_table(auxiliary: np.ndarray) -> AtomTable:
    """Atoms named by their places; auxiliary ones, bool[num_atoms], come last."""
    place = np.arange(len(auxiliary), dtype=np.int32)[:, None]
    groups = {"atom": place[~auxiliary], "auxiliary": place[auxiliary]}
    kept = {name: tuples for name, tuples in groups.items() if len(tuples)}
    offset = row_starts(np.array([len(tuples) for tuples in kept.values()], np.int64))
    return AtomTable(tuple(kept), offset, tuple(kept.values()))


def write_columns(network: Network, width: int) -> dict[str, np.ndarray]:
    """A network as columns of such rows, long ones in pieces of `width` literals."""
    start, literal = network.clause_start, network.literal.astype(np.int64)
    blocks, members = network.block_start, network.block_atom.astype(np.int64)
    definitions, others = network.definition_start, network.definition_literal.astype(np.int64)
    first_atom = np.minimum.reduceat(members, blocks[:-1]) if len(members) else members
    auxiliary = network.num_base_atoms + np.arange(len(definitions) - 1)
    block_kind = np.where(network.block_exact, EXACTLY_ONE, AT_MOST_ONE)
    defined = np.full(len(auxiliary), DEFINITION)
    numbers = np.arange(network.num_clauses)
    parts = [
        cut_rows(start, literal, network.weight_id, numbers, network.coefficient, width),
        cut_rows(blocks, members + 1, block_kind, first_atom, np.ones(len(first_atom)), width),
        cut_rows(definitions, others, defined, auxiliary, np.ones(len(auxiliary)), width),
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def cut_rows(
    start: np.ndarray,
    literal: np.ndarray,
    weight: np.ndarray,
    piece: np.ndarray,
    times: np.ndarray,
    width: int,
) -> dict[str, np.ndarray]:
    """Rows of any length as pieces of `width` literals."""
    length = np.diff(start)
    pieces = -(-length // width)
    row = np.repeat(np.arange(len(length)), pieces)
    begin = np.repeat(start[:-1], pieces)
    begin += width * (np.arange(len(row)) - np.repeat(row_starts(pieces)[:-1], pieces))
    at = begin[:, None] + np.arange(width)
    inside = at < start[row + 1][:, None]
    table = np.zeros(at.shape, np.int64)
    table[inside] = literal[at[inside]]
    whole = (pieces == 1) & (weight >= HARD)
    columns = {
        "weight": weight.astype(np.int64)[row],
        "piece": np.where(whole, -1, piece)[row].astype(np.int64),
        "n": times.astype(np.float64)[row],
    }
    return columns | {f"l{place}": table[:, place] for place in range(width)}
