"""Merging keeps the function, or the held-out likelihood."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from lapis.circuits.circuit import Circuit, find_properties
from lapis.circuits.evaluation import log_partition, log_values
from lapis.circuits.learning.learn_rows import learn_rows, merge_close, merge_nodes
from lapis.circuits.learning.mixture import join_circuits, learn_mixture
from lapis.circuits.learning.split_search import learn_circuit

NAMES, STATES = [f"x{v}" for v in range(6)], [["0", "1"]] * 6
WORLDS = np.array(list(itertools.product(range(2), repeat=6)), np.int32)


def some_rows(seed: int, num_rows: int = 400) -> np.ndarray:
    """Return two groups of rows, with a copy of a variable."""
    rng = np.random.default_rng(seed)
    group = rng.random(num_rows) < 0.4
    chance = np.where(group[:, None], rng.random(6), rng.random(6))
    rows = (rng.random((num_rows, 6)) < chance).astype(np.int32)
    rows[:, 5] = rows[:, 0]
    return rows


@pytest.mark.parametrize("seed", range(8))
def test_equal_nodes_are_one(seed: int) -> None:
    rows = some_rows(seed)
    one = learn_circuit(rows, NAMES, STATES, edge_cost=0.05).circuit
    assert one is not None
    mixture = learn_mixture(rows, NAMES, STATES, num_components=3, seed=seed)
    twice = join_circuits(np.array([0.3, 0.7]), [one, one])
    for circuit in (one, join_circuits(mixture.weight, mixture.circuit), twice):
        merged = merge_nodes(circuit)
        np.testing.assert_allclose(
            log_values(merged, WORLDS), log_values(circuit, WORLDS), rtol=0, atol=1e-12
        )
        assert merged.num_edges <= circuit.num_edges
        assert find_properties(merged) == circuit.properties
        assert merge_nodes(merged).num_edges == merged.num_edges
    assert merge_nodes(twice).num_edges <= one.num_edges + 8  # the same circuit, once


def sizes(circuit: Circuit) -> tuple[int, int]:
    return circuit.num_edges, circuit.num_parameters


def test_close_sums_are_one_where_held_out_rows_allow_it() -> None:
    """A mixture with more components than groups has close sums."""
    rows, valid = some_rows(1, 600), some_rows(1, 700)[600:]
    mixture = learn_mixture(rows, NAMES, STATES, num_components=6)
    circuit = join_circuits(mixture.weight, mixture.circuit)
    smallest = merge_nodes(circuit, 0.5)
    assert sizes(smallest) < sizes(merge_nodes(circuit))
    assert log_partition(smallest) == pytest.approx(0.0, abs=1e-9)
    found = merge_close(circuit, valid)
    assert log_partition(found) == pytest.approx(0.0, abs=1e-9)
    assert log_values(found, valid).mean() >= log_values(circuit, valid).mean() - 1e-12
    assert found.num_edges <= merge_nodes(circuit).num_edges


def test_a_circuit_stays_the_network_beside_it() -> None:
    rows = some_rows(2)
    fit = learn_rows(rows[:300], rows[300:], NAMES, STATES).fit
    assert fit.network is not None
    np.testing.assert_allclose(
        log_values(fit.circuit, WORLDS), fit.network.log_likelihoods(WORLDS), rtol=0, atol=1e-12
    )
