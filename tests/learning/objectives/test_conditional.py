"""The conditional likelihood against enumeration of all worlds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import lapis
import oracle
from brute_force import BruteForce, brute_force, ensemble
from conditional_cases import HARD, PAGES, SMOKERS, SMOKING, THINGS, TOPICS, random_weights, set_up
from lapis.grounding import ground
from lapis.inference.exact import treewidth_bounds
from lapis.inference.map.map_objective import ComponentResult
from lapis.inference.moments import most_likely as expectation_map
from lapis.learning.examples import build_examples
from lapis.learning.objectives import conditional
from lapis.learning.objectives.conditional import ConditionalObjective, conditional_objective
from lapis.learning.parameters import share_parameters
from lapis.network import Network
from oracle import Facts, NoWorld
from strategies import Case, cases


def facts_of(text: str) -> Facts:
    """Plain facts P(A,B), with ! or ? in front."""
    groups: dict[str, list[oracle.GroundAtom]] = {"": [], "!": [], "?": []}
    for word in text.split():
        sign = word[0] if word[0] in "!?" else ""
        name, inner = word[len(sign) :].rstrip(")").split("(")
        groups[sign].append((name, tuple(inner.split(","))))
    return Facts(*(tuple(group) for group in groups.values()))


def expected_of(
    text: str, data: Sequence[str], asked: Sequence[str], hidden: Sequence[str] = ()
) -> BruteForce:
    model = lapis.parse(text)
    _, parameters = set_up(text, data, asked, hidden)
    names = list(asked) or [name for name in model.predicates if name not in hidden]
    return brute_force(model, [facts_of(d) for d in data], parameters, names, hidden)


def assert_exact(
    objective: ConditionalObjective, expected: BruteForce, weights: np.ndarray, seed: int
) -> None:
    assert objective.is_exact
    point = objective.evaluate(weights)
    assert point.value == pytest.approx(expected.value(weights), abs=1e-9)
    assert point.gradient == pytest.approx(expected.gradient(weights), abs=1e-9)
    assert point.gradient_stderr is None
    covariance = expected.covariance(weights)
    direction = np.random.default_rng(seed).normal(size=len(weights))
    assert point.curvature_product(direction) == pytest.approx(covariance @ direction, abs=1e-8)
    assert point.curvature_diagonal() == pytest.approx(np.diag(covariance), abs=1e-8)


def check_case(case: Case, seed: int, scale: float) -> None:
    model, data = lapis.parse(case.model), lapis.Database.parse(case.data)
    examples = build_examples(model, [data], case.query)
    parameters = share_parameters(model, [examples[0].free])
    try:
        expected = brute_force(model, [case.facts], parameters, case.query)
    except NoWorld:
        with pytest.raises(lapis.LapisError):
            conditional_objective(examples, parameters).evaluate(parameters.initial)
        return
    objective = conditional_objective(examples, parameters)
    weights = random_weights(parameters, seed, scale)
    assert_exact(objective, expected, weights, seed)


@given(cases(observed=True), st.integers(0, 99), st.sampled_from((0.0, 1.0, 4.0)))
def test_complete_data(case: Case, seed: int, scale: float) -> None:
    check_case(case, seed, scale)


@given(cases(), st.integers(0, 99))
def test_facts_marked_unknown(case: Case, seed: int) -> None:
    check_case(case, seed, 1.0)


@pytest.mark.slow
@given(cases(observed=True), st.integers(0, 999), st.sampled_from((0.0, 1.0, 4.0)))
@settings(max_examples=1500)
def test_complete_data_at_length(case: Case, seed: int, scale: float) -> None:
    check_case(case, seed, scale)


@pytest.mark.slow
@given(cases(), st.integers(0, 999))
@settings(max_examples=1500)
def test_facts_marked_unknown_at_length(case: Case, seed: int) -> None:
    check_case(case, seed, 1.0)


WORLDS = {
    "smokers given friends": (SMOKING, SMOKERS, ("Smokes", "Cancer"), ()),
    "smokers hidden": (SMOKING, SMOKERS, ("Cancer",), ("Smokes",)),
    "pages": (TOPICS, PAGES, ("Topic",), ()),
    "hard rules": (HARD, THINGS, ("A", "B"), ()),
    "hard rules, all asked": (HARD, THINGS, (), ()),
    "hard rules, hidden": (HARD, THINGS, ("A",), ("B",)),
}


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("expectation", ["auto", "exact"])
def test_several_worlds(name: str, expectation: str) -> None:
    text, data, asked, hidden = WORLDS[name]
    examples, parameters = set_up(text, data, asked, hidden)
    objective = conditional_objective(examples, parameters, expectation=expectation)
    expected = expected_of(text, data, asked, hidden)
    for seed in range(2):
        assert_exact(objective, expected, random_weights(parameters, seed), seed)


def test_curvature_is_the_derivative_of_the_oracles_gradient() -> None:
    text, data, asked, _ = WORLDS["smokers given friends"]
    examples, parameters = set_up(text, data, asked)
    expected = expected_of(text, data, asked)
    weights = random_weights(parameters, 3)
    point = conditional_objective(examples, parameters).evaluate(weights)
    for direction in np.eye(len(parameters)):
        step = 1e-5 * direction
        change = expected.gradient(weights + step) - expected.gradient(weights - step)
        assert point.curvature_product(direction) == pytest.approx(-change / 2e-5, abs=1e-6)


@pytest.mark.parametrize("name", ["smokers given friends", "pages", "hard rules, all asked"])
def test_true_counts_leave_out_what_evidence_decides(name: str) -> None:
    text, data, asked, _ = WORLDS[name]
    examples, parameters = set_up(text, data, asked)
    expected = expected_of(text, data, asked)
    always = sum(np.minimum.reduce(free.counts) for free in expected.free)
    in_data = sum(known.counts[0] for known in expected.clamped)
    found = conditional_objective(examples, parameters).true_counts
    # A grounding that evidence decides is true in all worlds; few others are.
    assert (found <= in_data + 1e-9).all()
    assert (found >= in_data - always - 1e-9).all()
    if name == "smokers given friends":
        rule = parameters.names().index("Friends(x, y) ^ Smokes(x) => Smokes(y)")
        # Six friendships; Friends(C,D) and Friends(A,F) have Smokes(x) false or Smokes(y) true.
        assert found[rule] == 3.0


def test_generative_learning_has_another_name() -> None:
    for asked, name in ((("Smokes",), "conditional"), ((), "likelihood")):
        objective = conditional_objective(*set_up(SMOKING, SMOKERS, asked))
        assert objective.name == name


def test_only_listed_atoms_are_asked() -> None:
    """Pairs that the data does not mention are known to be different, in the free worlds too."""
    rules = "Same(a, b) ^ Same(b, c) => Same(a, c)\nNear(a, b) => Same(a, b)"
    text = f"Same(cite, cite)\nNear(cite, cite)\n{rules}"
    data = "Same(A,B) !Same(B,C) Same(A,C) !Same(C,A) Near(A,B) Near(C,B)"
    model = lapis.parse(text)
    examples = build_examples(model, [lapis.Database.parse(data)], ["Same"], only_listed=True)
    parameters = share_parameters(model, [examples[0].free])
    facts = facts_of(data)
    domains = oracle.constants_of(model, facts)
    asked = [atom for atom in (*facts.true, *facts.false) if atom[0] == "Same"]
    given_facts = Facts(tuple(a for a in facts.true if a[0] == "Near"), (), tuple(asked))
    free, clamped = (
        ensemble(model, domains, parameters, oracle.known_atoms(model, known, domains, set()))
        for known in (given_facts, facts)
    )
    expected = BruteForce((free,), (clamped,))
    assert len(expected.free[0].counts) == 2 ** len(asked)
    assert_exact(conditional_objective(examples, parameters), expected, np.array([0.7, -1.2]), 0)


def test_the_maximum_has_no_gradient() -> None:
    """Newton's method by the objective's own curvature ends where the oracle's gradient is 0."""
    text, data, asked = HARD, ("A(X) B(X) B(Y) C(X,Y) C(Y,X) C(Z,Z)", "B(U) C(U,V) C(V,U)"), ()
    examples, parameters = set_up(text, data, asked)
    objective = conditional_objective(examples, parameters)
    weights = np.zeros(len(parameters))
    ridge = 0.01
    for _ in range(30):
        point = objective.evaluate(weights)
        basis = np.eye(len(weights))
        hessian = np.array([point.curvature_product(row) for row in basis]) + ridge * basis
        weights = weights + np.linalg.solve(hessian, point.gradient - ridge * weights)
    gradient = expected_of(text, data, asked).gradient(weights) - ridge * weights
    assert np.abs(gradient).max() <= 1e-9


