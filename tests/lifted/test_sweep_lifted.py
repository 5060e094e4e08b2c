"""Compare lifted inference on random models with the oracle."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from theories import DrawnTheory, theories

import lapis
from lapis.lifted.lift import lift_problem
from oracle import NoWorld
from strategies import Case, cases
from sweeping import check_exact, close


def check_sizes_and_weights(theory: DrawnTheory) -> None:
    """Check one circuit at several sizes and weights, if no type was grounded."""
    problem = lapis.build_problem(lapis.parse(theory.text()), query=theory.predicates)
    lifted = lift_problem(problem, theory.sizes[0], max_work=10**7)
    for sizes in theory.sizes if lifted.is_liftable else theory.sizes[:1]:
        for weights in map(np.array, theory.weights):
            try:
                expected = theory.oracle_at(sizes, weights)
            except NoWorld:
                with pytest.raises(lapis.LapisError, match="no possible world"):
                    lifted.at(weights, sizes)
                continue
            found = lifted.at(weights, sizes)
            assert found.log_partition == close(expected.log_partition)
            assert found.expected_count.tolist() == close(list(expected.expected_counts.values()))
            error = abs(found.log_partition - expected.log_partition)
            assert error <= found.error_bound + 1e-12  # of the oracle itself


@given(theories())
def test_one_circuit_at_sizes_and_weights(theory: DrawnTheory) -> None:
    check_sizes_and_weights(theory)


@given(cases())
def test_marginals_by_classes(case: Case) -> None:
    check_exact(case, "lifted")


@pytest.mark.slow
@given(theories())
@settings(max_examples=2000)
def test_one_circuit_at_sizes_and_weights_long(theory: DrawnTheory) -> None:
    check_sizes_and_weights(theory)


@pytest.mark.slow
@given(cases())
@settings(max_examples=1000)
def test_marginals_by_classes_long(case: Case) -> None:
    check_exact(case, "lifted")
