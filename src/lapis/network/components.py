"""Connected components: atoms that share a clause or a block, by union–find.

Roots are the smallest atoms of their trees and finds halve paths, so one pass over the clauses
and blocks and one over the atoms suffice. Components are numbered by their smallest atom.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from lapis.network.network import Network


def connected_components(network: Network) -> np.ndarray:
    """int32[num_atoms], the component of each atom."""
    labels: np.ndarray = _components(
        network.num_atoms,
        network.clause_start,
        np.abs(network.literal) - 1,
        network.block_start,
        network.block_atom,
    )
    return labels


@njit(cache=True)
def _components(num_atoms, clause_start, clause_atom, block_start, block_atom):  # type: ignore[no-untyped-def]
    root = np.arange(num_atoms).astype(np.int32)
    _link_rows(root, clause_start, clause_atom)
    _link_rows(root, block_start, block_atom)
    label = np.empty(num_atoms, np.int32)
    count = 0
    for atom in range(num_atoms):
        top = _find(root, atom)
        if top == atom:
            label[atom] = count
            count += 1
        else:
            label[atom] = label[top]
    return label


@njit(cache=True)
def _link_rows(root, start, member):  # type: ignore[no-untyped-def]
    for row in range(len(start) - 1):
        for at in range(start[row] + 1, start[row + 1]):
            one, other = _find(root, member[start[row]]), _find(root, member[at])
            if one < other:
                root[other] = one
            else:
                root[one] = other


@njit(cache=True)
def _find(root, atom):  # type: ignore[no-untyped-def]
    while root[atom] != atom:
        root[atom] = root[root[atom]]
        atom = root[atom]
    return atom
