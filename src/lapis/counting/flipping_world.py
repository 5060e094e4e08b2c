"""A world whose atoms flip one at a time, with exact counts that are updated incrementally.

`FlippingWorld.delta` returns the change of every count if an atom flips; `flip` flips it; `look`,
`flip_all` and `draw` process many atoms in one kernel call. Only the groundings around an atom are
counted (`nested_loops`), so count-based samplers need no ground network.

Derived atoms are stored like base atoms, together with their witness counts. Flipping a base atom
changes witness counts; a derived atom whose count becomes zero or positive flips in turn, in the
order of definitions. Each single flip changes the counts by the difference of
`counting.differences` with all other atoms, also derived ones, fixed. So the changes of the whole
cascade add up, however deep the quantifiers are nested.

Numbers are int64. What a flip can change is bounded when its loops are written, by the sizes of the
domains; where that, or the number of atoms, passes 2⁶², all arrays hold Python's integers and the
kernels run as Python functions (`to_python_function`). Counts themselves may be larger: they are
Python's integers to which the changes of some flips at a time are added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from lapis.counting.complete_world import base_world, count_witnesses
from lapis.counting.differences.signed_conjunctions import (
    FlipTarget,
    SignedConjunctions,
    clause_difference,
    cube_difference,
)
from lapis.counting.differences.sparse_vectors import SparseVectors
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
    NO_ROOM_FOR_ATOMS,
    NO_ROOM_FOR_DIFFERENCES,
    NO_ROOM_FOR_FLIPS,
    NUM_WITNESSES,
    SHORTAGE,
    contains_atom,
    insert_keys,
)
from lapis.counting.totals import (
    count_columns,
    count_violations,
    fold_columns,
    number_weights,
    separate_numbers,
)
from lapis.data.database import Domain
from lapis.data.keys import LARGEST_KEY
from lapis.errors import TooLarge
from lapis.logic.clauses import Definition
from lapis.problem.problem import Problem
from lapis.relational.conjunction import Scope
from lapis.relational.exact_sums import narrow_integers
from lapis.relational.interpretation import Extension
from lapis.relational.numbers import require_numbers
from lapis.runtime.progress import check_time, work_clock

FIRST_PACE = 4096  # visits of a kernel between two checks of the time, at first
KERNEL_SECONDS = 0.1  # … about, later
MOST_LOOPS = 100_000  # over witnesses: they are compiled in half a minute
LEAST_FLIPS = 64  # flips and witnesses after a flip, and derived atoms that have some

Parts = Sequence[tuple[str, np.ndarray]]  # predicates with atoms of theirs, int32[n, arity]


class Change(NamedTuple):
    """The effect of a flip: difference[i] more true groundings of weight_id[i]."""

    weight_id: tuple[int, ...]  # increasing
    difference: tuple[int, ...] | tuple[float, ...]  # nonzero; floats if there are numbers
    violations: int  # more violated groundings of hard rules


class FlippingWorld:
    """The truth of all atoms, and n_w for every weight w.

    `violated_rules` are the hard rules that the initial world violates.

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
        _refuse_many_loops(self._definitions)
        self._domains = problem.domains
        # Kernels count in integers: numbers are multiplied in when differences are read.
        weights = number_weights(problem)
        self._num_weights = weights.num_weights
        self._numbers = separate_numbers(weights)
        self._keys = self._numbers.keys
        self._has_numbers = any(feature.numbers for feature in self._features)
        self._given: tuple[np.ndarray, np.ndarray] | None = None  # weights, and of columns
        interpretation = base_world(problem, world)
        evidence = problem.evidence.items()
        uncertain = [name for name, each in evidence if each.open or len(each.unknown)]
        require_numbers(problem, interpretation, uncertain)
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
        self._flip_capacity = LEAST_FLIPS
        self._state: FlipState | None = None
        self._program: LoopProgram | None = None
        self._budget = 0  # visits until changes must be added to the counts
        self._pace = FIRST_PACE
        hard = [feature for feature in self._features if feature.hard]  # some of one rule
        violations = [count_violations(feature, interpretation) for feature in hard]
        broken = [f.rule for f, count in zip(hard, violations, strict=True) if count]
        self.violated_rules = tuple(dict.fromkeys(broken))
        counts = count_columns(self._features, self._keys, interpretation)
        self._counts = _narrow_counts(
            np.array([*counts, -sum(violations)], object)
        )  # as last added up

    @property
    def counts(self) -> np.ndarray:
        """The true groundings of each weight, int64[num_weights]; object beyond 64 bits.

        With numbers float64[num_weights].
        """
        counts = narrow_integers(self._all_counts()[:-1])
        if not self._has_numbers:
            return counts
        weighed = counts.astype(np.float64) * self._numbers.factor[:-1]
        return np.bincount(self._numbers.weight[:-1], weighed, self._num_weights)

    @property
    def violations(self) -> int:
        """The number of violated groundings of hard rules."""
        return -int(self._all_counts()[-1])

    def _all_counts(self) -> np.ndarray:
        return self._counts if self._state is None else self._counts + self._state.moved

    def is_true(self, predicate: str, arguments: Sequence[int]) -> bool:
        relations, atom = self._relations, self._relations.offset[predicate]
        for argument, stride in zip(arguments, relations.strides[predicate], strict=True):
            atom += int(argument) * stride
        return bool(to_python_function(contains_atom)(relations.arrays[1], atom))

    def true_rows(self, predicate: str) -> np.ndarray:
        """Return int32[n, arity], the true atoms, in arbitrary order."""
        return self._relations.rows(predicate)

    def delta(self, predicate: str, arguments: Sequence[int]) -> Change:
        """Return how the counts change if the atom flips, without flipping it."""
        return self._change(self._visit_one(LOOK, predicate, arguments))

    def flip(self, predicate: str, arguments: Sequence[int]) -> Change:
        """Flip the atom and return how the counts change."""
        return self._change(self._visit_one(FLIP, predicate, arguments))

    def look(self, parts: Parts) -> AtomVisits:
        """Return the differences of atoms without flipping them."""
        return self._visit(LOOK, parts, None, None, True)

    def vectors(self, visits: AtomVisits) -> SparseVectors:
        """Return the differences of visited atoms; column num_weights counts all hard rules."""
        found = SparseVectors(visits.start, visits.column, narrow_integers(visits.value))
        return fold_columns(self._numbers, found) if self._has_numbers else found

    def _spread_weights(self, weights: np.ndarray) -> np.ndarray:
        """Return the weight of each column."""
        if not self._has_numbers:
            return weights
        if self._given is None or not np.array_equal(self._given[0], weights):
            spread = np.append(weights, 0.0)[self._numbers.weight] * self._numbers.factor
            self._given = weights.copy(), spread[:-1]
        return self._given[1]

    def flip_all(self, parts: Parts) -> None:
        """Flip atoms one after the other."""
        self._visit(FLIP, parts, None, None, False)

    def draw(
        self, parts: Parts, weights: np.ndarray, noise: np.ndarray, noted: bool = False
    ) -> AtomVisits:
        """Set atoms, one after the other, to 1 if w · d + noise > 0, else to 0.

        With logistic noise float64[n] this is Gibbs sampling. A value that violates more hard
        groundings than the other is never taken. With `noted`, differences are returned.
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
        """Set blocks, one after the other, to the value v with the largest w · d(v) + noise.

        d(v) is what the value adds to the empty block, which is the last value of each. With Gumbel
        noise this is Gibbs sampling. A value that violates more hard groundings than another is
        never taken.
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
        found = self.vectors(visits)
        changed = dict(zip(found.column.tolist(), found.value.tolist(), strict=True))
        violations = -sign * int(changed.pop(self._num_weights, 0))
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
        given = nothing if weights is None else self._spread_weights(weights)
        flips = np.arange(number + 1)  # upper bound of the flips before each visit
        if blocks is not None:
            number = len(blocks.taken)
            flips = blocks.start + np.arange(number + 1)
        done, resumes = 0, False
        while done < number:
            least = int(flips[done + 1] - flips[done])
            if self._budget < least:
                self._flush_changes(least)
            if relations.wide and visits.atom.dtype != object:
                atom, value = visits.atom.astype(object), visits.value.astype(object)
                visits = visits._replace(atom=atom, value=value)
                if blocks is not None:
                    blocks = blocks._replace(hard=blocks.hard.astype(object))
            end = int(np.searchsorted(flips, flips[done] + self._budget, "right")) - 1
            end, began = min(end, done + self._pace), work_clock()
            what = (*relations.arrays, self._get_program(), self._get_state(), given, visits)
            if blocks is None:
                stopped = run_kernel(visit_atoms, relations.wide, mode, *what, done, end)
            else:
                stopped = run_kernel(
                    visit_blocks, relations.wide, *what, blocks, done, end, resumes
                )
            self._budget -= int(flips[min(stopped + 1, end)] - flips[done])
            self._set_pace(stopped - done, work_clock() - began)
            done, resumes = stopped, stopped < end
            visits = self._make_room(visits)
        if noted:
            used = int(visits.start[-1])
            visits = visits._replace(column=visits.column[:used], value=visits.value[:used])
        return visits

    def _set_pace(self, number: int, seconds: float) -> None:
        """Set how many visits a kernel makes between two checks of the time."""
        check_time("sampling by counts")
        if seconds > 2 * KERNEL_SECONDS:
            self._pace = max(1, self._pace // 2)
        elif number == self._pace and seconds < KERNEL_SECONDS / 2:
            self._pace *= 2

    def _make_room(self, visits: AtomVisits) -> AtomVisits:
        """Enlarge the arrays for which a kernel stopped."""
        level = self._get_state().level
        shortage, level[SHORTAGE] = level[SHORTAGE], 0
        if shortage == NO_ROOM_FOR_ATOMS:
            self._relations.grow()
        if shortage == NO_ROOM_FOR_FLIPS:
            self._flip_capacity *= 2
            self._flush_changes()
        if shortage == NO_ROOM_FOR_DIFFERENCES:
            more = np.zeros_like(visits.column), np.zeros_like(visits.value)
            return visits._replace(
                column=np.concatenate([visits.column, more[0]]),
                value=np.concatenate([visits.value, more[1]]),
            )
        return visits

    def _flush_changes(self, least: int = 1) -> None:
        """Add the changes to the counts and reset the state, for at least `least` further flips."""
        if self._state is not None:
            self._counts = _narrow_counts(self._counts.astype(object) + self._state.moved)
            there = self._state.derived >= 0
            self._witnesses = self._state.derived[there], self._state.witnesses[there]
            self._state = None
        # Changes must stay below 2⁶² until they are added to the counts.
        flips = self._flip_capacity if self._definitions else 1
        self._budget = LARGEST_KEY // (self._writer.bound * flips)
        if self._relations.wide:
            self._budget = LARGEST_KEY
        elif self._budget < least:
            self._relations.widen()
            self._program, self._budget = None, LARGEST_KEY

    def _get_program(self) -> LoopProgram:
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

    def _get_state(self) -> FlipState:
        if self._state is None:
            word, room = self._relations.word, self._flip_capacity
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
        """Write the loops around the atoms of a predicate and of the derived predicates."""
        if predicate in self._entries:
            return
        self._flush_changes()
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
        """Compile the sum of the differences: terms of clauses of one formula often cancel."""
        if not differences:
            return
        types = {**target.types, **differences[0].variables}  # the atom fills the first slots
        scope = Scope(types, (*target.positions, *result.outputs), self._domains)
        known = frozenset(target.positions)
        compiler = LoopCompiler(scope, known, self._relations, self._types, self._writer)
        signed = (c for each in differences for c in (each.when_true if truth else each.when_false))
        compiler.compile(signed, result)


def _refuse_many_loops(definitions: Sequence[Definition]) -> None:
    """Raise TooLarge if the definitions need too many loops: for each literal, over the others."""
    loops = sum(len(cube.literals) ** 2 for each in definitions for cube in each.cubes)
    if loops > MOST_LOOPS:
        number = max(len(definition.cubes) for definition in definitions)
        raise TooLarge(
            f"a quantified part of a formula has {number:,} conjunctions, too many for differences "
            "of single atoms",
            code="too-many-clauses",
            hint="introduce a predicate for a part of it, defined by a hard equivalence",
        )


def _most_witnesses(definition: Definition, domains: Mapping[str, Domain]) -> int:
    return len(definition.cubes) * prod(len(domains[kind]) for _, kind in definition.bound)


def _narrow_counts(counts: np.ndarray) -> np.ndarray:
    """Narrow to int64 if doubling cannot overflow."""
    is_small = all(-LARGEST_KEY <= count <= LARGEST_KEY for count in counts.tolist())
    return counts.astype(np.int64) if is_small else counts


def _concatenate(arrays: Sequence[np.ndarray], kind: DTypeLike) -> np.ndarray:
    """Concatenate arrays; `kind` is the type of an empty result."""
    return arrays[0] if len(arrays) == 1 else np.concatenate([np.empty(0, kind), *arrays])
