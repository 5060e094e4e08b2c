"""Weighted model counting against enumeration, with much and little memory."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from circuits.random_factors import all_rows, random_graph
from lapis.circuits.compilation import counting
from lapis.circuits.compilation.counting import (
    boxes,
    count_models,
    impossible_boxes,
    weighted_clauses,
)
from lapis.circuits.compilation.partition import cheap_partition, find_partition
from lapis.circuits.factor_graph import FactorGraph, graph_of_tables
from lapis.errors import TooLarge


def log_z(graph: FactorGraph) -> float:
    return float(np.logaddexp.reduce(graph.log_score(all_rows(graph))))


def random_clauses(
    rng: np.random.Generator, size: int, num_clauses: int, length: int = 3
) -> FactorGraph:
    """Return tables that each forbid one joint state of a few variables."""
    tables = []
    for _ in range(num_clauses):
        scope = rng.permutation(size)[:length]
        table = np.zeros([2] * length)
        table[tuple(rng.integers(0, 2, length))] = -np.inf
        tables.append((scope.tolist(), table))
    tables.append(([0], np.array([0.0, -0.7])))
    return graph_of_tables([f"x{v}" for v in range(size)], [["0", "1"]] * size, tables)


@given(st.integers(0, 2**32))
def test_counting_gives_the_sum_of_all_products(seed: int) -> None:
    graph = random_graph(np.random.default_rng(seed), 7)
    expected = log_z(graph)
    found = count_models(graph).log_value
    assert found == expected or found == pytest.approx(expected, abs=1e-9)


@given(st.integers(0, 2**32), st.floats(2.0, 5.5))
def test_clauses_near_where_no_world_is_left(seed: int, density: float) -> None:
    """Conflicts, learned clauses, and components without a possible world."""
    rng = np.random.default_rng(seed)
    one = random_clauses(rng, 8, int(8 * density))
    both = [one, random_clauses(rng, 7, int(7 * density))]
    tables = [
        ([v + 8 * half for v in graph.variables_of(f).tolist()], graph.table(f))
        for half, graph in enumerate(both)
        for f in range(graph.num_factors)
    ]
    bridge = np.zeros((2, 2, 2))
    bridge[1, 0, 1] = -np.inf
    tables.append(([0, 8, 14], bridge))
    graph = graph_of_tables([f"x{v}" for v in range(15)], [["0", "1"]] * 15, tables)
    expected = log_z(graph)
    found = count_models(graph).log_value
    assert found == expected or found == pytest.approx(expected, abs=1e-9)


def test_little_room_changes_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    graph = random_clauses(rng, 36, 90)
    expected = count_models(graph)
    assert expected.components > 100
    assert expected.log_value == pytest.approx(find_partition(graph).log_value, abs=1e-9)
    monkeypatch.setattr(counting, "MAX_ENTRIES", 64)
    monkeypatch.setattr(counting, "MAX_LEARNED", 10 - 90)
    found = count_models(graph)
    assert found.components <= 64
    assert found.work > expected.work
    assert found.log_value == pytest.approx(expected.log_value, abs=1e-9)


def test_wide_but_deterministic_is_counted() -> None:
    """A grid of parities is too wide for elimination and decided by its border."""
    side = 32
    odd = np.where(np.indices((2, 2, 2)).sum(axis=0) % 2 == 1, 0.0, -np.inf)
    number = np.arange(side * side).reshape(side, side)
    tables = [
        ([int(number[r, c]), int(number[r, c + 1]), int(number[r + 1, c])], odd)
        for r, c in itertools.product(range(side - 1), repeat=2)
    ]
    border = [int(v) for v in number[0]] + [int(v) for v in number[1:, -1]]
    tables += [([v], np.array([0.0, -np.inf])) for v in border[:-3]]
    names = [f"x{v}" for v in range(side * side)]
    graph = graph_of_tables(names, [["0", "1"]] * side * side, tables)
    assert count_models(graph).log_value == pytest.approx(3 * np.log(2))
    assert cheap_partition(graph) is not None


def test_counting_given_up() -> None:
    graph = random_clauses(np.random.default_rng(5), 150, 400)
    with pytest.raises(TooLarge) as raised:
        count_models(graph, max_work=1)
    assert str(raised.value).startswith("counting exceeded its limit after ")


@given(st.integers(0, 2**32))
def test_boxes_make_up_a_table(seed: int) -> None:
    rng = np.random.default_rng(seed)
    with np.errstate(divide="ignore"):
        table = np.log(rng.choice([0.0, 0.0, 1.0, 0.5], rng.integers(1, 4, rng.integers(1, 5))))
    rebuilt = np.full(table.shape, np.nan)
    for states, value in boxes(table):
        place = tuple(slice(None) if s < 0 else s for s in states)
        assert np.isnan(rebuilt[place]).all()
        rebuilt[place] = value
    np.testing.assert_array_equal(rebuilt, table)
    zero = np.zeros(table.shape, bool)
    for states in impossible_boxes(table):
        place = tuple(slice(None) if s < 0 else s for s in states)
        assert np.isneginf(table[place]).all()
        zero[place] = True
    np.testing.assert_array_equal(zero, np.isneginf(table))


def test_a_gate_gets_its_three_clauses() -> None:
    gate = np.full((2, 2, 2), -np.inf)
    for a, b in itertools.product(range(2), repeat=2):
        gate[a, b, a & b] = 0.0
    graph = graph_of_tables("abc", [["0", "1"]] * 3, [([0, 1, 2], gate)])
    assert weighted_clauses(graph).clauses == [(0, 5), (1, 3, 4), (2, 5)]
