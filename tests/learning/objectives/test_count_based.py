"""Contrastive divergence and voted perceptron by counts, against enumeration."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from hypothesis import given

import lapis
import oracle
from known_objectives import maximize
from lapis.counting.flipping_world import FlippingWorld
from lapis.counting.ijgp import IjgpSettings
from lapis.errors import LapisError
from lapis.grounding.blocks import apply_blocks
from lapis.grounding.ground_atoms import number_unknown_atoms
from lapis.inference.sampling.counted_world import (
    EstimatedWorld,
    ExactWorld,
    SubstitutedWorld,
    SubtractedWorld,
)
from lapis.learning.examples import Example, build_examples
from lapis.learning.objectives.conditional import conditional_objective
from lapis.learning.objectives.count_based import (
    PERSISTENT_SWEEPS,
    CountObjective,
    count_objective,
)
from lapis.learning.objectives.count_walk import asked_sites, walk
from lapis.learning.objectives.pseudo import undecided_counts
from lapis.learning.parameters import Parameters, share_parameters
from lapis.optimisation.maximize import make_optimizer
from strategies import Case, cases

SMOKERS = """
Friends(person, person)
Smokes(person)
Cancer(person)
0.6 Smokes(x) => Cancer(x)
0.4 Friends(x, y) ^ Smokes(x) => Smokes(y)
-0.5 Friends(x, y)
"""
FACTS = ("Friends(A,B) Friends(B,C) Smokes(B) Cancer(B)", "Friends(A,D) Smokes(A) Smokes(D)")
BLOCKS = """
Topic(page, topic!)
At(page, place?)
Link(page, page)
0.7 Link(p, q) ^ Topic(p, t) => Topic(q, t)
0.4 Topic(p, +t) ^ At(p, s)
-0.3 At(p, s)
"""
PAGES = ("Topic(P,X) Topic(Q,Y) Topic(R,X) Link(P,Q) Link(Q,R) At(P,S) place = {S, T}",)
HARD = "P(t)\nQ(t)\nP(x) v Q(x).\n1 P(x)\n0.5 P(x) ^ Q(y)"
BOTH = ("P(A) Q(A) P(B) Q(C)",)


def build(
    model: str, facts: tuple[str, ...], query: tuple[str, ...] = ()
) -> tuple[list[Example], Parameters]:
    parsed = lapis.parse(model)
    examples = build_examples(parsed, [lapis.Database.parse(text) for text in facts], query)
    return examples, share_parameters(parsed, [example.complete for example in examples])


def enumerate_likelihood(
    model: str, facts: tuple[str, ...], query: tuple[str, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """n − E[n] and the covariance of n by enumeration, for worlds that share all constants."""
    gradient, covariance = None, None
    for text in facts:
        parsed = lapis.parse(model)
        known = parse_facts(text)
        domains = oracle.constants_of(parsed, known)
        state = oracle.known_atoms(parsed, known, domains, set())
        free = {a: None if a[0] in query or not query else v for a, v in state.items()}
        data = weigh(parsed, domains, oracle.worlds_agreeing_with(state))
        worlds = weigh(parsed, domains, oracle.worlds_agreeing_with(free))
        probability = np.exp(worlds[1] - oracle.log_sum_exp(worlds[1]))
        mean = probability @ worlds[0]
        centred = worlds[0] - mean
        own = data[0][0] - mean, centred.T @ (probability[:, None] * centred)
        gradient = own[0] if gradient is None else gradient + own[0]
        covariance = own[1] if covariance is None else covariance + own[1]
    assert gradient is not None
    assert covariance is not None
    return gradient, covariance


def weigh(
    model: lapis.Model, domains: oracle.Domains, worlds: oracle.Worlds
) -> tuple[np.ndarray, np.ndarray]:
    """float64[num_worlds, num_weights] counts, and log weights."""
    weighing = oracle.weigh(model, domains, worlds)
    counts = [weighing.counts[key] for key in oracle.weight_keys(model, domains)]
    return np.stack(counts, axis=1).astype(float), weighing.log_weight


def parse_facts(text: str) -> oracle.Facts:
    """Facts without constants declared apart; a declaration adds none that the others lack."""
    atoms = []
    for word in text.split("place")[0].split():
        name, _, rest = word.partition("(")
        atoms.append((name, tuple(rest.rstrip(")").split(","))))
    return oracle.Facts(true=tuple(atoms))


CASES = {
    "all predicates": (SMOKERS, ("Friends(A,B) Smokes(B) Cancer(B)",), ()),
    "two worlds": (SMOKERS, FACTS, ("Smokes", "Cancer")),
    "blocks": (BLOCKS, (PAGES[0].replace(" place = {S, T}", " At(Q,T)"),), ("Topic", "At")),
    "hard": (HARD, BOTH, ()),
}


@pytest.mark.parametrize("name", CASES)
def test_persistent_chain_finds_the_gradient(name: str) -> None:
    model, facts, query = CASES[name]
    examples, parameters = build(model, facts, query)
    gradient, covariance = enumerate_likelihood(model, facts, query)
    objective = count_objective(examples, parameters, num_steps=12_000, seed=4)
    point = objective.evaluate(parameters.initial)
    assert point.gradient_stderr is not None
    assert (np.abs(point.gradient - gradient) <= 4 * point.gradient_stderr + 1e-9).all()
    assert (point.gradient_stderr <= 0.2 * np.sqrt(np.diag(covariance)) + 1e-9).all()
    # Four standard deviations of a variance estimated from 256 worlds.
    np.testing.assert_allclose(
        point.curvature_diagonal(), np.diag(covariance), rtol=4 * np.sqrt(2 / 256), atol=1e-9
    )
    direction = np.linspace(1.0, -0.5, len(parameters))
    np.testing.assert_allclose(
        point.curvature_product(direction),
        covariance @ direction,
        atol=0.35 * np.abs(covariance).max(),
    )


@pytest.mark.parametrize("name", CASES)
def test_restarted_chain_of_one_step_has_the_pseudo_likelihood_gradient(name: str) -> None:
    model, facts, query = CASES[name]
    examples, parameters = build(model, facts, query)
    objective = count_objective(examples, parameters, num_steps=1, start="data", seed=2)
    start = [world.chain.counts() for world in objective.worlds]
    drawn = np.array([objective.evaluate(parameters.initial).gradient for _ in range(1500)])
    expected = pseudo_gradient(model, facts, query)
    stderr = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert (np.abs(drawn.mean(axis=0) - expected) <= 4 * stderr + 1e-9).all()
    for world, counts in zip(objective.worlds, start, strict=True):
        np.testing.assert_array_equal(world.chain.counts(), counts)


def pseudo_gradient(model: str, facts: tuple[str, ...], query: tuple[str, ...]) -> np.ndarray:
    """By central differences of the definition."""
    step = 1e-5
    _, parameters = build(model, facts, query)
    predicates = query or tuple(parameters.model.predicates)
    values = []
    for sign in (1, -1):
        for number in range(len(parameters)):
            shifted = parameters.initial.copy()
            shifted[number] += sign * step
            values.append(sum(pseudo_value(model, text, predicates, shifted) for text in facts))
    up, down = np.array(values).reshape(2, -1)
    return (up - down) / (2 * step)


def pseudo_value(model: str, text: str, predicates: tuple[str, ...], weights: np.ndarray) -> float:
    """Σ log P(value | rest) by enumerating each cell's alternatives."""
    parsed, known = lapis.parse(model), parse_facts(text)
    domains = oracle.constants_of(parsed, known)
    observed = oracle.observed_world(parsed, known, domains)
    total = 0.0
    for name in predicates:
        for cell in oracle.cells_of(parsed.predicates[name], domains):
            columns = [observed.column[atom] for atom in cell.atoms]
            options = np.repeat(observed.truth, len(cell.values), axis=0)
            options[:, columns] = cell.values
            scores = []
            for truth in (observed.truth, options):
                worlds = oracle.Worlds(observed.column, truth)
                counts, _ = weigh(parsed, domains, worlds)
                possible = oracle.weigh(parsed, domains, worlds).possible
                scores.append(np.where(possible, counts @ weights, -np.inf))
            total += float(scores[0][0]) - oracle.log_sum_exp(scores[1])
    return total


