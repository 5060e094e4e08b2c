"""Ground derived atoms (quantified parts of formulas) on demand.

A definition is  derived(x) ⇔ ∃ bound: cube₁ ∨ cube₂ ∨ …  For an instance x take the cubes that
evidence does not make false, each with its undecided literals. The instance is

    true       if some cube has no literal left, or if ⋁ l contains a literal and its negation,
    false      if there is no cube,
    ⋁ l        otherwise: a cube of one literal is that literal, and a longer cube k is ¬b, with
               the auxiliary atom b ⇔ ⋁_{l ∈ k} ¬l, "the cube is false".

A disjunction of one literal is that literal. A longer one is either inserted into the clauses that
use it positively (the long ground disjunction of an existential) or becomes an auxiliary atom
a ⇔ ⋁ l. It is inserted unless that repeats many literals.

A definition that counts is ground by `counters`.

Only instances that rows refer to are grounded. Definitions are grounded from the last to the first,
each joined with the relation of instances that features and later definitions refer to, and
resolved from the first to the last. Definitions over known relations only are evaluated first and
become ordinary relations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lapis.data.keys import distinct_keys, pack, unpack
from lapis.grounding.counters import (
    Auxiliaries,
    AuxiliaryGroup,
    CountedLiterals,
    Instances,
    count_instances,
    is_between,
)
from lapis.grounding.ground_atoms import PredicateAtoms
from lapis.grounding.grounded_world import (
    ClauseRows,
    GroundedWorld,
    expect_packable,
    fetch_rows,
    reference_codes,
    variable_codes,
)
from lapis.grounding.limits import QueryBudget
from lapis.grounding.templates import PlanLimits, cube_templates, plan_template
from lapis.language.syntax import Variable
from lapis.logic.clauses import Definition
from lapis.network.csr import row_starts, take_rows
from lapis.network.merge import EMPTY, MergedRows, merge_rows
from lapis.relational.conjunction import RelationAtom

MOST_REPEATED = 64  # literals that inserting a disjunction may add, compared to an auxiliary atom


class CubeRows(NamedTuple):
    """Undecided cubes of a definition as rows of ¬cube, with the instance each belongs to."""

    rows: ClauseRows
    instance: np.ndarray  # int64[num_rows], code


@dataclass(frozen=True)
class DefinitionGrounder:
    world: GroundedWorld
    limits: PlanLimits
    budget: QueryBudget  # refuses a query that would not fit
    auxiliaries: Auxiliaries

    def evaluate_known(self, definitions: Sequence[Definition]) -> list[Definition]:
        """Turn definitions over known relations into relations; return the others."""
        world, rest = self.world, []
        for definition in definitions:
            name = definition.predicate.name
            used = {literal.predicate for cube in definition.cubes for literal in cube.literals}
            if any(p not in world.atoms or world.atoms[p].num_unknown for p in used):
                rest.append(definition)
                continue
            sizes = self._sizes(definition)
            expect_packable(name, sizes)
            true = [cube.instance for cube in self._fetch_cubes(definition, None)]
            codes = _concatenate_arrays(true, np.int64)
            keys = distinct_keys(codes, math.prod(sizes))
            if definition.counts:
                number = np.bincount(np.searchsorted(keys, codes), minlength=len(keys))
                keys = keys[is_between(number, definition)]
            tuples, none = unpack(keys, sizes), np.empty(0, np.int64)
            world.atoms[name] = PredicateAtoms(name, sizes, True, tuples, tuples[:0], none, 0)
        return rest

    def resolve(
        self, definitions: Sequence[Definition], features: Sequence[ClauseRows]
    ) -> Mapping[str, Instances]:
        """Ground and resolve every instance that the features' rows refer to, also indirectly."""
        cubes: dict[str, list[CubeRows]] = {}
        demanded: dict[str, np.ndarray] = {}
        referring = list(features)
        for definition in reversed(definitions):
            name = definition.predicate.name
            codes = list(reference_codes(referring, name))
            space = math.prod(self._sizes(definition))
            demanded[name] = distinct_keys(_concatenate_arrays(codes, np.int64), space)
            cubes[name] = self._ground_cubes(definition, demanded[name])
            referring += [block.rows for block in cubes[name]]
        resolved: dict[str, Instances] = {}
        for definition in definitions:
            name = definition.predicate.name
            own = self._resolve(definition, demanded[name], cubes.pop(name), resolved)
            resolved[name] = own
        return resolved

    def _sizes(self, definition: Definition) -> tuple[int, ...]:
        return tuple(len(self.world.domains[type_name]) for _, type_name in definition.variables)

    def _fetch_cubes(
        self, definition: Definition, demand: RelationAtom | None
    ) -> Iterator[CubeRows]:
        for template in cube_templates(definition, demand):
            for query in plan_template(template, self.world, self.limits):
                self.budget.admit(query, definition.predicate.name)
                rows = fetch_rows(query, self.world)
                codes = variable_codes(definition.variables, query, rows.answer, self.world)
                yield CubeRows(rows, codes)

    def _ground_cubes(self, definition: Definition, demanded: np.ndarray) -> list[CubeRows]:
        if len(demanded) == 0:
            return []
        sizes = self._sizes(definition)
        demand = None
        if len(demanded) < math.prod(sizes):
            types = tuple(type_name for _, type_name in definition.variables)
            relation = self.world.add_rows(unpack(demanded, sizes), types)
            demand = RelationAtom(
                relation, tuple(Variable(name) for name, _ in definition.variables)
            )
        return list(self._fetch_cubes(definition, demand))

    def _resolve(
        self,
        definition: Definition,
        demanded: np.ndarray,
        cubes: Sequence[CubeRows],
        earlier: Mapping[str, Instances],
    ) -> Instances:
        starts, literals, owners = [], [], []
        for block in cubes:
            start, literal, alive = resolve_references(block.rows, earlier, {})
            starts.append(np.diff(start)[alive])
            literals.append(literal[np.repeat(alive, np.diff(start))])
            owners.append(np.searchsorted(demanded, block.instance[alive]))
        length = _concatenate_arrays(starts, np.int64)
        owner = _concatenate_arrays(owners, np.int64)
        start = row_starts(length)
        ones = np.zeros(len(length), np.int32)
        merged = merge_rows(
            start, _concatenate_arrays(literals, np.int32), ones, ones.astype(np.float64)
        )

        num_true = np.bincount(owner[merged.merged == EMPTY], minlength=len(demanded))
        is_left = merged.merged >= 0
        if definition.counts:
            owner, row = owner[is_left], merged.merged[is_left].astype(np.int64)
            literal = self._cube_literals(definition, merged, row)
            counted = CountedLiterals(num_true, owner, literal)
            return count_instances(definition, demanded, counted, self.auxiliaries, self.budget)
        is_true = num_true > 0
        keep = is_left & ~is_true[owner]
        sizes = len(demanded), max(len(merged.weight_id), 1)
        keys = pack((owner[keep], merged.merged[keep]), sizes, int(keep.sum()))
        owner, row = unpack(distinct_keys(keys, math.prod(sizes)), sizes).T
        literal = self._cube_literals(definition, merged, row)
        return self._disjunctions(definition, demanded, is_true, owner, literal)

    def _cube_literals(
        self, definition: Definition, merged: MergedRows, row: np.ndarray
    ) -> np.ndarray:
        """Return the literal of the cube in each of these rows, int32[num_rows]."""
        length = np.diff(merged.start)
        used, row = np.unique(row, return_inverse=True)
        failing = used[length[used] > 1]  # cubes of two literals or more: b ⇔ the cube fails
        group = take_rows(merged.start, merged.literal, failing)
        numbers = np.arange(len(failing), dtype=np.int32)[:, None]
        literal_of = np.zeros(len(used), np.int32)
        literal_of[length[used] == 1] = -merged.literal[merged.start[used[length[used] == 1]]]
        literal_of[length[used] > 1] = -self.auxiliaries.add(
            AuxiliaryGroup(f"{definition.predicate.name} fails", numbers, *group)
        )
        return literal_of[row]

    def _disjunctions(
        self,
        definition: Definition,
        demanded: np.ndarray,
        is_true: np.ndarray,
        owner: np.ndarray,
        literal: np.ndarray,
    ) -> Instances:
        """Build instances as disjunctions of the literals that they own."""
        # Sorted by owner, atom, sign: a literal next to its negation makes the owner true.
        order = np.lexsort((literal, np.abs(literal), owner))
        owner, literal = owner[order], literal[order]
        same = np.ones(len(owner), bool)
        same[1:] = (owner[1:] != owner[:-1]) | (literal[1:] != literal[:-1])
        owner, literal = owner[same], literal[same]
        opposite = (owner[1:] == owner[:-1]) & (literal[1:] == -literal[:-1])
        is_true[owner[1:][opposite]] = True
        keep = ~is_true[owner]
        owner, literal = owner[keep], literal[keep]

        length = np.bincount(owner, minlength=len(demanded))
        start = row_starts(length)
        value = np.where(is_true, 1, np.where(length == 0, 0, -1)).astype(np.int8)
        literal_of = np.zeros(len(demanded), np.int32)
        literal_of[length == 1] = literal[start[:-1][length == 1]]
        long = np.flatnonzero(length > 1)
        tuples = unpack(demanded[long], self._sizes(definition))
        literal_of[long] = self.auxiliaries.add(
            AuxiliaryGroup(definition.predicate.name, tuples, *take_rows(start, literal, long))
        )
        return Instances(demanded, value, literal_of, start, literal)


