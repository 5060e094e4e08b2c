"""Stated probabilities: the I-projection, found here by proportional fitting of all worlds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import lapis
import oracle
from cli_run import Run
from lapis.inference.fitting import CONTRADICTION, TOLERANCE
from strategies import Case, cases

SMOKERS = """person = {Anna, Bob}
Smokes(person)
Cancer(person)
1.5 Smokes(x) => Cancer(x)
0.8 Smokes(Anna) => Smokes(Bob)
"""
CELLS = ("Smokes(Anna)", "Smokes(Bob)", "Cancer(Anna)", "Cancer(Bob)")


def project(
    weight: np.ndarray, features: Sequence[np.ndarray], target: Sequence[float]
) -> np.ndarray:
    """The distribution closest to the weights with these expectations of 0/1 features."""
    probability = weight / weight.sum()
    for _ in range(20_000):
        before = probability
        for feature, wanted in zip(features, target, strict=True):
            mass = probability[feature].sum()
            probability = np.where(
                feature, probability * wanted / mass, probability * (1 - wanted) / (1 - mass)
            )
        if np.abs(probability - before).max() < 1e-14:
            break
    return probability


@given(cases(), st.data())
def test_marginals_are_those_of_the_projection(case: Case, data: st.DataObject) -> None:
    model = lapis.parse(case.model)
    domains = oracle.constants_of(model, case.facts)
    known = oracle.known_atoms(model, case.facts, domains, set(case.query))
    worlds = oracle.worlds_agreeing_with(known)
    log_weight = oracle.weigh(model, domains, worlds).log_weight
    assume(np.isfinite(log_weight).any())
    kept = np.isfinite(log_weight)
    weight = np.exp(log_weight[kept] - log_weight[kept].max())
    open_atoms = [a for a in known if 0 < worlds[a][kept].mean() < 1]
    assume(open_atoms)
    chosen = data.draw(st.lists(st.sampled_from(open_atoms), min_size=1, max_size=3, unique=True))
    features = [worlds[atom][kept] for atom in chosen]
    # The probabilities of some distribution over the same worlds, so that they can hold together.
    seed = data.draw(st.integers(0, 2**32 - 1))
    other = np.random.default_rng(seed).uniform(0.1, 1.0, len(weight))
    target = [float(other[feature].sum() / other.sum()) for feature in features]
    expected = project(weight, features, target)
    soft = {
        oracle.atom_text(model.predicates[name], constants): p
        for (name, constants), p in zip(chosen, target, strict=True)
    }
    answer = lapis.infer(
        model, lapis.Database.parse(case.data), case.query, soft_evidence=soft, soft_as="posterior",
        method="enumerate",
    )  # fmt: skip
    assert answer.diagnostics["posterior_deviation"] <= TOLERANCE
    truth = {
        oracle.atom_text(model.predicates[atom[0]], atom[1]): worlds[atom][kept] for atom in known
    }
    for name, found in answer.marginals.items():
        assert found == pytest.approx(expected[truth[name]].sum(), abs=1e-6)


def joint(features: Sequence[tuple[float, str]], data: dict[str, bool] | None = None) -> tuple[
    dict[str, np.ndarray], np.ndarray
]:  # fmt: skip
    """The worlds of SMOKERS as columns, and their weights given the data."""
    bits = np.array(np.meshgrid(*[[False, True]] * 4, indexing="ij")).reshape(4, -1)
    world = dict(zip(CELLS, bits, strict=True))
    score = 1.5 * (~world["Smokes(Anna)"] | world["Cancer(Anna)"])
    score = score + 1.5 * (~world["Smokes(Bob)"] | world["Cancer(Bob)"])
    score = score + 0.8 * (~world["Smokes(Anna)"] | world["Smokes(Bob)"])
    weight = np.exp(score)
    for name, value in (data or {}).items():
        weight = weight * (world[name] == value)
    for change, name in features:
        weight = weight * np.exp(change * world[name])
    return world, weight


def test_posterior_constraints_of_formulas_hold_given_the_data() -> None:
    model = lapis.parse(SMOKERS + "R(Smokes(Anna) v Cancer(Bob)) = 0.3\nSE(Smokes(Bob)) = 0.25")
    data = lapis.Database.parse("!Cancer(Anna)")
    answer = lapis.infer(model, data, ["Smokes", "Cancer"])
    world, weight = joint([], {"Cancer(Anna)": False})
    either = world["Smokes(Anna)"] | world["Cancer(Bob)"]
    expected = project(weight, [either, world["Smokes(Bob)"]], [0.3, 0.25])
    for name, found in answer.marginals.items():
        assert found == pytest.approx(expected[world[name]].sum(), abs=1e-8)
    rows = answer.diagnostics["constraints"]
    assert [row["formula"] for row in rows] == ["Smokes(Anna) v Cancer(Bob)", "Smokes(Bob)"]
    assert all(row["posterior"] for row in rows)


def test_prior_constraints_hold_before_the_data_is_applied() -> None:
    model = lapis.parse(SMOKERS + "P(Smokes(Bob)) = 0.25")
    free = lapis.infer(model, None, ["Smokes", "Cancer"])
    assert free["Smokes(Bob)"] == pytest.approx(0.25, abs=1e-9)
    world, weight = joint([])
    fitted = project(weight, [world["Smokes(Bob)"]], [0.25])
    given_data = fitted * ~world["Cancer(Bob)"]
    answer = lapis.infer(model, lapis.Database.parse("!Cancer(Bob)"), ["Smokes", "Cancer"])
    for name, found in answer.marginals.items():
        expected = given_data[world[name]].sum() / given_data.sum()
        assert found == pytest.approx(expected, abs=1e-8)


def test_a_prior_constraint_with_variables_is_one_weight() -> None:
    """Three people, interchangeable without data: each smokes with probability 0.2."""
    model = lapis.parse(
        "Smokes(person)\nFriends(person,person)\n"
        "0.7 Friends(x,y) ^ Smokes(x) => Smokes(y)\nP(Smokes(x)) = 0.2"
    )
    data = lapis.Database.parse("person = {A, B, C}")
    free = lapis.infer(model, data, ["Smokes", "Friends"])
    assert [free[f"Smokes({p})"] for p in "ABC"] == pytest.approx([0.2] * 3, abs=1e-8)
    assert len(free.diagnostics["constraints"]) == 1


def test_prior_and_posterior_constraints_together() -> None:
    model = lapis.parse(SMOKERS + "P(Smokes(Anna)) = 0.1\nR(Cancer(Bob)) = 0.6")
    world, weight = joint([])
    prior = project(weight, [world["Smokes(Anna)"]], [0.1]) * world["Cancer(Anna)"]
    expected = project(prior, [world["Cancer(Bob)"]], [0.6])
    answer = lapis.infer(model, lapis.Database.parse("Cancer(Anna)"), ["Smokes", "Cancer"])
    for name, found in answer.marginals.items():
        assert found == pytest.approx(expected[world[name]].sum(), abs=1e-8)


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_certain_constraints_are_hard_evidence(probability: float) -> None:
    for extra, soft in (
        (f"R(Smokes(Anna)) = {probability}", {}),
        (f"P(Smokes(Anna)) = {probability}", {}),
        ("", {"Smokes(Anna)": probability}),
    ):
        answer = lapis.infer(
            lapis.parse(SMOKERS + extra), None, ["Smokes", "Cancer"], soft_evidence=soft,
            soft_as="posterior",
        )  # fmt: skip
        world, weight = joint([], {"Smokes(Anna)": bool(probability)})
        assert answer["Smokes(Anna)"] == probability
        expected = weight[world["Smokes(Bob)"]].sum() / weight.sum()
        assert answer["Smokes(Bob)"] == pytest.approx(expected, abs=1e-12)


def test_one_constraint_is_jeffreys_rule() -> None:
    """P'(B) = P(B | A)·p + P(B | ¬A)·(1 − p)."""
    model = lapis.parse(SMOKERS)
    answer = lapis.infer(
        model, None, ["Smokes", "Cancer"], soft_evidence={"Smokes(Anna)": 0.7}, soft_as="posterior"
    )
    true, false = (
        lapis.infer(model, lapis.Database.parse(fact), ["Smokes", "Cancer"])["Cancer(Bob)"]
        for fact in ("Smokes(Anna)", "!Smokes(Anna)")
    )
    assert answer["Cancer(Bob)"] == pytest.approx(0.7 * true + 0.3 * false, abs=1e-9)
    assert answer.diagnostics["posterior_rounds"] == 1


