"""Sparse factors over logical variables, and the exact algebra on them.

A factor maps assignments of its variables to integers; assignments without a row have value 0.
A relation is the factor that is 1 on its true tuples. All counting is done with two operations,

    join(f, g, keep)   Σ over the variables not in keep of f·g
    project(f, keep)   Σ over the variables not in keep of f

and with filters on rows. Rows are matched through keys packed into one int64 (mixed radix over
the columns' ranges); where 63 bits do not hold the key, rows are numbered by sorting instead.

Values are int64 as long as a bound on Σ|f|·|g|, taken in floating point beforehand, shows that
nothing can overflow. Otherwise they are split into digits small enough for the same kernels, and
the digit sums are put together as Python integers: counts of any size are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_SAFE = 2.0**62  # float estimates below this leave room for their rounding
_DENSE = 1 << 24  # largest dense table of sums, 128 MB


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """Integer values of the assignments in `rows`, 0 elsewhere. Rows are unique."""

    variables: tuple[str, ...]
    rows: np.ndarray  # int32[num_rows, num_variables]
    value: np.ndarray  # int64[num_rows]; object (Python ints) where 64 bits do not suffice

    def __len__(self) -> int:
        return len(self.value)

    def column(self, variable: str) -> np.ndarray:
        """int32[num_rows], the variable's constant in each row."""
        column: np.ndarray = self.rows[:, self.variables.index(variable)]
        return column

    def columns(self, variables: Sequence[str]) -> np.ndarray:
        """int32[num_rows, len(variables)], the variables' constants in each row."""
        if tuple(variables) == self.variables:
            return self.rows
        columns: np.ndarray = self.rows[:, [self.variables.index(name) for name in variables]]
        return columns

    def take(self, index: np.ndarray) -> Factor:
        """The rows that `index`, a mask or positions, selects."""
        return Factor(self.variables, self.rows[index], self.value[index])

    def rename(self, variables: tuple[str, ...]) -> Factor:
        return Factor(variables, self.rows, self.value)

    def total(self) -> int:
        """Σ of all values."""
        return sum_exactly(self.value)


def indicator(variables: tuple[str, ...], rows: np.ndarray) -> Factor:
    """1 on the given distinct rows."""
    return Factor(variables, rows, np.ones(len(rows), np.int64))


def scalar(value: int) -> Factor:
    """A number, as the factor over no variables."""
    return Factor((), np.empty((1, 0), np.int32), narrow(np.array([value], dtype=object)))


def sum_exactly(value: np.ndarray) -> int:
    """Σ value as a Python integer."""
    if value.dtype != object and _magnitude(value) < _SAFE:
        return int(value.sum())
    return sum(value.tolist())


def multiply(left: Factor, right: Factor) -> Factor:
    """The product, over the variables of both."""
    extra = tuple(name for name in right.variables if name not in left.variables)
    return join(left, right, left.variables + extra)


def sum_out(factor: Factor, variables: Sequence[str]) -> Factor:
    """Σ over `variables` of the factor."""
    return project(factor, tuple(name for name in factor.variables if name not in variables))


def project(factor: Factor, keep: tuple[str, ...]) -> Factor:
    """Σ over the variables not in `keep`; the result's variables are `keep`, in that order."""
    if len(keep) == len(factor.variables):
        return Factor(keep, factor.columns(keep), factor.value)
    return join(factor, scalar(1), keep)


def join(left: Factor, right: Factor, keep: tuple[str, ...]) -> Factor:
    """Σ over the variables not in `keep` of left·right; variables `keep`, in that order."""
    shared = [name for name in left.variables if name in right.variables]
    match_left, match_right = _shared_keys(left.columns(shared), right.columns(shared))
    order = np.argsort(match_right, kind="stable")
    right = right.take(order)
    match_right = match_right[order]
    start = np.searchsorted(match_right, match_left, "left")
    stop = np.searchsorted(match_right, match_left, "right")
    if len(keep) == len(left.variables) + len(right.variables) - len(shared):
        return _all_pairs(left, right, start, stop, keep)

    radix = _ranges(left, right, keep)
    parts = _parts(left, keep, radix, ()), _parts(right, keep, radix, left.variables)
    if parts[0] is None or parts[1] is None:
        wide = (*left.variables, *(name for name in right.variables if name not in shared))
        return _group_by_sorting(_all_pairs(left, right, start, stop, wide), keep)
    key, value = _sum_products(start, stop, (parts[0], left.value), (parts[1], right.value), radix)
    return Factor(keep, _unpack(key, radix), value)


