"""Keep the ground network of a problem up to date while facts change.

Atoms change one at a time. Let R be the undecided groundings that contain the atom A as if it were
unknown, all other atoms as they are. A value v of A turns R into R|v: groundings that v satisfies
are dropped, and A's literal is left out of the others. So a change from value u to v replaces R|u
by R|v (with R itself for "unknown"):

    unknown → known     R is in the network: no join
    known → unknown     R is joined from A (`delta_rows`)
    known → known       the same, and A is in no clause before or after

Numbers of groundings are integers, so the network is the same as if it were ground again.

A block turns one fact into several changes: the facts of the block are evaluated again. A new
constant adds atoms, and the groundings in which a variable has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import product

import numpy as np

from lapis.data.database import Domain
from lapis.errors import LapisError
from lapis.grounding.assembly import FlatRows, count_all_groundings, count_decided
from lapis.grounding.blocks import apply_block
from lapis.grounding.bottom_up import GroundingSession
from lapis.grounding.delta_rows import DeltaRows, DeltaWorld, rows_with_atom, rows_with_constant
from lapis.grounding.hard_formulas import refuse_unsatisfiable
from lapis.grounding.live_atoms import FALSE_ATOM, TRUE_ATOM, AtomRow, LiveAtoms
from lapis.language.model import Predicate
from lapis.logic.clauses import Feature
from lapis.network.live_network import Literals, LiveBlocks, LiveNetwork
from lapis.problem.problem import Evidence, Problem
from lapis.runtime.limits import memory_limit
from lapis.runtime.processes import pause_collector
from lapis.runtime.progress import Report

KNOWN_FALSE, KNOWN_TRUE, NOT_KNOWN = range(3)  # what the evidence says of an atom

RowCounts = dict[tuple[Literals, int], float]  # groundings of each clause and weight


class LiveGrounding:
    """A problem whose facts change, and its network.

    Parameters
    ----------
    problem
        The problem at the start, which `is_live` accepts.
    max_memory
        Limit in bytes; 70 % of the machine if absent.
    progress
        Called with progress events while the problem is ground.
    """

    problem: Problem
    network: LiveNetwork

    @pause_collector
    def __init__(
        self, problem: Problem, max_memory: int | None = None, progress: Report | None = None
    ) -> None:
        session = GroundingSession(problem, max_memory)
        rows = session.ground_all(progress)
        assembled = session.assemble(rows, count_decided(session.problem, rows), session.distinct)
        refuse_unsatisfiable(session, rows, assembled)
        self.problem = session.problem
        self.max_memory = memory_limit(max_memory)
        model = self.problem.model
        self.network = LiveNetwork(
            assembled.network,
            count_groundings(rows, assembled.clause_of_row, assembled.network.num_clauses),
            list(model.predicates),
            {name: live_blocks(p) for name, p in model.predicates.items() if p.block},
        )
        self.atoms = {name: LiveAtoms(session.base[name]) for name in model.predicates}
        self.types = {name: predicate.types for name, predicate in model.predicates.items()}
        self.features: dict[str, list[Feature]] = {}
        for feature in self.problem.normal_form.features:
            names = {each.predicate for clause in feature.clauses for each in clause.literals}
            for name in names:
                self.features.setdefault(name, []).append(feature)
        self.num_joined = 0  # groundings listed by joins

    @property
    def world(self) -> DeltaWorld:
        return DeltaWorld(self.atoms, self.types, self.problem.domains, self.max_memory)

    def kind(self, predicate: str, row: AtomRow) -> int:
        """Return what the evidence and the blocks say of an atom."""
        status = self.atoms[predicate].status(row)
        return NOT_KNOWN if status > 0 else KNOWN_TRUE if status == TRUE_ATOM else KNOWN_FALSE

    def settle_atom(
        self, predicate: str, row: AtomRow, kind: int, touch: Callable[[set[int]], None]
    ) -> None:
        """Change what is known of an atom.

        `touch` is called with the labels of the components that change, before they do.
        """
        before = self.kind(predicate, row)
        if before == kind:
            return
        atoms, network = self.atoms[predicate], self.network
        number = self.number(predicate, row)
        if before == NOT_KNOWN:
            counts = self.stored_rows(number)
            touch({int(network.label[number]), *self.labels_of_block(predicate, row)})
        else:
            atoms.set_status(row, number + 1)
            try:
                features = self.features.get(predicate, [])
                counts = self.collect(rows_with_atom(features, predicate, row, self.world))
            finally:
                atoms.set_status(row, TRUE_ATOM if before == KNOWN_TRUE else FALSE_ATOM)
            labels = self.labels_of_rows(counts, number)
            touch(labels | self.labels_of_block(predicate, row))
        if kind == NOT_KNOWN:
            network.open_atom(number)
            touch({int(network.label[number])})
        for (literals, weight_id), count in counts.items():
            self.replace_row(literals, weight_id, count, number + 1, before, kind)
        if before == NOT_KNOWN:
            network.close_atom(number)
        known = TRUE_ATOM if kind == KNOWN_TRUE else FALSE_ATOM
        atoms.set_status(row, number + 1 if kind == NOT_KNOWN else known)

    def number(self, predicate: str, row: AtomRow) -> int:
        """Return the number of an atom, a new one if it was never unknown."""
        first = self.atoms[predicate].first_number(row)
        return self.network.add_atom((predicate, row)) if first is None else first

    def stored_rows(self, number: int) -> RowCounts:
        """Return the rows of the network with an atom."""
        network = self.network
        return {
            (network.literals_of(row), int(network.weight_id[row])): float(network.count[row])
            for row in network.rows_of(number).tolist()
        }

    def collect(self, found: Iterable[DeltaRows]) -> RowCounts:
        """Return listed groundings by clause and weight, without tautologies."""
        counts: RowCounts = {}
        offset = self.problem.weight_table.offset
        for rows in found:
            if not len(rows.literal):
                continue
            feature = rows.feature
            weight_id = np.full(len(rows.literal), -1, np.int64)
            if not feature.hard:
                shape = self.problem.weight_table.shape[feature.rule]
                weight_id[:] = offset[feature.rule]
                if feature.plus:
                    weight_id += np.ravel_multi_index(tuple(rows.plus.T), shape)
            self.num_joined += len(rows.literal)
            for literals, weight in zip(rows.literal.tolist(), weight_id.tolist(), strict=True):
                own = set(literals)
                own.discard(0)
                if any(-literal in own for literal in own):
                    continue
                key = tuple(sorted(own, key=abs)), weight
                counts[key] = counts.get(key, 0.0) + rows.multiplicity
        return counts

    def replace_row(
        self, literals: Literals, weight_id: int, count: float, own: int, before: int, after: int
    ) -> None:
        """Replace groundings of a clause: what is known of the atom `own` changes."""
        self.add_row(settle_literals(literals, own, before), weight_id, -count)
        self.add_row(settle_literals(literals, own, after), weight_id, count)

    def add_row(self, literals: Literals | None, weight_id: int, count: float) -> None:
        """Add groundings of a clause; None: they are satisfied."""
        network = self.network
        if literals:
            network.add(literals, weight_id, count)
        elif weight_id < 0:
            network.violated += count if literals is not None else 0.0
        elif literals is None:
            network.constant_count[weight_id] += count

    def labels_of_rows(self, counts: RowCounts, number: int) -> set[int]:
        """Return the labels of the atoms in some rows, except one atom."""
        atoms = {abs(literal) - 1 for literals, _ in counts for literal in literals}
        atoms.discard(number)
        return set(self.network.label[np.fromiter(atoms, np.int64, len(atoms))].tolist())

    def labels_of_block(self, predicate: str, row: AtomRow) -> set[int]:
        """Return the labels of the unknown atoms in the block of an atom."""
        blocks = self.network.blocks.get(predicate)
        if blocks is None:
            return set()
        status = self.atoms[predicate].statuses(self.block_rows(predicate, row))
        return set(self.network.label[status[status > 0] - 1].tolist())

    def block_rows(self, predicate: str, row: AtomRow) -> np.ndarray:
        """Return int32[num_values, arity], the atoms of a block."""
        declared = self.problem.model.predicates[predicate]
        columns = [
            range(len(self.problem.domains[type_name]))
            if place in declared.block
            else (row[place],)
            for place, type_name in enumerate(declared.types)
        ]
        return np.array(list(product(*columns)), np.int32).reshape(-1, declared.arity)

    def stated_kinds(self, predicate: str, rows: Iterable[AtomRow]) -> dict[AtomRow, int]:
        """Return what the present evidence says of atoms, and of all atoms of their blocks."""
        evidence = self.problem.evidence[predicate]
        declared = evidence.predicate
        if not declared.block:
            return {row: stated_kind(evidence, row) for row in rows}
        found: dict[AtomRow, int] = {}
        for row in rows:
            if row not in found:
                found |= self.kinds_of_block(evidence, row)
        return found

    def kinds_of_block(self, evidence: Evidence, row: AtomRow) -> dict[AtomRow, int]:
        """Return what the evidence implies for the atoms of a block; raise if it contradicts it."""
        declared, domains = evidence.predicate, self.problem.domains
        types = tuple(f"{place}" for place in range(declared.arity))
        own = {
            name: domains[kind]
            if place in declared.block
            else Domain(name, (domains[kind].constants[row[place]],))
            for place, (name, kind) in enumerate(zip(types, declared.types, strict=True))
        }
        key = [place for place in range(declared.arity) if place not in declared.block]

        def restrict(rows: np.ndarray) -> np.ndarray:
            inside = np.ones(len(rows), bool)
            for place in key:
                inside &= rows[:, place] == row[place]
            rows = rows[inside].copy()
            rows[:, key] = 0
            return rows

        alone = Evidence(
            replace(declared, types=types), evidence.open, restrict(evidence.true),
            restrict(evidence.false), restrict(evidence.unknown),
        )  # fmt: skip
        implied = apply_block(alone, own)
        found = {}
        for each in self.block_rows(declared.name, row).tolist():
            place = tuple(0 if n in key else code for n, code in enumerate(each))
            found[tuple(each)] = stated_kind(implied, place)
        return found

    def grow(self, type_name: str, constant: str, touch: Callable[[set[int]], None]) -> None:
        """Add a constant to a type, with its atoms and all groundings that have it."""
        known = self.problem.domains[type_name]
        domain = Domain(type_name, (*known.constants, constant))
        domains = {**self.problem.domains, type_name: domain}
        before = count_all_groundings(self.problem)
        self.problem = replace(self.problem, domains=domains)
        self.network.domains = domains
        code = len(domains[type_name]) - 1
        for name, row in self.new_atoms(type_name, code):
            number = self.network.add_atom((name, row))
            self.network.open_atom(number)
            touch({int(self.network.label[number])})
            self.atoms[name].set_status(row, number + 1)
        features = self.problem.normal_form.features
        counts = self.collect(rows_with_constant(features, type_name, code, self.world))
        touch(self.labels_of_rows(counts, -1))
        self.network.constant_count += count_all_groundings(self.problem) - before
        for (literals, weight_id), count in counts.items():
            self.add_row(literals, weight_id, count)
            if weight_id >= 0:
                self.network.constant_count[weight_id] -= count

    def new_atoms(self, type_name: str, code: int) -> Iterator[tuple[str, AtomRow]]:
        """Yield the atoms of open predicates with a new constant."""
        for name, evidence in self.problem.evidence.items():
            types = evidence.predicate.types
            if not evidence.open or type_name not in types:
                continue
            for row in product(*(range(len(self.problem.domains[kind])) for kind in types)):
                if any(c == code and k == type_name for c, k in zip(row, types, strict=True)):
                    yield name, row

    def may_grow(self, type_name: str) -> bool:
        """Return whether `grow` can take in a constant of a type.

        Weights and blocks of the type would change their numbers and values.
        """
        model = self.problem.model
        counted = any(
            dict(rule.variables)[n] == type_name for rule in model.rules for n in rule.plus
        )
        blocks = any(p.block and type_name in p.types for p in model.predicates.values())
        return not (counted or blocks or type_name in model.sizes)

    def refuse_contradiction(self, labels: Iterable[int]) -> None:
        """Raise if the hard rules contradict the evidence, or each other in some components."""
        from lapis.grounding.bottom_up import ground
        from lapis.network.satisfiability import find_core

        if not any(feature.hard for feature in self.problem.normal_form.features):
            return
        part = self.network.build(self.network.atoms_with(labels)).network
        if self.network.violated or find_core(part) is not None:
            ground(self.problem, max_memory=self.max_memory)  # raises, with a full explanation
            raise LapisError("no world satisfies the hard formulas", code="unsatisfiable")


def is_live(problem: Problem) -> bool:
    """Return whether the network of a problem can be kept up to date by joins.

    Problems with quantified formulas, counts, numbers or tables are ground again as a whole.
    """
    model, form = problem.model, problem.normal_form
    return not (
        model.tables
        or model.constraints
        or model.has_variables
        or form.definitions
        or any(feature.numbers for feature in form.features)
    )


def live_blocks(predicate: Predicate) -> LiveBlocks:
    key = tuple(place for place in range(predicate.arity) if place not in predicate.block)
    return LiveBlocks(key, predicate.exactly_one)


def count_groundings(rows: FlatRows, clause_of_row: np.ndarray, num_clauses: int) -> np.ndarray:
    """Return float64[num_clauses], the groundings that became each clause."""
    kept = clause_of_row >= 0
    return np.bincount(clause_of_row[kept], rows.multiplicity[kept], num_clauses)


def settle_literals(literals: Literals, own: int, kind: int) -> Literals | None:
    """Return a clause with what is known of an atom applied; None if it is satisfied."""
    if kind == NOT_KNOWN:
        return literals
    if (own if kind == KNOWN_TRUE else -own) in literals:
        return None
    return tuple(literal for literal in literals if abs(literal) != own)


def stated_kind(evidence: Evidence, row: AtomRow) -> int:
    """Return what evidence says of an atom, without its block."""
    if find_sorted_row(evidence.true, row)[1]:
        return KNOWN_TRUE
    if evidence.open:
        return KNOWN_FALSE if find_sorted_row(evidence.false, row)[1] else NOT_KNOWN
    return NOT_KNOWN if find_sorted_row(evidence.unknown, row)[1] else KNOWN_FALSE


def find_sorted_row(rows: np.ndarray, row: AtomRow) -> tuple[int, bool]:
    """Return the place of a row in lexicographic order, and whether it is there."""
    first, last = 0, len(rows)
    for place, code in enumerate(row):
        column = rows[first:last, place]
        first, last = (
            first + int(np.searchsorted(column, code)),
            first + int(np.searchsorted(column, code, "right")),
        )
    return first, first < last


def insert_row(rows: np.ndarray, row: AtomRow) -> np.ndarray:
    """Return sorted rows with one more."""
    place, found = find_sorted_row(rows, row)
    return rows if found else np.insert(rows, place, np.array(row, np.int32), axis=0)


def delete_row(rows: np.ndarray, row: AtomRow) -> np.ndarray:
    """Return sorted rows without one."""
    place, found = find_sorted_row(rows, row)
    return np.delete(rows, place, axis=0) if found else rows
