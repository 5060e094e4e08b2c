"""Which weight a grounding counts for, and whether a world keeps the hard rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lapis.counting.totals import count_feature
from lapis.logic.clauses import Feature
from lapis.problem.problem import Problem
from lapis.relational.interpretation import Interpretation


class WeightKey(NamedTuple):
    """Weight ids: offset + the mixed-radix value of the plus variables, the last fastest."""

    offset: int
    plus: tuple[str, ...]
    shape: tuple[int, ...]


class WeightKeys(NamedTuple):
    """The weights of every rule, numbered as `WeightTable` does; hard rules share one more id."""

    of_rule: tuple[WeightKey, ...]
    num_weights: int

    @property
    def hard(self) -> int:
        """The id under which all hard rules are counted together."""
        return self.num_weights


def number_weights(problem: Problem) -> WeightKeys:
    table = problem.weight_table
    num_weights = int(table.offset[-1])
    hard = WeightKey(num_weights, (), ())
    return WeightKeys(
        tuple(
            hard if rule.hard else WeightKey(int(offset), rule.plus, shape)
            for rule, offset, shape in zip(
                problem.model.rules, table.offset[:-1], table.shape, strict=True
            )
        ),
        num_weights,
    )


def count_weights(
    features: Sequence[Feature], keys: WeightKeys, interpretation: Interpretation
) -> list[int]:
    """True groundings of each weight; zero for the weights of other rules."""
    counts = [0] * keys.num_weights
    for feature in features:
        if not feature.hard:
            offset = keys.of_rule[feature.rule].offset
            true = count_feature(feature, interpretation).true
            counts[offset : offset + len(true)] = true
    return counts


def count_violations(feature: Feature, interpretation: Interpretation) -> int:
    """Σ over the clauses of the number of groundings in which the clause is false."""
    counted = count_feature(feature, interpretation)
    always = (feature.constant + len(feature.clauses)) * counted.groundings
    return sum(always - true for true in counted.true)


def find_violated_rules(
    features: Sequence[Feature], interpretation: Interpretation
) -> tuple[int, ...]:
    """The hard rules that some grounding violates in this world."""
    return tuple(
        feature.rule
        for feature in features
        if feature.hard and count_violations(feature, interpretation)
    )
