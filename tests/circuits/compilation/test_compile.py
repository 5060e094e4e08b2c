"""Compiled circuits against enumeration of their products."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lapis
from circuits.random_factors import all_rows, enumerate_marginals, random_graph
from lapis.circuits.circuit import find_properties
from lapis.circuits.compilation.compile_model import compile_factors, gates_to_circuit
from lapis.circuits.compilation.gates import ZERO, new_gates
from lapis.circuits.compilation.numeric_elimination import eliminate
from lapis.circuits.compilation.partition import find_marginals, find_partition
from lapis.circuits.compilation.search import search_circuit
from lapis.circuits.evaluation import log_values, no_evidence, posteriors
from lapis.circuits.factor_graph import FactorGraph, graph_of_tables, make_consistent
from lapis.circuits.ground_factors import ground_factors
from lapis.errors import LapisError, TooLarge
from lapis.grounding.bottom_up import ground
from lapis.problem.task import build_task


@given(st.integers(0, 2**32))
def test_marginals_in_numbers(seed: int) -> None:
    graph = random_graph(np.random.default_rng(seed))
    if not np.isfinite(graph.log_score(all_rows(graph))).any():
        with pytest.raises(LapisError, match="no possible state"):
            find_marginals(graph)
        return
    log_z, marginal = enumerate_marginals(graph)
    found = find_marginals(graph)
    assert found.log_partition == pytest.approx(log_z, abs=1e-10)
    np.testing.assert_allclose(found.state, marginal, rtol=0, atol=1e-10)


@given(st.integers(0, 2**32), st.booleans())
def test_both_compilers_compute_the_product(seed: int, by_search: bool) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng)
    order = rng.permutation(graph.num_variables).astype(np.int32)
    gates = new_gates(int(graph.size.sum()), 10_000, 40_000)
    root = (
        search_circuit(graph, order, gates, 10**9) if by_search else eliminate(graph, order, gates)
    )
    rows = all_rows(graph)
    score = graph.log_score(rows)
    if root == ZERO:
        assert not np.isfinite(score).any()
        return
    circuit = gates_to_circuit(graph, gates, root)
    assert find_properties(circuit) == (True, True, True)
    np.testing.assert_allclose(log_values(circuit, rows), score, rtol=0, atol=1e-10)


@given(st.integers(0, 2**32))
def test_marginals_given_evidence(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng)
    seen = rng.permutation(graph.num_variables)[: rng.integers(0, 3)]
    graph = graph.condition({int(v): int(rng.integers(graph.size[v])) for v in seen})
    if not np.isfinite(graph.log_score(all_rows(graph))).any():
        with pytest.raises(LapisError, match="no possible state"):
            compile_factors(graph)
        return
    circuit = compile_factors(graph).circuit
    log_z, marginal = enumerate_marginals(graph)
    value, found = posteriors(circuit, no_evidence(circuit))
    assert value[0] == pytest.approx(log_z, abs=1e-10)
    np.testing.assert_allclose(found[0], marginal, atol=1e-10)


@given(st.integers(0, 2**32))
def test_supported_states_and_partition_functions(seed: int) -> None:
    """Removing impossible states keeps all worlds; elimination in numbers equals enumeration."""
    rng = np.random.default_rng(seed)
    graph = random_graph(rng)
    seen = rng.permutation(graph.num_variables)[: rng.integers(0, 3)]
    graph = graph.condition({int(v): int(rng.integers(graph.size[v])) for v in seen})
    score = graph.log_score(all_rows(graph))
    found = find_partition(graph)
    assert found.exact
    if not np.isfinite(score).any():
        assert found.log_value == -np.inf
        return
    assert found.log_value == pytest.approx(np.logaddexp.reduce(score), abs=1e-10)
    small = make_consistent(graph)
    assert small is not None
    left = small.graph.log_score(all_rows(small.graph))
    assert np.logaddexp.reduce(left) == pytest.approx(np.logaddexp.reduce(score), abs=1e-10)
    first = np.cumsum([0, *graph.size])
    _, marginal = enumerate_marginals(graph)
    assert set(np.flatnonzero(marginal > 0)) <= set(small.state.tolist())
    assert len(small.state) == small.graph.size.sum() <= first[-1]


def test_arc_consistency_decides_a_chain() -> None:
    """An observed end of a chain of equalities fixes every variable."""
    equal = np.array([[0.0, -np.inf], [-np.inf, 0.5]])
    tables = [([v, v + 1], equal) for v in range(20)]
    graph = graph_of_tables([f"v{v}" for v in range(21)], [["0", "1"]] * 21, tables)
    small = make_consistent(graph.condition({20: 1}))
    assert small is not None
    assert small.graph.size.tolist() == [1] * 21
    assert small.state.tolist() == list(range(1, 42, 2))
    assert make_consistent(graph.condition({0: 0, 20: 1})) is None


def test_a_partition_function_too_wide() -> None:
    rng = np.random.default_rng(1)
    tables = [(pair, rng.random((2, 2))) for pair in itertools.combinations(range(14), 2)]
    graph = graph_of_tables([f"v{v}" for v in range(14)], [["0", "1"]] * 14, tables)
    with pytest.raises(TooLarge) as raised:
        find_partition(graph, max_entries=100)
    assert str(raised.value) == (
        "elimination would join 14 variables in a table and compute 3.3e+04 entries"
    )
    with pytest.raises(TooLarge, match="at once"):
        find_partition(graph, max_bytes=1000)


def test_products_too_small_for_doubles_are_noticed() -> None:
    table = np.array([[0.0, -400.0], [-800.0, 0.0]])
    tables = [([a, b], table) for a, b in itertools.combinations(range(4), 2)]
    graph = graph_of_tables("abcd", [["0", "1"]] * 4, tables)
    found = find_partition(graph)
    assert not found.exact
    assert found.log_value == pytest.approx(np.logaddexp.reduce(graph.log_score(all_rows(graph))))


def chain_of_parities(length: int) -> FactorGraph:
    """x_{i+1} = x_i xor y_i: narrow, and half of every table is zero."""
    names = [f"x{i}" for i in range(length)] + [f"y{i}" for i in range(length - 1)]
    tables = []
    for i in range(length - 1):
        table = np.full((2, 2, 2), -np.inf)
        for x, y in itertools.product(range(2), repeat=2):
            table[x, y, x ^ y] = 0.0
        tables.append(([i, length + i, i + 1], table))
    return graph_of_tables(names, [["0", "1"]] * len(names), tables)


def test_determinism_makes_circuits_small() -> None:
    found = compile_factors(chain_of_parities(50))
    assert posteriors(found.circuit, no_evidence(found.circuit))[0][0] == pytest.approx(
        50 * np.log(2), rel=1e-12
    )
    assert found.circuit.num_edges < 16 * 50


def test_a_hidden_product_needs_no_width() -> None:
    """A table over all variables is a product: search detects it, elimination does not."""
    size = 12
    table = np.zeros([2] * size)
    for axis in range(size):
        table += np.array([0.0, 0.1 * axis]).reshape([-1 if a == axis else 1 for a in range(size)])
    first = np.zeros([2] * size)
    first[0] = table[0]  # matters in one state of the first variable only
    graph = graph_of_tables(
        [f"v{v}" for v in range(size)], [["0", "1"]] * size, [(list(range(size)), first)]
    )
    circuit = compile_factors(graph).circuit
    log_z, marginal = enumerate_marginals(graph)
    value, found = posteriors(circuit, no_evidence(circuit))
    assert value[0] == pytest.approx(log_z, abs=1e-10)
    np.testing.assert_allclose(found[0], marginal, atol=1e-10)


@pytest.mark.parametrize(
    ("size", "needs", "other"),
    [
        (14, "14 variables in a table and need 3.3e+04 entries", "marginals (exact, no circuit)"),
        (40, "40 variables in a table and need 1.1e+12 entries or more", "approximate"),
    ],
)
def test_too_large_says_how_large_and_who_answers(size: int, needs: str, other: str) -> None:
    rng = np.random.default_rng(1)
    tables = [(pair, rng.random((2, 2))) for pair in itertools.combinations(range(size), 2)]
    graph = graph_of_tables([f"v{v}" for v in range(size)], [["0", "1"]] * size, tables)
    with pytest.raises(TooLarge) as raised:
        compile_factors(graph, max_edges=500)
    assert str(raised.value) == (
        f"no circuit of at most 500 edges was found: elimination would join {needs}\n"
        f"    give evidence, raise max_edges, or use circuit {other}"
    )


GROUND = """person = {Anna, Bob, Carl}
topic = {Art, Law, Sea}
Knows(person, person)
Likes(person, topic!)
Busy(person)
0.7 Likes(x, +t) ^ Knows(x, y) => Likes(y, +t)
-0.4 Knows(x, y)
1.2 Busy(x) v Busy(y) v Knows(x, y) v Likes(x, Art)
Busy(x) => Knows(x, x).
"""


def test_ground_models() -> None:
    """Blocks, tied weights, hard clauses: tables multiply to the score of a world."""
    model = lapis.parse(GROUND)
    task = build_task(model, None, ["Likes", "Busy"], open_predicates=["Knows"])
    network = ground(task.worlds[0].problem)
    factors = ground_factors(network)
    rng = np.random.default_rng(0)
    rows = rng.integers(0, factors.graph.size, (300, factors.graph.num_variables))
    circuit = compile_factors(factors.graph).circuit
    found = log_values(circuit, rows)
    for row, log_value in zip(rows, found, strict=True):
        true = factors.variables.state_atom[factors.variables.state_start[:-1] + row]
        world = np.zeros(network.num_atoms, bool)
        world[true[true >= 0]] = True
        score = network.score(world) if network.is_feasible(world) else -np.inf
        assert log_value == pytest.approx(score, abs=1e-10)
    exact = lapis.infer(
        model, query=["Likes", "Busy"], open_predicates=["Knows"], method="enumerate"
    )
    assert posteriors(circuit, no_evidence(circuit))[0][0] == pytest.approx(exact.log_partition)
