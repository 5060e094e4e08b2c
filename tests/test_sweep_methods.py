"""Every exact method and every MAP method, held to the oracle on random models."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

import lapis
import oracle
from oracle import NoWorld
from strategies import Case, cases
from sweeping import check_exact, parse_case


def check_map(case: Case, method: str) -> None:
    model, data = parse_case(case), lapis.Database.parse(case.data)
    try:
        expected = oracle.infer(model, case.facts, case.query)
    except NoWorld:
        with pytest.raises(lapis.LapisError):
            lapis.map(model, data, query=case.query, method=method)
        return
    world = lapis.map(model, data, query=case.query, method=method)
    assert world.optimal
    assert world.score == pytest.approx(expected.map_score, abs=1e-6)
    assert any(
        all(value == (atom in best) for atom, value in world.atoms.items())
        for best in expected.map_worlds
    )


@given(cases())
def test_exact_inference(case: Case) -> None:
    check_exact(case, "exact")


@pytest.mark.parametrize("method", ["ilp", "exact", "lazy"])
@given(case=cases())
def test_most_likely_world(method: str, case: Case) -> None:
    check_map(case, method)


@pytest.mark.slow
@given(cases())
@settings(max_examples=3000)
def test_exact_inference_long(case: Case) -> None:
    check_exact(case, "exact")
