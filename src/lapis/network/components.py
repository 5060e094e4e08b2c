"""Passes over all clauses of a network: its connected components, and the clauses of each atom.

Connected components (atoms that share a clause or a block) are found by union–find. Roots are the
smallest atoms of their trees and finds halve paths, so one pass over the clauses and blocks and
one over the atoms suffice. Components are numbered by their smallest atom. The clauses in which
each atom occurs are the transpose of the clauses' literals, by counting sort.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lapis.runtime.kernels import allocating_entry, allocating_inner, inner

if TYPE_CHECKING:
    from lapis.network.network import Network


def connected_components(network: Network) -> np.ndarray:
    """int32[num_atoms], the component of each atom."""
    return _components(
        network.num_atoms,
        network.clause_start,
        np.abs(network.literal) - 1,
        network.block_start,
        network.block_atom,
    )


@allocating_entry
def _components(num_atoms, clause_start, clause_atom, block_start, block_atom):  # type: ignore[no-untyped-def]
    root = np.arange(num_atoms).astype(np.int32)
    _link_rows(root, clause_start, clause_atom)
    _link_rows(root, block_start, block_atom)
    return _number(root)


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
    return _number(root)


@allocating_inner
def _number(root):  # type: ignore[no-untyped-def]
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
    """int64[num_atoms + 1] and int32[num_literals]: clause + 1, negative if negated there."""
    atom_start, atom_clause = _index(clause_start, literal, num_atoms)
    return atom_start, atom_clause


@allocating_entry
def _index(clause_start, literal, num_atoms):  # type: ignore[no-untyped-def]
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
