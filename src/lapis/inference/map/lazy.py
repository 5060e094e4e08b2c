"""A most likely world by cutting planes over a network that is grounded on demand.

Riedel, Improving the accuracy and efficiency of MAP inference for Markov logic, UAI 2008. Start
from few ground clauses, find the best world for them, add the ground clauses that this world
violates, and repeat until there are none. This suits networks of which a most likely world concerns
a small part. A clause of weight w is violated

    w > 0 or hard   if it is false: every literal is a join or anti-join with the atoms true in
                    the world;
    w < 0           if it is true: split by its first true literal, which must be an unknown atom;
                    the literals before it are false.

Groundings that are not listed count as satisfied (true if w > 0, false if w < 0). So the score of
the listed clauses is an upper bound of the true score, and equal to it in a world that violates no
other clause. Clauses over undecided derived atoms are grounded at the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lapis.errors import TooLarge
from lapis.grounding.assembly import FlatRows, concatenate_rows, count_decided, sum_multiplicities
from lapis.grounding.bottom_up import GroundingSession, PlannedClause
from lapis.grounding.ground_atoms import PredicateAtoms
from lapis.grounding.grounded_world import GroundedWorld
from lapis.grounding.hard_formulas import refuse_falsified
from lapis.grounding.templates import (
    ChooseStatuses,
    EvidenceStatus,
    PlanLimits,
    list_statuses,
    plan_template,
)
from lapis.inference.map.solver import MapResult, most_likely_world
from lapis.inference.marginals import InferenceOptions
from lapis.logic.clauses import Feature, Literal
from lapis.network.csr import row_starts
from lapis.network.merge import EMPTY, TAUTOLOGY, merge_rows
from lapis.network.network import Network
from lapis.problem.problem import Problem
from lapis.relational.conjunction import RelationAtom
from lapis.runtime.progress import Progress, work_clock

MAX_ROUNDS = 200


def most_likely_world_lazily(
    problem: Problem, options: InferenceOptions
) -> tuple[Network, MapResult]:
    """Return the last network and the world; `optimal` if no violated clause is unlisted."""
    began, deadline, progress = work_clock(), options.begin_map().deadline, options.progress
    lazy = LazyGrounding(problem, max_memory=options.max_memory)
    network = lazy.extend(starting_world(lazy, problem))
    for number in range(1, MAX_ROUNDS + 1):
        left = max(0.1, deadline - work_clock())
        own = replace(options, time_limit=left, progress=None)
        found = most_likely_world(network, "auto", own)
        if progress is not None:
            figures = {"clauses": float(network.num_clauses), "gap": found.gap}
            progress(Progress("listing", number, MAX_ROUNDS, work_clock() - began, figures))
        network = lazy.extend(found.world[: network.num_base_atoms])
        if lazy.num_added == 0 or found.interrupted or work_clock() > deadline:
            break
    return network, finish_result(network, found, lazy.num_added == 0, number)


def starting_world(lazy: LazyGrounding, problem: Problem) -> np.ndarray:
    """Return the world of false atoms, with the first candidate of each exactly-one block true."""
    from lapis.grounding.assembly import network_blocks

    atoms = lazy.session.world.atoms
    base = {name: found for name, found in atoms.items() if name in problem.model.predicates}
    blocks = network_blocks(problem, base)
    world = np.zeros(sum(found.num_unknown for found in base.values()), bool)
    world[blocks.atom[blocks.start[:-1][blocks.exact]]] = True
    return world


def finish_result(network: Network, found: MapResult, complete: bool, rounds: int) -> MapResult:
    """Return the result with the world's true score; the network lists all its violations.

    Raise TooLarge "no-feasible-world" if a hard formula is violated.
    """
    world = network.complete(found.world[: network.num_base_atoms])
    if not complete and not network.is_feasible(world):
        raise TooLarge(
            "cutting planes found no world that satisfies the hard formulas within the limits",
            code="no-feasible-world",
            hint="give more time, or use method 'ilp', which also detects that there is none",
        )
    score = network.score(world)
    bound = max(found.bound, score)
    return replace(
        found,
        world=world,
        score=score,
        bound=bound,
        gap=found.gap if complete else bound - score,
        optimal=found.optimal and complete,
        method=f"cutting planes + {found.method}",
        diagnostics={**found.diagnostics, "rounds": rounds, "listed_clauses": network.num_clauses},
    )


class LazyGrounding:
    """The clauses violated by the worlds seen so far.

    Base atoms are numbered as `ground` numbers them.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        max_memory: int | None = None,
        limits: PlanLimits | None = None,
    ) -> None:
        self.session = GroundingSession(problem, max_memory, limits)
        self.problem = problem = self.session.problem
        self.num_added = 0  # clauses that the last `extend` added
        known = self.session.world.atoms
        plain: list[PlannedClause] = []
        derived: list[PlannedClause] = []
        for clause in self.session.clauses(problem.normal_form.features):
            decided = all(literal.predicate in known for literal in clause.template.literals)
            # The sign of a ground weight must be that of the formula's.
            (plain if decided and not clause.feature.numbers else derived).append(clause)
        self._plain = plain
        self._whole = self.session.ground_clauses(derived)
        self._listed = concatenate_rows([])
        weights = problem.weight_table.value
        self._negative = weights < 0
        self._upper = count_decided(problem, self._whole) - self._surviving_negative()

    def extend(self, world: np.ndarray) -> Network:
        """Add the clauses that the world violates; return the network of all listed clauses."""
        current = CurrentWorld(self.session.world, world)
        found = []
        for clause in self._plain:
            for sign, choose in self._choices(clause, current):
                found += self._fetch(clause, sign, choose)
        fresh = concatenate_rows(found)
        merged = merge_rows(
            row_starts(fresh.length), fresh.literal, fresh.weight_id, fresh.multiplicity
        )
        constant = self._upper + sum_multiplicities(
            fresh, len(self._upper), merged.merged == TAUTOLOGY
        )
        constant -= sum_multiplicities(fresh, len(self._upper), merged.merged == EMPTY)
        new = FlatRows(np.diff(merged.start), merged.literal, merged.weight_id, merged.coefficient)
        before = len(self._listed.multiplicity)
        self._listed = _union(self._listed, new)
        self.num_added = len(self._listed.multiplicity) - before
        positive = self._listed.weight_id >= 0
        positive[positive] = ~self._negative[self._listed.weight_id[positive]]
        constant -= sum_multiplicities(self._listed, len(constant), positive)
        rows = concatenate_rows([self._whole, self._listed])
        return self.session.assemble(rows, constant).network

    def _choices(
        self, clause: PlannedClause, current: CurrentWorld
    ) -> list[tuple[int, ChooseStatuses]]:
        """Return the choices of violated groundings, with the sign of their weights."""
        here = self.problem.weight_table.value[self._weights(clause.feature)]
        choices: list[tuple[int, ChooseStatuses]] = []
        if clause.feature.hard or (here > 0).any():
            choices.append((1, current.all_false))
        if (here < 0).any():
            literals = len(dict.fromkeys(clause.template.literals))
            choices += [(-1, current.first_true(position)) for position in range(literals)]
        return choices

    def _fetch(self, clause: PlannedClause, sign: int, choose: ChooseStatuses) -> list[FlatRows]:
        session = self.session
        rule = self.problem.model.rules[clause.feature.rule]
        found = []
        for query in plan_template(clause.template, session.world, session.limits, choose):
            session.budget.check(query, rule.text, rule.span)
            block = session.fetch(clause, query)
            width = block.rows.literal.shape[1]
            rows = FlatRows(
                np.full(len(block.weight_id), width, np.int64),
                block.rows.literal.ravel(),
                block.weight_id,
                block.rows.multiplicity,
            )
            if clause.feature.hard:
                refuse_falsified(session, block, np.ones(len(rows.multiplicity), bool), rows)
            else:
                weights = self.problem.weight_table.value[rows.weight_id]
                rows = rows.take(np.sign(weights) == sign)
            found.append(rows)
        return found

    def _surviving_negative(self) -> np.ndarray:
        """Count surviving groundings of negative weights, float64[num_weights]."""
        session = self.session
        counts = np.zeros(len(self._negative))
        for feature, template in self._plain:
            if feature.hard or not self._negative[self._weights(feature)].any():
                continue
            counted = replace(template, listed=False)
            for query in plan_template(counted, session.world, session.limits):
                block = session.fetch(PlannedClause(feature, counted), query)
                np.add.at(counts, block.weight_id, block.rows.multiplicity)
        return np.where(self._negative, counts, 0.0)

    def _weights(self, feature: Feature) -> slice:
        offset = self.problem.weight_table.offset
        return slice(int(offset[feature.rule]), int(offset[feature.rule + 1]))


