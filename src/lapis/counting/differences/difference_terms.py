"""Differences evaluated into products of small sparse factors.

A conjunction, summed over all variables but the kept ones, is

    coefficient · Π_j G_j(kept variables of group j)

where the groups are the parts of the conjunction that hang together through summed variables.
Multiplying the groups out over all kept variables would be the cross product that is to be
avoided; `lapis.counting.differences.argument_classes` works on the groups as they are.
"""

from __future__ import annotations

from typing import NamedTuple

from lapis.counting.differences.differences import Difference, Target
from lapis.counting.weight_keys import WeightKey
from lapis.relational.compile import Wanted, compile_plan
from lapis.relational.factor import Factor
from lapis.relational.interpretation import Interpretation, run_plans


class Term(NamedTuple):
    """coefficient · Π groups, added to the weight that `key` selects."""

    coefficient: int
    groups: tuple[Factor, ...]
    key: WeightKey


def evaluate_difference(
    difference: Difference, target: Target, key: WeightKey, world: Interpretation
) -> tuple[list[Term], list[Term]]:
    """The terms of d(g) for false and for true atoms, over positions and plus variables.

    Equal groups are one and the same factor.
    """
    wanted = Wanted((*target.positions, *key.plus), key.plus, True, difference.determined)
    variables = tuple(difference.variables.items())
    plans = [
        compile_plan(side, variables, world, wanted)
        for side in (difference.when_false, difference.when_true)
    ]
    when_false, when_true = (
        [
            Term(answer.scale, answer.factors, key)
            for answer in answers
            if answer.scale and all(map(len, answer.factors))
        ]
        for answers in run_plans(plans, world)
    )
    return when_false, when_true
