"""Plans in memory, on sparse factors.

A part whose joins are too large to be listed is evaluated in slices. With r(c) the part in which
variable x may only be c,

    part = Σ over the constants c of r(c),

so halves of x's domain are evaluated one after the other and added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lapis.data.database import Domain
from lapis.errors import TooLarge
from lapis.relational.algebra import (
    Expression,
    Join,
    Matches,
    Project,
    RangeJoin,
    Restrict,
    Tuples,
    Universe,
    Without,
)
from lapis.relational.comparison import join_range, list_matches, passes
from lapis.relational.factor import (
    Factor,
    JoinTooLarge,
    add_rows,
    anti_join,
    indicator,
    join,
    join_onto,
    project,
    select,
)
from lapis.relational.plan import Plan, Product, fold_numbers

if TYPE_CHECKING:
    from lapis.relational.interpretation import Interpretation

MOST_WORK = 1e13  # rows that a plan may be estimated to touch: about a day

Slices = Mapping[str, tuple[int, int]]  # variable → the first code, and the one after the last


def run_plans(
    plans: Sequence[Plan], world: Interpretation, max_memory: int | None = None
) -> list[list[Product]]:
    """The answers to the terms of plans over the same variables; equal parts are one factor.

    Rows that slices add up to are refused beyond `max_memory` bytes.
    """
    refuse_work(sum(plan.cost for plan in plans))
    shared = frozenset[Expression]().union(*(plan.shared for plan in plans))
    if len(plans) > 1:
        shared |= {part for plan in plans for term in plan.terms for part in term.parts}
    domains: dict[str, Domain] = {}
    for plan in plans:
        domains |= plan.domains(world.domains)
    evaluation = Evaluation(world, domains, shared)

    def factor(part: Expression) -> Factor:
        try:
            return evaluation.run(part)
        except JoinTooLarge as error:
            return evaluation.known.setdefault(part, evaluation.slice(part, error, max_memory))

    return [
        [
            fold_numbers(term.coefficient * term.multiplier, list(map(factor, term.parts)))
            for term in plan.terms
        ]
        for plan in plans
    ]


def refuse_work(rows: float) -> None:
    """Raise TooLarge where so many rows would be touched."""
    if rows > MOST_WORK:
        raise TooLarge(
            f"counting would go through about {rows:.0e} rows; "
            f"at most {MOST_WORK:.0e} are possible",
            code="count-too-large",
            hint="count approximately, or write the formula with fewer unconnected variables",
        )


class Evaluation:
    """Evaluates expressions on one world and remembers the shared ones."""

    def __init__(
        self,
        world: Interpretation,
        domains: Mapping[str, Domain],  # of the variables
        shared: frozenset[Expression],
        slices: Slices | None = None,
    ) -> None:
        self.world = world
        self.domains = domains
        self.shared = shared
        self.slices = slices
        self.known: dict[Expression, Factor] = {}

    def run(self, expression: Expression) -> Factor:
        # Most plans share nothing, and to look a deep expression up is to hash all of it.
        is_shared = bool(self.shared) and expression in self.shared
        if is_shared and expression in self.known:
            return self.known[expression]
        match expression:
            case Tuples(relation, terms):
                factor = self._within(select(terms, self.world.relations[relation].tuples))
            case Universe(variable, type_name):
                codes = np.arange(self.world.size(type_name), dtype=np.int32)
                factor = self._within(indicator((variable,), codes.reshape(-1, 1)))
            case Matches():
                factor = self._within(list_matches(expression, self.domains))
            case Join(left, right, keep):
                factor = self._join(left, right, keep)
            case RangeJoin(left, right, test, keep):
                factor = join_range(self.run(left), self.run(right), test, keep, self.domains)
            case Project(part, keep):
                factor = project(self.run(part), keep)
            case Without(part, excluded):
                factor = anti_join(self.run(part), self.run(excluded))
            case Restrict(part, test):
                factor = self.run(part)
                factor = factor.take(passes(test, factor, self.domains))
        if is_shared:
            self.known[expression] = factor
        return factor

    def slice(self, expression: Expression, error: JoinTooLarge, max_memory: int | None) -> Factor:
        """The expression as a sum over halves of a variable that the failing join has.

        Raises the error again if no variable can be halved.
        """
        slices = dict(self.slices or {})
        for name in error.variables:
            slices.setdefault(name, (0, len(self.domains[name])))
        widest = max(error.variables, key=lambda name: slices[name][1] - slices[name][0])
        start, stop = slices[widest]
        if stop - start < 2:
            raise error
        middle, found, size = (start + stop) // 2, [], 0
        for half in ((start, middle), (middle, stop)):
            own = Evaluation(self.world, self.domains, self.shared, {**slices, widest: half})
            try:
                found.append(own.run(expression))
            except JoinTooLarge as smaller:
                found.append(own.slice(expression, smaller, max_memory))
            size += found[-1].rows.nbytes + found[-1].value.nbytes
            if max_memory is not None and size > max_memory:
                raise TooLarge(
                    "the rows of a join do not fit in the memory given",
                    code="too-large",
                    hint="raise the memory limit, or give more evidence",
                )
        return add_rows(expression.variables, found)

    def _within(self, factor: Factor) -> Factor:
        """The rows in the slices."""
        for name, (start, stop) in (self.slices or {}).items():
            if name in factor.variables:
                code = factor.column(name)
                factor = factor.take((start <= code) & (code < stop))
        return factor

    def _join(self, left: Expression, right: Expression, keep: tuple[str, ...]) -> Factor:
        """A join that closes a cycle sums the inner join only where the outer one looks."""
        for inner, outer in ((left, right), (right, left)):
            if (
                isinstance(inner, Join)
                and set(inner.keep) == set(outer.variables)
                and inner not in self.shared
            ):
                target = self.run(outer)
                return project(join_onto(self.run(inner.left), self.run(inner.right), target), keep)
        return join(self.run(left), self.run(right), keep)
