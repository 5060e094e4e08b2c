"""Clauses that tell of the same few atoms as one table, for methods that walk on trees.

A table over a set of atoms takes in every clause whose atoms are among them: two clauses of one
pair would be a cycle, where one table is an edge. Clauses of more than `MAX_SCOPE` atoms are left
out: in a sum over worlds that is at most their largest value, max(0, w), and 0 where they are hard.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np

from lapis.inference.bounds.terms import Terms
from lapis.network.csr import row_starts

MAX_SCOPE = 4


class Tables(NamedTuple):
    """Scores of the states of sets of atoms; the first atom of a scope is the highest bit."""

    scope_start: np.ndarray  # int64[num_tables + 1]
    scope: np.ndarray  # int32[...], atoms
    entry_start: np.ndarray  # int64[num_tables + 1]
    entry: np.ndarray  # float64[...], −inf where forbidden
    left_out: np.ndarray  # int64[...], clauses in no table


def find_tables(terms: Terms) -> Tables:
    """The tables of all clauses of at most `MAX_SCOPE` atoms."""
    length = np.diff(terms.start)
    scopes: list[np.ndarray] = []  # of each length from MAX_SCOPE down, int32[..., length]
    home = np.full(len(length), -1, np.int64)  # the table that takes a clause
    offset = 0
    for size in range(MAX_SCOPE, 1, -1):
        mine = np.flatnonzero(length == size)
        atoms = np.sort(np.abs(terms.literal[terms.start[mine][:, None] + np.arange(size)]) - 1)
        taken = find_larger(atoms, scopes)
        home[mine] = taken
        own = taken < 0
        rows, place = np.unique(atoms[own], axis=0, return_inverse=True)
        home[mine[own]] = offset + place.ravel()
        scopes.append(rows.astype(np.int32))
        offset += len(rows)
    sizes = np.concatenate([np.full(len(rows), rows.shape[1]) for rows in scopes])
    scope = np.concatenate([rows.ravel() for rows in scopes])
    scope_start, entry_start = row_starts(sizes), row_starts(1 << sizes)
    entry = np.zeros(entry_start[-1])
    for size in range(2, MAX_SCOPE + 1):
        enter(terms, np.flatnonzero(length == size), size, home, scope_start, scope, entry_start,
              entry)  # fmt: skip
    return Tables(scope_start, scope, entry_start, entry, np.flatnonzero(home < 0))


def find_larger(atoms: np.ndarray, scopes: list[np.ndarray]) -> np.ndarray:
    """int64[num_rows], a larger scope that holds each row of atoms, −1 where there is none."""
    found = np.full(len(atoms), -1, np.int64)
    offset = 0
    for rows in scopes:
        for chosen in combinations(range(rows.shape[1]), atoms.shape[1]):
            part, first = np.unique(rows[:, chosen], axis=0, return_index=True)
            both = np.concatenate((part, atoms.astype(np.int32)))
            _, place = np.unique(both, axis=0, return_inverse=True)
            place = place.ravel()
            owner = np.full(int(place.max(initial=0)) + 1, -1, np.int64)
            owner[place[: len(part)]] = offset + first
            found = np.where(found < 0, owner[place[len(part) :]], found)
        offset += len(rows)
    return found


def enter(
    terms: Terms, clauses: np.ndarray, size: int, home: np.ndarray, scope_start: np.ndarray,
    scope: np.ndarray, entry_start: np.ndarray, entry: np.ndarray,
) -> None:  # fmt: skip
    """Add clauses of one length to their tables, by the length of these."""
    literal = terms.literal[terms.start[clauses][:, None] + np.arange(size)]
    table = home[clauses]
    width = scope_start[table + 1] - scope_start[table]
    for wide in np.unique(width).tolist():
        here = width == wide
        rows, own, weight = literal[here], table[here], terms.weight[clauses[here]]
        members = scope[scope_start[own][:, None] + np.arange(wide)]
        state = np.arange(1 << wide)
        bit = (state[:, None] >> np.arange(wide - 1, -1, -1)) & 1  # [state, axis]
        axis = (np.abs(rows)[:, :, None] - 1 == members[:, None, :]).argmax(axis=2)
        holds = (bit[:, axis] == (rows > 0)).any(axis=2)  # [state, clause]
        score = np.where(holds, np.where(np.isinf(weight), 0.0, weight),
                         np.where(np.isinf(weight), -np.inf, 0.0))  # fmt: skip
        np.add.at(entry, entry_start[own] + state[:, None], score)
