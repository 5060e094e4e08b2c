"""Ground the tables of a network.

An entry is a conjunction of states. It is false exactly if its negation, a clause, is true, so

    Σ_entries log p · 1[entry] = Σ_entries log p + Σ_entries (−log p) · 1[clause]

Each table has a weight of 1, and its clauses have the coefficients −log p ≥ 0. Entries with p = 0
are hard clauses, entries with p = 1 are left out. Evidence removes the entries that it contradicts;
of the others, the known states are left out of the clause.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lapis.errors import LapisError, Note
from lapis.grounding.ground_atoms import PredicateAtoms
from lapis.language.model import Model, StateTable
from lapis.language.names import format_state

MOST_SHOWN = 10  # entries of a contradiction


class EntryRows(NamedTuple):
    """The entries of all tables that evidence leaves possible, as clauses."""

    length: np.ndarray  # int64[num_rows]
    literal: np.ndarray  # int32[...], 0 where the state is known
    table: np.ndarray  # int32[num_rows]
    entry: np.ndarray  # int64[num_rows], the place in the table
    cost: np.ndarray  # float64[num_rows], −log p, infinite for impossible entries


def ground_tables(model: Model, base: Mapping[str, PredicateAtoms]) -> EntryRows:
    """Return the clauses of all tables."""
    parts = [ground_table(n, table, base) for n, table in enumerate(model.tables)]
    empty = EntryRows(
        np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32),
        np.empty(0, np.int64), np.empty(0),
    )  # fmt: skip
    columns = zip(empty, *parts, strict=True)
    return EntryRows(*(np.concatenate(column) for column in columns))


def ground_table(number: int, table: StateTable, base: Mapping[str, PredicateAtoms]) -> EntryRows:
    shape = table.log_value.shape
    numbers, possible = [], []
    for name, size in zip(table.variables, shape, strict=True):
        codes = np.arange(size)
        atoms = base[name]
        unknown = atoms.literal(codes)
        numbers.append(unknown)
        possible.append((unknown != 0) | np.isin(codes, atoms.codes(atoms.true)))
    keep = table.log_value != 0.0
    for axis, allowed in enumerate(possible):
        keep = keep & allowed.reshape([-1 if a == axis else 1 for a in range(len(shape))])
    entry = np.flatnonzero(keep)
    states = np.unravel_index(entry, shape) if shape else ()
    literal = np.empty((len(entry), len(shape)), np.int32)
    for axis, codes in enumerate(states):
        literal[:, axis] = -numbers[axis][codes]
    return EntryRows(
        np.full(len(entry), len(shape), np.int64),
        literal.ravel(),
        np.full(len(entry), number, np.int32),
        entry,
        -table.log_value.ravel()[entry],
    )


def format_entry(model: Model, table: int, entry: int) -> str:
    """Describe an impossible entry of a table."""
    variables, shape = model.tables[table].variables, model.tables[table].log_value.shape
    states = np.unravel_index(entry, shape) if shape else ()
    return ", ".join(
        format_state(name, [model.types[name][int(code)]])
        for name, code in zip(variables, states, strict=True)
    )


def impossible_evidence(model: Model, entries: Sequence[tuple[int, int]]) -> LapisError:
    """Return the error of evidence with probability 0, with the table entries that show it."""
    notes = [Note(f"impossible: {format_entry(model, *each)}") for each in entries[:MOST_SHOWN]]
    if len(entries) > MOST_SHOWN:
        notes.append(Note(f"and {len(entries) - MOST_SHOWN:,} more"))
    return LapisError(
        "the evidence is impossible: its probability is 0",
        code="impossible-evidence",
        hint="remove a part of it; these entries of the network's tables exclude it",
        notes=notes,
    )
