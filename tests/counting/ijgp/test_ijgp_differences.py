"""Compare IJGP's differences of many atoms with exact ones if i is large enough."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given

import lapis
from lapis.counting.differences.atom_differences import (
    build_flip_target,
    list_differences,
    list_tuples,
)
from lapis.counting.flipping_world import FlippingWorld
from lapis.counting.ijgp import IjgpSettings
from lapis.counting.ijgp.counter import CubeCounter
from lapis.counting.ijgp.estimated_differences import (
    DifferenceEstimator,
    TermEstimate,
    depends_on_quantifiers,
    difference_terms,
    estimate_flip,
    evaluate_share,
    new_counter,
)
from lapis.counting.totals import build_complete_world
from lapis.data.keys import contains
from lapis.errors import LapisError, TooLarge
from lapis.problem.problem import Problem
from strategies import Case, cases

LARGE = 20


def estimates(problem: Problem, predicate: str, ibound: int) -> tuple[np.ndarray, np.ndarray]:
    """All atoms of a predicate, and their estimated differences, dense."""
    world = {name: known.true for name, known in problem.evidence.items()}
    sizes = [len(problem.domains[name]) for name in problem.model.predicates[predicate].types]
    rows = list_tuples(tuple(sizes))
    truth = contains(world[predicate], rows)
    found = DifferenceEstimator(problem, IjgpSettings(ibound)).differences(
        predicate, rows, truth, world
    )
    return rows, found.toarray()


def true_tuples(world: FlippingWorld, problem: Problem, predicate: str) -> np.ndarray:
    types = problem.model.predicates[predicate].types
    rows = list_tuples(tuple(len(problem.domains[name]) for name in types))
    return rows[[world.is_true(predicate, row) for row in rows.tolist()]]


def exact_differences(problem: Problem, predicate: str, rows: np.ndarray) -> np.ndarray:
    """Flip each atom in a `FlippingWorld`, with its block emptied."""
    found = np.zeros((len(rows), len(problem.weight_table)))
    spread = problem.model.predicates[predicate].block
    for number, row in enumerate(rows.tolist()):
        world = FlippingWorld(problem)
        if spread:
            fixed = [p for p in range(len(row)) if p not in spread]
            for other in true_tuples(world, problem, predicate).tolist():
                if all(other[p] == row[p] for p in fixed):
                    world.flip(predicate, other)
        sign = -1 if world.is_true(predicate, row) else 1
        change = world.delta(predicate, row)
        found[number, list(change.weight_id)] = np.multiply(sign, change.difference)
    return found


@given(cases(observed=True))
def test_random_models(case: Case) -> None:
    model = lapis.parse(case.model)
    problem = lapis.build_problem(model, lapis.Database.parse(case.data))
    assume(not any(rule.hard for rule in model.rules))
    for name, predicate in model.predicates.items():
        if predicate.block and depends_on_quantifiers(problem, name):
            continue  # wants its block left empty in the world it is given
        try:
            rows, found = estimates(problem, name, LARGE)
        except TooLarge:
            continue
        np.testing.assert_allclose(
            found, exact_differences(problem, name, rows), rtol=1e-9, atol=1e-9, err_msg=case.model
        )


MODELS = {
    "transitive": "E(n, n)\nE(x,y) ^ E(y,z) => E(x,z)\nE(x,y) <=> E(y,x)",
    "loops": "E(n, n)\nN(n)\nE(x,x) ^ N(x) => E(x, B)\n!E(A,y) v N(y) v E(y,A)",
    "plus": "E(n, n)\nN(n)\nE(+x,y) ^ N(y) => N(+x)\nE(x,+y) ^ E(+y,x)\nN(+x) ^ N(y)",
    "block": "E(n, n!)\nN(n)\nE(x,y) ^ E(z,y) => N(z)\nE(x,y) ^ E(x,z) ^ N(y)\nE(x,+y) => E(+y,x)",
    "conditions": "E(n, n)\nN(n)\nx != y ^ E(x,y) => N(x)\nE(x,y) ^ x = A => E(y,x)",
}
FACTS = "E(A,B) E(B,C) E(C,C) N(A) N(C)"


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("predicate", ["E", "N"])
def test_self_joins_constants_plus_and_blocks(name: str, predicate: str) -> None:
    model = lapis.parse(MODELS[name])
    if predicate not in model.predicates:
        predicate = "E"
    facts = " ".join(f for f in FACTS.split() if f[0] in model.predicates)
    problem = lapis.build_problem(model, lapis.Database.parse(facts))
    rows, found = estimates(problem, predicate, LARGE)
    expected = exact_differences(problem, predicate, rows)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert np.abs(expected).max() > 0


def ring() -> Problem:
    """A ring of six with chords: the cycle through the clause's four variables needs i = 3."""
    model = lapis.parse("E(n, n)\nS(n)\nE(x,y) ^ E(y,z) ^ E(z,u) ^ E(u,x) ^ S(x) => S(y)")
    facts = " ".join(f"E({a},{b})" for a in range(6) for b in range(6) if (b - a) % 6 in (1, 2, 4))
    return lapis.build_problem(model, lapis.Database.parse(facts + " S(0) S(3)"))