@pytest.mark.parametrize("expectation", ["gibbs", "map"])
@pytest.mark.parametrize("num_steps", [3, 8, 500])
def test_independent_atoms_have_the_covariance_of_any_walk(
    expectation: Literal["gibbs", "map"], num_steps: int
) -> None:
    examples, parameters = build("P(t)\n0.3 P(x)\nt = {A,B,C,D,E,F,G,H}", ("P(A)",))
    objective = count_objective(
        examples,
        parameters,
        expectation=expectation,
        num_steps=num_steps,
        start="last" if expectation == "map" else "data",
    )
    p = 1 / (1 + np.exp(-0.3))
    point = objective.evaluate(parameters.initial)
    assert point.curvature_diagonal() == pytest.approx([8 * p * (1 - p)])
    assert point.curvature_product(np.array([2.0])) == pytest.approx([16 * p * (1 - p)])


@pytest.mark.parametrize("name", ["all predicates", "two worlds", "blocks"])
@pytest.mark.parametrize("returns", [True, False])
@pytest.mark.parametrize("rounds", [0, 1, 9])
@pytest.mark.parametrize("subtracted", [False, True])
def test_estimates_that_are_exact_walk_the_same_way(
    name: str, returns: bool, rounds: int, subtracted: bool
) -> None:
    model, facts, query = CASES[name]
    examples, parameters = build(model, facts, query)
    example = examples[0]
    weights = parameters.of_world(0, parameters.initial)
    true = {name: known.true for name, known in example.complete.evidence.items()}
    chains = (
        ExactWorld(example.complete, true),
        SubtractedWorld(example.complete, true, IjgpSettings(8))
        if subtracted
        else SubstitutedWorld(example.complete, true, IjgpSettings(8), patience=1),
    )
    exact, estimated = (
        walk(
            chain,
            asked_sites(example.free),
            weights,
            150,
            np.random.default_rng(5),
            rounds=rounds,
            returns=returns,
            records=9,
        )
        for chain in chains
    )
    for one, other in (
        (exact.counts, estimated.counts),
        (exact.pull, estimated.pull),
        (exact.pull_variance, estimated.pull_variance),
        (exact.scale, estimated.scale),
        (exact.vectors.toarray(), estimated.vectors.toarray()),
    ):
        np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-9)
    assert len(exact.counts) == 9
    if returns:
        np.testing.assert_array_equal(chains[0].counts(), FlippingWorld(example.complete).counts)


