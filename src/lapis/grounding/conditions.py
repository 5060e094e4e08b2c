"""Conditions turned into what a join can use.

Each test says whether a condition must hold or must fail in the groundings wanted. Then

    x = y required              the two variables become one
    x against a constant        a unary relation of the codes that pass: a join can start there
    x = y + k required          a binary relation of the pairs of codes that pass
    x ≠ y required              a comparison of codes
    anything else               a comparison of the constants' numeric values
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lapis.grounding.known_relations import GroundedWorld
from lapis.language.syntax import Variable
from lapis.logic.clauses import Condition, TypedVariable
from lapis.relational.join_plan import OPERATORS, Comparison, Source


class Requirement(NamedTuple):
    condition: Condition
    holds: bool  # the grounding is wanted if the condition is true (or, if not, false)


@dataclass(frozen=True)
class CompiledTests:
    representative: Mapping[str, str]  # variable → the variable that stands for it
    joins: tuple[Source, ...]
    comparisons: tuple[Comparison, ...]


def compile_tests(
    tests: tuple[Requirement, ...], variables: tuple[TypedVariable, ...], world: GroundedWorld
) -> CompiledTests | None:
    """None if no grounding can pass."""
    types = dict(variables)
    representative = {name: name for name, _ in variables}
    rest = []
    for test in tests:
        left, right = test.condition.left, test.condition.right
        if (
            _wants_same_constant(test)
            and isinstance(left, Variable)
            and isinstance(right, Variable)
            and types[left.name] == types[right.name]
        ):
            gone, stays = representative[right.name], representative[left.name]
            for name, leader in representative.items():
                if leader == gone:
                    representative[name] = stays
        else:
            rest.append(test)
    joins, comparisons = [], []
    for condition, holds in rest:
        left, right = (
            Variable(representative[term.name]) if isinstance(term, Variable) else term
            for term in (condition.left, condition.right)
        )
        condition = condition._replace(left=left, right=right)
        if isinstance(left, Variable) and isinstance(right, Variable) and left != right:
            kind = _compare_variables(condition, holds, types, world)
            if isinstance(kind, Source):
                joins.append(kind)
            else:
                comparisons.append(kind)
            continue
        inside = left if isinstance(left, Variable) else right
        if not isinstance(inside, Variable):
            if bool(_evaluate(condition, [left.name], [right.name])[0]) != holds:
                return None
            continue
        constants = world.domains[types[inside.name]].constants
        passing = _evaluate(
            condition,
            constants if isinstance(left, Variable) else [left.name] * len(constants),
            constants if isinstance(right, Variable) else [right.name] * len(constants),
        )
        codes = np.flatnonzero(passing == holds).astype(np.int32)
        joins.append(Source(world.add_rows(codes[:, None]), (inside.name,)))
    return CompiledTests(representative, tuple(joins), tuple(comparisons))


def _is_identity(condition: Condition) -> bool:
    return condition.operator in ("=", "!=") and condition.offset == 0


def _wants_same_constant(test: Requirement) -> bool:
    return _is_identity(test.condition) and (test.condition.operator == "=") == test.holds


def _numbers(constants: tuple[str, ...] | list[str]) -> np.ndarray:
    def value(constant: str) -> float:
        try:
            return float(constant)
        except ValueError:
            return float("nan")

    return np.array([value(constant) for constant in constants], np.float64)


def _evaluate(
    condition: Condition, left: tuple[str, ...] | list[str], right: tuple[str, ...] | list[str]
) -> np.ndarray:
    """bool[…], the condition on aligned constants."""
    if _is_identity(condition):
        same = [a == b for a, b in zip(left, right, strict=True)]
        return np.array(same, bool) ^ (condition.operator == "!=")
    a, b = _numbers(left), _numbers(right) + condition.offset
    both = ~(np.isnan(a) | np.isnan(b))
    result: np.ndarray = OPERATORS[condition.operator](a, b) & both
    return result


def _compare_variables(
    condition: Condition, holds: bool, types: Mapping[str, str], world: GroundedWorld
) -> Comparison | Source:
    left, right = condition.left.name, condition.right.name
    left_domain, right_domain = world.domains[types[left]], world.domains[types[right]]
    if _is_identity(condition):
        if types[left] == types[right]:
            return Comparison("!=", left, right)
        number = {name: i for i, name in enumerate(left_domain.constants)}
        for name in right_domain.constants:
            number.setdefault(name, len(number))
        a, b = (
            np.array([number[name] for name in domain.constants], np.float64)
            for domain in (left_domain, right_domain)
        )
    else:
        a, b = left_domain.numeric, right_domain.numeric
    if condition.operator == "=" and holds:
        return Source(world.add_rows(_equal_pairs(a, b, condition.offset)), (left, right))
    return Comparison(
        condition.operator,
        left,
        right,
        condition.offset,
        world.add_values(a),
        world.add_values(b),
        holds,
    )


def _equal_pairs(left: np.ndarray, right: np.ndarray, offset: int) -> np.ndarray:
    """int32[num_pairs, 2], the codes with left = right + offset."""
    codes = np.flatnonzero(~np.isnan(right))
    moved = right[codes] + offset
    order = np.argsort(moved, kind="stable")
    codes, moved = codes[order], moved[order]
    first = np.searchsorted(moved, left, "left")
    matches = np.where(np.isnan(left), 0, np.searchsorted(moved, left, "right") - first)
    row = np.repeat(np.arange(len(left)), matches)
    within = np.arange(len(row)) - np.repeat(np.cumsum(matches) - matches, matches)
    return np.stack((row, codes[first[row] + within]), axis=1).astype(np.int32)
