"""What the terms of a plan add up to: a number, a table over the kept variables, or rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from lapis.relational.exact_sums import largest_integer
from lapis.relational.factor import Factor, add_rows, multiply, scalar, sort_rows
from lapis.relational.plan import Plan


class Product(NamedTuple):
    """scale · Π factors: the answer to one term."""

    scale: int
    factors: tuple[Factor, ...] = ()  # none of them over no variables

    @property
    def factor(self) -> Factor | None:
        """Π factors, None if there are none."""
        return reduce(multiply, self.factors) if self.factors else None


def fold_numbers(scale: int, factors: Sequence[Factor]) -> Product:
    """The product with the factors over no variables multiplied into the scale."""
    for factor in factors:
        if not factor.variables:
            scale *= factor.total()
    return Product(scale, tuple(factor for factor in factors if factor.variables))


def total(plan: Plan, answers: Sequence[Product]) -> int:
    """Σ of the answers over all values of the kept variables."""
    found = 0
    for answer in answers:
        factor = answer.factor
        value = answer.scale if factor is None else answer.scale * factor.total()
        for name, size in zip(plan.keep, plan.shape, strict=True):
            if factor is None or name not in factor.variables:
                value *= size
        found += value
    return found


def tabulate(plan: Plan, answers: Sequence[Product]) -> np.ndarray:
    """int64 or object[plan.shape], Σ of the answers, the same along variables that one lacks."""
    parts = [(answer.scale, answer.factor) for answer in answers]
    # Every partial sum is at most Σ |scale|·max|factor|.
    bound = sum(
        abs(scale) * (1 if factor is None else largest_integer(factor.value))
        for scale, factor in parts
    )
    table = np.zeros(plan.shape, np.int64 if bound < 2**63 else object)
    for scale, factor in parts:
        if factor is None:
            table += scale
            continue
        held = [name in factor.variables for name in plan.keep]
        part = np.zeros(
            tuple(size if has else 1 for has, size in zip(held, plan.shape, strict=True)),
            table.dtype,
        )
        index = tuple(
            factor.column(name) if has else 0 for has, name in zip(held, plan.keep, strict=True)
        )
        part[index] = factor.value.astype(table.dtype) * scale
        table += part
    return table


def list_rows(plan: Plan, answers: Sequence[Product]) -> Factor:
    """Σ of the answers as one factor over the kept variables, which all of them must list.

    Rows are sorted and without zeros, so that every engine answers alike.
    """
    found = []
    for answer in answers:
        factor = answer.factor
        found.append((scalar(1) if factor is None else factor).scale(answer.scale))
    if len(found) == 1:
        return sort_rows(found[0].reorder(plan.keep))
    return add_rows(plan.keep, found)
