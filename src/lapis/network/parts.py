"""Parts of a network as networks: some of its atoms, some of its clauses, and new ones.

Auxiliary atoms stay defined while every atom of their definition stays. One that has lost an
atom is no longer determined by the others and becomes a base atom: it follows the base atoms in
the new numbering, before the auxiliary ones. Its hard clauses stay as they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lapis.network.csr import row_starts, row_sums, take_rows
from lapis.network.network import AtomTable, Network


class Rows(NamedTuple):
    """Clauses over the atoms of the whole network."""

    start: np.ndarray  # int64[num_rows + 1]
    literal: np.ndarray  # int32[...]
    weight_id: np.ndarray  # int32[num_rows]
    coefficient: np.ndarray  # float64[num_rows]


class Subnetwork(NamedTuple):
    network: Network
    atom: np.ndarray  # int64[num_atoms of the part], the atom of the whole that each one is


def keep_part(network: Network, kept: np.ndarray) -> Subnetwork:
    """Whole components, given by their atoms bool[num_atoms], without the constant counts."""
    clauses = np.flatnonzero(kept[network.first_atom])
    part = build_part(network, kept, clause_rows(network, clauses))
    nothing = np.zeros(len(network.weights))
    return part._replace(network=replace(part.network, constant_count=nothing))


def fix_atoms(network: Network, value: np.ndarray) -> Subnetwork:
    """The open atoms, −1 in int8[num_atoms], with what values 0 and 1 leave of the clauses.

    Blocks are open as a whole or not at all. Scores of the part are without what is decided.
    """
    atom = np.abs(network.literal) - 1
    is_open = value[atom] < 0
    holds = value[atom] == (network.literal > 0)
    length = row_sums(network.clause_start, is_open)
    is_true = row_sums(network.clause_start, holds) > 0
    kept = ~is_true & ((length > 0) | (network.weight_id < 0))
    in_kept = np.repeat(kept, np.diff(network.clause_start))
    rows = Rows(
        row_starts(length[kept]),
        network.literal[is_open & in_kept],
        network.weight_id[kept],
        network.coefficient[kept],
    )
    return build_part(network, value < 0, rows)


def clause_rows(network: Network, clauses: np.ndarray) -> Rows:
    start, literal = take_rows(network.clause_start, network.literal, clauses)
    return Rows(start, literal, network.weight_id[clauses], network.coefficient[clauses])


def build_part(network: Network, kept: np.ndarray, rows: Rows) -> Subnetwork:
    """The network of the kept atoms, bool[num_atoms], whole blocks each, with these clauses."""
    is_defined = still_defined(network, kept)
    table, atom, num_base = atom_table(network, kept, is_defined)
    number = np.zeros(network.num_atoms + 1, np.int32)  # literal → literal, by its absolute value
    number[atom + 1] = np.arange(1, len(atom) + 1)

    def renumber(literal: np.ndarray) -> np.ndarray:
        renamed: np.ndarray = np.sign(literal) * number[np.abs(literal)]
        return renamed.astype(np.int32)

    blocks = np.flatnonzero(kept[network.block_atom[network.block_start[:-1]]])
    block_start, block_atom = take_rows(network.block_start, network.block_atom, blocks)
    definitions = atom[num_base:] - network.num_base_atoms
    definition_start, definition_literal = take_rows(
        network.definition_start, network.definition_literal, definitions
    )
    part = replace(
        network,
        atoms=table,
        num_base_atoms=num_base,
        clause_start=rows.start,
        literal=renumber(rows.literal),
        weight_id=rows.weight_id.astype(np.int32),
        coefficient=rows.coefficient,
        block_start=block_start,
        block_atom=number[block_atom + 1] - 1,
        block_exact=network.block_exact[blocks],
        definition_start=definition_start,
        definition_literal=renumber(definition_literal),
    )
    return Subnetwork(part, atom)


def still_defined(network: Network, kept: np.ndarray) -> np.ndarray:
    """bool[num_atoms], the kept auxiliary atoms whose definition is kept."""
    lost = ~kept[np.abs(network.definition_literal) - 1]
    whole = row_sums(network.definition_start, lost) == 0
    defined = np.zeros(network.num_atoms, bool)
    defined[network.num_base_atoms :] = whole & kept[network.num_base_atoms :]
    return defined


def atom_table(
    network: Network, kept: np.ndarray, is_defined: np.ndarray
) -> tuple[AtomTable, np.ndarray, int]:
    """The new numbering: kept base atoms, auxiliary atoms no longer defined, defined ones."""
    names: list[str] = []
    tuples: list[np.ndarray] = []
    atoms: list[np.ndarray] = [np.empty(0, np.int64)]
    is_auxiliary = np.arange(network.num_atoms) >= network.num_base_atoms
    groups = (~is_auxiliary, is_auxiliary & ~is_defined, is_defined)
    num_base = 0
    for number, group in enumerate(groups):
        for index, predicate in enumerate(network.atoms.predicates):
            first, last = network.atoms.offset[index : index + 2]
            chosen = np.flatnonzero((kept & group)[first:last])
            if len(chosen):
                names.append(predicate)
                tuples.append(network.atoms.tuples[index][chosen])
                atoms.append(chosen + first)
                num_base += len(chosen) if number < 2 else 0
    offset = row_starts(np.array([len(rows) for rows in tuples], np.int64))
    return AtomTable(tuple(names), offset, tuple(tuples)), np.concatenate(atoms), num_base
