"""The extensions of derived predicates: quantified subformulas, decided by counting.

A derived atom is true when some cube has a solution for the bound variables, that is when its
number of solutions

    n(x) = Σ_terms coefficient · multiplier · expression(x)

is positive. Where no term that mentions x has a row, n is the same constant. If that constant is
positive, nearly all atoms are true (∃y ¬F(x,y) fails only for an x with F to everyone), and the
extension lists the false ones instead. Only when a term covers some of x's variables and not the
others is n spread over the missing ones; that never goes beyond the definition's own variables.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lapis.data.database import empty_tuples
from lapis.data.tuples import difference, intersection, union
from lapis.errors import TooLarge
from lapis.logic.clauses import Definition
from lapis.relational.count_plan import CountPlan, plan_cube
from lapis.relational.execute import run_terms
from lapis.relational.factor import Factor, add_rows, indicator, multiply, scalar
from lapis.relational.interpretation import Extension, Interpretation

MAX_ROWS = 200_000_000  # of a term spread over a definition's variables


def extend(world: Interpretation, definitions: Sequence[Definition]) -> Interpretation:
    """The world with the derived predicates added, in their order of dependence."""
    for definition in definitions:
        extension = derive(definition, world)
        world = world.with_relation(definition.predicate.name, extension)
    return world


def derive(definition: Definition, world: Interpretation) -> Extension:
    """predicate(x) ⇔ ∃ bound: some cube is true."""
    names = tuple(name for name, _ in definition.variables)
    types = tuple(type_name for _, type_name in definition.variables)
    found = Extension(types, empty_tuples(len(names)))
    for cube in definition.cubes:
        variables = definition.variables + definition.bound
        plan = plan_cube(cube, variables, world, names)
        found = _union(found, _solvable(plan, types, world))
    return found


def _solvable(plan: CountPlan, types: tuple[str, ...], world: Interpretation) -> Extension:
    """Where the plan's count is positive."""
    constant = 0
    listed: list[Factor] = []
    for scale, factor in run_terms(plan.terms, world):
        if factor is None:
            constant += scale
        else:
            spread = _spread(factor, plan, world, types)
            listed.append(multiply(spread, scalar(scale)))
    if not plan.keep:
        rows = np.empty((1 if constant > 0 else 0, 0), np.int32)
        return Extension(types, rows)
    if not listed:
        return Extension(types, empty_tuples(len(types)), complemented=constant > 0)
    counts = add_rows(plan.keep, listed)
    if constant > 0:
        return Extension(types, counts.rows[counts.value == -constant], complemented=True)
    return Extension(types, counts.rows[counts.value > -constant])


def _spread(
    factor: Factor, plan: CountPlan, world: Interpretation, types: tuple[str, ...]
) -> Factor:
    """The factor over all kept variables: the same value whatever the missing ones are."""
    for name, type_name in zip(plan.keep, types, strict=True):
        if name in factor.variables:
            continue
        size = world.size(type_name)
        if len(factor) * size > MAX_ROWS:
            raise TooLarge(
                f"a quantified subformula over {', '.join(plan.keep)} has more than "
                f"{MAX_ROWS:,} cases to decide",
                code="derived-too-large",
                hint="give the quantified part fewer free variables",
            )
        universe = indicator((name,), np.arange(size, dtype=np.int32).reshape(-1, 1))
        factor = multiply(factor, universe)
    return factor


def _union(one: Extension, other: Extension) -> Extension:
    """Where one or the other is true: ¬A ∪ B = ¬(A∖B), ¬A ∪ ¬B = ¬(A∩B)."""
    if one.complemented and not other.complemented:
        one, other = other, one
    if not other.complemented:
        return Extension(one.types, union(one.tuples, other.tuples))
    remove = intersection if one.complemented else difference
    return Extension(one.types, remove(other.tuples, one.tuples), complemented=True)
