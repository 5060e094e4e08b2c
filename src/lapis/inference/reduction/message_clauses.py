"""Tables over a few variables as clauses with non-negative weights.

A table f of logarithms is a sum of products of indicators (a Möbius transform): with a reference
state for each variable (false, none, or the last candidate of a block),

    f(x) = Σ_t J(t)·Π_{v: t_v ≠ reference} [x_v = t_v]

and J is zero wherever variables do not interact, so tables that are really pairwise come out
pairwise, and terms of different tables over the same atoms add up before clauses are made. Then,
from the longest products to the shortest, with a₁…a_k the atoms of a product,

    J < 0:   J·Πa = J + |J|·[¬a₁ ∨ … ∨ ¬a_k]
    J > 0:   J·Πa = −J + J·[¬a₁ ∨ … ∨ ¬a_{k−1} ∨ a_k] + J·Π_{i<k} a_i

Of a pair either atom may be a_k, and the other one gets the unit clause: so that all unit clauses
stay small, as the terms of a pair that wants to be equal are −J/2, −J/2 and J. With a fixed order
fifty people who all want to be equal had unit clauses of ±20 that only the pairs cancel. MC-SAT
keeps those in every slice, and its chains never moved.

Entries of −∞ become hard clauses, each widened to the largest cube of −∞ entries around it; what
f says there does not matter any more, and J is taken as zero. One clause per state, the textbook
way, gave three clauses a pair instead of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lapis.inference.exact.elimination_order import popcount
from lapis.inference.exact.junction_tree import CORE, ROOT, JunctionTree
from lapis.network.components import ComponentClauses
from lapis.network.csr import row_starts, stack_rows
from lapis.network.cubes import Variables
from lapis.network.merge import merge_rows
from lapis.runtime.kernels import allocating_entry, entry, inner

ROUNDING = 64 * np.finfo(np.float64).eps  # relative size below which a difference is noise


class Products(NamedTuple):
    """What messages say besides single atoms."""

    constant: float
    # By their number of atoms: int32[num_rows, length] of atom + 1, and J, float64[num_rows].
    rows: dict[int, tuple[np.ndarray, np.ndarray]]
    hard_start: np.ndarray  # int64[num_hard + 1]
    hard_literal: np.ndarray  # int32[...]


def expand_messages(
    tree: JunctionTree, message: np.ndarray, variables: Variables, unit: np.ndarray
) -> Products:
    """The products of all messages that leave the tree.

    Those of one atom are added to `unit`, float64[num_atoms].
    """
    constant = float(message[tree.message_start[np.flatnonzero(tree.parent == ROOT)]].sum())
    leaving = np.flatnonzero(tree.parent == CORE)
    offset, start, literal, product, hard_start, hard_literal = _expand(
        leaving, tree.scope_start, tree.scope_variable, tree.message_start, message,
        variables.size, variables.state_start, variables.state_atom, unit,
    )  # fmt: skip
    rows = {
        length: (literal[start[:-1][chosen, None] + np.arange(length)], product[chosen])
        for length in np.unique(np.diff(start)).tolist()
        for chosen in [np.diff(start) == length]
    }
    return Products(constant + offset, rows, hard_start, hard_literal)


def product_clauses(
    parts: Sequence[Products], unit: np.ndarray, weight_id: int
) -> tuple[ComponentClauses, float]:
    """Clauses and a constant that say the same as products and single atoms; all of them are lost.

    Soft clauses have the weight id given, with weight 1 in mind, and their weight as coefficient.
    """
    constant = sum((part.constant for part in parts), 0.0)
    lengths, literals, coefficients = [], [], []

    def add(clauses: np.ndarray, weight: np.ndarray) -> None:
        """Clauses of one length, int32[num_clauses, length]."""
        lengths.append(np.full(len(clauses), clauses.shape[1]))
        literals.append(clauses.ravel())
        coefficients.append(weight)

    rows_of = {
        length: join_products([part.rows.pop(length) for part in parts if length in part.rows])
        for length in sorted({length for part in parts for length in part.rows})
    }
    for length in range(max(rows_of, default=1), 1, -1):
        rows, strength = rows_of.pop(length, (np.empty((0, length), np.int32), np.empty(0)))
        rows, strength = merge_products(rows, strength)
        falls = strength < 0
        constant += float(strength[falls].sum() - strength[~falls].sum())
        last = np.arange(length) == length - 1
        add(-rows[falls], -strength[falls])
        rows, strength = rows[~falls], strength[~falls]
        if length == 2:
            _balance_pairs(rows, strength, unit)
        add(np.where(last, rows, -rows), strength)
        if length > 2:
            shorter, extra = rows[:, :-1], strength
            known, values = rows_of.get(length - 1, (shorter[:0], extra[:0]))
            rows_of[length - 1] = (
                np.concatenate((known, shorter)),
                np.concatenate((values, extra)),
            )
    atoms = np.flatnonzero(np.abs(unit) > ROUNDING)
    constant += float(unit[atoms][unit[atoms] < 0].sum())
    add((np.sign(unit[atoms]) * (atoms + 1)).astype(np.int32)[:, None], np.abs(unit[atoms]))

    hard_start, hard_literal = stack_rows([(part.hard_start, part.hard_literal) for part in parts])
    num_hard = len(hard_start) - 1
    hard = merge_rows(hard_start, hard_literal, np.full(num_hard, -1, np.int32), np.ones(num_hard))
    num_soft = sum(map(len, lengths))
    return ComponentClauses(
        row_starts(np.concatenate([*lengths, np.diff(hard.start)])),
        np.concatenate([*literals, hard.literal]),
        np.repeat(np.array([weight_id, -1], np.int32), [num_soft, len(hard.weight_id)]),
        np.concatenate([*coefficients, np.ones(len(hard.weight_id))]),
    ), constant


def join_products(
    parts: Sequence[tuple[np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of one length and their strengths, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([rows for rows, _ in parts]), np.concatenate([each for _, each in parts])


def merge_products(rows: np.ndarray, strength: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Equal rows added up, without those that cancel; int32[num_rows, length], atom + 1."""
    num_rows, length = rows.shape
    start = np.arange(num_rows + 1, dtype=np.int64) * length
    merged = merge_rows(
        start, np.ascontiguousarray(rows).ravel(), np.zeros(num_rows, np.int32), strength
    )
    largest = np.zeros(len(merged.coefficient))
    np.maximum.at(largest, merged.merged, np.abs(strength))
    left = np.abs(merged.coefficient) > ROUNDING * largest
    return merged.literal.reshape(-1, length)[left], merged.coefficient[left]


