"""Classes of atoms that may be exchanged pairwise without changing the score.

The score as terms. A false soft clause adds −w·c to the score, a product over its atoms:

    −w·c · Π_{a positive} (1 − a) · Π_{a negative} a

Multiplied out and added up, these are one polynomial, linear in each atom and therefore unique: two
networks with the same score have the same terms. That matters after elimination, which writes a
pair as (¬a ∨ b) or as (a ∨ ¬b) with unit clauses; as terms both are J·ab. Multiplying out doubles a
term for each positive literal, so clauses of more than `MAX_EXPANDED` atoms stay whole, and so do
hard clauses. Equal whole clauses written differently count as different, which may hide a symmetry
and never invents one. Strengths that differ by rounding get one number.

Classes. Two atoms are interchangeable if the transposition that swaps them maps the terms onto
themselves. That is an equivalence, (a c) = (a b)(b c)(a b), and within a class every permutation is
an automorphism: the probability of a world depends on how many atoms of a class are true.

1. Colours: atoms start equal and are split by their terms in three rounds of colour refinement.
   Atoms of different colours are never interchangeable. Equal colours prove nothing (all atoms of
   a cycle have one colour).
2. Neighbourhoods: interchangeable atoms that share a term have the same neighbours, themselves
   included; those that share none, themselves excluded. A class is of one kind. So candidates are
   atoms with one colour and one hash of such a set.
3. Exchange: in each group of candidates the first is swapped with each other, and every term of the
   other must be found among the terms, compared member by member. Those that fail try again with a
   new first one, at most `MAX_FIRSTS` times.

A term of more than `LONG` members counts as one neighbour, as listing all pairs of its members
would cost the square of its length.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.inference.random_numbers import mix_bits
from lapis.network.components import index_atoms
from lapis.network.csr import row_starts, stack_rows, take_rows
from lapis.network.cubes import Cubes
from lapis.network.merge import merge_rows
from lapis.runtime.kernels import allocating_entry, inner

MAX_EXPANDED = 4
ROUNDING = 256 * np.finfo(np.float64).eps  # relative to the sum of absolute values
HARD, EXPANDED, WHOLE = 0, 1, 2


class IndicatorTerms(NamedTuple):
    """Products of indicators and their strengths; members sorted by absolute value.

    Member v + 1 is plain variable v true, −(v + 1) false. Members beyond the plain variables are
    states of blocks, one number for each set of states.
    """

    start: np.ndarray  # int64[num_terms + 1]
    member: np.ndarray  # int32[...]
    strength: np.ndarray  # int64[num_terms], equal where the term adds the same to the score
    num_plain: int


def cube_members(cubes: Cubes, num_plain: int) -> np.ndarray:
    """Return the member that each cube requires of its variables, int32[num_members]."""
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
    """Return the terms of a score: `penalty`, float64[num_cubes], is what each cube adds to it."""
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


ScoredRows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # start, member, value, doubt


def multiply_out(
    start: np.ndarray, member: np.ndarray, penalty: np.ndarray, rows: np.ndarray
) -> ScoredRows:
    """Return products of atoms and their sums, without those that cancel.

    Products of one atom, the most frequent, are summed directly; the others are listed and merged.
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
    # Free the parts before merging.
    all_members, all_values = np.concatenate(members), np.concatenate(values)
    del members, values
    found = sum_equal_terms(row_starts(np.repeat(*np.transpose(sizes))), all_members, all_values)
    alive = np.flatnonzero(np.abs(single) > ROUNDING * single_size).astype(np.int32)
    return (
        *stack_rows([(np.arange(len(alive) + 1), alive), found[:2]]),
        np.concatenate((single[alive], found[2])),
        np.concatenate((ROUNDING * single_size[alive], found[3])),
    )


def merge_kept(
    start: np.ndarray, member: np.ndarray, penalty: np.ndarray, rows: np.ndarray
) -> ScoredRows:
    """Sum equal whole clauses."""
    return sum_equal_terms(*take_rows(start, member, rows), penalty[rows])


