"""EM against the likelihood of what is observed, by enumeration of all worlds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from em_by_lbfgs import fit_em
from hypothesis import given, settings
from hypothesis import strategies as st

import lapis
from brute_force import BruteForce, brute_force
from lapis.inference.exact.by_components import exact
from lapis.learning import em
from lapis.learning.em import ExpectedCounts, start_weights
from lapis.learning.examples import Example, build_examples
from lapis.learning.objectives.conditional import conditional_objective
from lapis.learning.objectives.priors import Prior, expand_prior
from lapis.learning.parameters import Parameters, share_parameters
from lapis.optimisation.history import Trajectory
from lapis.optimisation.lbfgs import Lbfgs
from lapis.optimisation.maximize import maximize
from lapis.optimisation.objective import PenalizedObjective
from lapis.runtime.progress import Progress
from oracle import Facts, GroundAtom, NoWorld
from strategies import Case, cases

# A class of which nothing is seen but its effects, one person a world.
MIXTURE = """
person = {P}
Kind(person)
Tall(person)
Loud(person)
Fast(person)
Kind(x) ^ Tall(x)
Kind(x) ^ Loud(x)
Kind(x) ^ Fast(x)
Kind(x)
Tall(x)
Loud(x)
Fast(x)
"""
SEEN = (
    *["Tall(P) Loud(P) Fast(P)"] * 2,
    *["!Tall(P)"] * 3,
    "Loud(P) Fast(P)",
)
SMOKING = """
Smokes(person)
Cancer(person)
Friends(person, person)
Smokes(x) => Cancer(x)
Friends(x, y) ^ Smokes(x) => Smokes(y)
Smokes(x)
@fixed 0.3 Cancer(x)
"""
PARTLY = (
    "Smokes(A) Cancer(A) ?Smokes(B) Friends(A,B) Friends(B,C) ?Cancer(C) Cancer(B) ?Smokes(C)",
)
TOPICS = """
topic = {Art, Maths, Law}
Topic(page, topic!)
Has(page, word)
Link(page, page)
Has(p, +w) => Topic(p, +t)
Link(p, q) ^ Topic(p, t) => Topic(q, t)
"""
PAGES = (
    "Topic(P,Art) ?Topic(Q,Law) ?Topic(Q,Maths) Has(P,X) Has(Q,Y) Link(P,Q) Topic(R,Law) Has(R,X)",
)
HARD = """
A(thing)
B(thing)
C(thing, thing)
A(x) => B(x).
A(x) ^ C(x, y) => A(y)
B(x)
"""
THINGS = ("A(X) B(X) ?B(Y) C(X,Y) ?C(Y,X)",)

CASES = {
    "marked unknown": (SMOKING, PARTLY, ("Smokes", "Cancer"), ()),
    "all asked": (HARD, THINGS, (), ()),
    "blocks": (TOPICS, PAGES, ("Topic",), ()),
    "hidden predicate": (SMOKING, PARTLY, ("Cancer",), ("Smokes",)),
    "mixture": (MIXTURE, SEEN, (), ("Kind",)),
}


def facts_of(text: str) -> Facts:
    groups: dict[str, list[GroundAtom]] = {"": [], "!": [], "?": []}
    for word in text.split():
        sign = word[0] if word[0] in "!?" else ""
        name, inner = word[len(sign) :].rstrip(")").split("(")
        groups[sign].append((name, tuple(inner.split(","))))
    return Facts(*(tuple(group) for group in groups.values()))


def set_up(
    text: str, data: Sequence[str], asked: Sequence[str], hidden: Sequence[str]
) -> tuple[list[Example], Parameters, BruteForce]:
    model = lapis.parse(text)
    examples = build_examples(
        model, [lapis.Database.parse(d) for d in data], asked, unobserved=hidden
    )
    parameters = share_parameters(model, [example.free for example in examples])
    names = list(asked) or [name for name in model.predicates if name not in hidden]
    return (
        examples,
        parameters,
        brute_force(model, [facts_of(d) for d in data], parameters, names, hidden),
    )


def expected_counts(examples: Sequence[Example], parameters: Parameters) -> ExpectedCounts:
    return ExpectedCounts(conditional_objective(examples, parameters, expectation="exact"))


def observed(expected: BruteForce, prior: Prior, fixed: np.ndarray) -> Callable[..., float]:
    """log P(asked | given) and the prior of the free weights."""

    def value(weights: np.ndarray) -> float:
        arrays = expand_prior(prior, len(weights))
        away = (weights - arrays.mean)[~fixed]
        corner = float(arrays.slope[~fixed] @ np.abs(away))
        gaussian = 0.5 * float(arrays.precision[~fixed] @ away**2)
        return expected.value(weights) - gaussian - corner

    return value


def numerical_gradient(value: Callable[..., float], weights: np.ndarray) -> np.ndarray:
    step = 1e-5 * np.eye(len(weights))
    return np.array([(value(weights + s) - value(weights - s)) / 2e-5 for s in step])


def assert_stationary(
    trajectory: Trajectory, expected: BruteForce, parameters: Parameters, prior: Prior
) -> None:
    """The values are those of the observed data, never fall, and end where they are flat."""
    value = observed(expected, prior, parameters.fixed)
    assert trajectory.converged
    assert trajectory.value == pytest.approx(value(trajectory.weights), abs=1e-8)
    values = np.array([point.value for point in trajectory.curve], np.float64)
    assert (np.diff(values) >= -1e-9).all()
    slope = numerical_gradient(value, trajectory.weights)[~parameters.fixed]
    if prior.kind == "l1":  # at a corner it may point away from it on neither side
        at_corner = (trajectory.weights == expand_prior(prior, len(parameters)).mean)[
            ~parameters.fixed
        ]
        assert (np.abs(slope) <= np.where(at_corner, prior.strength, np.inf)).all()
        slope = np.where(at_corner, 0.0, slope)
    assert np.abs(slope).max(initial=0.0) <= 1e-4
    assert trajectory.gradient_norm == pytest.approx(np.abs(slope).max(initial=0.0), abs=1e-6)
    fixed = parameters.fixed
    assert trajectory.weights[fixed] == pytest.approx(parameters.initial[fixed])


@pytest.mark.parametrize("prior", [Prior("gaussian", 3.0, 0.1), Prior("l1", 0.2, 0.4)], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_likelihood_of_what_is_observed(name: str, prior: Prior) -> None:
    examples, parameters, expected = set_up(*CASES[name])
    start = start_weights(parameters, examples, seed=1)
    trajectory = fit_em(expected_counts(examples, parameters), parameters, prior, start)
    assert_stationary(trajectory, expected, parameters, prior)
    assert trajectory.curve[0].value == pytest.approx(
        observed(expected, prior, parameters.fixed)(start), abs=1e-8
    )


@given(cases(), st.sampled_from((0.7, 3.0)))
@settings(max_examples=25)
def test_random_models(case: Case, width: float) -> None:
    model = lapis.parse(case.model)
    examples = build_examples(model, [lapis.Database.parse(case.data)], case.query)
    parameters = share_parameters(model, [examples[0].free])
    try:
        expected = brute_force(model, [case.facts], parameters, case.query)
    except NoWorld:
        return
    prior = Prior("gaussian", width)
    trajectory = fit_em(
        expected_counts(examples, parameters), parameters, prior, parameters.initial
    )
    assert_stationary(trajectory, expected, parameters, prior)


def one_world() -> tuple[list[Example], Parameters]:
    """The mixture with ten people in one world."""
    people = [f"P{i}" for i in range(10)]
    seen = [f"{name}({p})" for name in ("Tall", "Loud", "Fast") for p in people[:4]]
    seen += ["Tall(P4)", "Loud(P4)", "Loud(P5)", "Fast(P5)", "Fast(P6)"]
    model = lapis.parse(MIXTURE.replace("{P}", f"{{{', '.join(people)}}}"))
    examples = build_examples(model, [lapis.Database.parse(" ".join(seen))], unobserved=["Kind"])
    return examples, share_parameters(model, [example.free for example in examples])


def test_leaps_save_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain EM ends at the same likelihood, later."""
    examples, parameters = one_world()
    prior = Prior("gaussian", 3.0)
    start = start_weights(parameters, examples, seed=1)
    completer = expected_counts(examples, parameters)
    with_leaps = fit_em(completer, parameters, prior, start)
    monkeypatch.setattr(em, "extrapolate", lambda first, second, third: third)
    plain = fit_em(completer, parameters, prior, start)
    assert plain.converged
    assert with_leaps.value == pytest.approx(plain.value, abs=1e-6)
    assert with_leaps.iterations <= 0.75 * plain.iterations


