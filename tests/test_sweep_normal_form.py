"""Clauses count what formulas count: the normal form is held to the oracle, in every world.

The count of a feature is constant·N + Σ over clauses of the true groundings; derived atoms are
read off their definitions, in order.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import oracle
from golden_models import GoldenModel, golden_models
from lapis.language import parse_model
from lapis.language.model import Model
from lapis.language.syntax import Offset, Variable
from lapis.logic.clauses import Condition, Literal
from lapis.logic.normalize import normalize
from oracle import Binding, Domains, Facts, GroundAtom, WeightKey
from strategies import Case, cases

Truths = dict[GroundAtom, np.ndarray]  # bool[num_worlds] for each atom, base or derived

ENUMERABLE = [golden for golden in golden_models() if golden.applies_to("enumerate")]


def literal_truth(literal: Literal, binding: Binding, truths: Truths) -> np.ndarray:
    arguments = tuple(oracle.constant_of(term, binding) for term in literal.terms)
    truth = truths[literal.predicate, arguments]
    return truth if literal.positive else ~truth


def condition_truth(condition: Condition, binding: Binding) -> bool:
    right: Variable | Offset = condition.right  # type: ignore[assignment]
    if condition.offset and isinstance(right, Variable):
        right = Offset(right, condition.offset)
    elif condition.offset:
        # left op constant + offset is left - offset op constant
        assert isinstance(condition.left, Variable)
        moved = Offset(condition.left, -condition.offset)
        return oracle.compare(condition.operator, moved, right, binding)
    return oracle.compare(condition.operator, condition.left, right, binding)


def check_normal_form(model: Model, facts: Facts, query: tuple[str, ...]) -> None:
    domains: Domains = oracle.constants_of(model, facts)
    worlds = oracle.worlds_agreeing_with(
        oracle.known_atoms(model, facts, domains, set(query or model.predicates))
    )
    normal_form = normalize(model)
    truths: Truths = {atom: worlds[atom] for atom in worlds.column}
    for definition in normal_form.definitions:
        for outer in oracle.bindings(definition.variables, domains):
            found = worlds.constantly(False)
            for inner in oracle.bindings(definition.bound, domains):
                binding = {**outer, **inner}
                for cube in definition.cubes:
                    held = worlds.constantly(
                        all(condition_truth(condition, binding) for condition in cube.conditions)
                    )
                    for literal in cube.literals:
                        held &= literal_truth(literal, binding, truths)
                    found |= held
            name = definition.predicate.name
            truths[name, tuple(outer[variable] for variable, _ in definition.variables)] = found

    counts: dict[WeightKey, np.ndarray] = {
        key: np.zeros(len(worlds.truth), np.int64) for key in oracle.weight_keys(model, domains)
    }
    possible = oracle.satisfies_blocks(model, domains, worlds)
    for feature in normal_form.features:
        for binding in oracle.bindings(feature.variables, domains):
            key = feature.rule, tuple(binding[name] for name in feature.plus)
            if not feature.hard:
                counts[key] += feature.constant
            for clause in feature.clauses:
                held = worlds.constantly(
                    any(condition_truth(condition, binding) for condition in clause.conditions)
                )
                for literal in clause.literals:
                    held |= literal_truth(literal, binding, truths)
                if feature.hard:
                    possible &= held
                else:
                    counts[key] += held

    weighing = oracle.weigh(model, domains, worlds)
    assert np.array_equal(possible, weighing.possible)
    for key, count in weighing.counts.items():
        assert np.array_equal(counts[key], count), model.rules[key[0]].text


@pytest.mark.parametrize("golden", ENUMERABLE, ids=lambda golden: golden.name)
def test_golden_model(golden: GoldenModel) -> None:
    check_normal_form(parse_model(golden.text), golden.facts, golden.query)


@given(cases())
def test_random_model(case: Case) -> None:
    check_normal_form(parse_model(case.model), case.facts, case.query)


@pytest.mark.slow
@given(cases())
@settings(max_examples=5_000)
def test_random_model_at_length(case: Case) -> None:
    check_normal_form(parse_model(case.model), case.facts, case.query)