@pytest.mark.parametrize("method", ["exact", "enumerate", "lifted", "circuit"])
def test_exact_methods_agree(method: str) -> None:
    soft = {"Smokes(Anna)": 0.7, "Cancer(Bob)": 0.2, "Cancer(Anna)": 0.6}
    answer = lapis.infer(
        lapis.parse(SMOKERS), None, ["Smokes", "Cancer"], soft_evidence=soft, soft_as="posterior",
        method=method,
    )  # fmt: skip
    world, weight = joint([])
    expected = project(weight, [world[name] for name in soft], list(soft.values()))
    for name, found in answer.marginals.items():
        assert found == pytest.approx(expected[world[name]].sum(), abs=1e-8)


def test_sampled_constraints_hold_within_the_precision() -> None:
    people = [f"P{i}" for i in range(14)]
    ties = "".join(
        f"{0.02 * (i + 2 * j) - 0.3!r} S({a}) <=> S({b})\n"
        for i, a in enumerate(people)
        for j, b in enumerate(people[:i])
    )
    model = lapis.parse(f"S(person)\n{ties}")
    soft = {"S(P0)": 0.7, "S(P5)": 0.2}
    answer = lapis.infer(
        model, None, "S", soft_evidence=soft, soft_as="posterior", method="gibbs", precision=0.05
    )
    assert not answer.exact
    assert answer.diagnostics["posterior_fitted"]
    assert answer["S(P0)"] == pytest.approx(0.7, abs=0.05)
    assert answer["S(P5)"] == pytest.approx(0.2, abs=0.05)


