"""A world as relations: domains, and for each predicate a sparse extension.

A world runs plans. This one does so in memory. A world whose relations are in a database is a
subclass that runs them there.

The extension of a base predicate lists its true tuples. That of a derived predicate may be
complemented: it lists the false ones, because nearly everything is true (∃y ¬F(x,y)).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lapis.data.database import Domain, empty_tuples
from lapis.language.model import Predicate
from lapis.relational.factor import Factor, add_rows, indicator, multiply, select
from lapis.relational.memory import run_plans
from lapis.relational.plan import Plan, Product, Shape, count_distinct, matching, tabulate


@dataclass(frozen=True, eq=False)
class Extension:
    """What is true of one predicate."""

    types: tuple[str, ...]
    tuples: np.ndarray  # int32[num_tuples, arity], distinct rows
    complemented: bool = False  # the tuples are the false ones

    @property
    def num_tuples(self) -> int:
        return len(self.tuples)

    @cached_property
    def distinct(self) -> tuple[int, ...]:
        """The number of values in each column."""
        return tuple(count_distinct(column) for column in self.tuples.T)

    def holds(self, terms: tuple[str | int, ...]) -> bool:
        """Whether some listed tuple matches the terms."""
        return bool(len(select(terms, self.tuples)))

    def shape(self, terms: tuple[str | int, ...]) -> Shape:
        """The estimated size of the tuples that match the terms."""
        return matching(self.num_tuples, self.distinct, terms)


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

    def run(self, plan: Plan) -> list[Product]:
        """The answer to each term of a plan."""
        return run_plans([plan], self)[0]

    def count_table(self, plan: Plan) -> np.ndarray:
        """int64 or object[plan.shape], the number of groundings for each value of `plan.keep`."""
        return tabulate(plan, self.run(plan))

    def find_positive(self, plan: Plan, types: tuple[str, ...]) -> Extension:
        """The values of `plan.keep`, of these types, that some grounding has.

        Where no term has a row the sum is the same constant. If that is positive, nearly all values
        have a grounding, and the extension lists the others. A term over some of the kept variables
        is spread over the others.
        """
        constant = 0
        listed: list[Factor] = []
        for answer in self.run(plan):
            factor = answer.factor
            if factor is None:
                constant += answer.scale
            else:
                listed.append(_spread(factor, plan).scale(answer.scale))
        if not plan.keep:
            return Extension(types, np.empty((1 if constant > 0 else 0, 0), np.int32))
        counts = add_rows(plan.keep, listed)
        if constant > 0:
            return Extension(types, counts.rows[counts.value == -constant], complemented=True)
        return Extension(types, counts.rows[counts.value > -constant])

    def explain_run(self, plan: Plan) -> list[str]:
        """The statements that run a plan; none in memory."""
        return []


def _spread(factor: Factor, plan: Plan) -> Factor:
    """The factor over all kept variables: the same value whatever the missing ones are."""
    for name, size in zip(plan.keep, plan.shape, strict=True):
        if name not in factor.variables:
            universe = indicator((name,), np.arange(size, dtype=np.int32).reshape(-1, 1))
            factor = multiply(factor, universe)
    return factor


def interpret(
    predicates: Mapping[str, Predicate],
    domains: Mapping[str, Domain],
    tuples: Mapping[str, np.ndarray],
) -> Interpretation:
    """The world in which the given tuples are true and nothing else.

    A predicate without tuples is false throughout.
    """
    return Interpretation(
        domains,
        {
            name: Extension(predicate.types, tuples.get(name, empty_tuples(predicate.arity)))
            for name, predicate in predicates.items()
        },
    )
