"""MaxWalkSAT by counts: violated groundings, moves and best worlds against enumeration."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given

import lapis
import oracle
from lapis.counting.ijgp import IjgpCounter, IjgpSettings
from lapis.counting.ijgp.counter import plus_shape
from lapis.counting.totals import count_true_groundings
from lapis.errors import LapisError, TooLarge
from lapis.inference.sampling.counted_world import (
    CountedWorld,
    ExactWorld,
    SubstitutedWorld,
    SubtractedWorld,
    count_world,
)
from lapis.language.syntax import Constant
from lapis.learning.examples import Example, build_examples
from lapis.learning.objectives import count_maxwalksat
from lapis.learning.objectives.count_based import CountObjective, count_objective, data_world
from lapis.learning.objectives.count_maxwalksat import (
    ViolatedGroundings,
    search_by_counts,
    true_clauses,
)
from lapis.learning.objectives.count_walk import asked_sites
from lapis.learning.parameters import Parameters, share_parameters
from lapis.logic.clauses import Clause, Feature, Literal, NormalForm
from lapis.problem.problem import Problem
from lapis.registry.options import ChainStart
from strategies import Case, cases

FRIENDS = """
person = {A, B, C}
Friends(person, person)
Smokes(person)
Cancer(person)
0.6 Smokes(x) => Cancer(x)
0.4 Friends(x, y) ^ Smokes(x) => Smokes(y)
-0.5 Friends(x, y)
-0.9 Friends(x, y) ^ Friends(y, x) ^ x != y
-0.3 Smokes(x) v Cancer(x)
"""
FACTS = "Friends(A,B) Friends(B,C) Friends(C,A) Smokes(B) Cancer(B)"
BLOCKS = """
page = {P, Q, R}
topic = {X, Y}
place = {S, T}
Topic(page, topic!)
At(page, place?)
Link(page, page)
0.7 Link(p, q) ^ Topic(p, t) => Topic(q, t)
0.4 Topic(p, +t) ^ At(p, s)
-1.3 At(p, S)
"""
PAGES = "Topic(P,X) Topic(Q,Y) Topic(R,X) Link(P,Q) Link(Q,R) At(P,S) At(Q,T)"
HARD = "t = {A, B, C}\nP(t)\nQ(t)\nP(x) v Q(x).\n-1 P(x)\n-0.5 P(x) ^ Q(y)"
BOTH = "P(A) Q(A) P(B) Q(C)"
WAYS = {
    "exact": None,
    "substituted": IjgpSettings(3),
    "subtracted": IjgpSettings(3, differences="subtracted"),
}


def build(model: str, facts: str, query: tuple[str, ...] = ()) -> tuple[list[Example], Parameters]:
    parsed = lapis.parse(model)
    examples = build_examples(parsed, [lapis.Database.parse(facts)], query)
    return examples, share_parameters(parsed, [example.complete for example in examples])


def score(problem: Problem, chain: CountedWorld, weights: np.ndarray) -> float:
    """w · n by exact counting."""
    true = {name: chain.true_rows(name) for name in problem.model.predicates}
    counts, _ = count_true_groundings(problem.normal_form, problem.model, problem.domains, true)
    return float(weights @ np.array(counts, float))


Grounding = tuple[int, frozenset[tuple[str, str]]]  # rule, constants of its variables


def violated_groundings(model: str, facts: str) -> set[Grounding]:
    """By going through all groundings: those that are not as their weight wants them."""
    parsed, known = lapis.parse(model), parse_facts(facts)
    domains = oracle.constants_of(parsed, known)
    world = oracle.observed_world(parsed, known, domains)
    found = set()
    for number, rule in enumerate(parsed.rules):
        for binding in oracle.bindings(rule.variables, domains):
            is_true = bool(oracle.holds(rule, binding, world, domains)[0])
            assert rule.weight is not None
            if rule.weight and is_true == (rule.weight < 0):
                found.add((number, frozenset(binding.items())))
    return found


def parse_facts(text: str) -> oracle.Facts:
    atoms = [word.rstrip(")").split("(") for word in text.split()]
    return oracle.Facts(true=tuple((name, tuple(rest.split(","))) for name, rest in atoms))


def draw_groundings(model: str, facts: str, number: int, ibound: int) -> Counter[Grounding]:
    problem = lapis.build_problem(lapis.parse(model), lapis.Database.parse(facts))
    true = {name: known.true for name, known in problem.evidence.items()}
    chain = count_world(problem, true, None, (), 0)
    violated = ViolatedGroundings(
        problem, chain, problem.model.predicates, problem.weight_table.value, IjgpSettings(ibound)
    )
    assert violated.prepare()
    rng, rules = np.random.default_rng(3), problem.model.rules
    found: Counter[Grounding] = Counter()
    for _ in range(number):
        drawn = violated.draw_grounding(rng)
        assert drawn is not None
        rule, kinds = drawn.rule, dict(rules[drawn.rule].variables)
        known = {n: problem.domains[kinds[n]].constants[code] for n, code in drawn.value.items()}
        # A cube may leave variables open; then it is true for all of their constants.
        domains = {kind: domain.constants for kind, domain in problem.domains.items()}
        for binding in oracle.bindings([v for v in kinds.items() if v[0] not in known], domains):
            found[rule, frozenset({**known, **binding}.items())] += 1
    return found


def test_violated_groundings_are_drawn_alike() -> None:
    expected, number = violated_groundings(FRIENDS, FACTS), 4000
    found = draw_groundings(FRIENDS, FACTS, number, ibound=2)
    assert found.keys() == expected
    mean = number / len(expected)
    assert max(abs(count - mean) for count in found.values()) < 5 * np.sqrt(mean)


@pytest.mark.parametrize("weight", [1, -1])
def test_groundings_of_a_cycle_are_violated_ones(weight: int) -> None:
    """Drawn from loopy messages, not all alike; but all are reached, and no others are."""
    model = f"E(n, n)\n{weight} E(x,y) ^ E(y,z) => E(x,z)"
    facts = "E(A,B) E(B,C) E(C,D) E(D,A) E(A,C) E(B,A) E(C,C)"
    assert draw_groundings(model, facts, 2000, 1).keys() == violated_groundings(model, facts)


def test_plus_variables_and_quantifiers() -> None:
    model = "P(t)\nQ(t, u)\n1 P(+x) ^ Q(x, y)\n1 P(x) => (EXIST y Q(x, y))"
    facts = "P(A) P(B) Q(B,U) Q(C,V)"
    problem = lapis.build_problem(lapis.parse(model), lapis.Database.parse(facts))
    chain = count_world(problem, {n: e.true for n, e in problem.evidence.items()}, None, (), 0)

    def violated_at(*weights: float) -> ViolatedGroundings:
        found = ViolatedGroundings(problem, chain, "PQ", np.array(weights), IjgpSettings())
        assert found.prepare() == any(weights)
        return found

    # P(+x) ^ Q(x, y) has weights for A, B, C; only P(A) lacks a Q.
    violated = violated_at(0.0, 0.0, -1.0, 1.0)
    rng = np.random.default_rng(0)
    drawn = {frozenset(violated.draw(rng)) for _ in range(50)}
    a, u, v = (problem.domains[k].index[c] for k, c in (("t", "A"), ("u", "U"), ("u", "V")))
    assert drawn == {frozenset({("P", (a,)), ("Q", (a, each))}) for each in (u, v)}
    b = problem.domains["t"].index["B"]
    assert set(violated_at(0.0, -1.0, 0.0, 0.0).draw(rng)) == {("P", (b,)), ("Q", (b, u))}
    violated_at(0.0, 0.0, 0.0, 0.0)


def test_what_evidence_decides_is_not_drawn() -> None:
    model = "E(t)\nP(t)\n2 E(x)\n1 E(x) ^ P(x)\n-1 E(x) v P(x)"
    facts = "E(A) P(B)"
    problem = lapis.build_problem(lapis.parse(model), lapis.Database.parse(facts))
    chain = count_world(problem, {n: e.true for n, e in problem.evidence.items()}, None, (), 0)
    rng, weights = np.random.default_rng(0), problem.weight_table.value
    violated = ViolatedGroundings(problem, chain, "P", weights, IjgpSettings())
    assert violated.prepare()
    drawn = [violated.draw(rng) for _ in range(100)]
    assert all(any(atom.predicate == "P" for atom in atoms) for atoms in drawn)
    for movable, changed in (("P", weights * [1, 0, 0]), ("", weights)):
        assert not ViolatedGroundings(problem, chain, movable, changed, IjgpSettings()).prepare()


@given(cases(observed=True))
def test_negated_formulas_are_true_in_disjoint_cubes(case: Case) -> None:
    """Their solutions add up to the true groundings, for each weight."""
    model = lapis.parse(case.model)
    problem = lapis.build_problem(model, lapis.Database.parse(case.data))
    soft = [feature for feature in problem.normal_form.features if not feature.hard]
    assume(soft)
    form = NormalForm(
        tuple(count_maxwalksat.replace_clauses(each, true_clauses(each)) for each in soft),
        problem.normal_form.definitions,
    )
    true = {name: known.true for name, known in problem.evidence.items()}
    found = IjgpCounter(form, model, problem.domains, IjgpSettings(20))
    found.count(true)
    counts, _ = count_true_groundings(problem.normal_form, model, problem.domains, true)
    solutions = [
        sum((found.false_groundings(n, c) for c in range(len(feature.clauses))), np.zeros(()))
        for n, feature in enumerate(form.features)
    ]
    assume(not any(" < " in r.text or " > " in r.text for r in case.rules))
    flat = [
        np.broadcast_to(s, plus_shape(f, problem.domains))
        for s, f in zip(solutions, soft, strict=True)
    ]
    np.testing.assert_allclose(np.concatenate([each.ravel() for each in flat]), counts)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("model", "facts"), [(FRIENDS, FACTS), (BLOCKS, PAGES)])
def test_gains_are_changes_of_the_score(way: str, model: str, facts: str) -> None:
    """With i = 3 all estimates are exact here; worlds stay as they are."""
    examples, parameters = build(model, facts)
    problem, weights = examples[0].complete, parameters.initial
    true = {name: known.true for name, known in problem.evidence.items()}
    ijgp = WAYS[way]
    if ijgp is None:
        chain: CountedWorld = ExactWorld(problem, true)
    elif ijgp.differences == "subtracted":
        chain = SubtractedWorld(problem, true, ijgp)
    else:
        chain = SubstitutedWorld(problem, true, ijgp, patience=1)
    rng = np.random.default_rng(2)
    for own in asked_sites(examples[0].free):
        for site in range(len(own)):
            if own.shape is None:
                rows = own.rows(np.array([site]))
            else:
                atoms = own.blocks(np.array([site])).rows
                name = own.predicate.name
                held = np.array([chain.is_true(name, row) for row in atoms.tolist()], bool)
                rows = np.concatenate([atoms[held], atoms[~held][:1]])
            before = score(problem, chain, weights)
            gain = chain.gain(own.predicate.name, rows, weights)
            assert score(problem, chain, weights) == before
            chain.flip([(own.predicate.name, rows)])
            assert gain.kept == 0
            assert gain.score == pytest.approx(score(problem, chain, weights) - before, abs=1e-9)
            if rng.random() < 0.5:
                chain.flip([(own.predicate.name, rows[::-1])])


def best_worlds(model: str, facts: str, query: tuple[str, ...]) -> oracle.OracleAnswer:
    given = [word for word in facts.split() if word.split("(")[0] not in query]
    return oracle.infer(lapis.parse(model), parse_facts(" ".join(given)), query)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("model", "facts"),
    [(FRIENDS, FACTS), (BLOCKS, PAGES), (HARD, BOTH)],
    ids=["free", "blocks", "hard"],
)
def test_finds_the_best_world(model: str, facts: str, way: str) -> None:
    if way != "exact" and model == HARD:
        return  # hard rules need exact counts
    query = ("Topic", "At") if model == BLOCKS else ()
    examples, parameters = build(model, facts, query)
    problem, weights = examples[0].complete, parameters.initial
    best = best_worlds(model, facts, query or tuple(problem.model.predicates))
    for seed in range(2):
        sites, rng = asked_sites(examples[0].free), np.random.default_rng(seed)
        chain = data_world(examples[0], WAYS[way], sites)
        start = score(problem, chain, weights)
        moves = search_by_counts(chain, sites, problem, weights, 200, rng, IjgpSettings())
        assert score(problem, chain, weights) == pytest.approx(best.map_score)
        assert chain.num_broken == 0
        count_maxwalksat.undo(chain, moves)
        assert score(problem, chain, weights) == pytest.approx(start)


@given(cases(observed=True))
def test_random_models_are_searched(case: Case) -> None:
    """Never worse than the data or better than the best; blocks and hard rules are kept."""
    model = lapis.parse(case.model)
    try:
        examples = build_examples(model, [lapis.Database.parse(case.data)])
        sites, problem = asked_sites(examples[0].free), examples[0].complete
        chain = data_world(examples[0], None, sites)
    except LapisError as error:  # data that the model calls impossible
        assume(error.code not in ("data-breaks-hard-rule", "block-violated"))
        raise
    weights = problem.weight_table.value
    start = score(problem, chain, weights)
    moves = search_by_counts(
        chain, sites, problem, weights, 30, np.random.default_rng(0), IjgpSettings()
    )
    found = {name: chain.true_rows(name) for name in model.predicates}
    known = tuple(
        (name, tuple(problem.domains[t].constants[c] for t, c in zip(p.types, row, strict=True)))
        for name, p in model.predicates.items()
        for row in found[name].tolist()
    )
    domains = {kind: domain.constants for kind, domain in problem.domains.items()}
    world = oracle.observed_world(model, oracle.Facts(true=known), domains)
    (log_weight,) = oracle.weigh(model, domains, world).log_weight
    assert log_weight == pytest.approx(score(problem, chain, weights))
    assert log_weight >= start - 1e-9
    assert oracle.satisfies_blocks(model, domains, world).all()
    count_maxwalksat.undo(chain, moves)
    assert score(problem, chain, weights) == pytest.approx(start)


def test_the_gradient_is_that_of_the_best_world() -> None:
    examples, parameters = build(FRIENDS, FACTS)
    (world,) = best_worlds(FRIENDS, FACTS, tuple(parameters.model.predicates)).map_worlds
    known = parse_facts(" ".join(world))
    data, other = (
        np.array([true for true, _ in oracle.count_true(lapis.parse(FRIENDS), each).values()])
        for each in (parse_facts(FACTS), known)
    )
    starts: tuple[ChainStart, ...] = ("data", "last", "random")
    for start in starts:
        objective = count_objective(
            examples, parameters, expectation="maxwalksat", num_steps=400, start=start
        )
        found = [objective.evaluate(parameters.initial).gradient for _ in range(2)]
        np.testing.assert_array_equal(found, [data - other] * 2)


def new_objective(start: ChainStart) -> CountObjective:
    examples, parameters = build(BLOCKS, PAGES, ("Topic", "At"))
    ijgp = IjgpSettings(1, differences="subtracted")
    return count_objective(
        examples,
        parameters,
        expectation="maxwalksat",
        ijgp=ijgp,
        num_steps=9,
        start=start,
    )


@pytest.mark.parametrize("start", ["data", "last", "random"])
def test_a_seed_decides_and_a_search_goes_on_from_where_it_was_kept(
    start: ChainStart,
) -> None:
    whole, before, after = (new_objective(start) for _ in range(3))
    weights = whole.parameters.initial
    for _ in range(2):
        whole.evaluate(weights)
        before.evaluate(weights)
    after.evaluate(-weights)
    after.resume(before.keep())
    for _ in range(2):
        one, other = whole.evaluate(weights), after.evaluate(weights)
        np.testing.assert_array_equal(one.gradient, other.gradient)
        np.testing.assert_array_equal(one.curvature_diagonal(), other.curvature_diagonal())


def test_weights_of_zero_move_from_random_worlds_only() -> None:
    examples, parameters = build("P(t)\nP(x)\nt = {A,B,C,D,E,F,G,H}", "P(A) P(B)")
    gradients = {}
    for start in ("data", "random"):
        objective = count_objective(
            examples, parameters, expectation="maxwalksat", num_steps=50, start=start
        )
        gradients[start] = [objective.evaluate(np.zeros(1)).gradient[0] for _ in range(200)]
    assert set(gradients["data"]) == {0.0}
    assert np.mean(gradients["random"]) == pytest.approx(2 - 4, abs=4 * np.sqrt(2 / 200))


def test_learning_prefers_the_data() -> None:
    """Smokers' friends smoke: the learned best world has as many counts as the data."""
    model = lapis.parse("F(p, p)\nS(p)\nF(x, y) ^ S(x) => S(y)\nS(x)")
    groups = ("ABC", "DEF", "GH")
    friends = [f"F({a},{b})" for group in groups for a in group for b in group if a != b]
    data = lapis.Database.parse(" ".join([*friends, "S(A)", "S(B)", "S(C)"]))
    fit = lapis.learn(
        model, data, "S", expectation="count-maxwalksat", num_steps=60, max_iterations=30
    )
    assert fit.optimizer == "vp"
    assert fit["F(x, y) ^ S(x) => S(y)"] > 0.1
    assert any("leave the length of the weights open" in each for each in fit.warnings)


