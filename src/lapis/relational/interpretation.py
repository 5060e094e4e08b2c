"""A world as relations: domains and, for each predicate, a sparse extension; it runs plans.

The extension of a base predicate lists its true tuples. That of a derived predicate may be
complemented: it lists the false tuples if nearly all are true (∃y ¬F(x,y)).

Plans run in memory on sparse factors; a world whose relations are in a database is a subclass that
runs them there. A join that is too large to be listed is evaluated in slices: a part is the sum
over the constants c of x of the part with x = c, so halves of x's domain are evaluated separately
and added.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lapis.data.database import Domain, empty_tuples
from lapis.errors import TooLarge
from lapis.language.model import Predicate
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
from lapis.relational.comparison import join_range, list_matches, test_rows
from lapis.relational.factor import (
    Factor,
    JoinTooLarge,
    add_factors,
    anti_join,
    indicator_factor,
    join_factors,
    join_onto,
    multiply_factors,
    project_factor,
    select_tuples,
)
from lapis.relational.query_plan import (
    FactorProduct,
    FactorSize,
    QueryPlan,
    count_distinct,
    estimate_matches,
    fold_scalars,
    tabulate_answers,
)

MOST_WORK = 1e13  # estimated rows that a plan may touch: about a day

Slices = Mapping[str, tuple[int, int]]  # variable → first code, last code + 1


@dataclass(frozen=True, eq=False)
class Extension:
    """The true atoms of one predicate."""

    types: tuple[str, ...]
    tuples: np.ndarray  # int32[num_tuples, arity], distinct rows
    complemented: bool = False  # the tuples are the false ones

    @property
    def num_tuples(self) -> int:
        return len(self.tuples)

    @cached_property
    def distinct(self) -> tuple[int, ...]:
        """The number of distinct values of each column."""
        return tuple(count_distinct(column) for column in self.tuples.T)

    def holds(self, terms: tuple[str | int, ...]) -> bool:
        """Return whether some listed tuple matches the terms."""
        return bool(len(select_tuples(terms, self.tuples)))

    def shape(self, terms: tuple[str | int, ...]) -> FactorSize:
        """Estimate the number of tuples that match the terms."""
        return estimate_matches(self.num_tuples, self.distinct, terms)


@dataclass(frozen=True, eq=False)
class Interpretation:
    """Truth of all ground atoms."""

    domains: Mapping[str, Domain]
    relations: Mapping[str, Extension]

    def size(self, type_name: str) -> int:
        return len(self.domains[type_name])

    def num_atoms(self, predicate: str) -> int:
        """Π |domain| over the predicate's arguments."""
        return math.prod(map(self.size, self.relations[predicate].types))

    def with_relation(self, name: str, extension: Extension) -> Interpretation:
        return replace(self, relations={**self.relations, name: extension})

    def run(self, plan: QueryPlan) -> list[FactorProduct]:
        """Return the value of each term of a plan."""
        return run_plans([plan], self)[0]

    def count_table(self, plan: QueryPlan) -> np.ndarray:
        """Return int64 or object[plan.shape], the groundings for each value of `plan.keep`."""
        return tabulate_answers(plan, self.run(plan))

    def find_positive(self, plan: QueryPlan, types: tuple[str, ...]) -> Extension:
        """Find the values of `plan.keep` with a positive count.

        Values without a row in any term have the same constant count. If that is positive, nearly
        all values have a grounding, and the extension lists the others.
        """
        constant = 0
        listed: list[Factor] = []
        for answer in self.run(plan):
            factor = answer.factor
            if factor is None:
                constant += answer.scale
            else:
                listed.append(_broadcast_factor(factor, plan).scale(answer.scale))
        if not plan.keep:
            return Extension(types, np.empty((1 if constant > 0 else 0, 0), np.int32))
        counts = add_factors(plan.keep, listed)
        if constant > 0:
            return Extension(types, counts.rows[counts.value == -constant], complemented=True)
        return Extension(types, counts.rows[counts.value > -constant])

    def explain_run(self, plan: QueryPlan) -> list[str]:
        """Return the SQL statements that run a plan; none in memory."""
        return []


