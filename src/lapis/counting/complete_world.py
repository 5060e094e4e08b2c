"""The complete world of a problem as relations, with quantified subformulas as derived predicates.

A derived atom D(x) ⇔ ∃y: cube₁ ∨ … is true if its number of witnesses

    W(x) = Σ_cubes #{y : the cube is true}

is positive. W is a sum-product that keeps x.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np

from lapis.data.keys import sorted_unique
from lapis.errors import LapisError
from lapis.logic.clauses import Definition
from lapis.problem.problem import LazyEvidence, Problem
from lapis.relational.conjunction import require_cube
from lapis.relational.factor import Factor
from lapis.relational.interpretation import Extension, Interpretation, build_interpretation
from lapis.relational.plan_compiler import PlanOutput, compile_plan
from lapis.relational.query_plan import QueryPlan, list_answer_rows


@runtime_checkable
class WorldSource(Protocol):
    """Facts that are stored elsewhere, such as in the tables of a database."""

    def open_world(self, problem: Problem) -> Interpretation:
        """Return the world of the problem's true facts."""


def base_world(problem: Problem, world: Mapping[str, np.ndarray] | None = None) -> Interpretation:
    """Return the closed world of a problem's evidence, or of `world`, over the base predicates.

    Predicates missing in `world` have no true atom. Raise `incomplete-world` if the evidence leaves
    an atom unknown.
    """
    if world is None:
        for name, evidence in problem.evidence.items():
            if evidence.open or len(evidence.unknown):
                raise LapisError(
                    f"atoms of '{name}' are unknown; counting needs a complete world",
                    code="incomplete-world",
                    hint="close the predicate, or give its facts",
                )
        return closed_world(problem)
    empty = np.empty((0, 0), np.int32)
    return Interpretation(
        problem.domains,
        {
            name: Extension(
                predicate.types,
                _sort_tuples(np.asarray(world.get(name, empty), np.int32), predicate.arity),
            )
            for name, predicate in problem.model.predicates.items()
        },
    )


def closed_world(problem: Problem) -> Interpretation:
    """Return the world in which exactly the atoms that the evidence makes true are true."""
    for evidence in problem.evidence.values():
        if isinstance(evidence, LazyEvidence) and isinstance(evidence.rows, WorldSource):
            return evidence.rows.open_world(problem)
    true = {name: evidence.true for name, evidence in problem.evidence.items()}
    return build_interpretation(problem.model.predicates, problem.domains, true)


def _sort_tuples(rows: np.ndarray, arity: int) -> np.ndarray:
    """Return int32[n, arity], sorted and unique; a nullary atom is true if it has a row."""
    if arity == 0:
        return np.empty((min(1, len(rows)), 0), np.int32)
    return sorted_unique(rows.reshape(-1, arity))


def name_level(predicate: str, witnesses: int) -> str:
    """Name the relation of derived atoms with exactly this many witnesses."""
    return f"{predicate}#{witnesses}"


def add_derived(
    world: Interpretation, definitions: tuple[Definition, ...], levels: int = 0
) -> Interpretation:
    """Add the extensions of the derived predicates, in order of dependence.

    With `levels` = k also add the relations `name_level(D, m)` for m = 1…k.
    """
    for definition in definitions:
        name, types = definition.predicate.name, definition.predicate.types
        if not levels:
            world = world.with_relation(name, derive_extension(definition, world))
            continue
        counts = count_witnesses(definition, world)
        world = world.with_relation(name, Extension(types, counts.rows))
        for level in range(1, levels + 1):
            rows = counts.rows[counts.value == level]
            world = world.with_relation(name_level(name, level), Extension(types, rows))
    return world


def derive_extension(definition: Definition, world: Interpretation) -> Extension:
    """Find the true atoms of predicate(x) ⇔ ∃ bound: some cube is true."""
    return world.find_positive(
        _plan_witnesses(definition, world, False), definition.predicate.types
    )


def count_witnesses(definition: Definition, world: Interpretation) -> Factor:
    """Return W as a factor over the definition's variables; its rows are the true derived atoms.

    `world` contains the base predicates and the earlier derived ones.
    """
    plan = _plan_witnesses(definition, world, listed=True)
    return list_answer_rows(plan, world.run(plan))


def _plan_witnesses(definition: Definition, world: Interpretation, listed: bool) -> QueryPlan:
    names = tuple(name for name, _ in definition.variables)
    wanted = PlanOutput(names, names if listed else ())
    variables = definition.variables + definition.bound
    return compile_plan(map(require_cube, definition.cubes), variables, world, wanted)