def semi_join(factor: Factor, other: Factor) -> Factor:
    """The rows of `factor` that agree with some row of `other` on the variables they share."""
    return factor.take(_matches(factor, other))


def anti_join(factor: Factor, other: Factor) -> Factor:
    """The rows of `factor` that agree with no row of `other` on the variables they share."""
    return factor.take(~_matches(factor, other))


def select(variables: tuple[str | int, ...], rows: np.ndarray) -> Factor:
    """The indicator of an atom: an int is a constant to match, a repeated name a diagonal."""
    chosen = np.ones(len(rows), bool)
    first: dict[str, int] = {}
    for position, term in enumerate(variables):
        if isinstance(term, int):
            chosen &= rows[:, position] == term
        elif term in first:
            chosen &= rows[:, position] == rows[:, first[term]]
        else:
            first[term] = position
    kept = rows if chosen.all() else rows[chosen]
    return indicator(tuple(first), kept[:, list(first.values())])


def sort_rows(factor: Factor) -> Factor:
    """The same factor with rows in lexicographic order and without zeros."""
    factor = factor.take(factor.value != 0)
    if not factor.variables:
        return factor
    return factor.take(np.lexsort(factor.rows.T[::-1]))


def narrow(value: np.ndarray) -> np.ndarray:
    """Python integers as int64 if all of them fit."""
    if value.dtype != object:
        return value
    if all(-(2**63) < number < 2**63 for number in value.tolist()):
        return value.astype(np.int64)
    return value


def add_rows(variables: tuple[str, ...], parts: Sequence[Factor]) -> Factor:
    """Σ of factors over the same variables."""
    rows = np.concatenate([part.columns(variables) for part in parts])
    value = np.concatenate([part.value for part in parts])
    return _group_by_sorting(Factor(variables, rows, value), variables)


def _all_pairs(
    left: Factor, right: Factor, start: np.ndarray, stop: np.ndarray, keep: tuple[str, ...]
) -> Factor:
    """The product when nothing is summed out: the pairs' rows are distinct as they come."""
    from lapis.counting.join import expand_pairs

    num_pairs = int((stop - start).sum())
    left_index = np.empty(num_pairs, np.int64)
    right_index = np.empty(num_pairs, np.int64)
    expand_pairs(start, stop, left_index, right_index)
    rows = np.empty((num_pairs, len(keep)), np.int32)
    for position, name in enumerate(keep):
        if name in left.variables:
            rows[:, position] = left.column(name)[left_index]
        else:
            rows[:, position] = right.column(name)[right_index]
    if _largest(left.value) * _largest(right.value) < _SAFE:
        value = left.value[left_index] * right.value[right_index]
    else:
        value = left.value.astype(object)[left_index] * right.value.astype(object)[right_index]
    return Factor(keep, rows, value)


