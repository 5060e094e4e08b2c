"""True groundings of every rule in a complete world, as exact integers.

    true(feature) = constant · N + Σ_clauses (N − violations(clause))

with N the number of groundings; for a rule with plus variables one such number for each
combination of their constants, all from the same grouped sums.

`count_sign_patterns` counts all sign patterns of a path, since structure learning tries every
clause over the same k atoms. Let N(S) be the number of groundings in which the literals in S hold:
a positive sub-join. The number in which exactly the literals in p hold follows by Möbius inversion
over supersets,

    n(p) = Σ_{S ⊇ p} (−1)^{|S∖p|} N(S),

with k·2^(k−1) subtractions for all 2^k patterns. N(S) is the product of the counts of the connected
parts of S and of the domains of variables that S does not mention. So only connected sets of atoms
are joined, each once, and they share subexpressions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from lapis.counting.complete_world import add_derived
from lapis.counting.differences.sparse_vectors import SparseVectors, add_entries
from lapis.data.database import Domain
from lapis.errors import TooLarge
from lapis.language.model import Model
from lapis.logic.clauses import Feature, Literal, NormalForm, TypedVariable
from lapis.problem.problem import Problem
from lapis.relational.algebra import Expression, Tuples
from lapis.relational.conjunction import RelationAtom, falsify_clause, require_literals
from lapis.relational.contraction import Contraction, group_connected, plan_contraction
from lapis.relational.exact_sums import SAFE
from lapis.relational.interpretation import Evaluation, Interpretation, build_interpretation
from lapis.relational.numbers import Values, number_values, sum_numbers, sum_weighed
from lapis.relational.plan_compiler import PlanOutput, compile_plan, match_atom, plan_violations
from lapis.relational.query_plan import QueryPlan, shared_expressions
from lapis.runtime.progress import check_time


class FeatureCount(NamedTuple):
    """The counts of one rule."""

    # For each weight of the rule; one number if it is hard. Floats if it has numbers.
    true: Sequence[float]
    groundings: int  # of each of these weights


def count_true_groundings(
    normal_form: NormalForm,
    model: Model,
    domains: Mapping[str, Domain],
    relations: Mapping[str, np.ndarray],  # the true tuples, int32[num_true, arity], by predicate
) -> tuple[list[float], list[int]]:
    """Return true groundings and groundings of each weight, numbered as in `WeightTable`."""
    world = build_complete_world(normal_form, model, domains, relations)
    true: list[float] = []
    groundings: list[int] = []
    for feature in normal_form.features:
        if not feature.hard:
            counted = count_feature(feature, world)
            true += counted.true
            groundings += [counted.groundings] * len(counted.true)
    return true, groundings


def build_complete_world(
    normal_form: NormalForm,
    model: Model,
    domains: Mapping[str, Domain],
    relations: Mapping[str, np.ndarray],
) -> Interpretation:
    """Build the extensions of all base and derived predicates from true tuples."""
    return add_derived(
        build_interpretation(model.predicates, domains, relations), normal_form.definitions
    )


def count_feature(feature: Feature, world: Interpretation) -> FeatureCount:
    """Compute constant · N + Σ_clauses (N − violations) for each weight of the feature."""
    check_time("counting")
    if feature.numbers:
        return weigh_feature(feature, world)
    plans = plan_feature(feature, world)
    keep = weight_variables(feature)
    types = dict(feature.variables)
    groundings = prod(
        world.size(type_name) for name, type_name in types.items() if name not in keep
    )
    always = (feature.constant + len(feature.clauses)) * groundings
    fits = (abs(feature.constant) + len(feature.clauses)) * groundings < SAFE
    violations = np.zeros([world.size(types[name]) for name in keep], np.int64 if fits else object)
    for plan in plans:
        violations += world.count_table(plan).astype(violations.dtype)
    return FeatureCount((always - violations.reshape(-1)).tolist(), groundings)


def weigh_feature(feature: Feature, world: Interpretation) -> FeatureCount:
    """Sum the numbers of the true groundings for each weight of the feature."""
    types, plus = dict(feature.variables), feature.plus
    groundings = prod(world.size(t) for name, t in feature.arguments if name not in plus)
    size = prod(world.size(types[name]) for name in plus)
    found = np.zeros(size)
    always = feature.constant + len(feature.clauses)
    if always:
        found += always * sum_numbers(feature, world)
    violated = [falsify_clause(clause) for clause in feature.clauses]
    found -= sum_weighed(feature, violated, world)
    return FeatureCount(found.tolist(), groundings)


def plan_feature(feature: Feature, world: Interpretation) -> list[QueryPlan]:
    """Plan for each clause the number of groundings that violate it, for each weight."""
    keep = weight_variables(feature)
    return [plan_violations(clause, feature.variables, world, keep) for clause in feature.clauses]


def weight_variables(feature: Feature) -> tuple[str, ...]:
    """Return the variables whose constants select a weight; none for a hard feature."""
    return () if feature.hard else feature.plus


def count_sign_patterns(
    literals: Sequence[Literal], variables: tuple[TypedVariable, ...], world: Interpretation
) -> list[int]:
    """Count for each of the 2^k patterns the groundings of `variables` that have it.

    In pattern p, literal i holds exactly if bit i of p is set.
    """
    flipped = sum(
        1 << bit
        for bit, literal in enumerate(literals)
        if literal.positive == world.relations[literal.predicate].complemented
    )
    atoms = [
        match_atom(RelationAtom(literal.predicate, literal.terms), world) for literal in literals
    ]
    counts = _count_subsets(atoms, variables, world)
    for bit in range(len(literals)):
        for pattern in range(len(counts)):
            if not pattern >> bit & 1:
                counts[pattern] -= counts[pattern | 1 << bit]
    return [counts[pattern ^ flipped] for pattern in range(len(counts))]


def _count_subsets(
    atoms: Sequence[Tuples], variables: tuple[TypedVariable, ...], world: Interpretation
) -> list[int]:
    """Compute N(S) for every set S of atoms, given as a bit mask."""
    components = [_connected_masks(subset, atoms) for subset in range(1 << len(atoms))]
    plans = {
        component: _plan_component(component, atoms, world)
        for component in {part for parts in components for part in parts}
    }
    evaluation = Evaluation(world, {}, shared_expressions(list(plans.values())))
    joined = {component: evaluation.run(plan).total() for component, plan in plans.items()}
    sizes = {name: world.size(type_name) for name, type_name in variables}
    counts = []
    for subset, parts in enumerate(components):
        mentioned = _mentioned_variables(subset, atoms)
        others = prod(size for name, size in sizes.items() if name not in mentioned)
        counts.append(others * prod(joined[part] for part in parts))
    return counts


def _plan_component(component: int, atoms: Sequence[Tuples], world: Interpretation) -> Expression:
    leaves = [
        Contraction(atom, world.relations[atom.relation].shape(atom.terms), 0.0)
        for bit, atom in enumerate(atoms)
        if component >> bit & 1
    ]
    return plan_contraction(leaves, (), ()).expression


def _connected_masks(subset: int, atoms: Sequence[Tuples]) -> list[int]:
    """Split the subset into masks of atoms that are connected by shared variables."""
    bits = [bit for bit in range(len(atoms)) if subset >> bit & 1]
    return [
        sum(1 << bit for bit in part)
        for part in group_connected(bits, lambda bit: set(atoms[bit].variables))
    ]


def _mentioned_variables(subset: int, atoms: Sequence[Tuples]) -> set[str]:
    return {name for bit, atom in enumerate(atoms) if subset >> bit & 1 for name in atom.variables}


class WeightKey(NamedTuple):
    """Weight ids: offset + the mixed-radix value of the plus variables, the last fastest."""

    offset: int
    plus: tuple[str, ...]
    shape: tuple[int, ...]
    values: Values = MappingProxyType({})  # the factors of the variables of numbers


class WeightKeys(NamedTuple):
    """The weights of every rule, numbered as `WeightTable` does; hard rules share one more id."""

    of_rule: tuple[WeightKey, ...]
    num_weights: int

    @property
    def hard(self) -> int:
        """The id of all hard rules together."""
        return self.num_weights


def number_weights(problem: Problem) -> WeightKeys:
    table = problem.weight_table
    num_weights = int(table.offset[-1])
    hard = WeightKey(num_weights, (), ())
    values = {
        feature.rule: number_values(feature, problem.domains)
        for feature in problem.normal_form.features
        if feature.numbers
    }
    return WeightKeys(
        tuple(
            hard if rule.hard else WeightKey(int(offset), rule.plus, shape, values.get(number, {}))
            for number, (rule, offset, shape) in enumerate(
                zip(problem.model.rules, table.offset[:-1], table.shape, strict=True)
            )
        ),
        num_weights,
    )


MAX_COLUMNS = 50_000_000


class SeparateNumbers(NamedTuple):
    """Keys with a column for each weight and combination of numbers, to count in integers.

    Without numbers each weight is one column.
    """

    keys: WeightKeys  # of the columns; no key has numbers
    weight: np.ndarray  # int64[num_columns + 1], the weight of each; the last is that of hard rules
    factor: np.ndarray  # float64[num_columns + 1], the product of its numbers


def separate_numbers(keys: WeightKeys) -> SeparateNumbers:
    """Number columns for the numbers of formulas, as for + variables.

    Raises TooLarge if there are too many.
    """
    weights: list[np.ndarray] = []
    factors: list[np.ndarray] = []
    found: list[WeightKey | None] = []
    begin = 0
    for key in keys.of_rule:
        if key.offset == keys.hard:
            found.append(None)
            continue
        own = prod(key.shape)
        table = np.ones(1)
        for values in key.values.values():
            if own * table.size * len(values) > MAX_COLUMNS:
                raise TooLarge(
                    f"a product of numbers has {own * table.size * len(values):,} combinations of "
                    f"values; at most {MAX_COLUMNS:,} can be counted atom by atom",
                    code="too-many-numbers",
                    hint="multiply the numbers in the data: one function in place of several",
                )
            # Numbers of other functions may have no logarithm.
            known = np.where(np.isfinite(values), values, 0.0)
            table = np.multiply.outer(table, known).reshape(-1)
        shape = (*key.shape, *map(len, key.values.values()))
        found.append(WeightKey(begin, (*key.plus, *key.values), shape))
        weights.append(key.offset + np.repeat(np.arange(own), len(table)))
        factors.append(np.tile(table, own))
        begin += own * len(table)
    hard = WeightKey(begin, (), ())
    of_rule = tuple(hard if key is None else key for key in found)
    return SeparateNumbers(
        WeightKeys(of_rule, begin),
        np.concatenate([*weights, [keys.hard]]).astype(np.int64),
        np.concatenate([*factors, [1.0]]),
    )


def fold_columns(numbers: SeparateNumbers, vectors: SparseVectors) -> SparseVectors:
    """Multiply the entries of columns by their numbers and add those of the same weight."""
    value = vectors.value.astype(np.float64) * numbers.factor[vectors.column]
    return add_entries(len(vectors.start) - 1, vectors.row, numbers.weight[vectors.column], value)


def count_columns(
    features: Sequence[Feature], keys: WeightKeys, interpretation: Interpretation
) -> list[int]:
    """Count the true groundings of each column of `separate_numbers`."""
    counts = [0] * keys.num_weights
    for feature in features:
        if feature.hard:
            continue
        offset = keys.of_rule[feature.rule].offset
        if feature.numbers:
            true = count_separately(feature, interpretation)
        else:
            true = [int(number) for number in count_feature(feature, interpretation).true]
        counts[offset : offset + len(true)] = true
    return counts


def count_separately(feature: Feature, world: Interpretation) -> list[int]:
    """Count the true groundings of a feature for each combination of its selecting variables."""
    keep, variables = feature.selecting, feature.variables
    guarded = compile_plan(
        [require_literals(feature.guards)], variables, world, PlanOutput(keep, keep)
    )
    always = feature.constant + len(feature.clauses)
    found = always * world.count_table(guarded).astype(object)
    for clause in feature.clauses:
        found -= world.count_table(plan_violations(clause, variables, world, keep))
    return [int(number) for number in found.reshape(-1)]


def count_weights(
    features: Sequence[Feature], keys: WeightKeys, interpretation: Interpretation
) -> Sequence[float]:
    """Count the true groundings of each weight; zero for the weights of other rules."""
    counts: list[float] = [0] * keys.num_weights
    for feature in features:
        if not feature.hard:
            offset = keys.of_rule[feature.rule].offset
            true = count_feature(feature, interpretation).true
            counts[offset : offset + len(true)] = true
    return counts


def count_violations(feature: Feature, interpretation: Interpretation) -> int:
    """Sum over the clauses of a hard rule the groundings in which the clause is false."""
    counted = count_feature(feature, interpretation)
    always = (feature.constant + len(feature.clauses)) * counted.groundings
    return sum(always - int(true) for true in counted.true)


def find_violated_rules(
    features: Sequence[Feature], interpretation: Interpretation
) -> tuple[int, ...]:
    """Find the hard rules that some grounding violates in this world."""
    return tuple(
        feature.rule
        for feature in features
        if feature.hard and count_violations(feature, interpretation)
    )
