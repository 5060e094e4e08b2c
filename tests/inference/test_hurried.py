"""Test a time limit near 0: answers are still right, and `auto` still answers small problems."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

import lapis
import oracle
from lapis.methods import methods_of
from oracle import NoWorld
from strategies import Case, cases

NO_TIME = 1e-9
MAP_METHODS = list(methods_of("map"))
# Codes of methods that did not end in time, or found no world.
REFUSALS = ("stopped", "no-feasible-world")


@pytest.fixture(scope="module", autouse=True)
def loaded_kernels() -> None:
    """Load kernels before the first limit: the time of loading counts."""
    model = lapis.parse("t = {A, B}\nP(t)\nQ(t)\n1 P(x) => Q(y)")
    for method in MAP_METHODS:
        lapis.map(model, None, ["P", "Q"], method=method)
    lapis.infer(model, None, ["P", "Q"])


@pytest.mark.parametrize("method", MAP_METHODS)
@given(case=cases())
@settings(max_examples=25)
def test_a_world_found_in_no_time_is_a_world(method: str, case: Case) -> None:
    model, data = lapis.parse(case.model), lapis.Database.parse(case.data)
    try:
        found = lapis.map(model, data, case.query, method=method, time_limit=NO_TIME)
    except lapis.LapisError as error:
        if error.code in REFUSALS:
            assert method != "auto"
            return
        with pytest.raises(NoWorld):
            oracle.infer(model, case.facts, case.query)
        return
    best = oracle.infer(model, case.facts, case.query).map_score
    assert found.score <= best + 1e-9
    assert found.diagnostics["bound"] >= best - 1e-9
    assert not found.optimal or found.score == pytest.approx(best, abs=1e-9)


HARD_AND_IMPOSSIBLE = """
thing = {A, B}
number = {1, 2, 3}
thing f(number)
0.5 EXIST k (B != f(k))
s = f(2).
"""


def test_cutting_planes_that_end_early_claim_no_world_that_breaks_hard_formulas() -> None:
    """Of two atoms only one may be true; the first round lists neither clause."""
    model = lapis.parse(HARD_AND_IMPOSSIBLE)
    with pytest.raises(lapis.LapisError) as error:
        lapis.map(model, query="f", method="lazy", time_limit=NO_TIME)
    assert error.value.code == "no-feasible-world"
    assert error.value.message == (
        "cutting planes found no world that satisfies the hard formulas within the limits"
    )
    with pytest.raises(lapis.LapisError) as error:
        lapis.map(model, query="f", method="lazy")
    assert error.value.code == "unsatisfiable"


@given(case=cases())
@settings(max_examples=25)
def test_auto_answers_small_networks_whatever_the_time(case: Case) -> None:
    model, data = lapis.parse(case.model), lapis.Database.parse(case.data)
    try:
        expected = oracle.infer(model, case.facts, case.query)
    except NoWorld:
        return
    for limit in ({"time_limit": NO_TIME}, {"stop": lambda: True}):
        found = lapis.infer(model, data, case.query, **limit)
        assert found.exact
        assert found.marginals == pytest.approx(
            {atom: expected.marginals[atom] for atom in found.atoms}, abs=1e-9
        )
