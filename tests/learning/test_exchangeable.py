"""Learning sums over counts of exchangeable atoms exactly where inference does."""

from __future__ import annotations

from math import lgamma
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_conditional import assert_exact, check_case, expected_of, random_weights, set_up

import lapis
from lapis.grounding.bottom_up import ground
from lapis.inference.marginals import InferenceOptions
from lapis.inference.moments.exact import Exact
from lapis.inference.solve import infer_network
from lapis.learning.objectives.conditional import conditional_objective
from strategies import Case, cases

BY_COUNTS = "exact (by counts)"
DENSE = "lapis.inference.symmetry.by_counts.DENSE"
PEOPLE = "person = {A, B, C, D, E}\nSmokes(person)\nCancer(person)\nFriends(person, person)\n"
CROWD = " ".join(f"Friends({a},{b})" for a in "ABCDE" for b in "ABCDE")
CROWDS = {
    "all alike": (
        PEOPLE + "Friends(x, y) ^ Smokes(x) => Smokes(y)\nSmokes(x)",
        f"{CROWD} Smokes(A) Smokes(B)", ["Smokes"], [],
    ),
    "with leaves that are eliminated": (
        PEOPLE + "Friends(x, y) ^ Smokes(x) => Smokes(y)\nSmokes(x) => Cancer(x)\nCancer(x)",
        f"{CROWD} Smokes(A) Smokes(B) Cancer(B) Cancer(C)", ["Smokes", "Cancer"], [],
    ),
    "leaves hidden": (
        PEOPLE + "Friends(x, y) ^ Smokes(x) => Smokes(y)\nSmokes(x) => Cancer(x)\nCancer(x)",
        f"{CROWD} Smokes(A) Smokes(B)", ["Smokes"], ["Cancer"],
    ),
    "two classes, evidence and a hard rule": (
        PEOPLE + "Smokes(x) ^ Smokes(y) ^ Friends(x, y) => Smokes(x)\nFriends(x, y) ^ Smokes(x) "
        "=> Cancer(y).\nSmokes(x)\nCancer(x)\nFriends(x, y) ^ Cancer(x) => Smokes(y)",
        f"{CROWD} Smokes(A) Cancer(A) Cancer(B) Cancer(C) Cancer(D) Cancer(E)",
        ["Smokes", "Cancer"], [],
    ),
    "an existential": (
        PEOPLE + "EXIST x Smokes(x)\nSmokes(x) ^ Smokes(y) ^ Friends(x, y) => x = y\nSmokes(A)",
        f"{CROWD} Smokes(C)", ["Smokes"], [],
    ),
    "beside a block": (
        "kind = {K, L, M}\nIs(day, kind!)\nP(thing)\n"
        "P(x) ^ x != y => P(y)\nP(x) ^ Is(d, +k)\nP(x)",
        "P(A) P(B) !P(C) !P(D) Is(Monday,L)", ["P", "Is"], [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CROWDS)
@pytest.mark.parametrize("expectation", ["auto", "exact"])
def test_value_gradient_and_curvature_are_those_of_the_definition(
    name: str, expectation: str
) -> None:
    text, data, asked, hidden = CROWDS[name]
    examples, parameters = set_up(text, [data], asked, hidden)
    with mock.patch(DENSE, 1):
        objective = conditional_objective(examples, parameters, expectation=expectation)
    assert BY_COUNTS in objective.methods
    expected = expected_of(text, [data], asked, hidden)
    for seed, scale in enumerate((0.0, 1.0, 5.0)):
        assert_exact(objective, expected, random_weights(parameters, seed, scale), seed)


@given(cases(), st.integers(0, 99), st.sampled_from((0.0, 1.0, 4.0)))
def test_random_models(case: Case, seed: int, scale: float) -> None:
    with mock.patch(DENSE, 1):
        check_case(case, seed, scale)


@pytest.mark.slow
@given(cases(), st.integers(0, 999), st.sampled_from((0.0, 1.0, 4.0)))
@settings(max_examples=1500, deadline=None)
def test_random_models_at_length(case: Case, seed: int, scale: float) -> None:
    with mock.patch(DENSE, 1):
        check_case(case, seed, scale)


def test_what_is_alike_at_weight_zero_only_is_not_counted() -> None:
    """All weights start at 0, where no two people differ; A and B have a weight of their own."""
    text = PEOPLE + "Friends(x, y) ^ Smokes(x) => Smokes(y)\nSmokes(A)\nSmokes(B)"
    data = f"{CROWD} Smokes(A)"
    examples, parameters = set_up(text, [data], ["Smokes"])
    with mock.patch(DENSE, 1):
        objective = conditional_objective(examples, parameters)
    sizes = [s.plan.class_sizes for s in objective.sources if isinstance(s, Exact)]  # type: ignore[attr-defined]
    assert sizes == [[3]]
    expected = expected_of(text, [data], ["Smokes"])
    assert_exact(objective, expected, np.array([0.3, 2.0, -1.0]), 0)


def test_samples_have_the_moments() -> None:
    text, data, asked, _ = CROWDS["with leaves that are eliminated"]
    examples, parameters = set_up(text, [data], asked)
    with mock.patch(DENSE, 1):
        objective = conditional_objective(examples, parameters)
    (side,) = objective.free
    natural = side.statistics.natural(np.array([0.2, 1.0, -0.5]))
    (source,) = side.sources
    assert isinstance(source, Exact)
    found, size = source.moments(natural), 20_000
    worlds = source.plan.sample(size, np.random.default_rng(0), natural)
    network = source.plan.network
    counts = np.array([network.counts(world) for world in worlds[:2000]])
    deviation = counts.std(axis=0) / np.sqrt(2000)
    assert (np.abs(counts.mean(axis=0) - found.mean) <= 5 * deviation + 1e-9).all()
    marginal = found.solved.marginal
    error = np.sqrt(marginal * (1 - marginal) / size)
    assert (np.abs(worlds.mean(axis=0) - marginal) <= 5 * error).all()


def log_choose(n: int, k: np.ndarray) -> np.ndarray:
    return np.array([lgamma(n + 1) - lgamma(i + 1) - lgamma(n - i + 1) for i in k])


def test_a_ferromagnet_is_learned_exactly() -> None:
    """Chains stay where they began. The sum over the 31 counts is written out here."""
    model = lapis.parse("S(p)\n@fixed 1 S(x) <=> S(y)\nS(x)")
    facts = " ".join(f"S({i})" for i in range(29))
    data = lapis.Database.parse("p = {0, ..., 29} " + facts)
    fit = lapis.learn(model, data, "S", prior="gaussian:2")
    assert (fit.exact, fit.converged, fit.details["methods"]) == (True, True, [BY_COUNTS])
    k, weight = np.arange(31), fit["S(x)"]
    score = log_choose(30, k) + weight * k + k**2 + (30 - k) ** 2
    log_partition = np.logaddexp.reduce(score)
    mean = np.exp(score - log_partition) @ k
    assert 29 - mean - weight / 4 == pytest.approx(0.0, abs=1e-5)
    assert fit.value == pytest.approx(29 * weight + 29**2 + 1 - log_partition, abs=1e-8)


@pytest.mark.parametrize(("rule", "exact"), [("Smokes(x)", True), ("Smokes(+x)", False)])
def test_inference_and_learning_decide_alike(rule: str, exact: bool) -> None:
    """A crowd of 30 is exact by counts in both; one in which all differ is sampled in both."""
    people = [f"P{i}" for i in range(30)]
    facts = " ".join(f"Friends({a},{b})" for a in people for b in people)
    text = f"Friends(p, p)\nSmokes(p)\nFriends(x, y) ^ Smokes(x) => Smokes(y)\n{rule}"
    examples, parameters = set_up(text, [f"{facts} Smokes(P0) Smokes(P1)"], ["Smokes"])
    objective = conditional_objective(examples, parameters)
    network = ground(examples[0].free).with_weights(random_weights(parameters, 0, 0.05))
    found = infer_network(network, "auto", InferenceOptions(max_samples=200))
    assert (objective.is_exact, found.exact) == (exact, exact)
