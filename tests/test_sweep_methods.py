"""Every exact method and every MAP method, held to the oracle on random models."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

import lapis
import oracle
from oracle import NoWorld
from strategies import Case, cases


def close(value: float) -> object:
    return pytest.approx(value, abs=1e-9, rel=1e-13)


def check_exact(case: Case) -> None:
    model, data = lapis.parse(case.model), lapis.Database.parse(case.data)
    try:
        expected = oracle.infer(model, case.facts, case.query)
    except NoWorld:
        with pytest.raises(lapis.LapisError):
            lapis.infer(model, data, query=case.query, method="exact")
        return
    answer = lapis.infer(model, data, query=case.query, method="exact")
    assert answer.exact
    assert answer.log_partition == close(expected.log_partition)
    for atom, probability in answer.marginals.items():
        assert probability == close(expected.marginals[atom]), atom
    keys = oracle.weight_keys(model, oracle.constants_of(model, case.facts))
    assert answer.expected_counts.tolist() == close([expected.expected_counts[k] for k in keys])


def check_map(case: Case, method: str) -> None:
    model, data = lapis.parse(case.model), lapis.Database.parse(case.data)
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
@settings(max_examples=120)
def test_exact_inference(case: Case) -> None:
    check_exact(case)


@pytest.mark.parametrize("method", ["ilp", "exact", "lazy"])
@given(case=cases())
@settings(max_examples=50)
def test_most_likely_world(method: str, case: Case) -> None:
    check_map(case, method)


@pytest.mark.slow
@given(cases())
@settings(max_examples=3000)
def test_exact_inference_long(case: Case) -> None:
    check_exact(case)