def test_counts_are_estimated_only_where_they_must_be() -> None:
    text = "E(n, n)\nS(n)\nE(x,y) ^ E(y,z) ^ E(z,u) ^ E(u,x) ^ S(x) => S(z)\n0.3 S(x)"
    facts = " ".join(f"E({a},{b})" for a in range(6) for b in range(6) if (b - a) % 6 in (1, 2, 4))
    examples, parameters = build(text, (facts + " S(0) S(3)",), ("S",))
    rough, exact = (
        count_objective(examples, parameters, ijgp=IjgpSettings(ibound), num_steps=40)
        for ibound in (1, 4)
    )
    assert isinstance(rough.worlds[0].chain, EstimatedWorld)
    assert isinstance(exact.worlds[0].chain, ExactWorld)
    assert exact.name == "contrastive divergence by ijgp(4) counts, which are exact"
    assert rough.name == "contrastive divergence by ijgp(1) counts"
    assert np.isfinite(rough.evaluate(parameters.initial).gradient).all()


def test_perceptron_finds_the_best_world_of_independent_atoms() -> None:
    model = "P(t)\nQ(t)\nR(t)\n1 P(x) ^ R(x)\n-0.5 P(x)\n2 !Q(x) v R(x)\n-0.1 Q(x)"
    examples, parameters = build(model, ("R(A) P(B) Q(B) Q(C) t = {D}",), ("P", "Q"))
    objective = count_objective(
        examples, parameters, expectation="map", num_steps=400, start="last"
    )
    point = objective.evaluate(1000 * parameters.initial)
    # Best: P where R holds, Q nowhere. n(best) = (1, 1, 4, 0); n(data) = (0, 1, 2, 2).
    np.testing.assert_array_equal(point.gradient, [-1, 0, -2, 2])
    assert point.value is None
    assert (objective.evaluate(parameters.initial).curvature_diagonal() > 0).all()


