"""What hard clauses and blocks imply, found by assuming each literal in turn (probing).

Assuming a literal and propagating units shows which other literals must then hold: l → m says
that l and ¬m are in *conflict*. A literal whose assumption ends in a contradiction is false in
every world. The conflicts are more than the clauses with two literals say: at-most-one
constraints written with counters, or supports `u=a → v=b ∨ v=c`, hide most of theirs. Integer
programs live from them, since cliques of conflicts are rows Σ x ≤ 1 (Savelsbergh, Preprocessing
and Probing Techniques for Mixed Integer Programming Problems, 1994).

Propagation is that of the solver of `network.satisfiability`. Literals are numbered 2·atom for the
atom and 2·atom + 1 for its negation. Probing stops when its budget is spent; the conflicts found by
then hold.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.inference.map.objective import MapObjective
from lapis.network.csr import take_rows
from lapis.network.satisfiability import HardRows, load, to_clauses

MAX_IMPLIED = 1_000_000  # literals, of all probes together


class Probe(NamedTuple):
    possible: bool  # False if the hard clauses contradict each other
    value: np.ndarray  # int8[num_atoms], 1 true, 0 false in every world, −1 not known
    conflict: np.ndarray  # int32[num_conflicts, 2], literals that do not hold together


def probe(objective: MapObjective) -> Probe:
    """Forced atoms and conflicts among literals."""
    hard = np.flatnonzero(objective.hard)
    rows = HardRows(
        objective.num_atoms,
        *take_rows(objective.clause_start, objective.literal, hard),
        objective.block_start,
        objective.block_atom,
        objective.block_exact,
    )
    solver = load(to_clauses(rows).clause)
    value = np.full(objective.num_atoms, -1, np.int8)
    assumed: list[int] = []  # literals ±(atom + 1)
    implied: list[int] = []  # as many
    atoms = np.union1d(np.abs(rows.literal) - 1, rows.block_atom)
    for literal in np.column_stack((atoms + 1, -atoms - 1)).reshape(-1).tolist():
        if len(implied) > MAX_IMPLIED:
            break
        holds, found = solver.propagate([literal])
        if holds:
            assumed += [literal] * (len(found) - 1)
            implied += found[1:]
        else:
            value[abs(literal) - 1] = literal < 0
            solver.add_clause([-literal])
    conflict = np.column_stack((assumed, implied)).astype(np.int32).reshape(-1, 2)
    conflict = conflict[np.abs(conflict[:, 1]) <= objective.num_atoms]  # others are of blocks
    return Probe(solver.propagate([])[0], value, literal_code(conflict * (1, -1)))


def literal_code(literal: np.ndarray) -> np.ndarray:
    """±(atom + 1) → 2·atom, or 2·atom + 1 if negated."""
    code: np.ndarray = 2 * (np.abs(literal) - 1) + (literal < 0)
    return code.astype(np.int32)


def hard_rows(objective: MapObjective, hard: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """CSR of literal codes: the hard clauses, then one for each exactly-one block."""
    start, literal = take_rows(objective.clause_start, objective.literal, hard)
    exact = np.flatnonzero(objective.block_exact)
    block_start, block_atom = take_rows(objective.block_start, objective.block_atom, exact)
    return (
        np.concatenate((start, block_start[1:] + start[-1])),
        np.concatenate((literal_code(literal), 2 * block_atom)).astype(np.int32),
    )
