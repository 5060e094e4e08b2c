"""Small random worlds and clauses, and their counts by enumeration of all groundings."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from hypothesis import strategies as st

from lapis.counting.complete_world import add_derived
from lapis.data.database import Domain
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
from lapis.relational.interpretation import Interpretation, build_interpretation

PREDICATES = {
    predicate.name: predicate
    for predicate in (
        Predicate("P", ("t",)),
        Predicate("Q", ("t",)),
        Predicate("F", ("t", "t")),
        Predicate("G", ("t", "u")),
        Predicate("U", ("u",)),
        Predicate("T", ("t", "u", "t")),
        Predicate("N", ()),
    )
}
VARIABLES: tuple[TypedVariable, ...] = (
    ("x", "t"),
    ("y", "t"),
    ("z", "t"),
    ("a", "u"),
    ("b", "u"),
)
BOUND: tuple[TypedVariable, ...] = (("v", "t"), ("c", "u"))
CONSTANTS = {"t": ("1", "2", "Ann", "4.0"), "u": ("2", "3", "1", "Bob")}
OPERATORS = ("=", "!=", "<", ">", "<=", ">=")

some_variables = st.lists(st.sampled_from(VARIABLES), max_size=4, unique=True).map(tuple)


@dataclass(frozen=True)
class SmallWorld:
    domains: Mapping[str, Domain]
    relations: Mapping[str, np.ndarray]
    definitions: tuple[Definition, ...] = ()

    @property
    def predicates(self) -> dict[str, Predicate]:
        derived = {found.predicate.name: found.predicate for found in self.definitions}
        return {**PREDICATES, **derived}

    @property
    def model(self) -> Model:
        return Model({}, PREDICATES, ())

    @cached_property
    def extensions(self) -> Interpretation:
        return add_derived(
            build_interpretation(PREDICATES, self.domains, self.relations), self.definitions
        )

    def normal_form(self, *features: Feature) -> NormalForm:
        return NormalForm(features, self.definitions)


@st.composite
def worlds(draw: st.DrawFn) -> SmallWorld:
    sizes = {name: draw(st.integers(0, 4) if name == "u" else st.integers(1, 4)) for name in "tu"}
    domains = {name: Domain(name, CONSTANTS[name][:size]) for name, size in sizes.items()}
    relations = {}
    for predicate in PREDICATES.values():
        every = list(itertools.product(*(range(sizes[kind]) for kind in predicate.types)))
        chosen = draw(st.sets(st.sampled_from(every))) if every else set()
        rows = np.array(sorted(chosen), np.int32).reshape(len(chosen), predicate.arity)
        relations[predicate.name] = rows
    world = SmallWorld(domains, relations)
    for number in range(draw(st.integers(0, 2))):
        definition = draw(definitions(world, f"D{number}"))
        world = SmallWorld(domains, relations, (*world.definitions, definition))
    return world


@st.composite
def definitions(draw: st.DrawFn, world: SmallWorld, name: str) -> Definition:
    free = tuple(draw(st.lists(st.sampled_from(VARIABLES), max_size=2, unique=True)))
    bound = tuple(draw(st.lists(st.sampled_from(BOUND), min_size=1, unique=True)))
    cubes = draw(st.lists(cubes_over(world, free + bound), min_size=1, max_size=2))
    predicate = Predicate(name, tuple(kind for _, kind in free))
    return Definition(predicate, free, bound, tuple(cubes))


def cubes_over(
    world: SmallWorld, variables: tuple[TypedVariable, ...], max_literals: int = 4
) -> st.SearchStrategy[Cube]:
    return st.builds(
        lambda literals, conditions: Cube(tuple(literals), tuple(conditions)),
        st.lists(literals_over(world, variables), max_size=max_literals),
        st.lists(conditions_over(world, variables), max_size=2),
    )


def clauses_over(
    world: SmallWorld, variables: tuple[TypedVariable, ...]
) -> st.SearchStrategy[Clause]:
    return cubes_over(world, variables).map(lambda cube: Clause(cube.literals, cube.conditions))


@st.composite
def literals_over(
    draw: st.DrawFn, world: SmallWorld, variables: tuple[TypedVariable, ...]
) -> Literal:
    usable = [
        predicate
        for predicate in world.predicates.values()
        if all(terms_of(world, variables, kind) for kind in predicate.types)
    ]
    predicate = draw(st.sampled_from(usable))
    terms = [draw(st.sampled_from(terms_of(world, variables, kind))) for kind in predicate.types]
    return Literal(predicate.name, tuple(terms), draw(st.booleans()))


@st.composite
def conditions_over(
    draw: st.DrawFn, world: SmallWorld, variables: tuple[TypedVariable, ...]
) -> Condition:
    operator = draw(st.sampled_from(OPERATORS))
    offset = draw(st.sampled_from([0, 0, 1, -1]))
    # Names are compared within a type or across types; both must come out right.
    kinds = draw(st.sampled_from([("t", "t"), ("t", "t"), ("u", "u"), ("t", "u")]))
    choices = [terms_of(world, variables, kind) or [Constant("2")] for kind in kinds]
    left, right = (draw(st.sampled_from(found)) for found in choices)
    return Condition(operator, left, right, offset)


def terms_of(
    world: SmallWorld, variables: tuple[TypedVariable, ...], kind: str
) -> list[SimpleTerm]:
    names = [Variable(name) for name, found in variables if found == kind]
    constants = [Constant(name) for name in world.domains[kind].constants[:1]]
    return [*names, *names, *constants]


class Enumeration:
    """Truth by looking everything up; counts by going through all groundings."""

    def __init__(self, world: SmallWorld) -> None:
        self.world = world
        self.true = {
            (predicate.name, *self.names(predicate.types, row))
            for predicate in PREDICATES.values()
            for row in world.relations[predicate.name].tolist()
        }
        for definition in world.definitions:
            for grounding in self.groundings(definition.variables):
                values = tuple(grounding[name] for name, _ in definition.variables)
                if any(
                    self.cube_holds(cube, {**grounding, **inner})
                    for inner in self.groundings(definition.bound)
                    for cube in definition.cubes
                ):
                    self.true.add((definition.predicate.name, *values))

    def names(self, types: tuple[str, ...], row: list[int]) -> tuple[str, ...]:
        return tuple(
            self.world.domains[kind].constants[code] for kind, code in zip(types, row, strict=True)
        )

    def groundings(self, variables: tuple[TypedVariable, ...]) -> Iterator[dict[str, str]]:
        names = [name for name, _ in variables]
        for values in itertools.product(*(self.world.domains[k].constants for _, k in variables)):
            yield dict(zip(names, values, strict=True))

    def literal_holds(self, literal: Literal, grounding: Mapping[str, str]) -> bool:
        atom = (literal.predicate, *(value_of(term, grounding) for term in literal.terms))
        return (atom in self.true) == literal.positive

    def cube_holds(self, cube: Cube, grounding: Mapping[str, str]) -> bool:
        return all(self.literal_holds(literal, grounding) for literal in cube.literals) and all(
            condition_holds(condition, grounding) for condition in cube.conditions
        )

    def clause_holds(self, clause: Clause, grounding: Mapping[str, str]) -> bool:
        return any(self.literal_holds(literal, grounding) for literal in clause.literals) or any(
            condition_holds(condition, grounding) for condition in clause.conditions
        )


def value_of(term: SimpleTerm, grounding: Mapping[str, str]) -> str:
    return grounding[term.name] if isinstance(term, Variable) else term.name


def condition_holds(condition: Condition, grounding: Mapping[str, str]) -> bool:
    left, right = value_of(condition.left, grounding), value_of(condition.right, grounding)
    if condition.operator in ("=", "!=") and condition.offset == 0:
        return (left == right) == (condition.operator == "=")
    try:
        one, other = float(left), float(right) + condition.offset
    except ValueError:
        return False
    return {
        "=": one == other,
        "!=": one != other,
        "<": one < other,
        ">": one > other,
        "<=": one <= other,
        ">=": one >= other,
    }[condition.operator]
