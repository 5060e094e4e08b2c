"""Ground a problem bottom-up by joins.

Tuffy (Niu, Ré, Doan and Shavlik 2011, "Tuffy: Scaling up Statistical Inference in Markov Logic
Networks using an RDBMS", section 3.1) grounds by one SQL query for each clause. So do we, with
three differences. Groundings that the evidence satisfies are never listed: their number is that of
all groundings minus those that remain. Atoms of open predicates are not stored in tables; an atom's
number is computed from its arguments. Groundings that differ only in variables that no undecided
literal mentions are counted by the joins, not listed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lapis.grounding.assembly import (
    HARD,
    Assembled,
    FlatRows,
    assemble_network,
    concatenate_rows,
    count_decided,
    ground_rows,
    predicate_signatures,
    split_ground,
)
from lapis.grounding.blocks import apply_blocks
from lapis.grounding.cache import load_grounding, save_grounding
from lapis.grounding.counters import Auxiliaries, keep_counts
from lapis.grounding.definitions import (
    DefinitionGrounder,
    choose_in_place,
    resolve_references,
)
from lapis.grounding.ground_atoms import PredicateAtoms, number_unknown_atoms
from lapis.grounding.grounded_world import ClauseRows, GroundedWorld, fetch_rows, variable_codes
from lapis.grounding.hard_formulas import refuse_falsified, refuse_unsatisfiable
from lapis.grounding.limits import QueryBudget, check_atoms
from lapis.grounding.tables import EntryRows, ground_tables, impossible_evidence
from lapis.grounding.templates import (
    GroundingQuery,
    PlanLimits,
    Template,
    clause_template,
    plan_rows,
    plan_template,
)
from lapis.language.syntax import Variable
from lapis.logic.clauses import Clause, Definition, Feature
from lapis.network.csr import row_starts
from lapis.network.network import Network
from lapis.problem.problem import Problem, refuse_factors
from lapis.relational.conjunction import RelationAtom
from lapis.relational.numbers import number_values, require_numbers, weigh_rows
from lapis.runtime.limits import memory_limit
from lapis.runtime.processes import pause_collector, trim_heap
from lapis.runtime.progress import Progress, Report

MOST_DESCRIBED = 1_000_000  # rows listed to find the grounding that contradicts a hard rule


@pause_collector
def ground(
    problem: Problem,
    *,
    max_memory: int | None = None,
    progress: Report | None = None,
    cache_dir: str | Path | None = None,
    limits: PlanLimits | None = None,
    check: bool = True,
) -> Network:
    """Ground a problem: list the clauses that the evidence leaves open.

    Parameters
    ----------
    problem
        A model on data (`build_problem`).
    max_memory
        Limit in bytes; 70 % of the machine if absent.
    progress
        Called with `lapis.runtime.progress.Progress` events.
    cache_dir
        A folder: a network grounded before from the same clauses, domains and evidence is read from
        there (weights may differ), and a new one is kept there.
    limits
        Below how many groundings a template is not split.
    check
        Whether to search for a contradiction among the hard rules.

    Returns
    -------
    Network
        The ground network.

    Raises
    ------
    LapisError
        `hard-contradiction` if evidence falsifies a hard rule, `block-violated` if it contradicts a
        block, `unsatisfiable` if no world satisfies the hard rules together.
    TooLarge
        If the network is estimated not to fit `max_memory`.
    """
    refuse_factors(problem.model)
    if problem.model.tables:
        cache_dir = None  # a cache is found by clauses
    if cache_dir is not None:
        found = load_grounding(problem, Path(cache_dir))
        if found is not None:
            return found
    session = GroundingSession(problem, max_memory, limits)
    rows = session.ground_all(progress)
    decided = count_decided(session.problem, rows)
    assembled = session.assemble(rows, decided, session.distinct)
    if check:
        refuse_unsatisfiable(session, rows, assembled)
    network = assembled.network
    del rows, assembled, session
    trim_heap(network.literal.nbytes)
    if cache_dir is not None:
        save_grounding(problem, network, Path(cache_dir))
    return network


class PlannedClause(NamedTuple):
    feature: Feature
    template: Template


class FeatureRows(NamedTuple):
    """The groundings of one clause in one query that evidence does not satisfy."""

    feature: Feature
    template: Template
    query: GroundingQuery
    rows: ClauseRows
    weight_id: np.ndarray  # int32[num_rows]


class GroundingSession:
    """The relations of a problem while its clauses are grounded.

    When the session starts, evidence is extended by what blocks imply, unknown atoms are numbered,
    and definitions over known relations are evaluated.
    """

    world: GroundedWorld
    base: Mapping[str, PredicateAtoms]
    undecided: list[Definition]
    alone: list[tuple[Feature, Clause]]
    tables: EntryRows
    num_rule_rows: int  # rows of rules, before those of tables

    def __init__(
        self,
        problem: Problem,
        max_memory: int | None = None,
        limits: PlanLimits | None = None,
    ) -> None:
        self.problem = problem = keep_counts(problem)
        require_numbers(problem)
        self.limits = limits if limits is not None else PlanLimits()
        memory = memory_limit(max_memory)
        check_atoms(problem, memory)
        self.budget = QueryBudget(memory)
        self.base = number_unknown_atoms(apply_blocks(problem), problem.domains)
        types = {name: predicate.types for name, predicate in predicate_signatures(problem).items()}
        self.world = GroundedWorld(problem.domains, types, dict(self.base), memory)
        self.distinct = np.zeros(len(problem.weight_table.value), bool)
        self.auxiliaries = Auxiliaries(sum(atoms.num_unknown for atoms in self.base.values()))
        self.definitions = DefinitionGrounder(
            self.world, self.limits, self.budget, self.auxiliaries
        )
        self.undecided = self.definitions.evaluate_known(problem.normal_form.definitions)

    def clauses(self, features: Sequence[Feature]) -> list[PlannedClause]:
        return [
            PlannedClause(feature, clause_template(clause, feature))
            for feature in features
            for clause in feature.clauses
        ]

    def ground_all(self, progress: Report | None = None) -> FlatRows:
        """Ground all clauses: first those over constants (`alone`), then the others by joins."""
        over_constants, others = split_ground(self.problem)
        rows, self.alone = ground_rows(over_constants, self.problem, self.base)
        grounded = self.ground_clauses(self.clauses(others), progress)
        self.num_rule_rows = len(rows.length) + len(grounded.length)
        return concatenate_rows([rows, grounded, self.ground_tables()])

    def ground_tables(self) -> FlatRows:
        """Ground the tables of a network; refuse evidence that they exclude."""
        model, found = self.problem.model, ground_tables(self.problem.model, self.base)
        self.tables = found
        first = int(self.problem.weight_table.offset[-1])
        is_hard = np.isinf(found.cost)
        owner = np.repeat(np.arange(len(found.length)), found.length)
        left = np.bincount(owner, found.literal != 0, len(found.length))
        decided = np.flatnonzero(is_hard & (left == 0))
        if len(decided):
            entries = zip(found.table[decided].tolist(), found.entry[decided].tolist(), strict=True)
            raise impossible_evidence(model, list(entries))
        self.distinct[first:] = True
        weight_id = np.where(is_hard, HARD, first + found.table).astype(np.int32)
        cost = np.where(is_hard, 1.0, found.cost)
        return FlatRows(found.length, found.literal, weight_id, cost)

    def ground_clauses(
        self, clauses: Iterable[PlannedClause], progress: Report | None = None
    ) -> FlatRows:
        """Ground some clauses and resolve their derived atoms.

        All queries are planned and estimated before the first one runs. This numbers the auxiliary
        atoms, so it can be called once in a session.
        """
        rules = self.problem.model.rules
        began = time.monotonic()
        planned = []
        for clause in clauses:
            rule = rules[clause.feature.rule]
            for query in plan_template(clause.template, self.world, self.limits):
                self.budget.admit(query, rule.text, rule.span)
                planned.append((clause, query))
        found = []
        started = -1
        for clause, query in planned:
            if progress is not None and clause.feature.rule > started:
                started = clause.feature.rule
                seconds, text = time.monotonic() - began, rules[started].text
                progress(Progress("grounding", started, len(rules), seconds, text=text))
            block = self.fetch(clause, query)
            if len(block.weight_id):
                found.append(block)
        flat = self._resolve(found)
        self._mark_distinct(found)
        if progress is not None:
            seconds = time.monotonic() - began
            progress(Progress("grounding", len(rules), len(rules), seconds))
        return flat

    def fetch(self, clause: PlannedClause, query: GroundingQuery) -> FeatureRows:
        """Run a query and find the weight of each row."""
        rows, feature = fetch_rows(query, self.world), clause.feature
        if feature.hard:
            return FeatureRows(
                *clause, query, rows, np.full(len(rows.multiplicity), HARD, np.int32)
            )
        table = self.problem.weight_table
        types = dict(feature.variables)
        plus = [(name, types[name]) for name in feature.plus]
        code = variable_codes(plus, query, rows.answer, self.world)
        weight_id = (code + table.offset[feature.rule]).astype(np.int32)
        if feature.numbers:
            values = number_values(feature, self.problem.domains)
            rows = rows._replace(multiplicity=weigh_rows(rows.answer, values))
        return FeatureRows(*clause, query, rows, weight_id)

    def assemble(
        self, rows: FlatRows, constant_count: np.ndarray, distinct: np.ndarray | None = None
    ) -> Assembled:
        return assemble_network(
            self.problem, self.base, self.auxiliaries, rows, constant_count, distinct
        )

    def _mark_distinct(self, found: Sequence[FeatureRows]) -> None:
        """Find the weights whose rows all come from one query and differ in its outputs."""
        offset = self.problem.weight_table.offset
        blocks: dict[int, list[FeatureRows]] = {}
        for block in found:
            blocks.setdefault(block.feature.rule, []).append(block)
        for rule, (first, *others) in blocks.items():
            if not others and _has_distinct_rows(first):
                self.distinct[offset[rule] : offset[rule + 1]] = True

    def _resolve(self, found: Sequence[FeatureRows]) -> FlatRows:
        rows = [block.rows for block in found]
        resolved = self.definitions.resolve(self.undecided, rows)
        in_place = choose_in_place(rows, resolved)
        flat = []
        self._origins = []
        for block in found:
            start, literal, alive = resolve_references(block.rows, resolved, in_place)
            part = FlatRows(np.diff(start), literal, block.weight_id, block.rows.multiplicity)
            if block.feature.numbers:
                alive &= block.rows.multiplicity != 0.0
            if not alive.all():
                part = part.take(alive)
            if block.feature.hard:
                refuse_falsified(self, block, alive, part)
            flat.append(part)
            self._origins.append((block, np.flatnonzero(alive)))
        self._first_row = row_starts(np.array([len(part.length) for part in flat], np.int64))
        return concatenate_rows(flat)

    def origin(self, row: int) -> tuple[FeatureRows, int]:
        """Return the fetched rows that a row of `ground_all` comes from, and its row there."""
        row -= len(self.alone)
        number = int(np.searchsorted(self._first_row, row, "right")) - 1
        block, alive = self._origins[number]
        return block, int(alive[row - self._first_row[number]])

    def find_values(self, block: FeatureRows, row: int) -> dict[str, int]:
        """Find the codes of the variables in one grounding of this row, as far as possible."""
        query, answer = block.query, block.rows.answer
        plan = query.plan
        types = dict(plan.variables)
        here = self.world.add_rows(answer.rows[row : row + 1], tuple(types[n] for n in plan.keep))
        atom = RelationAtom(here, tuple(map(Variable, plan.keep)))
        one = query.conjunction._replace(true=(*query.conjunction.true, atom))
        listed = plan_rows(one, plan.variables, tuple(types), self.world)
        if listed.rows > MOST_DESCRIBED:
            listed = plan_rows(one, plan.variables, plan.keep, self.world)
        found = self.world.fetch(listed)
        values: dict[str, int] = {}
        for name, type_name in block.feature.variables:
            term = query.stands_for[name]
            if not isinstance(term, Variable):
                values[name] = self.problem.domains[type_name].index[term.name]
            elif term.name in found.variables:
                values[name] = int(found.column(term.name)[0])
        return values


def _has_distinct_rows(block: FeatureRows) -> bool:
    """Return whether some predicate occurs once, over all outputs and undecided in every row."""
    literals = block.query.literals
    if block.rows.references:
        return False
    for position, literal in enumerate(literals):
        alone = sum(other.predicate == literal.predicate for other in literals) == 1
        whole = set(map(Variable, block.query.plan.keep)) <= set(literal.terms)
        if alone and whole and bool((block.rows.literal[:, position] != 0).all()):
            return True
    return False
