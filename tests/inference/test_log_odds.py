"""Test that log-odds of exact methods are exact, even of nearly certain atoms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lapis
import oracle
from exact_networks import log_reference, make_network, random_network
from lapis.inference.exact.by_components import exact
from lapis.inference.exact.enumerate import enumerate_worlds
from lapis.inference.marginals import InferenceOptions, sampled_log_odds, state_log_odds
from lapis.inference.solve import infer_network, infer_problem
from lapis.problem.problem import build_problem
from oracle import NoWorld
from strategies import Case, cases


@given(st.integers(0, 2**32 - 1), st.sampled_from([1.0, 40.0, 700.0]))
def test_networks(seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, num_base=int(rng.integers(1, 8)))
    network = network.with_weights(rng.uniform(-size, size, len(network.weights)))
    try:
        _, _, log_odds, _ = log_reference(network)
    except ValueError:
        return
    rounding = 1e-15 * size * max(1, network.num_clauses) ** 2
    for engine in (enumerate_worlds, exact):
        found = engine(network).log_odds
        np.testing.assert_allclose(found, log_odds, rtol=1e-12, atol=1e-12 + rounding)


@given(cases(), st.sampled_from([1, 30, 300]))
def test_models(case: Case, times: int) -> None:
    """Compare log-odds of models in text with the definition."""
    model, data = lapis.parse(case.model), lapis.Database.parse(case.data)
    rules = tuple(replace(rule, weight=times * (rule.weight or 0.0)) for rule in model.rules)
    model = replace(model, rules=rules)
    try:
        expected = oracle.infer(model, case.facts, case.query)
    except NoWorld:
        return
    problem = build_problem(model, data, case.query)
    for method in ("enumerate", "exact", "bp", "gibbs"):
        network, found = infer_problem(problem, method, InferenceOptions(max_samples=100))
        if not found.exact:
            continue
        names = network.atom_names(np.arange(network.num_base_atoms))
        wanted = [expected.log_odds[name] for name in names]
        np.testing.assert_allclose(found.log_odds, wanted, rtol=1e-12, atol=1e-11 * times)


@pytest.mark.parametrize("weight", [1.0, 40.0, 700.0, -700.0, 5000.0])
@pytest.mark.parametrize("method", ["enumerate", "exact", "bp", "gibbs"])
def test_one_chain(method: str, weight: float) -> None:
    """P, and Q coupled to P by twice the weight: a closed form in logarithms."""
    network = make_network(2, [([1], 0, 1.0), ([-1, 2], 1, 1.0)], [weight, 2 * weight])
    neither, only_q, only_p, both = 2 * weight, 2 * weight, weight, 3 * weight
    found = infer_network(network, method)
    assert found.exact
    assert found.log_odds.tolist() == pytest.approx(
        [
            np.logaddexp(only_p, both) - np.logaddexp(neither, only_q),
            np.logaddexp(only_q, both) - np.logaddexp(neither, only_p),
        ],
        rel=1e-12,
    )


def test_a_block_that_is_nearly_sure() -> None:
    """log p_k − log(1 − p_k) from the other states: 700 against log(e^0 + e^−5)."""
    clauses = [([1], 0, 1.0), ([3], 1, 1.0)]
    network = make_network(3, clauses, [700.0, -5.0], blocks=[([0, 1, 2], True)])
    score = np.array([700.0, 0.0, -5.0])
    wanted = [score[k] - np.logaddexp(*np.delete(score, k)) for k in range(3)]
    for method in ("enumerate", "exact", "bp"):
        assert infer_network(network, method).log_odds.tolist() == pytest.approx(wanted, rel=1e-12)


@given(st.lists(st.lists(st.floats(-800, 0), min_size=1, max_size=5), min_size=1, max_size=4))
def test_states(rows: list[list[float]]) -> None:
    normal = [np.array(row) - np.logaddexp.reduce(row) for row in rows]
    start = np.cumsum([0, *map(len, rows)])
    found = state_log_odds(np.concatenate(normal), start)
    wanted = [
        row[k] - (np.logaddexp.reduce(np.delete(row, k)) if len(row) > 1 else -np.inf)
        for row in normal
        for k in range(len(row))
    ]
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def test_samples_say_no_more_than_they_can() -> None:
    found = sampled_log_odds(np.array([0.0, 1.0, 0.25]), 99)
    assert found.tolist() == pytest.approx([-np.log(199.0), np.log(199.0), -np.log(3.0)])
