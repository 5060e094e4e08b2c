"""What MAP methods maximise: a network's clauses with their effective weights, merged.

A clause's effective weight is weights[weight_id]·coefficient. Clauses with the same literals are
one; those with weight 0 are none. Hard clauses keep weight +inf.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lapis.grounding.network import Network


@dataclass(frozen=True)
class Objective:
    """Maximise offset + Σ weight·1[clause true] subject to hard clauses and blocks."""

    num_atoms: int
    clause_start: np.ndarray  # int64[num_clauses + 1]
    literal: np.ndarray  # int32[num_literals], atom + 1, negative if negated
    weight: np.ndarray  # float64[num_clauses], +inf where hard
    block_start: np.ndarray  # int64[num_blocks + 1]
    block_atom: np.ndarray  # int32[...]
    block_exact: np.ndarray  # bool[num_blocks]
    offset: float

    @property
    def num_clauses(self) -> int:
        return len(self.weight)

    @property
    def hard(self) -> np.ndarray:
        return np.isinf(self.weight)

    def is_satisfied(self, world: np.ndarray) -> np.ndarray:
        """bool[num_clauses], for a world bool[num_atoms]."""
        holds = world[np.abs(self.literal) - 1] == (self.literal > 0)
        if not len(holds):
            return np.zeros(self.num_clauses, dtype=bool)
        return np.logical_or.reduceat(holds, self.clause_start[:-1])

    def score(self, world: np.ndarray) -> float:
        """offset + Σ weight over true soft clauses; −inf where a hard one or a block fails."""
        satisfied = self.is_satisfied(world)
        if not satisfied[self.hard].all():
            return -np.inf
        inside = np.concatenate(([0], np.cumsum(world[self.block_atom])))
        true = np.diff(inside[self.block_start])
        if (true > 1).any() or (true[self.block_exact] != 1).any():
            return -np.inf
        soft = ~self.hard
        return self.offset + float(self.weight[soft] @ satisfied[soft])


def objective_of(network: Network) -> Objective:
    """Effective weights of a network, equal clauses merged."""
    hard = network.weight_id < 0
    weight = np.where(
        hard, np.inf, network.weights[np.where(hard, 0, network.weight_id)] * network.coefficient
    ) if len(network.weights) else np.full(network.num_clauses, np.inf)
    start, literal, weight = merge_clauses(network.clause_start, network.literal, weight)
    return Objective(
        network.num_atoms,
        start,
        literal,
        weight,
        network.block_start,
        network.block_atom,
        network.block_exact,
        network.constant_score,
    )


def merge_clauses(
    start: np.ndarray, literal: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Add the weights of clauses with the same literals; drop those with weight 0."""
    length = np.diff(start)
    pieces: list[tuple[np.ndarray, np.ndarray]] = []
    for size in np.unique(length):
        chosen = np.flatnonzero(length == size)
        rows = np.sort(literal[start[chosen][:, None] + np.arange(size)], axis=1)
        unique, inverse = np.unique(rows, axis=0, return_inverse=True)
        total = np.bincount(inverse.reshape(-1), weight[chosen], len(unique))
        kept = total != 0
        pieces.append((unique[kept], total[kept]))
    lengths = [np.full(len(rows), rows.shape[1]) for rows, _ in pieces]
    new_start = np.concatenate([[0], np.cumsum(np.concatenate([*lengths, []]))]).astype(np.int64)
    literals = [rows.reshape(-1) for rows, _ in pieces]
    return (
        new_start,
        np.concatenate([*literals, np.empty(0, np.int32)]).astype(np.int32),
        np.concatenate([*(total for _, total in pieces), np.empty(0)]),
    )
