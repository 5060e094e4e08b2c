"""The extensions of derived predicates: quantified subformulas, decided by counting.

A derived atom D(x) ⇔ ∃y: cube₁ ∨ … is true when its number of witnesses

    W(x) = Σ_cubes #{y : the cube is true}

is positive; W is one more sum-product, kept by x. Where no term that mentions x has a row, W is the
same constant. If that constant is positive, nearly all atoms are true (∃y ¬F(x,y) fails only for
an x with F to everyone), and the extension lists the false ones instead. Only when a term covers
some of x's variables and not the others is it spread over the missing ones; that never goes
beyond the definition's own variables. On a store the rows stay there, whichever they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lapis.logic.clauses import Definition
from lapis.relational.compile import Wanted, compile_plan
from lapis.relational.conjunction import cube_holds
from lapis.relational.factor import Factor, add_rows, indicator, multiply
from lapis.relational.interpretation import Extension, Interpretation
from lapis.relational.plan import Plan
from lapis.stores.counting.derived import derive_stored
from lapis.stores.load_to_store import StoredWorld
from lapis.stores.running import count_rows, run


def extend(world: Interpretation, definitions: Sequence[Definition]) -> Interpretation:
    """The world with the derived predicates added, in their order of dependence."""
    for definition in definitions:
        world = world.with_relation(definition.predicate.name, derive(definition, world))
    return world


def derive(definition: Definition, world: Interpretation) -> Extension:
    """predicate(x) ⇔ ∃ bound: some cube is true."""
    plan = _plan(definition, world, listed=False)
    types = definition.predicate.types
    if isinstance(world, StoredWorld):
        return derive_stored(plan, types, world)
    constant = 0
    listed: list[Factor] = []
    for answer in run(plan, world):
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


def count_witnesses(definition: Definition, world: Interpretation) -> Factor:
    """W as a factor over the definition's variables; its rows are the true derived atoms.

    `world` holds the base predicates and the earlier derived ones.
    """
    plan = _plan(definition, world, listed=True)
    return count_rows(plan, world)


def _plan(definition: Definition, world: Interpretation, listed: bool) -> Plan:
    names = tuple(name for name, _ in definition.variables)
    wanted = Wanted(names, names if listed else ())
    variables = definition.variables + definition.bound
    return compile_plan(map(cube_holds, definition.cubes), variables, world, wanted)


def _spread(factor: Factor, plan: Plan) -> Factor:
    """The factor over all kept variables: the same value whatever the missing ones are."""
    for name, size in zip(plan.keep, plan.shape, strict=True):
        if name not in factor.variables:
            universe = indicator((name,), np.arange(size, dtype=np.int32).reshape(-1, 1))
            factor = multiply(factor, universe)
    return factor
