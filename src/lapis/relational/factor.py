"""Sparse factors over logical variables, and the exact algebra on them.

A factor maps assignments of its variables to integers; assignments without a row have value 0.
A relation is the factor that is 1 on its true tuples. Counting needs two operations,

    join_factors(f, g, keep)   Σ over the variables not in keep of f·g
    project_factor(f, keep)    Σ over the variables not in keep of f

and filters on rows. Rows are matched through packed keys (`data.keys`). Products are summed without
being listed, exactly at any size (`exact_sums`, `factor_kernel`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lapis.data.keys import fits, pack, share_keys, unpack
from lapis.errors import TooLarge
from lapis.relational.exact_sums import (
    MAX_SUMS,
    SAFE,
    Runs,
    Side,
    is_dense,
    list_pairs,
    match_runs,
    multiply_exactly,
    narrow_integers,
    products_fit,
    sum_dense,
    sum_exactly,
    sum_magnitudes,
    sum_onto,
    sum_products,
)

MAX_PAIRS = 200_000_000  # listed rows of one join, about 6 GB


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """Integer values of the assignments in `rows`, 0 elsewhere. Rows are unique."""

    variables: tuple[str, ...]
    rows: np.ndarray  # int32[num_rows, num_variables]
    value: np.ndarray  # int64[num_rows]; object (Python ints) if 64 bits do not suffice

    def __len__(self) -> int:
        return len(self.value)

    def column(self, variable: str) -> np.ndarray:
        """Return int32[num_rows], the variable's constant in each row."""
        return self.rows[:, self.variables.index(variable)]

    def columns(self, variables: Sequence[str]) -> np.ndarray:
        """Return int32[num_rows, len(variables)], the variables' constants in each row."""
        if tuple(variables) == self.variables:
            return self.rows
        return self.rows[:, [self.variables.index(name) for name in variables]]

    def take(self, index: np.ndarray | slice) -> Factor:
        """Select rows by a mask, by positions or by a slice."""
        return Factor(self.variables, self.rows[index], self.value[index])

    def reorder(self, variables: tuple[str, ...]) -> Factor:
        """Return the factor with its variables in another order."""
        return Factor(variables, self.columns(variables), self.value)

    def scale(self, number: int) -> Factor:
        """Return number · factor."""
        if number == 1:
            return self
        times = narrow_integers(np.array([number], dtype=object))
        return Factor(self.variables, self.rows, multiply_exactly(self.value, times))

    def total(self) -> int:
        """Return Σ of all values."""
        return sum_exactly(self.value)


class JoinTooLarge(TooLarge):
    """A join that does not fit in memory; a slice of one of its variables may fit."""

    def __init__(self, variables: tuple[str, ...], excess: str) -> None:
        super().__init__(
            f"a join over {', '.join(variables)} would {excess} allowed in memory",
            code="count-too-large",
            hint="count approximately, or write the formula with fewer unconnected variables",
        )
        self.variables = variables


def indicator_factor(variables: tuple[str, ...], rows: np.ndarray) -> Factor:
    """Return the factor that is 1 on the given distinct rows."""
    return Factor(variables, rows, np.ones(len(rows), np.int64))


def constant_factor(value: int) -> Factor:
    """Return a number as the factor over no variables."""
    return Factor((), np.empty((1, 0), np.int32), narrow_integers(np.array([value], dtype=object)))


ONE = constant_factor(1)


def multiply_factors(left: Factor, right: Factor) -> Factor:
    """Return the product, over the variables of both."""
    extra = tuple(name for name in right.variables if name not in left.variables)
    return join_factors(left, right, left.variables + extra)


def project_factor(factor: Factor, keep: tuple[str, ...]) -> Factor:
    """Sum over the variables not in `keep`; the result's variables are `keep`, in that order."""
    if len(keep) == len(factor.variables):
        return factor.reorder(keep)
    columns = [factor.column(name) for name in keep]
    radix = [int(column.max(initial=0)) + 1 for column in columns]
    if is_dense(math.prod(radix), len(factor)) and sum_magnitudes(factor.value) < SAFE:
        key, value = sum_dense(pack(columns, radix, len(factor)), factor.value, math.prod(radix))
        return Factor(keep, unpack(key, radix), value)
    return join_factors(factor, ONE, keep)


def join_factors(left: Factor, right: Factor, keep: tuple[str, ...]) -> Factor:
    """Compute Σ over the variables not in `keep` of left·right; its variables are `keep`."""
    right, runs = _align(left, right)
    return join_runs(left, right, runs, keep)


def join_runs(left: Factor, right: Factor, runs: Runs, keep: tuple[str, ...]) -> Factor:
    """Join as `join_factors`, given the runs of rows of `right` that match each row of `left`."""
    if len(keep) == len({*left.variables, *right.variables}):
        return _list_pairs(left, right, runs, keep)
    radix = [
        int((left if name in left.variables else right).column(name).max(initial=0)) + 1
        for name in keep
    ]
    if not fits(radix):
        extra = tuple(name for name in right.variables if name not in left.variables)
        pairs = _list_pairs(left, right, runs, left.variables + extra)
        return _group_by_sorting(pairs, keep)
    sides = _join_sides(left, right, keep, radix)
    found = sum_products(runs, *sides, radix)
    if found is None:
        raise JoinTooLarge(keep, f"have more than the {MAX_SUMS:,} sums")
    return Factor(keep, unpack(found[0], radix), found[1])


