"""Run count plans in memory, on sparse factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lapis.relational.algebra import (
    Expression,
    Given,
    Join,
    Matches,
    Project,
    RangeJoin,
    Restrict,
    Tuples,
    Universe,
    Without,
)
from lapis.relational.comparison import list_matches, passes
from lapis.relational.count_plan import CountPlan, shared_expressions
from lapis.relational.expansion import Term
from lapis.relational.factor import (
    Factor,
    anti_join,
    indicator,
    join,
    join_onto,
    project,
    scalar,
    select,
)
from lapis.relational.interpretation import Interpretation
from lapis.relational.range_join import join_range


class Scaled(NamedTuple):
    """scale · factor, or the number `scale` alone."""

    scale: int
    factor: Factor | None = None  # never over no variables


def count(plan: CountPlan, extensions: Interpretation) -> int:
    """The number of groundings, over all values of the kept variables."""
    return total(plan, run_terms(plan.terms, extensions))


def count_table(plan: CountPlan, extensions: Interpretation) -> np.ndarray:
    """int64 or object[plan.shape], the number of groundings for each value of `plan.keep`."""
    return tabulate(plan, run_terms(plan.terms, extensions))


def run_terms(terms: Sequence[Term], extensions: Interpretation) -> list[Scaled]:
    """The terms' factors, each with its coefficient and multiplier."""
    evaluation = Evaluation(extensions, shared_expressions(terms))
    results = []
    for term in terms:
        scale = term.coefficient * term.multiplier
        factor = scalar(1) if term.expression is None else evaluation.run(term.expression)
        results.append(
            Scaled(scale, factor) if factor.variables else Scaled(scale * factor.total())
        )
    return results


def total(plan: CountPlan, results: Sequence[Scaled]) -> int:
    """Σ of the results over all values of the kept variables."""
    found = 0
    for scale, factor in results:
        value = scale if factor is None else scale * factor.total()
        for name, size in zip(plan.keep, plan.shape, strict=True):
            if factor is None or name not in factor.variables:
                value *= size
        found += value
    return found


def tabulate(plan: CountPlan, results: Sequence[Scaled]) -> np.ndarray:
    """int64 or object[plan.shape], Σ of the results, the same along variables that one lacks."""
    # Every partial sum is at most Σ |scale|·max|factor|.
    bound = sum(
        abs(scale) * (1 if factor is None else _largest(factor)) for scale, factor in results
    )
    table = np.zeros(plan.shape, np.int64 if bound < 2**63 else object)
    for scale, factor in results:
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


def evaluate(expression: Expression, given: Sequence[Factor]) -> Factor:
    """An expression over given factors only."""
    return Evaluation(Interpretation({}, {}), frozenset(), given).run(expression)


class Evaluation:
    """Evaluates expressions on one world and remembers the shared ones."""

    def __init__(
        self,
        extensions: Interpretation,
        shared: frozenset[Expression],
        given: Sequence[Factor] = (),
    ) -> None:
        self.extensions = extensions
        self.shared = shared
        self.given = given
        self.known: dict[Expression, Factor] = {}

    def run(self, expression: Expression) -> Factor:
        if expression in self.known:
            return self.known[expression]
        result = self._compute(expression)
        if expression in self.shared:
            self.known[expression] = result
        return result

    def _compute(self, expression: Expression) -> Factor:
        match expression:
            case Tuples(predicate, terms):
                return select(terms, self.extensions.relations[predicate].tuples)
            case Universe(variable, type_name):
                codes = np.arange(self.extensions.size(type_name), dtype=np.int32)
                return indicator((variable,), codes.reshape(-1, 1))
            case Matches():
                return list_matches(expression, self.extensions.domains)
            case Given(number):
                return self.given[number]
            case Join(left, right, keep):
                return self._join(left, right, keep)
            case RangeJoin(left, right, test, keep):
                parts = self.run(left), self.run(right)
                return join_range(*parts, test, keep, self.extensions.domains)
            case Project(part, keep):
                return project(self.run(part), keep)
            case Without(part, excluded):
                return anti_join(self.run(part), self.run(excluded))
            case Restrict(part, test):
                factor = self.run(part)
                return factor.take(passes(test, factor, self.extensions.domains))

    def _join(self, left: Expression, right: Expression, keep: tuple[str, ...]) -> Factor:
        """A join that closes a cycle sums the inner join only where the outer one looks."""
        for inner, outer in ((left, right), (right, left)):
            if (
                isinstance(inner, Join)
                and set(inner.keep) == set(outer.variables)
                and not (inner in self.known or inner in self.shared)
            ):
                target = self.run(outer)
                return project(join_onto(self.run(inner.left), self.run(inner.right), target), keep)
        return join(self.run(left), self.run(right), keep)


def _largest(factor: Factor) -> int:
    return max((abs(number) for number in factor.value.tolist()), default=0)
