"""The score of a network as fields, couplings of pairs, and longer clauses.

Bounds are tighter if fewer terms concern the same atoms, so the soft clauses of a pair are merged
into one number. With x, y in {0, 1},

    w·[¬x ∨ ¬y] = w − w·xy              w·[x ∨ y] = w·x + w·y − w·xy
    w·[¬x ∨ y]  = w − w·x + w·xy

and the sum γ·xy of a pair is a clause ¬x ∨ ¬y of weight −γ. Longer soft clauses stay whole (their
expansion would be terms that cancel, each bounded separately), and so do hard ones. A block becomes
its hard clauses "not both" and "one of them".

Rounding errors are kept with the terms: `slack` bounds those of an atom's log-odds, `error` those
of a world's score.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.inference.sampling.clause_graph import clause_weights
from lapis.inference.sampling.cluster import sum_by_place
from lapis.network.csr import row_starts, take_rows
from lapis.network.network import Network

EPSILON = 2.0**-51  # bounds the rounding error of one operation
MAX_BLOCK = 64  # atoms; larger blocks are not written as clauses


class ScoreTerms(NamedTuple):
    """The sum score(world) = constant + Σ field over true atoms + Σ weight over true clauses."""

    field: np.ndarray  # float64[num_atoms], ±inf where a hard clause decides
    start: np.ndarray  # int64[num_clauses + 1]
    literal: np.ndarray  # int32[num_literals], atom + 1, negative if negated; two or more a clause
    weight: np.ndarray  # float64[num_clauses], +inf where hard
    constant: float
    slack: np.ndarray  # float64[num_atoms], inf where there is no bound
    error: float

    @property
    def num_atoms(self) -> int:
        return len(self.field)


class TermRows(NamedTuple):
    """Clauses of any length."""

    length: np.ndarray  # int64[num_rows]
    literal: np.ndarray  # int32[...]
    weight: np.ndarray  # float64[num_rows]


def collect_terms(network: Network, doubt: np.ndarray) -> ScoreTerms:
    """Collect the terms; `doubt`, float64[num_clauses], bounds the errors of the weights."""
    size = network.num_atoms
    weight = clause_weights(network.weights, network.weight_id, network.coefficient)
    length = np.diff(network.clause_start)
    soft = np.isfinite(weight)
    field, constant = soft_unit_fields(network, weight, np.flatnonzero(soft & (length == 1)))
    pairs, fields, more = merge_pairs(network, weight, np.flatnonzero(soft & (length == 2)))
    field += fields
    value = decided_values(network)
    constant += more + float(field[value > 0].sum())  # of atoms that are true in every world
    field[value >= 0] = np.where(value[value >= 0] > 0, np.inf, -np.inf)
    long = np.flatnonzero((length > 2) | (~soft & (length == 2)))
    start, literal = take_rows(network.clause_start, network.literal, long)
    rows = [pairs, TermRows(np.diff(start), literal, weight[long]), *block_rows(network)]
    joined = TermRows(*(np.concatenate(columns) for columns in zip(*rows, strict=True)))

    size_of_weight = np.repeat(np.where(soft, np.abs(weight), 0.0), length)
    atom = np.abs(network.literal) - 1
    degree = np.bincount(atom, minlength=size)
    slack = EPSILON * (degree + 4) * sum_by_place(atom, size_of_weight, size)
    slack += sum_by_place(atom, np.repeat(doubt, length), size)
    block = np.diff(network.block_start)
    slack[network.block_atom[np.repeat(block > MAX_BLOCK, block)]] = np.inf
    all_weights = float(np.abs(network.weights) @ np.abs(network.constant_count))
    all_weights += float(size_of_weight.sum())
    error = float(slack[np.isfinite(slack)].sum())
    error += EPSILON * (16 + len(network.weights)) * all_weights + float(doubt.sum())
    return ScoreTerms(
        field, row_starts(joined.length), joined.literal.astype(np.int32),
        joined.weight, network.constant_score + constant, slack, error,
    )  # fmt: skip


def soft_unit_fields(
    network: Network, weight: np.ndarray, unit: np.ndarray
) -> tuple[np.ndarray, float]:
    """Return the fields of soft unit clauses, w·[¬x] = w − w·x, and a constant."""
    first, own = network.literal[network.clause_start[unit]], weight[unit]
    field = sum_by_place(np.abs(first) - 1, np.where(first < 0, -own, own), network.num_atoms)
    return field, float(own[first < 0].sum())


def decided_values(network: Network) -> np.ndarray:
    """Return values fixed by hard units and blocks of one atom, int8[num_atoms]; −1: none."""
    value = np.full(network.num_atoms, -1, np.int8)
    unit = (network.weight_id < 0) & (np.diff(network.clause_start) == 1)
    first = network.literal[network.clause_start[:-1][unit]]
    value[np.abs(first) - 1] = first > 0
    lone = network.block_exact & (np.diff(network.block_start) == 1)
    value[network.block_atom[network.block_start[:-1][lone]]] = 1
    return value


def merge_pairs(
    network: Network, weight: np.ndarray, pair: np.ndarray
) -> tuple[TermRows, np.ndarray, float]:
    """Return couplings of soft clauses of two literals, their fields, and a constant."""
    size = network.num_atoms
    ends = network.literal[network.clause_start[pair][:, None] + np.arange(2)]
    ends = np.take_along_axis(ends, np.argsort(np.abs(ends), axis=1), axis=1)
    own, (one, other), up = weight[pair], (np.abs(ends) - 1).T, ends > 0
    alike = np.where(up[:, 0] == up[:, 1], own, -own)
    field = sum_by_place(one[up[:, 1]], alike[up[:, 1]], size)
    field += sum_by_place(other[up[:, 0]], alike[up[:, 0]], size)
    key, place = np.unique(one.astype(np.int64) * max(size, 1) + other, return_inverse=True)
    coupling = sum_by_place(place, alike, len(key))
    kept = coupling != 0
    both = np.stack((key[kept] // max(size, 1), key[kept] % max(size, 1)), axis=1)
    rows = TermRows(np.full(len(both), 2), -(both + 1).ravel(), coupling[kept])
    constant = float(own[~up.all(axis=1)].sum() - coupling.sum())
    return rows, field, constant


def block_rows(network: Network) -> list[TermRows]:
    """Return the hard clauses of blocks of at most `MAX_BLOCK` atoms."""
    found = [TermRows(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0))]
    size = np.diff(network.block_start)
    for number in np.unique(size[(size > 1) & (size <= MAX_BLOCK)]).tolist():
        chosen = np.flatnonzero(size == number)
        member = network.block_atom[network.block_start[chosen][:, None] + np.arange(number)] + 1
        one, other = np.triu_indices(number, 1)
        pairs = np.stack((member[:, one], member[:, other]), axis=2).reshape(-1, 2)
        exact = member[network.block_exact[chosen]]
        for rows in (-pairs, exact):
            length, hard = np.full(len(rows), rows.shape[1]), np.full(len(rows), np.inf)
            found.append(TermRows(length, rows.ravel(), hard))
    return found
