"""Compare totals of every weight with enumeration, and with the oracle on models as text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from enumerated_worlds import Enumeration, clauses_over, some_variables, worlds
from hypothesis import given
from hypothesis import strategies as st

import oracle
import strategies
from lapis.counting.totals import (
    build_complete_world,
    count_feature,
    count_true_groundings,
    plan_feature,
)
from lapis.data.database import Database, Domain
from lapis.language import parse_model
from lapis.language.model import Model, Predicate
from lapis.language.syntax import Variable
from lapis.logic.clauses import Clause, Feature, Literal, NormalForm
from lapis.problem.problem import build_problem

pytestmark = pytest.mark.usefixtures("price_everything")


@given(st.data())
def test_counts_by_weight_are_those_of_the_features(data: st.DataObject) -> None:
    world = data.draw(worlds())
    features = []
    for number in range(data.draw(st.integers(1, 2))):
        variables = data.draw(some_variables)
        names = [name for name, _ in variables]
        chosen = st.lists(st.sampled_from(names), max_size=2, unique=True) if names else st.just([])
        clauses = data.draw(st.lists(clauses_over(world, variables), max_size=3))
        features.append(
            Feature(
                number,
                variables,
                tuple(data.draw(chosen)),
                tuple(clauses),
                data.draw(st.integers(-2, 1)),
                data.draw(st.booleans()),
            )
        )
    truth = Enumeration(world)
    expected_true: list[int] = []
    expected_groundings: list[int] = []
    hard_totals = []
    for feature in features:
        types = dict(feature.variables)
        plus = () if feature.hard else feature.plus
        true = np.zeros([len(world.domains[types[name]]) for name in plus], np.int64)
        groundings = np.zeros_like(true)
        for grounding in truth.groundings(feature.variables):
            at = tuple(world.domains[types[name]].index[grounding[name]] for name in plus)
            held = sum(truth.clause_holds(clause, grounding) for clause in feature.clauses)
            true[at] += feature.constant + held
            groundings[at] += 1
        if feature.hard:
            hard_totals.append(([int(true)], int(groundings)))
        else:
            expected_true += true.reshape(-1).tolist()
            # A weight whose plus constants exist has groundings even if it was never reached.
            others = [len(world.domains[k]) for n, k in feature.variables if n not in plus]
            expected_groundings += [int(np.prod(others, dtype=np.int64))] * true.size
            assert groundings.sum() == true.size * np.prod(others, dtype=np.int64)
    normal_form = world.normal_form(*features)
    arguments = (normal_form, world.model, world.domains, world.relations)
    assert count_true_groundings(*arguments) == (expected_true, expected_groundings)
    complete = build_complete_world(*arguments)
    hard = [count_feature(feature, complete) for feature in features if feature.hard]
    assert [tuple(found) for found in hard] == hard_totals


@given(strategies.cases(observed=True))
def test_models_as_text_count_as_the_oracle_does(case: strategies.Case) -> None:
    written = parse_model(case.model)
    # A hard rule may be split into parts; as a soft one it is a single feature to compare.
    soft = tuple(replace(rule, hard=False, weight=rule.weight or 0.0) for rule in written.rules)
    model = written.with_rules(soft)
    problem = build_problem(model, Database.parse(case.data))
    relations = {name: evidence.true for name, evidence in problem.evidence.items()}
    true, groundings = count_true_groundings(problem.normal_form, model, problem.domains, relations)
    assert len(true) == len(problem.weight_table)
    expected = oracle.count_true(model, case.facts)
    assert len(expected) == len(true)
    for (index, choice), wanted in expected.items():
        rule = model.rules[index]
        types = dict(rule.variables)
        weight = 0
        for name, constant in zip(rule.plus, choice, strict=True):
            domain = problem.domains[types[name]]
            weight = weight * len(domain) + domain.index[constant]
        weight += int(problem.weight_table.offset[index])
        assert (true[weight], groundings[weight]) == wanted


def test_a_weight_for_each_word_comes_from_one_plan() -> None:
    rng = np.random.default_rng(3)
    domains = {
        "word": Domain("word", tuple(f"W{i}" for i in range(300))),
        "page": Domain("page", tuple(f"P{i}" for i in range(200))),
    }
    present = rng.random((300, 200)) < 0.05
    present[7] = False  # a word on no page
    course = rng.random(200) < 0.3
    model = Model(
        {},
        {"Has": Predicate("Has", ("word", "page")), "Course": Predicate("Course", ("page",))},
        (),
    )
    w, p = Variable("w"), Variable("p")
    clause = Clause((Literal("Has", (w, p), False), Literal("Course", (p,), True)))
    feature = Feature(0, (("w", "word"), ("p", "page")), ("w",), (clause,), 0, False)
    normal_form = NormalForm((feature,), ())
    relations = {
        "Has": np.argwhere(present).astype(np.int32),
        "Course": np.argwhere(course).astype(np.int32),
    }
    true, groundings = count_true_groundings(normal_form, model, domains, relations)
    assert true == (~present | course).sum(axis=1).tolist()
    assert groundings == [200] * 300
    world = build_complete_world(normal_form, model, domains, relations)
    assert len(plan_feature(feature, world)) == 1


def test_totals_far_beyond_64_bits_are_exact() -> None:
    size = 10**5
    domains = {"t": Domain("t", tuple(map(str, range(size))))}
    model = Model({}, {"F": Predicate("F", ("t", "t"))}, ())
    loops = np.repeat(np.arange(50, dtype=np.int32), 2).reshape(-1, 2)
    names = [f"x{i}" for i in range(6)]
    literals = tuple(
        Literal("F", (Variable(one), Variable(other)), False)
        for one, other in zip(names[::2], names[1::2], strict=True)
    )
    variables = tuple((name, "t") for name in names)
    feature = Feature(0, variables, (), (Clause(literals),), 0, False)
    normal_form = NormalForm((feature,), ())
    true, groundings = count_true_groundings(normal_form, model, domains, {"F": loops})
    assert groundings == [size**6]
    assert true == [size**6 - 50**3]
