"""Tables over a few variables as clauses with non-negative weights.

A table f of logarithms is a sum of products of indicators (a Möbius transform), with a reference
state for each variable (false, none, or the last candidate of a block):

    f(x) = Σ_t J(t)·Π_{v: t_v ≠ reference} [x_v = t_v]

J is zero if variables do not interact, so tables of pairs give pairs, and terms of several tables
over the same atoms add up. Then, from the longest products a₁…a_k to the shortest,

    J < 0:   J·Πa = J + |J|·[¬a₁ ∨ … ∨ ¬a_k]
    J > 0:   J·Πa = −J + J·[¬a₁ ∨ … ∨ ¬a_{k−1} ∨ a_k] + J·Π_{i<k} a_i

Either atom of a pair may be a_k, and the other one gets the unit clause. It is chosen so that unit
clauses stay small. With a fixed order fifty atoms coupled to be equal had unit clauses of ±20 that
only the pairs cancel; MC-SAT keeps those in every slice, and its chains never moved.

Entries of −∞ become hard clauses, each for the largest cube of −∞ entries around it, and J is taken
as zero there. One clause for each state gave three clauses a pair instead of one.
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

ROUNDING = 64 * np.finfo(np.float64).eps  # relative size of rounding errors


class Products(NamedTuple):
    """Products of several atoms, hard clauses, and a constant."""

    constant: float
    # By their number of atoms: int32[num_rows, length] of atom + 1, and J, float64[num_rows].
    rows: dict[int, tuple[np.ndarray, np.ndarray]]
    hard_start: np.ndarray  # int64[num_hard + 1]
    hard_literal: np.ndarray  # int32[...]


def expand_messages(
    tree: JunctionTree, message: np.ndarray, variables: Variables, unit: np.ndarray
) -> Products:
    """Return the products of all messages that leave the tree.

    Products of one atom are added to `unit`, float64[num_atoms].
    """
    constant = float(message[tree.message_start[np.flatnonzero(tree.parent == ROOT)]].sum())
    leaving = np.flatnonzero(tree.parent == CORE)
    tables = (
        leaving, tree.scope_start, tree.scope_variable, tree.message_start, message,
        variables.size, variables.state_start, variables.state_atom,
        allocate_digits(tree, leaving),
    )  # fmt: skip
    offset, start, literal, product = _expand_products(*tables, unit)
    rows = {
        length: (literal[start[:-1][chosen, None] + np.arange(length)], product[chosen])
        for length in np.unique(np.diff(start)).tolist()
        for chosen in [np.diff(start) == length]
    }
    return Products(constant + offset, rows, *_expand_hard(*tables))


def product_clauses(
    parts: Sequence[Products], unit: np.ndarray, weight_id: int
) -> tuple[ComponentClauses, float]:
    """Return clauses and a constant equivalent to products and single atoms, which are consumed.

    Soft clauses have the given weight id, of weight 1, and their strength as coefficient.
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
    """Join rows of one length and their strengths."""
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([rows for rows, _ in parts]), np.concatenate([each for _, each in parts])