@entry
def _balance_pairs(pairs, strength, unit):  # type: ignore[no-untyped-def]
    """Put that atom of each pair first whose unit clauses weigh less; it gets the pair's.

    Both get one half beforehand, so that what is balanced is the end and not the way there.
    """
    for row in range(len(pairs)):
        for place in range(2):
            unit[pairs[row, place] - 1] += strength[row] / 2
    for row in range(len(pairs)):
        one, other = pairs[row, 0], pairs[row, 1]
        if unit[other - 1] < unit[one - 1]:
            pairs[row, 0], pairs[row, 1] = other, one
        unit[pairs[row, 0] - 1] += strength[row] / 2
        unit[pairs[row, 1] - 1] -= strength[row] / 2


@allocating_entry
def _expand(  # type: ignore[no-untyped-def]
    leaving, scope_start, scope_variable, message_start, message, size, state_start, state_atom,
    unit,
):  # fmt: skip
    """The products of all tables: a constant, longer rows, hard clauses; single atoms in place."""
    constant = 0.0
    room, room_literals = 0, 0
    most_axes, most_entries = 0, 1
    for i in leaving:
        axes, entries = scope_start[i + 1] - scope_start[i], message_start[i + 1] - message_start[i]
        room += entries
        room_literals += entries * axes
        most_axes, most_entries = max(most_axes, axes), max(most_entries, entries)
    start = np.zeros(room + 1, np.int64)
    literal = np.empty(room_literals, np.int32)
    product = np.empty(room)
    num_rows = 0
    hard_start = np.zeros(16, np.int64)
    hard_literal = np.empty(16, np.int32)
    num_hard = 0
    stride = np.empty(most_axes, np.int64)
    reference = np.empty(most_axes, np.int64)
    digit = np.empty((most_entries, most_axes), np.int64)
    support = np.empty(most_entries, np.uint64)
    term = np.empty(most_entries)
    covered = np.empty(most_entries, np.bool_)
    for i in leaving:
        scope = scope_variable[scope_start[i] : scope_start[i + 1]]
        value = message[message_start[i] : message_start[i + 1]]
        axes, entries = len(scope), len(value)
        step = 1
        for a in range(axes - 1, -1, -1):
            stride[a] = step
            step *= size[scope[a]]
            plain = state_atom[state_start[scope[a]]] < 0
            reference[a] = 0 if plain else size[scope[a]] - 1
        any_hard = False
        scale = 0.0
        for t in range(entries):
            support[t] = 0
            for a in range(axes):
                digit[t, a] = t // stride[a] % size[scope[a]]
                if digit[t, a] != reference[a]:
                    support[t] |= np.uint64(1) << np.uint64(a)
            if value[t] == -np.inf:
                any_hard = True
            else:
                scale = max(scale, abs(value[t]))
        _transform(value, entries, axes, support, digit, reference, stride, term)
        for t in range(entries):
            length = popcount(support[t])
            if length == 0:
                constant += term[t]
            elif abs(term[t]) > ROUNDING * scale:
                begin = start[num_rows]
                place = begin
                for a in range(axes):
                    if digit[t, a] != reference[a]:
                        literal[place] = state_atom[state_start[scope[a]] + digit[t, a]] + 1
                        place += 1
                if length == 1:
                    unit[literal[begin] - 1] += term[t]
                else:
                    product[num_rows] = term[t]
                    num_rows += 1
                    start[num_rows] = place
        if any_hard:
            covered[:entries] = False
            for t in range(entries):
                if value[t] > -np.inf or covered[t]:
                    continue
                fixed = _widest_cube(value, entries, axes, digit, t)
                place = hard_start[num_hard]
                for a in range(axes):
                    if (fixed >> np.uint64(a)) & np.uint64(1):
                        first, states = state_start[scope[a]], size[scope[a]]
                        while place + states > len(hard_literal):
                            hard_literal = np.concatenate((hard_literal, hard_literal))
                        own = state_atom[first + digit[t, a]]
                        if own >= 0:
                            hard_literal[place] = -(own + 1)
                            place += 1
                        else:
                            for s in range(states):
                                if state_atom[first + s] >= 0:
                                    hard_literal[place] = state_atom[first + s] + 1
                                    place += 1
                for s in range(entries):
                    covered[s] = covered[s] or _agrees(digit, s, t, fixed, axes)
                num_hard += 1
                if num_hard == len(hard_start):
                    hard_start = np.concatenate((hard_start, hard_start))
                hard_start[num_hard] = place
    return (
        constant,
        start[: num_rows + 1].copy(),
        literal[: start[num_rows]].copy(),
        product[:num_rows].copy(),
        hard_start[: num_hard + 1].copy(),
        hard_literal[: hard_start[num_hard]].copy(),
    )