@pytest.mark.parametrize("query", [("P", "Q"), ("T",)])
def test_best_worlds_of_noisy_scores_are_draws_of_independent_atoms(query: tuple[str, ...]) -> None:
    model = "P(t)\nQ(t)\nR(t)\nT(t, c!)\n1 P(x) ^ R(x)\n-0.5 P(x)\n0.7 !Q(x) v R(x)\n0.4 T(x, +c)"
    facts = ("R(A) P(B) Q(B) Q(C) R(D) T(A,X) T(B,Y) T(C,Z) T(D,X)",)
    gradient, _ = enumerate_likelihood(model, facts, query)
    examples, parameters = build(model, facts, query)
    objective = count_objective(examples, parameters, expectation="map", num_steps=4000)
    points = [objective.evaluate(parameters.initial) for _ in range(20)]
    drawn = np.array([point.gradient for point in points])
    stderr = drawn.std(axis=0, ddof=1)
    assert (np.abs(drawn.mean(axis=0) - gradient) <= 5 * stderr / np.sqrt(20) + 1e-9).all()
    claimed = np.sqrt(np.mean([point.gradient_stderr**2 for point in points], axis=0))
    assert (stderr <= 2.5 * claimed + 1e-9).all()


@pytest.mark.parametrize("expectation", ["gibbs", "map"])
def test_friends_are_learned_beyond_frequencies(
    expectation: Literal["gibbs", "map"],
) -> None:
    """Three in ten smoke, mostly among friends: a best world without noise has all or none."""
    model = "Friends(p, p)\nSmokes(p)\n0 Smokes(x)\nFriends(x, y) ^ Smokes(x) => Smokes(y)"
    groups = ["ABC", "DEF", "GHI", "JK"]
    friends = [f"Friends({a},{b})" for group in groups for a in group for b in group if a != b]
    facts = (" ".join(friends) + " Smokes(A) Smokes(B) Smokes(C) Smokes(D)",)
    examples, parameters = build(model, facts, ("Smokes",))
    objective = count_objective(examples, parameters, expectation=expectation, num_steps=400)
    found = maximize(
        objective, make_optimizer("dn"), np.zeros(2), max_iterations=40, tolerance=1e-3
    )
    exact = conditional_objective(examples, parameters, expectation="exact")
    value = exact.evaluate(found.weights).value
    assert value is not None
    assert value > 4 * np.log(4 / 11) + 7 * np.log(7 / 11) + 0.3


@pytest.mark.parametrize("expectation", ["gibbs", "map"])
@pytest.mark.parametrize("start", ["data", "last"])
def test_a_chain_goes_on_from_where_it_was_kept(
    expectation: Literal["gibbs", "map"], start: Literal["data", "last"]
) -> None:
    def build_new() -> CountObjective:
        examples, parameters = build(BLOCKS, PAGES, ("Topic", "At"))
        return count_objective(
            examples, parameters, expectation=expectation, num_steps=30, start=start
        )

    whole, before, after = build_new(), build_new(), build_new()
    weights = whole.parameters.initial
    for _ in range(3):
        whole.evaluate(weights)
        before.evaluate(weights)
    after.evaluate(2 * weights)
    after.resume(before.keep())
    for _ in range(3):
        one, other = whole.evaluate(weights), after.evaluate(weights)
        np.testing.assert_array_equal(one.gradient, other.gradient)
        np.testing.assert_array_equal(one.curvature_diagonal(), other.curvature_diagonal())


def test_perceptron_leaves_weights_of_zero() -> None:
    examples, parameters = build("P(t)\nP(x)\nt = {A, B, C, D, E, F, G, H}", ("P(A)",))
    objective = count_objective(examples, parameters, expectation="map", num_steps=100)
    drawn = [objective.evaluate(np.zeros(1)).gradient[0] for _ in range(100)]
    assert np.mean(drawn) == pytest.approx(1 - 4, abs=4 * np.sqrt(8 / 4 / 100))


