"""Which clauses an atom occurs in: the transpose of the clauses' literals, by counting sort."""

from __future__ import annotations

import numpy as np

from lapis.runtime.kernels import allocating_entry


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
