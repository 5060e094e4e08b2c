"""Plan the groundings of a clause that evidence leaves undecided.

A grounding of a clause is undecided if no literal is true by evidence and no condition holds; the
literals that are false by evidence are dropped, and the rest is the ground clause. So each literal
of a template has one of two statuses,

    kept      its atom is unknown
    dropped   its atom is known with the value that makes the literal false,

and a status for each literal gives a `GroundingQuery`. With T, F, U the true, false and unknown
tuples of a predicate, of which it stores two (T, U if sparse; T, F if dense):

                      sparse               dense
    positive, kept    join U               anti-join T ∪ F
    positive, dropped anti-join T ∪ U      join F
    negative, kept    join U               anti-join T ∪ F
    negative, dropped join T               join T

A small template is not split: its literals may be kept or dropped, which the look-up of the atom
decides (positive: anti-join T; negative: join T ∪ U, or anti-join F). This needs fewer plans.

`relational.compile` decides by cost whether an anti-join is a filter or inclusion–exclusion.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from lapis.data.database import Domain
from lapis.language.syntax import Variable
from lapis.logic.clauses import (
    Clause,
    Cube,
    Definition,
    Feature,
    Literal,
    SimpleTerm,
    TypedVariable,
)
from lapis.relational.algebra import Test, make_test
from lapis.relational.conjunction import Conjunction, RelationAtom, Scope, substitute_terms, unify
from lapis.relational.interpretation import Extension, Interpretation
from lapis.relational.plan_compiler import PlanOutput, compile_plan
from lapis.relational.query_plan import QueryPlan

MOST_SPLIT = 6  # literals of one template; each doubles the number of plans


class AtomNumbers(Protocol):
    """The numbers of true, false and unknown atoms of a predicate."""

    @property
    def sparse(self) -> bool: ...
    @property
    def num_true(self) -> int: ...
    @property
    def num_false(self) -> int: ...
    @property
    def num_unknown(self) -> int: ...


class PlannedWorld(Protocol):
    """The relations that plans use: `GroundedWorld`, or those in a store."""

    @property
    def domains(self) -> Mapping[str, Domain]: ...
    @property
    def relations(self) -> Mapping[str, Extension]: ...

    def atom_numbers(self, predicate: str) -> AtomNumbers | None:
        """Return the numbers of atoms; None for a derived predicate that is undecided."""

    def known_atom(
        self, predicate: str, kind: str, terms: tuple[SimpleTerm, ...]
    ) -> RelationAtom | None:
        """Return an atom of the relation of some tuples of a predicate; None if there are none."""


@dataclass(frozen=True)
class PlanLimits:
    """Limits for splitting templates into queries by the status of literals."""

    split_above: int = 100_000  # groundings
    most_split: int = MOST_SPLIT  # literals


@dataclass(frozen=True)
class Template:
    """A disjunction of literals over typed variables, with the tests a grounding must pass."""

    literals: tuple[Literal, ...]
    tests: tuple[Test, ...]
    variables: tuple[TypedVariable, ...]
    outputs: tuple[str, ...]  # listed besides the variables of the undecided literals
    demand: RelationAtom | None = None  # if given, only groundings in this relation
    listed: bool = True  # False: only count the groundings for each output


@dataclass(frozen=True)
class GroundingQuery:
    """The groundings of a template in which exactly these literals may be undecided."""

    plan: QueryPlan
    conjunction: Conjunction  # what the plan counts
    literals: tuple[Literal, ...]  # over variables that the plan keeps, and constants
    stands_for: Mapping[str, SimpleTerm]  # variable of the template → the term that replaces it


def clause_template(clause: Clause, feature: Feature) -> Template:
    tests = tuple(make_test(condition, False) for condition in clause.conditions)
    return Template(clause.literals, tests, feature.variables, feature.selecting)


def cube_templates(definition: Definition, demand: RelationAtom | None) -> Iterator[Template]:
    """Yield the clauses ¬cube: their undecided groundings are the cubes not false by evidence."""
    outputs = tuple(name for name, _ in definition.variables)
    if definition.counts:
        outputs += tuple(name for name, _ in definition.bound)
    for cube in definition.cubes:
        literals = tuple(literal.negate() for literal in cube.literals)
        tests = tuple(make_test(condition, True) for condition in cube.conditions)
        variables = definition.variables + definition.bound
        yield Template(literals, tests, variables, outputs, demand)


def plan_template(
    template: Template,
    world: PlannedWorld,
    limits: PlanLimits,
    choose_statuses: ChooseStatuses | None = None,
) -> Iterator[GroundingQuery]:
    """Yield queries that together list every undecided grounding once.

    `choose_statuses` replaces the statuses that evidence allows, to list only some groundings.
    """
    unified = unify(
        Conjunction(tests=template.tests), Scope(dict(template.variables), (), world.domains)
    )
    if unified is None:
        return
    swap = dict(unified.bindings)
    stands_for = {name: swap.get(name, Variable(name)) for name, _ in template.variables}
    literals = Cube(tuple(dict.fromkeys(template.literals))).substitute(swap).literals
    variables = tuple(pair for pair in template.variables if pair[0] not in swap)
    groundings = math.prod(len(world.domains[type_name]) for _, type_name in variables)
    demand = () if template.demand is None else (substitute_terms(template.demand, swap),)
    split = limits.most_split if groundings > limits.split_above else 0
    if choose_statuses is None:
        statuses = _list_all_statuses(literals, world, split)
    else:
        statuses = choose_statuses(literals)
    listed = _variables(tuple(stands_for[name] for name in template.outputs))
    for choice in itertools.product(*statuses):
        kept = tuple(
            literal
            for literal, status in zip(literals, choice, strict=True)
            if status.undecided and template.listed
        )
        outputs = tuple(
            dict.fromkeys((*listed, *_variables(term for each in kept for term in each.terms)))
        )
        conjunction = Conjunction(
            true=(*demand, *(status.join for status in choice if status.join is not None)),
            false=tuple(status.anti for status in choice if status.anti is not None),
            tests=unified.tests,
        )
        plan = plan_rows(conjunction, variables, outputs, world)
        if plan.terms:
            yield GroundingQuery(plan, conjunction, kept, stands_for)


def plan_rows(
    conjunction: Conjunction,
    variables: tuple[TypedVariable, ...],
    outputs: tuple[str, ...],
    world: PlannedWorld,
) -> QueryPlan:
    """Plan a list of the assignments of the outputs with their numbers of groundings."""
    interpretation = Interpretation(world.domains, world.relations)
    return compile_plan([conjunction], variables, interpretation, PlanOutput(outputs, outputs))


class EvidenceStatus(NamedTuple):
    """Whether a literal may be undecided, and the relations that its tuple must (not) match."""

    undecided: bool
    join: RelationAtom | None = None
    anti: RelationAtom | None = None


ChooseStatuses = Callable[[Sequence[Literal]], Sequence[Sequence[EvidenceStatus]]]


def _list_all_statuses(
    literals: Sequence[Literal], world: PlannedWorld, splittable: int
) -> Sequence[Sequence[EvidenceStatus]]:
    statuses = []
    for literal in literals:
        options = list_statuses(literal, world, splittable > 0)
        splittable -= len(options) > 1
        statuses.append(options)
    return statuses


def list_statuses(literal: Literal, world: PlannedWorld, split: bool) -> list[EvidenceStatus]:
    """List the statuses that some tuple of the literal has."""
    atoms = world.atom_numbers(literal.predicate)
    if atoms is None:  # a derived predicate, decided later
        return [EvidenceStatus(True)]

    def source(kind: str) -> RelationAtom | None:
        return world.known_atom(literal.predicate, kind, literal.terms)

    can_keep = atoms.num_unknown > 0
    can_drop = (atoms.num_false if literal.positive else atoms.num_true) > 0
    if can_keep and can_drop and not split and not (atoms.sparse and literal.positive):
        return [merge_statuses(literal, world)]
    statuses = []
    if can_keep and atoms.sparse:
        statuses.append(EvidenceStatus(True, join=source("unknown")))
    elif can_keep:
        statuses.append(EvidenceStatus(True, anti=source("known")))
    if can_drop and not literal.positive:
        statuses.append(EvidenceStatus(False, join=source("true")))
    elif can_drop and atoms.sparse:
        statuses.append(EvidenceStatus(False, anti=source("possible")))
    elif can_drop:
        statuses.append(EvidenceStatus(False, join=source("false")))
    return statuses


def merge_statuses(literal: Literal, world: PlannedWorld) -> EvidenceStatus:
    """Return the status of a literal that may be kept or dropped."""
    atoms = world.atom_numbers(literal.predicate)
    assert atoms is not None
    if literal.positive:
        return EvidenceStatus(True, anti=world.known_atom(literal.predicate, "true", literal.terms))
    if atoms.sparse:
        return EvidenceStatus(
            True, join=world.known_atom(literal.predicate, "possible", literal.terms)
        )
    return EvidenceStatus(True, anti=world.known_atom(literal.predicate, "false", literal.terms))


def _variables(terms: Iterable[SimpleTerm]) -> tuple[str, ...]:
    return tuple(term.name for term in terms if isinstance(term, Variable))