def test_expectation_step_and_maximisation_step() -> None:
    text, data, asked, hidden = WORLDS["smokers hidden"]
    examples, parameters = set_up(text, data, asked, hidden)
    objective = conditional_objective(examples, parameters)
    expected = expected_of(text, data, asked, hidden)
    weights = random_weights(parameters, 5)
    counts = sum(e.mean(weights) for e in expected.clamped)
    other = random_weights(parameters, 6)
    point = objective.with_targets(counts).evaluate(other)
    log_partition = sum(free.log_partition(other) for free in expected.free)
    assert point.value == pytest.approx(other @ counts - log_partition, abs=1e-9)
    mean = sum(free.mean(other) for free in expected.free)
    assert point.gradient == pytest.approx(counts - mean, abs=1e-9)


def give_up(network: Network, degree: int) -> np.ndarray:
    """As if no component could be solved exactly."""
    return np.ones(network.num_atoms, bool)


class TestMostLikelyWorld:
    @pytest.mark.parametrize("name", ["smokers given friends", "pages", "hard rules, all asked"])
    @pytest.mark.parametrize("searched", [False, True], ids=["exact", "searched"])
    def test_gradient(self, name: str, searched: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        if searched:
            monkeypatch.setattr(treewidth_bounds, "has_dense_core", give_up)
        text, data, asked, _ = WORLDS[name]
        examples, parameters = set_up(text, data, asked)
        objective = conditional_objective(examples, parameters, expectation="map")
        assert ("maxwalksat" in objective.methods) == searched
        expected = expected_of(text, data, asked)
        for seed in range(4):
            weights = random_weights(parameters, seed)
            point = objective.evaluate(weights)
            assert point.value is None
            in_data = sum(known.counts[0] for known in expected.clamped)
            best = in_data - point.gradient
            scores = [(free.counts @ weights).max() for free in expected.free]
            assert best @ weights == pytest.approx(sum(scores), abs=1e-9)

    @pytest.mark.parametrize("searched", [False, True], ids=["exact", "searched"])
    def test_hidden_atoms(self, searched: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        if searched:
            monkeypatch.setattr(treewidth_bounds, "has_dense_core", give_up)
        text, data, asked, hidden = WORLDS["hard rules, hidden"]
        examples, parameters = set_up(text, data, asked, hidden)
        objective = conditional_objective(examples, parameters, expectation="map")
        expected = expected_of(text, data, asked, hidden)
        weights = random_weights(parameters, 1)
        gap = sum((known.counts @ weights).max() for known in expected.clamped)
        gap -= sum((free.counts @ weights).max() for free in expected.free)
        assert objective.evaluate(weights).gradient @ weights == pytest.approx(gap, abs=1e-9)

    def test_data_are_not_preferred_where_all_worlds_tie(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A perceptron whose first world is the data would never learn anything."""
        monkeypatch.setattr(treewidth_bounds, "has_dense_core", give_up)
        text, data, asked, _ = WORLDS["smokers given friends"]
        examples, parameters = set_up(text, data, asked)
        objective = conditional_objective(examples, parameters, expectation="map")
        assert np.abs(objective.evaluate(np.zeros(len(parameters))).gradient).max() >= 1.0

    def test_a_start_that_only_the_data_know(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            expectation_map,
            "search_world",
            lambda *_, **options: ComponentResult(None, np.inf, "maxwalksat"),
        )
        model = lapis.parse("thing = {A, B}\nP(thing)\nP(A) v P(B).\n(P(x))")
        network = ground(lapis.build_problem(model, query=["P"]))
        known = np.array([False, True])
        assert expectation_map.first_world(network, known, 0).tolist() == [False, True]
        found = expectation_map.first_world(network, None, 0)
        assert network.is_feasible(found)

    @given(cases(observed=True), st.integers(0, 99))
    def test_random_models(self, case: Case, seed: int) -> None:
        model, data = lapis.parse(case.model), lapis.Database.parse(case.data)
        examples = build_examples(model, [data], case.query)
        parameters = share_parameters(model, [examples[0].free])
        try:
            expected = brute_force(model, [case.facts], parameters, case.query)
        except NoWorld:
            assume(False)
        weights = random_weights(parameters, seed)
        objective = conditional_objective(examples, parameters, expectation="map")
        best = expected.clamped[0].counts[0] - objective.evaluate(weights).gradient
        assert best @ weights == pytest.approx((expected.free[0].counts @ weights).max(), abs=1e-9)

    def test_true_counts_stand_in_for_the_curvature(self) -> None:
        examples, parameters = set_up(SMOKING, SMOKERS, ("Smokes", "Cancer"))
        objective = conditional_objective(examples, parameters, expectation="map")
        point = objective.evaluate(parameters.initial)
        assert point.curvature_diagonal().tolist() == objective.true_counts.tolist()
        direction = random_weights(parameters, 0)
        product = point.curvature_product(direction)
        assert product == pytest.approx(objective.true_counts * direction)


class TestWhereNothingIsLeft:
    def test_no_unknown_atom(self) -> None:
        text = "P(thing)\nQ(thing)\nP(x) => Q(x)\nQ(x)"
        for expectation in conditional.EXPECTATIONS:
            _, parameters = set_up(text, ["P(A)"], ("Q",))
            listed = build_examples(
                lapis.parse(text), [lapis.Database.parse("P(A)")], ("Q",), only_listed=True
            )
            objective = conditional_objective(listed, parameters, expectation=expectation)
            point = objective.evaluate(np.array([1.0, -2.0]))
            assert point.value == (None if expectation == "map" else 0.0)
            assert point.gradient.tolist() == [0.0, 0.0]
            assert point.curvature_diagonal().tolist() == [0.0, 0.0]
            assert point.curvature_product(np.ones(2)).tolist() == [0.0, 0.0]

    def test_no_constants(self) -> None:
        objective = conditional_objective(*set_up("P(thing)\n(P(x))\n(P(x) => P(y))", [""], ()))
        point = objective.evaluate(np.ones(2))
        assert point.value == 0.0
        assert point.gradient.tolist() == [0.0, 0.0]

    def test_no_examples(self) -> None:
        model = lapis.parse("P(thing)\n(P(x))")
        objective = conditional_objective([], share_parameters(model, []))
        point = objective.evaluate(np.ones(1))
        assert (point.value, point.gradient.tolist()) == (0.0, [0.0])
        assert point.curvature_diagonal().tolist() == [0.0]


class TestErrors:
    def test_data_that_break_a_hard_rule(self) -> None:
        with pytest.raises(lapis.LapisError, match=r"A\(x\) => B\(x\)") as error:
            conditional_objective(*set_up(HARD, ["A(X)"], ("A", "B")))
        assert error.value.code == "hard-contradiction"

    def test_data_that_break_a_block(self) -> None:
        with pytest.raises(lapis.LapisError) as error:
            conditional_objective(*set_up(TOPICS, ["Has(P,X)"], ("Topic",)))
        assert error.value.code == "block-violated"

    def test_unknown_expectation(self) -> None:
        with pytest.raises(lapis.LapisError, match="mcsta") as error:
            conditional_objective(*set_up(SMOKING, SMOKERS, ()), expectation="mcsta")
        assert error.value.hint == "did you mean 'mcsat'?"

    def test_one_sample(self) -> None:
        with pytest.raises(lapis.LapisError) as error:
            conditional_objective(*set_up(SMOKING, SMOKERS, ()), num_samples=1)
        assert error.value.code == "too-few-samples"

    def test_too_large_to_be_exact(self) -> None:
        things = ", ".join(f"T{number}" for number in range(60))
        text = f"thing = {{{things}}}\nP(thing)\nP(+x)\nP(x) ^ x != y => P(y)"
        with pytest.raises(lapis.TooLarge):
            conditional_objective(*set_up(text, ["P(T1)"], ("P",)), expectation="exact")


def test_groundings_that_evidence_decides_cost_no_digits() -> None:
    """Σ log σ(±w) of one atom beside 10^12 groundings that are true in every world."""
    people = " ".join(f"N(P{k})" for k in range(1000))
    model = lapis.parse("N(p)\nE(p)\nQ(p)\n0.7 E(x) ^ E(y) ^ E(z) ^ N(u) => Q(x)")
    data = f"{people} E(P0) Q(P0)"
    examples = build_examples(model, [lapis.Database.parse(data)], ["Q"])
    parameters = share_parameters(model, [example.free for example in examples])
    objective = conditional_objective(examples, parameters)
    for weight in (0.001, 1 / 3, 0.007):
        point = objective.evaluate(np.array([weight]))
        # E(P0) leaves 1,000 groundings to Q(P0); the other 999 atoms have probability 1/2.
        expected = -np.log1p(np.exp(-1000 * weight)) - 999 * np.log(2.0)
        assert point.value == pytest.approx(expected, abs=1e-9)
        assert point.gradient[0] == pytest.approx(1000 / (1 + np.exp(1000 * weight)), abs=1e-9)
