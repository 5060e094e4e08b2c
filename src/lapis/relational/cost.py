"""The one estimate of sizes, from which join orders, filters and refusals are decided.

Sizes are estimated from the rows n and the distinct values d of each column, as in relational
optimisers (Selinger et al. 1979): |f ⋈ g| ≈ |f|·|g| / Π_shared max(d_f, d_g). They are off on
skewed data, which is why executors also check while they run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

OVERHEAD = 300.0  # the price of one operation on nothing, in rows


class Shape(NamedTuple):
    """The estimated size of a factor."""

    rows: float
    distinct: Mapping[str, float]  # values taken by each variable


def joined(left: Shape, right: Shape) -> Shape:
    """The size of left · right over the variables of both."""
    rows = left.rows * right.rows
    distinct = dict(left.distinct)
    for name, count in right.distinct.items():
        if name in distinct:
            rows /= max(1.0, distinct[name], count)
            distinct[name] = min(distinct[name], count)
        else:
            distinct[name] = count
    return Shape(min(rows, math.prod(distinct.values())), distinct)


def summed(shape: Shape, keep: tuple[str, ...]) -> Shape:
    """The size after summing out all variables but `keep`."""
    distinct = {name: min(shape.distinct[name], shape.rows) for name in keep}
    return Shape(min(shape.rows, math.prod(distinct.values())), distinct)


def matching(rows: int, distinct: tuple[int, ...], terms: tuple[str | int, ...]) -> Shape:
    """The size of the tuples that match terms, of a relation with so many rows and values."""
    found = float(rows)
    values: dict[str, float] = {}
    for term, count in zip(terms, distinct, strict=True):
        if isinstance(term, int):
            found /= max(1, count)
        elif term in values:
            found /= max(1, count)
            values[term] = min(values[term], count)
        else:
            values[term] = float(count)
    return Shape(found, {name: min(count, found) for name, count in values.items()})


def count_distinct(column: np.ndarray) -> int:
    if len(column) == 0:
        return 0
    seen = np.zeros(int(column.max()) + 1, bool)
    seen[column] = True
    return int(np.count_nonzero(seen))
