"""Random small problems over clauses, and counts in them by the definition."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from lapis.data.database import Domain
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
    SimpleTerm,
)
from lapis.problem.problem import Evidence, Problem

Atom = tuple[str, tuple[int, ...]]

COMPARE = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


class Small(NamedTuple):
    """A problem and the set of its true base atoms."""

    problem: Problem
    true: frozenset[Atom]

    def __repr__(self) -> str:
        sizes = {name: domain.constants for name, domain in self.problem.domains.items()}
        return f"Small({sizes}, {self.problem.normal_form}, {sorted(self.true)})"


def build(
    sizes: Mapping[str, Sequence[str]],
    predicates: Sequence[Predicate],
    features: Sequence[Feature],
    true: set[Atom] | frozenset[Atom],
    definitions: Sequence[Definition] = (),
) -> Small:
    domains = {name: Domain(name, tuple(constants)) for name, constants in sizes.items()}
    by_name = {predicate.name: predicate for predicate in predicates}
    evidence = {}
    for predicate in predicates:
        rows = sorted(arguments for name, arguments in true if name == predicate.name)
        table = np.array(rows, np.int32).reshape(len(rows), predicate.arity)
        none = np.empty((0, predicate.arity), np.int32)
        evidence[predicate.name] = Evidence(predicate, False, table, none, none)
    rules = tuple(
        Rule(
            formula=Truth(True),  # only the features are looked at
            variables=feature.variables,
            bound=(),
            weight=0.0,
            hard=feature.hard,
            text=f"rule {feature.rule}",
            plus=feature.plus,
        )
        for feature in features
    )
    model = Model({name: tuple(found) for name, found in sizes.items()}, by_name, rules)
    normal_form = NormalForm(tuple(features), tuple(definitions))
    return Small(Problem(model, normal_form, domains, evidence), frozenset(true))


def all_atoms(problem: Problem, predicate: Predicate) -> list[tuple[int, ...]]:
    sizes = [range(len(problem.domains[name])) for name in predicate.types]
    return list(itertools.product(*sizes))


def with_derived(problem: Problem, true: frozenset[Atom]) -> frozenset[Atom]:
    """The world with the derived atoms decided by trying every witness."""
    for definition in problem.normal_form.definitions:
        found = set()
        for head in _assignments(problem, definition.variables):
            for bound in _assignments(problem, definition.bound):
                binding = {**head, **bound}
                types = dict((*definition.variables, *definition.bound))
                if any(
                    _cube_holds(problem, cube, binding, types, true) for cube in definition.cubes
                ):
                    arguments = tuple(head[name] for name, _ in definition.variables)
                    found.add((definition.predicate.name, arguments))
        true = true | found
    return true


def count_true(problem: Problem, true: frozenset[Atom]) -> tuple[list[int], int]:
    """True groundings of each weight, and the number of violated hard groundings."""
    true = with_derived(problem, true)
    counts: list[int] = []
    violations = 0
    for feature in problem.normal_form.features:
        types = dict(feature.variables)
        shape = [range(len(problem.domains[types[name]])) for name in feature.plus]
        number = {key: i for i, key in enumerate(itertools.product(*shape))}
        own = [0] * len(number)
        for binding in _assignments(problem, feature.variables):
            value = feature.constant
            for clause in feature.clauses:
                holds = _clause_holds(problem, clause, binding, types, true)
                value += holds
                violations += feature.hard and not holds
            own[number[tuple(binding[name] for name in feature.plus)]] += value
        if not feature.hard:
            counts += own
    return counts, violations


def difference(small: Small, atom: Atom) -> tuple[tuple[int, ...], int]:
    """n(atom = 1) − n(atom = 0) for each weight, and for the violated hard groundings."""
    with_it, bad_with = count_true(small.problem, small.true | {atom})
    without, bad_without = count_true(small.problem, small.true - {atom})
    return tuple(np.subtract(with_it, without).tolist()), bad_with - bad_without


def _assignments(
    problem: Problem, variables: Sequence[tuple[str, str]]
) -> Iterator[dict[str, int]]:
    ranges = [range(len(problem.domains[type_name])) for _, type_name in variables]
    for values in itertools.product(*ranges):
        yield dict(zip((name for name, _ in variables), values, strict=True))


def _literal_holds(
    problem: Problem,
    literal: Literal,
    binding: Mapping[str, int],
    true: frozenset[Atom],
) -> bool:
    derived = problem.normal_form.derived
    predicate = (
        derived[literal.predicate].predicate
        if literal.predicate in derived
        else problem.model.predicates[literal.predicate]
    )
    arguments = tuple(
        binding[term.name]
        if isinstance(term, Variable)
        else problem.domains[type_name].index[term.name]
        for term, type_name in zip(literal.terms, predicate.types, strict=True)
    )
    return ((literal.predicate, arguments) in true) == literal.positive


def _condition_holds(
    problem: Problem, condition: Condition, binding: Mapping[str, int], types: Mapping[str, str]
) -> bool:
    def name(term: SimpleTerm) -> str:
        if isinstance(term, Constant):
            return term.name
        return problem.domains[types[term.name]].constants[binding[term.name]]

    left, right = name(condition.left), name(condition.right)
    if condition.operator in ("=", "!=") and condition.offset == 0:
        return bool(COMPARE[condition.operator](left, right))
    try:
        return bool(COMPARE[condition.operator](float(left), float(right) + condition.offset))
    except ValueError:
        return False


def _clause_holds(
    problem: Problem,
    clause: Clause,
    binding: Mapping[str, int],
    types: Mapping[str, str],
    true: frozenset[Atom],
) -> bool:
    return any(
        _literal_holds(problem, literal, binding, true) for literal in clause.literals
    ) or any(_condition_holds(problem, found, binding, types) for found in clause.conditions)


def _cube_holds(
    problem: Problem,
    cube: Cube,
    binding: Mapping[str, int],
    types: Mapping[str, str],
    true: frozenset[Atom],
) -> bool:
    return all(
        _literal_holds(problem, literal, binding, true) for literal in cube.literals
    ) and all(_condition_holds(problem, found, binding, types) for found in cube.conditions)


PREDICATES = (
    Predicate("N", ()),
    Predicate("S", ("t",)),
    Predicate("C", ("u",)),
    Predicate("F", ("t", "t")),
    Predicate("G", ("t", "u")),
    Predicate("H", ("t", "u", "t")),
)
CONSTANTS = {"t": ("1", "2", "Z"), "u": ("2", "3")}
VARIABLES = (("x", "t"), ("y", "t"), ("z", "t"), ("v", "u"), ("w", "u"))


@st.composite
def terms(
    draw: st.DrawFn, type_name: str, variables: Sequence[tuple[str, str]], constants: Sequence[str]
) -> SimpleTerm:
    names = [name for name, found in variables if found == type_name]
    choices: list[SimpleTerm] = [Variable(name) for name in names] * 3
    choices += [Constant(name) for name in constants]
    return draw(st.sampled_from(choices))


@st.composite
def literal_lists(
    draw: st.DrawFn,
    predicates: Sequence[Predicate],
    variables: Sequence[tuple[str, str]],
    constants: Mapping[str, Sequence[str]],
    most: int,
) -> tuple[Literal, ...]:
    usable = [
        found
        for found in predicates
        if all(constants[kind] or any(kind == own for _, own in variables) for kind in found.types)
    ]
    found = []
    for _ in range(draw(st.integers(0, most))):
        predicate = draw(st.sampled_from(usable))
        arguments = tuple(draw(terms(kind, variables, constants[kind])) for kind in predicate.types)
        found.append(Literal(predicate.name, arguments, draw(st.booleans())))
    return tuple(found)


@st.composite
def condition_lists(
    draw: st.DrawFn,
    variables: Sequence[tuple[str, str]],
    constants: Mapping[str, Sequence[str]],
) -> tuple[Condition, ...]:
    found = []
    for _ in range(draw(st.sampled_from((0, 0, 0, 1, 1, 2)))):
        if not variables:
            break
        name, kind = draw(st.sampled_from(list(variables)))
        other = draw(st.sampled_from([own for _, own in variables] + [kind] * 3))
        right = draw(terms(other, variables, [*constants[other], "2"]))
        sign = draw(st.sampled_from(("=", "!=", "=", "!=", "<", "<=", ">", ">=")))
        offset = draw(st.sampled_from((0, 0, 0, 1, -1)))
        found.append(Condition(sign, Variable(name), right, offset))
    return tuple(found)


@st.composite
def definition_lists(
    draw: st.DrawFn, predicates: Sequence[Predicate], constants: Mapping[str, Sequence[str]]
) -> list[Definition]:
    found: list[Definition] = []
    for number in range(draw(st.integers(1, 2))):
        chosen = draw(st.lists(st.sampled_from(VARIABLES), min_size=1, max_size=3, unique=True))
        cut = draw(st.integers(0, len(chosen)))
        head, bound = tuple(chosen[:cut]), tuple(chosen[cut:])
        known = [*predicates, *(definition.predicate for definition in found)]
        cubes = tuple(
            Cube(
                draw(literal_lists(known, chosen, constants, 3)),
                draw(condition_lists(chosen, constants)),
            )
            for _ in range(draw(st.integers(1, 2)))
        )
        predicate = Predicate(f"D{number}", tuple(kind for _, kind in head))
        found.append(Definition(predicate, head, bound, cubes))
    return found


@st.composite
def small_problems(
    draw: st.DrawFn,
    predicates: Sequence[Predicate] = PREDICATES,
    quantifiers: bool = False,
    hard: bool = True,
) -> Small:
    """A problem over PREDICATES (or variants with blocks) and a world."""
    constants = {
        kind: names[: draw(st.sampled_from((0, 1, 2, 2, len(names), len(names))))]
        for kind, names in CONSTANTS.items()
    }
    definitions = draw(definition_lists(predicates, constants)) if quantifiers else []
    known = [
        *predicates,
        *(definition.predicate for definition in definitions),
        *(definition.predicate for definition in definitions),
    ]
    features = []
    for rule in range(draw(st.integers(1, 2))):
        variables = tuple(
            draw(st.lists(st.sampled_from(VARIABLES), min_size=0, max_size=3, unique=True))
        )
        clauses = tuple(
            Clause(
                draw(literal_lists(known, variables, constants, 4)),
                draw(condition_lists(variables, constants)),
            )
            for _ in range(draw(st.integers(1, 2)))
        )
        plus = tuple(name for name, _ in variables if draw(st.sampled_from((False, False, True))))
        is_hard = hard and draw(st.sampled_from((False, False, True)))
        constant = draw(st.integers(-1, 1))
        features.append(Feature(rule, variables, plus, clauses, constant, is_hard))
    empty = build(constants, predicates, features, set(), definitions)
    atoms = [
        (predicate.name, arguments)
        for predicate in predicates
        for arguments in all_atoms(empty.problem, predicate)
    ]
    bits = draw(st.lists(st.booleans(), min_size=len(atoms), max_size=len(atoms)))
    true = {atom for atom, bit in zip(atoms, bits, strict=True) if bit}
    return build(constants, predicates, features, true, definitions)
