"""Junction trees over tables agree with sums over all joint states."""

from __future__ import annotations

import math
from collections.abc import Sequence

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import lapis
from lapis.circuits.factor_graph import graph_of_tables
from lapis.circuits.network_models import network_model
from lapis.inference.exact.table_tree import (
    Table,
    TableTree,
    Underflow,
    find_tree,
    solve_tree,
)


def random_tables(
    rng: np.random.Generator, sizes: Sequence[int], num_tables: int, zeros: float, num_rows: int = 1
) -> list[Table]:
    """Return random tables of up to three variables, that use all variables."""
    tables = []
    scopes = [tuple(rng.permutation(len(sizes))[: rng.integers(1, 4)]) for _ in range(num_tables)]
    scopes += [(v,) for v in range(len(sizes)) if not any(v in scope for scope in scopes)]
    for scope in scopes:
        rows = num_rows if rng.random() < 0.5 else 1
        shape = (rows, *(sizes[v] for v in scope))
        value = rng.random(shape) * (rng.random(shape) >= zeros)
        tables.append(Table(tuple(map(int, scope)), value))
    return tables


def joint(sizes: Sequence[int], tables: Sequence[Table], row: int) -> np.ndarray:
    """Return the product of all tables, with an axis for each variable."""
    product = np.ones(sizes)
    for states in np.ndindex(*sizes):
        for scope, value in tables:
            at = 0 if len(value) == 1 else row
            product[states] *= value[at][tuple(states[v] for v in scope)]
    return product


@given(seed=st.integers(0, 2**32 - 1), zeros=st.sampled_from([0.0, 0.3]), rows=st.integers(1, 3))
def test_agrees_with_all_joint_states(seed: int, zeros: float, rows: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, rng.integers(1, 7)).tolist()
    tables = random_tables(rng, sizes, int(rng.integers(1, 8)), zeros, rows)
    tree = find_tree(sizes, [table.scope for table in tables])
    assert tree is not None
    check_tree(tree, tables)
    products = [joint(sizes, tables, row) for row in range(rows)]
    try:
        found = solve_tree(tree, tables, range(len(sizes)))
    except Underflow:
        assert min(product.sum() for product in products) == 0.0
        return
    log_partition = np.broadcast_to(found.log_partition, rows)
    for row, product in enumerate(products):
        assert log_partition[row] == pytest.approx(math.log(product.sum()), abs=1e-12)
        for v in range(len(sizes)):
            others = tuple(u for u in range(len(sizes)) if u != v)
            expected = product.sum(axis=others) / product.sum()
            assert np.broadcast_to(found.marginal[v], (rows, sizes[v]))[row] == pytest.approx(
                expected, abs=1e-13
            )


def check_tree(tree: TableTree, tables: Sequence[Table]) -> None:
    """Check that each table is in one clique, and that each variable's cliques are connected."""
    homes = [number for clique in tree.cliques for number in clique.tables]
    assert sorted(homes) == [n for n, table in enumerate(tables) if table.scope]
    for number, clique in enumerate(tree.cliques):
        for each in clique.tables:
            assert set(tables[each].scope) <= set(clique.variables)
        separator = clique.variables[clique.num_own :]
        if clique.parent < 0:
            assert not separator
        else:
            assert number < clique.parent
            assert set(separator) <= set(tree.cliques[clique.parent].variables)
    owners = [v for clique in tree.cliques for v in clique.variables[: clique.num_own]]
    assert sorted(owners) == sorted({v for table in tables for v in table.scope})


def test_a_large_tree_is_refused() -> None:
    assert find_tree([10, 10, 10], [(0, 1, 2)], most_entries=999) is None
    assert find_tree([10, 10, 10], [(0, 1, 2)], most_entries=1000) is not None


CHAIN = [(0,), (0, 1)]


@pytest.mark.parametrize("small", [1e-200, 1e-310])
def test_small_numbers_are_refused_where_they_matter(small: float) -> None:
    """The states that one table prefers are those that the other nearly excludes."""
    tree = find_tree([2, 2], CHAIN)
    assert tree is not None
    tables = [
        Table((0,), np.array([[1.0, small]])),
        Table((0, 1), np.array([[[0.0, 0.0], [0.5, 1.0]]])),
    ]
    with pytest.raises(Underflow):
        solve_tree(tree, tables, [0])


def test_an_impossible_state_is_no_underflow() -> None:
    tree = find_tree([2, 2], CHAIN)
    assert tree is not None
    tables = [Table((0,), np.array([[0.5, 1.0]])), Table((0, 1), np.array([[[0.0, 0.0], [1, 1]]]))]
    found = solve_tree(tree, tables, [0, 1])
    assert found.marginal[0].tolist() == [[0.0, 1.0]]


def test_an_improbable_possible_state_is_refused() -> None:
    tree = find_tree([2], [(0,)])
    assert tree is not None
    with pytest.raises(Underflow):
        solve_tree(tree, [Table((0,), np.array([[1.0, 1e-200]]))], [0])


@given(seed=st.integers(0, 2**32 - 1))
def test_networks_are_answered_as_if_ground(seed: int) -> None:
    """Evidence, excluded states, asked variables and barren ones: both ways agree."""
    rng = np.random.default_rng(seed)
    num = int(rng.integers(2, 7))
    sizes = rng.integers(2, 4, num).tolist()
    tables = []
    for v in range(num):
        parents = rng.permutation(v)[: rng.integers(0, 3)].tolist()
        value = rng.random([*(sizes[u] for u in parents), sizes[v]])
        value /= value.sum(axis=-1, keepdims=True)
        tables.append(([*parents, v], np.log(value)))
    names = [f"v{v}" for v in range(num)]
    states = [[str(s) for s in range(size)] for size in sizes]
    model = network_model(graph_of_tables(names, states, tables))
    seen = rng.permutation(num)[: rng.integers(0, num)]
    facts = [
        f"{'!' if sizes[v] > 2 and rng.random() < 0.4 else ''}v{v}({rng.integers(sizes[v])})"
        for v in seen
    ]
    data = lapis.Database.parse("\n".join(facts))
    query = [names[v] for v in range(num) if v not in seen and rng.random() < 0.6]
    found = lapis.infer(model, data, query=query)
    ground = lapis.infer(model, data, query=query, method="enumerate")
    assert found.exact
    assert found.atoms == ground.atoms
    assert found.probability == pytest.approx(ground.probability, abs=1e-12)
    assert found.log_partition == pytest.approx(ground.log_partition, abs=1e-10)
