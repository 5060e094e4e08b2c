"""Weighted partial MaxSAT as a network: variables are atoms x(1), x(2), …; weights are strengths.

The network has one weight of value 1, which every soft clause carries with its own weight as
coefficient, so the score of a world is the weight of its true soft clauses, and its MaxSAT cost
is what is missing to all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lapis.data.formats.wcnf import WeightedClauses, read_wcnf
from lapis.errors import LapisError
from lapis.inference.map.solver import MapResult, most_likely_world
from lapis.inference.marginals import InferenceOptions
from lapis.network.csr import row_starts, take_rows
from lapis.network.network import AtomTable, Network


@dataclass(frozen=True)
class WcnfResult:
    """An answer to a MaxSAT problem."""

    found: MapResult
    cost: float  # Σ weights of false soft clauses
    bound: float  # no world costs less
    network: Network


def solve_wcnf(
    path: str | Path, method: str = "auto", options: InferenceOptions | None = None
) -> WcnfResult:
    """The assignment of least cost of a .wcnf or .wcnf.gz file."""
    clauses = read_wcnf(path)
    network = network_of_clauses(clauses)
    found = most_likely_world(network, method, options)
    total = float(clauses.weight[np.isfinite(clauses.weight)].sum())
    return WcnfResult(found, total - found.score, total - found.score - found.gap, network)


def network_of_clauses(clauses: WeightedClauses) -> Network:
    """Repeated literals are one; a clause with a literal and its negation is always true."""
    count = len(clauses.weight)
    row = np.repeat(np.arange(count), np.diff(clauses.clause_start))
    pairs = np.unique(np.column_stack((row, np.abs(clauses.literal), clauses.literal)), axis=0)
    pairs = pairs.reshape(-1, 3)
    clash = (pairs[1:, :2] == pairs[:-1, :2]).all(axis=1)
    always = np.zeros(count, bool)
    always[pairs[1:, 0][clash]] = True
    length = np.bincount(pairs[:, 0], minlength=count)
    hard = np.isinf(clauses.weight)
    if (hard & (length == 0)).any():
        raise LapisError(
            "no assignment satisfies the hard clauses: one of them is empty", code="unsatisfiable"
        )
    kept = np.flatnonzero(~always & (length > 0))
    start, literal = take_rows(row_starts(length), pairs[:, 2].astype(np.int32), kept)
    atoms = np.arange(1, clauses.num_variables + 1, dtype=np.int32)[:, None]
    return Network(
        AtomTable(("x",), np.array([0, len(atoms)], np.int64), (atoms,)),
        len(atoms),
        start,
        literal,
        np.where(hard[kept], -1, 0).astype(np.int32),
        np.where(hard[kept], 1.0, clauses.weight[kept]),
        np.ones(1),
        np.array([float(clauses.weight[always & ~hard].sum())]),
    )