def test_zero_weights_of_a_hidden_predicate_are_a_saddle() -> None:
    """From zero nothing is learned about it; from where EM starts, the likelihood gets higher."""
    text = MIXTURE.replace("^", "<=>")
    examples, parameters, expected = set_up(text, SEEN, (), ("Kind",))
    prior = Prior("gaussian", 3.0)
    completer = expected_counts(examples, parameters)
    stuck = fit_em(completer, parameters, prior, parameters.initial)
    kinds = ["<=>" in name for name in parameters.names()]
    assert sum(kinds) == 3
    assert stuck.weights[kinds] == pytest.approx(0.0, abs=1e-6)
    start = start_weights(parameters, examples, seed=1)
    found = fit_em(completer, parameters, prior, start)
    assert found.value is not None
    assert stuck.value is not None
    assert found.value > stuck.value + 0.5
    assert_stationary(found, expected, parameters, prior)


def test_planted_classes_are_found() -> None:
    """Two kinds of people, of whom only features are seen: EM tells most of them apart."""
    rng = np.random.default_rng(5)
    people = [f"P{i}" for i in range(60)]
    kind = rng.random(60) < 0.5
    features = ("Tall", "Loud", "Fast", "Neat", "Rich")
    flipped = rng.random((60, 5)) < 0.12
    seen = [
        f"{name}({person})"
        for place, person in enumerate(people)
        for number, name in enumerate(features)
        if kind[place] != flipped[place, number]
    ]
    text = f"person = {{{', '.join(people)}}}\nKind(person)\n"
    text += "".join(f"{name}(person)\nKind(x) ^ {name}(x)\n{name}(x)\n" for name in features)
    model = lapis.parse(text + "Kind(x)\n")
    data = lapis.Database.parse(" ".join(seen))
    examples = build_examples(model, [data], unobserved=["Kind"])
    parameters = share_parameters(model, [example.free for example in examples])
    objective = conditional_objective(examples, parameters, expectation="exact")
    start = start_weights(parameters, examples, seed=0)
    trajectory = fit_em(ExpectedCounts(objective), parameters, Prior("gaussian", 3.0), start)
    assert trajectory.converged

    def agreement(weights: np.ndarray) -> float:
        """The share of people on the right side; which side is called which is arbitrary."""
        [example] = examples
        network = lapis.ground(example.complete)
        weighed = network.with_weights(parameters.of_world(0, weights))
        guess = exact(weighed).marginal > 0.5
        right = float((guess == kind[: len(guess)]).mean())
        return max(right, 1.0 - right)

    assert agreement(trajectory.weights) >= 0.9
    assert agreement(trajectory.weights) > agreement(start)


