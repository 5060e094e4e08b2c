"""Soft evidence: ground atoms with a probability p.

**Virtual evidence** (Pearl 1988, Probabilistic Reasoning in Intelligent Systems, section 2.2.2) is
the report of an uncertain sensor: the atom is unknown, as if the data marked it ?, and has a unit
rule of weight log p/(1 − p).

**Posterior constraints** (Jeffrey's rule; the soft facts of ProbCog and pracmln): given all
evidence, the probability of the atom is p. The atom has a unit rule whose weight is fitted
(`problem.stated_probabilities`).

For probabilities 0 and 1 the rule is hard in both readings.

**Tables.** The output of a classifier is a table P.probability whose last column is p. Its rows are
virtual evidence, but no rules of their own: they are the numbers of one rule,

    1 logit(p(x)) * P(x)

with log p/(1 − p) as the factor. Rows with probability 0 or 1 are facts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from numbers import Real
from typing import NamedTuple

import numpy as np

from lapis.data.database import Database
from lapis.data.formats.table_files import PROBABILITY_MARK, is_probability
from lapis.data.keys import contains, union
from lapis.errors import LapisError
from lapis.language.instances import as_atom
from lapis.language.model import NUMBER_TYPE, Model, Predicate, Rule, RuleNumber
from lapis.language.names import format_atom, format_state
from lapis.language.parser import parse_formula
from lapis.language.syntax import Atom, Constant, Formula, Not, Variable
from lapis.problem.problem import unknown_predicate_error
from lapis.problem.query import check_arity, is_known, unknown_constant
from lapis.problem.state_names import FALSE_STATE, no_state, read_states, variable_states


class Belief(NamedTuple):
    predicate: str
    constants: tuple[str, ...]
    name: str  # as facts are written
    probability: float


def resolve_beliefs(
    model: Model, worlds: Sequence[Database], stated: Mapping[str, float], open_predicates: Set[str]
) -> tuple[Belief, ...]:
    """Resolve and check soft evidence; its atoms must be unknown in every world.

    `open_predicates` are the predicates whose atoms are unknown unless the data states them.
    """
    beliefs: dict[str, Belief] = {}
    for text, probability in stated.items():
        belief = resolve_belief(model, worlds, text, check_probability(text, probability))
        if belief.name in beliefs:
            raise LapisError(
                f"soft evidence for {belief.name} is given twice", code="soft-evidence"
            )
        beliefs[belief.name] = belief
        for world in worlds:
            refuse_known(belief, world)
    for belief in beliefs.values():
        predicate = model.predicates[belief.predicate]
        for world in worlds if predicate.block else ():
            is_open = predicate.variable or predicate.name in open_predicates
            refuse_decided(belief, predicate, world, beliefs.values(), is_open)
    return tuple(beliefs.values())


def check_probability(text: str, probability: object) -> float:
    is_number = isinstance(probability, Real) and not isinstance(probability, bool | np.bool_)
    if not is_number or not 0.0 <= float(probability) <= 1.0:  # type: ignore[arg-type]
        raise LapisError(
            "soft evidence must be a ground atom and a probability, "
            f"not {text!r} = {probability!r}",
            code="soft-evidence",
            hint="a probability is a number from 0 to 1",
        )
    return float(probability)  # type: ignore[arg-type]


def resolve_belief(
    model: Model, worlds: Sequence[Database], text: str, probability: float
) -> Belief:
    if model.has_variables:
        return variable_belief(model, text, probability)
    formula = parse_formula(text, "<soft evidence>")
    atom = as_atom(formula)
    terms = () if atom is None else atom.terms
    names = tuple(term.name for term in terms if isinstance(term, Variable | Constant))
    if atom is None or len(names) < len(terms):
        raise LapisError(
            "soft evidence must be a ground atom and a probability, "
            f"not {text!r} = {probability!r}",
            code="soft-evidence",
            span=None if atom is None else atom.span,
        )
    predicate = model.predicates.get(atom.predicate)
    if predicate is None:
        raise unknown_predicate_error(atom.predicate, model, "soft evidence")
    check_arity(predicate, atom, formula, "the soft evidence")
    domains = [world.domains for world in worlds]
    for name, type_name in zip(names, predicate.types, strict=True):
        if not is_known(name, type_name, domains):
            raise unknown_constant(name, type_name, domains, f"the soft evidence {text}")
    name = format_atom(predicate.name, names, predicate.function)
    return Belief(predicate.name, names, name, probability)


def variable_belief(model: Model, text: str, probability: float) -> Belief:
    """Resolve soft evidence for a state of a variable."""
    found = read_states(*variable_states(model), text)
    if len(found) != 1:
        raise no_state(text)
    (name, state), types = found[0], model.predicates[found[0][0]].types
    if state is None and types:
        raise no_state(text)
    constants = () if state is None or not types else (state,)
    if state == FALSE_STATE and not types:
        probability = 1.0 - probability
    return Belief(name, constants, format_state(name, constants), probability)


def refuse_known(belief: Belief, world: Database) -> None:
    row = row_of(belief, world)
    if row is None:
        return
    relation = world.relations[belief.predicate]
    for value, rows in (("true", relation.true), ("false", relation.false)):
        if contains(rows, row)[0]:
            raise LapisError(
                f"soft evidence for {belief.name} has no effect: "
                f"{world.name} states that it is {value}",
                code="soft-evidence",
                hint=f"remove the fact, or mark it unknown: ?{belief.name}",
            )


def refuse_decided(
    belief: Belief, predicate: Predicate, world: Database, beliefs: Iterable[Belief], is_open: bool
) -> None:
    """Raise if the data determines the value of a belief's block."""
    row = row_of(belief, world)
    if row is None:
        return
    relation = world.relations[predicate.name]
    key = [place for place in range(predicate.arity) if place not in predicate.block]

    def in_block(rows: np.ndarray) -> np.ndarray:
        return rows[(rows[:, key] == row[:, key]).all(axis=1)]

    reason = ""
    for constants in world.decode(relation, in_block(relation.true)):
        stated = format_atom(predicate.name, constants, predicate.function)
        reason = f"{world.name} states {stated}, and only one value is true"
    if not reason and predicate.exactly_one:
        if is_open:
            sizes = [len(world.domains[predicate.types[place]]) for place in predicate.block]
            possible = math.prod(sizes) - len(in_block(relation.false))
        else:
            believed = unknown_rows(list(beliefs), world)[predicate.name]
            possible = len(in_block(union(relation.unknown, believed)))
        if possible == 1:
            reason = "one value must be true, and all others are false"
    if reason:
        raise LapisError(
            f"soft evidence for {belief.name} has no effect: {reason}",
            code="soft-evidence",
            hint="mark other values unknown (?fact)"
            + ("" if is_open else f", or open the predicate (--open {predicate.name})"),
        )