def _sum_products(
    start: np.ndarray,
    stop: np.ndarray,
    left: tuple[np.ndarray, np.ndarray],  # part of the output key and value of each row
    right: tuple[np.ndarray, np.ndarray],
    radix: list[int],
) -> tuple[np.ndarray, np.ndarray]:
    """Output keys in increasing order and Σ left·right for each, without zeros."""
    num_pairs = int((stop - start).sum())
    if _fits(start, stop, left[1], right[1]):
        return _sum_small_products(start, stop, left, right, radix, num_pairs)

    # Digits of b bits: num_pairs · 2^(2b) stays below 2^62.
    bits = max(1, (62 - num_pairs.bit_length()) // 2)
    keys: list[np.ndarray] = []
    sums: list[np.ndarray] = []
    for left_shift, left_digit in _digits(left[1], bits):
        for right_shift, right_digit in _digits(right[1], bits):
            key, value = _sum_small_products(
                start, stop, (left[0], left_digit), (right[0], right_digit), radix, num_pairs
            )
            keys.append(key)
            sums.append(value.astype(object) * (1 << (left_shift + right_shift)))
    key, group = np.unique(np.concatenate(keys), return_inverse=True)
    total = np.zeros(len(key), dtype=object)
    np.add.at(total, group, np.concatenate(sums))
    return key, narrow(total)


def _sum_small_products(
    start: np.ndarray,
    stop: np.ndarray,
    left: tuple[np.ndarray, np.ndarray],
    right: tuple[np.ndarray, np.ndarray],
    radix: list[int],
    num_pairs: int,
) -> tuple[np.ndarray, np.ndarray]:
    from lapis.counting.join import accumulate_dense, accumulate_hashed

    space = 1
    for size in radix:
        space *= size
    if space <= min(_DENSE, 16 * num_pairs + 4096):
        table = np.zeros(space, np.int64)
        accumulate_dense(start, stop, *left, *right, table)
        key = np.flatnonzero(table)
        return key, table[key]
    capacity = 1 << min(20, max(6, num_pairs.bit_length()))
    key, value = accumulate_hashed(start, stop, *left, *right, capacity)
    order = np.argsort(key)
    order = order[value[order] != 0]
    return key[order], value[order]


def _digits(value: np.ndarray, bits: int) -> list[tuple[int, np.ndarray]]:
    """(shift, digit) with value = Σ digit·2^shift and |digit| < 2^bits; at least one."""
    numbers = value.tolist()
    length = max((abs(number).bit_length() for number in numbers), default=0)
    mask = (1 << bits) - 1
    return [
        (
            shift,
            np.array(
                [
                    (number >> shift) & mask if number >= 0 else -((-number >> shift) & mask)
                    for number in numbers
                ],
                np.int64,
            ),
        )
        for shift in range(0, max(length, 1), bits)
    ]


def _group_by_sorting(factor: Factor, keep: tuple[str, ...]) -> Factor:
    """`project` without packed keys, for keys beyond 63 bits."""
    rows = factor.columns(keep)
    order = np.lexsort(rows.T[::-1]) if keep else np.arange(len(rows))
    rows = rows[order]
    if len(rows) == 0:
        return Factor(keep, rows, factor.value[:0])
    first = np.ones(len(rows), bool)
    first[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    value = factor.value[order]
    if value.dtype == object or _magnitude(value) >= _SAFE:
        value = value.astype(object)
    begin = np.flatnonzero(first)
    summed = Factor(keep, rows[begin], narrow(np.add.reduceat(value, begin)))
    return summed.take(summed.value != 0)


def _ranges(left: Factor, right: Factor, keep: tuple[str, ...]) -> list[int]:
    """For each variable of `keep` a number above all its codes."""
    sizes = []
    for name in keep:
        factor = left if name in left.variables else right
        sizes.append(int(factor.column(name).max(initial=0)) + 1)
    return sizes


def _parts(
    factor: Factor, keep: tuple[str, ...], radix: list[int], done: tuple[str, ...]
) -> np.ndarray | None:
    """int64[num_rows], the factor's part of the packed `keep` key; None if it takes over 63 bits.

    Variables in `done` are left to the other factor.
    """
    part = np.zeros(len(factor), np.int64)
    weight = 1
    for name, size in zip(reversed(keep), reversed(radix), strict=True):
        if name in factor.variables and name not in done:
            part += factor.column(name).astype(np.int64) * weight
        weight *= size
        if weight >= 2**63:
            return None
    return part


def _unpack(key: np.ndarray, radix: list[int]) -> np.ndarray:
    rows = np.empty((len(key), len(radix)), np.int32)
    for position in range(len(radix) - 1, -1, -1):
        key, rows[:, position] = np.divmod(key, radix[position])
    return rows


def _shared_keys(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One int64 for each row; rows of both sides agree exactly when their keys do."""
    num_columns = left.shape[1]
    keys = np.zeros(len(left), np.int64), np.zeros(len(right), np.int64)
    space = 1
    for position in range(num_columns):
        columns = left[:, position], right[:, position]
        size = 1 + max(int(column.max(initial=0)) for column in columns)
        if space * size >= 2**63:
            both = np.unique(np.concatenate(keys), return_inverse=True)[1]
            keys = both[: len(left)], both[len(left) :]
            space = len(both) + 1
        keys = keys[0] * size + columns[0], keys[1] * size + columns[1]
        space *= size
    return keys


def _matches(factor: Factor, other: Factor) -> np.ndarray:
    shared = [name for name in factor.variables if name in other.variables]
    key, known = _shared_keys(factor.columns(shared), other.columns(shared))
    found: np.ndarray = np.isin(key, known)
    return found


def _largest(value: np.ndarray) -> float:
    if value.dtype == object:
        return float("inf")
    return float(np.abs(value.astype(np.float64)).max(initial=0.0))


def _magnitude(value: np.ndarray) -> float:
    """Σ |value| in floating point."""
    return float(np.abs(value.astype(np.float64)).sum())


def _fits(start: np.ndarray, stop: np.ndarray, left: np.ndarray, right: np.ndarray) -> bool:
    """Whether every sum of products over matching pairs surely fits into 64 bits."""
    if left.dtype == object or right.dtype == object:
        return False
    runs = np.abs(left.astype(np.float64)) * (stop - start)
    return float(runs.sum()) * _largest(right) < _SAFE
