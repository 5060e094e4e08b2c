"""Tests on columns of constants' codes, and joins by an order comparison.

For Σ left · right · [a < b + offset] the right rows are sorted by their number; each left row then
matches a prefix or a suffix of them. If one side keeps no variable, prefix sums give the result
without listing pairs: counting the pairs a < b of n constants takes O(n log n).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lapis.data.database import Domain
from lapis.language.syntax import Constant
from lapis.logic.clauses import SimpleTerm
from lapis.relational.algebra import Matches, Test
from lapis.relational.exact_sums import (
    Runs,
    list_pairs,
    multiply_exactly,
    narrow_integers,
    running_sums,
)
from lapis.relational.factor import Factor, indicator_factor, join_runs, project_factor

COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {  # numbers, or arrays of them
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}

Domains = Mapping[str, Domain]  # of the variables


def test_rows(test: Test, factor: Factor, domains: Domains) -> np.ndarray:
    """Return bool[num_rows], whether each row of the factor passes the test."""
    sides = test.condition.left, test.condition.right
    read = _read_numbers if test.numeric else _name_reader(test, domains)
    left, right = (_read_column(term, read, factor, domains) for term in sides)
    return np.broadcast_to(_compare_columns(test, left, right), len(factor))


def compared_values(test: Test, domains: Domains) -> tuple[np.ndarray, np.ndarray]:
    """Return the compared numbers of both sides: of all constants of a variable, or of one."""
    read = _read_numbers if test.numeric else _name_reader(test, domains)
    left, right = (
        read(Domain("", (term.name,)) if isinstance(term, Constant) else domains[term.name])
        for term in (test.condition.left, test.condition.right)
    )
    return left, right + test.condition.offset


def compare_constants(test: Test) -> bool:
    """Return whether a test without variables passes."""
    left, right = test.condition.left.name, test.condition.right.name
    if not test.numeric:
        return (left == right) == bool(test.equates)
    numbers = (_read_numbers(Domain("", (name,))) for name in (left, right))
    return bool(_compare_columns(test, *numbers)[0])


def list_matches(matches: Matches, domains: Domains) -> Factor:
    """List the pairs of constants that an equality of two variables accepts."""
    test = matches.test
    left, right = (domains[name] for name in matches.variables)
    if test.numeric:
        runs, order = equal_runs(left.numeric, right.numeric + test.condition.offset)
        row, place = list_pairs(runs)
        rows = np.stack([row, order[place]], axis=1)
    elif left is right:
        rows = np.repeat(np.arange(len(left))[:, None], 2, axis=1)
    else:
        shared = [(code, right.index.get(name, -1)) for code, name in enumerate(left.constants)]
        rows = np.array([pair for pair in shared if pair[1] >= 0]).reshape(-1, 2)
    return indicator_factor(matches.variables, rows.astype(np.int32))


def equal_runs(left: np.ndarray, right: np.ndarray) -> tuple[Runs, np.ndarray]:
    """Find for each left number the run of equal ones in right[order]; NaN equals nothing."""
    order = np.argsort(right)
    start, stop = (np.searchsorted(right[order], left, side) for side in ("left", "right"))
    # searchsorted places NaN last and treats NaNs as equal.
    return Runs(start, np.where(np.isnan(left), start, stop)), order


def _compare_columns(test: Test, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    condition = test.condition
    if test.numeric:
        known = ~(np.isnan(left) | np.isnan(right))
        holds = known & COMPARE[condition.operator](left, right + condition.offset)
    else:
        holds = COMPARE[condition.operator](left, right)
    return holds == test.expected


def _read_column(
    term: SimpleTerm,
    read: Callable[[Domain], np.ndarray],
    factor: Factor,
    domains: Domains,
) -> np.ndarray:
    """Return the compared values of a term: one for each row, or a single one."""
    if isinstance(term, Constant):
        return read(Domain("", (term.name,)))
    return read(domains[term.name])[factor.column(term.name)]


def _read_numbers(domain: Domain) -> np.ndarray:
    """Return float64[size], NaN for constants that are not numbers."""
    return domain.numeric


def _name_reader(test: Test, domains: Domains) -> Callable[[Domain], np.ndarray]:
    """Create a function that maps constants to their codes in the first variable's domain."""
    base = domains[test.variables[0]]

    def read(domain: Domain) -> np.ndarray:
        if domain is base:
            return np.arange(len(domain))
        return np.array([base.index.get(name, -1) for name in domain.constants], np.int64)

    return read


_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def join_range(
    left: Factor,
    right: Factor,
    test: Test,
    keep: tuple[str, ...],
    domains: Mapping[str, Domain],  # of the variables
) -> Factor:
    """Compute Σ over the variables not in `keep` of left·right·[test].

    The variable on the test's left side belongs to `left`.
    """
    condition = test.condition
    one, two = condition.left.name, condition.right.name
    number = domains[one].numeric[left.column(one)]
    other = domains[two].numeric[right.column(two)] + condition.offset
    operator: str = condition.operator
    if set(keep).isdisjoint(left.variables):
        left, number, right, other = right, other, left, number
        operator = _MIRRORED[operator]
    # Constants that are not numbers fail every comparison.
    left, number = left.take(~np.isnan(number)), number[~np.isnan(number)]
    right, other = right.take(~np.isnan(other)), other[~np.isnan(other)]
    order = np.argsort(other, kind="stable")
    right, runs = right.take(order), _find_ranges(number, operator, other[order])
    if set(keep).isdisjoint(right.variables):
        sums = running_sums(right.value)
        value = multiply_exactly(left.value, narrow_integers(sums[runs.stop] - sums[runs.start]))
        met = Factor(left.variables, left.rows, value)
        return project_factor(met.take(value != 0), keep)
    return join_runs(left, right, runs, keep)


def _find_ranges(number: np.ndarray, operator: str, ranked: np.ndarray) -> Runs:
    """Find for each number the range of sorted numbers for which the comparison holds."""
    # A range of < begins after the equal numbers, of <= before them; > and >= end there.
    edge = np.searchsorted(ranked, number, "right" if operator in ("<", ">=") else "left")
    if operator in ("<", "<="):
        return Runs(edge, np.full(len(number), len(ranked)))
    return Runs(np.zeros(len(number), np.int64), edge)
