"""How many witnesses each derived atom has.

A derived atom D(x) ⇔ ∃y: cube₁ ∨ … is true iff its number of witnesses

    W(x) = Σ_cubes #{y : the cube is true}

is positive. W is one more sum-product, kept by x.
"""

from __future__ import annotations

from lapis.counting.differences.difference_terms import WeightKey, add_terms, evaluate_terms
from lapis.logic.clauses import Cube, Definition
from lapis.relational.conjunctions import (
    Conjunction,
    conditions_come_out,
    literals_hold,
    multiply,
)
from lapis.relational.factor import Factor, sort_rows
from lapis.relational.interpretation import Interpretation

NO_WEIGHT = WeightKey(0, (), ())


def cube_holds(cube: Cube) -> Conjunction:
    """1[every literal and every condition of the cube is true]."""
    return multiply(literals_hold(cube.literals), conditions_come_out(cube.conditions, True))


def count_witnesses(definition: Definition, interpretation: Interpretation) -> Factor:
    """W as a factor over the definition's variables; its rows are the true derived atoms.

    `interpretation` holds the base predicates and the earlier derived ones. Raises `TooLarge`
    where the derived predicate has too many true atoms to be listed.
    """
    variables = dict((*definition.variables, *definition.bound))
    keep = tuple(name for name, _ in definition.variables)
    terms = evaluate_terms(
        map(cube_holds, definition.cubes), variables, keep, NO_WEIGHT, interpretation
    )
    sizes = {name: interpretation.size(type_name) for name, type_name in variables.items()}
    return sort_rows(add_terms(terms, keep, sizes))