def resolve_references(
    rows: ClauseRows, resolved: Mapping[str, Instances], in_place: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Replace references; return rows as CSR (start, literal) and whether each is still undecided.

    `in_place` marks for each derived predicate the instances that a positive reference replaces by
    their disjunction. A row with a true derived literal is satisfied.
    """
    num_rows, width = rows.literal.shape
    alive = np.ones(num_rows, bool)
    if not rows.references:
        return np.arange(num_rows + 1, dtype=np.int64) * width, rows.literal.ravel(), alive
    row_of = [np.repeat(np.arange(num_rows), width)]
    found = [rows.literal.ravel()]
    for reference in rows.references:
        instances = resolved[reference.predicate]
        at = np.searchsorted(instances.code, reference.code)
        alive &= instances.value[at] != (1 if reference.positive else 0)
        literal = instances.literal[at]
        whole = np.zeros(num_rows, bool)
        if reference.positive and reference.predicate in in_place:
            whole = in_place[reference.predicate][at] & (instances.value[at] < 0)
            start, member = take_rows(instances.start, instances.member, at[whole])
            row_of.append(np.repeat(np.flatnonzero(whole), np.diff(start)))
            found.append(member)
        row_of.append(np.flatnonzero(~whole))
        found.append(literal[~whole] if reference.positive else -literal[~whole])
    row, literal = np.concatenate(row_of), np.concatenate(found)
    order = np.argsort(row, kind="stable")
    length = np.bincount(row, minlength=num_rows)
    return row_starts(length), literal[order], alive


def choose_in_place(
    features: Sequence[ClauseRows], resolved: Mapping[str, Instances]
) -> Mapping[str, np.ndarray]:
    """Mark for each derived predicate the instances, bool[num_instances], to insert in clauses."""
    chosen = {}
    for name, instances in resolved.items():
        positive = [r for rows in features for r in rows.references if r.predicate == name]
        times = np.zeros(len(instances.code), np.int64)
        for reference in positive:
            if reference.positive:
                at = np.searchsorted(instances.code, reference.code)
                times += np.bincount(at, minlength=len(times))
        repeated = np.maximum(times - 1, 0) * np.diff(instances.start)
        chosen[name] = (repeated <= MOST_REPEATED) & (times > 0)
    return chosen


def _concatenate_arrays(parts: Sequence[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate([np.empty(0, dtype), *parts]).astype(dtype, copy=False)