@inner
def _transform(value, entries, axes, support, digit, reference, stride, term):  # type: ignore[no-untyped-def]
    """J(t) = f(t) − Σ_{u below t} J(u), shorter supports first; 0 where f(t) = −∞."""
    for length in range(axes + 1):
        for t in range(entries):
            if popcount(support[t]) != length:
                continue
            below = 0.0
            part = support[t]
            while part != 0:
                part = (part - np.uint64(1)) & support[t]
                u = 0
                for a in range(axes):
                    inside = (part >> np.uint64(a)) & np.uint64(1)
                    u += stride[a] * (digit[t, a] if inside else reference[a])
                below += term[u]
            term[t] = value[t] - below if value[t] > -np.inf else 0.0
            if length == 0 and value[t] == -np.inf:
                # Any number will do for a forbidden reference; a nearby one leaves fewer terms.
                term[t] = _shortest_possible(value, entries, support)


@inner
def _shortest_possible(value, entries, support):  # type: ignore[no-untyped-def]
    """The value of a possible entry with the fewest variables away from their reference."""
    best = -1
    for t in range(entries):
        if value[t] > -np.inf and (best < 0 or popcount(support[t]) < popcount(support[best])):
            best = t
    return value[best]


@inner
def _widest_cube(value, entries, axes, digit, t):  # type: ignore[no-untyped-def]
    """Axes, as bits, that must stay fixed at entry t for all entries that agree to be −∞."""
    fixed = (np.uint64(1) << np.uint64(axes)) - np.uint64(1)
    for a in range(axes):
        fewer = fixed & ~(np.uint64(1) << np.uint64(a))
        forbidden = True
        for s in range(entries):
            if value[s] > -np.inf and _agrees(digit, s, t, fewer, axes):
                forbidden = False
                break
        if forbidden:
            fixed = fewer
    return fixed


@inner
def _agrees(digit, s, t, fixed, axes):  # type: ignore[no-untyped-def]
    for a in range(axes):
        if (fixed >> np.uint64(a)) & np.uint64(1) and digit[s, a] != digit[t, a]:
            return False
    return True
