"""Random small worlds and features for the IJGP tests, and their counts from the definition."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import cast

import numpy as np
from hypothesis import strategies as st

from lapis.counting.ijgp import IjgpSettings
from lapis.counting.ijgp.estimated_differences import DifferenceEstimator
from lapis.data.database import Domain
from lapis.data.keys import contains
from lapis.language.model import Model, Predicate
from lapis.language.syntax import Constant, Variable
from lapis.logic.clauses import (
    Clause,
    Condition,
    Cube,
    Definition,
    Feature,
    Literal,
    NormalForm,
    SimpleTerm,
    TypedVariable,
)
from lapis.problem.problem import Problem

PREDICATES = {
    name: Predicate(name, tuple(types))
    for name, types in {
        "N": "",
        "P": "t",
        "U": "u",
        "F": "tt",
        "G": "tu",
        "T": "tut",
    }.items()
}
VARIABLES: tuple[TypedVariable, ...] = (("x", "t"), ("y", "t"), ("z", "t"), ("a", "u"), ("b", "u"))
CONSTANTS = {"t": ("1", "2", "Ann", "4.0"), "u": ("2", "Bob", "3")}
COMPARE = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}

Grounding = Mapping[str, str]
GroundAtom = tuple[str, ...]  # predicate and constants


@dataclass(frozen=True)
class World:
    domains: Mapping[str, Domain]
    relations: Mapping[str, np.ndarray]
    definitions: tuple[Definition, ...] = ()

    @property
    def model(self) -> Model:
        return Model({}, PREDICATES, ())

    def normal_form(self, *features: Feature) -> NormalForm:
        return NormalForm(features, self.definitions)

    def with_atom(self, predicate: str, row: tuple[int, ...], value: bool) -> World:
        rows = {tuple(each) for each in self.relations[predicate].tolist()} - {row}
        rows |= {row} if value else set()
        changed = np.array(sorted(rows), np.int32).reshape(len(rows), len(row))
        return replace(self, relations={**self.relations, predicate: changed})

    def groundings(self, variables: tuple[TypedVariable, ...]) -> Iterator[dict[str, str]]:
        names = [name for name, _ in variables]
        for values in itertools.product(*(self.domains[kind].constants for _, kind in variables)):
            yield dict(zip(names, values, strict=True))

    def true_atoms(self) -> set[GroundAtom]:
        true = {
            (each.name, *(self.domains[kind].constants[code] for kind, code in pairs))
            for each in PREDICATES.values()
            for row in self.relations[each.name].tolist()
            for pairs in [zip(each.types, row, strict=True)]
        }
        for definition in self.definitions:
            for outer in self.groundings(definition.variables):
                if any(
                    cube_holds(cube, {**outer, **inner}, true)
                    for inner in self.groundings(definition.bound)
                    for cube in definition.cubes
                ):
                    values = (outer[name] for name, _ in definition.variables)
                    true.add((definition.predicate.name, *values))
        return true


def count_by_enumeration(world: World, feature: Feature) -> np.ndarray:
    """float64[num_weights], constant·N + Σ_clauses true groundings, for each plus constant."""
    true = world.true_atoms()
    types = dict(feature.variables)
    domains = [world.domains[types[name]] for name in feature.plus]
    table = np.zeros([len(domain) for domain in domains])
    for grounding in world.groundings(feature.variables):
        index = tuple(
            domain.index[grounding[name]]
            for name, domain in zip(feature.plus, domains, strict=True)
        )
        table[index] += feature.constant + sum(
            clause_holds(clause, grounding, true) for clause in feature.clauses
        )
    return table.ravel()


def estimate_difference(
    world: World, feature: Feature, predicate: str, row: tuple[int, ...], settings: IjgpSettings
) -> np.ndarray:
    """float64[num_weights], IJGP's n(atom true) − n(atom false) of one atom."""
    problem = SimpleNamespace(
        normal_form=world.normal_form(feature), model=world.model, domains=world.domains
    )
    estimator = DifferenceEstimator(cast(Problem, problem), settings)
    rows = np.array(row, np.int32).reshape(1, len(row))
    truth = contains(world.relations[predicate], rows)
    found = estimator.differences(predicate, rows, truth, world.relations)
    return np.asarray(found.toarray()[0])


def clause_holds(clause: Clause, grounding: Grounding, true: set[GroundAtom]) -> bool:
    return any(literal_holds(each, grounding, true) for each in clause.literals) or any(
        condition_holds(each, grounding) for each in clause.conditions
    )


def cube_holds(cube: Cube, grounding: Grounding, true: set[GroundAtom]) -> bool:
    return all(literal_holds(each, grounding, true) for each in cube.literals) and all(
        condition_holds(each, grounding) for each in cube.conditions
    )


def literal_holds(literal: Literal, grounding: Grounding, true: set[GroundAtom]) -> bool:
    atom = (literal.predicate, *(constant_of(term, grounding) for term in literal.terms))
    return (atom in true) == literal.positive


def condition_holds(condition: Condition, grounding: Grounding) -> bool:
    left, right = (constant_of(each, grounding) for each in (condition.left, condition.right))
    compare = COMPARE[condition.operator]
    if condition.operator in ("=", "!=") and condition.offset == 0:
        return bool(compare(left, right))
    try:
        return bool(compare(float(left), float(right) + condition.offset))
    except ValueError:
        return False


