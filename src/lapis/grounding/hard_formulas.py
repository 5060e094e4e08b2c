"""Explain hard ground formulas: the rule, the constants of its variables, and the facts.

A ground clause is the undecided part of one or many groundings. For the message of a contradiction
one of these groundings is looked up in the session: the constants of all its variables, and the
facts that make its other literals false.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lapis.data.keys import contains
from lapis.errors import LapisError, Note
from lapis.grounding.assembly import HARD, HINT, Assembled, FlatRows, hard_contradiction
from lapis.grounding.tables import impossible_evidence
from lapis.language.instances import substitute
from lapis.language.model import Rule
from lapis.language.names import format_atom, format_constant
from lapis.language.printer import print_formula
from lapis.language.syntax import Variable
from lapis.logic.clauses import Feature, Literal
from lapis.network.network import Network
from lapis.network.satisfiability import find_core

if TYPE_CHECKING:
    from lapis.grounding.bottom_up import FeatureRows, GroundingSession

CONTRADICTIONS = ("hard-contradiction", "unsatisfiable")  # errors that relaxing helps
MOST_SHOWN = 10  # ground formulas of a contradiction
MOST_NAMED = 5  # atoms of a block


class GroundFormula(NamedTuple):
    """One grounding of a hard rule, and the number of groundings with the same ground clause."""

    rule: Rule
    values: tuple[tuple[str, str], ...]  # constants by variable
    facts: tuple[str, ...]  # its atoms that are known, negated if false
    groundings: int

    @property
    def formula(self) -> str:
        free = {name for name, _ in self.rule.variables}
        text = print_formula(
            substitute(self.rule.formula, {n: v for n, v in self.values if n in free})
        )
        bound = [(name, value) for name, value in self.values if name not in free]
        return f"{text} at {format_values(bound)}" if bound else text

    def __str__(self) -> str:
        more = f" (one of {self.groundings:,} such)" if self.groundings > 1 else ""
        given = f", given {', '.join(self.facts)}" if self.facts else ""
        return f"{self.formula}{given}{more}"

    def to_json(self) -> dict[str, Any]:
        return {
            "rule": self.rule.text,
            "place": None if self.rule.span is None else str(self.rule.span),
            "formula": self.formula,
            "facts": list(self.facts),
            "groundings": self.groundings,
        }


def refuse_falsified(
    session: GroundingSession, block: FeatureRows, alive: np.ndarray, part: FlatRows
) -> None:
    """Refuse evidence that makes all literals of a hard clause false."""
    row_of = np.repeat(np.arange(len(part.length)), part.length)
    left = np.bincount(row_of, weights=part.literal != 0, minlength=len(part.length))
    if left.all():
        return
    row = int(np.flatnonzero(alive)[np.flatnonzero(left == 0)[0]])
    found = describe_row(session, block, row)
    where = f" at {format_values(found.values)}" if found.values else ""
    raise hard_contradiction(found.rule, where, found.facts)


def refuse_unsatisfiable(session: GroundingSession, rows: FlatRows, assembled: Assembled) -> None:
    """Refuse hard formulas that no world satisfies together, with a minimal core of them."""
    if not (rows.weight_id == HARD).any():
        return
    network = assembled.network
    core = find_core(network)
    if core is None:
        return
    clauses = core[core < network.num_clauses]
    refuse_impossible(session, rows, assembled, clauses)
    notes = [
        Note(str(found), found.rule.span)
        for found in describe_clauses(session, assembled, clauses, rows.weight_id == HARD)
    ]
    notes += [Note(describe_block(network, int(row))) for row in core[len(clauses) :]]
    shown = notes[:MOST_SHOWN]
    if len(notes) > MOST_SHOWN:
        shown.append(Note(f"and {len(notes) - MOST_SHOWN} more"))
    which = "one of them cannot hold" if len(notes) == 1 else f"these {len(notes)} contradict"
    raise LapisError(
        f"no world satisfies the hard formulas: {which}{'' if len(notes) == 1 else ' each other'}",
        code="unsatisfiable",
        hint=HINT,
        notes=shown,
    )


def refuse_impossible(
    session: GroundingSession, rows: FlatRows, assembled: Assembled, clauses: np.ndarray
) -> None:
    """Raise if entries of a network's tables are among the contradictory clauses."""
    chosen = (rows.weight_id == HARD) & np.isin(assembled.clause_of_row, clauses)
    found = np.flatnonzero(chosen[session.num_rule_rows :])
    if len(found):
        tables = session.tables
        entries = zip(tables.table[found].tolist(), tables.entry[found].tolist(), strict=True)
        raise impossible_evidence(session.problem.model, list(entries))


