"""Which weight a grounding counts for, and whether a world keeps the hard rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lapis.counting.conjunctions import conditions_come_out, literals_hold, multiply
from lapis.counting.difference_terms import WeightKey, evaluate_terms
from lapis.counting.interpretation import Interpretation
from lapis.counting.witnesses import NO_WEIGHT
from lapis.logic.clauses import Feature
from lapis.problem import Problem


class WeightKeys(NamedTuple):
    """The weights of every rule, numbered as `WeightTable` does; hard rules share one more id."""

    of_rule: tuple[WeightKey, ...]
    num_weights: int

    @property
    def hard(self) -> int:
        """The id under which all hard rules are counted together."""
        return self.num_weights


def number_weights(problem: Problem) -> WeightKeys:
    keys: list[WeightKey | None] = []
    offset = 0
    for feature in problem.normal_form.features:
        if feature.hard:
            keys.append(None)
            continue
        types = dict(feature.variables)
        shape = tuple(len(problem.domains[types[name]]) for name in feature.plus)
        keys.append(WeightKey(offset, feature.plus, shape))
        size = 1
        for radix in shape:
            size *= radix
        offset += size
    hard = WeightKey(offset, (), ())
    return WeightKeys(tuple(hard if key is None else key for key in keys), offset)


def violated_rules(
    features: Sequence[Feature], interpretation: Interpretation
) -> tuple[int, ...]:
    """The hard rules that some grounding violates in this world."""
    return tuple(
        feature.rule
        for feature in features
        if feature.hard and _num_violations(feature, interpretation)
    )


def _num_violations(feature: Feature, interpretation: Interpretation) -> int:
    """Σ over the clauses of the number of groundings in which the clause is false."""
    falsified = [
        multiply(
            literals_hold(literal.negate() for literal in clause.literals),
            conditions_come_out(clause.conditions, False),
        )
        for clause in feature.clauses
    ]
    terms = evaluate_terms(falsified, dict(feature.variables), (), NO_WEIGHT, interpretation)
    return sum(term.coefficient for term in terms)