def join_onto(left: Factor, right: Factor, target: Factor) -> Factor:
    """Compute target · Σ left·right, summed over the variables that `target` lacks.

    Every variable of `target` must occur in one of the others. Only sums at rows of `target` are
    stored, so closing a cycle of three large relations needs no memory for the open paths.
    """
    right, runs = _align(left, right)
    radix = [
        1 + max(int(part.column(name).max(initial=0)) for part in (target, holder))
        for name in target.variables
        for holder in [left if name in left.variables else right]
    ]
    if not fits(radix) or not products_fit(runs, left.value, right.value):
        return multiply_factors(join_factors(left, right, target.variables), target)
    sides = _join_sides(left, right, target.variables, radix)
    wanted = pack(list(target.rows.T), radix, len(target))
    sums = sum_onto(runs, *sides, wanted)
    found = Factor(target.variables, target.rows, multiply_exactly(sums, target.value))
    return found.take(sums != 0)


def anti_join(factor: Factor, other: Factor) -> Factor:
    """Keep the rows of `factor` that agree with no row of `other` on the shared variables."""
    return factor.take(~_match_rows(factor, other))


def select_tuples(variables: tuple[str | int, ...], rows: np.ndarray) -> Factor:
    """Return the indicator of an atom: integers are constants; a repeated name must be equal."""
    matches: list[np.ndarray] = []
    first: dict[str, int] = {}
    for position, term in enumerate(variables):
        if isinstance(term, int):
            matches.append(rows[:, position] == term)
        elif term in first:
            matches.append(rows[:, position] == rows[:, first[term]])
        else:
            first[term] = position
    if matches:
        rows = rows[np.logical_and.reduce(matches)][:, list(first.values())]
    return indicator_factor(tuple(first), rows)


def sort_rows(factor: Factor) -> Factor:
    """Sort rows lexicographically and drop zeros."""
    if not factor.value.all():
        factor = factor.take(factor.value != 0)
    if len(factor) < 2:
        return factor
    (key,) = share_keys(factor.rows.T).parts
    return factor if (key[1:] > key[:-1]).all() else factor.take(np.argsort(key))


def add_factors(variables: tuple[str, ...], parts: Sequence[Factor]) -> Factor:
    """Add factors over the same variables."""
    parts = [indicator_factor(variables, np.empty((0, len(variables)), np.int32)), *parts]
    rows = np.concatenate([part.columns(variables) for part in parts])
    value = np.concatenate([part.value for part in parts])
    return _group_by_sorting(Factor(variables, rows, value), variables)


def _align(left: Factor, right: Factor) -> tuple[Factor, Runs]:
    """Sort `right` by the shared variables, and find the run that matches each row of `left`."""
    shared = [name for name in left.variables if name in right.variables]
    if not shared:
        start = np.zeros(len(left), np.int64)
        return right, Runs(start, np.full(len(left), len(right), np.int64))
    keys = share_keys(left.columns(shared).T, right.columns(shared).T)
    order, runs = match_runs(keys.parts[0], keys.parts[1], keys.space)
    return right.take(order), runs


def _join_sides(
    left: Factor, right: Factor, keep: tuple[str, ...], radix: list[int]
) -> tuple[Side, Side]:
    """Return the part of the packed `keep` key that each factor contributes, with its values."""
    from_left = [left.column(name) if name in left.variables else None for name in keep]
    from_right = [None if name in left.variables else right.column(name) for name in keep]
    return (
        Side(pack(from_left, radix, len(left)), left.value),
        Side(pack(from_right, radix, len(right)), right.value),
    )


def _list_pairs(left: Factor, right: Factor, runs: Runs, keep: tuple[str, ...]) -> Factor:
    """Multiply without summing: the rows of the pairs are distinct."""
    num_pairs = runs.num_pairs
    if num_pairs > MAX_PAIRS:
        raise JoinTooLarge(keep, f"list {num_pairs:,} rows, more than the {MAX_PAIRS:,}")
    rows = np.empty((num_pairs, len(keep)), np.int32, order="F")
    are_indicators = bool((left.value == 1).all() and (right.value == 1).all())
    values: list[np.ndarray] = []
    first = 0
    for block in runs.blocks():
        left_index, right_index = list_pairs(runs.take(block))
        left_index += block.start
        part = slice(first, first + len(left_index))
        for position, name in enumerate(keep):
            if name in left.variables:
                rows[part, position] = left.column(name)[left_index]
            else:
                rows[part, position] = right.column(name)[right_index]
        if not are_indicators:
            values.append(multiply_exactly(left.value[left_index], right.value[right_index]))
        first = part.stop
    if are_indicators or not values:
        return indicator_factor(keep, rows)
    return Factor(keep, rows, np.concatenate(values))


def _group_by_sorting(factor: Factor, keep: tuple[str, ...]) -> Factor:
    """Project as `project_factor` does, for keys beyond 63 bits."""
    rows = factor.columns(keep)
    order = np.argsort(share_keys(rows.T).parts[0]) if keep else np.arange(len(rows))
    rows = rows[order]
    if len(rows) == 0:
        return Factor(keep, rows, factor.value[:0])
    first = np.ones(len(rows), bool)
    first[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    value = factor.value[order]
    if sum_magnitudes(value) >= SAFE:
        value = value.astype(object)
    begin = np.flatnonzero(first)
    summed = Factor(keep, rows[begin], narrow_integers(np.add.reduceat(value, begin)))
    return summed.take(summed.value != 0)


def _match_rows(factor: Factor, other: Factor) -> np.ndarray:
    shared = [name for name in factor.variables if name in other.variables]
    if not shared:
        return np.full(len(factor), bool(len(other)))
    keys = share_keys(factor.columns(shared).T, other.columns(shared).T)
    key, known = keys.parts
    found: np.ndarray
    if keys.space > 4 * (len(key) + len(known)) + 1024:
        found = np.isin(key, known)
    else:
        present = np.zeros(keys.space, bool)
        present[known] = True
        found = present[key]
    return found
