"""Soft evidence: ground atoms with a probability p.

**Virtual evidence** (Pearl 1988, Probabilistic Reasoning in Intelligent Systems, section 2.2.2) is
the report of an uncertain sensor: the atom is unknown, as if the data marked it ?, and has a unit
rule of weight log p/(1 − p).

**Posterior constraints** (Jeffrey's rule; the soft facts of ProbCog and pracmln): given all
evidence, the probability of the atom is p. The atom has a unit rule whose weight is fitted
(`problem.stated_probabilities`).

For probabilities 0 and 1 the rule is hard in both readings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from numbers import Real
from typing import NamedTuple

import numpy as np

from lapis.data.database import Database
from lapis.data.keys import contains, union
from lapis.errors import LapisError
from lapis.language.instances import as_atom
from lapis.language.model import Model, Predicate, Rule
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


def unknown_rows(beliefs: Sequence[Belief], world: Database) -> dict[str, np.ndarray]:
    """Return the atoms of the beliefs in a world: int32[num_atoms, arity] by predicate."""
    found: dict[str, list[np.ndarray]] = {}
    for belief in beliefs:
        row = row_of(belief, world)
        if row is not None:
            found.setdefault(belief.predicate, []).append(row)
    return {name: np.concatenate(rows) for name, rows in found.items()}