@dataclass(frozen=True)
class CurrentWorld:
    """Relations of the atoms that are true in a world, created on first use."""

    known: GroundedWorld
    world: np.ndarray  # bool[num_base_atoms]
    _created: dict[tuple[str, str], str | None] = field(default_factory=dict)

    def all_false(self, literals: Sequence[Literal]) -> list[list[EvidenceStatus]]:
        return [self._false(literal) for literal in literals]

    def first_true(self, position: int) -> ChooseStatuses:
        """Choose groundings whose first true literal is at `position`, by an unknown atom."""

        def choose(literals: Sequence[Literal]) -> list[list[EvidenceStatus]]:
            if position >= len(literals):  # equal literals were merged
                return [[]]
            later = literals[position + 1 :]
            return [
                *(self._false(literal) for literal in literals[:position]),
                self._true(literals[position]),
                *(list_statuses(literal, self.known, split=False) for literal in later),
            ]

        return choose

    def _false(self, literal: Literal) -> list[EvidenceStatus]:
        undecided = self.known.atoms[literal.predicate].num_unknown > 0
        holds = self._source(literal, "holds")
        if literal.positive:
            return [EvidenceStatus(undecided, anti=holds)]
        return [] if holds is None else [EvidenceStatus(undecided, join=holds)]

    def _true(self, literal: Literal) -> list[EvidenceStatus]:
        unknown = self._source(literal, "unknown true" if literal.positive else "unknown false")
        return [] if unknown is None else [EvidenceStatus(True, join=unknown)]

    def _source(self, literal: Literal, kind: str) -> RelationAtom | None:
        key = (literal.predicate, kind)
        if key not in self._created:
            rows = self._rows(self.known.atoms[literal.predicate], kind)
            types = self.known.types[literal.predicate]
            self._created[key] = self.known.add_rows(rows, types) if len(rows) else None
        name = self._created[key]
        return None if name is None else RelationAtom(name, literal.terms)

    def _rows(self, atoms: PredicateAtoms, kind: str) -> np.ndarray:
        value = self.world[atoms.first : atoms.first + atoms.num_unknown]
        unknown_true: np.ndarray = atoms.unknown[value]
        if kind == "unknown false":
            return atoms.unknown[~value]
        if kind == "unknown true":
            return unknown_true
        return np.concatenate((atoms.true, unknown_true))


def _union(old: FlatRows, new: FlatRows) -> FlatRows:
    """Return the rows of both, each once.

    All groundings of a clause are violated together, so a row found again has the same count.
    """
    both = concatenate_rows([old, new])
    merged = merge_rows(row_starts(both.length), both.literal, both.weight_id, both.multiplicity)
    count = merged.coefficient.copy()
    count[merged.merged[: len(old.multiplicity)]] = old.multiplicity
    return FlatRows(np.diff(merged.start), merged.literal, merged.weight_id, count)
