"""Clauses of two or more halves without a common variable, compared with enumeration."""

from __future__ import annotations

import pytest
from halves import HalvedTheory, halved_theories
from hypothesis import given, settings

import lapis
from lapis.grounding.hard_formulas import CONTRADICTIONS
from oracle import NoWorld


def check_theory(theory: HalvedTheory) -> None:
    """Compare log Z and expected counts of `lift`, and marginals of `infer`, with enumeration."""
    try:
        expected = theory.enumerate()
    except NoWorld:
        with pytest.raises(lapis.LapisError) as caught:
            lapis.lift(theory.model, sizes=theory.sizes)
        assert caught.value.code in CONTRADICTIONS
        return
    lifted = lapis.lift(theory.model, sizes=theory.sizes)
    assert lifted.log_partition == pytest.approx(expected.log_partition, rel=1e-9, abs=1e-9)
    counts = list(expected.expected_counts.values())
    assert lifted.expected_counts.tolist() == pytest.approx(counts, rel=1e-9, abs=1e-9)
    error = abs(lifted.log_partition - expected.log_partition)
    rounding = 1e-12 * max(1.0, abs(expected.log_partition))  # of the oracle
    assert error <= lifted.error_bound + rounding
    answer = lapis.infer(theory.listed, query=theory.query, method="lifted")
    assert answer.log_partition == pytest.approx(expected.log_partition, rel=1e-9, abs=1e-9)
    assert answer.marginals == pytest.approx(
        {atom: expected.marginals[atom] for atom in answer.marginals}, rel=1e-9, abs=1e-9
    )


@given(halved_theories())
@settings(max_examples=25)
def test_halves_without_a_common_variable(theory: HalvedTheory) -> None:
    check_theory(theory)


@pytest.mark.slow
@given(halved_theories())
@settings(max_examples=500)
def test_halves_without_a_common_variable_long(theory: HalvedTheory) -> None:
    check_theory(theory)