def test_a_large_bound_agrees_with_two_counts_an_atom() -> None:
    problem = ring()
    world = {name: known.true for name, known in problem.evidence.items()}
    rows, found = estimates(problem, "S", 3)
    counter = new_counter(problem, IjgpSettings(3))
    counter.count(world)
    truth = contains(world["S"], rows)
    for row, is_true, value in zip(rows.tolist(), truth, found, strict=True):
        expected = np.zeros(len(value))
        flip = estimate_flip(counter, "S", tuple(row), bool(is_true))
        expected[flip.weight_id] = flip.value
        np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found, exact_differences(problem, "S", rows), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("ibound", [1, 2, 3])
def test_shares_add_up_to_the_estimated_solutions(ibound: int) -> None:
    problem = ring()
    target = problem.model.predicates["S"]
    relations = {name: known.true for name, known in problem.evidence.items()}
    world = build_complete_world(problem.normal_form, problem.model, problem.domains, relations)
    [feature] = problem.normal_form.features
    rows = list_tuples((6,))
    for term in difference_terms(feature.clauses[0], feature, target):
        share = TermEstimate(term, 0, ("E", "S"), world, IjgpSettings(ibound)).share(
            relations, world
        )
        whole = CubeCounter(term.cube, term.variables, ("@0",), world, IjgpSettings(ibound))
        shares = (
            [] if share is None else [e.value for e in evaluate_share(share, term, rows, world)]
        )
        assert sum(map(np.sum, shares)) == pytest.approx(whole.solutions(), rel=1e-6)


@pytest.mark.parametrize("name", ["transitive", "plus", "loops"])
def test_an_estimator_follows_the_world(name: str) -> None:
    model = lapis.parse(MODELS[name] + "\nM(n)\nE(x,y) ^ M(x) => (EXIST z M(z) ^ E(z,y))")
    data = lapis.Database.parse("E(A,B) E(B,C) M(B)" + (" N(C)" if "N" in model.predicates else ""))
    problem = lapis.build_problem(model, data)
    world = {name: known.true for name, known in problem.evidence.items()}
    estimator = DifferenceEstimator(problem, IjgpSettings(LARGE))
    rows = list_tuples((3,))
    changed = [("E", [2, 0]), ("M", [0]), ("E", [0, 1]), ("E", [2, 2])]
    flips = FlippingWorld(problem)
    for predicate, atom in changed:
        flips.flip(predicate, atom)
        world = {**world, predicate: true_tuples(flips, problem, predicate)}
        for target in ("E", "M"):
            rows = list_tuples((3,) * model.predicates[target].arity)
            truth = contains(world[target], rows)
            found = estimator.differences(target, rows, truth, world).toarray()
            for row, value, value_now in zip(rows.tolist(), found, truth.tolist(), strict=True):
                change = flips.delta(target, row)
                expected = np.zeros(len(value))
                expected[list(change.weight_id)] = change.difference
                np.testing.assert_allclose(value, -expected if value_now else expected, atol=1e-9)


def test_terms_are_the_sets_of_literals_that_can_be_the_atom() -> None:
    problem = lapis.build_problem(lapis.parse(MODELS["transitive"]), lapis.Database.parse("E(A,B)"))
    feature = problem.normal_form.features[0]
    [clause] = feature.clauses
    found = list(difference_terms(clause, feature, problem.model.predicates["E"]))
    assert len(found) == 7
    assert sorted(len(term.cube.literals) for term in found) == [0, 1, 1, 1, 2, 2, 2]


def test_listed_worlds_agree_with_flips() -> None:
    """The reference of these tests against the counting package's own."""
    problem = lapis.build_problem(
        lapis.parse(MODELS["transitive"]), lapis.Database.parse(FACTS[:20])
    )
    target = build_flip_target(problem, "E")
    rows = list_tuples((3, 3))
    vectors, _ = list_differences(problem, target, None).at_rows(rows)
    dense = np.zeros((len(rows), len(problem.weight_table) + 1))
    dense[vectors.row, vectors.column] = vectors.value
    np.testing.assert_array_equal(dense[:, :-1], exact_differences(problem, "E", rows))


def test_too_many_literals_are_refused() -> None:
    constants = [f"C{n}" for n in range(11)]
    text = " v ".join(f"P({c})" for c in constants)
    problem = lapis.build_problem(lapis.parse(f"P(t)\n{text}"))
    with pytest.raises(TooLarge, match="mentions 'P' 11 times"):
        estimates(problem, "P", 2)


def test_hard_rules_are_refused() -> None:
    problem = lapis.build_problem(lapis.parse("t = {A}\nP(t)\nP(x)."))
    with pytest.raises(LapisError, match="hard rules need exact counts"):
        DifferenceEstimator(problem, IjgpSettings(2))
