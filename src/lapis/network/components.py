"""Connected components of a network, and networks of some of its atoms.

Connected components (atoms that share a clause or a block) are found by union–find. Roots are the
smallest atoms of their trees and `find_root` halves paths, so one pass over the clauses and blocks
and one over the atoms suffice. Components are numbered by their smallest atom. The clauses of each
atom are the transpose of the clauses' literals, by counting sort.

A part of a network has some of its atoms and clauses. An auxiliary atom stays auxiliary if every
atom of its definition is kept. Otherwise the others no longer determine it and it becomes a base
atom, numbered after the other base atoms. Its hard clauses do not change.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lapis.network.csr import row_starts, row_sums, take_rows
from lapis.network.network import AtomTable, Network
from lapis.runtime.kernels import allocating_entry, allocating_inner, inner

if TYPE_CHECKING:
    from lapis.network.network import Network


def connected_components(network: Network) -> np.ndarray:
    """Return int32[num_atoms], the component of each atom."""
    return _label_components(
        network.num_atoms,
        network.clause_start,
        np.abs(network.literal) - 1,
        network.block_start,
        network.block_atom,
    )


@allocating_entry
def _label_components(num_atoms, clause_start, clause_atom, block_start, block_atom):  # type: ignore[no-untyped-def]
    root = np.arange(num_atoms).astype(np.int32)
    _link_rows(root, clause_start, clause_atom)
    _link_rows(root, block_start, block_atom)
    return _number_roots(root)


@inner
def _link_rows(root, start, member):  # type: ignore[no-untyped-def]
    for row in range(len(start) - 1):
        for at in range(start[row] + 1, start[row + 1]):
            one, other = find_root(root, member[start[row]]), find_root(root, member[at])
            if one < other:
                root[other] = one
            else:
                root[one] = other


@inner
def find_root(root, item):  # type: ignore[no-untyped-def]
    while root[item] != item:
        root[item] = root[root[item]]
        item = root[item]
    return item


@allocating_entry
def number_trees(root):  # type: ignore[no-untyped-def]
    """int32[len(root)], the tree of each item, where roots are the smallest items of theirs."""
    return _number_roots(root)


@allocating_inner
def _number_roots(root):  # type: ignore[no-untyped-def]
    label = np.empty(len(root), np.int32)
    count = 0
    for item in range(len(root)):
        top = find_root(root, item)
        if top == item:
            label[item] = count
            count += 1
        else:
            label[item] = label[top]
    return label


def index_atoms(
    clause_start: np.ndarray, literal: np.ndarray, num_atoms: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return (atom_start, atom_clause) as in `Network.atom_clauses`."""
    atom_start, atom_clause = _index_literals(clause_start, literal, num_atoms)
    return atom_start, atom_clause


@allocating_entry
def _index_literals(clause_start, literal, num_atoms):  # type: ignore[no-untyped-def]
    atom_start = np.zeros(num_atoms + 1, np.int64)
    for at in range(len(literal)):
        atom_start[abs(literal[at])] += 1
    for atom in range(num_atoms):
        atom_start[atom + 1] += atom_start[atom]
    place = atom_start[:-1].copy()
    atom_clause = np.empty(len(literal), np.int32)
    for clause in range(len(clause_start) - 1):
        for at in range(clause_start[clause], clause_start[clause + 1]):
            atom = abs(literal[at]) - 1
            atom_clause[place[atom]] = clause + 1 if literal[at] > 0 else -(clause + 1)
            place[atom] += 1
    return atom_start, atom_clause


class ComponentClauses(NamedTuple):
    """Clauses over the atoms of the whole network."""

    start: np.ndarray  # int64[num_rows + 1]
    literal: np.ndarray  # int32[...]
    weight_id: np.ndarray  # int32[num_rows]
    coefficient: np.ndarray  # float64[num_rows]


class Subnetwork(NamedTuple):
    network: Network
    atom: np.ndarray  # int64[num_atoms of the part], its number in the whole network


def keep_part(network: Network, kept: np.ndarray) -> Subnetwork:
    """Return the network of whole components, bool[num_atoms], without the constant counts."""
    clauses = np.flatnonzero(kept[network.first_atom])
    part = build_part(network, kept, clause_rows(network, clauses))
    nothing = np.zeros(len(network.weights))
    return part._replace(network=replace(part.network, constant_count=nothing))


def select_components(network: Network, kept: np.ndarray) -> Subnetwork:
    """Return whole components, given by their atoms bool[num_atoms]; the network itself if all.

    The network itself keeps its constant counts.
    """
    return Subnetwork(network, np.arange(len(kept))) if kept.all() else keep_part(network, kept)


def fix_atoms(network: Network, value: np.ndarray) -> Subnetwork:
    """Fix atoms to the values 0 and 1 in int8[num_atoms] and return the network of the others (−1).

    A block is open as a whole or not at all. Scores of the part omit decided clauses.
    """
    atom = np.abs(network.literal) - 1
    is_open = value[atom] < 0
    holds = value[atom] == (network.literal > 0)
    length = row_sums(network.clause_start, is_open)
    is_true = row_sums(network.clause_start, holds) > 0
    kept = ~is_true & ((length > 0) | (network.weight_id < 0))
    in_kept = np.repeat(kept, np.diff(network.clause_start))
    rows = ComponentClauses(
        row_starts(length[kept]),
        network.literal[is_open & in_kept],
        network.weight_id[kept],
        network.coefficient[kept],
    )
    return build_part(network, value < 0, rows)


def clause_rows(network: Network, clauses: np.ndarray) -> ComponentClauses:
    start, literal = take_rows(network.clause_start, network.literal, clauses)
    return ComponentClauses(
        start, literal, network.weight_id[clauses], network.coefficient[clauses]
    )


def build_part(network: Network, kept: np.ndarray, rows: ComponentClauses) -> Subnetwork:
    """Build the network of the kept atoms, bool[num_atoms], with these clauses and whole blocks."""
    is_defined = still_defined(network, kept)
    table, atom, num_base = renumber_atoms(network, kept, is_defined)
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
    """Return bool[num_atoms], the kept auxiliary atoms whose definition is kept."""
    lost = ~kept[np.abs(network.definition_literal) - 1]
    whole = row_sums(network.definition_start, lost) == 0
    defined = np.zeros(network.num_atoms, bool)
    defined[network.num_base_atoms :] = whole & kept[network.num_base_atoms :]
    return defined


def renumber_atoms(
    network: Network, kept: np.ndarray, is_defined: np.ndarray
) -> tuple[AtomTable, np.ndarray, int]:
    """Number kept base atoms, then auxiliary atoms no longer defined, then defined ones."""
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
