"""Tables, contraction and join graphs of IJGP."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapis.counting.ijgp.contraction import sum_all, sum_product, to_dense
from lapis.counting.ijgp.join_graph import JoinGraph, build_join_graph, order_variables
from lapis.counting.ijgp.message_table import (
    MessageTable,
    Scope,
    full_table,
    join_message_tables,
    pack_assignments,
    scalar_table,
    sum_out_variable,
)
from lapis.errors import TooLarge

SIZES = (2, 3, 1, 4)

scopes = st.lists(
    st.sets(st.integers(0, 5), min_size=1, max_size=3).map(lambda each: tuple(sorted(each))),
    min_size=1,
    max_size=6,
)


@st.composite
def tables(draw: st.DrawFn, sparse: bool = False, min_arity: int = 0) -> MessageTable:
    scope = tuple(sorted(draw(st.sets(st.integers(0, 3), min_size=min_arity, max_size=3))))
    shape = tuple(SIZES[each] for each in scope)
    cells = int(np.prod(shape))
    numbers = st.sampled_from([0.0, 1.0, 2.0, 0.5])
    if len(scope) <= 1:
        return full_table(
            scope, shape, np.array(draw(st.lists(numbers, min_size=cells, max_size=cells)))
        )
    codes = np.array(sorted(draw(st.sets(st.integers(0, cells - 1)))), np.int64)
    values = np.array(draw(st.lists(numbers, min_size=len(codes), max_size=len(codes))))
    return MessageTable(scope, shape, 0.0 if sparse else draw(numbers), codes, values)


def written_out(table: MessageTable) -> np.ndarray:
    """float64[SIZES] by looking up every assignment, one at a time."""
    array = np.empty(SIZES)
    listed = dict(zip(table.codes.tolist(), table.values.tolist(), strict=True))
    for assignment in itertools.product(*map(range, SIZES)):
        code = 0
        for variable, size in zip(table.scope, table.shape, strict=True):
            code = code * size + assignment[variable]
        array[assignment] = listed.get(code, table.default)
    return array


@given(st.lists(tables(), max_size=5), st.sets(st.integers(0, 3)))
def test_contraction_is_the_sum_of_the_product(factors: list[MessageTable], keep: set[int]) -> None:
    product = np.ones(SIZES)
    for factor in factors:
        product = product * written_out(factor)
    scope = tuple(sorted(keep))
    gone = tuple(each for each in range(4) if each not in keep)
    found = to_dense(sum_product(factors, range(4), scope, SIZES), scope, SIZES)
    np.testing.assert_allclose(found, product.sum(axis=gone), atol=1e-9)
    assert sum_all(factors, range(4), SIZES) == pytest.approx(product.sum())


@given(tables(sparse=True, min_arity=2), tables(sparse=True, min_arity=1))
def test_join_multiplies(left: MessageTable, right: MessageTable) -> None:
    product = written_out(left) * written_out(right)
    joined = join_message_tables(left, right)
    assert set(joined.scope) == set(left.scope) | set(right.scope)
    np.testing.assert_allclose(written_out(joined), product)
    for variable in sorted(set(left.scope) & set(right.scope)):
        summed = join_message_tables(left, right, drop=variable)
        if len(joined.scope) > 1:
            np.testing.assert_allclose(
                written_out(summed), written_out(sum_out_variable(joined, variable))
            )


@given(tables(min_arity=2), st.data())
def test_assigning_changes_one_entry(table: MessageTable, data: st.DataObject) -> None:
    code = data.draw(st.integers(0, table.num_cells - 1))
    if data.draw(st.booleans()):
        assert set(table.columns) == set(table.scope)  # unpacked columns are carried over
    changed = table.assign(code, 7.0)
    expected = written_out(table)
    at = dict(zip(table.scope, np.unravel_index(code, table.shape), strict=True))
    expected[tuple(at.get(each, slice(None)) for each in range(4))] = 7.0
    np.testing.assert_array_equal(written_out(changed), expected)
    columns = [changed.columns[each] for each in changed.scope]
    np.testing.assert_array_equal(
        pack_assignments(columns, changed.shape, len(changed.codes)), changed.codes
    )


def test_sums_without_a_sparse_form_are_refused_beyond_the_limit() -> None:
    size = 1 << 14
    diagonal = np.arange(size, dtype=np.int64) * (size + 1)
    complements = [
        MessageTable(scope, (size, size), 1.0, diagonal, np.zeros(size))
        for scope in ((0, 2), (1, 2))
    ]
    vector = full_table((2,), (size,), np.ones(size))
    weights = full_table((2,), (size,), np.arange(size, dtype=np.float64))
    with pytest.raises(TooLarge, match="lower the i-bound"):
        sum_product([*complements, vector, weights], range(3), (0, 1), (size,) * 3)


def test_a_scalar_has_one_value() -> None:
    assert sum_all([scalar_table(3.0)], (), ()) == 3.0


def assert_runs_through_trees(graph: JoinGraph, num_variables: int) -> None:
    """Each variable's clusters are joined, without a cycle, by the arcs that carry it."""
    for variable in range(num_variables):
        home = {n for n, cluster in enumerate(graph.clusters) if variable in cluster.scope}
        carrying = [arc for arc in graph.arcs if variable in arc.separator]
        assert all({arc.left, arc.right} <= home for arc in carrying)
        if not home:
            continue
        assert len(carrying) == len(home) - 1
        reached = {min(home)}
        for _ in home:
            for arc in carrying:
                if reached & {arc.left, arc.right}:
                    reached |= {arc.left, arc.right}
        assert reached == home


