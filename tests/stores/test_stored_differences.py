"""Classes counted on a store equal those in memory, for random models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import lapis
import oracle
from counting.differences.test_block_classes import variants
from counting.small_worlds import Small, small_problems
from lapis.counting.differences.atom_classes import (
    DifferenceClasses,
    find_difference_classes,
    pseudo_log_likelihood,
)
from lapis.counting.differences.atom_differences import list_tuples, open_differences
from lapis.counting.differences.block_classes import BlockClasses, find_block_classes
from lapis.counting.rule_counts import build_closed_world
from lapis.counting.totals import count_feature
from lapis.problem.problem import Problem
from lapis.stores import Store, open_store
from lapis.stores.counting.stored_differences import StoredDifferences
from lapis.stores.load_to_store import place_problem
from store_urls import QUICK_STORES, store_url
from strategies import Case, cases

pytestmark = pytest.mark.usefixtures("price_everything")
many = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=12
)


@pytest.fixture(scope="module", params=QUICK_STORES)
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    with open_store(store_url(request.param, request)) as opened:
        yield opened


def find_classes(problem: Problem, name: str) -> DifferenceClasses | BlockClasses:
    find = find_block_classes if problem.model.predicates[name].block else find_difference_classes
    return find(problem, name)


def assert_same(found: DifferenceClasses | BlockClasses, expected: object) -> None:
    """Compare array by array: sums over classes must have the same order."""
    assert type(found) is type(expected)
    for field in fields(found):
        np.testing.assert_array_equal(
            getattr(found, field.name), getattr(expected, field.name), err_msg=field.name
        )


@many
@given(case=cases(observed=True))
def test_models_have_the_classes_that_memory_finds(store: Store, case: Case) -> None:
    model = lapis.parse(case.model)
    problem = lapis.build_problem(model, lapis.Database.parse(case.data))
    placed = place_problem(problem, store)
    for name in model.predicates:
        found = find_classes(placed, name)
        assert_same(found, find_classes(problem, name))
        try:
            expected = oracle.pseudo_log_likelihood(model, case.facts, [name])
        except oracle.NoWorld:
            continue
        value = pseudo_log_likelihood(found, problem.weight_table.value).value
        assert value == pytest.approx(expected, rel=1e-9, abs=1e-9)


@many
@given(small=small_problems())
def test_clauses_of_any_arity(store: Store, small: Small) -> None:
    placed = place_problem(small.problem, store)
    for name in small.problem.model.predicates:
        assert_same(find_classes(placed, name), find_classes(small.problem, name))


@many
@given(small=small_problems(quantifiers=True))
def test_quantifiers(store: Store, small: Small) -> None:
    placed = place_problem(small.problem, store)
    for name in small.problem.model.predicates:
        assert_same(find_classes(placed, name), find_classes(small.problem, name))
    there, here = build_closed_world(placed), build_closed_world(small.problem)
    for feature in small.problem.normal_form.features:
        assert count_feature(feature, there) == count_feature(feature, here)


@many
@given(small=variants.flatmap(small_problems))
def test_blocks(store: Store, small: Small) -> None:
    placed = place_problem(small.problem, store)
    for name, predicate in small.problem.model.predicates.items():
        if predicate.block:
            assert_same(find_classes(placed, name), find_classes(small.problem, name))


@many
@given(small=small_problems())
def test_single_atoms(store: Store, small: Small) -> None:
    placed = place_problem(small.problem, store)
    for name in small.problem.model.predicates:
        there, here = open_differences(placed, name), open_differences(small.problem, name)
        atoms = list_tuples(here.sizes)
        vectors, truth = there.at_rows(atoms)
        expected, expected_truth = here.at_rows(atoms)
        np.testing.assert_array_equal(truth, expected_truth)
        for found, wanted in zip(vectors, expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
        if isinstance(there, StoredDifferences):
            there.scratch.close()
