"""Test belief propagation: exact on forests, and never claimed to be exact elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lapis
from exact_networks import WEIGHTS, log_reference, make_network
from golden_models import GoldenModel
from lapis.inference.belief_propagation import infer_by_belief_propagation, propagate_beliefs
from lapis.inference.exact.by_components import ExactPlan, plan_exact
from lapis.inference.exact.enumerate import Enumeration, enumerate_worlds
from lapis.inference.marginals import InferenceOptions, Marginals
from lapis.network.network import Network
from sampled_networks import GOLDEN, agreement, golden_network, random_networks


def random_forest(seed: int) -> tuple[Network, Enumeration]:
    """Return the first forest of this seed that has a world, and its exact answers."""
    rng = np.random.default_rng(seed)
    while True:
        network = draw_forest(rng)
        try:
            return network, enumerate_worlds(network)
        except lapis.LapisError:
            continue


def draw_forest(rng: np.random.Generator, hard: float = 0.1) -> Network:
    """Draw clauses that share at most one variable with earlier ones; blocks, definitions."""
    sizes = [int(rng.integers(2, 4)) if rng.random() < 0.4 else 1 for _ in range(6)]
    starts = np.concatenate(([0], np.cumsum(sizes)))
    variables = [list(range(starts[v], starts[v + 1])) for v in range(len(sizes))]
    blocks = [(atoms, bool(rng.random() < 0.5)) for atoms in variables if len(atoms) > 1]

    def ask(variable: list[int]) -> list[int]:
        chosen = rng.permutation(variable)[: int(rng.integers(1, len(variable) + 1))]
        return [int(atom + 1) * int(rng.choice([-1, 1])) for atom in chosen]

    known, waiting = [variables[0]], variables[1:]
    groups: list[list[list[int]]] = []
    while waiting:
        fresh = [waiting.pop() for _ in range(min(len(waiting), int(rng.integers(1, 3))))]
        groups.append([known[int(rng.integers(len(known)))], *fresh])
        known += fresh
    definitions: list[list[int]] = []
    clauses: list[tuple[list[int], int, float]] = []
    for group in groups:
        literals = sorted((lit for variable in group for lit in ask(variable)), key=abs)
        weight_id = -1 if rng.random() < hard else int(rng.integers(len(WEIGHTS)))
        if rng.random() < 0.3:
            definitions.append(literals)
            own = int(starts[-1]) + len(definitions)
            clauses.append(([own if rng.random() < 0.5 else -own], weight_id, 1.0))
        else:
            clauses.append((literals, weight_id, float(rng.choice([1.0, 2.0]))))
    for variable in variables:  # unit clauses close no cycle
        if rng.random() < 0.5:
            clauses.append((ask(variable)[:1], int(rng.integers(len(WEIGHTS))), 1.0))
    return make_network(int(starts[-1]), clauses, WEIGHTS, blocks, definitions)


@pytest.mark.parametrize("seed", range(120))
def test_forests_are_exact(seed: int) -> None:
    network, exact = random_forest(seed)
    found = propagate_beliefs(network)
    assert found.exact
    assert found.diagnostics["converged"]
    assert found.log_partition == pytest.approx(exact.log_partition, abs=1e-9)
    assert found.marginal.tolist() == pytest.approx(exact.marginal.tolist(), abs=1e-9)
    assert found.expected_count.tolist() == pytest.approx(exact.expected_count.tolist(), abs=1e-9)


@pytest.mark.parametrize("seed", range(60))
def test_messages_are_exact_on_forests_that_do_not_fit(seed: int) -> None:
    """Without memory for tables, messages answer, and report if one reached the limit."""
    network, _ = random_forest(seed)
    weights = np.random.default_rng(seed).uniform(-1000, 1000, len(network.weights))
    for scaled in (network, network.with_weights(weights)):
        expected = enumerate_worlds(scaled)
        found = propagate_beliefs(scaled, max_memory=0)
        if found.exact:
            assert_same(scaled, found, expected)
        assert found.exact or (scaled.weight_id < 0).any()


def assert_same(network: Network, found: Marginals, expected: Enumeration) -> None:
    rounding = 1e-15 * float(np.abs(network.weights).sum()) * max(1, network.num_clauses)
    close = {"rtol": 1e-12, "atol": 1e-10 + rounding}
    np.testing.assert_allclose(found.log_partition, expected.log_partition, **close)
    np.testing.assert_allclose(found.marginal, expected.marginal, **close)
    np.testing.assert_allclose(found.log_odds, expected.log_odds, **close)
    np.testing.assert_allclose(found.expected_count, expected.expected_count, **close)


@given(st.integers(0, 2**32 - 1))
def test_forests_are_exact_whatever_the_weights(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = draw_forest(rng, hard=0.4)
    size = rng.choice([1.0, 100.0, 1000.0], len(network.weights))
    network = network.with_weights(rng.uniform(-1, 1, len(size)) * size)
    try:
        log_partition, marginal, log_odds, expected = log_reference(network)
    except ValueError:
        with pytest.raises(lapis.LapisError) as caught:
            propagate_beliefs(network)
        assert caught.value.code == "unsatisfiable"
        return
    found = propagate_beliefs(network)
    assert found.exact
    rounding = 1e-15 * float(np.abs(network.weights).sum()) * network.num_clauses
    np.testing.assert_allclose(found.log_partition, log_partition, rtol=1e-14, atol=1e-12)
    np.testing.assert_allclose(found.log_odds, log_odds, rtol=1e-12, atol=1e-12 + rounding)
    np.testing.assert_allclose(found.marginal, marginal, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.expected_count, expected, rtol=0, atol=1e-9)


def test_opposed_heavy_weights_do_not_cancel() -> None:
    network = make_network(1, [([1], 0, 80.0), ([-1], 1, 80.0)], [1.0, 0.99])
    for memory in (0, 1 << 20):
        found = propagate_beliefs(network, max_memory=memory)
        assert found.exact
        assert found.log_odds[0] == pytest.approx(0.8, rel=1e-12)
        assert found.marginal[0] == pytest.approx(1 / (1 + np.exp(-0.8)), rel=1e-12)


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)
def test_exact_is_only_claimed_where_it_is(golden: GoldenModel) -> None:
    network = golden_network(golden)
    found, exact = propagate_beliefs(network), enumerate_worlds(network)
    assert ((found.marginal >= 0) & (found.marginal <= 1 + 1e-12)).all()
    if found.exact:
        assert found.log_partition == pytest.approx(exact.log_partition, abs=1e-9)
        assert found.marginal.tolist() == pytest.approx(exact.marginal.tolist(), abs=1e-9)


def test_random_networks_never_claim_too_much() -> None:
    claimed = 0
    for network in random_networks(150):
        found, exact = propagate_beliefs(network), enumerate_worlds(network)
        claimed += found.exact
        if found.exact:
            assert found.marginal.tolist() == pytest.approx(exact.marginal.tolist(), abs=1e-9)
    assert claimed > 10


def test_tables_of_a_forest_keep_the_memory_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def plan(network: Network, max_memory: int) -> ExactPlan:
        asked.append(max_memory)
        return plan_exact(network, max_memory)

    monkeypatch.setattr("lapis.inference.belief_propagation.plan_exact", plan)
    infer_by_belief_propagation(
        make_network(2, [([-1, 2], 0, 1.0)]), InferenceOptions(max_memory=1 << 20)
    )
    assert asked == [1 << 20]


def test_weak_loops_are_nearly_right() -> None:
    network = agreement(8, 0.1, 0.3)
    found, exact = propagate_beliefs(network), enumerate_worlds(network)
    assert found.diagnostics["converged"]
    assert not found.exact
    np.testing.assert_allclose(found.marginal, exact.marginal, atol=0.01)
    assert found.diagnostics["bethe_log_partition"] == pytest.approx(exact.log_partition, abs=0.05)


def test_not_converged_is_said() -> None:
    network = agreement(8, 0.1, 0.3)
    found = propagate_beliefs(network, max_passes=2)
    assert not found.diagnostics["converged"]
    assert not found.exact
    assert found.diagnostics["passes"] == 2
    assert found.diagnostics["residual"] > 1e-10


def test_long_clauses_cost_their_length() -> None:
    """A disjunction of 2,000 atoms has 2^2000 rows; its answer has a closed form."""
    size = 2_000
    network = make_network(size, [(list(range(1, size + 1)), -1, 1.0)], [1.0])
    found = propagate_beliefs(network)
    assert found.exact
    assert found.log_partition == pytest.approx(size * np.log(2.0))
    assert found.marginal.tolist() == pytest.approx([0.5] * size)


def test_nothing_to_do() -> None:
    found = propagate_beliefs(make_network(0, [], [1.0]))
    assert found.exact
    assert found.log_partition == 0.0


def test_a_formula_that_ties_atoms_is_told() -> None:
    model = lapis.parse("t = {A, B}\nP(t)\nQ(t)\n1 P(x) => Q(x)\n0.5 P(x)\n-1 Q(x) ^ Q(y)")
    alone = lapis.infer(model, query="P,Q", method="bp")
    beside = lapis.infer(model, query="P,Q,P(x) ^ Q(x)", method="bp")
    assert alone["P(A)"] != beside["P(A)"]
    assert (alone.remarks(), len(beside.remarks())) == ([], 1)
    assert beside.remarks()[0].startswith("a formula query connects its atoms")
    assert lapis.infer(model, query="P,Q,P(x) ^ Q(x)").remarks() == []