def sum_equal_terms(start: np.ndarray, member: np.ndarray, value: np.ndarray) -> ScoredRows:
    """Sum equal products; drop those that are only rounding errors."""
    rows = merge_rows(start, member.astype(np.int32), np.zeros(len(value), np.int32), value)
    kept = rows.merged >= 0
    size = np.bincount(rows.merged[kept], np.abs(value[kept]), len(rows.weight_id))
    doubt = ROUNDING * size
    alive = np.flatnonzero((np.abs(rows.coefficient) > doubt) | (size == 0.0))
    return (*take_rows(rows.start, rows.literal, alive), rows.coefficient[alive], doubt[alive])


def number_values(value: np.ndarray, doubt: np.ndarray) -> np.ndarray:
    """Return equal numbers for values that differ by less than rounding, int64[num_values]."""
    order = np.argsort(value, kind="stable")
    apart = np.diff(value[order]) > np.maximum(doubt[order][1:], doubt[order][:-1])
    number = np.empty(len(value), np.int64)
    number[order] = np.concatenate((np.zeros(min(1, len(value)), np.int64), np.cumsum(apart))) + 1
    return number


MAX_FIRSTS = 8
LONG = 32
ROUNDS = 3


def interchangeable_classes(terms: IndicatorTerms) -> np.ndarray:
    """Return the smallest variable exchangeable with each plain variable, int32[num_plain]."""
    num_members = int(np.abs(terms.member).max(initial=0))
    size = max(terms.num_plain, num_members)
    at_start, at_term = index_atoms(terms.start, terms.member, size)
    first = np.arange(terms.num_plain, dtype=np.int32)
    digests = _digest_variables(
        terms.start, terms.member, terms.strength, at_start, at_term, terms.num_plain, ROUNDS
    )
    table = np.empty(0, np.int32)
    for digest in digests:
        has_followers = np.bincount(first, minlength=len(first)) > 1
        alone = np.flatnonzero((first == np.arange(terms.num_plain)) & ~has_followers)
        group_start, grouped = group_equal(digest[alone])
        if len(group_start) == 1:
            continue
        if not len(table):
            table = _hash_terms(terms.start, terms.member, terms.strength)
        _prove_groups(
            terms.start, terms.member, terms.strength, at_start, at_term, table,
            group_start, alone[grouped].astype(np.int32), MAX_FIRSTS, first,
        )  # fmt: skip
    return first


