"""Learning fields: gradients against the definition, and properties of fits."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from field_worlds import DOMAINS, enumerate_worlds, field_texts, ground_atoms, log_weight
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import lapis
from cli_run import Run
from lapis import fields
from lapis.data.database import Database
from lapis.errors import LapisError, TooLarge
from lapis.fields.field import Field
from lapis.fields.field_gibbs import CachedField, FieldGibbs
from lapis.fields.field_objectives import (
    ContrastiveDivergence,
    ExactLikelihood,
    FieldExample,
    FieldPseudoLikelihood,
    likelihood_objective,
    make_field_example,
)
from lapis.fields.ground_field import evaluate_worlds, gradient_of_root, ground_field
from lapis.fields.learning import FieldFit
from lapis.inference.random_numbers import random_states
from lapis.inference.sampling.tally import new_tallies
from lapis.learning.examples import build_examples
from lapis.problem.problem import build_problem

STEP = 1e-5


def field_example_of(field: Field, facts: str, *query: str) -> FieldExample:
    [example] = build_examples(field.declarations, [Database.parse(facts)], query)
    return make_field_example(field, example)


@given(field_texts(), st.integers(0, 511))
@settings(max_examples=10)
def test_exact_likelihood(text: str, bits: int) -> None:
    """The conditional likelihood of P and Rain given the others."""
    field = fields.parse(text)
    world = {a: bool(bits >> i & 1) for i, a in enumerate(ground_atoms(field, DOMAINS))}
    true = [f"{name}({','.join(c)})" if c else name for (name, c), v in world.items() if v]
    objective = likelihood_objective(
        [field_example_of(field, " ".join(true), "P", "Rain")], 5, 0, "auto"
    )
    known = {atom: value for atom, value in world.items() if atom[0] in ("Q", "R")}

    def likelihood(weights: np.ndarray) -> float:
        own = field.with_weights(weights)
        return log_weight(own, DOMAINS, world) - enumerate_worlds(own, DOMAINS, known)[0]

    point = objective.evaluate(field.weights)
    assert isinstance(objective, ExactLikelihood)
    assert point.value == pytest.approx(likelihood(field.weights), abs=1e-9)
    steps = STEP * np.eye(len(field.weights))
    numeric = [
        (likelihood(field.weights + s) - likelihood(field.weights - s)) / (2 * STEP) for s in steps
    ]
    assert point.gradient == pytest.approx(numeric, abs=1e-6, rel=1e-6)


FRIENDS = """\
Smokes(person)
Friends(person, person)
root:
  -1 lonely(x)
  -0.3 Friends(x, y)
  0.2 Smokes(x)
lonely(x):
  -1.5 friend(x, y)
friend(x, y):
  2 Friends(x, y)
  1.5 Smokes(y)
