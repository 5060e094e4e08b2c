"""What each ground atom changes, found on a store: the groups of the terms are tables there.

The terms of a difference are products of groups (`difference_terms`), each a sparse function of
some argument positions. On a store a group is what its plan selects. A group without plus
variables is told by its value; one with plus variables has a sparse vector at each point, which is
written as a text, "constants:value" in order, so that equal vectors are equal texts. The distinct
texts are numbered there, and only they come here.

Groups of the same positions become one table, and `signatures` counts which combinations
of values occur. From then on nothing has the data's size: the vectors of the distinct signatures
are computed by the code that serves data in memory (`AtomVectors`).

Blocks in classes, counted on a store: a block is known by the candidates that are listed in it.

`block_classes` has the question. A candidate's vector is a product of groups, which are functions
of the block's own arguments, of the marked arguments alone, or of both ("crossing"). Crossing
functions and truth are sparse, so most candidates of a block are in none of their tables, and
differ only in functions of the marked arguments, which are the same for all blocks. On the store

    listed    the candidates in some crossing table, with all values beside them,
    a block   the text of its listed candidates' values and numbers, in order,

so that blocks with the same text and the same own values are one class: a GROUP BY. Which
candidates a class has besides is known without looking: those of the marked arguments' classes
that are not listed. What comes back are classes of blocks.

A crossing function that does not mention all arguments would make every candidate of its rows
listed. The relations of such predicates (three arguments and more) are read and counted in memory.
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
from lapis.counting.differences.differences import FlipTarget, SignedConjunctions, clause_difference
from lapis.counting.differences.sparse_vectors import (
    SparseVectors,
    add_entries,
    place_vectors,
    stack_vectors,
)
from lapis.counting.totals import WeightKey, WeightKeys, find_violated_rules
from lapis.logic.clauses import Feature
from lapis.relational.algebra import Expression, Tuples
from lapis.relational.compile import PlanOutput, compile_plan
from lapis.relational.exact_sums import narrow_integers
from lapis.relational.interpretation import Interpretation
from lapis.relational.plan import QueryPlan
from lapis.stores.counting.signatures import (
    SignatureCounter,
    StoredFunction,
    join_functions,
    unite_functions,
)
from lapis.stores.load_to_store import ScratchTables
from lapis.stores.store import StoredTable
from lapis.stores.store_engine import StoreEngine
from lapis.stores.stored_world import StoredWorld


class StoredGroup(NamedTuple):
    """One factor of some terms, on the store."""

    positions: tuple[int, ...]
    plus: tuple[str, ...]
    source: str  # p{position} …, g{number of the group}; unique by p
    vectors: SparseVectors | None  # by the values of g; None where g is the vector's only entry


class StoredTerm(NamedTuple):
    """coefficient · Π groups, added to the weight that `key` selects."""

    coefficient: int
    groups: tuple[int, ...]
    key: WeightKey


class StoredTerms:
    """Puts the groups of terms on a store, equal ones once."""

    def __init__(self, engine: StoreEngine, scratch: ScratchTables, target: FlipTarget) -> None:
        self.engine, self.scratch, self.target = engine, scratch, target
        self.groups: list[StoredGroup] = []
        self._known: dict[tuple[Expression, tuple[str, ...], tuple[int, ...]], int] = {}

    def evaluate(
        self, difference: SignedConjunctions, key: WeightKey
    ) -> tuple[list[StoredTerm], list[StoredTerm]]:
        """The terms of d(g) for false and for true atoms."""
        world = self.engine.world
        wanted = PlanOutput(
            (*self.target.positions, *key.plus), key.plus, True, difference.determined
        )
        variables = tuple(difference.variables.items())
        when_false, when_true = (
            self._terms(compile_plan(side, variables, world, wanted), key)
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
        """The factor as a function of positions, with one value at each point."""
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
        """The empty vector, and the one that a group without positions has everywhere."""
        columns, values = [], []
        for batch in self.engine.store.fetch(f"SELECT w, n FROM {entries} t"):
            columns += batch["w"].tolist()
            values += batch["n"].tolist()
        row = np.ones(len(columns), np.int64)
        return add_entries(2, row, np.array(columns, np.int64), _integers(values))

    def _fetch_vectors(self, distinct: StoredTable) -> SparseVectors:
        """The vector of each number, the empty one first."""
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
    """d(g) of every ground atom g of a predicate, by what its groups are on a store."""

    world: StoredWorld
    engine: StoreEngine
    scratch: ScratchTables
    target: FlipTarget
    features: tuple[Feature, ...]
    keys: WeightKeys
    groups: tuple[StoredGroup, ...]
    when_false: tuple[StoredTerm, ...]
    when_true: tuple[StoredTerm, ...]
    violated: tuple[int, ...]  # hard rules that the data breaks

    @property
    def interpretation(self) -> Interpretation:
        return self.world

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(map(self.interpretation.size, self.target.predicate.types))

    @property
    def true_rows(self) -> str:
        """A source of the true atoms: p0 …, and a group of its own that is 1."""
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
        """The groups of the terms, those of the same positions as one function."""
        by_positions: dict[tuple[int, ...], list[int]] = {}
        for number in dict.fromkeys(group for term in terms for group in term.groups):
            by_positions.setdefault(self.groups[number].positions, []).append(number)
        by_positions.pop((), None)
        return [
            self._combine(positions, tuple(sorted(members)))
            for positions, members in by_positions.items()
        ]

    def vectors(self, terms: Sequence[StoredTerm]) -> AtomVectors:
        """The differences by signatures; ask for them when the signatures are counted."""

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

    def count_atoms(self) -> tuple[SparseVectors, np.ndarray, np.ndarray]:
        """Vectors, truth values and how many atoms have them; not yet grouped.

        The false atoms are all but the true ones, whose numbers are subtracted.
        """
        with self.scratch:
            return self._count_atoms()

    def count_candidates(self) -> BlockCandidates:
        """The candidates of all blocks."""

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
            stack_vectors(vectors),
            np.repeat([False, True], list(map(len, count))),
            np.concatenate(count),
        )

    def at_rows(self, atoms: np.ndarray) -> tuple[SparseVectors, np.ndarray]:
        """The difference vectors of atoms int32[n, arity], and their truth values."""
        places = range(self.target.predicate.arity)
        listed = self.scratch.load(
            {"i": np.arange(len(atoms)), **{f"p{place}": atoms[:, place] for place in places}}
        )
        truth = StoredFunction(tuple(places), (len(self.groups),), self.true_rows)
        functions = [*self.functions((*self.when_false, *self.when_true)), truth]
        values = self.counter.look_up(str(listed), len(atoms), functions)
        is_true = values[:, -1] > 0
        parts = [
            (members, self.vectors(terms).at_signatures(values[members]))
            for terms, chosen in ((self.when_false, ~is_true), (self.when_true, is_true))
            for members in [np.flatnonzero(chosen)]
        ]
        return place_vectors(len(atoms), parts), is_true

    def _combine(self, positions: tuple[int, ...], members: tuple[int, ...]) -> StoredFunction:
        if members not in self._combined:
            parts = [StoredFunction(positions, (n,), self.groups[n].source) for n in members]
            self._combined[members] = unite_functions(self.scratch, parts)
        return self._combined[members]


def stored_differences(
    world: StoredWorld, target: FlipTarget, features: Sequence[Feature], keys: WeightKeys
) -> StoredDifferences:
    """The differences of features that all are direct."""
    engine = StoreEngine(world, world.store)
    scratch = ScratchTables(engine.store)
    terms = StoredTerms(engine, scratch, target)
    when_false: list[StoredTerm] = []
    when_true: list[StoredTerm] = []
    for feature in features:
        for clause in feature.clauses:
            difference = clause_difference(clause, feature.variables, target)
            sides = terms.evaluate(difference, keys.of_rule[feature.rule])
            when_false += sides[0]
            when_true += sides[1]
    return StoredDifferences(
        world,
        engine,
        scratch,
        target,
        tuple(features),
        keys,
        tuple(terms.groups),
        tuple(when_false),
        tuple(when_true),
        find_violated_rules(features, world),
    )


def _integers(values: Sequence[int]) -> np.ndarray:
    """int64[n], or Python's where 64 bits do not suffice."""
    return narrow_integers(np.array(values, dtype=object))


