"""The score of a network as terms that do not depend on how it was written down.

A soft clause that is false adds −w·c to the score, a product over its atoms:

    −w·c · Π_{a positive} (1 − a) · Π_{a negative} a

Multiplied out and added up, these are one polynomial in the atoms, and a polynomial that is linear
in each atom is unique: two networks with the same score have the same terms. That matters after
elimination, whose pairs come out as (¬a ∨ b) or as (a ∨ ¬b) with unit clauses that even them out;
as terms both are J·ab.

Multiplying out doubles a term for each positive literal, so clauses of more than `MAX_EXPANDED`
atoms stay as they are, and hard clauses have no numbers to add. For these the same written
differently is taken to be different, which may hide a symmetry and never invents one.

Strengths that differ by rounding are equal: they are sorted, and neighbours nearer than the
rounding of the sums they came from get one number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.network.csr import join_rows, row_starts, take_rows
from lapis.network.cubes import Cubes
from lapis.network.merge import merge_rows

MAX_EXPANDED = 4
ROUNDING = 256 * np.finfo(np.float64).eps  # of the absolute values that were added up
HARD, EXPANDED, WHOLE = 0, 1, 2


class IndicatorTerms(NamedTuple):
    """Products of indicators and what they weigh; members are sorted by their absolute value.

    Member v + 1 is plain variable v true, −(v + 1) false. Members beyond the plain variables are
    states of blocks, one number for each set of states.
    """

    start: np.ndarray  # int64[num_terms + 1]
    member: np.ndarray  # int32[...]
    strength: np.ndarray  # int64[num_terms], equal where the term adds the same to the score
    num_plain: int


def cube_members(cubes: Cubes, num_plain: int) -> np.ndarray:
    """int32[num_members]: the member that each cube demands of its variables, numbered as in
    `IndicatorTerms`."""
    first = cubes.state[cubes.state_start[:-1]]
    plain = cubes.variable < num_plain
    member = np.where(first == 1, cubes.variable + 1, -(cubes.variable + 1)).astype(np.int32)
    numbers: dict[tuple[int, bytes], int] = {}
    for at in np.flatnonzero(~plain).tolist():
        states = cubes.state[cubes.state_start[at] : cubes.state_start[at + 1]]
        key = int(cubes.variable[at]), states.tobytes()
        member[at] = numbers.setdefault(key, num_plain + 1 + len(numbers))
    return member


def score_terms(cubes: Cubes, penalty: np.ndarray, num_plain: int) -> IndicatorTerms:
    """The terms of a score: `penalty`, float64[num_cubes], is what each cube adds to it."""
    member = cube_members(cubes, num_plain)
    length = np.diff(cubes.start)
    hard = penalty == -np.inf
    whole = ~hard & (length > MAX_EXPANDED)
    parts = [
        multiply_out(cubes.start, member, penalty, np.flatnonzero(~hard & ~whole)),
        merge_kept(cubes.start, member, np.where(hard, 0.0, penalty), np.flatnonzero(whole)),
        merge_kept(cubes.start, member, np.zeros(len(hard)), np.flatnonzero(hard)),
    ]
    strengths = [
        2 * number_values(value, doubt) + kind if kind else np.zeros(len(value), np.int64)
        for (_, _, value, doubt), kind in zip(parts, (EXPANDED, WHOLE, HARD), strict=True)
    ]
    return IndicatorTerms(
        row_starts(np.concatenate([np.diff(start) for start, _, _, _ in parts])),
        np.concatenate([members for _, members, _, _ in parts]),
        np.concatenate(strengths),
        num_plain,
    )


Weighed = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # start, member, value, doubt


def multiply_out(
    start: np.ndarray, member: np.ndarray, penalty: np.ndarray, rows: np.ndarray
) -> Weighed:
    """Products of atoms and their sums, without those that cancel.

    Most are of one atom, and are added up at once; the others are listed and merged.
    """
    sizes, members, values = [(1, 0)], [np.empty(0, np.int32)], [np.empty(0)]
    single, single_size = np.zeros((2, int(np.abs(member).max(initial=0)) + 1))
    length = start[rows + 1] - start[rows]
    for size in range(1, MAX_EXPANDED + 1):
        chosen = rows[length == size]
        given = member[start[chosen][:, None] + np.arange(size)]
        for mask in range(1, 1 << size):
            inside = (mask >> np.arange(size) & 1).astype(bool)
            applies = (given[:, ~inside] < 0).all(axis=1)
            product = given[applies][:, inside]
            sign = 1.0 - 2.0 * ((product < 0).sum(axis=1) % 2)
            value = sign * penalty[chosen[applies]]
            if product.shape[1] == 1:
                atom = np.abs(product[:, 0])
                single += np.bincount(atom, value, len(single))
                single_size += np.bincount(atom, np.abs(value), len(single))
                continue
            sizes.append((product.shape[1], len(product)))
            members.append(np.abs(product).ravel())
            values.append(value)
    # What products are made of goes before they are merged.
    all_members, all_values = np.concatenate(members), np.concatenate(values)
    del members, values
    found = add_up(row_starts(np.repeat(*np.transpose(sizes))), all_members, all_values)
    alive = np.flatnonzero(np.abs(single) > ROUNDING * single_size).astype(np.int32)
    return (
        *join_rows([(np.arange(len(alive) + 1), alive), found[:2]]),
        np.concatenate((single[alive], found[2])),
        np.concatenate((ROUNDING * single_size[alive], found[3])),
    )


def merge_kept(
    start: np.ndarray, member: np.ndarray, penalty: np.ndarray, rows: np.ndarray
) -> Weighed:
    return add_up(*take_rows(start, member, rows), penalty[rows])


def add_up(start: np.ndarray, member: np.ndarray, value: np.ndarray) -> Weighed:
    """Equal products become one; those that weigh nothing but rounding go."""
    rows = merge_rows(start, member.astype(np.int32), np.zeros(len(value), np.int32), value)
    kept = rows.merged >= 0
    size = np.bincount(rows.merged[kept], np.abs(value[kept]), len(rows.weight_id))
    doubt = ROUNDING * size
    alive = np.flatnonzero((np.abs(rows.coefficient) > doubt) | (size == 0.0))
    return (*take_rows(rows.start, rows.literal, alive), rows.coefficient[alive], doubt[alive])


def number_values(value: np.ndarray, doubt: np.ndarray) -> np.ndarray:
    """int64[num_values], equal for values that differ by less than rounding."""
    order = np.argsort(value, kind="stable")
    apart = np.diff(value[order]) > np.maximum(doubt[order][1:], doubt[order][:-1])
    number = np.empty(len(value), np.int64)
    number[order] = np.concatenate((np.zeros(min(1, len(value)), np.int64), np.cumsum(apart))) + 1
    return number
