"""Compare IJGP(i) with enumeration of all groundings."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from ijgp_worlds import (
    count_by_enumeration,
    estimate_difference,
    features,
    ground_atoms,
    worlds,
)

from lapis.counting.ijgp import IjgpCounter, IjgpSettings, count_ijgp

MANY = 6  # an i-bound above the number of variables


@given(st.data())
def test_is_exact_when_no_bucket_is_split(data: st.DataObject) -> None:
    world = data.draw(worlds())
    feature = data.draw(features(world))
    found = count_ijgp(
        world.normal_form(feature), world.model, world.domains, world.relations, IjgpSettings(MANY)
    )
    assert found.exact
    assert all(clause.exact and clause.converged for clause in found.clauses)
    np.testing.assert_allclose(found.count, count_by_enumeration(world, feature), rtol=1e-9)


@given(st.data())
def test_small_bounds_give_possible_counts_and_say_when_they_are_exact(
    data: st.DataObject,
) -> None:
    world = data.draw(worlds())
    feature = data.draw(features(world))
    ibound = data.draw(st.integers(1, 3))
    found = count_ijgp(
        world.normal_form(feature),
        world.model,
        world.domains,
        world.relations,
        IjgpSettings(ibound),
    )
    expected = count_by_enumeration(world, feature)
    for clause in found.clauses:
        assert 0.0 <= clause.false <= clause.groundings * (1 + 1e-12)
    assert np.isfinite(found.count).all()
    if found.exact:
        np.testing.assert_allclose(found.count, expected, rtol=1e-9)
    if all(clause.false == 0.0 for clause in found.clauses):
        assert found.exact


@given(st.data())
def test_updates_keep_exact_counts_exact(data: st.DataObject) -> None:
    world = data.draw(worlds())
    feature = data.draw(features(world))
    normal_form = world.normal_form(feature)
    counter = IjgpCounter(normal_form, world.model, world.domains, IjgpSettings(MANY))
    counter.count(world.relations)
    for _ in range(data.draw(st.integers(1, 4))):
        predicate, row = data.draw(ground_atoms(world))
        value = data.draw(st.booleans())
        world = world.with_atom(predicate, row, value)
        found = counter.update(predicate, row, value)
        np.testing.assert_allclose(found.count, count_by_enumeration(world, feature), rtol=1e-9)


@given(st.data())
def test_delta_is_the_change_of_the_count(data: st.DataObject) -> None:
    world = data.draw(worlds())
    feature = data.draw(features(world))
    predicate, row = data.draw(ground_atoms(world))
    found = estimate_difference(world, feature, predicate, row, IjgpSettings(MANY))
    with_atom = count_by_enumeration(world.with_atom(predicate, row, True), feature)
    without = count_by_enumeration(world.with_atom(predicate, row, False), feature)
    np.testing.assert_allclose(found, with_atom - without, rtol=1e-9, atol=1e-9)