def refuse_relaxing(method: str, relaxing: bool) -> None:
    """Refuse to relax with a method that does not ground all hard formulas."""
    if relaxing:
        raise LapisError(
            f"method {method!r} cannot relax hard formulas",
            code="relax",
            hint="choose a method that grounds them all, as 'auto' does",
        )


def describe_clauses(
    session: GroundingSession, assembled: Assembled, clauses: np.ndarray, chosen: np.ndarray
) -> list[GroundFormula]:
    """Describe one chosen row, bool[num_rows], of each clause; definitions have none."""
    rows = np.flatnonzero(chosen & np.isin(assembled.clause_of_row, clauses))
    _, first = np.unique(assembled.clause_of_row[rows], return_index=True)
    return [describe_origin(session, int(row)) for row in rows[np.sort(first)]]


def describe_origin(session: GroundingSession, row: int) -> GroundFormula:
    """Describe one grounding of a row of `ground_all`."""
    if row < len(session.alone):
        feature, clause = session.alone[row]
        return describe_grounding(session, feature, clause.literals, {})
    return describe_row(session, *session.origin(row))


def describe_row(session: GroundingSession, block: FeatureRows, row: int) -> GroundFormula:
    values = session.find_values(block, row)
    groundings = int(block.rows.multiplicity[row])
    return describe_grounding(session, block.feature, block.template.literals, values, groundings)


def describe_grounding(
    session: GroundingSession,
    feature: Feature,
    literals: Iterable[Literal],
    values: dict[str, int],
    groundings: int = 1,
) -> GroundFormula:
    """Describe a formula at these values of its variables, with the facts among its literals."""
    problem = session.problem
    facts = []
    for literal in literals:
        terms = [term_code(session, literal, place, values) for place in range(len(literal.terms))]
        predicate = problem.model.predicates.get(literal.predicate)
        if predicate is None or any(code < 0 for code in terms):
            continue
        atoms, row = session.base[predicate.name], np.array([terms], np.int32)
        if atoms.literal(atoms.codes(row))[0] != 0:
            continue
        constants = [
            problem.domains[name].constants[code]
            for name, code in zip(predicate.types, terms, strict=True)
        ]
        name = format_atom(predicate.name, constants, predicate.function)
        facts.append(name if contains(atoms.true, row)[0] else f"!{name}")
    written = tuple(
        (name, problem.domains[type_name].constants[values[name]])
        for name, type_name in feature.variables
        if name in values
    )
    rule = problem.model.rules[feature.rule]
    return GroundFormula(rule, written, tuple(dict.fromkeys(facts)), groundings)


def format_values(values: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name} = {format_constant(value)}" for name, value in values)


def term_code(
    session: GroundingSession, literal: Literal, place: int, values: dict[str, int]
) -> int:
    """Return the code of a literal's argument; −1 if its variable has no value."""
    term = literal.terms[place]
    if isinstance(term, Variable):
        return values.get(term.name, -1)
    type_name = session.world.types[literal.predicate][place]
    return session.problem.domains[type_name].index[term.name]


def describe_block(network: Network, row: int) -> str:
    block = row - network.num_clauses
    atoms = network.block_atom[network.block_start[block] : network.block_start[block + 1]]
    names = ", ".join(network.atom_names(atoms[:MOST_NAMED]))
    more = f" and {len(atoms) - MOST_NAMED} more" if len(atoms) > MOST_NAMED else ""
    word = "exactly" if network.block_exact[block] else "at most"
    return f"{word} one of {names}{more} is true"