def merge_products(rows: np.ndarray, strength: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum equal rows, int32[num_rows, length] of atom + 1; drop those that cancel."""
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
    """Put the atom with smaller unit clauses first in each pair; it gets the pair's unit clause.

    Both atoms get one half beforehand, so that the order of pairs matters less.
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


class EntryDigits(NamedTuple):
    """Work space of one table: its axes and entries."""

    stride: np.ndarray  # int64[most axes]
    reference: np.ndarray  # int64[most axes], the reference state of each axis
    digit: np.ndarray  # int64[most entries, most axes], the state of each axis in an entry
    support: np.ndarray  # uint64[most entries], bits of the axes away from their reference


def allocate_digits(tree: JunctionTree, leaving: np.ndarray) -> EntryDigits:
    """Allocate the work space for the largest of the leaving messages."""
    axes = int((tree.scope_start[leaving + 1] - tree.scope_start[leaving]).max(initial=0))
    entries = int((tree.message_start[leaving + 1] - tree.message_start[leaving]).max(initial=1))
    return EntryDigits(
        np.empty(axes, np.int64),
        np.empty(axes, np.int64),
        np.empty((entries, axes), np.int64),
        np.empty(entries, np.uint64),
    )


@inner
def _number_entries(scope, entries, size, state_start, state_atom, digits):  # type: ignore[no-untyped-def]
    """Fill the work space for one table."""
    step = 1
    for a in range(len(scope) - 1, -1, -1):
        digits.stride[a] = step
        step *= size[scope[a]]
        plain = state_atom[state_start[scope[a]]] < 0
        digits.reference[a] = 0 if plain else size[scope[a]] - 1
    for t in range(entries):
        digits.support[t] = 0
        for a in range(len(scope)):
            digits.digit[t, a] = t // digits.stride[a] % size[scope[a]]
            if digits.digit[t, a] != digits.reference[a]:
                digits.support[t] |= np.uint64(1) << np.uint64(a)


@allocating_entry
def _expand_products(  # type: ignore[no-untyped-def]
    leaving, scope_start, scope_variable, message_start, message, size, state_start, state_atom,
    digits, unit,
):  # fmt: skip
    """Return the constant and the longer products of all tables; add single atoms to `unit`."""
    constant = 0.0
    room, room_literals = 0, 0
    for i in leaving:
        entries = message_start[i + 1] - message_start[i]
        room += entries
        room_literals += entries * (scope_start[i + 1] - scope_start[i])
    start = np.zeros(room + 1, np.int64)
    literal = np.empty(room_literals, np.int32)
    product = np.empty(room)
    num_rows = 0
    term = np.empty(len(digits.support))
    for i in leaving:
        scope = scope_variable[scope_start[i] : scope_start[i + 1]]
        value = message[message_start[i] : message_start[i + 1]]
        _number_entries(scope, len(value), size, state_start, state_atom, digits)
        _transform(value, len(value), len(scope), digits, term)
        scale = 0.0
        for number in value:
            scale = max(scale, abs(number) if number > -np.inf else 0.0)
        for t in range(len(value)):
            if digits.support[t] == 0:
                constant += term[t]
            elif abs(term[t]) > ROUNDING * scale:
                begin = start[num_rows]
                end = _write_product(literal, begin, t, scope, state_start, state_atom, digits)
                if end == begin + 1:
                    unit[literal[begin] - 1] += term[t]
                else:
                    product[num_rows] = term[t]
                    num_rows += 1
                    start[num_rows] = end
    return (
        constant,
        start[: num_rows + 1].copy(),
        literal[: start[num_rows]].copy(),
        product[:num_rows].copy(),
    )


@inner
def _write_product(literal, place, t, scope, state_start, state_atom, digits):  # type: ignore[no-untyped-def]
    """Write the atoms of a product; return the end."""
    for a in range(len(scope)):
        if digits.digit[t, a] != digits.reference[a]:
            literal[place] = state_atom[state_start[scope[a]] + digits.digit[t, a]] + 1
            place += 1
    return place


@allocating_entry
def _expand_hard(  # type: ignore[no-untyped-def]
    leaving, scope_start, scope_variable, message_start, message, size, state_start, state_atom,
    digits,
):  # fmt: skip
    """Return the hard clauses of all tables: CSR rows of literals."""
    start = np.zeros(16, np.int64)
    literal = np.empty(16, np.int32)
    num_hard = 0
    covered = np.empty(len(digits.support), np.bool_)
    most_literals = len(digits.stride) * (size.max() if len(size) else 0)
    for i in leaving:
        value = message[message_start[i] : message_start[i + 1]]
        if value.min() > -np.inf:
            continue
        scope = scope_variable[scope_start[i] : scope_start[i + 1]]
        entries, axes = len(value), len(scope)
        _number_entries(scope, entries, size, state_start, state_atom, digits)
        covered[:entries] = False
        for t in range(entries):
            if value[t] > -np.inf or covered[t]:
                continue
            fixed = _widest_cube(value, entries, axes, digits.digit, t)
            for s in range(entries):
                covered[s] = covered[s] or _agrees(digits.digit, s, t, fixed, axes)
            place = start[num_hard]
            while place + most_literals > len(literal):
                literal = np.concatenate((literal, literal))
            for a in range(axes):
                if (fixed >> np.uint64(a)) & np.uint64(1):
                    states = state_atom[
                        state_start[scope[a]] : state_start[scope[a]] + size[scope[a]]
                    ]
                    place = _write_exclusion(literal, place, states, digits.digit[t, a])
            num_hard += 1
            if num_hard == len(start):
                start = np.concatenate((start, start))
            start[num_hard] = place
    return start[: num_hard + 1].copy(), literal[: start[num_hard]].copy()


@inner
def _write_exclusion(literal, place, atoms, state):  # type: ignore[no-untyped-def]
    """Write the literals of the condition that a variable is not in a state; return the end."""
    if atoms[state] >= 0:
        literal[place] = -(atoms[state] + 1)
        return place + 1
    for atom in atoms:
        if atom >= 0:
            literal[place] = atom + 1
            place += 1
    return place


@inner
def _transform(value, entries, axes, digits, term):  # type: ignore[no-untyped-def]
    """Fill J(t) = f(t) − Σ_{u below t} J(u), shorter supports first; 0 if f(t) = −∞."""
    support = digits.support
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
                    state = digits.digit[t, a] if inside else digits.reference[a]
                    u += digits.stride[a] * state
                below += term[u]
            term[t] = value[t] - below if value[t] > -np.inf else 0.0
            if length == 0 and value[t] == -np.inf:
                # A forbidden reference may have any value; a nearby one leaves fewer terms.
                term[t] = _shortest_possible(value, entries, support)


@inner
def _shortest_possible(value, entries, support):  # type: ignore[no-untyped-def]
    """Return the value of a possible entry with the fewest variables away from their reference."""
    best = -1
    for t in range(entries):
        if value[t] > -np.inf and (best < 0 or popcount(support[t]) < popcount(support[best])):
            best = t
    return value[best]


@inner
def _widest_cube(value, entries, axes, digit, t):  # type: ignore[no-untyped-def]
    """Return axes, as bits, to keep fixed at entry t so that all agreeing entries are −∞."""
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
    """Return whether two entries agree on the fixed axes."""
    for a in range(axes):
        if (fixed >> np.uint64(a)) & np.uint64(1) and digit[s, a] != digit[t, a]:
            return False
    return True
