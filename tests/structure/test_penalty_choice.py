"""Prices chosen on held-out parts, the parts, and propositions, compared with definitions."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lapis
from lapis.optimisation.replay_log import ReplayLog
from lapis.runtime.progress import Stop
from lapis.structure.candidates import Candidate, PathAtom, canonicalize_clause, is_range_restricted
from lapis.structure.clause_scores import ClauseScore, Scorer
from lapis.structure.ensemble import Ensemble
from lapis.structure.learn_rules import warn_lost_gains
from lapis.structure.learned_rules import LearnedRules
from lapis.structure.learners.forward import ForwardOptions, find_candidates
from lapis.structure.penalty_choice import (
    LEVELS,
    SHARES,
    Parts,
    PenaltyCandidates,
    choose_level,
    choose_prices,
    hold_out,
)
from lapis.structure.pricing import HeldOut, PredicateGain, Prices, nat_pricing
from lapis.structure.rule_search import RuleSearch
from lapis.structure.select import LearnedClause, Selection
from lapis.structure.training_data import TrainingData, join_worlds

ADVICE = lapis.parse("adv(p,p)\nteach(p,c)\nassist(p,c)\ntall(p)")
PEOPLE = lapis.parse("P(a)\nQ(a)\nR(a, a)\nS(a, b)\n")


def advice(seed: int, students: int, noise: float = 0.5) -> lapis.Database:
    """Return a world in which students mostly assist their adviser's course; tall is random."""
    generator = np.random.default_rng(seed)
    facts = [f"teach(Prof{p},Course{p})" for p in range(8)]
    for s in range(students):
        p = s % 8
        course = p if generator.random() >= noise else int(generator.integers(8))
        facts += [f"adv(Prof{p},Stud{s})", f"assist(Stud{s},Course{course})"]
        facts += [f"tall(Stud{s})"] * bool(generator.random() < 0.5)
    return lapis.Database.parse(" ".join(facts))


def wpll(found: LearnedRules, data: lapis.Database) -> float:
    return lapis.score(found.model, data, likelihood=False).weighted_pseudo_log_likelihood


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("seed", "students"),
    [
        (0, 40),
        *(pytest.param(seed, 40, marks=SLOW) for seed in (1, 2, 3, 6, 7)),
        pytest.param(2, 60, marks=SLOW),
    ],
)
def test_rules_of_one_world_predict_others(seed: int, students: int) -> None:
    """Counts of tall people determine each atom of this world, and none of another world."""
    found = lapis.learn_structure(ADVICE, advice(seed, students), jobs=1, max_literals=3)
    planted = "adv(p1, p2) ^ assist(p2, c) ^ teach(p1, c)"
    assert planted in [rule.text for rule in found.rules]
    units = lapis.learn_structure(ADVICE, advice(seed, students), jobs=1, penalty=100.0)
    for other, size in ((11, 40), (12, 24), (13, 80)):
        assert wpll(found, advice(other, size)) > wpll(units, advice(other, size))
    assert found.held_out is not None
    assert found.held_out.split_by == "p"
    assert set(found.held_out.predicates) == {"adv", "teach", "assist", "tall"}
    assert 0 < found.held_out.gain < found.value - found.unit_value + 0.1


def test_the_result_says_what_was_chosen_and_how_far_it_carries() -> None:
    found = lapis.learn_structure(ADVICE, advice(0, 40), jobs=1, max_literals=2)
    document = found.document()
    assert set(document["penalties"]) == {"adv", "teach", "assist", "tall"}
    for name, size in (("adv", 48 * 48), ("teach", 48 * 8), ("tall", 48)):
        own = found.penalties[name]
        assert own.nats in LEVELS
        assert own.score == pytest.approx(own.nats / size)
    held = found.held_out
    assert held is not None
    said = (
        f"gain in parts held out: {held.gain:.4f}, {held.training_gain:.4f} where the same rules "
        "were learned (4 parts, by constants of type p)"
    )
    assert said in found.text
    assert said in found.remarks()
    assert document["held_out"]["gain"] == held.gain
    given = lapis.learn_structure(ADVICE, advice(0, 40), jobs=1, max_literals=2, penalty=0.01)
    assert (given.penalties, given.held_out) == ({}, None)


