"""True groundings of every rule in a complete world, as exact integers.

    true(feature) = constant · N + Σ_clauses (N − violations(clause))

with N the number of groundings; for a rule with plus variables one such number for each
combination of their constants, all from the same grouped sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

import numpy as np

from lapis.counting.derived import extend
from lapis.data.database import Domain
from lapis.language.model import Model
from lapis.logic.clauses import Feature, NormalForm
from lapis.relational.compile import plan_violations
from lapis.relational.interpretation import Interpretation, interpret
from lapis.relational.plan import Plan


class FeatureCount(NamedTuple):
    """The counts of one rule."""

    true: list[int]  # for each weight of the rule; one number if it is hard
    groundings: int  # of each of these weights


def count_true(
    normal_form: NormalForm,
    model: Model,
    domains: Mapping[str, Domain],
    relations: Mapping[str, np.ndarray],  # the true tuples, int32[num_true, arity], by predicate
) -> tuple[list[int], list[int]]:
    """True groundings and groundings of each weight, numbered as in `WeightTable`."""
    true: list[int] = []
    groundings: list[int] = []
    for feature, counted in zip(
        normal_form.features, count_features(normal_form, model, domains, relations), strict=True
    ):
        if not feature.hard:
            true += counted.true
            groundings += [counted.groundings] * len(counted.true)
    return true, groundings


def count_features(
    normal_form: NormalForm,
    model: Model,
    domains: Mapping[str, Domain],
    relations: Mapping[str, np.ndarray],
) -> list[FeatureCount]:
    """The counts of every rule, hard ones too."""
    world = complete_world(normal_form, model, domains, relations)
    return [count_feature(feature, world) for feature in normal_form.features]


def complete_world(
    normal_form: NormalForm,
    model: Model,
    domains: Mapping[str, Domain],
    relations: Mapping[str, np.ndarray],
) -> Interpretation:
    """The extensions of all base and derived predicates."""
    return extend(interpret(model.predicates, domains, relations), normal_form.definitions)


def count_feature(feature: Feature, world: Interpretation) -> FeatureCount:
    """constant · N + Σ_clauses (N − violations), for each weight of the feature."""
    plans = plan_feature(feature, world)
    keep = weight_variables(feature)
    types = dict(feature.variables)
    groundings = prod(
        world.size(type_name) for name, type_name in types.items() if name not in keep
    )
    always = (feature.constant + len(feature.clauses)) * groundings
    violations = np.zeros([world.size(types[name]) for name in keep], object)
    for plan in plans:
        violations += world.count_table(plan)
    return FeatureCount((always - violations.reshape(-1)).tolist(), groundings)


def plan_feature(feature: Feature, world: Interpretation) -> list[Plan]:
    """One plan for each clause: the groundings that violate it, for each weight."""
    keep = weight_variables(feature)
    return [plan_violations(clause, feature.variables, world, keep) for clause in feature.clauses]


def weight_variables(feature: Feature) -> tuple[str, ...]:
    """The variables whose constants select a weight; a hard feature has no weights to select."""
    return () if feature.hard else feature.plus
