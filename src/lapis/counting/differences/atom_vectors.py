"""The difference vector of a ground atom, as a function of few numbers that classify its arguments.

The terms of `difference_terms` are products of groups, each a function of some
argument positions whose values are sparse vectors over plus variables (numbers, without them).
All groups of the same positions make one integer-valued `Function`: the number of the combination
of their values. The tuple of these numbers is the atom's signature, and determines its vector

    d(g)[w] = Σ_terms coefficient · Π_groups G(g's arguments)[plus constants of w].

Vectors are computed once for each distinct signature.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lapis.counting.differences.argument_classes import Function, look_up
from lapis.counting.differences.difference_terms import Term
from lapis.counting.differences.sparse_vectors import (
    SparseVectors,
    add_entries,
    number_vectors,
    place_vectors,
    stack_vectors,
)
from lapis.counting.weight_keys import WeightKey
from lapis.data.keys import number_rows, pack
from lapis.relational.factor import Factor, multiply, sort_rows

EMPTY_VECTOR = SparseVectors(np.zeros(2, np.int64), np.empty(0, np.int64), np.empty(0, np.int64))


class _Group(NamedTuple):
    """A factor as a function of positions with values among numbered vectors; 0 is the empty one.

    A vector's column is the mixed-radix value of its constants of `plus`.
    """

    positions: tuple[int, ...]
    rows: np.ndarray  # int32[num_rows, len(positions)], unique
    vector: np.ndarray  # int64[num_rows]
    plus: tuple[str, ...]
    vectors: SparseVectors


class Part(NamedTuple):
    """A term's group: the function that its value is read off, and the table to read it."""

    function: int  # −1 for a group without positions
    vector_of: np.ndarray  # int64[largest function value + 1]
    plus: tuple[str, ...]
    vectors: SparseVectors


@dataclass(frozen=True)
class AtomVectors:
    """Difference vectors of all atoms of a predicate."""

    functions: tuple[Function, ...]
    terms: tuple[tuple[int, tuple[Part, ...], WeightKey], ...]

    def at_signatures(self, signatures: np.ndarray) -> SparseVectors:
        """The vector of each signature int64[n, num_functions]."""
        num_signatures = len(signatures)
        every, parts_found = np.arange(num_signatures), []
        for coefficient, parts, key in self.terms:
            chosen = [
                part.vector_of[signatures[:, part.function]]
                if part.function >= 0
                else np.ones(num_signatures, np.int64)
                for part in parts
            ]
            first, number = number_rows(chosen, num_signatures)
            product = _multiply(coefficient, parts, [column[first] for column in chosen], key)
            start = np.searchsorted(product.column("@row"), np.arange(len(first) + 1))
            weight = key.offset + _pack(product, key.plus, key.shape)
            parts_found.append((every, SparseVectors(start, weight, product.value).take(number)))
        return place_vectors(num_signatures, parts_found)

    def at_rows(self, atoms: np.ndarray) -> SparseVectors:
        """The vector of each atom int32[n, arity]."""
        columns = [look_up(function, atoms) for function in self.functions]
        first, number = number_rows(columns, len(atoms))
        distinct = np.empty((len(first), len(columns)), np.int64)
        for position, column in enumerate(columns):
            distinct[:, position] = column[first]
        return self.at_signatures(distinct).take(number)


def build_atom_vectors(
    when_false: Sequence[Term], when_true: Sequence[Term], positions: tuple[str, ...]
) -> tuple[AtomVectors, AtomVectors]:
    """Numbers the values of the terms' groups, for false and for true atoms.

    Factors are told apart by identity: terms that were evaluated once share them.
    """
    groups: dict[int, _Group] = {}
    for term in (*when_false, *when_true):
        for factor in term.groups:
            if id(factor) not in groups:
                groups[id(factor)] = _number_group(factor, positions, term.key)
    vectors = _build(when_false, groups)
    return vectors, vectors if when_false == when_true else _build(when_true, groups)


def _build(terms: Sequence[Term], groups: Mapping[int, _Group]) -> AtomVectors:
    by_positions: dict[tuple[int, ...], dict[int, _Group]] = {}
    for term in terms:
        for factor in term.groups:
            group = groups[id(factor)]
            by_positions.setdefault(group.positions, {})[id(factor)] = group
    functions: list[Function] = []
    parts: dict[int, Part] = {}
    for axes, members in by_positions.items():
        if axes:
            function, tables = _combine(axes, list(members.values()))
            number = len(functions)
            functions.append(function)
        else:
            number, tables = -1, [np.arange(2) for _ in members]
        for (name, group), table in zip(members.items(), tables, strict=True):
            parts[name] = Part(number, table, group.plus, group.vectors)
    return AtomVectors(
        tuple(functions),
        tuple(
            (term.coefficient, tuple(parts[id(factor)] for factor in term.groups), term.key)
            for term in terms
        ),
    )


def _number_group(factor: Factor, positions: tuple[str, ...], key: WeightKey) -> _Group:
    axes = tuple(number for number, name in enumerate(positions) if name in factor.variables)
    plus = tuple(name for name in key.plus if name in factor.variables)
    shape = tuple(size for name, size in zip(key.plus, key.shape, strict=True) if name in plus)
    points = factor.columns([positions[number] for number in axes])
    columns = [points[:, column] for column in range(len(axes))]
    first, row = number_rows(columns, len(points))
    vectors = add_entries(len(first), row, _pack(factor, plus, shape), factor.value)
    some, number = number_vectors(vectors)
    return _Group(
        axes, points[first], number + 1, plus, stack_vectors([EMPTY_VECTOR, vectors.take(some)])
    )


def _combine(axes: tuple[int, ...], groups: Sequence[_Group]) -> tuple[Function, list[np.ndarray]]:
    """One function for all groups of the same positions, and for each group its vector by value."""
    points = np.concatenate([group.rows for group in groups])
    first, row = number_rows([points[:, column] for column in range(len(axes))], len(points))
    columns = []
    begin = 0
    for group in groups:
        column = np.zeros(len(first), np.int64)
        column[row[begin : begin + len(group.rows)]] = group.vector
        columns.append(column)
        begin += len(group.rows)
    some, number = number_rows(columns, len(first))
    function = Function(axes, points[first], number + 1)
    return function, [np.concatenate([[0], column[some]]) for column in columns]


def _multiply(
    coefficient: int, parts: Sequence[Part], chosen: Sequence[np.ndarray], key: WeightKey
) -> Factor:
    """coefficient · Π parts as a factor over "@row" and the plus variables, sorted by row."""
    num_rows = len(chosen[0]) if chosen else 1
    sizes = {"@row": num_rows, **dict(zip(key.plus, key.shape, strict=True))}
    rows = np.arange(num_rows, dtype=np.int32)[:, None]
    product = Factor(("@row",), rows, np.ones(num_rows, np.int64)).scale(coefficient)
    for part, column in zip(parts, chosen, strict=True):
        picked = part.vectors.take(column)
        shape = [sizes[name] for name in part.plus]
        digits = np.unravel_index(picked.column, shape) if shape else ()
        columns = [picked.row, *digits]
        values = np.stack(columns, axis=1).astype(np.int32)
        product = multiply(product, Factor(("@row", *part.plus), values, picked.value))
    return sort_rows(product.reorder(("@row", *key.plus)))


def _pack(factor: Factor, variables: tuple[str, ...], shape: tuple[int, ...]) -> np.ndarray:
    """int64[num_rows], the key of the variables' constants."""
    return pack([factor.column(name) for name in variables], shape, len(factor))