def test_a_warning_names_what_does_not_carry_over() -> None:
    gains = {"a": PredicateGain(0.06, 0.1), "b": PredicateGain(-0.5, 0.125)}
    prices = Prices({"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 1.0})
    clause = LearnedClause(
        canonicalize_clause((PathAtom("a", (0,)), PathAtom("b", (0,)))), 1.0, 0.2
    )
    found = Selection((clause,), {}, -1.0, -2.0, True, prices, HeldOut("worlds", 2, gains))
    assert list(warn_lost_gains(found)) == [
        "the gain for b does not carry over: 0.1250 an atom where rules are learned, -0.5000 in "
        "parts held out"
    ]
    assert not list(
        warn_lost_gains(found._replace(held_out=HeldOut("worlds", 2, {"a": gains["a"]})))
    )


def test_a_world_too_small_to_be_split_says_so() -> None:
    facts = " ".join(f"{'' if i % 2 else '!'}a(P{i}) {'' if i % 2 else '!'}b(P{i})"
                     for i in range(14))  # fmt: skip
    found = lapis.learn_structure(lapis.parse("a(p)\nb(p)"), lapis.Database.parse(facts), jobs=1)
    assert any(rule.gain is not None for rule in found.rules)
    assert found.held_out is None
    assert found.warnings == (
        "nothing was held out, the only world is too small: how far the gain carries over to "
        "other worlds is not known",
    )


def join(model: lapis.Model, databases: list[lapis.Database], *targets: str) -> TrainingData:
    problems = [lapis.build_problem(model, database) for database in databases]
    return join_worlds(model, problems, targets or list(model.predicates))


def facts_of(data: TrainingData) -> list[set[str]]:
    """Return the true atoms of each world, with names of constants."""
    found = []
    for world in data.worlds:
        own = set()
        for name, extension in world.relations.items():
            for row in extension.tuples.tolist():
                spelled = zip(extension.types, row, strict=True)
                names = [world.domains[t].constants[code] for t, code in spelled]
                own.add(f"{name}({','.join(names)})")
        found.append(own)
    return found


@st.composite
def one_world(draw: st.DrawFn) -> lapis.Database:
    size = draw(st.integers(24, 40))
    chance = draw(st.sampled_from([0.0, 0.02, 0.3]))
    generator = np.random.default_rng(draw(st.integers(0, 1000)))
    names = [f"A{i}" for i in range(size)]
    facts = [f"{'' if generator.random() < 0.5 else '!'}{p}({a})" for p in "PQ" for a in names]
    facts += [f"R({a},{b})" for a, b in product(names, names) if generator.random() < chance]
    facts += [f"S({a},B{generator.integers(5)})" for a in names]
    return lapis.Database.parse(" ".join(facts))


@settings(max_examples=25)
@given(one_world(), st.integers(0, 5))
def test_parts_of_a_world_share_no_constant_that_is_split(
    database: lapis.Database, seed: int
) -> None:
    """Each part has the world's atoms over its own constants, and every constant is in one part."""
    data = join(PEOPLE, [database])
    parts = hold_out(data, seed)
    assert parts is not None
    assert (parts.split_by, parts.evaluated) == ("a", ("P", "Q", "R", "S"))
    [whole] = facts_of(data)
    constants = set(data.worlds[0].domains["a"].constants)
    for train, test in parts.folds:
        kept = [set(own.worlds[0].domains["a"].constants) for own in (train, test)]
        assert kept[0].isdisjoint(kept[1])
        assert kept[0] | kept[1] == constants
        sizes = sorted(len(own) for own in kept)
        assert sizes[0] >= SHARES.min() * len(constants) / 2
        for own, names in zip((train, test), kept, strict=True):
            inside = {
                fact
                for fact in whole
                if all(
                    each in names
                    for each in fact.partition("(")[2][:-1].split(",")
                    if each.startswith("A")
                )
            }
            assert facts_of(own) == [inside]
            assert own.worlds[0].size("b") == data.worlds[0].size("b")


def test_components_stay_whole() -> None:
    """Eight advisers have five students each: no pair is split."""
    data = join(ADVICE, [advice(0, 40)])
    parts = hold_out(data, 0)
    assert parts is not None
    for train, test in parts.folds:
        assert len(train.tuples["adv"]) + len(test.tuples["adv"]) == 40


@settings(max_examples=20)
@given(st.integers(2, 7), st.integers(0, 20))
def test_worlds_are_held_out_once_each(number: int, seed: int) -> None:
    databases = [lapis.Database.parse(f"P(A{i}) !Q(A{i}) S(A{i},B)") for i in range(number)]
    data = join(PEOPLE, databases)
    parts = hold_out(data, seed)
    assert parts is not None
    assert parts.split_by == "worlds"
    held = [fact for fold in parts.folds for fact in facts_of(fold.test)]
    assert sorted(map(sorted, held)) == sorted(map(sorted, facts_of(data)))
    for fold in parts.folds:
        both = facts_of(fold.train) + facts_of(fold.test)
        assert sorted(map(sorted, both)) == sorted(map(sorted, facts_of(data)))


def new_search(data: TrainingData, databases: list[lapis.Database]) -> RuleSearch:
    stop = Stop()
    scorer = Scorer(data, pricing=nat_pricing(data))
    return RuleSearch(ADVICE, databases, scorer, 1, 0.0, None, stop, ReplayLog(stop=stop))


def naive_curve(parts: Parts, find: list[PenaltyCandidates], target: str) -> list[float]:
    """Compute held-out nats of one predicate by level; each level starts with unit clauses."""
    total = []
    for fold, candidates in zip(parts.folds, find, strict=True):
        curve = []
        pricing = nat_pricing(fold.train)
        scorer = Scorer(fold.train, pricing=pricing)
        ensemble = Ensemble(fold.train, scorer.joins, pricing=pricing)
        left = [score.candidate for score in candidates.plain]
        for price in LEVELS:
            while left:
                nets = [ensemble.gain_of(each) - price * len(each) for each in left]
                best = int(np.argmax(np.round(nets, 9)))
                if nets[best] <= 1e-9:
                    break
                ensemble.add(left.pop(best))
                ensemble.refit(l2=None)
            test = Ensemble(fold.test, Scorer(fold.test).joins)
            for clause in ensemble.clauses:
                test.add(clause)
            test.weights = ensemble.weights
            place = [each.predicate for each in test.targets].index(target)
            own = test.targets[place]
            field = own.matrix[own.class_of] @ ensemble.weights
            curve.append(best_calibrated(field, own.truth))
        total.append(curve)
    return list(np.sum(total, axis=0))


def best_calibrated(field: np.ndarray, truth: np.ndarray) -> float:
    """Maximise Σ log P(truth) at log-odds u + s·field over u and s ≥ 0, by a refined grid."""
    center, width, found = (0.0, 1.0), (12.0, 1.0), -np.inf
    for _ in range(12):
        for u, s in product(np.linspace(-1, 1, 9), repeat=2):
            point = center[0] + width[0] * u, max(0.0, center[1] + width[1] * s)
            odds = point[0] + point[1] * field
            value = -float(np.logaddexp(0, np.where(truth, -odds, odds)).sum())
            if value > found:
                found, best = value, point
        center, width = best, (width[0] * 0.6, width[1] * 0.6)
    return found


def test_the_price_is_that_of_the_best_level_from_the_definition() -> None:
    databases = [advice(seed, 16) for seed in (0, 1, 2)]
    data = join(ADVICE, databases, "assist")
    options = ForwardOptions(max_literals=3, max_variables=3)
    parts = hold_out(data, 0)
    assert parts is not None
    found: list[PenaltyCandidates] = []

    def find(search: RuleSearch) -> PenaltyCandidates:
        best = find_candidates(search, options)
        found.append(PenaltyCandidates(best.plain[:12], ()))
        return found[-1]

    chosen = choose_prices(new_search(data, databases), parts, find, None)
    assert chosen is not None
    curve = naive_curve(parts, found, "assist")
    best = max(curve)
    assert curve[LEVELS.index(chosen[0].plain["assist"])] == pytest.approx(best, abs=1e-3)


@given(
    st.integers(2, 5).flatmap(
        lambda n: st.lists(
            st.lists(st.floats(-50, 50), min_size=4, max_size=4), min_size=n, max_size=n
        )
    ),
    st.sampled_from([0.0, 1.0]),
)
def test_a_level_within_the_error_of_the_best(rows: list[list[float]], errors: float) -> None:
    nats = np.array(rows)
    level = choose_level(nats, errors)
    best = max(range(4), key=lambda own: sum(row[own] for row in rows))

    def is_near(own: int) -> bool:
        leads = [row[best] - row[own] for row in rows]
        mean = sum(leads) / len(leads)
        variance = sum((each - mean) ** 2 for each in leads) / (len(leads) - 1)
        return mean <= errors * (variance / len(leads)) ** 0.5 + 1e-6 / len(leads)

    assert is_near(level)
    assert not any(is_near(own) for own in range(level))


@given(st.data())
def test_differences_of_range_restricted_clauses_ignore_constants_apart(
    data: st.DataObject,
) -> None:
    """Another constant, with or without facts, changes no other difference."""
    names = data.draw(st.lists(st.sampled_from("PQRS"), min_size=2, max_size=3))
    atoms = []
    for name in names:
        if name == "S":
            atom = PathAtom("S", (data.draw(st.integers(0, 2)), 3))
        elif name == "R":
            atom = PathAtom("R", tuple(data.draw(st.tuples(*[st.integers(0, 2)] * 2))))
        else:
            atom = PathAtom(name, (data.draw(st.integers(0, 2)),))
        atoms.append(atom)
    if len(set(atoms)) < len(atoms):
        return
    clause = canonicalize_clause(tuple(atoms), data.draw(st.integers(0, 2 ** len(atoms) - 1)))
    if not is_range_restricted(clause, list(PEOPLE.predicates)):
        return
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    facts = [f"{'' if generator.random() < 0.5 else '!'}{p}(A{i})" for p in "PQ" for i in range(3)]
    facts += [f"R(A{i},A{j})" for i in range(3) for j in range(3) if generator.random() < 0.5]
    facts += [f"S(A{i},B{j})" for i in range(3) for j in range(2) if generator.random() < 0.5]
    facts += ["!S(A0,B0)", "!S(A0,B1)"] if not any(f.startswith("S(") for f in facts) else []
    small = join(PEOPLE, [lapis.Database.parse(" ".join(facts))])
    added = data.draw(st.sampled_from(["!P(Z)", "P(Z) Q(Z) R(Z,Z) S(Z,Z)"]))
    large = join(PEOPLE, [lapis.Database.parse(" ".join([*facts, added]))])
    for name in dict.fromkeys(atom.predicate for atom in clause.path):
        assert differences(small, clause, name) == differences(large, clause, name)


def differences(data: TrainingData, clause: Candidate, name: str) -> dict[str, float]:
    """Return the differences of atoms without the constant Z."""
    ensemble = Ensemble(data, Scorer(data).joins)
    target = next(each for each in ensemble.targets if each.predicate == name)
    column = target.column(ensemble.joins, clause)
    assert column is not None
    types = data.predicates[name].types
    domains = [data.worlds[0].domains[t].constants for t in types]
    spelled = [
        ",".join(domains[at][code] for at, code in enumerate(row)) for row in target.rows.tolist()
    ]
    return {text: d for text, d in zip(spelled, column, strict=True) if "Z" not in text}


def weather(seed: int, number: int) -> list[lapis.Database]:
    """Return worlds in which people are mostly wet if it rains."""
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(number):
        rain, size = generator.random() < 0.5, int(generator.integers(1, 5))
        facts = ["Rain" if rain else "!Rain", "Snow" if generator.random() < 0.3 else "!Snow"]
        for i in range(size):
            wet = generator.random() < (0.9 if rain else 0.1)
            facts.append(f"{'' if wet else '!'}wet(P{i})")
            facts += [f"{'' if generator.random() < 0.3 else '!'}r(P{i},P{j})" for j in range(size)]
        found.append(lapis.Database.parse(" ".join(facts)))
    return found


DECLARED = "Rain\nSnow\nwet(p)\nr(p, p)"
WEATHER = lapis.parse(DECLARED)


@settings(max_examples=8)
@given(
    st.integers(0, 10_000),
    st.integers(1, 5),
    st.sampled_from([("lapis", {}), ("lapis", {"penalty": 0.01}), ("msl", {"penalty": 0.05})]),
)
def test_the_value_is_the_models_wpll_with_propositions_too(
    seed: int, number: int, ask: tuple[str, dict[str, float]]
) -> None:
    method, own = ask
    worlds = weather(seed, number)
    found = lapis.learn_structure(
        WEATHER, worlds, method=method, jobs=1, max_literals=2, max_clauses=4, **own
    )
    score = lapis.score(found.model, worlds, likelihood=False)
    assert score.weighted_pseudo_log_likelihood == pytest.approx(found.value, abs=1e-8)
    assert {"Rain", "Snow"} <= {rule.text for rule in found.rules if rule.gain is None}


def test_a_rule_with_a_proposition_is_found_counted_and_said() -> None:
    worlds = weather(1, 40)
    found = lapis.learn_structure(WEATHER, worlds, jobs=1, max_literals=2, penalty=0.02)
    rules = [r for r in found.rules if {"Rain", "wet(p)"} <= set(r.text.replace("!", "").split())]
    assert rules
    counted = lapis.count(lapis.parse(f"{DECLARED}\n1 {rules[0].text}"), worlds).rows
    assert (rules[0].true, rules[0].groundings) == (counted[0].true, counted[0].groundings)
    asked = lapis.learn_structure(WEATHER, worlds, "Rain", jobs=1, max_literals=2, penalty=0.02)
    assert any("wet(p)" in rule.text for rule in asked.rules)


def test_a_clause_with_propositions_scores_the_gain_at_its_best_weight() -> None:
    """Compare with counts of the clause in worlds with one atom changed, and a grid of weights."""
    worlds = weather(2, 8)
    data = join(WEATHER, worlds)
    clause = canonicalize_clause((PathAtom("Rain", ()), PathAtom("wet", (0,))), 0b10)
    score: ClauseScore = Scorer(data).score(clause.path, {clause: clause.positive})[0]
    parts: dict[str, list[tuple[float, bool]]] = {"Rain": [], "wet": []}
    for world in data.worlds:
        rain = bool(len(world.relations["Rain"].tuples))
        wet, size = len(world.relations["wet"].tuples), world.size("p")
        parts["Rain"].append((float(wet - size), rain))  # Rain => wet(p): the dry ones break it
        parts["wet"] += [(float(rain), True)] * wet + [(float(rain), False)] * (size - wet)

    def value(weight: float) -> float:
        return sum(
            max(
                float(np.mean([-np.logaddexp(0, (1 - 2 * t) * (weight * d + u)) for d, t in own]))
                for u in np.linspace(-8, 8, 641)
            )
            for own in parts.values()
        )

    best = value(score.weight) - value(0.0)
    assert score.gain == pytest.approx(best, abs=2e-3)
    assert all(value(score.weight + step) <= value(score.weight) + 1e-3 for step in (-0.5, 0.5))
