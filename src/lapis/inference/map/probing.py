"""What hard clauses and blocks imply, found by assuming each literal in turn (probing).

Assuming a literal and propagating units shows which other literals must then hold: l → m says
that l and ¬m are in *conflict*. A literal whose assumption ends in a contradiction is false in
every world. The conflicts are more than the clauses with two literals say: at-most-one
constraints written with counters, or supports `u=a → v=b ∨ v=c`, hide most of theirs. Integer
programs live from them, since cliques of conflicts are rows Σ x ≤ 1 (Savelsbergh, Preprocessing
and Probing Techniques for Mixed Integer Programming Problems, 1994).

Literals are numbered 2·atom for the atom and 2·atom + 1 for its negation. Probing stops when its
budget is spent; what it has found by then is still true.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.inference.map.objective import Objective
from lapis.network.csr import row_starts, take_rows
from lapis.runtime.kernels import allocating_entry, inner

MAX_STEPS = 30_000_000  # clauses looked at
MAX_CONFLICTS = 1_000_000


class Probe(NamedTuple):
    possible: bool  # False if the hard clauses contradict each other
    value: np.ndarray  # int8[num_atoms], 1 true, 0 false in every world, −1 not known
    conflict: np.ndarray  # int32[num_conflicts, 2], literals that do not hold together


def probe(objective: Objective) -> Probe:
    """Forced atoms and conflicts among literals."""
    hard = np.flatnonzero(objective.hard)
    start, literal = hard_rows(objective, hard)
    possible, value, pairs = _probe(
        objective.num_atoms,
        start,
        literal,
        *occurrences(start, literal, 2 * objective.num_atoms),
        objective.block_start,
        objective.block_atom.astype(np.int32),
        objective.block_of,
        MAX_STEPS,
        MAX_CONFLICTS,
    )
    return Probe(bool(possible), value, pairs)


def literal_code(literal: np.ndarray) -> np.ndarray:
    """±(atom + 1) → 2·atom, or 2·atom + 1 if negated."""
    code: np.ndarray = 2 * (np.abs(literal) - 1) + (literal < 0)
    return code.astype(np.int32)


def hard_rows(objective: Objective, hard: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """CSR of literal codes: the hard clauses, then one for each exactly-one block."""
    start, literal = take_rows(objective.clause_start, objective.literal, hard)
    exact = np.flatnonzero(objective.block_exact)
    block_start, block_atom = take_rows(objective.block_start, objective.block_atom, exact)
    return (
        np.concatenate((start, block_start[1:] + start[-1])),
        np.concatenate((literal_code(literal), 2 * block_atom)).astype(np.int32),
    )


def occurrences(
    start: np.ndarray, literal: np.ndarray, num_literals: int
) -> tuple[np.ndarray, np.ndarray]:
    """CSR of the rows in which each literal occurs."""
    row = np.repeat(np.arange(len(start) - 1, dtype=np.int32), np.diff(start))
    order = np.argsort(literal, kind="stable")
    return row_starts(np.bincount(literal, minlength=num_literals)), row[order]


@allocating_entry
def _probe(  # type: ignore[no-untyped-def]
    num_atoms, start, literal, occur_start, occur, block_start, block_atom, block_of,
    max_steps, max_conflicts,
):  # fmt: skip
    value = np.full(num_atoms, -1, np.int8)
    trail = np.empty(num_atoms, np.int32)
    size = 0
    for row in range(len(start) - 1):
        if start[row + 1] - start[row] == 1:
            size = _assume(value, trail, size, literal[start[row]])
            if size < 0:
                return False, value, np.empty((0, 2), np.int32)
    size, steps = _propagate(
        value, trail, 0, size, start, literal, occur_start, occur, block_start, block_atom, block_of
    )
    pairs = np.empty((1024, 2), np.int32)
    count = 0
    fixed = size
    for code in range(2 * num_atoms):
        if fixed < 0 or steps > max_steps or count > max_conflicts:
            break
        if value[code >> 1] >= 0:
            continue
        if occur_start[code ^ 1] == occur_start[(code ^ 1) + 1] and (
            code & 1 or block_of[code >> 1] < 0
        ):
            continue
        size = _assume(value, trail, fixed, code)
        size, used = _propagate(
            value, trail, fixed, size, start, literal, occur_start, occur,
            block_start, block_atom, block_of,
        )  # fmt: skip
        steps += used
        failed = size < 0
        if failed:
            size = -size
        if not failed:
            while count + size > len(pairs):
                larger = np.empty((2 * len(pairs), 2), np.int32)
                larger[:count] = pairs[:count]
                pairs = larger
            for at in range(fixed + 1, size):
                pairs[count, 0] = code
                pairs[count, 1] = trail[at] ^ 1
                count += 1
        for at in range(fixed, size):
            value[trail[at] >> 1] = -1
        if failed:
            size = _assume(value, trail, fixed, code ^ 1)
            fixed, used = _propagate(
                value, trail, fixed, size, start, literal, occur_start, occur,
                block_start, block_atom, block_of,
            )  # fmt: skip
            steps += used
    return fixed >= 0, value, pairs[:count]


@inner
def _assume(value, trail, size, code):  # type: ignore[no-untyped-def]
    """Put a literal on the trail; −1 if its negation holds."""
    wanted = 1 - (code & 1)
    if value[code >> 1] < 0:
        value[code >> 1] = wanted
        trail[size] = code
        return size + 1
    return size if value[code >> 1] == wanted else -1


@inner
def _propagate(  # type: ignore[no-untyped-def]
    value, trail, first, size, start, literal, occur_start, occur, block_start, block_atom, block_of
):
    """(size of the trail, steps); the size is negative where the assumptions contradict."""
    steps = 0
    at = first
    while at < size:
        code = trail[at]
        at += 1
        if code & 1 == 0 and block_of[code >> 1] >= 0:
            block = block_of[code >> 1]
            for k in range(block_start[block], block_start[block + 1]):
                if block_atom[k] != code >> 1:
                    grown = _assume(value, trail, size, 2 * block_atom[k] + 1)
                    if grown < 0:
                        return -size, steps
                    size = grown
        for i in range(occur_start[code ^ 1], occur_start[(code ^ 1) + 1]):
            row = occur[i]
            steps += 1
            unit, open_literals = -1, 0
            for k in range(start[row], start[row + 1]):
                other = literal[k]
                if value[other >> 1] < 0:
                    open_literals += 1
                    unit = other
                    if open_literals > 1:
                        break
                elif value[other >> 1] == 1 - (other & 1):
                    open_literals = 2
                    break
            if open_literals == 0:
                return -size, steps
            if open_literals == 1:
                size = _assume(value, trail, size, unit)
    return size, steps