def group_equal(digest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of positions with equal digests, for two or more."""
    order = np.argsort(digest, kind="stable")
    new = np.concatenate((np.ones(min(1, len(digest)), bool), np.diff(digest[order]) != 0))
    begin = np.flatnonzero(new)
    length = np.diff(np.append(begin, len(digest)))
    shared = np.repeat(length > 1, length)
    return row_starts(length[length > 1]), order[shared]


@allocating_entry
def _digest_variables(start, member, strength, at_start, at_term, num_plain, rounds):  # type: ignore[no-untyped-def]
    """Return hashes of colour and neighbours, with itself and without it, uint64[2, num_plain]."""
    two = np.uint64(2)
    colour = np.zeros(num_plain, np.uint64)
    term_colour = np.empty(len(strength), np.uint64)
    for _ in range(rounds):
        for term in range(len(strength)):
            total = mix_bits(np.uint64(strength[term]))
            for at in range(start[term], start[term + 1]):
                v = abs(member[at]) - 1
                own = colour[v] if v < num_plain else mix_bits(np.uint64(v))
                total += mix_bits(own * two + np.uint64(member[at] > 0))
            term_colour[term] = mix_bits(total)
        fresh = np.empty(num_plain, np.uint64)
        for v in range(num_plain):
            total = colour[v]
            for at in range(at_start[v], at_start[v + 1]):
                term = abs(at_term[at]) - 1
                total += mix_bits(term_colour[term] * two + np.uint64(at_term[at] > 0))
            fresh[v] = mix_bits(total)
        colour = fresh
    digest = np.empty((2, num_plain), np.uint64)
    seen = np.full(len(at_start), -1, np.int64)
    for v in range(num_plain):
        around = _digest_neighbours(start, member, at_start, at_term, v, seen)
        digest[0, v] = mix_bits(colour[v] + mix_bits(around + mix_bits(np.uint64(v + 1))))
        digest[1, v] = mix_bits(colour[v] + mix_bits(around))
    return digest


@inner
def _digest_neighbours(start, member, at_start, at_term, v, seen):  # type: ignore[no-untyped-def]
    """Return a hash of the set of neighbours; a long term counts as one neighbour."""
    around = np.uint64(0)
    for at in range(at_start[v], at_start[v + 1]):
        term = abs(at_term[at]) - 1
        if start[term + 1] - start[term] > LONG:
            around += mix_bits(np.uint64(term) + (np.uint64(1) << np.uint64(40)))
            continue
        for other in range(start[term], start[term + 1]):
            u = abs(member[other]) - 1
            if u != v and seen[u] != v:
                seen[u] = v
                around += mix_bits(np.uint64(u + 1))
    return around


@inner
def _digest_term(members, strength):  # type: ignore[no-untyped-def]
    """Return a hash of a term."""
    total = mix_bits(np.uint64(strength))
    for value in members:
        total += mix_bits(np.uint64(2 * abs(value) + (value > 0)))
    return mix_bits(total)


@allocating_entry
def _hash_terms(start, member, strength):  # type: ignore[no-untyped-def]
    """Return an open-addressing hash table of all terms, int32[capacity]."""
    capacity = 16
    while capacity < 2 * len(strength):
        capacity *= 2
    table = np.full(capacity, -1, np.int32)
    mask = np.uint64(capacity - 1)
    for term in range(len(strength)):
        slot = _digest_term(member[start[term] : start[term + 1]], strength[term]) & mask
        while table[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        table[slot] = term
    return table


@inner
def _contains(start, member, strength, table, members, size, own_strength):  # type: ignore[no-untyped-def]
    """Return whether there is a term of this strength with these members, sorted."""
    mask = np.uint64(len(table) - 1)
    slot = _digest_term(members[:size], own_strength) & mask
    while table[slot] >= 0:
        term = table[slot]
        begin = start[term]
        if strength[term] == own_strength and start[term + 1] - begin == size:
            at = 0
            while at < size and member[begin + at] == members[at]:
                at += 1
            if at == size:
                return True
        slot = (slot + np.uint64(1)) & mask
    return False


@inner
def _exchanges(start, member, strength, at_start, at_term, table, one, other, room):  # type: ignore[no-untyped-def]
    """Return whether swapping two variables maps the terms of the second into the terms.

    Both are in equally many terms, so the map, which is injective, is also surjective.
    """
    if at_start[one + 1] - at_start[one] != at_start[other + 1] - at_start[other]:
        return False
    for place in range(at_start[other], at_start[other + 1]):
        term = abs(at_term[place]) - 1
        size = 0
        moved = False
        for at in range(start[term], start[term + 1]):
            value = member[at]
            v = abs(value) - 1
            if v in (one, other):
                target = other if v == one else one
                value = target + 1 if value > 0 else -(target + 1)
                moved = True
            spot = size
            while moved and spot > 0 and abs(room[spot - 1]) > abs(value):
                room[spot] = room[spot - 1]
                spot -= 1
            room[spot] = value
            size += 1
        if not _contains(start, member, strength, table, room, size, strength[term]):
            return False
    return True


@allocating_entry
def _prove_groups(  # type: ignore[no-untyped-def]
    start, member, strength, at_start, at_term, table, group_start, grouped, max_firsts, first
):
    """Fill `first` with the first interchangeable variable in each group."""
    longest = 1
    for term in range(len(strength)):
        longest = max(longest, start[term + 1] - start[term])
    room = np.empty(longest + 1, np.int32)
    for group in range(len(group_start) - 1):
        left = grouped[group_start[group] : group_start[group + 1]].copy()
        for _ in range(max_firsts):
            if len(left) < 2:
                break
            one, kept = left[0], 0
            for other in left[1:]:
                if _exchanges(start, member, strength, at_start, at_term, table, one, other, room):
                    first[other] = one
                else:
                    left[kept] = other
                    kept += 1
            left = left[:kept].copy()
