"""The extensions of derived predicates: quantified subformulas, decided by counting.

A derived atom D(x) ⇔ ∃y: cube₁ ∨ … is true when its number of witnesses

    W(x) = Σ_cubes #{y : the cube is true}

is positive; W is one more sum-product, kept by x.
"""

from __future__ import annotations

from collections.abc import Sequence

from lapis.logic.clauses import Definition
from lapis.relational.compile import Wanted, compile_plan
from lapis.relational.conjunction import cube_holds
from lapis.relational.factor import Factor
from lapis.relational.interpretation import Extension, Interpretation
from lapis.relational.plan import Plan, list_rows


def extend(world: Interpretation, definitions: Sequence[Definition]) -> Interpretation:
    """The world with the derived predicates added, in their order of dependence."""
    for definition in definitions:
        world = world.with_relation(definition.predicate.name, derive(definition, world))
    return world


def derive(definition: Definition, world: Interpretation) -> Extension:
    """predicate(x) ⇔ ∃ bound: some cube is true."""
    return world.find_positive(_plan(definition, world, False), definition.predicate.types)


def count_witnesses(definition: Definition, world: Interpretation) -> Factor:
    """W as a factor over the definition's variables; its rows are the true derived atoms.

    `world` holds the base predicates and the earlier derived ones.
    """
    plan = _plan(definition, world, listed=True)
    return list_rows(plan, world.run(plan))


def _plan(definition: Definition, world: Interpretation, listed: bool) -> Plan:
    names = tuple(name for name, _ in definition.variables)
    wanted = Wanted(names, names if listed else ())
    variables = definition.variables + definition.bound
    return compile_plan(map(cube_holds, definition.cubes), variables, world, wanted)