"""
FACTS = "Smokes(A) Smokes(C) Friends(A,C) Friends(B,A) Friends(C,A) Friends(B,C)"


def test_contrastive_divergence_approaches_the_gradient() -> None:
    """With long chains the estimate equals the gradient within its standard errors."""
    field = fields.parse(FRIENDS)
    field_example = field_example_of(field, FACTS)
    exact = ExactLikelihood((field_example,), "likelihood").evaluate(field.weights)
    divergence = ContrastiveDivergence(
        (field_example,),
        "likelihood",
        50,
        rng=random_states(1, 10),
        hidden=(np.zeros((10, 0), bool),),
    )
    points = [divergence.evaluate(field.weights) for _ in range(40)]
    found = np.array([point.gradient for point in points])
    error = found.std(axis=0, ddof=1) / np.sqrt(len(points))
    assert (np.abs(found.mean(axis=0) - exact.gradient) < 4.5 * error).all()
    stated = np.sqrt(np.mean([np.square(point.gradient_stderr) for point in points], axis=0))
    assert stated == pytest.approx(found.std(axis=0, ddof=1), rel=0.5)


@pytest.mark.parametrize("objective", ["pseudo", "likelihood"])
def test_a_fit_is_a_stationary_point(objective: str) -> None:
    field = fields.parse(FRIENDS)
    data = Database.parse(FACTS)
    fit = fields.learn(field, data, objective=objective, prior="gaussian:2")
    assert fit.exact
    assert fit.converged
    assert fit.gradient_norm < 1e-4
    field_example = field_example_of(field, FACTS)
    for index in range(len(fit.weights)):
        for step in (-1e-3, 1e-3):
            weights = fit.weights.copy()
            weights[index] += step
            assert posterior(field_example, weights, objective) <= posterior(
                field_example, fit.weights, objective
            )
    value = posterior(field_example, fit.weights, objective)
    assert fit.value is not None
    assert fit.value + fit.log_prior == pytest.approx(value)


def posterior(field_example: FieldExample, weights: np.ndarray, objective: str) -> float:
    field = field_example.field.with_weights(weights)
    found = fields.score(field, Database.parse(FACTS)).to_json()
    name = "log_likelihood" if objective == "likelihood" else "pseudo_log_likelihood"
    return float(found[name] or 0.0) - float(weights @ weights) / 8


def test_conditional_likelihood_is_of_the_query_alone() -> None:
    field, data = fields.parse(FRIENDS), Database.parse(FACTS)
    fit = fields.learn(field, data, "Smokes", objective="conditional")
    assert fit.exact
    score = fields.score(fit.field, data, "Smokes").log_likelihood
    assert fit.value == pytest.approx(score)
    assert fit["root: Friends(x, y)"] == pytest.approx(0.0, abs=1e-3)  # evidence: only the prior


def test_fixed_weights_stay_and_databases_add_up() -> None:
    field = fields.parse(FRIENDS.replace("2 Friends", "@fixed 2 Friends"))
    other = "Smokes(X) Friends(X,Y) Friends(Y,X)"
    fit = fields.learn(field, [Database.parse(FACTS), Database.parse(other)])
    assert fit["friend(x, y): Friends(x, y)"] == 2.0
    parts = [fields.score(fit.field, Database.parse(text)).to_json() for text in (FACTS, other)]
    assert fit.value == pytest.approx(sum(p["pseudo_log_likelihood"] or 0 for p in parts))


def test_restarts_keep_the_best() -> None:
    field = fields.parse(FRIENDS)
    fit = fields.learn(field, Database.parse(FACTS), restarts=3, random_state=1)
    values = [start["value"] for start in fit.details["starts"]]
    assert len(values) == 4
    assert fit.value is not None
    assert fit.value + fit.log_prior == pytest.approx(max(values))
    again = fields.learn(field, Database.parse(FACTS), restarts=3, random_state=1)
    assert np.array_equal(fit.weights, again.weights)


def test_contrastive_divergence_learns() -> None:
    """36 atoms have too many worlds to enumerate; the result is close to the frequency."""
    field = fields.parse("P(t, t)\nroot:\n 0 P(x, y)\n")
    facts = " ".join(f"P({i},{j})" for i in range(6) for j in range(6) if (i + j) % 4 == 0)
    fit = fields.learn(
        field, Database.parse(facts), objective="likelihood", prior="none", max_iterations=60
    )
    share = facts.count("P") / 36
    assert not fit.exact
    assert fit.value is None
    assert fit["root: P(x, y)"] == pytest.approx(np.log(share / (1 - share)), abs=0.25)


def test_a_wish_to_stop_gives_what_there_is(tmp_path: Path) -> None:
    field, data = fields.parse(FRIENDS), Database.parse(FACTS)
    asked: list[int] = []

    def wish() -> bool:
        asked.append(1)
        return len(asked) > 3

    place = tmp_path / "state.npz"
    fit = fields.learn(field, data, stop=wish, checkpoint=place, restarts=2)
    assert fit.interrupted
    assert len(fit.details["starts"]) == 1
    resumed = fields.learn(field, data, checkpoint=place)
    assert resumed.converged
    assert resumed.value == pytest.approx(fields.learn(field, data).value, abs=1e-4)
    with pytest.raises(LapisError, match="checkpoint"):
        fields.learn(field, Database.parse("Smokes(A)"), checkpoint=place)


@pytest.mark.parametrize(
    "changed",
    [{"prior": "gaussian:3"}, {"prior": "l1:1"}, {"query": "Smokes"}, {"random_state": 1},
     {"num_samples": 9}, {"unobserved": ["Smokes"]}, {"prior_mean": "initial"}],
    ids=str,
)  # fmt: skip
def test_a_checkpoint_of_another_course_is_refused(changed: dict[str, Any], tmp_path: Path) -> None:
    """Only limits may change: the result of a run with another prior would seem converged."""
    field, data, place = fields.parse(FRIENDS), Database.parse(FACTS), tmp_path / "state.npz"
    given = {"objective": "likelihood", "max_iterations": 2, "checkpoint": place}
    if "query" in changed:
        given["objective"] = "pseudo"
    fields.learn(field, data, **given)  # type: ignore[arg-type]
    with pytest.raises(LapisError, match="checkpoint"):
        fields.learn(field, data, **{**given, **changed})
    fields.learn(field, data, **{**given, "max_iterations": 3, "tolerance": 1e-3})  # type: ignore[arg-type]


def test_refusals() -> None:
    field = fields.parse(FRIENDS)
    with pytest.raises(LapisError, match="no constants of the query predicates"):
        fields.learn(field, Database.parse(""))
    with pytest.raises(LapisError, match="optimizer must be lbfgs or vp or cd"):
        fields.learn(field, Database.parse(FACTS), optimizer="newton")
    with pytest.raises(LapisError, match="some predicates given the others"):
        fields.learn(field, Database.parse(FACTS), objective="conditional")
    with pytest.raises(LapisError, match="objective 'likelihood' takes no query"):
        fields.learn(field, Database.parse(FACTS), "Smokes", objective="likelihood")
    with pytest.raises(LapisError, match="does not read num_samples"):
        fields.learn(field, Database.parse(FACTS), num_samples=7)
    with pytest.raises(LapisError) as found:
        fields.learn(
            field, Database.parse(FACTS), objective="likelihood", optimizer="dn", expectation="map"
        )
    assert str(found.value) == (
        "dn needs variances, which expectation map does not provide\n"
        "    choose vp, vp-pw or adam, or expectation gibbs"
    )
    with pytest.raises(LapisError, match="objective 'pseudo' does not use expectations"):
        fields.learn(field, Database.parse(FACTS), expectation="gibbs")
    many = Database.parse(" ".join(f"Friends(P{i},P{i + 1})" for i in range(9)))
    with pytest.raises(TooLarge, match="learn with expectation gibbs or map"):
        fields.learn(field, many, objective="likelihood", expectation="exact")


@given(field_texts(), st.integers(0, 511), st.sampled_from(["pseudo", "likelihood"]))
@settings(max_examples=12)
def test_fits_are_maxima_to_either_side(text: str, bits: int, objective: str) -> None:
    """Also at kinks, which Z has where an inner weight is zero."""
    field = fields.parse(text)
    world = {a: bool(bits >> i & 1) for i, a in enumerate(ground_atoms(field, DOMAINS))}
    true = [f"{name}({','.join(c)})" if c else name for (name, c), v in world.items() if v]
    facts = " ".join(true)
    fit = fields.learn(field, Database.parse(facts), objective=objective, prior="gaussian:3")
    assert fit.converged
    field_example = field_example_of(field, facts)
    target = (FieldPseudoLikelihood if objective == "pseudo" else ExactLikelihood)(
        (field_example,), objective
    )

    def posterior_at(weights: np.ndarray) -> float:
        value = target.evaluate(weights).value
        assert value is not None
        return value - float(weights @ weights) / 18

    best = posterior_at(fit.weights)
    for step in STEP * np.eye(len(fit.weights)):
        assert posterior_at(fit.weights + step) <= best + 1e-4 * STEP + 1e-9 * abs(best)
        assert posterior_at(fit.weights - step) <= best + 1e-4 * STEP + 1e-9 * abs(best)


CHAPTER_FOUR = ("vp", "cd", "vp-pw", "cd-pw", "dn", "scg", "pscg")


@pytest.mark.parametrize("optimizer", CHAPTER_FOUR)
def test_the_optimisers_of_chapter_four(optimizer: str) -> None:
    """With exact expectations all reach the maximum; with chains and modes they come close."""
    field, data = fields.parse(FRIENDS), Database.parse(FACTS)

    def learn(optimizer: str, expectation: str) -> FieldFit:
        return fields.learn(
            field, data, objective="likelihood", optimizer=optimizer, expectation=expectation,
            prior="gaussian:2", max_iterations=400,
        )  # fmt: skip

    def value(fit: FieldFit) -> float:
        return posterior(field_example_of(field, FACTS), fit.weights, "likelihood")

    best = value(learn("lbfgs", "exact"))
    exact = learn(optimizer, "exact")
    assert exact.converged
    assert value(exact) == pytest.approx(best, abs=1e-6)
    start = posterior(field_example_of(field, FACTS), field.weights, "likelihood")
    kind = "map" if optimizer.startswith("vp") else "gibbs"
    assert value(learn(optimizer, kind)) > best - 0.25 * (best - start)


@given(field_texts(), st.integers(0, 511))
@settings(max_examples=10)
def test_derivatives_of_most_likely_worlds(text: str, bits: int) -> None:
    """Those of log f_0(data) − max log f_0, from the definition."""
    field = fields.parse(text)
    atoms = ground_atoms(field, DOMAINS)
    world = {a: bool(bits >> i & 1) for i, a in enumerate(atoms)}
    true = [f"{name}({','.join(c)})" if c else name for (name, c), v in world.items() if v]
    objective = likelihood_objective(
        [field_example_of(field, " ".join(true), "P", "Rain")], 5, 0, "map"
    )
    asked = [a for a in atoms if a[0] in ("P", "Rain")]
    worlds = [
        {**world, **dict(zip(asked, values, strict=True))}
        for values in itertools.product((False, True), repeat=len(asked))
    ]

    def margin(weights: np.ndarray) -> float:
        own = field.with_weights(weights)
        scores = [log_weight(own, DOMAINS, each) for each in worlds]
        return log_weight(own, DOMAINS, world) - max(scores)

    scores = sorted(log_weight(field, DOMAINS, each) for each in worlds)
    assume(scores[-1] - scores[-2] > 1e-3)  # no ties
    steps = STEP * np.eye(len(field.weights))
    numeric = [(margin(field.weights + s) - margin(field.weights - s)) / (2 * STEP) for s in steps]
    assert objective.evaluate(field.weights).gradient == pytest.approx(numeric, abs=1e-6, rel=1e-6)


def test_sampled_curvature_is_the_covariance() -> None:
    """With long chains it is the covariance of ∂ log f_0/∂w over all worlds."""
    field = fields.parse(FRIENDS)
    field_example = field_example_of(field, FACTS)
    ground = field_example.cached.ground
    worlds = ground.units.worlds(np.arange(ground.units.num_states))
    values = evaluate_worlds(ground, field.weights, worlds)
    share = np.exp(values.log_weight(ground) - values.log_weight(ground).max())
    exact = np.cov(gradient_of_root(ground, field.weights, values).T, aweights=share, ddof=0)
    divergence = likelihood_objective([field_example], 30, 3, "gibbs")
    points = [divergence.evaluate(field.weights) for _ in range(60)]
    direction = np.linspace(-1.0, 1.0, len(field.weights))
    products = np.array([point.curvature_product(direction) for point in points])
    diagonals = np.array([point.curvature_diagonal() for point in points])
    for found, expected in ((products, exact @ direction), (diagonals, np.diag(exact))):
        error = found.std(axis=0, ddof=1) / np.sqrt(len(points))
        assert (np.abs(found.mean(axis=0) - expected) < 5 * error + 1e-12).all()


@pytest.mark.parametrize("optimizer", ["vp", "pscg"])
def test_a_stopped_course_is_resumed(optimizer: str, tmp_path: Path) -> None:
    field, data = fields.parse(FRIENDS), Database.parse(FACTS + " Friends(D,E) Smokes(E)")
    given: dict[str, Any] = {"objective": "likelihood", "optimizer": optimizer, "rate": None}
    given["expectation"] = "map" if optimizer == "vp" else "gibbs"
    whole = fields.learn(field, data, max_iterations=9, **given)
    place = tmp_path / "state.npz"
    fields.learn(field, data, max_iterations=4, checkpoint=place, **given)
    resumed = fields.learn(field, data, max_iterations=9, checkpoint=place, **given)
    assert resumed.weights == pytest.approx(whole.weights, abs=1e-12)


def test_the_command(run: Run) -> None:
    run.write("f.rrf", FRIENDS)
    run.write("f.db", FACTS)
    found = run.json("field", "learn", "f.rrf", "f.db", "-o", "out.rrf")
    assert {"objective", "optimizer", "value", "converged", "iterations", "weights"} <= set(found)
    learned = fields.read(run.folder / "out.rrf")
    assert learned.weights.tolist() == [entry["weight"] for entry in found["weights"]]
    assert found["weights"][0]["formula"] == "root: lonely(x)"
    code, _, err = run("field", "learn", "f.rrf")
    assert code == 1
    assert "nothing to learn from" in err
    code, _, err = run("field", "learn", "f.rrf", "f.db", "-o", "missing/out.rrf")
    assert code == 1
    assert "no folder missing" in err


# Everyone has two or three friends who smoke.

COUNTED = """\
Smokes(person)
Friends(person, person)
root:
  -2     lonely(x)
  -3     Friends(x, y)
  -0.1   friend(x, y)