def constant_of(term: SimpleTerm, grounding: Grounding) -> str:
    return grounding[term.name] if isinstance(term, Variable) else term.name


@st.composite
def worlds(draw: st.DrawFn, with_definitions: bool = True, smallest: int = 0) -> World:
    domains = {
        "t": Domain("t", CONSTANTS["t"][: draw(st.integers(max(1, smallest), 4))]),
        "u": Domain("u", CONSTANTS["u"][: draw(st.integers(smallest, 3))]),
    }
    relations = {}
    for predicate in PREDICATES.values():
        atoms = list(itertools.product(*(range(len(domains[kind])) for kind in predicate.types)))
        bits = draw(st.integers(0, 2 ** len(atoms) - 1))
        rows = [atom for position, atom in enumerate(atoms) if bits >> position & 1]
        relations[predicate.name] = np.array(rows, np.int32).reshape(len(rows), predicate.arity)
    world = World(domains, relations)
    if with_definitions and draw(st.booleans()):
        free = tuple(draw(st.lists(st.sampled_from(VARIABLES[:4]), max_size=2, unique=True)))
        bound = draw(st.sampled_from([(("v", "t"),), (("c", "u"),), (("v", "t"), ("c", "u"))]))
        cubes = draw(st.lists(cubes_over(world, free + bound), min_size=1, max_size=2))
        predicate = Predicate("D", tuple(kind for _, kind in free))
        world = replace(world, definitions=(Definition(predicate, free, bound, tuple(cubes)),))
    return world


def terms_of(world: World, variables: tuple[TypedVariable, ...], kind: str) -> list[SimpleTerm]:
    names: list[SimpleTerm] = [Variable(name) for name, found in variables if found == kind]
    return [*names, *names, *(Constant(name) for name in world.domains[kind].constants[:1])]


@st.composite
def cubes_over(
    draw: st.DrawFn, world: World, variables: tuple[TypedVariable, ...], max_literals: int = 4
) -> Cube:
    terms = {kind: terms_of(world, variables, kind) for kind in "tu"}
    derived = {each.predicate.name: each.predicate for each in world.definitions}
    usable = [
        predicate
        for predicate in (PREDICATES | derived).values()
        if all(terms[kind] for kind in predicate.types)
    ]
    literals = []
    for _ in range(draw(st.integers(0, max_literals))):
        predicate = draw(st.sampled_from(usable))
        chosen = tuple(draw(st.sampled_from(terms[kind])) for kind in predicate.types)
        literals.append(Literal(predicate.name, chosen, draw(st.booleans())))
    conditions = []
    comparable = terms["t"] + terms["u"]
    if comparable and draw(st.integers(0, 3)) == 0:
        pair = [draw(st.sampled_from(comparable)) for _ in range(2)]
        compare = draw(st.sampled_from(sorted(COMPARE)))
        conditions.append(Condition(compare, *pair, draw(st.sampled_from([0, 0, 1, -2]))))
    return Cube(tuple(literals), tuple(conditions))


@st.composite
def features(draw: st.DrawFn, world: World, max_plus: int = 2) -> Feature:
    variables = tuple(draw(st.lists(st.sampled_from(VARIABLES), max_size=4, unique=True)))
    cubes = draw(st.lists(cubes_over(world, variables), min_size=1, max_size=2))
    names = [name for name, _ in variables]
    plus = st.lists(st.sampled_from(names), max_size=max_plus, unique=True)
    return Feature(
        rule=0,
        variables=variables,
        plus=tuple(draw(plus)) if names else (),
        clauses=tuple(Clause(*cube) for cube in cubes),
        constant=1 - len(cubes),
        hard=False,
    )


@st.composite
def ground_atoms(draw: st.DrawFn, world: World) -> tuple[str, tuple[int, ...]]:
    possible = [
        predicate
        for predicate in PREDICATES.values()
        if all(len(world.domains[kind]) for kind in predicate.types)
    ]
    predicate = draw(st.sampled_from(possible))
    row = tuple(draw(st.integers(0, len(world.domains[kind]) - 1)) for kind in predicate.types)
    return predicate.name, row


@st.composite
def cyclic_features(draw: st.DrawFn) -> Feature:
    """A triangle or a square of binary literals with any signs, and perhaps a unary literal."""

    def literal(predicate: str, *names: str) -> Literal:
        return Literal(predicate, tuple(map(Variable, names)), draw(st.booleans()))

    if draw(st.booleans()):
        pairs = [("F", "x", "y"), ("F", "y", "z"), ("F", "x", "z")]
        variables = VARIABLES[:3]
    else:
        pairs = [("G", "x", "a"), ("G", "y", "a"), ("G", "x", "b"), ("G", "y", "b")]
        variables = (*VARIABLES[:2], *VARIABLES[3:])
    literals = [literal(*pair) for pair in pairs]
    if draw(st.booleans()):
        literals.append(literal("P", draw(st.sampled_from(["x", "y"]))))
    return Feature(0, variables, (), (Clause(tuple(literals)),), 0, hard=False)
