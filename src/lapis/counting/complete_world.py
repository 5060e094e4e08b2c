"""One complete world of a problem, as sorted relations; derived predicates by their witnesses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np

from lapis.counting.derived import count_witnesses, derive
from lapis.data.keys import sorted_unique
from lapis.errors import LapisError
from lapis.logic.clauses import Definition
from lapis.problem.problem import LazyEvidence, Problem
from lapis.relational.interpretation import Extension, Interpretation, interpret


@runtime_checkable
class WorldSource(Protocol):
    """Rows of facts that have a world of their own, as tables of a database do."""

    def open_world(self, problem: Problem) -> Interpretation:
        """The world of the problem's true facts."""


def base_world(problem: Problem, world: Mapping[str, np.ndarray] | None = None) -> Interpretation:
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
        return closed_world(problem)
    empty = np.empty((0, 0), np.int32)
    return Interpretation(
        problem.domains,
        {
            name: Extension(
                predicate.types,
                _tidy(np.asarray(world.get(name, empty), np.int32), predicate.arity),
            )
            for name, predicate in problem.model.predicates.items()
        },
    )


def closed_world(problem: Problem) -> Interpretation:
    """The world in which the atoms that the evidence makes true are true, and no others."""
    for evidence in problem.evidence.values():
        if isinstance(evidence, LazyEvidence) and isinstance(evidence.rows, WorldSource):
            return evidence.rows.open_world(problem)
    true = {name: evidence.true for name, evidence in problem.evidence.items()}
    return interpret(problem.model.predicates, problem.domains, true)


def _tidy(rows: np.ndarray, arity: int) -> np.ndarray:
    """int32[n, arity], sorted and unique; a nullary atom is true if it has any row."""
    if arity == 0:
        return np.empty((min(1, len(rows)), 0), np.int32)
    return sorted_unique(rows.reshape(-1, arity))


def exact_level(predicate: str, witnesses: int) -> str:
    """The name of the relation of derived atoms with exactly this many witnesses."""
    return f"{predicate}#{witnesses}"


def add_derived(
    world: Interpretation, definitions: tuple[Definition, ...], levels: int = 0
) -> Interpretation:
    """Adds the extensions of the derived predicates, in dependency order.

    With `levels` = k also the relations `exact_level(D, m)` for m = 1…k.
    """
    for definition in definitions:
        name, types = definition.predicate.name, definition.predicate.types
        if not levels:
            world = world.with_relation(name, derive(definition, world))
            continue
        counts = count_witnesses(definition, world)
        world = world.with_relation(name, Extension(types, counts.rows))
        for level in range(1, levels + 1):
            rows = counts.rows[counts.value == level]
            world = world.with_relation(exact_level(name, level), Extension(types, rows))
    return world
