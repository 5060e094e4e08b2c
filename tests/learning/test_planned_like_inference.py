"""What inference sums exactly, learning sums exactly, with the values of the definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import lapis
from brute_force import brute_force
from golden_models import GoldenModel, golden_models
from lapis.errors import LapisError, LapisWarning
from lapis.grounding.bottom_up import ground
from lapis.inference.marginals import InferenceOptions
from lapis.inference.plan import CountStep, ExactStep, MethodStep, plan_network
from lapis.inference.solve import infer_problem
from lapis.learning.examples import Example, build_examples
from lapis.learning.learn import build_objective
from lapis.learning.learning_run import LearningRun, LearnOptions, Notes
from lapis.learning.objectives.conditional import conditional_objective
from lapis.learning.objectives.lifted import lifted_objective
from lapis.learning.parameters import Parameters, share_parameters
from lapis.network.network import Network
from lapis.optimisation.objective import Objective
from oracle import NoWorld
from strategies import Case, cases

MEMORY = (1 << 18, 1 << 20, 1 << 22)  # bytes
NUM_PEOPLE = 24


def objective_of(
    examples: list[Example], parameters: Parameters, name: str, max_memory: int | None = None
) -> Objective:
    options = LearnOptions(max_memory=max_memory)
    return build_objective(LearningRun(examples, parameters, name, options, Notes(), None, None))


def check_derivatives(objective: Objective, weights: np.ndarray) -> None:
    """The gradient is that of differences of the value, the curvature that of the gradient."""
    point, step = objective.evaluate(weights), 1e-5
    for number, unit in enumerate(np.eye(len(weights))):
        above, below = (objective.evaluate(weights + sign * step * unit) for sign in (1, -1))
        assert above.value is not None
        assert below.value is not None
        slope = (above.value - below.value) / (2 * step)
        assert point.gradient[number] == pytest.approx(slope, abs=1e-5)
        column = (below.gradient - above.gradient) / (2 * step)
        assert point.curvature_product(unit) == pytest.approx(column, abs=1e-5)


@given(cases(observed=True), st.booleans())
def test_random_models(case: Case, has_query: bool) -> None:
    model, data = lapis.parse(case.model), lapis.Database.parse(case.data)
    query = case.query if has_query else ()
    examples = build_examples(model, [data], query)
    parameters = share_parameters(model, [examples[0].free])
    assume(len(parameters))
    try:
        expected = brute_force(model, [case.facts], parameters, query or list(model.predicates))
    except NoWorld:
        assume(False)
    weights = np.random.default_rng(0).normal(size=len(parameters))
    objective = objective_of(examples, parameters, "conditional" if query else "likelihood")
    marginals = infer_problem(examples[0].free)[1]
    assert objective.is_exact == marginals.exact == True  # noqa: E712
    point = objective.evaluate(weights)
    assert point.value == pytest.approx(expected.value(weights), abs=1e-9)
    assert point.gradient == pytest.approx(expected.gradient(weights), abs=1e-8)
    check_derivatives(objective, weights)


LEARNED = [model for model in golden_models() if model.learned is not None]


@pytest.mark.parametrize("golden", LEARNED, ids=lambda golden: golden.name)
def test_golden_models(golden: GoldenModel) -> None:
    assert golden.learned is not None
    model, data = lapis.parse(golden.text), lapis.Database.parse(golden.data)
    examples = build_examples(model, [data], golden.learned)
    parameters = share_parameters(model, [examples[0].free])
    name = "conditional" if golden.learned else "likelihood"
    objective = objective_of(examples, parameters, name)
    assert objective.is_exact == infer_problem(examples[0].free)[1].exact
    check_derivatives(objective, np.random.default_rng(1).normal(size=len(parameters)))


def is_summed(network: Network, memory: int) -> bool:
    """Whether `auto` of inference samples nothing of a network."""
    plan = plan_network(network, "auto", InferenceOptions(max_memory=memory))
    return all(isinstance(step, CountStep | ExactStep | MethodStep) for step in plan.steps)


def generic_network(example: Example, parameters: Parameters) -> Network:
    """The network at weights that make no two atoms alike by chance."""
    weights = np.random.default_rng(0).normal(size=len(parameters))
    return ground(example.free).with_weights(parameters.of_world(0, weights))


def graph_model(edges: list[tuple[int, int]]) -> tuple[lapis.Model, lapis.Database]:
    """People of whom no two are alike, since each has a weight of their own."""
    people = ", ".join(f"P{i}" for i in range(NUM_PEOPLE))
    text = f"person = {{{people}}}\nSmokes(person)\nFriends(person, person)\n"
    text += "Friends(x, y) => (Smokes(x) <=> Smokes(y))\nSmokes(+x)\n"
    facts = [f"Friends(P{a},P{b})" for a, b in edges] + ["Smokes(P0)", "Smokes(P3)"]
    return lapis.parse(text), lapis.Database.parse(" ".join(facts))


PERSON = st.integers(0, NUM_PEOPLE - 1)
EDGE = st.tuples(PERSON, PERSON).filter(lambda pair: pair[0] < pair[1])


@given(st.lists(EDGE, min_size=40, max_size=200, unique=True), st.sampled_from(MEMORY))
@settings(max_examples=25)
def test_graphs_around_the_limit_of_memory(edges: list[tuple[int, int]], memory: int) -> None:
    """Sparse graphs are summed by both, dense ones by neither, at each limit."""
    model, data = graph_model(edges)
    examples = build_examples(model, [data], ["Smokes"])
    parameters = share_parameters(model, [examples[0].free])
    objective = objective_of(examples, parameters, "conditional", memory)
    assert objective.is_exact == is_summed(generic_network(examples[0], parameters), memory)


@pytest.mark.parametrize(("num_edges", "is_exact"), [(30, True), (270, False)])
def test_both_answers_occur(num_edges: int, is_exact: bool) -> None:
    pairs = [(a, b) for b in range(NUM_PEOPLE) for a in range(b)]
    edges = [pairs[i] for i in np.random.default_rng(0).permutation(len(pairs))[:num_edges]]
    model, data = graph_model(edges)
    examples = build_examples(model, [data], ["Smokes"])
    parameters = share_parameters(model, [examples[0].free])
    assert objective_of(examples, parameters, "conditional", MEMORY[0]).is_exact == is_exact
    assert is_summed(generic_network(examples[0], parameters), MEMORY[0]) == is_exact


EVIDENCE = """
Smokes(person)
Friends(person, person)
Rich(person)
0.3 Rich(x) => Smokes(x)
-0.2 Friends(x, y) ^ Smokes(x) => Smokes(y)
0.4 Smokes(x)
"""


def evidence_world(size: int) -> str:
    """People of whom one is known to be rich."""
    friends = [f"Friends(P{i},P{(3 * i + 1) % size})" for i in range(0, size, 2)]
    smokers = [f"Smokes(P{i})" for i in range(0, size, 3) if i != size - 2]
    return " ".join(["!Smokes(P2)", f"!Smokes(P{size - 2})", "Rich(P1)", *friends, *smokers])


def test_lifted_with_evidence_has_the_values_of_the_network() -> None:
    model, data = lapis.parse(EVIDENCE), lapis.Database.parse(evidence_world(4))
    examples = build_examples(model, [data], ["Smokes", "Friends"])
    parameters = share_parameters(model, [examples[0].free])
    lifted = lifted_objective(examples, parameters, 6)
    grounded = conditional_objective(examples, parameters, expectation="exact")
    assert lifted.name == grounded.name == "conditional"
    for weights in np.random.default_rng(2).normal(size=(3, len(parameters))):
        one, other = lifted.evaluate(weights), grounded.evaluate(weights)
        assert one.value == pytest.approx(other.value, abs=1e-9)
        assert one.gradient == pytest.approx(other.gradient, abs=1e-8)
    check_derivatives(lifted, weights)


def test_what_inference_lifts_learning_lifts() -> None:
    """A million groundings of friends: lifting is tried before they are made."""
    world = evidence_world(1100)
    model, data = lapis.parse(EVIDENCE), lapis.Database.parse(world)
    with pytest.warns(LapisWarning, match="1,209,450 Friends atoms are open"):
        fit = lapis.learn(model, data, "Smokes,Friends")
    assert fit.exact
    assert fit.details["methods"] == ["lifted"]
    people = ", ".join(f"P{i}" for i in range(1100))
    asked = lapis.parse(f"person = {{{people}}}\n{EVIDENCE}")
    with pytest.warns(LapisWarning, match="1,210,000 Friends atoms are open"):
        assert lapis.infer(asked, lapis.Database.parse("Rich(P1)"), "Smokes,Friends").exact


def test_what_cannot_be_summed_is_refused_by_name() -> None:
    model, data = graph_model([(a, b) for b in range(NUM_PEOPLE) for a in range(b)])
    with pytest.raises(LapisError) as caught:
        lapis.learn(model, data, "Smokes", expectation="exact", max_memory=MEMORY[0])
    assert caught.value.code == "too-wide"
