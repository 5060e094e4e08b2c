"""A complete world as counting sees it: domains, and for each predicate a sparse extension.

The extension of a base predicate lists its true tuples. That of a derived predicate may be
complemented: it lists the false ones, because nearly everything is true (∃y ¬F(x,y)).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lapis.data.database import Domain, empty_tuples
from lapis.language.model import Predicate
from lapis.relational.elimination import Shape, count_distinct


@dataclass(frozen=True, eq=False)
class Extension:
    """What is true of one predicate."""

    types: tuple[str, ...]
    tuples: np.ndarray  # int32[num_tuples, arity], distinct rows
    complemented: bool = False  # the tuples are the false ones

    @cached_property
    def distinct(self) -> tuple[int, ...]:
        """The number of values in each column."""
        return tuple(count_distinct(column) for column in self.tuples.T)

    def shape(self, terms: tuple[str | int, ...]) -> Shape:
        """The estimated size of the tuples that match the terms."""
        rows = float(len(self.tuples))
        distinct: dict[str, float] = {}
        for term, count in zip(terms, self.distinct, strict=True):
            if isinstance(term, int):
                rows /= max(1, count)
            elif term in distinct:
                rows /= max(1, count)
                distinct[term] = min(distinct[term], count)
            else:
                distinct[term] = float(count)
        return Shape(rows, {name: min(count, rows) for name, count in distinct.items()})


@dataclass(frozen=True, eq=False)
class Extensions:
    domains: Mapping[str, Domain]
    by_predicate: Mapping[str, Extension]

    def size(self, type_name: str) -> int:
        return len(self.domains[type_name])

    def extended(self, predicate: str, extension: Extension) -> Extensions:
        return Extensions(self.domains, {**self.by_predicate, predicate: extension})


def interpret(
    predicates: Mapping[str, Predicate],
    domains: Mapping[str, Domain],
    relations: Mapping[str, np.ndarray],
) -> Extensions:
    """The world in which the given tuples are true and nothing else.

    A predicate without a relation has no true tuple.
    """
    return Extensions(
        domains,
        {
            name: Extension(predicate.types, relations.get(name, empty_tuples(predicate.arity)))
            for name, predicate in predicates.items()
        },
    )
