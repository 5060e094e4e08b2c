"""Random small problems, drawn as clauses and definitions rather than as text.

The normal form of a text never holds some of what a `NormalForm` may: clauses with the same
literal twice, definitions of definitions over constants, conditions on anything. Here they all
come up. Types have at most three constants, one of them numbers, and any may be empty.
"""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from lapis.data.database import Domain, empty_tuples
from lapis.language.model import Model, Predicate, Rule
from lapis.language.syntax import Constant, Truth, Variable
from lapis.logic.clauses import (
    Clause,
    Condition,
    Cube,
    Definition,
    Feature,
    Literal,
    NormalForm,
    TypedVariable,
)
from lapis.problem.problem import Evidence, Problem

CONSTANTS = {"person": ("Anna", "Bob", "Cid"), "number": ("1", "2", "many")}
VARIABLES = {"person": ("x", "y", "z"), "number": ("i", "j")}
SIGNATURES = [
    Predicate("Rain", ()),
    Predicate("Smokes", ("person",)),
    Predicate("Friends", ("person", "person")),
    Predicate("Age", ("person", "number"), block=(1,)),
    Predicate("Boss", ("person", "person"), block=(0,), exactly_one=False),
    Predicate("Likes", ("person", "number")),
]


def as_rows(tuples: list[tuple[int, ...]], arity: int) -> np.ndarray:
    return np.array(sorted(tuples), np.int32).reshape(len(tuples), arity)


@st.composite
def evidences(draw: st.DrawFn, predicate: Predicate, domains: dict[str, Domain]) -> Evidence:
    is_open = draw(st.sampled_from([True, False, True]))
    every = list(itertools.product(*(range(len(domains[t])) for t in predicate.types)))
    status = draw(st.lists(st.sampled_from("--t--f--u"), min_size=len(every), max_size=len(every)))
    rows = {
        mark: as_rows([t for t, s in zip(every, status, strict=True) if s == mark], predicate.arity)
        for mark in "tfu"
    }
    none = empty_tuples(predicate.arity)
    if is_open:
        return Evidence(predicate, True, rows["t"], rows["f"], none)
    return Evidence(predicate, False, rows["t"], none, rows["u"])


@st.composite
def terms(
    draw: st.DrawFn, type_name: str, scope: dict[str, str], domains: dict[str, Domain]
) -> Variable | Constant | None:
    options: list[Variable | Constant] = [Variable(v) for v, t in scope.items() if t == type_name]
    options += [Constant(c) for c in domains[type_name].constants[:1]]
    return draw(st.sampled_from(options)) if options else None


@st.composite
def literals(
    draw: st.DrawFn,
    predicates: list[Predicate],
    scope: dict[str, str],
    domains: dict[str, Domain],
) -> Literal | None:
    predicate = draw(st.sampled_from(predicates))
    arguments = [draw(terms(t, scope, domains)) for t in predicate.types]
    if any(term is None for term in arguments):
        return None
    return Literal(predicate.name, tuple(arguments), draw(st.booleans()))


@st.composite
def conditions(
    draw: st.DrawFn, scope: dict[str, str], domains: dict[str, Domain]
) -> Condition | None:
    type_name = draw(st.sampled_from(list(domains)))
    left = draw(terms(type_name, scope, domains))
    # Now and then the two sides have different types, or a constant no domain holds.
    other = draw(st.sampled_from([type_name, type_name, *domains]))
    right = draw(st.one_of(terms(other, scope, domains), st.just(Constant("2"))))
    if left is None or right is None:
        return None
    operator = draw(st.sampled_from(["=", "!=", "<", ">", "<=", ">="]))
    return Condition(operator, left, right, draw(st.sampled_from([0, 0, 1])))


@st.composite
def parts(
    draw: st.DrawFn,
    predicates: list[Predicate],
    scope: dict[str, str],
    domains: dict[str, Domain],
) -> tuple[tuple[Literal, ...], tuple[Condition, ...]]:
    found = draw(st.lists(literals(predicates, scope, domains), min_size=0, max_size=4))
    tests = draw(st.lists(conditions(scope, domains), max_size=draw(st.sampled_from([0, 1, 2]))))
    return (
        tuple(literal for literal in found if literal is not None),
        tuple(test for test in tests if test is not None),
    )


@st.composite
def typed_variables(draw: st.DrawFn, prefix: str = "") -> tuple[TypedVariable, ...]:
    every = [(prefix + name, t) for t, names in VARIABLES.items() for name in names]
    return tuple(draw(st.lists(st.sampled_from(every), unique=True, max_size=3)))


@st.composite
def definitions(
    draw: st.DrawFn, predicates: list[Predicate], domains: dict[str, Domain], number: int
) -> Definition:
    variables = draw(typed_variables())[:2]
    bound = draw(typed_variables("b"))[:2]
    scope = dict(variables + bound)
    cubes = draw(st.lists(parts(predicates, scope, domains), min_size=0, max_size=3))
    predicate = Predicate(f"some{number}", tuple(t for _, t in variables))
    return Definition(predicate, variables, bound, tuple(Cube(*part) for part in cubes))


@st.composite
def problems(draw: st.DrawFn, with_definitions: bool = True) -> Problem:
    domains = {
        name: Domain(name, constants[: draw(st.sampled_from([2, 3, 1, 0]))])
        for name, constants in CONSTANTS.items()
    }
    base = draw(st.lists(st.sampled_from(SIGNATURES), min_size=1, max_size=4, unique=True))
    evidence = {predicate.name: draw(evidences(predicate, domains)) for predicate in base}
    predicates = list(base)
    defined = []
    if with_definitions:
        for number in range(draw(st.integers(1, 3))):
            definition = draw(definitions(predicates, domains, number))
            defined.append(definition)
            predicates += [definition.predicate] * 3
    features, rules = [], []
    for index in range(draw(st.integers(1, 3))):
        variables = draw(typed_variables())
        hard = draw(st.sampled_from([False, False, True]))
        names = [name for name, _ in variables]
        plus = () if hard else tuple(n for n in names if draw(st.integers(0, 3)) == 0)
        clauses = draw(
            st.lists(parts(predicates, dict(variables), domains), min_size=1, max_size=3)
        )
        weight = None if hard else draw(st.sampled_from([1.0, -0.5, 2.0]))
        features.append(
            Feature(
                index,
                variables,
                plus,
                tuple(Clause(*part) for part in clauses),
                draw(st.integers(-2, 1)),
                hard,
            )
        )
        rules.append(Rule(Truth(True), variables, (), weight, hard, f"rule {index}", plus))
    model = Model(dict.fromkeys(domains, ()), {p.name: p for p in base}, tuple(rules))
    normal_form = NormalForm(tuple(features), tuple(defined))
    return Problem(model, normal_form, domains, evidence)