lonely(x):
  -1     friend(x, y)
friend(x, y):
  5      Friends(x, y)
  5      Smokes(y)
"""
NETWORK = """\
Smokes(person)
Friends(person, person)
Friends(x, y)
Friends(x, y) ^ Smokes(y)
EXIST y Friends(x, y) ^ Smokes(y)
"""
PEOPLE = 40


def counted_world(seed: int) -> Database:
    rng = np.random.default_rng(seed)
    smokers = rng.permutation(PEOPLE)[: PEOPLE // 2]
    others = np.setdiff1d(np.arange(PEOPLE), smokers)
    facts = [f"Smokes(P{i})" for i in smokers]
    for person in range(PEOPLE):
        chosen = [*rng.choice(smokers, rng.integers(2, 4), replace=False)]
        chosen += [*rng.choice(others, rng.poisson(2), replace=False)]
        facts += [f"Friends(P{person},P{friend})" for friend in chosen]
    return Database.parse(" ".join(facts))


def smoking_friends(field: Field, data: Database) -> np.ndarray:
    """Return float64[PEOPLE + 1], the distribution of the number of smoking friends."""
    only = Database.parse(" ".join(
        f"{name}({','.join(constants)})" for name, constants, _ in data.facts() if name == "Smokes"
    ) + "\nperson = {" + ", ".join(f"P{i}" for i in range(PEOPLE)) + "}")  # fmt: skip
    ground = ground_field(field, build_problem(field.declarations, only, ["Friends"]))
    sampler = FieldGibbs(CachedField(ground), field.weights)
    plan = sampler.prepare(ground.network)
    state = sampler.init(plan, np.zeros(len(ground.cell), bool), random_states(0, 1)[0])
    tallies = new_tallies(len(ground.cell), np.zeros(len(ground.root_edges)))
    smokes = ground.known[ground.nodes[0].cells] == 1
    counts = np.zeros(PEOPLE + 1)
    for sweep in range(400):
        sampler.step(plan, state, tallies, 1)
        if sweep >= 100:
            friends = sampler.world(state).reshape(PEOPLE, PEOPLE)
            counts += np.bincount(friends[:, smokes].sum(axis=1), minlength=PEOPLE + 1)
    return counts / counts.sum()


def test_a_field_learns_how_many() -> None:
    """A field learns that there are two or three, a network with EXIST only that there is one."""
    data, fresh = counted_world(1), counted_world(2)
    fit = fields.learn(fields.parse(COUNTED), data, "Friends")
    learned = smoking_friends(fit.field, data)
    assert learned[2:4].sum() > 0.75
    assert 2 < learned @ np.arange(PEOPLE + 1) < 3
    network = lapis.learn(lapis.parse(NETWORK), data, "Friends", objective="pseudo")
    mirrored = fields.from_model(network.model, sharpness=30.0)
    assert smoking_friends(mirrored, data)[2:4].sum() < 0.55
    by_field = fields.score(fit.field, fresh, "Friends", predictions=False).pseudo_log_likelihood
    by_network = fields.score(mirrored, fresh, "Friends", predictions=False).pseudo_log_likelihood
    assert by_field is not None
    assert by_network is not None
    assert by_field > by_network + 40