class _Sides(NamedTuple):
    """The functions of a difference by the arguments that they mention."""

    own: list[StoredFunction]  # only unmarked ones
    marked: list[StoredFunction]  # only marked ones
    crossing: list[StoredFunction]  # both


def count_stored_candidates(differences: StoredDifferences) -> BlockCandidates:
    """The candidates of all blocks, blocks merged where they have the same ones."""
    if any(
        len(each.positions) < differences.target.predicate.arity
        for each in _sides(differences).crossing
    ):
        world, target = differences.world.read(), differences.target
        return count_candidates(
            evaluate_in_memory(world, target, differences.features, differences.keys)
        )
    predicate, sizes = differences.target.predicate, differences.sizes
    unmarked = [place for place in range(predicate.arity) if place not in predicate.block]
    counter, sides = differences.counter, _sides(differences)
    truth = len(differences.groups)
    groups = [group for each in (*sides.crossing, *sides.marked) for group in each.groups]
    groups.append(truth)

    listed = join_functions(_list_candidates(differences, sides.crossing), sides.marked)
    found = _count_blocks(differences, listed, unmarked, groups, sides.own)
    marked = counter.count_everywhere(sides.marked, {p: sizes[p] for p in predicate.block})
    every = counter.count_everywhere(sides.own, {p: sizes[p] for p in unmarked})
    silent = dict(zip(map(tuple, every.value.tolist()), every.multiplicity.tolist(), strict=True))
    for block in found:
        silent[block.own] -= block.number
    found += [_Blocks(own, (), number) for own, number in silent.items() if number]

    values: list[np.ndarray] = []
    owner: list[int] = []
    multiplicity: list[int] = []
    places = [groups.index(g) for each in sides.marked for g in each.groups]
    marked_groups = [groups[place] for place in places]
    for number, block in enumerate(found):
        own = np.array(block.own, np.int64)
        left = dict(
            zip(
                map(tuple, marked.value[:, marked_groups].tolist()),
                marked.multiplicity.tolist(),
                strict=True,
            )
        )
        for codes, count in block.listed:
            value = own.copy()
            value[groups] = codes
            values.append(value)
            multiplicity.append(count)
            left[tuple(codes[place] for place in places)] -= count
        for codes, count in left.items():
            if count:
                value = own.copy()
                value[marked_groups] = codes
                values.append(value)
                multiplicity.append(count)
        owner += [number] * (len(values) - len(owner))
    table = np.array(values, np.int64).reshape(len(values), len(differences.groups) + 1)
    return BlockCandidates(
        np.array(owner, np.int64),
        differences.vectors(differences.when_false).at_signatures(table),
        table[:, truth] > 0,
        np.array(multiplicity, np.int64),
        np.array([block.number for block in found], np.int64),
    )


