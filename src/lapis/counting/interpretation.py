"""One complete world as tables: the true tuples of every predicate, derived ones included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lapis.counting.extensions import Extension, Extensions
from lapis.data.database import Domain
from lapis.data.tuples import sorted_unique
from lapis.errors import LapisError
from lapis.logic.clauses import Definition
from lapis.problem.problem import Problem


@dataclass(frozen=True)
class Interpretation:
    """Truth of all ground atoms; an atom without a row is false."""

    domains: Mapping[str, Domain]
    types: Mapping[str, tuple[str, ...]]  # of each predicate's arguments
    rows: Mapping[str, np.ndarray]  # int32[num_true, arity], sorted and unique

    def size(self, type_name: str) -> int:
        return len(self.domains[type_name])

    def num_atoms(self, predicate: str) -> int:
        """Π |domain| over the predicate's arguments."""
        product = 1
        for type_name in self.types[predicate]:
            product *= self.size(type_name)
        return product

    @cached_property
    def extensions(self) -> Extensions:
        """The same world, as plans of total counts take it."""
        return Extensions(
            self.domains,
            {name: Extension(self.types[name], rows) for name, rows in self.rows.items()},
        )

    def with_relation(
        self, predicate: str, types: tuple[str, ...], rows: np.ndarray
    ) -> Interpretation:
        return replace(
            self, types={**self.types, predicate: types}, rows={**self.rows, predicate: rows}
        )


def interpret(problem: Problem, world: Mapping[str, np.ndarray] | None = None) -> Interpretation:
    """The closed world of a problem's evidence, or of `world`, over the base predicates.

    A predicate that `world` leaves out is false throughout. Raises a `LapisError` where the
    evidence leaves an atom unknown: counts in a world need all truth values.
    """
    if world is None:
        for name, evidence in problem.evidence.items():
            if evidence.open or len(evidence.unknown):
                raise LapisError(
                    f"the data leaves atoms of '{name}' unknown",
                    code="incomplete-world",
                    hint="counting needs a complete world: close the predicate or give its facts",
                )
        world = {name: evidence.true for name, evidence in problem.evidence.items()}
    types = {name: predicate.types for name, predicate in problem.model.predicates.items()}
    empty = np.empty((0, 0), np.int32)
    rows = {
        name: _tidy(np.asarray(world.get(name, empty), np.int32), len(argument_types))
        for name, argument_types in types.items()
    }
    return Interpretation(problem.domains, types, rows)


def _tidy(rows: np.ndarray, arity: int) -> np.ndarray:
    """int32[n, arity], sorted and unique; a nullary atom is true if it has any row."""
    if arity == 0:
        return np.empty((min(1, len(rows)), 0), np.int32)
    return sorted_unique(rows.reshape(-1, arity))


def exact_level(predicate: str, witnesses: int) -> str:
    """The name of the relation of derived atoms with exactly this many witnesses."""
    return f"{predicate}#{witnesses}"


def add_derived(
    interpretation: Interpretation, definitions: tuple[Definition, ...], levels: int = 0
) -> Interpretation:
    """Adds the true tuples of the derived predicates, in dependency order.

    With `levels` = k also the relations `exact_level(D, m)` for m = 1…k.
    """
    from lapis.counting.witnesses import count_witnesses

    for definition in definitions:
        name, types = definition.predicate.name, definition.predicate.types
        counts = count_witnesses(definition, interpretation)
        interpretation = interpretation.with_relation(name, types, counts.rows)
        for level in range(1, levels + 1):
            interpretation = interpretation.with_relation(
                exact_level(name, level), types, counts.rows[counts.value == level]
            )
    return interpretation
