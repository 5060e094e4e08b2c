"""From a problem to its ground network, bottom-up through joins.

Tuffy (Niu, Ré, Doan, Shavlik, VLDB 2011, section 3.1) grounds by one SQL query per clause; so do
we, with three differences. Groundings that the evidence satisfies are not fetched and then
dropped, nor listed at all: their number is that of all groundings minus those that survive. Atoms
of open predicates are not stored as tables to be joined; an atom's number is computed from its
arguments. And rows that differ only in variables no undecided literal mentions are counted by the
engine, so a long body over known facts costs what its undecided literals distinguish.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from lapis.engines import AutoEngine, Engine
from lapis.engines.plan import Bindings
from lapis.errors import LapisError
from lapis.grounding.atoms import PredicateAtoms, atom_table, number_atoms
from lapis.grounding.auxiliary import definition_clauses, keep_used
from lapis.grounding.blocks import network_blocks
from lapis.grounding.definitions import (
    Auxiliaries,
    choose_in_place,
    evaluate_known,
    resolve_definitions,
    resolve_references,
)
from lapis.grounding.evidence import close_blocks
from lapis.grounding.limits import QueryBudget, check_atoms, memory_limit
from lapis.grounding.merge import TAUTOLOGY, merge_rows
from lapis.grounding.network import AtomTable, Network
from lapis.grounding.rows import Rows, fetch_rows, variable_codes
from lapis.grounding.templates import PlanLimits, Query, clause_template, plan_template
from lapis.grounding.world import GroundedWorld
from lapis.language.model import Predicate
from lapis.logic.clauses import Feature
from lapis.problem import Problem

Progress = Callable[[int, int, str], None]  # rules done, rules in all, text of the one starting

HARD = -1


def ground(
    problem: Problem,
    *,
    engine: Engine | None = None,
    max_memory: int | None = None,
    progress: Progress | None = None,
    limits: PlanLimits | None = None,
) -> Network:
    """The ground network of a problem.

    Raises TooLarge (`too-large`) if it is estimated not to fit `max_memory` bytes (default: 70 %
    of the machine), LapisError (`hard-contradiction`) if evidence falsifies a hard rule, and
    LapisError (`block-violated`) if it contradicts a block.
    """
    budget = memory_limit(max_memory)
    check_atoms(problem, budget)
    own = AutoEngine(budget) if engine is None else None
    try:
        return _ground(
            problem, own if engine is None else engine, budget, progress, limits or PlanLimits()
        )
    finally:
        if own is not None:
            own.close()


class FeatureRows(NamedTuple):
    """The surviving groundings of one clause in one query."""

    feature: Feature
    query: Query
    rows: Rows
    weight_id: np.ndarray  # int32[num_rows]


def open_world(problem: Problem, engine: Engine) -> GroundedWorld:
    """Evidence closed under blocks, its unknown atoms numbered."""
    atoms = dict(number_atoms(close_blocks(problem), problem.domains))
    types = {name: predicate.types for name, predicate in _signatures(problem).items()}
    return GroundedWorld(problem.domains, types, atoms, engine)


def _ground(
    problem: Problem, engine: Engine, max_memory: int, progress: Progress | None, limits: PlanLimits
) -> Network:
    world = open_world(problem, engine)
    base = {name: world.atoms[name] for name in problem.evidence}
    atoms = atom_table(base)
    budget = QueryBudget(engine, max_memory)

    def admit(query: Query, text: str) -> None:
        budget.admit(query, text)

    undecided = evaluate_known(problem.normal_form.definitions, world, limits, admit)
    found = _ground_features(problem, world, budget, progress, limits)
    blocks = [block.rows for block in found]
    auxiliaries = Auxiliaries(len(atoms))
    resolved = resolve_definitions(undecided, blocks, world, limits, admit, auxiliaries)
    in_place = choose_in_place(blocks, resolved)

    lengths, literals, weight_ids, counts = [], [], [], []
    for block in found:
        start, literal, alive = resolve_references(block.rows, resolved, in_place)
        length, weight_id, count = np.diff(start), block.weight_id, block.rows.count
        if not alive.all():
            literal = literal[np.repeat(alive, length)]
            length, weight_id, count = length[alive], weight_id[alive], count[alive]
        if block.feature.hard:
            _check_falsified(problem, block, alive, length, literal)
        lengths.append(length)
        literals.append(literal)
        weight_ids.append(weight_id)
        counts.append(count)
    return _assemble(problem, base, atoms, auxiliaries, lengths, literals, weight_ids, counts)


def _ground_features(
    problem: Problem,
    world: GroundedWorld,
    budget: QueryBudget,
    progress: Progress | None,
    limits: PlanLimits,
) -> list[FeatureRows]:
    planned = []
    features = problem.normal_form.features
    for feature in features:
        rule = problem.model.rules[feature.rule]
        for clause in feature.clauses:
            template = clause_template(clause, feature.variables, feature.plus)
            for query in plan_template(template, world, limits):
                budget.admit(query, rule.text, rule.span)
                planned.append((feature, query))
    found = []
    started = -1
    for feature, query in planned:
        if progress is not None and feature.rule > started:
            started = feature.rule
            progress(started, len(features), problem.model.rules[started].text)
        rows = fetch_rows(query, world)
        if len(rows.count):
            found.append(
                FeatureRows(feature, query, rows, _weight_ids(problem, feature, query, rows))
            )
    if progress is not None:
        progress(len(features), len(features), "")
    return found


def _weight_ids(problem: Problem, feature: Feature, query: Query, rows: Rows) -> np.ndarray:
    if feature.hard:
        return np.full(len(rows.count), HARD, np.int32)
    table = problem.weight_table
    code = variable_codes(feature.plus, table.shape[feature.rule], query, rows.bindings)
    return (code + table.offset[feature.rule]).astype(np.int32)


def _assemble(
    problem: Problem,
    base: Mapping[str, PredicateAtoms],
    base_atoms: AtomTable,
    auxiliaries: Auxiliaries,
    lengths: list[np.ndarray],
    literals: list[np.ndarray],
    weight_ids: list[np.ndarray],
    counts: list[np.ndarray],
) -> Network:
    literal = np.concatenate([np.empty(0, np.int32), *literals])
    atoms, definition_start = base_atoms, np.zeros(1, np.int64)
    definition_literal = np.empty(0, np.int32)
    if auxiliaries.count:
        used = keep_used(auxiliaries, base_atoms, literal)
        atoms, literal = used.atoms, used.literal
        definition_start, definition_literal = used.definition_start, used.definition_literal
    start, hard_literal = definition_clauses(len(base_atoms), definition_start, definition_literal)
    num_hard = len(start) - 1
    length = np.concatenate([np.empty(0, np.int64), *lengths, np.diff(start)])
    rows = merge_rows(
        np.concatenate((np.zeros(1, np.int64), np.cumsum(length))),
        np.concatenate((literal, hard_literal)),
        np.concatenate([np.empty(0, np.int32), *weight_ids, np.full(num_hard, HARD, np.int32)]),
        np.concatenate([np.empty(0), *counts, np.ones(num_hard)]),
    )
    blocks = network_blocks(problem.model.predicates, base, problem.domains)
    return Network(
        atoms=atoms,
        num_base_atoms=len(base_atoms),
        clause_start=rows.start,
        literal=rows.literal,
        weight_id=rows.weight_id,
        coefficient=np.where(rows.weight_id == HARD, 1.0, rows.coefficient),
        weights=problem.weight_table.value.copy(),
        constant_count=_constant_count(problem, rows.merged, weight_ids, counts),
        block_start=blocks.start,
        block_atom=blocks.atom,
        block_exact=blocks.exact,
        definition_start=definition_start,
        definition_literal=definition_literal,
        domains=problem.domains,
        signatures=_signatures(problem),
    )


def _signatures(problem: Problem) -> Mapping[str, Predicate]:
    derived = {d.predicate.name: d.predicate for d in problem.normal_form.definitions}
    return {**problem.model.predicates, **derived}


def _constant_count(
    problem: Problem,
    merged: np.ndarray,
    weight_ids: list[np.ndarray],
    counts: list[np.ndarray],
) -> np.ndarray:
    """Groundings decided by evidence: all of them, minus those that survive.

    A surviving row that is a tautology counts as decided, an empty one as falsified.
    """
    table = problem.weight_table
    constant = np.zeros(len(table.value))
    for feature in problem.normal_form.features:
        first, last = table.offset[feature.rule : feature.rule + 2]
        if last > first:
            groundings = problem.num_groundings(feature.variables) // int(last - first)
            constant[first:last] += (feature.constant + len(feature.clauses)) * groundings
    weight_id = np.concatenate([np.empty(0, np.int32), *weight_ids])
    survives = (weight_id >= 0) & (merged[: len(weight_id)] != TAUTOLOGY)
    count = np.concatenate([np.empty(0), *counts])
    return constant - np.bincount(
        weight_id[survives], weights=count[survives], minlength=len(constant)
    )


def _check_falsified(
    problem: Problem,
    block: FeatureRows,
    alive: np.ndarray,
    length: np.ndarray,
    literal: np.ndarray,
) -> None:
    """Refuse evidence that leaves a hard clause no literal."""
    row_of = np.repeat(np.arange(len(length)), length)
    left = np.bincount(row_of, weights=literal != 0, minlength=len(length))
    if len(left) == 0 or left.all():
        return
    row = int(np.flatnonzero(alive)[np.flatnonzero(left == 0)[0]])
    rule = problem.model.rules[block.feature.rule]
    grounding = _describe_grounding(problem, block.feature, block.query, block.rows.bindings, row)
    raise LapisError(
        f"the data contradict the hard rule '{rule.text}'" + grounding,
        code="hard-contradiction",
        span=rule.span,
        hint="give the rule a weight instead of a final period, or correct the data",
    )


def _describe_grounding(
    problem: Problem, feature: Feature, query: Query, bindings: Bindings, row: int
) -> str:
    terms = []
    for name, type_name in feature.variables:
        column = bindings.columns.get(query.representative[name])
        if column is not None:
            terms.append(f"{name} = {problem.domains[type_name].constants[int(column[row])]}")
    return " at " + ", ".join(terms) if terms else ""
