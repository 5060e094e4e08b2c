"""A world whose atoms flip one at a time, with exact counts kept up to date.

`FlippingWorld.delta` is the change of every count if an atom flipped; `FlippingWorld.flip` flips
it; `FlippingWorld.visit` does so, or draws, for many atoms one after the other without coming back
to Python. All look at the groundings around the atom only (`lapis.counting.nested_loops`), so
count-based samplers never need a ground network.

Derived atoms are kept as atoms of their own, together with their witness counts. Flipping a base
atom changes witness counts; a derived atom whose count becomes zero or stops being zero flips in
turn, in the order of definitions. Each single flip changes the counts by the difference of
`counting.differences` with all other atoms, derived ones too, held where they are, so the
changes of the whole cascade just add up, however deep the quantifiers are nested.

Numbers are int64. What a flip can change is bounded when its loops are written, by the sizes of the
domains; where that, or the number of atoms, passes 2⁶², all arrays hold Python's integers and the
kernels run as Python functions (`to_python_function`). Counts themselves may be larger: they are
Python's integers to which the changes of some flips at a time are added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from lapis.counting.complete_world import base_world, count_witnesses
from lapis.counting.differences.signed_conjunctions import (
    FlipTarget,
    SignedConjunctions,
    clause_difference,
    cube_difference,
)
from lapis.counting.flips_kernel import (
    DRAW,
    FLIP,
    LOOK,
    AtomVisits,
    BlockVisits,
    FlipState,
    LoopProgram,
    visit_atoms,
    visit_blocks,
)
from lapis.counting.nested_loops import (
    CountOutput,
    IndexedRelations,
    LoopCompiler,
    LoopWriter,
    radix_strides,
    run_kernel,
    to_python_function,
)
from lapis.counting.nested_loops_kernel import (
    END,
    NUM_WITNESSES,
    ROOM_FOR_ATOMS,
    ROOM_TO_FOLLOW,
    ROOM_TO_NOTE,
    SHORTAGE,
    contains_atom,
    insert_keys,
)
from lapis.counting.totals import count_violations, count_weights, number_weights
from lapis.data.database import Domain
from lapis.data.keys import LARGEST_KEY
from lapis.errors import TooLarge
from lapis.logic.clauses import Definition
from lapis.problem.problem import Problem
from lapis.relational.conjunction import Scope
from lapis.relational.exact_sums import narrow_integers
from lapis.relational.interpretation import Extension

MOST_LOOPS = 100_000  # that follow witnesses: they are compiled in half a minute
LEAST_TO_FOLLOW = 64  # flips and witnesses after a flip, and derived atoms that have some

Parts = Sequence[tuple[str, np.ndarray]]  # predicates with atoms of theirs, int32[n, arity]


class Change(NamedTuple):
    """What a flip changes: difference[i] more true groundings of weight_id[i]."""

    weight_id: tuple[int, ...]  # increasing
    difference: tuple[int, ...]  # nonzero
    violations: int  # more violated groundings of hard rules


class FlippingWorld:
    """Truth of all atoms, and n_w for every weight w.

    `violated_rules` are the hard rules that were violated at the start.

    >>> import lapis
    >>> model = lapis.parse('''
    ... person = {Anna, Bob}
    ... Smokes(person)
    ... Friends(person, person)
    ... 1.1 Friends(x,y) ^ Smokes(x) => Smokes(y)
    ... ''')
    >>> data = lapis.Database.parse("Smokes(Anna) Friends(Anna,Bob)")
    >>> world = FlippingWorld(lapis.build_problem(model, data))
    >>> world.counts.tolist(), world.delta("Smokes", [1])
    ([3], Change(weight_id=(0,), difference=(1,), violations=0))
    >>> world.flip("Friends", [0, 1]).difference, world.counts.tolist()
    ((1,), [4])
    """

    def __init__(self, problem: Problem, *, world: Mapping[str, np.ndarray] | None = None) -> None:
        self._features = problem.normal_form.features
        self._definitions = problem.normal_form.definitions
        _require_followable(self._definitions)
        self._domains = problem.domains
        self._keys = number_weights(problem)
        interpretation = base_world(problem, world)
        self._predicates = dict(problem.model.predicates)
        witnesses = {}
        for definition in self._definitions:
            predicate = definition.predicate
            own = witnesses[predicate.name] = count_witnesses(definition, interpretation)
            extension = Extension(predicate.types, own.rows)
            interpretation = interpretation.with_relation(predicate.name, extension)
            self._predicates[predicate.name] = predicate
        self._types = {name: predicate.types for name, predicate in self._predicates.items()}
        self._relations = IndexedRelations(
            {
                name: tuple(len(self._domains[t]) for t in each)
                for name, each in self._types.items()
            },
            {name: relation.tuples for name, relation in interpretation.relations.items()},
        )
        if any(_most_witnesses(each, self._domains) > LARGEST_KEY for each in self._definitions):
            self._relations.widen()
        derived = [self._relations.atoms(name, each.rows) for name, each in witnesses.items()]
        self._witnesses = (
            np.concatenate([np.empty(0, object), *derived]),
            np.concatenate([np.empty(0, object), *(each.value for each in witnesses.values())]),
        )
        self._writer = LoopWriter([END])
        self._entries: dict[str, tuple[int, int]] = {}
        self._room_to_follow = LEAST_TO_FOLLOW
        self._state: FlipState | None = None
        self._program: LoopProgram | None = None
        self._budget = 0  # visits until counts are added up
        hard = [feature for feature in self._features if feature.hard]  # some of one rule
        violations = [count_violations(feature, interpretation) for feature in hard]
        broken = [f.rule for f, count in zip(hard, violations, strict=True) if count]
        self.violated_rules = tuple(dict.fromkeys(broken))
        counts = count_weights(self._features, self._keys, interpretation)
        self._counts = _narrow_counts(
            np.array([*counts, -sum(violations)], object)
        )  # as last added up

    @property
    def counts(self) -> np.ndarray:
        """int64[num_weights], true groundings of each weight; object beyond 64 bits."""
        return narrow_integers(self._all_counts()[:-1])

    @property
    def violations(self) -> int:
        """Violated groundings of hard rules."""
        return -int(self._all_counts()[-1])

    def _all_counts(self) -> np.ndarray:
        return self._counts if self._state is None else self._counts + self._state.moved

    def is_true(self, predicate: str, arguments: Sequence[int]) -> bool:
        relations, atom = self._relations, self._relations.offset[predicate]
        for argument, stride in zip(arguments, relations.strides[predicate], strict=True):
            atom += int(argument) * stride
        return bool(to_python_function(contains_atom)(relations.arrays[1], atom))

    def true_rows(self, predicate: str) -> np.ndarray:
        """int32[n, arity], the true atoms, in no order that means anything."""
        return self._relations.rows(predicate)

    def delta(self, predicate: str, arguments: Sequence[int]) -> Change:
        """How the counts would change if the atom flipped. The world stays as it is."""
        return self._change(self._visit_one(LOOK, predicate, arguments))

    def flip(self, predicate: str, arguments: Sequence[int]) -> Change:
        """Flips the atom, and returns how the counts have changed."""
        return self._change(self._visit_one(FLIP, predicate, arguments))

    def look(self, parts: Parts) -> AtomVisits:
        """The differences of atoms. The world stays as it is."""
        return self._visit(LOOK, parts, None, None, True)

    def flip_all(self, parts: Parts) -> None:
        """Flips atoms one after the other."""
        self._visit(FLIP, parts, None, None, False)

    def draw(
        self, parts: Parts, weights: np.ndarray, noise: np.ndarray, noted: bool = False
    ) -> AtomVisits:
        """Gives atoms, one after the other, the value 1 where w · d + noise > 0, else 0.

        With noise float64[n] of a logistic distribution this is Gibbs sampling. A value that breaks
        more hard groundings than the other is never taken. With `noted`, differences are kept.
        """
        return self._visit(DRAW, parts, weights, noise, noted)

    def draw_blocks(
        self,
        predicate: str,
        rows: np.ndarray,  # int32[num_atoms, arity], block by block
        start: np.ndarray,  # int64[num_blocks + 1]
        is_exact: np.ndarray,  # bool[num_blocks], one of its atoms is true
        weights: np.ndarray,
        noise: np.ndarray,  # float64[num_atoms + num_blocks]
        noted: bool = False,
    ) -> tuple[AtomVisits, BlockVisits]:
        """Gives blocks, one after the other, the value v with the largest w · d(v) + noise.

        d(v) is what the value adds to the empty block, which is the last value of each. With noise
        of a Gumbel distribution this is Gibbs sampling. Values that break more hard groundings than
        another are never taken.
        """
        taken, score = np.zeros(len(start) - 1, np.int64), np.zeros_like(noise)
        hard = np.zeros(len(noise), self._relations.word)
        blocks = BlockVisits(start, is_exact, noise, taken, score, hard)
        return self._visit(DRAW, [(predicate, rows)], weights, None, noted, blocks), blocks

    def _visit_one(self, mode: int, predicate: str, arguments: Sequence[int]) -> AtomVisits:
        rows = np.array([arguments], np.int32).reshape(1, len(arguments))
        return self._visit(mode, [(predicate, rows)], None, None, True)

    def _change(self, visits: AtomVisits) -> Change:
        sign = -1 if visits.truth[0] else 1
        changed = dict(zip(visits.column.tolist(), visits.value.tolist(), strict=True))
        violations = -sign * changed.pop(self._keys.hard, 0)
        return Change(tuple(changed), tuple(sign * each for each in changed.values()), violations)

    def _visit(
        self,
        mode: int,
        parts: Parts,
        weights: np.ndarray | None,
        noise: np.ndarray | None,
        noted: bool,
        blocks: BlockVisits | None = None,
    ) -> AtomVisits:
        for name, _ in parts:
            self._write_loops(name)
        relations, nothing = self._relations, np.empty(0)
        number = sum([len(rows) for _, rows in parts])
        visits = AtomVisits(
            _concatenate(
                [np.full(len(rows), relations.number[name]) for name, rows in parts], np.int64
            ),
            _concatenate([relations.atoms(*part) for part in parts], relations.word),
            nothing if noise is None else noise,
            np.zeros(number, bool),
            np.zeros(number, bool),
            np.zeros(number),
            np.zeros(number + 1 if noted else 0, np.int64),
            np.empty(16 * number if noted else 0, np.int64),
            np.empty(16 * number if noted else 0, relations.word),
        )
        given = nothing if weights is None else weights
        flips = np.arange(number + 1)  # at most, up to each visit
        if blocks is not None:
            number = len(blocks.taken)
            flips = blocks.start + np.arange(number + 1)
        done, resumes = 0, False
        while done < number:
            least = int(flips[done + 1] - flips[done])
            if self._budget < least:
                self._add_up(least)
            if relations.word is object and visits.atom.dtype != object:
                atom, value = visits.atom.astype(object), visits.value.astype(object)
                visits = visits._replace(atom=atom, value=value)
                if blocks is not None:
                    blocks = blocks._replace(hard=blocks.hard.astype(object))
            end = int(np.searchsorted(flips, flips[done] + self._budget, "right")) - 1
            what = (*relations.arrays, self._made_program(), self._made_state(), given, visits)
            if blocks is None:
                stopped = run_kernel(visit_atoms, relations.wide, mode, *what, done, end)
            else:
                stopped = run_kernel(
                    visit_blocks, relations.wide, *what, blocks, done, end, resumes
                )
            self._budget -= int(flips[min(stopped + 1, end)] - flips[done])
            done, resumes = stopped, stopped < end
            visits = self._make_room(visits)
        if noted:
            used = int(visits.start[-1])
            visits = visits._replace(column=visits.column[:used], value=visits.value[:used])
        return visits

    def _make_room(self, visits: AtomVisits) -> AtomVisits:
        """Where a kernel stopped for the lack of it."""
        level = self._made_state().level
        shortage, level[SHORTAGE] = level[SHORTAGE], 0
        if shortage == ROOM_FOR_ATOMS:
            self._relations.grow()
        if shortage == ROOM_TO_FOLLOW:
            self._room_to_follow *= 2
            self._add_up()
        if shortage == ROOM_TO_NOTE:
            more = np.zeros_like(visits.column), np.zeros_like(visits.value)
            return visits._replace(
                column=np.concatenate([visits.column, more[0]]),
                value=np.concatenate([visits.value, more[1]]),
            )
        return visits

    def _add_up(self, least: int = 1) -> None:
        """Add what has moved to the counts, and make a new state, for `least` flips and more."""
        if self._state is not None:
            self._counts = _narrow_counts(self._counts.astype(object) + self._state.moved)
            there = self._state.derived >= 0
            self._witnesses = self._state.derived[there], self._state.witnesses[there]
            self._state = None
        # What may have moved before counts are added up stays below 2⁶².
        flips = self._room_to_follow if self._definitions else 1
        self._budget = LARGEST_KEY // (self._writer.bound * flips)
        if self._relations.wide:
            self._budget = LARGEST_KEY
        elif self._budget < least:
            self._relations.widen()
            self._program, self._budget = None, LARGEST_KEY

    def _made_program(self) -> LoopProgram:
        if self._program is None:
            entry = np.zeros((len(self._types), 2), np.int64)
            for name, own in self._entries.items():
                entry[self._relations.number[name]] = own
            self._program = LoopProgram(
                np.array(self._writer.finished(), self._relations.word),
                np.concatenate([np.empty(0), *self._writer.numbers]),
                entry,
                np.array(
                    [self._relations.number[each.predicate.name] for each in self._definitions],
                    np.int64,
                ),
            )
        return self._program

    def _made_state(self) -> FlipState:
        if self._state is None:
            word, room = self._relations.word, self._room_to_follow
            size = self._keys.num_weights + 1
            atoms, numbers = (each.astype(word) for each in self._witnesses)
            places = 2 * room
            while places < 2 * (len(atoms) + room):
                places *= 2
            self._state = FlipState(
                np.zeros(self._writer.num_slots, word),
                np.ones(self._writer.num_registers, word),
                np.zeros(self._writer.num_cursors, np.int64),
                np.zeros(size, word),
                np.zeros(size, bool),
                np.zeros(size, np.int64),
                np.zeros(size, word),
                np.zeros(5, np.int64),
                np.zeros(room, np.int64),
                np.zeros(room, word),
                np.zeros(room, np.int64),
                np.zeros(room, word),
                np.zeros(room, word),
                np.full(places, -1, word),
                np.zeros(places, word),
            )
            self._state.level[NUM_WITNESSES] = len(atoms)
            state, wide = self._state, self._relations.wide
            run_kernel(insert_keys, wide, state.derived, state.witnesses, atoms, numbers)
        return self._state

    def _write_loops(self, predicate: str) -> None:
        """Write the loops around the atoms of a predicate, and around what may follow."""
        if predicate in self._entries:
            return
        self._add_up()
        self._program, self._budget = None, 0
        target = FlipTarget(self._predicates[predicate], {}, self._domains)
        writer = self._writer
        writer.num_slots = max(writer.num_slots, 1 + len(self._types[predicate]))
        entries = []
        for truth in (False, True):
            entries.append(writer.here().at)
            for feature in self._features:
                own = [clause_difference(c, feature.variables, target) for c in feature.clauses]
                key = self._keys.of_rule[feature.rule]
                strides = radix_strides(key.shape)
                self._compile(own, truth, target, CountOutput(key.plus, key.offset, strides, None))
            for definition in self._definitions:
                name = definition.predicate.name
                heads = tuple(head for head, _ in definition.variables)
                variables = (*definition.variables, *definition.bound)
                own = [cube_difference(cube, variables, target) for cube in definition.cubes]
                relations = self._relations
                where = relations.offset[name], relations.strides[name], relations.number[name]
                self._compile(own, truth, target, CountOutput(heads, *where))
            writer.put(END)
        self._entries[predicate] = entries[0], entries[1]
        for definition in self._definitions:
            self._write_loops(definition.predicate.name)

    def _compile(
        self,
        differences: Sequence[SignedConjunctions],  # over the same variables
        truth: bool,
        target: FlipTarget,
        result: CountOutput,
    ) -> None:
        """What the differences are together: much of what clauses of one formula say cancels."""
        if not differences:
            return
        types = {**target.types, **differences[0].variables}  # the atom fills the first slots
        scope = Scope(types, (*target.positions, *result.outputs), self._domains)
        known = frozenset(target.positions)
        compiler = LoopCompiler(scope, known, self._relations, self._types, self._writer)
        signed = (c for each in differences for c in (each.when_true if truth else each.when_false))
        compiler.compile(signed, result)


def _require_followable(definitions: Sequence[Definition]) -> None:
    """Raise TooLarge where flips would touch too many cubes: each literal looks for the others."""
    loops = sum(len(cube.literals) ** 2 for each in definitions for cube in each.cubes)
    if loops > MOST_LOOPS:
        number = max(len(definition.cubes) for definition in definitions)
        raise TooLarge(
            f"a quantified part of a formula falls into {number:,} conjunctions, too many to see "
            "what each atom changes in it",
            code="too-many-clauses",
            hint="introduce a predicate for a part of it, defined by a hard equivalence",
        )


def _most_witnesses(definition: Definition, domains: Mapping[str, Domain]) -> int:
    return len(definition.cubes) * prod(len(domains[kind]) for _, kind in definition.bound)


def _narrow_counts(counts: np.ndarray) -> np.ndarray:
    """Python integers as int64 where as much again can be added to them."""
    is_small = all(-LARGEST_KEY <= count <= LARGEST_KEY for count in counts.tolist())
    return counts.astype(np.int64) if is_small else counts


def _concatenate(arrays: Sequence[np.ndarray], kind: Any) -> np.ndarray:
    """One array of all; `kind` is that of none."""
    return arrays[0] if len(arrays) == 1 else np.concatenate([np.empty(0, kind), *arrays])
