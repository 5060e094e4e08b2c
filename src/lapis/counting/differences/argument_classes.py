"""Count the tuples of a product of domains by the values of functions, without listing them.

Given functions on subsets of the axes (argument positions), each zero outside a sparse support,
`count_signatures` returns every combination of function values that occurs on D₁ × … × D_k, and
the number of tuples with it. Functions of one axis split that axis into classes, and a tuple of
classes has as many tuples as the product of their sizes. A function f of several axes is split off
by its support S:

    H(f) = H(f ≡ 0) − H(f ≡ 0 on S) + H(f on S)

where "on S" makes the axes of f one axis, whose points are the rows of S. Both parts have one
function fewer, so the recursion ends with functions of single axes. Functions of all axes come
first: they cost one pass over their supports. Supports are joined only if functions of different,
overlapping proper subsets occur (arity three and more).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lapis.counting.differences.sparse_vectors import widen_integers
from lapis.data.keys import number_rows
from lapis.errors import TooLarge
from lapis.relational.exact_sums import narrow_integers
from lapis.relational.factor import Factor, join_factors
from lapis.runtime.progress import check_time

MAX_SIGNATURES = 20_000_000
PIECE = 1 << 22  # numbers that are written between two checks of the time


class Function(NamedTuple):
    """value[i] > 0 at rows[i] of the axes, 0 elsewhere."""

    axes: tuple[int, ...]
    rows: np.ndarray  # int32[num_rows, len(axes)], unique
    value: np.ndarray  # int64[num_rows]


class Signatures(NamedTuple):
    """Each combination of function values that occurs, and its number of tuples."""

    value: np.ndarray  # int64[num_signatures, num_functions]
    multiplicity: np.ndarray  # int64[num_signatures]; object if 64 bits do not suffice


class _Axis(NamedTuple):
    size: int
    values: dict[int, np.ndarray]  # function number → int64[size], its value at each point


def count_signatures(functions: Sequence[Function], sizes: Sequence[int]) -> Signatures:
    """Count the tuples of the product of ranges `sizes` with each combination of values."""
    axes = {number: _Axis(size, {}) for number, size in enumerate(sizes)}
    return merge_signatures([_count_recursively(axes, dict(enumerate(functions)), len(functions))])


def evaluate_function(function: Function, rows: np.ndarray) -> np.ndarray:
    """Return int64[n], the function at full tuples int32[n, k]."""
    return _values_at(function, rows[:, list(function.axes)])


def _values_at(function: Function, points: np.ndarray) -> np.ndarray:
    """Return int64[num_points], the function at points of its own axes."""
    num_known, num_points = len(function.rows), len(points)
    both = np.concatenate([function.rows, points])
    columns = [both[:, position] for position in range(both.shape[1])]
    first, number = number_rows(columns, num_known + num_points)
    source = first[number[num_known:]]
    found = source < num_known
    values = np.zeros(num_points, np.int64)
    values[found] = function.value[source[found]]
    return values


def _count_recursively(
    axes: dict[int, _Axis], functions: dict[int, Function], width: int
) -> Signatures:
    axes = dict(axes)
    wide: dict[int, Function] = {}
    for number, function in functions.items():
        if len(function.axes) > 1:
            wide[number] = function
        elif function.axes:
            axis = axes[function.axes[0]]
            values = np.zeros(axis.size, np.int64)
            values[function.rows[:, 0]] = function.value
            axes[function.axes[0]] = _Axis(axis.size, {**axis.values, number: values})
    if not wide:
        return _multiply_axes(axes, width)
    chosen = max(wide, key=lambda number: len(wide[number].axes))
    split = wide.pop(chosen)
    outside = _count_recursively(axes, wide, width)
    inside = _count_recursively(*_restrict_to_support(axes, wide, split, chosen), width)
    erased = inside.value.copy()
    erased[:, chosen] = 0
    return merge_signatures([outside, Signatures(erased, -inside.multiplicity), inside])


def _restrict_to_support(
    axes: dict[int, _Axis], functions: dict[int, Function], split: Function, chosen: int
) -> tuple[dict[int, _Axis], dict[int, Function]]:
    """Replace the axes of `split` by one axis, whose points are its rows."""
    joint = max(axes) + 1
    values = {chosen: split.value}
    for position, number in enumerate(split.axes):
        for name, column in axes[number].values.items():
            values[name] = column[split.rows[:, position]]
    rest = {number: axis for number, axis in axes.items() if number not in split.axes}
    rest[joint] = _Axis(len(split.rows), values)
    moved: dict[int, Function] = {}
    for name, function in functions.items():
        shared = [number for number in function.axes if number in split.axes]
        if not shared:
            moved[name] = function
        elif len(shared) == len(function.axes):
            columns = [split.axes.index(number) for number in shared]
            rest[joint].values[name] = _values_at(function, split.rows[:, columns])
        else:
            moved[name] = _join_support(function, split, joint)
    return rest, moved


def _join_support(function: Function, split: Function, joint: int) -> Function:
    """Return the function over its other axes and the joint one."""
    points = np.arange(len(split.rows), dtype=np.int32)[:, None]
    left = Factor(
        (*map(str, split.axes), "joint"),
        np.concatenate([split.rows, points], axis=1),
        np.ones(len(points), np.int64),
    )
    right = Factor(tuple(map(str, function.axes)), function.rows, function.value)
    others = tuple(number for number in function.axes if number not in split.axes)
    product = join_factors(left, right, (*left.variables, *map(str, others)))
    rows = product.columns((*map(str, others), "joint"))
    return Function((*others, joint), rows, product.value)


def _multiply_axes(axes: dict[int, _Axis], width: int) -> Signatures:
    """List all combinations of the axes' classes; their sizes multiply."""
    result = Signatures(np.zeros((1, width), np.int64), np.ones(1, np.int64))
    for axis in axes.values():
        first, number = number_rows(list(axis.values.values()), axis.size)
        sizes = np.bincount(number, minlength=len(first))
        num_before, num_classes = len(result.multiplicity), len(first)
        if num_before * num_classes > MAX_SIGNATURES:
            raise too_many_classes_error(num_before * num_classes)
        value = np.empty((num_before, num_classes, width), np.int64)
        step = max(1, PIECE // (num_classes * width + 1))
        for begin in range(0, num_before, step):
            check_time("counting atoms")
            value[begin : begin + step] = result.value[begin : begin + step, None]
            for name, column in axis.values.items():
                value[begin : begin + step, :, name] = column[first]
        result = Signatures(
            value.reshape(num_before * num_classes, width),
            multiply_class_sizes(result.multiplicity, sizes),
        )
    return result


def too_many_classes_error(number: int) -> TooLarge:
    return TooLarge(
        f"the atoms fall into about {number:.0e} classes",
        code="too-many-classes",
        hint="use a sample of the atoms instead",
    )


def multiply_class_sizes(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    if left.dtype == object or float(left.max(initial=0)) * float(right.max(initial=0)) >= 2.0**62:
        left, right = left.astype(object), right.astype(object)
    return np.multiply.outer(left, right).ravel()


def merge_signatures(parts: Sequence[Signatures]) -> Signatures:
    """Add the counts of equal signatures and drop those with count 0."""
    value = np.concatenate([part.value for part in parts])
    count = np.concatenate([part.multiplicity for part in parts])
    first, number = number_rows([value[:, j] for j in range(value.shape[1])], len(value))
    total = np.zeros(len(first), widen_integers(count).dtype)
    np.add.at(total, number, count)
    kept = total != 0
    return Signatures(value[first[kept]], narrow_integers(total[kept]))
