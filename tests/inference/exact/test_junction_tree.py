"""Test that elimination orders stay within their limits, and the properties of trees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from exact_networks import make_network, random_network
from lapis.inference.exact.by_components import exact, plan_exact
from lapis.inference.exact.elimination_order import best_order, low_degree_order
from lapis.inference.exact.junction_tree import CORE, ROOT, build_tree
from lapis.network.cubes import Cubes, cut_long_cubes, falsifying_cubes, find_variables
from lapis.network.network import Network

seeds = st.integers(0, 2**32 - 1)


def all_cubes(network: Network) -> Cubes:
    variables = find_variables(network, np.ones(network.num_atoms, bool))
    return falsifying_cubes(network, variables, np.arange(network.num_clauses))


def eliminate_naively(cubes: Cubes, order: np.ndarray) -> list[set[int]]:
    """Return the neighbours of each variable at its turn, from the graph of shared cubes."""
    neighbours: dict[int, set[int]] = {v: set() for v in range(len(cubes.size))}
    for begin, end in zip(cubes.start[:-1], cubes.start[1:], strict=True):
        members = set(cubes.variable[begin:end].tolist())
        for v in members:
            neighbours[v] |= members - {v}
    found = []
    for v in order.tolist():
        found.append(neighbours.pop(v))
        for u in found[-1]:
            neighbours[u] = (neighbours[u] | found[-1]) - {u, v}
    return found


@given(seeds, st.integers(0, 5), st.sampled_from([1, 4, 16, 1024]))
def test_low_degree_order_keeps_its_limits(seed: int, max_scope: int, max_entries: int) -> None:
    rng = np.random.default_rng(seed)
    cubes = all_cubes(random_network(rng, num_base=12, num_clauses=14))
    eligible = rng.random(len(cubes.size)) < 0.9
    order = low_degree_order(cubes, eligible, max_scope, max_entries)
    assert len(set(order.tolist())) == len(order)
    assert eligible[order].all()
    for scope in eliminate_naively(cubes, order):
        assert len(scope) <= max_scope
        assert np.prod(cubes.size[list(scope)], initial=1) <= max_entries
    # No variable within the limits is left.
    for v in np.setdiff1d(np.flatnonzero(eligible), order):
        scope = eliminate_naively(cubes, np.append(order, v))[-1]
        assert len(scope) > max_scope or np.prod(cubes.size[list(scope)]) > max_entries


@given(seeds)
def test_tree_of_an_order(seed: int) -> None:
    """Scopes equal those of naive elimination.

    Every cube enters the clique of its first variable.
    """
    rng = np.random.default_rng(seed)
    cubes = all_cubes(random_network(rng, num_base=12, num_clauses=14))
    order = rng.permutation(len(cubes.size))[: rng.integers(0, len(cubes.size) + 1)]
    tree = build_tree(cubes, order)
    position = {v: i for i, v in enumerate(order.tolist())}
    for clique, scope in enumerate(eliminate_naively(cubes, order)):
        assert set(tree.scope(clique).tolist()) == scope
        later = sorted(position[u] for u in scope if u in position)
        expected = later[0] if later else (CORE if scope else ROOT)
        assert tree.parent[clique] == expected
        entries = np.prod(cubes.size[list(scope)], initial=1)
        assert tree.message_start[clique + 1] - tree.message_start[clique] == entries
    clique_of = np.repeat(np.arange(len(order)), np.diff(tree.cube_start))
    entered = dict(zip(tree.cube.tolist(), clique_of.tolist(), strict=True))
    for cube in range(len(cubes.clause)):
        members = cubes.variable[cubes.start[cube] : cubes.start[cube + 1]].tolist()
        first = min((position[v] for v in members if v in position), default=None)
        assert entered.get(cube) == first


def grid(rows: int, columns: int) -> Network:
    atom = np.arange(rows * columns).reshape(rows, columns) + 1
    pairs = [(atom[:, :-1].ravel(), atom[:, 1:].ravel()), (atom[:-1].ravel(), atom[1:].ravel())]
    clauses = [
        ([int(a), -int(b)], 0, 1.0) for one, other in pairs for a, b in zip(one, other, strict=True)
    ]
    return make_network(rows * columns, clauses, [0.7])


@pytest.mark.parametrize(("rows", "columns"), [(3, 40), (7, 7), (10, 10), (12, 20)])
def test_grids_cost_no_more_than_a_sweep(rows: int, columns: int) -> None:
    """Column by column, each clique has an atom, its later neighbours and the front."""
    plan = plan_exact(grid(rows, columns))
    assert plan.is_complete
    assert plan.width >= rows
    entries = sum(int(forest.tree.table_start[-1]) for forest in plan.forests)
    assert entries <= rows * columns * 2 ** (rows + 1)


def test_grid_by_transfer_matrix() -> None:
    """Columns of six atoms as states of one chain."""
    rows, columns, weight = 6, 30, 0.7
    state = (np.arange(2**rows)[:, None] >> np.arange(rows)) & 1 == 1
    within = weight * (state[:, :-1] | ~state[:, 1:]).sum(axis=1)
    between = weight * (state[:, None, :] | ~state[None, :, :]).sum(axis=2)
    total = within.astype(float)
    for _ in range(columns - 1):
        total = within + np.logaddexp.reduce(total[:, None] + between, axis=0)
    found = exact(grid(rows, columns))
    assert found.log_partition == pytest.approx(np.logaddexp.reduce(total), rel=1e-13)


def test_search_gives_up_beyond_the_limit() -> None:
    size = 30
    start, scope = np.array([0, size]), np.arange(size)
    rng = np.random.default_rng(0)
    refused = best_order(np.full(size, 2, np.int32), start, scope, 2.0**20, rng)
    assert not refused.is_complete
    assert refused.width == size - 1
    assert refused.entries >= 2.0**size
    assert best_order(np.full(size, 2, np.int32), start, scope, 2.0**31, rng).is_complete


@given(seeds)
def test_cut_cubes_hold_where_the_long_ones_did(seed: int) -> None:
    """For each state of the old variables one state of the new ones is allowed."""
    rng = np.random.default_rng(seed)
    cubes = all_cubes(random_network(rng, 7, 2, max_length=6, hard=0.0))
    cut, origin = cut_long_cubes(cubes, 3)
    assume(len(origin) <= 7)
    assert len(cut.size) == len(cubes.size) + len(origin)
    assert np.diff(cut.start).max(initial=0) <= 3

    def holds(which: Cubes, state: np.ndarray) -> dict[int, bool]:
        """Return whether the state is in each cube; for chain links (clause −1), in any."""
        found: dict[int, bool] = {}
        for cube, clause in enumerate(which.clause.tolist()):
            inside = True
            for member in range(which.start[cube], which.start[cube + 1]):
                listed = which.state[which.state_start[member] : which.state_start[member + 1]]
                inside &= bool(state[which.variable[member]] in listed)
            found[clause] = found.get(clause, False) or inside
        return found

    for _ in range(3):
        state = rng.integers(0, cubes.size)
        allowed = []
        for number in range(2 ** len(origin)):
            links = (number >> np.arange(len(origin))) & 1
            found = holds(cut, np.concatenate((state, links)))
            if not found.pop(-1, False):
                allowed.append(found)
        assert allowed == [holds(cubes, state)]
