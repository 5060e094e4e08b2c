"""Compare differences of single atoms, and their classes, with counts in both worlds."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counting.small_worlds import (
    PREDICATES,
    Small,
    all_atoms,
    count_true,
    difference,
    small_problems,
)
from lapis.counting.differences.atom_classes import DifferenceClasses, find_difference_classes
from lapis.counting.differences.atom_differences import open_differences

pytestmark = pytest.mark.usefixtures("price_everything")


def dense(classes: DifferenceClasses, number: int) -> tuple[int, ...]:
    vector = [0] * classes.num_weights
    for entry in range(classes.class_start[number], classes.class_start[number + 1]):
        vector[classes.weight_id[entry]] = int(classes.difference[entry])
    return tuple(vector)


def check_classes(small: Small, predicate: str) -> None:
    classes = find_difference_classes(small.problem, predicate)
    expected: Counter[tuple[tuple[int, ...], bool, int]] = Counter()
    atoms = all_atoms(small.problem, small.problem.model.predicates[predicate])
    for arguments in atoms:
        vector, violations = difference(small, (predicate, arguments))
        expected[vector, (predicate, arguments) in small.true, violations] += 1
    found = {}
    hard = classes.hard_true_violations - classes.hard_false_violations
    for number in range(len(classes)):
        key = dense(classes, number), bool(classes.truth[number]), int(hard[number])
        assert key not in found, "a class is listed once"
        found[key] = int(classes.multiplicity[number])
    assert found == expected
    assert bool(classes.violated_rules) == bool(count_true(small.problem, small.true)[1])

    arity = small.problem.model.predicates[predicate].arity
    rows = np.array(atoms, np.int32).reshape(len(atoms), arity)
    vectors, truth = open_differences(small.problem, predicate).at_rows(rows)
    for number, arguments in enumerate(atoms):
        vector, violations = difference(small, (predicate, arguments))
        entries = slice(vectors.start[number], vectors.start[number + 1])
        found_vector = np.zeros(classes.num_weights + 1, object)
        found_vector[vectors.column[entries]] = vectors.value[entries]
        assert tuple(found_vector) == (*vector, -violations)
        assert truth[number] == ((predicate, arguments) in small.true)


@given(small_problems(), st.sampled_from([predicate.name for predicate in PREDICATES]))
def test_classes_match_brute_force(small: Small, predicate: str) -> None:
    check_classes(small, predicate)


@st.composite
def quantified(draw: st.DrawFn) -> tuple[Small, str]:
    """A problem with quantifiers, and a base predicate that they use where there is one."""
    small = draw(small_problems(quantifiers=True))
    used = sorted(
        literal.predicate
        for definition in small.problem.normal_form.definitions
        for cube in definition.cubes
        for literal in cube.literals
        if literal.predicate in small.problem.model.predicates
    )
    return small, draw(st.sampled_from(used or ["S"]))


@given(quantified())
def test_classes_with_quantifiers_match_brute_force(drawn: tuple[Small, str]) -> None:
    check_classes(*drawn)


@pytest.mark.slow
@settings(max_examples=5000, deadline=None)
@given(small_problems(), st.sampled_from([predicate.name for predicate in PREDICATES]))
def test_classes_match_brute_force_long(small: Small, predicate: str) -> None:
    check_classes(small, predicate)


@pytest.mark.slow
@settings(max_examples=5000, deadline=None)
@given(quantified())
def test_classes_with_quantifiers_match_brute_force_long(drawn: tuple[Small, str]) -> None:
    check_classes(*drawn)