class _Blocks(NamedTuple):
    """Blocks with the same own values and listed candidates."""

    own: tuple[int, ...]  # codes of all groups, 0 for those that are not own
    listed: tuple[tuple[tuple[int, ...], int], ...]  # codes of the other groups, how many
    number: int


def _sides(differences: StoredDifferences) -> _Sides:
    marked = set(differences.target.predicate.block)
    sides = _Sides([], [], [])
    for function in differences.functions(differences.when_false):
        inside = marked.intersection(function.positions)
        if not inside:
            sides.own.append(function)
        elif len(inside) == len(function.positions):
            # Where nothing is unmarked these mention all there is to mention.
            sides.marked.append(function)
        else:
            sides.crossing.append(function)
    return sides


def _list_candidates(
    differences: StoredDifferences, crossing: Sequence[StoredFunction]
) -> StoredFunction:
    """The candidates that a crossing function or the data lists."""
    places = tuple(range(differences.target.predicate.arity))
    truth = StoredFunction(places, (len(differences.groups),), differences.true_rows)
    return unite_functions(differences.scratch, [*crossing, truth])


def _count_blocks(
    differences: StoredDifferences,
    listed: StoredFunction,
    unmarked: Sequence[int],
    groups: Sequence[int],
    own: Sequence[StoredFunction],
) -> list[_Blocks]:
    """The blocks with listed candidates."""
    dialect, codes = differences.engine.store.dialect, differences.counter.codes
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
    columns = [f"g{group}" for each in own for group in each.groups]
    joined = join_functions(StoredFunction(tuple(unmarked), (), written), own, extra=("v",))
    query = (
        f"SELECT {', '.join(['v', *columns, 'count(*) AS num'])} FROM {joined.source} t "
        f"GROUP BY {', '.join(['v', *columns])} LIMIT {MAX_SIGNATURES + 1}"
    )
    found: list[_Blocks] = []
    for batch in differences.engine.store.fetch(query):
        value = np.zeros((len(batch["num"]), len(differences.groups) + 1), np.int64)
        for each in own:
            for group in each.groups:
                value[:, group] = codes.encode(group, batch[f"g{group}"])
        for row, line, number in zip(
            value.tolist(), batch["v"].tolist(), batch["num"].tolist(), strict=True
        ):
            entries = [tuple(map(int, entry.split(":"))) for entry in line.split(",")]
            candidates = tuple(
                (tuple(codes.number(g, v) for g, v in zip(groups, entry, strict=False)), entry[-1])
                for entry in entries
            )
            found.append(_Blocks(tuple(row), candidates, number))
        if len(found) > MAX_SIGNATURES:
            raise too_many_classes_error(len(found))
    return found
