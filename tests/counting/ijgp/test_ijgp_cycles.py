"""IJGP(i) on join graphs with cycles, and on trees at a small i."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ijgp_worlds import (
    World,
    count_by_enumeration,
    cyclic_features,
    estimate_difference,
    features,
    ground_atoms,
    worlds,
)

from lapis.counting.ijgp import IjgpCounter, IjgpSettings, count_ijgp
from lapis.data.database import Domain
from lapis.errors import LapisError
from lapis.language.syntax import Variable
from lapis.logic.clauses import Clause, Feature, Literal


def literal(predicate: str, *names: str, positive: bool = False) -> Literal:
    return Literal(predicate, tuple(map(Variable, names)), positive)


def world_of(size: int, friends: list[tuple[int, int]]) -> World:
    domains = {
        "t": Domain("t", tuple(f"T{number}" for number in range(size))),
        "u": Domain("u", ("U0", "U1")),
    }
    rows = np.array(sorted(friends), np.int32).reshape(-1, 2)
    return World(domains, {"F": rows})


TRANSITIVE = Feature(
    0,
    (("x", "t"), ("y", "t"), ("z", "t")),
    (),
    (
        Clause(
            (literal("F", "x", "y"), literal("F", "y", "z"), literal("F", "x", "z", positive=True))
        ),
    ),
    0,
    hard=False,
)


@given(st.data())
def test_updates_reach_a_fixed_point(data: st.DataObject) -> None:
    """With cycles there may be several, so one need not be that of counting anew."""
    world = data.draw(worlds(with_definitions=False, smallest=2))
    normal_form = world.normal_form(data.draw(cyclic_features()))
    counter = IjgpCounter(normal_form, world.model, world.domains, IjgpSettings(1, 1e-9, 300))
    counter.count(world.relations)
    for _ in range(3):
        predicate, row = data.draw(ground_atoms(world))
        value = data.draw(st.booleans())
        world = world.with_atom(predicate, row, value)
        warm = counter.update(predicate, row, value)
        cold = count_ijgp(
            normal_form,
            world.model,
            world.domains,
            world.relations,
            IjgpSettings(1, 1e-9, 300),
        )
        assert warm.exact == cold.exact
        if warm.exact:
            np.testing.assert_array_equal(warm.count, cold.count)
        propagations = [cube._propagation for cubes in counter._counters for cube in cubes]
        for propagation in propagations:
            if propagation is not None and propagation.converged:
                assert propagation.residual() < 1e-6


@given(st.data())
def test_cyclic_estimates_are_possible_and_damping_keeps_the_fixed_point(
    data: st.DataObject,
) -> None:
    world = data.draw(worlds(with_definitions=False, smallest=2))
    feature = data.draw(cyclic_features())
    problem = (world.normal_form(feature), world.model, world.domains, world.relations)
    plain, damped = (
        count_ijgp(*problem, IjgpSettings(2, 1e-9, 300, damping)) for damping in (0.0, 0.4)
    )
    for found in (plain, damped):
        (clause,) = found.clauses
        assert 0.0 <= clause.false <= clause.groundings
        assert 0.0 <= found.count[0] <= clause.groundings
    if plain.clauses[0].converged and damped.clauses[0].converged:
        np.testing.assert_allclose(plain.count, damped.count, rtol=1e-6)


def test_a_path_is_exact_at_the_smallest_bound() -> None:
    rng = np.random.default_rng(5)
    pairs = [tuple(pair) for pair in np.argwhere(rng.random((5, 5)) < 0.5).tolist()]
    world = world_of(5, pairs)
    path = (literal("F", "x", "y"), literal("F", "y", "z", positive=True), literal("F", "z", "w"))
    feature = Feature(
        0, (("x", "t"), ("y", "t"), ("z", "t"), ("w", "t")), (), (Clause(path),), 0, hard=False
    )
    found = count_ijgp(
        world.normal_form(feature), world.model, world.domains, world.relations, IjgpSettings(1)
    )
    assert found.exact
    assert [len(scope) for scope in found.clauses[0].clusters] == [2, 2, 2]
    assert found.count[0] == complete_count(world, feature)


def complete_count(world: World, feature: Feature) -> float:
    empty = {name: np.empty((0, p.arity), np.int32) for name, p in world.model.predicates.items()}
    whole = World(world.domains, {**empty, **world.relations})
    return float(count_by_enumeration(whole, feature)[0])


def test_an_empty_cluster_proves_a_count_of_zero() -> None:
    # Pairs go from T0, T1 to T2, T3 only, so no two follow each other.
    world = world_of(4, [(0, 2), (1, 3)])
    found = count_ijgp(
        world.normal_form(TRANSITIVE), world.model, world.domains, world.relations, IjgpSettings(1)
    )
    assert found.clauses[0].false == 0.0
    assert found.exact
    assert found.count[0] == 64.0


def test_a_revived_tuple_brings_the_count_back() -> None:
    world = world_of(4, [(0, 2), (1, 3)])
    counter = IjgpCounter(
        world.normal_form(TRANSITIVE), world.model, world.domains, IjgpSettings(1)
    )
    counter.count(world.relations)
    found = counter.update("F", (2, 1), True)
    # F: 0-2, 2-1, 1-3; false for the chains 0-2-1 and 2-1-3.
    assert complete_count(world.with_atom("F", (2, 1), True), TRANSITIVE) == 62.0
    assert not found.exact
    assert 0.0 < found.clauses[0].false <= 9.0
    assert counter.update("F", (2, 1), False).clauses[0].false == 0.0


def test_measured_error_compares_with_exact_counts() -> None:
    rng = np.random.default_rng(3)
    pairs = [tuple(pair) for pair in np.argwhere(rng.random((6, 6)) < 0.4).tolist()]
    world = world_of(6, pairs)
    problem = (world.normal_form(TRANSITIVE), world.model, world.domains, world.relations)
    expected = complete_count(world, TRANSITIVE)
    found = count_ijgp(*problem, IjgpSettings(1), measure_error=True)
    assert not found.exact
    assert found.error is not None
    assert found.error.exact == (expected,)
    difference = abs(found.count[0] - expected)
    assert difference > 0.0
    assert found.error.relative_true[0] == pytest.approx(difference / expected)
    assert found.error.largest == found.error.relative_true[0]
    exact = count_ijgp(*problem, IjgpSettings(3), measure_error=True)
    assert exact.exact
    assert exact.error is not None
    assert exact.error.largest == 0.0


def test_large_domains_cost_no_more_than_their_tuples() -> None:
    # 2 · 10^14 groundings, 3 tuples: dense messages over pairs would need 10^10 entries.
    world = world_of(60_000, [(0, 1), (1, 2), (59_998, 59_999)])
    found = count_ijgp(
        world.normal_form(TRANSITIVE), world.model, world.domains, world.relations, IjgpSettings(3)
    )
    assert found.exact
    assert found.clauses[0].false == 1.0


@given(st.data())
def test_weights_are_numbered_as_in_the_weight_table(data: st.DataObject) -> None:
    world = data.draw(worlds())
    soft = [data.draw(features(world)) for _ in range(2)]
    hard = Feature(1, soft[0].variables, (), soft[0].clauses, soft[0].constant, hard=True)
    found = count_ijgp(
        world.normal_form(soft[0], hard, soft[1]),
        world.model,
        world.domains,
        world.relations,
        IjgpSettings(6),
    )
    expected = [count_by_enumeration(world, feature) for feature in soft]
    np.testing.assert_allclose(found.count, np.concatenate(expected), rtol=1e-9)
    assert len(found.features) == 3
    assert found.features[1].true == pytest.approx(count_by_enumeration(world, hard)[0])


@given(st.data())
def test_delta_of_a_cycle_is_exact_once_substitution_breaks_it(data: st.DataObject) -> None:
    world = data.draw(worlds(with_definitions=False, smallest=2))
    row = tuple(data.draw(st.integers(0, len(world.domains["t"]) - 1)) for _ in range(2))
    found = estimate_difference(world, TRANSITIVE, "F", row, IjgpSettings(1))
    with_atom, without = (
        count_by_enumeration(world.with_atom("F", row, value), TRANSITIVE)
        for value in (True, False)
    )
    np.testing.assert_allclose(found, with_atom - without, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "value"),
    [("ibound", 0), ("tolerance", 0.0), ("max_iterations", 0), ("damping", 1.0)],
)
def test_options_are_checked(name: str, value: float) -> None:
    with pytest.raises(LapisError, match=name) as caught:
        replace(IjgpSettings(), **{name: value})
    assert caught.value.code == "invalid-option"


def test_updating_before_counting_is_an_error() -> None:
    world = world_of(2, [])
    counter = IjgpCounter(
        world.normal_form(TRANSITIVE), world.model, world.domains, IjgpSettings(2)
    )
    with pytest.raises(LapisError, match="no world"):
        counter.update("F", (0, 1), True)