def test_perceptron_from_the_data() -> None:
    """One step: each atom that would be better otherwise pulls with its difference."""
    model = "P(t)\nQ(t)\n1 P(x) ^ Q(x)\n-0.5 P(x)\n0.3 T(x, A)\nT(t, c!)\nc = {A, B}"
    examples, parameters = build(model, ("Q(A) P(B) T(A,B) T(B,A)",), ("P", "T"))
    objective = count_objective(
        examples, parameters, expectation="map", num_steps=1, start="data", seed=1
    )
    weights = 1000 * parameters.initial
    drawn = np.array([objective.evaluate(weights).gradient for _ in range(400)])
    # P(A) and not P(B), T(A,A): three of four sites move, each drawn with a quarter's weight.
    stderr = drawn.std(axis=0) / 20
    assert (np.abs(drawn.mean(axis=0) - [-1, 0, -1]) <= 4 * stderr).all()


def test_perceptron_gives_blocks_their_best_value() -> None:
    examples, parameters = build(
        "T(p, c!)\n0.5 T(x, A)\n1 T(x, B)\nc = {A, B, C}", ("T(P, A) T(Q, C)",)
    )
    objective = count_objective(examples, parameters, expectation="map", num_steps=50)
    np.testing.assert_array_equal(objective.evaluate(1000 * parameters.initial).gradient, [1, -2])


@given(cases())
def test_sites_are_the_undecided_atoms(case: Case) -> None:
    problem = lapis.build_problem(
        lapis.parse(case.model), lapis.Database.parse(case.data), case.query
    )
    try:
        unknown = number_unknown_atoms(apply_blocks(problem), problem.domains)
    except LapisError:
        return  # data that contradict a block
    found = {each.predicate.name: each for each in asked_sites(problem)}
    for name, atoms in unknown.items():
        if not atoms.num_unknown:
            assert name not in found
            continue
        sites = found[name]
        if sites.shape is None:
            rows = sites.rows(np.arange(len(sites)))
        else:
            order = np.random.default_rng(0).permutation(len(sites))
            blocks = sites.blocks(order)
            rows = blocks.rows
            parts = np.split(sites.shape.keys(rows), blocks.start[1:-1])
            assert [np.unique(part).size for part in parts] == [1] * len(sites)
            assert len({part[0] for part in parts}) == len(sites)
        assert set(map(tuple, rows.tolist())) == set(map(tuple, atoms.unknown.tolist()))
        assert len(rows) == atoms.num_unknown


def test_counts_of_the_data() -> None:
    examples, parameters = build(SMOKERS, FACTS, ("Smokes", "Cancer"))
    objective = count_objective(examples, parameters)
    expected = sum(
        np.array([true for true, _ in oracle.count_true(parameters.model, parse_facts(t)).values()])
        for t in FACTS
    )
    counts = [parameters.to_parameters(i, w.counts) for i, w in enumerate(objective.worlds)]
    np.testing.assert_array_equal(sum(counts), expected)
    undecided = sum(undecided_counts(each.complete, each.asked) for each in examples)
    np.testing.assert_array_equal(objective.true_counts, undecided)
    assert objective.true_counts[2] == 0  # of Friends, which is given


