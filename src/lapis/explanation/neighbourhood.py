"""Grow the neighbourhood of ground atoms: the ground formulas around them, without the others.

The network of an answer may have a million atoms, of which an explanation needs a few. So a
neighbourhood grows from an atom in waves. A wave takes the atoms that the wave before found, and
finds by joins the ground formulas whose value may depend on them (`occurrences`). Further atoms of
these formulas are the next wave. Facts are found like unknown atoms, but only unknown atoms are
grown from: what lies behind a fact has no influence while the fact stands. Where a fact becomes
unknown if it is taken away, a second phase grows from it too.

A neighbourhood stops growing when it would exceed its limits. An atom that was grown from is
`grown`: all ground formulas that it touches are there. Answers about a component of grown atoms
are those of the whole network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

import numpy as np

from lapis.data.keys import contains, difference, sorted_unique, union
from lapis.errors import TooLarge
from lapis.explanation.known_atoms import SILENT, TRUE, UNKNOWN, KnownAtoms
from lapis.explanation.occurrences import Occurrence
from lapis.grounding.blocks import BlockShape
from lapis.language.syntax import Atom, Variable
from lapis.logic.clauses import TypedVariable, simple_term
from lapis.relational.conjunction import Conjunction, RelationAtom
from lapis.relational.interpretation import Extension, Interpretation
from lapis.relational.plan_compiler import PlanOutput, compile_plan
from lapis.relational.query_plan import list_answer_rows
from lapis.runtime.progress import check_time

FRONTIER, ROWS = "_frontier", "_rows"  # names of relations
OPEN = -1  # the value of an atom that the evidence does not decide

AtomRows = Mapping[str, np.ndarray]  # by predicate int32[num_atoms, arity]


class GrowthLimits(NamedTuple):
    """Limits of a neighbourhood."""

    first_rows: int = 2_000_000  # ground formulas that touch the explained atom
    rows: int = 20_000  # … with those of all further atoms
    atoms: int = 1_500  # atoms that are grown from
    waves: int = 200


@dataclass
class Neighbourhood:
    """The ground formulas around some atoms."""

    known: KnownAtoms
    limits: GrowthLimits
    every_fact: bool = False  # every fact can become unknown, also those of closed predicates
    rows: dict[int, np.ndarray] = field(default_factory=dict)  # by rule int32[n, num_variables]
    atoms: dict[str, np.ndarray] = field(default_factory=dict)  # by predicate, found so far
    grown: dict[str, np.ndarray] = field(default_factory=dict)  # those of them grown from

    def grow(self, start: AtomRows) -> None:
        """Grow from atoms: first through unknown atoms, then through facts that can be unknown."""
        self.add_atoms(start)
        frontier = self.choose(self.atoms, facts=False)
        first = True
        for _ in range(self.limits.waves):
            if not frontier or not (first or self.has_room(frontier)):
                break
            frontier = self.choose(self.wave(frontier, first), facts=False)
            first = False
        frontier = self.choose(self.atoms, facts=True)
        for _ in range(self.limits.waves):
            if not frontier or not self.has_room(frontier):
                break
            frontier = self.choose(self.wave(frontier, False), facts=True)

    @property
    def num_rows(self) -> int:
        return sum(map(len, self.rows.values()))

    def has_room(self, frontier: AtomRows) -> bool:
        """Return whether the limits allow to grow from these atoms too."""
        atoms = sum(map(len, self.grown.values())) + sum(map(len, frontier.values()))
        expected = sum(self.estimate(each, len(rows)) for each, rows in self.touching(frontier))
        return atoms <= self.limits.atoms and self.num_rows + expected <= self.limits.rows

    def touching(self, frontier: AtomRows) -> Iterator[tuple[Occurrence, np.ndarray]]:
        """Yield each occurrence of a predicate with its atoms."""
        for predicate, rows in frontier.items():
            for each in self.known.occurrences.get(predicate, ()):
                yield each, rows

    def wave(self, frontier: AtomRows, first: bool) -> AtomRows:
        """Find the ground formulas that these atoms touch; return the atoms that are new."""
        fresh: dict[int, list[np.ndarray]] = {}
        for each, rows in self.touching(frontier):
            check_time("explaining")
            if first:
                self.refuse_many(each, len(rows))
            fresh.setdefault(each.rule, []).append(self.find_rows(each, rows))
        for predicate, rows in frontier.items():
            before = self.grown.get(predicate, rows[:0])
            self.grown[predicate] = union(before, rows)
        found: dict[str, list[np.ndarray]] = {}
        for rule, parts in fresh.items():
            every = sorted_unique(np.concatenate(parts))
            before = self.rows.get(rule, every[:0])
            new = difference(every, before)
            self.rows[rule] = union(before, new)
            for each in self.known.by_rule[rule] if len(new) else ():
                found.setdefault(each.atom.predicate, []).append(self.atoms_of(each, new))
        return self.add_atoms({n: sorted_unique(np.concatenate(p)) for n, p in found.items()})

    def variables(self, rule: int) -> tuple[TypedVariable, ...]:
        return self.known.rules[rule].variables

    def estimate(self, each: Occurrence, number: int) -> int:
        """Return the number of ground formulas if no table restricts the other variables."""
        bound = {v for atom in (each.atom, *each.needed) for v in variables_of(atom)}
        domains = self.known.problem.domains
        return number * prod(
            len(domains[t]) for n, t in self.variables(each.rule) if n not in bound
        )

    def refuse_many(self, each: Occurrence, number: int) -> None:
        """Raise TooLarge if the explained atoms touch too many ground formulas."""
        expected = self.estimate(each, number)
        if expected > self.limits.first_rows:
            rule = self.known.rules[each.rule]
            raise TooLarge(
                f"about {expected:,} ground formulas of {rule.text!r} touch the atom; at most "
                f"{self.limits.first_rows:,} can be listed",
                code="explain-too-large",
                span=rule.span,
                hint="give the formula a literal that relates its variables, or explain with "
                "fewer constants",
            )

    def find_rows(self, each: Occurrence, atoms: np.ndarray) -> np.ndarray:
        """Return the ground formulas of a rule in which an occurrence is one of the atoms."""
        rule = self.known.rules[each.rule]
        types = self.known.problem.model.predicates[each.atom.predicate].types
        keep = tuple(name for name, _ in rule.variables)
        return self.join(each, each.atom, FRONTIER, Extension(types, atoms), keep)

    def atoms_of(self, each: Occurrence, rows: np.ndarray) -> np.ndarray:
        """Return the atoms that an occurrence is in ground formulas, as far as they matter."""
        variables = self.variables(each.rule)
        names = tuple(name for name, _ in variables)
        terms = each.atom.terms
        types = self.known.problem.model.predicates[each.atom.predicate].types
        keep = tuple(dict.fromkeys(variables_of(each.atom)))
        if set(keep) <= set(names):
            found = rows[:, [names.index(name) for name in keep]]
        else:
            whole = Atom(ROWS, tuple(map(Variable, names)))
            extension = Extension(tuple(kind for _, kind in variables), rows)
            found = self.join(each, whole, ROWS, extension, keep)
        atoms = np.empty((len(found), len(terms)), np.int32)
        for place, (term, kind) in enumerate(zip(terms, types, strict=True)):
            if isinstance(term, Variable):
                atoms[:, place] = found[:, keep.index(term.name)]
            else:
                domain = self.known.problem.domains[kind]
                atoms[:, place] = domain.index[simple_term(term).name]
        return sorted_unique(atoms)

    def join(
        self,
        each: Occurrence,
        first: Atom,
        name: str,
        extension: Extension,
        keep: tuple[str, ...],
    ) -> np.ndarray:
        """Return the values of some variables for which a relation and all needed atoms hold."""
        rule = self.known.rules[each.rule]
        true = [RelationAtom(name, tuple(map(simple_term, first.terms)))]
        true += [RelationAtom(a.predicate, tuple(map(simple_term, a.terms))) for a in each.needed]
        used = {v for atom in true for v in atom.variables} | set(keep)
        variables = tuple(each for each in (*rule.variables, *rule.bound) if each[0] in used)
        relations = {**self.known.possible, name: extension}
        world = Interpretation(self.known.problem.domains, relations)
        plan = compile_plan(
            [Conjunction(true=tuple(true))], variables, world, PlanOutput(keep, keep)
        )
        answers = world.run(plan)
        if not answers:
            return np.empty((0, len(keep)), np.int32)
        found = list_answer_rows(plan, answers)
        rows = found.columns(keep)[np.asarray(found.value > 0, bool)]
        return sorted_unique(rows) if keep else rows[:1]

    def add_atoms(self, found: AtomRows) -> AtomRows:
        """Add atoms that are not false by silence, with the other values of their blocks."""
        fresh: dict[str, np.ndarray] = {}
        for predicate, rows in found.items():
            kept = rows  # values that are possible without the fact of their block, or all others
            if not self.known.has_other_values(predicate):
                kept = rows[self.known.states(predicate, rows) != SILENT]
            shape = self.known.block(predicate)
            if shape is not None and len(kept):
                kept = self.with_block(predicate, kept, shape)
            before = self.atoms.get(predicate, kept[:0])
            new = difference(kept, before)
            if len(new):
                self.atoms[predicate] = union(before, new)
                fresh[predicate] = new
        return fresh

    def with_block(self, predicate: str, rows: np.ndarray, shape: BlockShape) -> np.ndarray:
        """Add the values that the blocks of some atoms can have, also without their facts."""
        known = self.known.evidence(predicate)
        keys = np.unique(shape.keys(rows))
        whole = keys if known.open else np.empty(0, np.int64)
        listed = rows
        if not known.open:
            possible = union(known.true, known.unknown)
            listed = possible[np.isin(shape.keys(possible), keys)]
            if known.predicate.exactly_one:
                whole = np.intersect1d(keys, shape.keys(known.true))
        values = np.arange(shape.num_values, dtype=np.int64)
        every = shape.rows(np.repeat(whole, len(values)), np.tile(values, len(whole)))
        return union(listed, every)

    def values(self, predicate: str, rows: np.ndarray) -> np.ndarray:
        """Return int8[num_rows], 0 or 1 where the evidence decides an atom, OPEN elsewhere.

        The rows contain the blocks of their atoms.
        """
        state = self.known.states(predicate, rows)
        value = np.where(state == UNKNOWN, OPEN, np.where(state == TRUE, 1, 0)).astype(np.int8)
        shape = self.known.block(predicate)
        if shape is not None and len(rows):
            keys = shape.keys(rows)
            decided = np.isin(keys, keys[state == TRUE])
            value[decided & (state != TRUE)] = 0
        return value

    def uncertain(self) -> AtomRows:
        """Return the atoms found so far without those of functions of numbers."""
        model = self.known.problem.model
        return {n: rows for n, rows in self.atoms.items() if not model.predicates[n].is_number}

    def choose(self, found: AtomRows, *, facts: bool) -> AtomRows:
        """Select the atoms to grow from next: unknown ones, and with `facts` those that can be."""
        chosen: dict[str, np.ndarray] = {}
        uncertain = self.uncertain()
        for predicate, rows in found.items():
            if predicate not in uncertain:
                continue
            if facts and (self.every_fact or self.known.may_be_unknown(predicate)):
                kept = rows
            else:
                whole = self.atoms[predicate]
                value = self.values(predicate, whole)
                kept = rows[contains(sorted_unique(whole[value == OPEN]), rows)]
            kept = difference(kept, self.grown.get(predicate, kept[:0]))
            if len(kept):
                chosen[predicate] = kept
        return chosen


def variables_of(atom: Atom | RelationAtom) -> Sequence[str]:
    """Return the names of the variables of an atom."""
    return [term.name for term in atom.terms if isinstance(term, Variable)]
