"""Persistent chains: sampled gradients and curvatures against exact ones."""

from __future__ import annotations

import numpy as np
import pytest

import lapis
from conditional_cases import HARD, PAGES, SMOKERS, SMOKING, THINGS, TOPICS, random_weights, set_up
from lapis.grounding import ground
from lapis.inference.moments.sampled import PersistentChain, SampledComponents
from lapis.inference.random_numbers import random_states
from lapis.learning.objectives import conditional
from lapis.learning.objectives.conditional import ConditionalObjective, conditional_objective
from lapis.learning.parameters import Parameters
from lapis.methods import find_method

NUM_SAMPLES = 4000
MODELS = {
    "smokers": (SMOKING, SMOKERS, ("Smokes", "Cancer"), ()),
    "smokers hidden": (SMOKING, SMOKERS, ("Cancer",), ("Smokes",)),
    "pages": (TOPICS, PAGES, ("Topic",), ()),
    "hard": (HARD, THINGS, (), ()),
    "hard hidden": (HARD, THINGS, ("A",), ("C",)),
}


def both(
    name: str, method: str, num_samples: int = NUM_SAMPLES, num_chains: int = 2
) -> tuple[ConditionalObjective, ConditionalObjective, Parameters]:
    """The exact objective and the sampled one."""
    examples, parameters = set_up(*MODELS[name])
    exact = conditional_objective(examples, parameters, expectation="exact")
    sampled = conditional_objective(
        examples, parameters, expectation=method, num_samples=num_samples, num_chains=num_chains
    )
    return exact, sampled, parameters


def assert_agree(
    exact: ConditionalObjective, sampled: ConditionalObjective, weights: np.ndarray
) -> None:
    truth, point = exact.evaluate(weights), sampled.evaluate(weights)
    assert point.value is None
    stderr = point.gradient_stderr
    assert stderr is not None
    assert (np.abs(point.gradient - truth.gradient) <= 4.0 * stderr + 1e-9).all()
    # The errors are small enough to mean something: as if every tenth sample were independent.
    spread = np.sqrt(truth.curvature_diagonal())
    clamped = 3.0 if exact.clamped else 1.0  # whose spread is not in the curvature
    assert (stderr <= clamped * spread * np.sqrt(10.0 / NUM_SAMPLES) + 1e-9).all()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("method", ["mcsat", "gibbs"])
def test_gradients_are_within_their_errors(name: str, method: str) -> None:
    if name.startswith("hard") and method == "gibbs":
        method = "mcsat"  # hard clauses across units cut a Gibbs chain's worlds into islands
    exact, sampled, parameters = both(name, method)
    assert not sampled.is_exact
    assert_agree(exact, sampled, random_weights(parameters, 1, 0.7))


@pytest.mark.parametrize("method", ["mcsat", "gibbs"])
@pytest.mark.parametrize("name", ["smokers", "pages"])
def test_curvatures_come_close_to_exact_ones(name: str, method: str) -> None:
    exact, sampled, parameters = both(name, method)
    weights = random_weights(parameters, 2, 0.7)
    truth, point = exact.evaluate(weights), sampled.evaluate(weights)
    assert point.curvature_diagonal() == pytest.approx(
        truth.curvature_diagonal(), rel=0.15, abs=0.01
    )
    direction = random_weights(parameters, 3)
    wanted = truth.curvature_product(direction)
    assert np.linalg.norm(point.curvature_product(direction) - wanted) <= 0.1 * np.linalg.norm(
        wanted
    )


@pytest.mark.parametrize("method", ["mcsat", "gibbs"])
def test_chains_follow_the_weights(method: str) -> None:
    """Strong clauses move atoms together, weak ones do not: units are built again in between."""
    exact, sampled, parameters = both("smokers", method)
    weak = np.zeros(len(parameters))
    strong = weak.copy()
    strong[:2] = 4.0
    for weights in (weak, strong, weak):
        assert_agree(exact, sampled, weights)


