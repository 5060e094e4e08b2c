"""Auxiliary atoms that clauses use: the others go, the rest get their hard clauses.

An auxiliary atom a ⇔ l₁ ∨ … ∨ l_k is enforced by the clauses a ∨ ¬l_i and ¬a ∨ l₁ ∨ … ∨ l_k.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.grounding.definitions import Auxiliaries
from lapis.network.csr import row_starts, take_rows
from lapis.network.network import AtomTable


class UsedAuxiliaries(NamedTuple):
    atoms: AtomTable  # base atoms, then the auxiliary ones
    literal: np.ndarray  # int32[...], the given literals with the new atom numbers
    definition_start: np.ndarray  # int64[num_auxiliary + 1]
    definition_literal: np.ndarray  # int32[...]


def keep_used(auxiliaries: Auxiliaries, base: AtomTable, literal: np.ndarray) -> UsedAuxiliaries:
    """Drop the auxiliary atoms that no literal reaches, directly or through definitions."""
    first, total = auxiliaries.first, auxiliaries.count
    used = np.zeros(first + total + 1, bool)
    used[np.abs(literal)] = True
    begin = first + total
    for group in reversed(auxiliaries.groups):  # later groups refer to earlier ones only
        begin -= len(group.tuples)
        wanted = used[begin + 1 : begin + 1 + len(group.tuples)]
        used[np.abs(group.member[np.repeat(wanted, np.diff(group.start))])] = True
    renumber = np.arange(first + total + 1, dtype=np.int32)
    renumber[first + 1 :] = first + np.cumsum(used[first + 1 :])

    names, tuples, counts = list(base.predicates), list(base.tuples), []
    lengths, members = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    for group in auxiliaries.groups:
        wanted = np.flatnonzero(used[begin + 1 : begin + 1 + len(group.tuples)])
        begin += len(group.tuples)
        if len(wanted):
            start, member = take_rows(group.start, group.member, wanted)
            names.append(group.predicate)
            tuples.append(group.tuples[wanted])
            counts.append(len(wanted))
            lengths.append(np.diff(start))
            members.append(np.sign(member) * renumber[np.abs(member)])
    offset = np.concatenate((base.offset, base.offset[-1] + np.cumsum(counts, dtype=np.int64)))
    return UsedAuxiliaries(
        AtomTable(tuple(names), offset, tuple(tuples)),
        np.sign(literal) * renumber[np.abs(literal)],
        row_starts(np.concatenate(lengths)),
        np.concatenate(members).astype(np.int32),
    )


def definition_clauses(
    first: int, start: np.ndarray, member: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """CSR (start, literal) of the clauses that make each auxiliary atom what it stands for."""
    length = np.diff(start)
    own = np.arange(first + 1, first + 1 + len(length), dtype=np.int32)
    pairs = np.stack((np.repeat(own, length), -member), axis=1).ravel()
    long_start = start[:-1] + np.arange(len(length))  # each long clause has one literal more
    longs = np.empty(len(member) + len(length), np.int32)
    longs[long_start] = -own
    is_member = np.ones(len(longs), bool)
    is_member[long_start] = False
    longs[is_member] = member
    lengths = np.concatenate((np.full(len(member), 2, np.int64), length + 1))
    return (
        row_starts(lengths),
        np.concatenate((pairs, longs)).astype(np.int32),
    )
