"""Clauses without variables, grounded all in one pass.

A clause over constants is its own ground clause, so no join is planned for it. A Bayesian network
as rules is tens of thousands of these over a few hundred atoms: each atom is looked up once, and
the clauses are gathered from what was found. With s(l) the truth of a literal by evidence,

    s(l) true     the clause is satisfied and goes
    s(l) false    the literal goes
    otherwise     it stays, as the number of its atom.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, compress

import numpy as np

from lapis.errors import LapisError, Note
from lapis.grounding.assembly import HARD, FlatRows
from lapis.grounding.atoms import PredicateAtoms
from lapis.language.model import Rule
from lapis.language.names import format_atom
from lapis.logic.clauses import Clause, Feature, Literal
from lapis.problem.problem import Problem

SATISFIED = np.iinfo(np.int32).min
HINT = (
    "correct the data, or give a rule a weight instead of its final period; infer and map can "
    "break as few as possible (relax=True, --relax)"
)


def split_ground(problem: Problem) -> tuple[list[Feature], list[Feature]]:
    """The features over constants and base predicates alone, and the others."""
    derived = problem.normal_form.derived
    ground: list[Feature] = []
    others: list[Feature] = []
    for feature in problem.normal_form.features:
        plain = not feature.variables and not any(
            clause.conditions
            or (derived and any(literal.predicate in derived for literal in clause.literals))
            for clause in feature.clauses
        )
        (ground if plain else others).append(feature)
    return ground, others


def ground_rows(
    features: Sequence[Feature], problem: Problem, base: Mapping[str, PredicateAtoms]
) -> tuple[FlatRows, list[tuple[Feature, Clause]]]:
    """What survives of clauses over constants, and the clause of each row."""
    clauses = [(feature, clause) for feature in features for clause in feature.clauses]
    literals = list(chain.from_iterable(clause.literals for _, clause in clauses))
    value_of = look_up({id(literal): literal for literal in literals}, problem, base)
    value = np.fromiter(map(value_of.__getitem__, map(id, literals)), np.int32, len(literals))
    length = np.fromiter((len(clause.literals) for _, clause in clauses), np.int64, len(clauses))
    row_of = np.repeat(np.arange(len(length)), length)
    alive = np.bincount(row_of, value == SATISFIED, len(length)) == 0
    left = np.bincount(row_of, value != 0, len(length))
    for row in np.flatnonzero(alive & (left == 0)).tolist():
        if clauses[row][0].hard:
            feature, clause = clauses[row]
            facts = [false_fact(literal, problem) for literal in clause.literals]
            raise contradicted(problem.model.rules[feature.rule], "", facts)
    offset = problem.weight_table.offset.tolist()
    weight_id = np.fromiter(
        (HARD if feature.hard else offset[feature.rule] for feature, _ in clauses),
        np.int32,
        len(clauses),
    )
    ones = np.ones(np.count_nonzero(alive))
    rows = FlatRows(length[alive], value[alive[row_of]], weight_id[alive], ones)
    return rows, list(compress(clauses, alive))


def look_up(
    literals: Mapping[int, Literal], problem: Problem, base: Mapping[str, PredicateAtoms]
) -> dict[int, int]:
    """By the same keys: the signed number of an unknown atom, SATISFIED, or 0 for false."""
    keys: dict[str, list[int]] = {}
    for key, literal in literals.items():
        keys.setdefault(literal.predicate, []).append(key)
    found: dict[int, int] = {}
    for predicate, own in keys.items():
        atoms = base[predicate]
        indexes = [problem.domains[t].index for t in problem.model.predicates[predicate].types]
        rows = [
            [index[t.name] for index, t in zip(indexes, literals[key].terms, strict=True)]
            for key in own
        ]
        codes = atoms.codes(np.array(rows, np.int32).reshape(len(own), len(indexes)))
        sign = np.where([literals[key].positive for key in own], 1, -1)
        number = atoms.literal(codes)
        known = np.where(np.isin(codes, atoms.codes(atoms.true)), 1, -1)
        value = np.where(number != 0, sign * number, np.where(known == sign, SATISFIED, 0))
        found.update(zip(own, value.tolist(), strict=True))
    return found


def false_fact(literal: Literal, problem: Problem) -> str:
    """The fact that makes a literal over constants false."""
    predicate = problem.model.predicates[literal.predicate]
    constants = [term.name for term in literal.terms]
    name = format_atom(predicate.name, constants, predicate.function)
    return f"!{name}" if literal.positive else name


def contradicted(rule: Rule, where: str, facts: Sequence[str]) -> LapisError:
    """The refusal of evidence that leaves a hard clause no literal."""
    return LapisError(
        f"the data contradict the hard rule '{rule.text}'{where}",
        code="hard-contradiction",
        span=rule.span,
        hint=HINT,
        notes=[Note(f"given {', '.join(facts)}")] if facts else (),
    )
