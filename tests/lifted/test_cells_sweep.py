"""Sums over cells against all worlds, on random theories of two variables."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from two_variable_models import Theory, theories

import lapis
import oracle
from lapis.errors import LapisError, TooLarge
from lapis.lifted.cells.count import CellSum

PREDICATES = ["W", "P", "Q", "U", "R", "L"]


def hold_to_all_worlds(theory: Theory) -> None:
    model = lapis.parse(theory.text)
    data = lapis.Database.parse(oracle.render_database(model.predicates, theory.facts))
    problem = lapis.build_problem(model, data, query=PREDICATES)
    try:
        cells = CellSum.of(problem)
    except LapisError as error:
        if "together" not in error.message:  # more than two elements, constants included
            raise
        assume(False)
    found = cells.evaluate()
    try:
        expected = oracle.infer(model, theory.facts, PREDICATES)
    except oracle.NoWorld:
        assert (found.sign, found.log_partition) == (0, -math.inf)
        return
    assert found.sign == 1
    assert found.log_partition == pytest.approx(expected.log_partition, abs=1e-9)
    assert found.error_bound < 1e-12
    if not cells.sentence.parameters:
        assert found.count == round(math.exp(expected.log_partition))
    for rule, value in cells.expected_counts().items():
        assert value == pytest.approx(expected.expected_counts[rule, ()], abs=1e-9)


CHECKS: dict[str, Any] = {
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much]
}


@settings(max_examples=25, **CHECKS)
@given(theories())
def test_partition_and_expected_counts_are_those_of_all_worlds(theory: Theory) -> None:
    hold_to_all_worlds(theory)


@pytest.mark.slow
@settings(max_examples=100, **CHECKS)
@given(theories(), st.sampled_from([3, 5]))
def test_cells_agree_with_circuits(theory: Theory, size: int) -> None:
    """Both ways to lift, at more elements than there are worlds to list."""
    model = replace(lapis.parse(theory.text), constraints=())
    sizes = {"a": size, "b": 2}
    try:
        by_cells = lapis.lift(model, method="cells", sizes=sizes)
        assume(by_cells.log_partition > -math.inf)
        by_circuit = lapis.lift(model, sizes=sizes)
    except LapisError as error:
        if "together" not in error.message and not isinstance(error, TooLarge):
            raise
        assume(False)
    assert by_cells.log_partition == pytest.approx(by_circuit.log_partition, abs=1e-9)
    assert by_cells.expected_counts == pytest.approx(by_circuit.expected_counts, abs=1e-7)


@pytest.mark.slow
@settings(max_examples=2000, **CHECKS)
@given(theories())
def test_many_theories(theory: Theory) -> None:
    hold_to_all_worlds(theory)
