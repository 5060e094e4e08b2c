"""Clauses scored on a store: classes and scores equal those of memory, to the last digit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import lapis
from lapis.stores import Store, open_store
from lapis.stores.counting.stored_paths import StoredJoins
from lapis.structure.candidates import PathAtom, sign_patterns
from lapis.structure.clause_scores import Scorer, draw_atoms
from lapis.structure.path_differences import AtomClasses, PartSums
from store_urls import QUICK_STORES, store_url
from structure.test_scores import join, paths, random_world, worlds

few = settings(
    deadline=None, max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module", params=QUICK_STORES)
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    with open_store(store_url(request.param, request)) as opened:
        yield opened


def assert_same(found: AtomClasses, expected: AtomClasses) -> None:
    assert set(found.failing) == set(expected.failing)
    for unified, failing in expected.failing.items():
        np.testing.assert_array_equal(found.failing[unified], failing)
    np.testing.assert_array_equal(found.truth, expected.truth)
    np.testing.assert_array_equal(found.multiplicity, expected.multiplicity)


@few
@given(databases=worlds(), path=paths())
def test_classes_and_single_atoms(
    store: Store, databases: list[lapis.Database], path: tuple[PathAtom, ...]
) -> None:
    data = join(databases)
    joins, sums = StoredJoins(data, store), PartSums(data)
    sample = draw_atoms(data, 0.5, np.random.default_rng(0))
    for name in dict.fromkeys(atom.predicate for atom in path):
        there, here = joins.differences(path, name), sums.differences(path, name)
        assert_same(there.classes(), here.classes())
        assert_same(there.at(*sample[name]), here.at(*sample[name]))
    joins.scratch.close()


@few
@given(path=paths())
def test_scores(store: Store, path: tuple[PathAtom, ...]) -> None:
    data = join([random_world(0, 9, 7), random_world(1, 5, 8)])
    patterns = sign_patterns(path)
    assert Scorer(data, joins=StoredJoins(data, store)).score(path, patterns) == Scorer(data).score(
        path, patterns
    )


def test_the_rules_are_those_of_memory() -> None:
    model = lapis.parse("Smokes(person)\nCancer(person)\nFriends(person,person)")
    draw = np.random.default_rng(3)
    smokes = draw.random(40) < 0.4
    facts = [f"Smokes(P{p})" for p in range(40) if smokes[p]]
    facts += [f"Cancer(P{p})" for p in range(40) if draw.random() < (0.8 if smokes[p] else 0.1)]
    facts += [f"Friends(P{p},P{q})" for p in range(40) for q in draw.integers(40, size=3)]
    data = lapis.Database.parse(" ".join(facts))
    here = lapis.learn_structure(model, data, max_literals=2, jobs=1)
    there = lapis.learn_structure(model, data, max_literals=2, engine="duckdb")
    assert [(r.text, r.weight, r.gain) for r in there.rules] == [
        (r.text, r.weight, r.gain) for r in here.rules
    ]
    assert {"Smokes(p)", "Cancer(p)"} == set(here.rules[0].text.split(" => "))
