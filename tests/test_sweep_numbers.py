"""Formulas that are multiplied by numbers or compare them, held to the oracle in every method."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from lapis.language import parse_program, print_program
from strategies import Case, numbered_cases
from sweeping import check_exact
from test_sweep_enumerate import check_inference, check_scores
from test_sweep_methods import check_map


@given(numbered_cases())
@settings(max_examples=15)
def test_exact_inference(case: Case) -> None:
    check_exact(case, "exact")


@given(numbered_cases())
@settings(max_examples=10)
def test_enumeration(case: Case) -> None:
    check_inference(case)


@given(numbered_cases(observed=True))
@settings(max_examples=10)
def test_scores(case: Case) -> None:
    check_scores(case)


@pytest.mark.parametrize("method", ["ilp", "lazy"])
@given(case=numbered_cases())
@settings(max_examples=8)
def test_most_likely_world(method: str, case: Case) -> None:
    check_map(case, method)


@given(numbered_cases())
def test_printed_text_is_read_as_the_same_program(case: Case) -> None:
    program = parse_program(case.model)
    assert parse_program(print_program(program)) == program


@pytest.mark.slow
@given(numbered_cases())
@settings(max_examples=2000)
def test_exact_inference_long(case: Case) -> None:
    check_exact(case, "exact")


@pytest.mark.slow
@given(numbered_cases(observed=True))
@settings(max_examples=2000)
def test_scores_long(case: Case) -> None:
    check_scores(case)
