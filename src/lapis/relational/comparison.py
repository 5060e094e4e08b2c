"""Comparisons over columns of constants' codes, and joins through them.

Σ left · right · [a < b + offset]: sort the right rows by their number; each left row then meets a
prefix or a suffix of them. When one side keeps no variable, only sums over these ranges matter, and
running sums give them without looking at pairs: counting pairs a < b of n constants costs n log n.
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
    """bool[num_rows], whether each row of the factor passes the test."""
    sides = test.condition.left, test.condition.right
    read = _read_numbers if test.numeric else _name_reader(test, domains)
    left, right = (_read_column(term, read, factor, domains) for term in sides)
    return np.broadcast_to(_compare_columns(test, left, right), len(factor))


def compared_values(test: Test, domains: Domains) -> tuple[np.ndarray, np.ndarray]:
    """The numbers that are compared, of all constants of a variable or of the constant alone."""
    read = _read_numbers if test.numeric else _name_reader(test, domains)
    left, right = (
        read(Domain("", (term.name,)) if isinstance(term, Constant) else domains[term.name])
        for term in (test.condition.left, test.condition.right)
    )
    return left, right + test.condition.offset


def compare_constants(test: Test) -> bool:
    """Whether a test without variables is passed."""
    left, right = test.condition.left.name, test.condition.right.name
    if not test.numeric:
        return (left == right) == bool(test.equates)
    numbers = (_read_numbers(Domain("", (name,))) for name in (left, right))
    return bool(_compare_columns(test, *numbers)[0])


def list_matches(matches: Matches, domains: Domains) -> Factor:
    """The pairs of constants that an equality between two variables accepts."""
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
    """For each left number the run of equal ones among right[order]; no number equals none."""
    order = np.argsort(right)
    start, stop = (np.searchsorted(right[order], left, side) for side in ("left", "right"))
    # NaN sorts last and equals NaN in a search.
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
    """What is compared of a term: one value for each row, or one for all."""
    if isinstance(term, Constant):
        return read(Domain("", (term.name,)))
    return read(domains[term.name])[factor.column(term.name)]


def _read_numbers(domain: Domain) -> np.ndarray:
    """float64[size], NaN for what is no number."""
    return domain.numeric


def _name_reader(test: Test, domains: Domains) -> Callable[[Domain], np.ndarray]:
    """Numbers for constants' names: those of the first variable's domain."""
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
    right, runs = right.take(order), _find_ranges(number, operator, other[order])
    if set(keep).isdisjoint(right.variables):
        sums = running_sums(right.value)
        value = multiply_exactly(left.value, narrow_integers(sums[runs.stop] - sums[runs.start]))
        met = Factor(left.variables, left.rows, value)
        return project_factor(met.take(value != 0), keep)
    return join_runs(left, right, runs, keep)


def _find_ranges(number: np.ndarray, operator: str, ranked: np.ndarray) -> Runs:
    """For each number the range of ranked ones that it stands in the relation to."""
    # number < other begins after all equal ones, number <= other before them; > and >= end so.
    edge = np.searchsorted(ranked, number, "right" if operator in ("<", ">=") else "left")
    if operator in ("<", "<="):
        return Runs(edge, np.full(len(number), len(ranked)))
    return Runs(np.zeros(len(number), np.int64), edge)