def test_the_same_seed_gives_the_same_course() -> None:
    examples, parameters = build(SMOKERS, FACTS, ("Smokes",))

    def gradients(objective: CountObjective) -> np.ndarray:
        return np.array([objective.evaluate(parameters.initial).gradient for _ in range(3)])

    first, again, other = (
        gradients(count_objective(examples, parameters, num_steps=7, seed=seed))
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_only_listed_atoms_move() -> None:
    parsed = lapis.parse("P(t)\nP(x)")
    data = lapis.Database.parse("P(A) !P(B) t = {C, D}")
    examples = build_examples(parsed, [data], ["P"], only_listed=True)
    parameters = share_parameters(parsed, [examples[0].complete])
    objective = count_objective(examples, parameters, num_steps=200)
    assert objective.num_atoms == 2
    for _ in range(3):
        objective.evaluate(np.array([3.0]))
        assert objective.worlds[0].chain.counts()[0] <= 2


def test_nothing_asked() -> None:
    examples, parameters = build("P(t)\nQ(t)\nP(x) => Q(x)", ("",), ("Q",))
    point = count_objective(examples, parameters).evaluate(np.zeros(1))
    np.testing.assert_array_equal(point.gradient, [0.0])
    np.testing.assert_array_equal(point.curvature_diagonal(), [0.0])


def test_chains_persist_where_they_go_round() -> None:
    examples, parameters = build("P(t)\nP(x)\nt = {A, B, C, D}", ("P(A)",))
    assert not count_objective(examples, parameters, num_steps=7).persistent
    assert count_objective(examples, parameters, num_steps=8).persistent


@pytest.mark.parametrize("num_atoms", [3, 400, 9_000, 30_000])
def test_an_evaluation_visits_as_many_sites_as_there_are(num_atoms: int) -> None:
    names = ", ".join(f"A{number}" for number in range(num_atoms))
    examples, parameters = build(f"P(t)\nP(x)\nt = {{{names}}}", ("P(A0)", "P(A1)"))
    objective = count_objective(examples, parameters)
    for world in objective.worlds:
        assert world.num_sites == num_atoms
        assert world.num_steps >= num_atoms
    total = sum(world.num_steps for world in objective.worlds)
    assert objective.persistent == (total >= PERSISTENT_SWEEPS * 2 * num_atoms)


RING = """
Friends(person, person)
Old(person)
Smokes(person)
{0} Smokes(x)
{1} Old(x) => Smokes(x)
{2} Friends(x, y) ^ Smokes(x) => Smokes(y)
"""


def draw_ring(size: int, weights: tuple[float, float, float], rng: np.random.Generator) -> str:
    """Facts of a ring of friends whose smokers are a draw of the model, by Gibbs sampling."""
    unit, old_weight, friend_weight = weights
    old, smokes = rng.random(size) < 0.5, rng.random(size) < 0.5
    for _ in range(200):
        for at, u in enumerate(rng.random(size).tolist()):
            # Smoking keeps the rule of the friend before, and puts that of the next at risk.
            before, after = smokes[at - 1], smokes[(at + 1) % size]
            score = unit + old_weight * old[at]
            score += friend_weight * (int(before) - int(not after))
            smokes[at] = u < 1 / (1 + np.exp(-score))
    links = [f"Friends(P{at},P{(at + 1) % size})" for at in range(size)]
    facts = [f"Old(P{at})" for at in np.flatnonzero(old)]
    return " ".join(links + facts + [f"Smokes(P{at})" for at in np.flatnonzero(smokes)])


@pytest.mark.slow
@pytest.mark.parametrize("expectation", ["gibbs", "map"])
@pytest.mark.parametrize("sweeps", [1, 2, 20])
def test_what_is_learned_predicts_better_than_frequencies(
    expectation: Literal["gibbs", "map"], sweeps: int
) -> None:
    """Of a known model: near its own score on held-out data, by exact inference."""
    size, true = 200, (-0.5, 1.5, 1.5)
    rng = np.random.default_rng(3)
    training, test = draw_ring(size, true, rng), draw_ring(size, true, rng)
    examples, parameters = build(RING.format("", "", ""), (training,), ("Smokes",))
    objective = count_objective(
        examples, parameters, expectation=expectation, num_steps=sweeps * size
    )
    assert objective.persistent == (sweeps >= PERSISTENT_SWEEPS)
    trajectory = maximize(objective, make_optimizer("dn"), np.zeros(3), max_iterations=40)
    rate = training.count("Smokes") / size
    smokers = {word for word in test.split() if word.startswith("Smokes")}
    share = len(smokers) / size
    base = share * np.log(rate) + (1 - share) * np.log(1 - rate)
    given = " ".join(word for word in test.split() if word not in smokers)

    def score(weights: tuple[float, ...]) -> float:
        answer = lapis.infer(
            lapis.parse(RING.format(*weights)), lapis.Database.parse(given), query=["Smokes"]
        )
        assert answer.exact
        true = np.array([f"Smokes(P{at})" in smokers for at in range(size)])
        found = np.array([answer[f"Smokes(P{at})"] for at in range(size)])
        return float(np.log(np.where(true, found, 1 - found)).mean())

    learned, ideal = score(tuple(trajectory.weights.tolist())), score(true)
    assert learned > base
    assert learned - base > 0.5 * (ideal - base) > 0


def two_steps_from_the_data(weights: np.ndarray, truth: tuple[bool, ...]) -> np.ndarray:
    """(n(ω1) + n(ω2)) / 2 of Algorithm 1 with N = K = 2, averaged over all atoms and values.

    The model is P(x) and P(x) ^ P(y).
    """

    def count(world: tuple[bool, ...]) -> np.ndarray:
        return np.array([sum(world), sum(world) ** 2], float)

    def steps(world: tuple[bool, ...]) -> list[tuple[float, tuple[bool, ...]]]:
        found = []
        for atom in range(len(world)):
            options = [(*world[:atom], value, *world[atom + 1 :]) for value in (False, True)]
            score = np.array([weights @ count(option) for option in options])
            chance = np.exp(score - score.max())
            chance /= chance.sum() * len(world)
            found += list(zip(chance.tolist(), options, strict=True))
        return found

    total = np.zeros(2)
    for p, first in steps(truth):
        for q, second in steps(first):
            total += p * q * (count(first) + count(second)) / 2
    return total


def test_the_update_of_algorithm_one() -> None:
    """A chain of N = 2 steps from the data, K = 2 of whose worlds are averaged."""
    examples, parameters = build("P(t)\n0.7 P(x)\n-0.4 P(x) ^ P(y)\nt = {A, B, C}", ("P(A)",))
    objective = count_objective(examples, parameters, num_steps=2, num_records=2, start="data")
    drawn = np.array([objective.evaluate(parameters.initial).gradient for _ in range(4000)])
    expected = np.ones(2) - two_steps_from_the_data(parameters.initial, (True, False, False))
    stderr = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert (np.abs(drawn.mean(axis=0) - expected) <= 4 * stderr).all()
    assert (stderr > 0).all()
    np.testing.assert_array_equal(objective.worlds[0].chain.counts(), [1, 1])  # back in the data


def test_as_many_worlds_are_averaged_as_asked_for() -> None:
    examples, parameters = build(SMOKERS, FACTS, ("Smokes", "Cancer"))
    for number in (1, 3):
        objective = count_objective(examples, parameters, num_steps=100, num_records=number)
        assert {objective.num_records_of(world) for world in objective.worlds} == {number}
    short = count_objective(examples, parameters, num_steps=4, num_records=4, start="last")
    assert [short.num_records_of(world) for world in short.worlds] == [
        world.num_steps for world in short.worlds
    ]


def test_estimated_counts_go_on_from_where_they_were_kept() -> None:
    """Messages are not kept: an evaluation starts from those of its world."""

    def build_new() -> CountObjective:
        examples, parameters = build(BLOCKS, PAGES, ("Topic", "At"))
        ijgp = IjgpSettings(1, max_iterations=2, differences="subtracted")
        return count_objective(examples, parameters, ijgp=ijgp, num_steps=12, start="last")

    whole, before, after = build_new(), build_new(), build_new()
    assert isinstance(whole.worlds[0].chain, SubtractedWorld)
    weights = whole.parameters.initial
    for _ in range(2):
        whole.evaluate(weights)
        before.evaluate(weights)
    after.evaluate(2 * weights)
    after.resume(before.keep())
    for _ in range(2):
        one, other = whole.evaluate(weights), after.evaluate(weights)
        np.testing.assert_array_equal(one.gradient, other.gradient)


def test_errors() -> None:
    examples, parameters = build(SMOKERS, FACTS)
    with pytest.raises(LapisError, match="20 worlds cannot be recorded in 10 steps") as caught:
        count_objective(examples, parameters, num_steps=10, num_records=20)
    assert caught.value.code == "too-many-records"
    with pytest.raises(LapisError, match="num_steps must be at least 1"):
        count_objective(examples, parameters, num_steps=0)
    broken, shared = build(HARD, ("P(A) P(B) t = {C}",))
    with pytest.raises(LapisError, match="the data violate the hard rule"):
        count_objective(broken, shared)
    with pytest.raises(LapisError, match="hard rules need exact counts"):
        count_objective(*build(HARD, BOTH), ijgp=IjgpSettings())
    hidden = build_examples(lapis.parse(SMOKERS), [lapis.Database.parse("?Smokes(A)")])
    with pytest.raises(LapisError, match="needs complete data"):
        count_objective(hidden, share_parameters(hidden[0].complete.model, [hidden[0].complete]))
