"""Compare sums over cells with enumeration, on random theories of two variables."""

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
from golden_models import GoldenModel, golden_models
from lapis.errors import LapisError, TooLarge
from lapis.lifted.cells.count import CellSum


def hold_to_all_worlds(theory: Theory) -> None:
    model = lapis.parse(theory.text)
    data = lapis.Database.parse(oracle.render_database(model.predicates, theory.facts))
    problem = lapis.build_problem(model, data, query=theory.query)
    try:
        cells = CellSum.of(problem)
    except LapisError as error:
        if "together" not in error.message:  # more than two elements, constants included
            raise
        assume(False)
    found = cells.evaluate()
    try:
        expected = oracle.infer(model, theory.facts, theory.query)
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


@pytest.mark.parametrize("golden", golden_models(), ids=lambda golden: golden.path.stem)
def test_golden_models(golden: GoldenModel) -> None:
    """Compare log Z and expected counts of golden models with two variables."""
    model = lapis.parse(golden.text)
    problem = lapis.build_problem(model, lapis.Database.parse(golden.data), golden.query)
    try:
        cells = CellSum.of(problem)
    except LapisError as error:
        assert error.code == "two-variables"  # noqa: PT017
        return
    found = cells.evaluate()
    assert (found.sign == 0) == golden.impossible
    if "logZ" in golden.figures:
        assert golden.figures["logZ"].is_met_by(found.log_partition)
    soft = [i for i, rule in enumerate(model.rules) if not rule.hard]
    if not any(model.rules[i].plus for i in soft):
        counts = cells.expected_counts() if golden.expected_counts else {}
        for weight, expected in golden.expected_counts.items():
            assert expected.is_met_by(counts[soft[weight]])


@pytest.mark.parametrize(
    "rule",
    [
        "(W ^ P(x)).",
        "(!W ^ L(x, y)).",
        "(P(x) ^ U(K)).",
        "(FORALL x (W ^ P(x))).",
        "!(EXIST x (W v !P(x))).",
        "(FORALL x,y (W ^ U(K) ^ L(x, y))).",
        "(W ^ (FORALL x P(x))).",
        "(EXIST x (W ^ P(x))).",
        "0.7 W ^ P(x)",
        "0.7 FORALL x (W ^ P(x))",
    ],
)
@pytest.mark.parametrize("constants", ["", "a = {A}\n"])
def test_rules_without_groundings_have_no_effect(rule: str, constants: str) -> None:
    """If there is no x, `W ^ P(x)` has no grounding, so W is unconstrained."""
    model = lapis.parse(f"{constants}W\nP(a)\nU(b)\nL(a, b)\nb = {{K}}\n{rule}\n")
    found = lapis.lift(model, method="cells")
    try:
        expected = oracle.infer(model, oracle.Facts(), model.predicates)
    except oracle.NoWorld:
        assert found.log_partition == -math.inf
        return
    assert found.log_partition == pytest.approx(expected.log_partition, abs=1e-12)


ORDERED = {
    "predecessors": "~(p(X) & p(Y) & PRED(X,Y)).\n0.7 p(X)\nd = 3\n",
    "order and facts": "p(X) & LEQ(X,Y) -> p(Y).\n-1.3 q(X) & p(X)\nd = 3\nq(d1)\n",
    "every second": "0.7 PRED2(X,Y) -> ~p(Y)\nd = 2\n",
    "circle": "0.7 p(X) & CIRCULAR_PRED(X,Y) -> p(Y)\n\\exists X: (p(X)).\nd = 2\n",
    "alone in a circle": "0.7 p(X) & CIRCULAR_PRED(X,Y) -> ~p(Y)\nd = 1\n",
    "two in a circle": "0.7 p(X) & CIRCULAR_PRED(X,Y) -> ~p(Y)\nd = 2\n",
    "two orders": "0.7 p(X) & SUC(X,Y) & LEQ(X,Y) -> p(Y)\n-1.3 SUC(X,Y) & p(X)\nd = 2\n",
    "counted": "\\exists_{=1} Y: (r(X,Y) & LEQ(X,Y)).\n0.7 r(X,Y) & ~LEQ(X,Y)\nd = 2\n",
    "totals": "\\exists_{<=1} Y: (PRED(X,Y) & p(Y)).\n|p| > 1\nd = 3\n",
}


@pytest.mark.parametrize("name", ORDERED)
def test_orders_are_those_of_their_axioms(name: str) -> None:
    """The enumeration of worlds uses the axioms as ordinary formulas."""
    model = lapis.parse(ORDERED[name])
    found = lapis.lift(model, method="cells")
    expected = oracle.infer(model, oracle.Facts(), model.predicates)
    assert found.log_partition == pytest.approx(expected.log_partition, abs=1e-9)
    counts = [expected.expected_counts[i, ()] for i, r in enumerate(model.rules) if not r.hard]
    assert found.expected_counts.tolist() == pytest.approx(counts, abs=1e-9)


@pytest.mark.slow
@settings(max_examples=100, **CHECKS)
@given(theories(), st.sampled_from([3, 5]))
def test_cells_agree_with_circuits(theory: Theory, size: int) -> None:
    """Compare both methods at sizes that cannot be enumerated."""
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
@settings(max_examples=600, **CHECKS)
@given(theories())
def test_many_theories(theory: Theory) -> None:
    hold_to_all_worlds(theory)
