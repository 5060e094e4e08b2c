"""Test lower bounds of the treewidth: they hold for all elimination orders."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lapis
from lapis.grounding import ground
from lapis.inference.exact.by_components import plan_exact
from lapis.inference.exact.treewidth_bounds import divide_network, has_dense_core, has_dense_minor
from lapis.inference.plan import ExactParts, drop_costly_tables
from lapis.network import Network

Edges = frozenset[tuple[int, int]]


def network_of(num_atoms: int, edges: Edges, rule: str = "1 E(x, y) ^ P(x) => P(y)") -> Network:
    """Return a network in which P(i) and P(j) share a soft clause for each edge."""
    things = ", ".join(f"T{number}" for number in range(num_atoms))
    facts = " ".join(f"E(T{i},T{j})" for i, j in sorted(edges))
    text = f"thing = {{{things}}}\nP(thing)\nE(thing, thing)\n{rule}"
    return ground(lapis.build_problem(lapis.parse(text), lapis.Database.parse(facts), ["P"]))


def clique(members: range) -> Edges:
    return frozenset(itertools.combinations(members, 2))


def peeled(num_atoms: int, edges: Edges, degree: int) -> set[int]:
    """Return the k-core, removing one vertex at a time."""
    left = set(range(num_atoms))
    while True:
        near = {
            v: {a for edge in edges if v in edge for a in edge if a != v and a in left}
            for v in left
        }
        low = [v for v in left if len(near[v]) < degree]
        if not low:
            return left
        left.remove(low[0])


def reachable(start: set[int], edges: Edges) -> set[int]:
    found = set(start)
    while more := {v for edge in edges if found & set(edge) for v in edge} - found:
        found |= more
    return found


EDGES = st.frozensets(
    st.tuples(st.integers(0, 8), st.integers(0, 8)).filter(lambda edge: edge[0] < edge[1]),
    max_size=25,
)


@given(EDGES, st.integers(1, 5))
def test_components_of_a_core(edges: Edges, degree: int) -> None:
    found = np.flatnonzero(has_dense_core(network_of(9, edges), degree))
    assert set(found.tolist()) == reachable(peeled(9, edges, degree), edges)


@given(
    st.lists(st.sampled_from(sorted(clique(range(13)))), max_size=40, unique=True),
    st.sampled_from((0, 20_000, 60_000)),
)
@settings(max_examples=25)
def test_nothing_that_fits_is_given_up(missing: list[tuple[int, int]], memory: int) -> None:
    """The planner itself refuses every component that is not planned."""
    network = network_of(13, clique(range(13)) - set(missing))
    division = divide_network(network, memory)
    given_up = np.ones(network.num_atoms, bool)
    given_up[division.planned_atom] = False
    if given_up.any():
        assert not plan_exact(network, memory).affordable[given_up].any()
    solved = division.planned_atom[division.plan.affordable]
    everything = np.concatenate((solved, division.rest.atom))
    assert sorted(everything.tolist()) == list(range(network.num_atoms))


def test_what_is_given_up() -> None:
    network = network_of(20, clique(range(13)) | frozenset({(14, 15), (15, 16)}))
    division = divide_network(network, 20_000)
    assert division.rest.atom.tolist() == list(range(13))
    assert division.plan.is_complete


def test_tables_must_be_worth_their_entries() -> None:
    """A clique of 8 has 2^9 entries and 56 literals, a chain of 3 about 12 and 4."""
    network = network_of(20, clique(range(8)) | frozenset({(14, 15), (15, 16)}))
    division = divide_network(network, 1 << 20)
    assert len(division.rest.atom) == 0
    found = ExactParts([], division.plan, division.planned_atom, division.rest)
    for entries, rest in ((1.0, [*range(8), 14, 15, 16]), (5.0, [*range(8)]), (20.0, [])):
        kept = drop_costly_tables(network, found, entries)
        assert kept.exact is not None
        assert kept.rest.atom.tolist() == rest
        assert kept.exact.is_complete
        everything = sorted([*kept.exact_atom.tolist(), *rest])
        assert everything == list(range(network.num_atoms))
        assert kept.exact.network.num_atoms == len(kept.exact_atom)


@pytest.mark.parametrize("size", [3, 6])
def test_a_clique_and_a_chain(size: int) -> None:
    chain = frozenset((at, at + 1) for at in range(10, 15))
    network = network_of(16, clique(range(size)) | chain)
    found = np.flatnonzero(has_dense_core(network, 5))
    assert found.tolist() == (list(range(6)) if size == 6 else [])


def test_a_block_is_one_variable() -> None:
    text = (
        "topic = {A, B, C, D, E, F}\npage = {P, Q}\nTopic(page, topic!)\nTopic(P, t) => Topic(Q, t)"
    )
    network = ground(lapis.build_problem(lapis.parse(text), query=["Topic"]))
    assert has_dense_core(network, 1).all()
    assert not has_dense_core(network, 2).any()


SIZE = 9
MANY_EDGES = st.frozensets(
    st.tuples(st.integers(0, SIZE - 1), st.integers(0, SIZE - 1)).filter(lambda e: e[0] < e[1]),
    max_size=30,
)


def treewidth(num_vertices: int, edges: Edges) -> int:
    """Return the least over all orders of the most neighbours of a vertex when eliminated.

    Its neighbours are those it reaches through vertices eliminated before it.
    """

    def reached(vertex: int, gone: frozenset[int]) -> int:
        seen, waiting, found = {vertex}, [vertex], 0
        while waiting:
            at = waiting.pop()
            near = {b if a == at else a for a, b in edges if at in (a, b)} - seen
            seen |= near
            found += len(near - gone)
            waiting += near & gone
        return found

    @functools.cache
    def least(gone: frozenset[int]) -> int:
        """Return the width of the best order that begins with these."""
        return min(
            (max(least(gone - {v}), reached(v, gone - {v})) for v in gone),
            default=0,
        )

    return least(frozenset(range(num_vertices)))


@given(MANY_EDGES)
def test_no_more_than_the_treewidth(edges: Edges) -> None:
    width, network = treewidth(SIZE, edges), network_of(SIZE, edges)
    for degree in range(2, SIZE):
        if has_dense_minor(network, degree).any():
            assert degree <= width


def friends(number: int, each: int, seed: int) -> Edges:
    drawn = np.random.default_rng(seed).integers(number, size=(number, each))
    return frozenset(
        (min(i, j), max(i, j)) for i, row in enumerate(drawn.tolist()) for j in row if i != j
    )


@pytest.mark.parametrize("seed", range(3))
def test_sparse_friendships_without_a_dense_core(seed: int) -> None:
    """No core of 11, and no order whose tables have fewer than 12 variables."""
    network, memory = network_of(150, friends(150, 4, seed)), 20_000
    assert not has_dense_core(network, 11).any()
    division = divide_network(network, memory)
    assert len(division.planned_atom) == 0
    assert not plan_exact(network, memory).affordable.any()


def test_only_the_component_that_has_it() -> None:
    chain = frozenset((at, at + 1) for at in range(120, 130))
    network = network_of(131, friends(120, 5, 0) | chain)
    assert np.flatnonzero(has_dense_minor(network, 11)).tolist() == list(range(120))


def test_grids_are_not_found() -> None:
    """A planar graph has no minor of minimum degree 6."""
    side = 12
    right = {(side * y + x, side * y + x + 1) for y in range(side) for x in range(side - 1)}
    down = {(side * y + x, side * y + x + side) for y in range(side - 1) for x in range(side)}
    network = network_of(side * side, frozenset(right | down))
    assert has_dense_minor(network, 3).all()
    assert not has_dense_minor(network, 6).any()


def test_long_clauses_may_be_cut() -> None:
    """A disjunction of forty atoms is a chain of small tables."""
    network = network_of(40, frozenset(), "1 EXIST x P(x)")
    assert not has_dense_minor(network, 4).any()


def test_a_variable_of_one_state_joins_nothing() -> None:
    text = (
        "topic = {A}\npage = {P, Q, R, S, T}\nTopic(page, topic!)\n1 Topic(p, t) => Topic(q, t)\n"
        "On(page)\n1 On(p) => Topic(q, t)"
    )
    network = ground(lapis.build_problem(lapis.parse(text), query=["Topic", "On"]))
    assert not has_dense_minor(network, 2).any()


@pytest.mark.parametrize("part", ["P(x)", "(P(x) ^ Q(x))"])
def test_a_long_clause_is_no_crowd(part: str) -> None:
    """A long clause is cut into a chain, so that a chain of atoms under EXIST stays narrow.

    `auto` sampled forty of them, which `exact` answers with tables over four.
    """
    size = 40
    facts = " ".join(f"N(T{i},T{i + 1})" for i in range(size - 1))
    model = lapis.parse(
        f"P(t)\nQ(t)\nN(t, t)\n1.5 EXIST x {part}\n0.7 P(x) ^ N(x, y) ^ P(y)\n"
        "-2 P(x)\n0.3 P(T3)\n-0.4 P(T20)\n0.2 Q(T7)"
    )
    data = lapis.Database.parse(facts)
    found = lapis.infer(model, data, ["P", "Q"])
    assert found.exact
    expected = lapis.infer(model, data, ["P", "Q"], method="exact")
    assert found.probability == pytest.approx(expected.probability, abs=1e-12)
