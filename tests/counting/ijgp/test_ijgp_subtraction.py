"""Compare differences of estimated counts (Sarkhel et al. 2016, equation 5) with the definition."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from ijgp_worlds import count_by_enumeration, cyclic_features, features, ground_atoms, worlds

import lapis
from lapis.counting.differences.atom_differences import list_tuples
from lapis.counting.flipping_world import FlippingWorld
from lapis.counting.ijgp import IjgpCounter, IjgpSettings, count_ijgp
from lapis.counting.ijgp.estimated_differences import (
    SubtractedDifferences,
    are_differences_exact,
    estimate_flip,
)
from lapis.data.keys import contains, exclusive
from lapis.errors import LapisError
from lapis.inference.sampling.counted_world import (
    ExactWorld,
    SubstitutedWorld,
    SubtractedWorld,
    count_world,
)
from lapis.problem.problem import Problem
from strategies import Case, cases

MANY = 20  # an i-bound above the number of variables
RING = "E(n, n)\nS(n)\nE(x,y) ^ E(y,z) ^ E(z,u) ^ E(u,x) ^ S(x) => S(y)\n0.3 S(x)\n"


def ring() -> Problem:
    """A ring of six with chords: the cycle through the clause's four variables needs i = 3."""
    facts = " ".join(f"E({a},{b})" for a in range(6) for b in range(6) if (b - a) % 6 in (1, 2, 4))
    return lapis.build_problem(lapis.parse(RING), lapis.Database.parse(facts + " S(0) S(3)"))


def true_tuples(problem: Problem) -> dict[str, np.ndarray]:
    return {name: known.true for name, known in problem.evidence.items()}


def dense(
    weight_id: np.ndarray | list[int], value: np.ndarray | list[float], size: int
) -> np.ndarray:
    found = np.zeros(size)
    found[weight_id] = value
    return found


@given(st.data())
def test_a_large_bound_gives_the_exact_difference(data: st.DataObject) -> None:
    world = data.draw(worlds())
    feature = data.draw(features(world))
    predicate, row = data.draw(ground_atoms(world))
    counter = IjgpCounter(
        world.normal_form(feature), world.model, world.domains, IjgpSettings(MANY)
    )
    counter.count(world.relations)
    with_atom, without = (
        count_by_enumeration(world.with_atom(predicate, row, value), feature)
        for value in (True, False)
    )
    truth = bool((world.relations[predicate] == np.array(row)).all(axis=1).any())
    found = estimate_flip(counter, predicate, row, truth)
    np.testing.assert_allclose(
        dense(found.weight_id, found.value, len(without)), with_atom - without, atol=1e-9
    )


@given(st.data())
def test_a_small_bound_gives_the_difference_of_two_estimates(data: st.DataObject) -> None:
    """Written out: M in the world, M in the flipped world from a copy of all messages."""
    world = data.draw(worlds(with_definitions=data.draw(st.booleans()), smallest=2))
    feature = data.draw(st.one_of(cyclic_features(), features(world)))
    chosen = IjgpSettings(
        data.draw(st.integers(1, 2)), damping=data.draw(st.sampled_from([0, 0.3]))
    )
    counter = IjgpCounter(world.normal_form(feature), world.model, world.domains, chosen)
    here = counter.count(world.relations).count
    for _ in range(3):
        predicate, row = data.draw(ground_atoms(world))
        truth = bool((world.relations[predicate] == np.array(row)).all(axis=1).any())
        there = deepcopy(counter).update(predicate, row, not truth).count
        expected = here - there if truth else there - here
        found = estimate_flip(counter, predicate, row, truth)
        np.testing.assert_allclose(
            dense(found.weight_id, found.value, len(here)), expected, rtol=1e-9, atol=1e-9
        )
        np.testing.assert_array_equal(counter.counts(), here)  # which the trial left alone
        np.testing.assert_array_equal(found.flipped.counts(), there)
        counter, here = found.flipped, there  # whose messages the next world starts from
        world = world.with_atom(predicate, row, not truth)


@given(st.data())
def test_converged_messages_give_the_estimates_of_counting_anew(data: st.DataObject) -> None:
    """Where the messages of both worlds have converged from scratch, to one fixed point."""
    world = data.draw(worlds(with_definitions=False, smallest=2))
    form = world.normal_form(data.draw(cyclic_features()))
    predicate, row = data.draw(ground_atoms(world))
    truth = bool((world.relations[predicate] == np.array(row)).all(axis=1).any())
    tight = IjgpSettings(2, tolerance=1e-10, max_iterations=500)
    flipped = world.with_atom(predicate, row, not truth)
    here, there = (
        count_ijgp(form, each.model, each.domains, each.relations, tight)
        for each in (world, flipped)
    )
    counter = IjgpCounter(form, world.model, world.domains, tight)
    counter.count(world.relations)
    found = estimate_flip(counter, predicate, row, truth)
    again = found.flipped.update(predicate, row, not truth)  # nothing changes: diagnostics
    assume(all(e.clauses[0].converged for e in (here, there, again)))
    assume(abs(again.count[0] - there.count[0]) < 1e-6)  # the same fixed point
    sign = -1 if truth else 1
    expected = sign * (there.count - here.count)
    np.testing.assert_allclose(dense(found.weight_id, found.value, 1), expected, atol=2e-6)


