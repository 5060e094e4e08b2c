"""Join two factors through an order comparison of numbers: Σ left · right · [a < b + offset].

Sort the right rows by their number; each left row then meets a prefix or a suffix of them. When
one side keeps no variable, only sums over these ranges matter, and running sums give them
without looking at pairs: counting pairs a < b of n constants costs n log n.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lapis.data.database import Domain
from lapis.relational.algebra import Test
from lapis.relational.exact_sums import Runs, multiply_exactly, narrow, running_sums
from lapis.relational.factor import Factor, join_runs, project

_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def join_range(
    left: Factor,
    right: Factor,
    test: Test,
    keep: tuple[str, ...],
    domains: Mapping[str, Domain],  # of the variables
) -> Factor:
    """Σ over the variables not in `keep` of left·right·[test]; the test's left side is in left."""
    condition = test.condition
    one, two = condition.left.name, condition.right.name
    number = domains[one].numeric[left.column(one)]
    other = domains[two].numeric[right.column(two)] + condition.offset
    operator: str = condition.operator
    if set(keep).isdisjoint(left.variables):
        left, number, right, other = right, other, left, number
        operator = _MIRRORED[operator]
    # What is not a number compares with nothing.
    left, number = left.take(~np.isnan(number)), number[~np.isnan(number)]
    right, other = right.take(~np.isnan(other)), other[~np.isnan(other)]
    order = np.argsort(other, kind="stable")
    right, runs = right.take(order), _runs(number, operator, other[order])
    if set(keep).isdisjoint(right.variables):
        sums = running_sums(right.value)
        value = multiply_exactly(left.value, narrow(sums[runs.stop] - sums[runs.start]))
        met = Factor(left.variables, left.rows, value)
        return project(met.take(value != 0), keep)
    return join_runs(left, right, runs, keep)


def _runs(number: np.ndarray, operator: str, ranked: np.ndarray) -> Runs:
    """For each number the range of ranked ones that it stands in the relation to."""
    # number < other begins after all equal ones, number <= other before them; > and >= end so.
    edge = np.searchsorted(ranked, number, "right" if operator in ("<", ">=") else "left")
    if operator in ("<", "<="):
        return Runs(edge, np.full(len(number), len(ranked)))
    return Runs(np.zeros(len(number), np.int64), edge)