def test_random_start_only_where_it_is_needed() -> None:
    text = (
        "A(t)\nB(t)\nC(t)\nA(x) ^ B(x)\nB(x)\n2 A(x)\n@fixed 0 A(x) v C(x)\nEXIST y (A(y)) v B(x)"
    )
    model = lapis.parse(text)
    examples = build_examples(model, [lapis.Database.parse("B(X) C(X) ?C(Y)")], unobserved=["A"])
    parameters = share_parameters(model, [example.free for example in examples])
    start = start_weights(parameters, examples, seed=3)
    assert (start != 0).tolist() == [True, False, True, False, True]
    assert start[2] == 2.0
    assert np.array_equal(start, start_weights(parameters, examples, seed=3))
    assert not np.array_equal(start, start_weights(parameters, examples, seed=4))


def test_l1_prior_gives_zeros() -> None:
    examples, parameters, _ = set_up(*CASES["marked unknown"])
    completer = expected_counts(examples, parameters)
    strong = fit_em(completer, parameters, Prior("l1", 50.0), parameters.initial)
    assert strong.converged
    assert strong.weights.tolist() == [0.0, 0.0, 0.0, 0.3]


def test_limits_and_interruptions() -> None:
    examples, parameters = one_world()
    completer = expected_counts(examples, parameters)
    prior = Prior("gaussian", 3.0)
    start = start_weights(parameters, examples)
    seen: list[Progress] = []
    few = fit_em(completer, parameters, prior, start, max_rounds=3, progress=seen.append)
    assert [step.done for step in seen] == [0, 1, 2, 3]
    assert (few.converged, few.reason) == (False, "3 rounds")
    assert np.array_equal(seen[-1].weights, few.weights)
    assert fit_em(completer, parameters, prior, start, time_limit=0.0).reason == "time limit"
    stopped = fit_em(completer, parameters, prior, start, should_stop=lambda: True)
    assert stopped.interrupted
    assert np.array_equal(stopped.weights, start)

    rounds = 0

    def interrupted(
        posterior: PenalizedObjective, weights: np.ndarray, tolerance: float, seconds: float | None
    ) -> Trajectory:
        nonlocal rounds
        rounds += 1
        if rounds == 3:
            raise KeyboardInterrupt
        return maximize(posterior, Lbfgs(), weights, tolerance=tolerance)

    kept = fit_em(completer, parameters, prior, start, maximise=interrupted)
    assert kept.interrupted
    assert kept.iterations == 2
    assert kept.value == pytest.approx(few.curve[2].value, abs=1e-9)