@pytest.mark.parametrize("ibound", [1, 2, 3])
def test_all_atoms_of_a_world(ibound: int) -> None:
    problem, size = ring(), 2
    true = true_tuples(problem)
    rows = np.arange(6, dtype=np.int32)[:, None]
    truth = contains(true["S"], rows)
    chosen = IjgpSettings(ibound)
    found = SubtractedDifferences(problem, chosen).differences("S", rows, truth, true).toarray()
    counts = IjgpCounter(problem.normal_form, problem.model, problem.domains, chosen)
    here = counts.count(true).count
    for row, is_true, value in zip(rows, truth, found, strict=True):
        there = deepcopy(counts).update("S", row, not is_true).count
        np.testing.assert_allclose(value, (here - there) * (1 if is_true else -1), atol=1e-9)
    exact = np.zeros((6, size))
    world = FlippingWorld(problem)
    for number, is_true in enumerate(truth):
        change = world.delta("S", (number,))
        exact[number, list(change.weight_id)] = change.difference
        exact[number] *= -1 if is_true else 1
    assert np.allclose(found, exact, atol=1e-6) == (ibound == 3)
    subtracted = replace(chosen, differences="subtracted")
    assert are_differences_exact(problem, "S", subtracted) == (ibound == 3)


@given(cases(observed=True))
def test_random_models_by_a_large_bound(case: Case) -> None:
    """Self-joins, plus variables, blocks and quantifiers, against flips of an exact world."""
    model = lapis.parse(case.model)
    problem = lapis.build_problem(model, lapis.Database.parse(case.data))
    assume(not any(rule.hard for rule in model.rules))
    true = true_tuples(problem)
    for name, predicate in model.predicates.items():
        rows = list_tuples(tuple(len(problem.domains[kind]) for kind in predicate.types))
        truth = contains(true[name], rows)
        estimator = SubtractedDifferences(problem, IjgpSettings(MANY))
        found = estimator.differences(name, rows, truth, true).toarray()
        for row, value in zip(rows.tolist(), found, strict=True):
            world = FlippingWorld(problem)
            key = [n for n in range(len(row)) if n not in predicate.block]
            for other in true[name].tolist():
                if other == row or (
                    predicate.block and [other[n] for n in key] == [row[n] for n in key]
                ):
                    world.flip(name, other)
            change = world.delta(name, row)
            expected = dense(list(change.weight_id), list(change.difference), len(value))
            np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-9, err_msg=case.model)


@pytest.mark.parametrize("ibound", [1, 2])
def test_a_world_walks_by_counts_whose_messages_go_on(ibound: int) -> None:
    """P(g | rest) and the world's counts at each step, from one counter updated flip by flip."""
    problem = ring()
    weights = np.array([-0.8, 0.5])
    noise = np.random.default_rng(1).logistic(size=12)
    rows = np.tile(np.arange(6, dtype=np.int32), 2)[:, None]
    world = SubtractedWorld(problem, true_tuples(problem), IjgpSettings(ibound))
    drawn = world.draw([("S", rows)], weights, noise, noted=True)
    naive = IjgpCounter(problem.normal_form, problem.model, problem.domains, IjgpSettings(ibound))
    here = naive.count(true_tuples(problem)).count
    true = set(true_tuples(problem)["S"][:, 0].tolist())
    for step, (atom,) in enumerate(rows.tolist()):
        flipped = deepcopy(naive)
        there = flipped.update("S", (atom,), atom not in true).count
        with_atom, without = (here, there) if atom in true else (there, here)
        score = weights @ with_atom - weights @ without
        assert drawn.probability[step] == pytest.approx(1 / (1 + np.exp(-score)), abs=1e-9)
        if (score + noise[step] > 0) != (atom in true):
            naive, here = flipped, there
            true ^= {atom}
    np.testing.assert_allclose(world.counts(), here, atol=1e-9)
    assert {row for (row,) in world.true["S"]} == true


def test_a_settled_world_is_that_of_its_true_atoms_alone() -> None:
    problem, chosen = ring(), IjgpSettings(1, max_iterations=1)  # far from convergence
    walked = SubtractedWorld(problem, true_tuples(problem), chosen)
    for atom in (1, 4, 0, 1):
        walked.flip([("S", np.array([[atom]], np.int32))])
        walked.counts()
    fresh = SubtractedWorld(problem, dict(walked.tuples()), chosen)
    walked.settle()
    np.testing.assert_array_equal(walked.counts(), fresh.counts())


def test_many_flips_at_once_start_anew() -> None:
    problem, chosen = ring(), IjgpSettings(1, max_iterations=1)
    flips = np.array([[0, 1], [2, 3], [3, 3]] * 23, np.int32)  # each an odd number of times
    walked = SubtractedWorld(problem, true_tuples(problem), chosen)
    walked.flip([("E", flips)])
    moved = {**true_tuples(problem), "E": exclusive(true_tuples(problem)["E"], flips[:3])}
    np.testing.assert_array_equal(walked.counts(), SubtractedWorld(problem, moved, chosen).counts())


def test_the_setting_chooses_the_world() -> None:
    problem = ring()
    true = true_tuples(problem)
    found = {
        (ibound, how): type(
            count_world(problem, true, IjgpSettings(ibound, differences=how), ["S"], 6)
        )
        for ibound in (1, 3)
        for how in ("substituted", "subtracted")
    }
    assert found[1, "substituted"] is SubstitutedWorld
    assert found[1, "subtracted"] is SubtractedWorld
    assert found[3, "substituted"] is found[3, "subtracted"] is ExactWorld


def test_hard_rules_are_refused() -> None:
    problem = lapis.build_problem(lapis.parse("t = {A}\nP(t)\nP(x)."))
    with pytest.raises(LapisError, match="hard rules need exact counts"):
        SubtractedDifferences(problem, IjgpSettings(2))
