"""A world as relations: domains, and for each predicate a sparse extension.

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
from lapis.relational.cost import Shape, count_distinct, matching
from lapis.relational.factor import select


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
