"""Clause templates as join plans: evidence folded in before anything is listed.

A grounding of a clause survives when no literal is true by evidence and no condition holds; the
literals false by evidence are dropped and the rest is the ground clause. Each literal of a
template therefore has two ways to survive,

    kept      its atom is unknown
    dropped   its atom is known with the value that makes the literal false,

and a choice of one for each literal is a `Query`: a join plan in which every literal's fate is
fixed. With T, F, U the true, false and unknown tuples of its predicate, of which the predicate
stores two (T, U if sparse; T, F if dense):

                      sparse               dense
    positive, kept    join U               anti-join T ∪ F
    positive, dropped anti-join T ∪ U      join F
    negative, kept    join U               anti-join T ∪ F
    negative, dropped join T               join T

A small template is not split: its literals are `either` kept or dropped, found when the atom is
looked up (positive: anti-join T; negative: join T ∪ U, or anti-join F), which saves plans.

A variable that only an anti-join mentions would have to be listed just to be filtered, so the
anti-join is expanded by inclusion–exclusion, 1 − [match] = all − matching: both terms count the
variable without listing it, and the rows' counts add up to what survives. The same with x ≠ y.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from lapis.grounding.conditions import Requirement, compile_tests
from lapis.grounding.known_relations import GroundedWorld
from lapis.language.syntax import Variable
from lapis.logic.clauses import Clause, Cube, Literal, SimpleTerm, TypedVariable
from lapis.relational.join_plan import Column, Comparison, JoinPlan, Source

MOST_SPLIT = 6  # literals of one template; each doubles the number of plans


@dataclass(frozen=True)
class PlanLimits:
    """Below how many groundings a template is taken whole rather than split or sieved."""

    split_above: int = 100_000
    sieve_above: int = 10_000


@dataclass(frozen=True)
class Template:
    """A disjunction of literals over typed variables, with the tests a grounding must pass."""

    literals: tuple[Literal, ...]
    tests: tuple[Requirement, ...]
    variables: tuple[TypedVariable, ...]
    outputs: tuple[str, ...]  # wanted besides the variables of the undecided literals
    demand: Source | None = None  # only groundings found in this relation are wanted
    listed: bool = True  # False: only the number of groundings for each output is wanted


class GroundLiteral(NamedTuple):
    """An undecided literal of a query; its columns are outputs of the plan, or codes."""

    predicate: str
    columns: tuple[Column, ...]
    positive: bool


@dataclass(frozen=True)
class Query:
    """The groundings of a template in which these literals are what evidence leaves undecided.

    Their number for each assignment to the outputs is the sum of the signed terms.
    """

    terms: tuple[tuple[int, JoinPlan], ...]  # (+1 or −1, plan); all have the same outputs
    whole: JoinPlan  # the plan that the terms add up to
    literals: tuple[GroundLiteral, ...]
    representative: Mapping[str, str]  # variable → the one equal to it that the plan uses


def clause_template(
    clause: Clause, variables: tuple[TypedVariable, ...], plus: tuple[str, ...]
) -> Template:
    tests = tuple(Requirement(condition, False) for condition in clause.conditions)
    return Template(clause.literals, tests, variables, plus)


def cube_template(
    cube: Cube,
    variables: tuple[TypedVariable, ...],
    bound: tuple[TypedVariable, ...],
    demand: Source | None,
) -> Template:
    """The clause ¬cube: what survives of it are the cubes that evidence does not make false."""
    literals = tuple(literal.negate() for literal in cube.literals)
    tests = tuple(Requirement(condition, True) for condition in cube.conditions)
    outputs = tuple(name for name, _ in variables)
    return Template(literals, tests, variables + bound, outputs, demand)


def plan_template(
    template: Template,
    world: GroundedWorld,
    limits: PlanLimits,
    choose_fates: ChooseFates | None = None,
) -> Iterator[Query]:
    """The queries that together list every surviving grounding once.

    `choose_fates` replaces the fates that evidence allows by others, for those who want only
    some of the survivors.
    """
    compiled = compile_tests(template.tests, template.variables, world)
    if compiled is None:
        return
    representative = compiled.representative
    types = dict(template.variables)

    def column(term: SimpleTerm, type_name: str) -> Column:
        if isinstance(term, Variable):
            return representative[term.name]
        return world.domains[type_name].index[term.name]

    literals = [
        GroundLiteral(
            literal.predicate,
            tuple(map(column, literal.terms, world.types[literal.predicate])),
            literal.positive,
        )
        for literal in dict.fromkeys(template.literals)
    ]
    names = tuple(dict.fromkeys(representative.values()))
    variables = tuple((name, len(world.domains[types[name]])) for name in names)
    groundings = math.prod(size for _, size in variables)
    demand = () if template.demand is None else (_renamed(template.demand, representative),)
    split = MOST_SPLIT if groundings > limits.split_above else 0
    fates = choose_fates(literals) if choose_fates else _all_fates(literals, world, split)
    for choice in itertools.product(*fates):
        kept = tuple(
            literal
            for literal, fate in zip(literals, choice, strict=True)
            if fate.undecided and template.listed
        )
        outputs = dict.fromkeys(representative[name] for name in template.outputs)
        columns = itertools.chain.from_iterable(literal.columns for literal in kept)
        outputs.update(dict.fromkeys(column for column in columns if isinstance(column, str)))
        plan = JoinPlan(
            variables,
            tuple(dict.fromkeys((*demand, *compiled.joins, *_sources(f.join for f in choice)))),
            tuple(dict.fromkeys(_sources(fate.anti for fate in choice))),
            compiled.comparisons,
            tuple(outputs),
        )
        if set(plan.joins) & set(plan.antis):
            continue
        terms = _sieve(plan, 1, MOST_SPLIT) if groundings > limits.sieve_above else ((1, plan),)
        yield Query(tuple(terms), plan, kept, representative)


class Fate(NamedTuple):
    """How a literal survives: whether it may be undecided, what its tuple must (not) match."""

    undecided: bool
    join: Source | None = None
    anti: Source | None = None


ChooseFates = Callable[[Sequence[GroundLiteral]], Sequence[Sequence[Fate]]]


def _all_fates(
    literals: Sequence[GroundLiteral], world: GroundedWorld, splittable: int
) -> list[list[Fate]]:
    fates = []
    for literal in literals:
        options = literal_fates(literal, world, splittable > 0)
        splittable -= len(options) > 1
        fates.append(options)
    return fates


def _sources(sources: Iterator[Source | None]) -> Iterator[Source]:
    return (source for source in sources if source is not None)


def literal_fates(literal: GroundLiteral, world: GroundedWorld, split: bool) -> list[Fate]:
    """The ways a literal can survive, without those that no tuple can take."""
    atoms = world.atoms.get(literal.predicate)
    if atoms is None:  # a derived predicate, decided later
        return [Fate(True)]

    def source(kind: str) -> Source | None:
        name = world.relation(literal.predicate, kind)
        return None if name is None else Source(name, literal.columns)

    can_keep = atoms.num_unknown > 0
    can_drop = (atoms.num_false if literal.positive else len(atoms.true)) > 0
    if can_keep and can_drop and not split and not (atoms.sparse and literal.positive):
        if literal.positive:
            return [Fate(True, anti=source("true"))]
        if atoms.sparse:
            return [Fate(True, join=source("possible"))]
        return [Fate(True, anti=source("false"))]
    fates = []
    if can_keep and atoms.sparse:
        fates.append(Fate(True, join=source("unknown")))
    elif can_keep:
        fates.append(Fate(True, anti=source("known")))
    if can_drop and not literal.positive:
        fates.append(Fate(False, join=source("true")))
    elif can_drop and atoms.sparse:
        fates.append(Fate(False, anti=source("possible")))
    elif can_drop:
        fates.append(Fate(False, join=source("false")))
    return fates


def _renamed(source: Source, representative: Mapping[str, str]) -> Source:
    return Source(
        source.relation,
        tuple(representative[c] if isinstance(c, str) else c for c in source.columns),
    )


def _sieve(plan: JoinPlan, sign: int, depth: int) -> list[tuple[int, JoinPlan]]:
    """Signed plans with the same total in which no anti-join alone binds a counted variable."""
    bound = set(plan.outputs).union(*(source.variables for source in plan.joins))
    if depth:
        for anti in plan.antis:
            if not bound.issuperset(anti.variables):
                rest = replace(plan, antis=tuple(a for a in plan.antis if a != anti))
                matching = replace(rest, joins=(*plan.joins, anti))
                return _sieve(rest, sign, depth - 1) + _sieve(matching, -sign, depth - 1)
        for comparison in plan.comparisons:
            if _is_distinctness(comparison) and not bound.issuperset(comparison.variables):
                others = tuple(c for c in plan.comparisons if c != comparison)
                rest = replace(plan, comparisons=others)
                equal = _identify(rest, comparison, bound)
                return _sieve(rest, sign, depth - 1) + _sieve(equal, -sign, depth - 1)
    return [(sign, plan)]


def _is_distinctness(comparison: Comparison) -> bool:
    return comparison.left_values is None and comparison.left != comparison.right


def _identify(plan: JoinPlan, comparison: Comparison, bound: set[str]) -> JoinPlan:
    """The plan with the two variables of a comparison made one; the unbound one goes."""
    gone, stays = comparison.left, comparison.right
    if gone in bound:
        gone, stays = stays, gone
    representative = {name: name for name, _ in plan.variables} | {gone: stays}
    return JoinPlan(
        tuple((name, size) for name, size in plan.variables if name != gone),
        tuple(dict.fromkeys(_renamed(source, representative) for source in plan.joins)),
        tuple(dict.fromkeys(_renamed(source, representative) for source in plan.antis)),
        tuple(
            c._replace(left=representative[c.left], right=representative[c.right])
            for c in plan.comparisons
        ),
        plan.outputs,
    )
