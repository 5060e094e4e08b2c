"""Lifted likelihoods are those of the ground networks: values, gradients, curvatures, weights."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import lapis
import oracle
from lapis.errors import LapisError, TooLarge
from lapis.learning.examples import build_examples
from lapis.learning.objectives.conditional import conditional_objective
from lapis.learning.objectives.lifted import lifted_objective
from lapis.learning.parameters import share_parameters
from oracle import NoWorld
from strategies import Case, cases

SMOKERS = """
Friends(person, person)
Smokes(person)
Cancer(person)
Smokes(x) => Cancer(x)
Friends(x,y) ^ Smokes(x) => Smokes(y)
0.5 Friends(x,y) => Friends(y,x)
-1 Smokes(x)
"""
TYPED = """
Takes(student, course)
Likes(student, course)
Hard(course)
Takes(s, c) => Likes(s, c)
Hard(c) ^ Takes(s, c)
EXIST c Takes(s, c)
!Likes(s, c) v Takes(s, c).
"""
DATA = {
    SMOKERS: ["Smokes(A) Cancer(A) Friends(A,B) Friends(B,A) Smokes(B)", "Friends(C,D) Cancer(C)"],
    TYPED: ["Takes(S,C) Likes(S,C) Hard(C) Takes(T,D)", "Takes(U,C) Hard(E)"],
}


@pytest.mark.parametrize("text", DATA)
def test_value_gradient_and_curvature_are_those_of_the_ground_networks(text: str) -> None:
    model = lapis.parse(text)
    examples = build_examples(model, [lapis.Database.parse(facts) for facts in DATA[text]])
    parameters = share_parameters(model, [example.complete for example in examples])
    lifted = lifted_objective(examples, parameters)
    ground = conditional_objective(examples, parameters, expectation="exact")
    rng = np.random.default_rng(0)
    for _ in range(3):
        weights, direction = rng.normal(size=(2, len(parameters)))
        found, expected = lifted.evaluate(weights), ground.evaluate(weights)
        assert found.value == pytest.approx(expected.value, rel=1e-10)
        np.testing.assert_allclose(found.gradient, expected.gradient, atol=1e-8)
        np.testing.assert_allclose(
            found.curvature_product(direction), expected.curvature_product(direction), atol=1e-6
        )
        np.testing.assert_allclose(
            found.curvature_diagonal(), expected.curvature_diagonal(), atol=1e-6
        )


@given(cases())
def test_random_models_have_the_likelihood_of_the_definition(case: Case) -> None:
    model, data = lapis.parse(case.model), lapis.Database.parse(case.data)
    examples = build_examples(model, [data])
    if examples[0].has_hidden:
        return
    parameters = share_parameters(model, [examples[0].complete])
    try:
        objective = lifted_objective(examples, parameters)
    except TooLarge:
        return
    except LapisError as error:
        assert error.code in ("hard-contradiction", "block-violated", "unsatisfiable")  # noqa: PT017
        return
    try:
        expected = oracle.log_likelihood(model, case.facts)
    except NoWorld:
        pytest.fail("a likelihood of impossible data")
    weights = parameters.initial
    assert objective.evaluate(weights).value == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("prior", ["none", "gaussian:2", "l1:0.5"])
def test_learning_lifts_by_itself_and_says_so(prior: str) -> None:
    model = lapis.parse(SMOKERS)
    data = [lapis.Database.parse(facts) for facts in DATA[SMOKERS]]
    fit = lapis.learn(model, data, objective="likelihood", prior=prior)
    assert fit.exact
    assert fit.converged == (prior != "none")  # all friends of smokers smoke
    assert fit.details["methods"] == ["lifted"]
    pseudo = lapis.learn(model, data, objective="pseudo", prior=prior)
    trained = [sum(lapis.score(f.model, d).log_likelihood for d in data) for f in (fit, pseudo)]
    assert fit.value == pytest.approx(trained[0], abs=1e-8)
    if prior == "none":
        assert trained[0] >= trained[1] - 1e-9


UNLIFTABLE = "Friends(person, person)\nFriends(x,y) ^ Friends(y,z) => Friends(x,z)"


def test_what_does_not_lift_is_named_and_grounded() -> None:
    model = lapis.parse(UNLIFTABLE + "\n" + "Friends(x,y)")
    people = [f"P{i}" for i in range(14)]
    data = lapis.Database.parse(" ".join(f"Friends({p},{p})" for p in people))
    fit = lapis.learn(model, data, objective="likelihood", max_iterations=2)
    assert any("Friends(x, y) ^ Friends(y, z)" in text for text in fit.warnings)
    assert any("grounded instead" in text for text in fit.warnings)
    with pytest.raises(TooLarge, match="cannot be lifted"):
        lapis.learn(model, data, objective="likelihood", expectation="lifted")


def test_lifting_is_refused_where_constants_differ() -> None:
    model, data = lapis.parse(SMOKERS), lapis.Database.parse(DATA[SMOKERS][0])
    with pytest.raises(LapisError, match="only the likelihood of all atoms"):
        lapis.learn(model, data, "Cancer", expectation="lifted")
    with pytest.raises(LapisError, match="hidden atoms"):
        lapis.learn(
            model, data, objective="likelihood", expectation="lifted", unobserved=["Cancer"]
        )


def test_data_that_break_a_hard_rule_are_refused() -> None:
    model = lapis.parse("P(t)\nQ(t)\nP(x) => Q(x).\nQ(x)")
    with pytest.raises(LapisError, match="contradict the hard rule"):
        lapis.learn(model, lapis.Database.parse("P(A) Q(B)"), objective="likelihood")
