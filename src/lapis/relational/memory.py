"""Plans in memory, on sparse factors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
from lapis.relational.answers import Product, fold_numbers
from lapis.relational.comparison import list_matches, passes
from lapis.relational.factor import (
    Factor,
    anti_join,
    indicator,
    join,
    join_onto,
    project,
    select,
)
from lapis.relational.interpretation import Interpretation
from lapis.relational.plan import Plan
from lapis.relational.range_join import join_range

MOST_WORK = 1e13  # rows that a plan may be estimated to touch: about a day


def run(plan: Plan, world: Interpretation) -> list[Product]:
    return run_together([plan], world)[0]


def run_together(plans: Sequence[Plan], world: Interpretation) -> list[list[Product]]:
    """The answers to plans over the same variables; equal parts are one and the same factor."""
    refuse_work(sum(plan.cost for plan in plans))
    shared = frozenset[Expression]().union(*(plan.shared for plan in plans))
    if len(plans) > 1:
        shared |= {part for plan in plans for term in plan.terms for part in term.parts}
    domains: dict[str, Domain] = {}
    for plan in plans:
        domains |= plan.domains(world.domains)
    evaluation = Evaluation(world, domains, shared)
    return [
        [
            fold_numbers(term.coefficient * term.multiplier, list(map(evaluation.run, term.parts)))
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


class MemoryEngine:
    """Runs plans on a world held in arrays."""

    def __init__(self, world: Interpretation) -> None:
        self.world = world

    def run(self, plan: Plan) -> list[Product]:
        return run(plan, self.world)

    def close(self) -> None:
        pass


class Evaluation:
    """Evaluates expressions on one world and remembers the shared ones."""

    def __init__(
        self,
        world: Interpretation,
        domains: Mapping[str, Domain],  # of the variables
        shared: frozenset[Expression],
    ) -> None:
        self.world = world
        self.domains = domains
        self.shared = shared
        self.known: dict[Expression, Factor] = {}

    def run(self, expression: Expression) -> Factor:
        # Most plans share nothing, and to look a deep expression up is to hash all of it.
        if not self.shared or expression not in self.shared:
            return self._compute(expression)
        if expression not in self.known:
            self.known[expression] = self._compute(expression)
        return self.known[expression]

    def _compute(self, expression: Expression) -> Factor:
        match expression:
            case Tuples(relation, terms):
                return select(terms, self.world.relations[relation].tuples)
            case Universe(variable, type_name):
                codes = np.arange(self.world.size(type_name), dtype=np.int32)
                return indicator((variable,), codes.reshape(-1, 1))
            case Matches():
                return list_matches(expression, self.domains)
            case Join(left, right, keep):
                return self._join(left, right, keep)
            case RangeJoin(left, right, test, keep):
                return join_range(self.run(left), self.run(right), test, keep, self.domains)
            case Project(part, keep):
                return project(self.run(part), keep)
            case Without(part, excluded):
                return anti_join(self.run(part), self.run(excluded))
            case Restrict(part, test):
                factor = self.run(part)
                return factor.take(passes(test, factor, self.domains))

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
