"""Gibbs sampling from counts, against exact answers on small models."""

from __future__ import annotations

import numpy as np
import pytest

import lapis
from golden_models import GoldenModel
from lapis.errors import LapisError
from lapis.grounding import ground
from lapis.inference.exact.enumerate import enumerate_worlds
from lapis.inference.random_numbers import random_states
from lapis.inference.sampling.chains import run_chains
from lapis.inference.sampling.count_gibbs import CountGibbs, unknown_atoms
from lapis.inference.sampling.diagnostics import summarize
from lapis.inference.sampling.tally import new_tallies
from lapis.runtime.progress import Progress
from sampled_networks import GOLDEN, golden_problem

SMOKERS = """
Friends(person, person)
Smokes(person)
Cancer(person)
0.8 Smokes(x) => Cancer(x)
0.5 Friends(x, y) ^ Smokes(x) => Smokes(y)
-0.3 EXIST y (Friends(x, y) ^ Smokes(y))
"""
FACTS = "Friends(A,B) Friends(B,C) Friends(C,A) Smokes(B)"


def agree(model: str, facts: str, query: list[str], **options: object) -> None:
    parsed, data = lapis.parse(model), lapis.Database.parse(facts)
    exact = lapis.infer(parsed, data, query, method="enumerate")
    found = lapis.infer(parsed, data, query, method="count-gibbs", random_state=3, **options)
    assert not found.exact
    assert found.atoms == exact.atoms
    error = np.abs(found.probability - exact.probability)
    assert (error <= np.maximum(4 * found.errors, 0.01)).all()
    assert error.max() <= 0.05
    np.testing.assert_allclose(found.expected_counts, exact.expected_counts, rtol=0.1, atol=0.1)


def test_soft_rules_and_quantifiers() -> None:
    agree(SMOKERS, FACTS, ["Smokes", "Cancer"])


def test_open_relations() -> None:
    agree(SMOKERS, "person = {A, B}\nSmokes(A)", ["Friends", "Smokes"])


def test_blocks() -> None:
    model = """
    topic = {X, Y, Z}
    Topic(page, topic!)
    At(page, place?)
    Link(page, page)
    0.7 Link(p, q) ^ Topic(p, t) => Topic(q, t)
    0.4 Topic(p, X) ^ At(p, s)
    """
    agree(model, "Link(P,Q) Link(Q,R) place = {S}", ["Topic", "At"])


def test_hard_rules_are_never_broken() -> None:
    model = "t = {A, B, C}\nP(t)\nQ(t)\nP(x) v Q(x).\n1 P(x)\n0.5 P(x) ^ Q(y)"
    agree(model, "", ["P", "Q"])


@pytest.mark.parametrize("rule", ["P(x) ^ Q(x).", "FORALL x (P(x) ^ Q(x)).", "Q(x) ^ P(x)."])
def test_data_that_break_a_hard_conjunction_leave_no_world(rule: str) -> None:
    model = lapis.parse(f"P(t)\nQ(t)\n{rule}")
    data = lapis.Database.parse("!P(A) Q(A) P(B) Q(B) ?P(C) Q(C)")
    with pytest.raises(LapisError) as caught:
        lapis.infer(model, data, "P", method="count-gibbs", max_samples=40)
    assert caught.value.code == "unsatisfiable"


def test_estimated_counts_that_are_exact_give_the_same() -> None:
    agree(
        SMOKERS.replace("-0.3 EXIST y (Friends(x, y) ^ Smokes(y))", ""), FACTS, ["Smokes"], ibound=3
    )


def test_estimates_cannot_keep_hard_rules() -> None:
    model = lapis.parse("t = {A}\nP(t)\nP(x).")
    with pytest.raises(LapisError, match="hard rules need exact counts"):
        lapis.infer(model, query="P", method="count-gibbs", ibound=2)