def row_of(belief: Belief, world: Database) -> np.ndarray | None:
    """Return int32[1, arity], the atom in a world; None if the world lacks a constant."""
    types = world.relations[belief.predicate].types
    codes = [
        world.domains[type_name].index.get(name)
        for name, type_name in zip(belief.constants, types, strict=True)
    ]
    if None in codes:
        return None
    return np.array([codes], np.int32).reshape(1, len(types))


def with_beliefs(model: Model, beliefs: Sequence[Belief]) -> Model:
    """Add a unit rule for each belief after the other rules."""
    return replace(model, rules=model.rules + tuple(map(belief_rule, beliefs)))


def belief_rule(belief: Belief) -> Rule:
    """Return the unit rule of virtual evidence."""
    formula: Formula = Atom(belief.predicate, tuple(map(Constant, belief.constants)))
    p = belief.probability
    if p in (0.0, 1.0):
        return Rule(formula if p else Not(formula), (), (), None, True, belief.name, fixed=True)
    return Rule(formula, (), (), math.log(p) - math.log1p(-p), False, belief.name, fixed=True)


def declare_probabilities(model: Model, databases: Sequence[Database]) -> Model:
    """Add a function of numbers to the model for each table of probabilities in the data."""
    added: dict[str, Predicate] = {}
    for name in (name for database in databases for name in database.relations):
        if not is_probability(name):
            continue
        predicate = model.predicates.get(name.removesuffix(PROBABILITY_MARK))
        if predicate is None:
            stem = name.removesuffix(PROBABILITY_MARK)
            raise unknown_predicate_error(stem, model, f"the table {name}")
        if predicate.is_number:
            raise LapisError(
                f"{predicate.name} is a function of numbers: it has no probabilities",
                code="soft-evidence",
            )
        types = (*predicate.types, NUMBER_TYPE)
        block = (predicate.arity,)
        added[name] = Predicate(name, types, block, exactly_one=False, function=True)
    if not added:
        return model
    numbers = {NUMBER_TYPE: model.types.get(NUMBER_TYPE, ())}
    return replace(
        model, types={**model.types, **numbers}, predicates={**model.predicates, **added}
    )