@pytest.mark.parametrize("method", ["mcsat", "gibbs"])
def test_the_same_seed_gives_the_same_gradients(method: str) -> None:
    examples, parameters = set_up(*MODELS["smokers"])
    weights = random_weights(parameters, 4)

    def gradients(seed: int) -> list[list[float]]:
        objective = conditional_objective(examples, parameters, expectation=method, seed=seed)
        return [objective.evaluate(weights).gradient.tolist() for _ in range(3)]

    first, second, third = gradients(1)
    assert gradients(1) == [first, second, third]
    assert gradients(2) != [first, second, third]
    assert first != second  # the chain moves on


def test_curvature_of_few_samples_is_positive_semidefinite_and_its_own_diagonal() -> None:
    _, sampled, parameters = both("smokers", "gibbs", num_samples=3, num_chains=1)
    point = sampled.evaluate(random_weights(parameters, 5, 0.5))
    matrix = np.array([point.curvature_product(row) for row in np.eye(len(parameters))])
    assert matrix == pytest.approx(matrix.T, abs=1e-12)
    assert np.linalg.eigvalsh(matrix).min() >= -1e-12
    assert point.curvature_diagonal() == pytest.approx(np.diag(matrix), abs=1e-12)
    # Every weight of an undecided atom is seen, whatever the three samples were.
    assert (point.curvature_diagonal()[sampled.true_counts > 0] > 0).all()


def test_what_fits_is_exact_and_the_rest_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eleven people who all know each other are too many for no memory; two pairs are not."""
    crowd = " ".join(f"Friends(P{i},P{j})" for i in range(11) for j in range(i))
    data = f"{crowd} Friends(A,B) Friends(C,D) Smokes(A) Smokes(P1) Smokes(P7) Cancer(P1) Cancer(C)"
    text = SMOKING.replace("+y", "y")
    examples, parameters = set_up(text, [data], ("Smokes", "Cancer"))
    exact = conditional_objective(examples, parameters, expectation="exact")
    monkeypatch.setattr(conditional, "DEFAULT_MEMORY", 1)
    mixed = conditional_objective(examples, parameters, num_samples=NUM_SAMPLES, num_chains=2)
    assert set(mixed.methods) == {"exact", "gibbs"}
    weights = np.array([0.8, 0.2, -0.3, -0.5])
    assert_agree(exact, mixed, weights)


def test_chains_that_may_not_reach_every_world_say_so() -> None:
    """Twenty coins of which one must show heads: too large a knot to be moved as one."""
    things = ", ".join(f"T{number}" for number in range(20))
    knot = f"thing = {{{things}}}\nP(thing)\nEXIST x P(x).\n!P(x) v !P(y) v x = y.\n(P(x))"
    for text, asked, known in ((knot, "P", None), (SMOKING, "Smokes", True)):
        data = ["P(T3)"] if asked == "P" else SMOKERS
        examples, parameters = set_up(text, data, (asked,))
        objective = conditional_objective(examples, parameters, expectation="gibbs")
        sampled = [part for part in objective.walking if isinstance(part, SampledComponents)]
        assert {chain.plan.ergodic for part in sampled for chain in part.chains} == {known}


def test_a_chain_starts_at_the_world_given() -> None:
    model = lapis.parse("thing = {A, B, C}\nP(thing)\nP(x) v P(y) v x = y.\nP(x) ^ P(y)")
    network = ground(lapis.build_problem(model, query=["P"]))
    world = np.array([True, False, True])
    for method in ("mcsat", "gibbs"):
        chain = PersistentChain(
            find_method("infer", method).make(), network, world, 0, random_states(0, 1)[0]
        )
        assert chain.world().tolist() == world.tolist()
        assert chain.sampler.counts(chain.state) == pytest.approx(
            network.counts(world) - network.constant_count
        )
        drawn = chain.draw(np.zeros(len(network.weights)), 7, 3)
        assert drawn.size.tolist() == [3, 2, 2]
        assert drawn.count_means()[0] == pytest.approx(drawn.counts[:3].mean(axis=0))