def _broadcast_factor(factor: Factor, plan: QueryPlan) -> Factor:
    """Extend the factor to all kept variables, constant along those that it lacks."""
    for name, size in zip(plan.keep, plan.shape, strict=True):
        if name not in factor.variables:
            universe = indicator_factor((name,), np.arange(size, dtype=np.int32).reshape(-1, 1))
            factor = multiply_factors(factor, universe)
    return factor


def build_interpretation(
    predicates: Mapping[str, Predicate],
    domains: Mapping[str, Domain],
    tuples: Mapping[str, np.ndarray],
) -> Interpretation:
    """Build the world in which exactly the given tuples are true."""
    return Interpretation(
        domains,
        {
            name: Extension(predicate.types, tuples.get(name, empty_tuples(predicate.arity)))
            for name, predicate in predicates.items()
        },
    )


def run_plans(
    plans: Sequence[QueryPlan], world: Interpretation, max_memory: int | None = None
) -> list[list[FactorProduct]]:
    """Return the values of the terms of plans over the same variables; equal parts share a factor.

    Raise `TooLarge` if the sum of slices exceeds `max_memory` bytes.
    """
    refuse_costly_plan(sum(plan.cost for plan in plans))
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
            fold_scalars(term.coefficient * term.multiplier, list(map(factor, term.parts)))
            for term in plan.terms
        ]
        for plan in plans
    ]


def refuse_costly_plan(rows: float) -> None:
    """Raise TooLarge if a plan is estimated to touch too many rows."""
    if rows > MOST_WORK:
        raise TooLarge(
            f"counting would touch about {rows:.0e} rows; the limit is {MOST_WORK:.0e}",
            code="count-too-large",
            hint="count approximately, or write the formula with fewer unconnected variables",
        )


class Evaluation:
    """Evaluates expressions on one world and caches the shared ones."""

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
        """Evaluate an expression, or return its cached factor."""
        # Hashing a deep expression is expensive, and most plans share nothing.
        if not self.shared or expression not in self.shared:
            return self._evaluate(expression)
        if expression not in self.known:
            self.known[expression] = self._evaluate(expression)
        return self.known[expression]

    def _evaluate(self, expression: Expression) -> Factor:
        match expression:
            case Tuples(relation, terms):
                return self._within(select_tuples(terms, self.world.relations[relation].tuples))
            case Universe(variable, type_name):
                codes = np.arange(self.world.size(type_name), dtype=np.int32)
                return self._within(indicator_factor((variable,), codes.reshape(-1, 1)))
            case Matches():
                return self._within(list_matches(expression, self.domains))
            case Join(left, right, keep):
                return self._join(left, right, keep)
            case RangeJoin(left, right, test, keep):
                return join_range(self.run(left), self.run(right), test, keep, self.domains)
            case Project(part, keep):
                return project_factor(self.run(part), keep)
            case Without(part, excluded):
                return anti_join(self.run(part), self.run(excluded))
            case Restrict(part, test):
                factor = self.run(part)
                return factor.take(test_rows(test, factor, self.domains))

    def slice(self, expression: Expression, error: JoinTooLarge, max_memory: int | None) -> Factor:
        """Evaluate the expression as a sum over halves of a variable of the failing join.

        Raise the error again if no variable can be halved.
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
                    "the rows of a join exceed the memory limit",
                    code="too-large",
                    hint="raise the memory limit, or give more evidence",
                )
        return add_factors(expression.variables, found)

    def _within(self, factor: Factor) -> Factor:
        """Keep the rows in the slices."""
        for name, (start, stop) in (self.slices or {}).items():
            if name in factor.variables:
                code = factor.column(name)
                factor = factor.take((start <= code) & (code < stop))
        return factor

    def _join(self, left: Expression, right: Expression, keep: tuple[str, ...]) -> Factor:
        """Join two operands; to close a cycle, sum the inner join at rows of the outer one."""
        for inner, outer in ((left, right), (right, left)):
            if (
                isinstance(inner, Join)
                and set(inner.keep) == set(outer.variables)
                and inner not in self.shared
            ):
                target = self.run(outer)
                return project_factor(
                    join_onto(self.run(inner.left), self.run(inner.right), target), keep
                )
        return join_factors(self.run(left), self.run(right), keep)