class SoftRows(NamedTuple):
    """A world whose certain probabilities are facts, and the atoms of the others."""

    database: Database
    unknown: Mapping[str, np.ndarray]  # int32[num_atoms, arity] by predicate


def read_probabilities(database: Database, model: Model) -> SoftRows:
    """Check the tables of probabilities of bound data."""
    relations, unknown = dict(database.relations), {}
    for name, predicate in model.predicates.items():
        if not (is_probability(name) and predicate.is_number):
            continue
        relation = relations[name]
        stem = name.removesuffix(PROBABILITY_MARK)
        rows = relation.true
        value = database.domains[predicate.types[-1]].numeric[rows[:, -1]]
        wrong = np.flatnonzero((value < 0.0) | (value > 1.0))
        atoms = np.ascontiguousarray(rows[:, :-1])
        if len(wrong):
            raise LapisError(
                f"the probability of {_name_atom(database, stem, atoms[wrong[0]])} is "
                f"{value[wrong[0]]:g}",
                code="soft-evidence",
                hint="a probability is a number from 0 to 1",
            )
        facts = relations[stem]
        for word, known in (("true", facts.true), ("false", facts.false)):
            stated = np.flatnonzero(contains(known, atoms))
            if len(stated):
                atom = _name_atom(database, stem, atoms[stated[0]])
                raise LapisError(
                    f"soft evidence for {atom} has no effect: {database.name} states that it is "
                    f"{word}",
                    code="soft-evidence",
                    hint=f"remove the fact, or its row in the table {name}",
                )
        soft = (value > 0.0) & (value < 1.0)
        relations[name] = replace(relation, true=rows[soft])
        relations[stem] = replace(
            facts,
            true=union(facts.true, atoms[value == 1.0]),
            false=union(facts.false, atoms[value == 0.0]),
        )
        unknown[stem] = atoms[soft]
    return SoftRows(replace(database, relations=relations), unknown)


def _name_atom(database: Database, predicate: str, row: np.ndarray) -> str:
    relation = database.relations[predicate]
    [constants] = database.decode(relation, row[None, :])
    return format_atom(predicate, constants, relation.function)


def probability_rules(model: Model) -> tuple[Rule, ...]:
    """Return the rule of each table of probabilities: its log-odds times an atom."""
    found = []
    for name, function in model.predicates.items():
        if is_probability(name) and function.is_number:
            terms = tuple(Variable(f"x{i + 1}") for i in range(function.arity - 1))
            variables = tuple(
                (f"x{i + 1}", type_name) for i, type_name in enumerate(function.types[:-1])
            )
            formula = Atom(name.removesuffix(PROBABILITY_MARK), terms)
            numbers = (RuleNumber(name, terms, "logit"),)
            found.append(
                Rule(formula, variables, (), 1.0, False, name, fixed=True, numbers=numbers)
            )
    return tuple(found)


def unknown_rows(beliefs: Sequence[Belief], world: Database) -> dict[str, np.ndarray]:
    """Return the atoms of the beliefs in a world: int32[num_atoms, arity] by predicate."""
    found: dict[str, list[np.ndarray]] = {}
    for belief in beliefs:
        row = row_of(belief, world)
        if row is not None:
            found.setdefault(belief.predicate, []).append(row)
    return {name: np.concatenate(rows) for name, rows in found.items()}