def test_the_same_seed_gives_the_same_answer() -> None:
    model, data = lapis.parse(SMOKERS), lapis.Database.parse(FACTS)
    first, again = (
        lapis.infer(model, data, ["Smokes"], method="count-gibbs", random_state=5) for _ in "ab"
    )
    np.testing.assert_array_equal(first.probability, again.probability)


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)
def test_golden_models_through_the_protocol_of_samplers(golden: GoldenModel) -> None:
    """Chains and diagnostics as on ground networks; hard rules may disconnect the worlds."""
    problem = golden_problem(golden)
    sampler, network = CountGibbs(problem), ground(problem)
    atoms = unknown_atoms(problem)
    assert atoms.atom_names(np.arange(len(atoms.atoms))) == network.atom_names(
        np.arange(network.num_base_atoms)
    )
    if sampler.prepare(atoms).ergodic:
        result = run_chains(atoms, sampler, precision=0.01, max_samples=8_000, seed=2)
        exact = enumerate_worlds(network)
        assert (np.abs(result.marginal - exact.marginal) <= 4 * result.stderr + 1e-9).all()
        counted = np.abs(result.expected_count - exact.expected_count)
        assert (counted <= 4 * result.expected_count_stderr + 1e-9).all()


def test_starts_at_a_world_follows_the_weights_and_knows_where_it_is() -> None:
    model = "t = {A, B}\nc = {X, Y}\nP(t)\nQ(t, c!)\n1 P(x) ^ Q(x, X)\n0.5 P(x)"
    problem = lapis.build_problem(lapis.parse(model), None, ["P", "Q"])
    sampler, atoms, network = CountGibbs(problem), unknown_atoms(problem), ground(problem)
    plan = sampler.prepare(atoms)
    given = np.array([True, False, True, False, False, True])
    state = sampler.init(plan, given, random_states(1, 1)[0])
    assert sampler.world(state).tolist() == given.tolist()
    for weights in ([-1.0, 0.3], [2.0, -1.0]):
        plan, state = sampler.reweigh(plan, state, np.array(weights))
        tallies = new_tallies(6, np.zeros(2))
        sampler.step(plan, state, tallies, 3_000)
        world = sampler.world(state)
        assert network.is_feasible(world)
        assert sampler.counts(state) == pytest.approx(network.counts(world))
        exact = enumerate_worlds(network.with_weights(np.array(weights))).marginal
        found = summarize([tallies.atoms])
        assert (np.abs(found.mean - exact) <= 5 * found.stderr).all()


def test_a_formula_is_refused() -> None:
    """A hard rule couples the atom to others: without a correction P(A) was off by 0.2."""
    model = lapis.parse("t = {A, B}\nP(t)\nQ(t)\n1 P(x) => Q(x)\n0.5 P(x)")
    with pytest.raises(LapisError) as error:
        lapis.infer(model, query=["P", "P(x) ^ Q(x)"], open_predicates=["Q"], method="count-gibbs")
    assert (error.value.code, error.value.message) == (
        "formula-query",
        "method 'count-gibbs' changes one atom at a time and cannot answer the formula "
        "'P(x) ^ Q(x)'",
    )
    found = lapis.infer(model, query=["Q", "P(A)"], method="count-gibbs", max_samples=400)
    assert "P(A)" in found.atoms


def test_chains_start_where_no_hard_formula_is_broken() -> None:
    """No single change leaves P(A) ^ Q(A): half of the samples were impossible worlds."""
    tied = "P(x) <=> Q(x).\nQ(x) <=> P(x).\n!P(A)."
    model = lapis.parse(f"t = {{A, B}}\nP(t)\nQ(t)\n{tied}\n1 P(x)")
    for seed in range(3):
        found = lapis.infer(
            model, query="P,Q", method="count-gibbs", max_samples=400, random_state=seed
        )
        assert found["P(A)"] == found["Q(A)"] == 0.0


def test_a_contradiction_is_told_before_samples_are_drawn() -> None:
    model = lapis.parse("t = {A, B}\nP(t)\nQ(t)\nP(x) <=> Q(x).\nP(x) <=> !Q(x).\n1 P(x)")
    told: list[Progress] = []
    with pytest.raises(LapisError) as caught:
        lapis.infer(model, query="P,Q", method="count-gibbs", progress=told.append)
    assert (caught.value.code, told) == ("unsatisfiable", [])
