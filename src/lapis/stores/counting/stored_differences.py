"""Differences of true counts per ground atom, with the groups of their terms in tables.

The terms of a difference are products of groups (`difference_terms`), each a sparse function of
some argument positions. On a store a group is the result of its plan. A group without plus
variables has a number at each point. A group with plus variables has a sparse vector at each point,
written as a text, "constants:value" in order, so that equal vectors are equal texts. The distinct
texts are numbered on the store, and only they are fetched.

Groups of the same positions become one table, and `stored_signatures` counts the combinations of
values. From then on nothing has the size of the data: the vectors of the distinct signatures are
computed as for data in memory (`AtomVectors`).

Blocks are counted in classes as in `block_classes`. The vector of a candidate is a product of
groups: functions of the block's own arguments, of the marked arguments, or of both ("crossing").
Crossing functions and truth are sparse. So most candidates of a block are in none of their tables
and differ only in functions of the marked arguments, which are the same for all blocks. The store
computes

    listed    the candidates in some crossing table, with all their values,
    a block   the text of its listed candidates' values and numbers, in order.

Blocks with the same text and the same own values are one class, found by GROUP BY and fetched. The
other candidates of a class follow from the classes of the marked arguments: subtract the listed
ones. A crossing function of only some arguments would list too many candidates. The relations of
such predicates (at least three arguments) are read and counted in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lapis.counting.differences.argument_classes import (
    MAX_SIGNATURES,
    Signatures,
    merge_signatures,
    too_many_classes_error,
)
from lapis.counting.differences.atom_differences import AtomVectors, TermGroup, evaluate_in_memory
from lapis.counting.differences.block_classes import BlockCandidates, count_candidates
from lapis.counting.differences.signed_conjunctions import (
    FlipTarget,
    SignedConjunctions,
    clause_difference,
)
from lapis.counting.differences.sparse_vectors import (
    SparseVectors,
    add_entries,
    place_vectors,
    stack_vectors,
)
from lapis.counting.totals import (
    SeparateNumbers,
    WeightKey,
    WeightKeys,
    find_violated_rules,
    fold_columns,
    separate_numbers,
)
from lapis.logic.clauses import Feature
from lapis.relational.algebra import Expression, Tuples
from lapis.relational.exact_sums import narrow_integers
from lapis.relational.interpretation import Interpretation
from lapis.relational.plan_compiler import PlanOutput, compile_plan
from lapis.relational.query_plan import QueryPlan
from lapis.stores.counting.stored_signatures import (
    SignatureCounter,
    StoredFunction,
    join_functions,
    unite_functions,
)
from lapis.stores.store import ScratchTables, StoredTable
from lapis.stores.store_engine import StoredWorld, StoreEngine


class StoredGroup(NamedTuple):
    """A factor of terms, on the store."""

    positions: tuple[int, ...]
    plus: tuple[str, ...]
    source: str  # p{position} …, g{number of the group}; unique by p
    vectors: SparseVectors | None  # by the values of g; None if g is the only entry


class StoredTerm(NamedTuple):
    """coefficient · Π groups, added to the weight that `key` selects."""

    coefficient: int
    groups: tuple[int, ...]
    key: WeightKey


class StoredTerms:
    """Creates the groups of terms on a store, equal ones once."""

    def __init__(self, engine: StoreEngine, scratch: ScratchTables, target: FlipTarget) -> None:
        self.engine, self.scratch, self.target = engine, scratch, target
        self.groups: list[StoredGroup] = []
        self._known: dict[tuple[Expression, tuple[str, ...], tuple[int, ...]], int] = {}

    def evaluate(
        self, difference: SignedConjunctions, key: WeightKey
    ) -> tuple[list[StoredTerm], list[StoredTerm]]:
        """Return the terms of d(g) for false and for true atoms."""
        world = self.engine.world
        output = PlanOutput(
            (*self.target.positions, *key.plus), key.plus, True, difference.determined
        )
        variables = tuple(difference.variables.items())
        when_false, when_true = (
            self._terms(compile_plan(side, variables, world, output), key)
            for side in (difference.when_false, difference.when_true)
        )
        return when_false, when_true

    def _terms(self, plan: QueryPlan, key: WeightKey) -> list[StoredTerm]:
        found: list[StoredTerm] = []
        for term in plan.terms:
            scale = term.coefficient * term.multiplier
            for part in term.parts:
                if not part.variables:
                    scale *= self.engine.total(part, plan)
            if scale:
                groups = [self._group(part, plan, key) for part in term.parts if part.variables]
                found.append(StoredTerm(scale, tuple(groups), key))
        return found

    def _group(self, part: Expression, plan: QueryPlan, key: WeightKey) -> int:
        plus = tuple(name for name in key.plus if name in part.variables)
        shape = tuple(s for name, s in zip(key.plus, key.shape, strict=True) if name in plus)
        known = part, plus, shape
        if known not in self._known:
            source = self.engine.source(part, plan)
            if not isinstance(part, Tuples):
                source = str(self.scratch.create(f"SELECT * FROM {source} t"))
            self._known[known] = len(self.groups)
            self.groups.append(self._number(part, source, plus, shape))
        return self._known[known]

    def _number(
        self, part: Expression, source: str, plus: tuple[str, ...], shape: tuple[int, ...]
    ) -> StoredGroup:
        """Write a factor as a function of positions with one value at each point."""
        group, names = f"g{len(self.groups)}", self.target.positions
        positions = tuple(place for place, name in enumerate(names) if name in part.variables)
        points = [f"c{part.variables.index(names[place])} AS p{place}" for place in positions]
        if not plus:
            query = f"(SELECT {', '.join([*points, f'n AS {group}'])} FROM {source} t)"
            return StoredGroup(positions, (), query, None)
        column = "CAST(0 AS BIGINT)"
        for name, size in zip(plus, shape, strict=True):
            column = f"({column}) * {size} + c{part.variables.index(name)}"
        entries = f"(SELECT {', '.join([*points, f'{column} AS w', 'n'])} FROM {source} t)"
        if not positions:
            return StoredGroup((), plus, "", self._fetch_entries(entries))
        dialect = self.engine.store.dialect
        keys = ", ".join(f"p{place}" for place in positions)
        entry = f"{dialect.as_text('w')} || ':' || {dialect.as_text('n')}"
        texts = self.scratch.create(
            f"SELECT {keys}, {dialect.join_texts(entry)} AS v FROM {entries} t GROUP BY {keys}"
        )
        distinct = self.scratch.create(
            f"SELECT v, row_number() OVER (ORDER BY v) AS g FROM (SELECT DISTINCT v FROM {texts}) t"
        )
        numbered = ", ".join([*(f"t.p{place}" for place in positions), f"d.g AS {group}"])
        query = f"(SELECT {numbered} FROM {texts} t JOIN {distinct} d ON d.v = t.v)"
        return StoredGroup(positions, plus, query, self._fetch_vectors(distinct))

    def _fetch_entries(self, entries: str) -> SparseVectors:
        """Fetch the empty vector and the constant vector of a group without positions."""
        columns, values = [], []
        for batch in self.engine.store.fetch(f"SELECT w, n FROM {entries} t"):
            columns += batch["w"].tolist()
            values += batch["n"].tolist()
        row = np.ones(len(columns), np.int64)
        return add_entries(2, row, np.array(columns, np.int64), _integers(values))

    def _fetch_vectors(self, distinct: StoredTable) -> SparseVectors:
        """Fetch the vector of each number, the empty one first."""
        rows, columns, values = [], [], []
        num_vectors = 1
        for batch in self.engine.store.fetch(f"SELECT v, g FROM {distinct}"):
            for text, number in zip(batch["v"].tolist(), batch["g"].tolist(), strict=True):
                num_vectors += 1
                for entry in text.split(","):
                    column, value = entry.split(":")
                    rows.append(number)
                    columns.append(int(column))
                    values.append(int(value))
        row, column_of = np.array(rows, np.int64), np.array(columns, np.int64)
        return add_entries(num_vectors, row, column_of, _integers(values))


@dataclass(frozen=True)
class StoredDifferences:
    """d(g) of every ground atom g of a predicate, as groups on a store."""

    world: StoredWorld
    engine: StoreEngine
    scratch: ScratchTables
    target: FlipTarget
    features: tuple[Feature, ...]
    keys: WeightKeys
    numbers: SeparateNumbers  # the groups have a column for each
    groups: tuple[StoredGroup, ...]
    when_false: tuple[StoredTerm, ...]
    when_true: tuple[StoredTerm, ...]
    violated: tuple[int, ...]  # hard rules that the data violates

    @property
    def interpretation(self) -> Interpretation:
        return self.world

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(map(self.interpretation.size, self.target.predicate.types))

    @property
    def true_rows(self) -> str:
        """A source of the true atoms: p0 …, and a further group that is 1."""
        arity = self.target.predicate.arity
        truth = f"1 AS g{len(self.groups)}"
        columns = ", ".join([*(f"c{place} AS p{place}" for place in range(arity)), truth])
        return f"(SELECT {columns} FROM {self.engine.relation_table(self.target.predicate.name)} t)"

    @cached_property
    def _combined(self) -> dict[tuple[int, ...], StoredFunction]:
        return {}

    @cached_property
    def counter(self) -> SignatureCounter:
        return SignatureCounter(self.scratch, len(self.groups) + 1)

    def functions(self, terms: Sequence[StoredTerm]) -> list[StoredFunction]:
        """Return the groups of the terms, one function for each set of positions."""
        by_positions: dict[tuple[int, ...], list[int]] = {}
        for number in dict.fromkeys(group for term in terms for group in term.groups):
            by_positions.setdefault(self.groups[number].positions, []).append(number)
        by_positions.pop((), None)
        return [
            self._combine(positions, tuple(sorted(members)))
            for positions, members in by_positions.items()
        ]

    def vectors(self, terms: Sequence[StoredTerm]) -> AtomVectors:
        """Return the differences by signature. Call it after the signatures are counted."""

        def part(number: int) -> TermGroup:
            group, values = self.groups[number], self.counter.codes.values[number]
            if group.vectors is None:
                count = len(values)
                vectors = add_entries(
                    count, np.arange(count), np.zeros(count, np.int64), _integers(values)
                )
                return TermGroup(number, np.arange(count), (), vectors)
            if not group.positions:
                return TermGroup(-1, np.arange(2), group.plus, group.vectors)
            return TermGroup(number, np.array(values, np.int64), group.plus, group.vectors)

        parts = {n: part(n) for n in dict.fromkeys(g for term in terms for g in term.groups)}
        return AtomVectors(
            (),
            tuple((t.coefficient, tuple(parts[n] for n in t.groups), t.key) for t in terms),
        )

    def fold(self, vectors: SparseVectors) -> SparseVectors:
        """Multiply vectors by the numbers of formulas, if some have any."""
        has_numbers = any(feature.numbers for feature in self.features)
        return fold_columns(self.numbers, vectors) if has_numbers else vectors

    def count_atoms(self) -> tuple[SparseVectors, np.ndarray, np.ndarray]:
        """Return vectors, truth values and numbers of atoms, not yet grouped.

        The false atoms are all atoms minus the true ones.
        """
        with self.scratch:
            return self._count_atoms()

    def count_candidates(self) -> BlockCandidates:
        """Return the candidates of all blocks."""
        with self.scratch:
            return count_stored_candidates(self)

    def _count_atoms(self) -> tuple[SparseVectors, np.ndarray, np.ndarray]:
        arity = self.target.predicate.arity
        functions = self.functions(self.when_false)
        every = self.counter.count_everywhere(functions, dict(enumerate(self.sizes)))
        there = self.counter.count_at(self.true_rows, arity, functions)
        false = merge_signatures([every, Signatures(there.value, -there.multiplicity)])
        true = there
        if self.when_true != self.when_false:
            own = self.functions(self.when_true)
            true = self.counter.count_at(self.true_rows, arity, own)
        vectors = [
            self.vectors(self.when_false).at_signatures(false.value),
            self.vectors(self.when_true).at_signatures(true.value),
        ]
        count = [false.multiplicity, true.multiplicity]
        return (
            self.fold(stack_vectors(vectors)),
            np.repeat([False, True], list(map(len, count))),
            np.concatenate(count),
        )

    def at_rows(self, atoms: np.ndarray) -> tuple[SparseVectors, np.ndarray]:
        """Return the difference vectors of atoms int32[n, arity], and their truth values."""
        places = range(self.target.predicate.arity)
        listed = self.scratch.load(
            {"i": np.arange(len(atoms)), **{f"p{place}": atoms[:, place] for place in places}}
        )
        truth = StoredFunction(tuple(places), (len(self.groups),), self.true_rows)
        functions = [*self.functions((*self.when_false, *self.when_true)), truth]
        values = self.counter.fetch_codes(str(listed), len(atoms), functions)
        is_true = values[:, -1] > 0
        parts = [
            (members, self.vectors(terms).at_signatures(values[members]))
            for terms, chosen in ((self.when_false, ~is_true), (self.when_true, is_true))
            for members in [np.flatnonzero(chosen)]
        ]
        return self.fold(place_vectors(len(atoms), parts)), is_true

    def _combine(self, positions: tuple[int, ...], members: tuple[int, ...]) -> StoredFunction:
        if members not in self._combined:
            parts = [StoredFunction(positions, (n,), self.groups[n].source) for n in members]
            self._combined[members] = unite_functions(self.scratch, parts)
        return self._combined[members]


def stored_differences(
    world: StoredWorld, target: FlipTarget, features: Sequence[Feature], keys: WeightKeys
) -> StoredDifferences:
    """Compute the differences of features that are all direct (`differences.is_direct`)."""
    engine = StoreEngine(world, world.store)
    scratch = ScratchTables(engine.store)
    terms = StoredTerms(engine, scratch, target)
    numbers = separate_numbers(keys)
    when_false: list[StoredTerm] = []
    when_true: list[StoredTerm] = []
    for feature in features:
        for clause in feature.clauses:
            difference = clause_difference(clause, feature.variables, target)
            sides = terms.evaluate(difference, numbers.keys.of_rule[feature.rule])
            when_false += sides[0]
            when_true += sides[1]
    return StoredDifferences(
        world,
        engine,
        scratch,
        target,
        tuple(features),
        keys,
        numbers,
        tuple(terms.groups),
        tuple(when_false),
        tuple(when_true),
        find_violated_rules(features, world),
    )


def _integers(values: Sequence[int]) -> np.ndarray:
    """Return int64[n], or object[n] if 64 bits are too few."""
    return narrow_integers(np.array(values, dtype=object))


class _BlockFunctions(NamedTuple):
    """The functions of a difference, by the arguments that they depend on."""

    own: list[StoredFunction]  # unmarked ones only
    marked: list[StoredFunction]  # marked ones only
    crossing: list[StoredFunction]  # both


class _BlockClass(NamedTuple):
    """Blocks with the same own values and listed candidates."""

    own: tuple[int, ...]  # codes of all groups, 0 for groups that are not own
    listed: tuple[tuple[tuple[int, ...], int], ...]  # codes of the other groups, multiplicity
    number: int


def count_stored_candidates(differences: StoredDifferences) -> BlockCandidates:
    """Return the candidates of all blocks, with equal blocks merged."""
    predicate, sizes = differences.target.predicate, differences.sizes
    functions = _split_functions(differences)
    if any(len(each.positions) < predicate.arity for each in functions.crossing):
        world, target = differences.world.read(), differences.target
        return count_candidates(
            evaluate_in_memory(world, target, differences.features, differences.keys)
        )
    groups = [g for each in (*functions.crossing, *functions.marked) for g in each.groups]
    truth = len(differences.groups)
    groups.append(truth)
    classes = _count_blocks(differences, functions, groups)
    marked = differences.counter.count_everywhere(
        functions.marked, {place: sizes[place] for place in predicate.block}
    )
    marked_groups = [group for each in functions.marked for group in each.groups]
    places = [groups.index(group) for group in marked_groups]
    candidates = list(
        zip(
            map(tuple, marked.value[:, marked_groups].tolist()),
            marked.multiplicity.tolist(),
            strict=True,
        )
    )
    values: list[np.ndarray] = []
    owner: list[int] = []
    multiplicity: list[int] = []

    def add(number: int, members: list[int], codes: tuple[int, ...], count: int) -> None:
        value = np.array(classes[number].own, np.int64)
        value[members] = codes
        values.append(value)
        owner.append(number)
        multiplicity.append(count)

    for number, block in enumerate(classes):
        unlisted = dict(candidates)
        for codes, count in block.listed:
            add(number, groups, codes, count)
            unlisted[tuple(codes[place] for place in places)] -= count
        for codes, count in unlisted.items():
            if count:
                add(number, marked_groups, codes, count)
    table = np.array(values, np.int64).reshape(len(values), len(differences.groups) + 1)
    return BlockCandidates(
        np.array(owner, np.int64),
        differences.fold(differences.vectors(differences.when_false).at_signatures(table)),
        table[:, truth] > 0,
        np.array(multiplicity, np.int64),
        np.array([block.number for block in classes], np.int64),
    )


def _split_functions(differences: StoredDifferences) -> _BlockFunctions:
    marked = set(differences.target.predicate.block)
    found = _BlockFunctions([], [], [])
    for function in differences.functions(differences.when_false):
        inside = marked.intersection(function.positions)
        if not inside:
            found.own.append(function)
        elif len(inside) == len(function.positions):
            found.marked.append(function)  # without unmarked arguments, all arguments are marked
        else:
            found.crossing.append(function)
    return found


def _count_blocks(
    differences: StoredDifferences, functions: _BlockFunctions, groups: Sequence[int]
) -> list[_BlockClass]:
    """Return the classes of all blocks."""
    predicate, sizes = differences.target.predicate, differences.sizes
    unmarked = [place for place in range(predicate.arity) if place not in predicate.block]
    every = differences.counter.count_everywhere(
        functions.own, {place: sizes[place] for place in unmarked}
    )
    unlisted = dict(zip(map(tuple, every.value.tolist()), every.multiplicity.tolist(), strict=True))
    found = _count_listed_blocks(differences, functions, unmarked, groups)
    for block in found:
        unlisted[block.own] -= block.number
    return [*found, *(_BlockClass(own, (), number) for own, number in unlisted.items() if number)]


def _count_listed_blocks(
    differences: StoredDifferences,
    functions: _BlockFunctions,
    unmarked: Sequence[int],
    groups: Sequence[int],
) -> list[_BlockClass]:
    """Return the classes of blocks with listed candidates."""
    dialect = differences.engine.store.dialect
    every = tuple(range(differences.target.predicate.arity))
    truth = StoredFunction(every, (len(differences.groups),), differences.true_rows)
    candidates = unite_functions(differences.scratch, [*functions.crossing, truth])
    listed = join_functions(candidates, functions.marked)
    keys = [f"p{place}" for place in unmarked]
    values = [f"g{group}" for group in groups]
    counted = (
        f"SELECT {', '.join([*keys, *values, 'count(*) AS k'])} FROM {listed.source} t "
        f"GROUP BY {', '.join([*keys, *values])}"
    )
    text = " || ':' || ".join(map(dialect.as_text, [*values, "k"]))
    grouped = f" GROUP BY {', '.join(keys)}" if keys else " HAVING count(*) > 0"
    written = (
        f"(SELECT {', '.join([*keys, f'{dialect.join_texts(text)} AS v'])} "
        f"FROM ({counted}) t{grouped})"
    )
    own_groups = [group for each in functions.own for group in each.groups]
    columns = [f"g{group}" for group in own_groups]
    blocks = StoredFunction(tuple(unmarked), (), written)
    joined = join_functions(blocks, functions.own, extra=("v",))
    query = (
        f"SELECT {', '.join(['v', *columns, 'count(*) AS num'])} FROM {joined.source} t "
        f"GROUP BY {', '.join(['v', *columns])} LIMIT {MAX_SIGNATURES + 1}"
    )
    codes = differences.counter.codes
    found: list[_BlockClass] = []
    for batch in differences.engine.store.fetch(query):
        value = np.zeros((len(batch["num"]), len(differences.groups) + 1), np.int64)
        for group in own_groups:
            value[:, group] = codes.encode(group, batch[f"g{group}"])
        for row, line, number in zip(
            value.tolist(), batch["v"].tolist(), batch["num"].tolist(), strict=True
        ):
            entries = [tuple(map(int, entry.split(":"))) for entry in line.split(",")]
            members = tuple(
                (tuple(codes.number(g, v) for g, v in zip(groups, entry, strict=False)), entry[-1])
                for entry in entries
            )
            found.append(_BlockClass(tuple(row), members, number))
        if len(found) > MAX_SIGNATURES:
            raise too_many_classes_error(len(found))
    return found