def test_searches_that_are_too_short_say_so() -> None:
    model, data = lapis.parse("P(t)\nP(x)"), lapis.Database.parse("t = {1, ..., 20} P(1)")
    options = {"expectation": "count-maxwalksat", "max_iterations": 1}
    words = (
        "5 flips from random worlds of 20 atoms do not reach most likely worlds; set more "
        "--num-steps, or --chain-start last"
    )
    assert words in lapis.learn(model, data, "P", num_steps=5, **options).warnings
    for kept in ({"num_steps": 20}, {"num_steps": 5, "chain_start": "last"}):
        assert words not in lapis.learn(model, data, "P", **kept, **options).warnings


def test_a_random_start_is_refused_with_hard_rules() -> None:
    examples, parameters = build(HARD, BOTH)
    with pytest.raises(LapisError) as caught:
        count_objective(examples, parameters, expectation="maxwalksat", start="random")
    assert caught.value.code == "hard-random-start"
    assert caught.value.message == (
        "MaxWalkSAT by counts cannot start in a random world: it may break hard rules"
    )
    assert count_objective(examples, parameters, expectation="maxwalksat").start == "data"


def test_too_many_cubes_are_refused() -> None:
    clauses = [
        Clause(tuple(Literal(name, (Constant(f"C{n}"),), True) for name in "PQ")) for n in range(11)
    ]
    with pytest.raises(TooLarge, match="is true in more than 1,000 ways"):
        true_clauses(Feature(0, (), (), tuple(clauses), -10, hard=False))