@given(scopes, st.integers(1, 6), st.sets(st.integers(0, 5), max_size=2))
def test_join_graphs_obey_running_intersection_and_the_bound(
    found: list[Scope], ibound: int, plus: set[int]
) -> None:
    graph = build_join_graph(found, ibound, 6, tuple(sorted(plus)))
    assert_runs_through_trees(graph, 6)
    placed = sorted(table for cluster in graph.clusters for table in cluster.tables)
    assert placed == list(range(len(found)))
    for cluster in graph.clusters:
        assert all(set(found[table]) <= set(cluster.scope) for table in cluster.tables)
        counted = set(cluster.scope) - plus
        assert len(counted) <= ibound or any(counted <= set(scope) for scope in found)
    for arc in graph.arcs:
        assert len(set(arc.separator) - plus) <= ibound
    if plus:
        assert any(plus <= set(cluster.scope) for cluster in graph.clusters)


@given(scopes, st.integers(1, 6))
def test_bounds_above_the_treewidth_give_trees(found: list[Scope], ibound: int) -> None:
    if ibound > treewidth_by_enumeration(found, 6):
        graph = build_join_graph(found, ibound, 6)
        assert graph.is_tree


def treewidth_by_enumeration(found: list[Scope], num_variables: int) -> int:
    """The least induced width over all orders."""
    used = sorted({variable for scope in found for variable in scope})
    pairs = {frozenset(pair) for scope in found for pair in itertools.combinations(scope, 2)}
    best = num_variables
    for order in itertools.permutations(used):
        edges, width = set(pairs), 0
        for variable in order:
            around = {other for edge in edges if variable in edge for other in edge} - {variable}
            width = max(width, len(around))
            edges = {edge for edge in edges if variable not in edge}
            edges |= {frozenset(pair) for pair in itertools.combinations(around, 2)}
        best = min(best, width)
        if best == 0:
            break
    return best


def test_a_separator_wider_than_the_bound_is_split() -> None:
    triangle = [(0, 1, 2), (2, 3, 4), (1, 4, 5)]
    for ibound in (1, 2):
        graph = build_join_graph(triangle, ibound, 6)
        assert max(len(arc.separator) for arc in graph.arcs) <= ibound
        assert {cluster.scope for cluster in graph.clusters} >= set(triangle)
        assert not graph.is_tree


def test_plus_variables_are_eliminated_last() -> None:
    assert order_variables([(0, 1), (1, 2)], 1, 3, plus=(0, 1)) == (2, 0, 1)