def test_the_states_of_a_function_are_constrained_together() -> None:
    model = lapis.parse(
        "person = {Anna}\ncolour = {Red, Green, Blue}\nLikes(person, colour!)\n1 Likes(x, Red)"
    )
    soft = {"Likes(Anna,Red)": 0.5, "Likes(Anna,Green)": 0.25, "Likes(Anna,Blue)": 0.25}
    answer = lapis.infer(model, None, "Likes", soft_evidence=soft, soft_as="posterior")
    for name, probability in soft.items():
        assert answer[name] == pytest.approx(probability, abs=1e-9)
    soft["Likes(Anna,Blue)"] = 0.4
    with pytest.raises(lapis.LapisError, match="cannot hold together") as caught:
        lapis.infer(model, None, "Likes", soft_evidence=soft, soft_as="posterior")
    assert all(name in caught.value.message for name in soft)


def test_contradictions_name_the_atoms() -> None:
    hard = lapis.parse(SMOKERS + "Smokes(x) => Cancer(x).\n!Smokes(Bob).")
    soft = {"Smokes(Anna)": 0.8, "Cancer(Anna)": 0.3}
    with pytest.raises(lapis.LapisError) as caught:
        lapis.infer(hard, None, ["Smokes", "Cancer"], soft_evidence=soft, soft_as="posterior")
    assert caught.value.code == "contradictory-probability"
    assert all(name in caught.value.message for name in soft)
    with pytest.raises(lapis.LapisError, match=r"Smokes\(Bob\) cannot have probability 0.5"):
        lapis.infer(
            hard, None, ["Smokes", "Cancer"], soft_evidence={"Smokes(Bob)": 0.5},
            soft_as="posterior",
        )  # fmt: skip


def test_constraints_that_hold_in_the_limit_only() -> None:
    """P(A) = P(B) beside A => B: no world with B alone is left."""
    model = lapis.parse("A\nB\nC\nA => B.\n0.5 B => C")
    soft = {"A": 0.4, "B": 0.4}
    answer = lapis.infer(model, None, "A,B,C", soft_evidence=soft, soft_as="posterior")
    assert answer.diagnostics["posterior_deviation"] <= CONTRADICTION
    assert answer["A"] == pytest.approx(0.4, abs=CONTRADICTION)
    weight = np.exp(0.5)
    assert answer["C"] == pytest.approx(0.4 * weight / (1 + weight) + 0.6 * 0.5, abs=1e-5)


def test_the_most_likely_world_is_that_of_the_fitted_model() -> None:
    model = lapis.parse("A\nB\n1 A\n0.3 A => B")
    assert lapis.api.map(model, None, "A,B")["A"]
    soft = {"A": 0.1}
    world = lapis.api.map(model, None, "A,B", soft_evidence=soft, soft_as="posterior")
    assert not world["A"]


def test_other_commands_refuse_stated_probabilities() -> None:
    model, data = lapis.parse(SMOKERS + "P(Smokes(x)) = 0.2"), lapis.Database.parse("Smokes(Anna)")
    for call in (
        lambda: lapis.learn(model, data, "Smokes"),
        lambda: lapis.score(model, data, "Smokes"),
        lambda: lapis.lift(model, data),
        lambda: lapis.fields.from_model(model),
        lambda: lapis.circuits.compile(model, data, "Smokes"),
        lambda: lapis.infer(model, data, "Smokes", engine="duckdb"),
    ):
        with pytest.raises(lapis.LapisError) as caught:
            call()
        assert caught.value.code == "stated-probability"
    assert len(lapis.count(model, data)) == 2


def test_the_command_states_how_well_constraints_hold(run: Run) -> None:
    run.write("s.mln", SMOKERS)
    words = ["infer", "s.mln", "-q", "Smokes", "--soft-evidence", "Smokes(Anna)=0.7"]
    _, _, err = run(*words, "--soft-as", "posterior")
    assert "posterior constraints fitted in 1 round, largest deviation" in err
    [row] = run.json(*words, "--soft-as", "posterior")["constraints"]
    assert row["formula"] == "Smokes(Anna)"
    assert row["fitted"] == pytest.approx(0.7)
