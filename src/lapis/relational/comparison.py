"""Evaluate comparisons over columns of constants' codes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

import numpy as np

from lapis.data.database import Domain
from lapis.language.syntax import Constant
from lapis.logic.clauses import SimpleTerm
from lapis.relational.algebra import Matches, Test
from lapis.relational.factor import Factor, indicator

_COMPARE: Mapping[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


def passes(test: Test, factor: Factor, domains: Mapping[str, Domain]) -> np.ndarray:
    """bool[num_rows], whether each row of the factor passes the test."""
    condition = test.condition
    sides = (condition.left, test.types[0]), (condition.right, test.types[1])
    if test.numeric:
        left, right = (_numbers(term, kind, factor, domains) for term, kind in sides)
        known = ~(np.isnan(left) | np.isnan(right))
        holds = known & _COMPARE[condition.operator](left, right + condition.offset)
    else:
        left, right = (_codes(term, kind, factor, domains, test) for term, kind in sides)
        holds = _COMPARE[condition.operator](left, right)
    return np.broadcast_to(holds == test.expected, len(factor))


def list_matches(matches: Matches, domains: Mapping[str, Domain]) -> Factor:
    """The pairs of constants that an equality between two variables accepts."""
    test = matches.test
    left, right = (domains[kind] for kind in test.types if kind is not None)
    if test.numeric:
        values = right.numeric + test.condition.offset
        order = np.argsort(values)
        start = np.searchsorted(values[order], left.numeric, "left")
        stop = np.searchsorted(values[order], left.numeric, "right")
        # NaN sorts last and equals NaN in a search, but is no number.
        stop = np.where(np.isnan(left.numeric), start, stop)
        rows = np.array(
            [(i, order[j]) for i in range(len(left)) for j in range(start[i], stop[i])], np.int32
        ).reshape(-1, 2)
    else:
        shared = [(code, right.index.get(name, -1)) for code, name in enumerate(left.constants)]
        rows = np.array([pair for pair in shared if pair[1] >= 0], np.int32).reshape(-1, 2)
    return indicator(matches.variables, rows)


def _numbers(
    term: SimpleTerm, kind: str | None, factor: Factor, domains: Mapping[str, Domain]
) -> np.ndarray:
    if isinstance(term, Constant):
        return Domain("", (term.name,)).numeric
    assert kind is not None
    numbers: np.ndarray = domains[kind].numeric[factor.column(term.name)]
    return numbers


def _codes(
    term: SimpleTerm,
    kind: str | None,
    factor: Factor,
    domains: Mapping[str, Domain],
    test: Test,
) -> np.ndarray:
    """Codes in the domain of the test's first variable; -1 and -2 for names it does not hold."""
    base = next((name for name in test.types if name is not None), None)
    if isinstance(term, Constant):
        if base is None:
            both = (test.condition.left, test.condition.right)
            return np.array([0 if both[0] == both[1] or term == both[0] else 1])
        return np.array([domains[base].index.get(term.name, -1)])
    assert kind is not None
    assert base is not None
    column = factor.column(term.name)
    if kind == base:
        return column
    index = domains[base].index
    translated = np.array([index.get(name, -2) for name in domains[kind].constants], np.int64)
    codes: np.ndarray = translated[column]
    return codes
