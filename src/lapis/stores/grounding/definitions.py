"""Quantified parts of formulas over unknown atoms, resolved in tables.

What `grounding.definitions` says of an instance derived(x) ⇔ ∃ bound: cube₁ ∨ cube₂ ∨ … is found
here by joins and sums: which cubes evidence leaves, which literals of theirs. Only instances that
rows refer to are ground: definitions are visited from the last to the first, and each is joined
with the table of its instances that rules and later definitions ask for. Then, from the first to
the last, a definition becomes one table of (atom, literal):

    a cube with no literal left        the instance is true
    a cube with one                    that literal
    a longer cube                      ¬b, where the auxiliary atom b ⇔ ⋁ ¬l says that it fails

and a sum by instance tells the true ones (a literal beside its negation), those that are one
literal, and the disjunctions. The number of an auxiliary atom is spelled by the codes of its
variables, as that of any atom is: so it is the same on all engines, and nothing is looked up. Equal
cubes at different variables are not merged as they are in memory; each has an atom of its own.

A disjunction stands in place in rows that use it positively, piece by piece, unless that repeats
many literals; the others use the auxiliary atom a ⇔ ⋁ l. Definitions are written down for those
atoms only that some row reaches, since the others would tie components together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lapis.errors import TooLarge
from lapis.grounding.definitions import MOST_REPEATED
from lapis.grounding.grounded_world import expect_packable
from lapis.grounding.templates import GroundingQuery, cube_templates
from lapis.language.syntax import Variable
from lapis.logic.clauses import Definition
from lapis.relational.conjunction import RelationAtom
from lapis.stores.grounding.atoms import MOST_NUMBER, KnownTables, columns_of, spell
from lapis.stores.grounding.literals import (
    InstanceTables,
    LiteralWriter,
    QueryRows,
    Written,
    demanded,
)
from lapis.stores.store import Store, StoredTable

DEFINITION = -4


class FailingCubes(NamedTuple):
    """Cubes that may have several literals left, and the atoms that say that they fail."""

    table: StoredTable  # atom, literal, m0, m1, …: the literals of ¬cube
    literals: int
    numbers: range  # of the auxiliary atoms


@dataclass
class StoredDefinitions:
    definitions: Sequence[Definition]  # over unknown atoms, each after those that it uses
    writer: LiteralWriter
    store: Store
    first: int  # number of the next auxiliary atom
    failing: dict[str, list[FailingCubes]] = field(default_factory=dict)

    @property
    def world(self) -> KnownTables:
        return self.writer.world

    def resolve(self, features: Sequence[QueryRows]) -> None:
        """Ground what rows refer to; `writer.resolved` then tells what each instance is."""
        cubes: dict[str, list[QueryRows]] = {}
        asking = list(features)
        for definition in reversed(self.definitions):
            name = definition.predicate.name
            cubes[name] = list(self._ground_cubes(definition, asking))
            asking += cubes[name]
        for definition in self.definitions:
            name = definition.predicate.name
            self.writer.resolved[name] = self._decide(definition, cubes[name])

    def stand_in_place(self, features: Sequence[QueryRows]) -> dict[str, StoredTable]:
        """For each derived predicate the instances that positive references replace by all of
        their literals: those for which this repeats few."""
        found: dict[str, StoredTable] = {}
        for name, instances in self.writer.resolved.items():
            numbers = [
                f"SELECT {self.writer.number(literal, query)} AS atom FROM {source} r"
                for (query, _), source in features
                for literal in query.literals
                if literal.predicate == name and literal.positive
            ]
            if instances.decided is None or not numbers:
                continue
            counted = (
                f"SELECT atom, count(*) AS times FROM ({' UNION ALL '.join(numbers)}) a "
                "GROUP BY atom"
            )
            found[name] = self.store.create(
                f"in place {len(found)}",
                f"SELECT d.atom AS atom FROM {instances.decided} d JOIN ({counted}) t "
                "ON t.atom = d.atom WHERE d.literal = d.atom + 1 "
                f"AND (t.times - 1) * d.length <= {MOST_REPEATED}",
            )
        return found

    def used_definitions(self, rows: Sequence[StoredTable], width: int) -> Iterator[StoredTable]:
        """Definitions of the auxiliary atoms that rows reach, directly or through definitions."""
        sources = [
            f"SELECT abs(l{i}) - 1 AS atom FROM {table} WHERE l{i} <> 0"
            for table in rows
            for i in range(width)
        ]
        zeros = "".join(f", CAST(0 AS BIGINT) AS l{i}" for i in range(1, width))
        real = self.store.dialect.real

        def write(numbers: range, pairs: str) -> Iterator[StoredTable]:
            if not sources:
                return
            used = (
                f"SELECT DISTINCT atom FROM ({' UNION ALL '.join(sources)}) s "
                f"WHERE atom BETWEEN {numbers.start} AND {numbers.stop - 1}"
            )
            table = self.store.create(
                f"rows of definitions {numbers.start}",
                f"SELECT CAST({DEFINITION} AS BIGINT) AS weight, p.atom AS piece, "
                f"CAST(1 AS {real}) AS n, p.literal AS l0{zeros} FROM ({pairs}) p "
                f"JOIN ({used}) u ON u.atom = p.atom",
            )
            if table.rows:
                sources.append(f"SELECT abs(l0) - 1 AS atom FROM {table}")
                yield table

        for definition in reversed(self.definitions):
            name = definition.predicate.name
            instances = self.writer.resolved[name]
            if instances.members is not None:
                last = instances.first + math.prod(instances.sizes)
                pairs = f"SELECT atom, low AS literal FROM {instances.members}"
                yield from write(range(instances.first, last), pairs)
            for cubes in reversed(self.failing.get(name, [])):
                fails = f"WHERE literal < {-cubes.numbers.start}"  # −(b + 1)
                pairs = " UNION ".join(
                    f"SELECT -1 - literal AS atom, m{i} AS literal FROM {cubes.table} "
                    f"{fails} AND literal >= {-cubes.numbers.stop} AND m{i} <> 0"
                    for i in range(cubes.literals)
                )
                yield from write(cubes.numbers, pairs)

    def _ground_cubes(
        self, definition: Definition, asking: Sequence[QueryRows]
    ) -> Iterator[QueryRows]:
        name = definition.predicate.name
        selects = demanded(asking, name, self.writer)
        if not selects:
            return
        sizes = self._sizes(definition)
        expect_packable(name, sizes)
        columns = ", ".join(columns_of(len(sizes)))
        union = " UNION ALL ".join(selects)
        table = self.store.create(
            f"demand {self._place(definition)}", f"SELECT DISTINCT {columns} FROM ({union}) d"
        )
        if not table.rows:
            return
        demand = None
        if table.rows < math.prod(sizes):
            types = tuple(type_name for _, type_name in definition.variables)
            variables = tuple(Variable(variable) for variable, _ in definition.variables)
            demand = RelationAtom(self.world.add(table, types), variables)
        for number, template in enumerate(cube_templates(definition, demand)):
            for place, kept in enumerate(self.writer.plan(template)):
                rows = self.store.create(
                    f"cubes {self._place(definition)} {number} {place}",
                    self.writer.rows(kept.query),
                )
                if rows.rows:
                    yield QueryRows(kept, str(rows))

    def _decide(self, definition: Definition, cubes: Sequence[QueryRows]) -> InstanceTables:
        """What each instance is, from the cubes that are left of it."""
        name, sizes = definition.predicate.name, self._sizes(definition)
        pairs = [self._select_pairs(definition, rows) for rows in cubes]
        first = self._allocate(sizes, name)
        if not pairs:
            return InstanceTables(first, sizes, None, None)
        union = " UNION ALL ".join(pairs)
        spelled = f"SELECT {first} + code AS atom, literal FROM ({union}) p"
        members = self.store.create(
            f"members {self._place(definition)}",
            "SELECT atom, min(literal) AS low, max(literal) AS high "
            f"FROM ({spelled}) q GROUP BY atom, abs(literal)",
        )
        decided = self.store.create(
            f"decided {self._place(definition)}",
            "SELECT atom, CASE WHEN max(CASE WHEN low <> high OR low = 0 THEN 1 ELSE 0 END) = 1 "
            "THEN 0 WHEN count(*) = 1 THEN min(low) ELSE atom + 1 END AS literal, "
            f"count(*) AS length FROM {members} GROUP BY atom",
        )
        return InstanceTables(first, sizes, decided, members)

    def _select_pairs(self, definition: Definition, rows: QueryRows) -> str:
        """(code, literal) of each cube that is left: the literal that says that it holds."""
        written = self.writer.write(rows.kept)
        query = rows.kept.query
        terms = [query.stands_for[variable] for variable, _ in definition.variables]
        types = [type_name for _, type_name in definition.variables]
        code = spell(self.writer.codes(terms, types, query), self._sizes(definition))
        owner = f"CAST({code} AS BIGINT) AS code"
        if len(written.literals) < 2:
            holds = f"0 - {written.literals[0]}" if written.literals else "0"
            columns = [owner, f"CAST({holds} AS BIGINT) AS literal"]
            return written.select(columns, rows.source)
        failing = self._failing_cubes(definition, rows, written, owner)
        return f"SELECT code, literal FROM {failing.table}"

    def _failing_cubes(
        self, definition: Definition, rows: QueryRows, written: Written, owner: str
    ) -> FailingCubes:
        query, name = rows.kept.query, definition.predicate.name
        types = dict((*definition.variables, *definition.bound))
        variables = [
            variable
            for variable in query.plan.keep
            if any(Variable(variable) in literal.terms for literal in query.literals)
        ]
        sizes = tuple(len(self.world.domains[types[variable]]) for variable in variables)
        first = self._allocate(sizes, name)
        own = spell([f"r.c{query.plan.keep.index(variable)}" for variable in variables], sizes)
        named = [f"CAST({text} AS BIGINT) AS e{i}" for i, text in enumerate(written.literals)]
        inner = written.select([owner, f"{first} + {own} AS b", *named], rows.source)
        places = range(len(written.literals))
        before = {i: [f"e{j}" for j in range(i)] for i in places[1:]}
        # A literal twice is one; beside its negation it makes ¬cube true, and the cube false.
        single = ["e0"] + [
            f"CASE WHEN e{i} IN ({', '.join(before[i])}) THEN 0 ELSE e{i} END" for i in places[1:]
        ]
        never = " OR ".join(
            f"(e{i} <> 0 AND 0 - e{i} IN ({', '.join(before[i])}))" for i in places[1:]
        )
        listed = ", ".join(f"{text} AS m{i}" for i, text in enumerate(single))
        cubes = f"SELECT code, b, {listed} FROM ({inner}) c WHERE NOT ({never})"
        length = " + ".join(f"CASE WHEN m{i} <> 0 THEN 1 ELSE 0 END" for i in places)
        total = " + ".join(f"m{i}" for i in places)  # the one literal, if there is one
        table = self.store.create(
            f"failing {first}",
            f"SELECT code, CASE WHEN {length} > 1 THEN -1 - b ELSE 0 - ({total}) END AS literal, "
            f"{', '.join(f'm{i}' for i in places)} FROM ({cubes}) s",
        )
        found = FailingCubes(table, len(places), range(first, first + math.prod(sizes)))
        self.failing.setdefault(name, []).append(found)
        return found

    def _sizes(self, definition: Definition) -> tuple[int, ...]:
        return tuple(len(self.world.domains[type_name]) for _, type_name in definition.variables)

    def _place(self, definition: Definition) -> int:
        return self.definitions.index(definition)

    def _allocate(self, sizes: Sequence[int], name: str) -> int:
        """The first of so many numbers for auxiliary atoms."""
        first = self.first
        self.first += math.prod(sizes)
        if self.first > MOST_NUMBER:
            raise TooLarge(
                f"the quantified part '{name}' has too many possible instances to number "
                f"({math.prod(sizes):.0e})",
                code="too-large",
                hint="split the formula so that fewer variables reach into its quantifier",
            )
        return first


def piece_of(query: GroundingQuery, world: KnownTables) -> tuple[str, int]:
    """A number for each row of a query, as SQL over its rows `r`, and how many there may be."""
    types = dict(query.plan.variables)
    sizes = [len(world.domains[types[name]]) for name in query.plan.keep]
    return spell([f"r.c{i}" for i in range(len(sizes))], sizes), math.prod(sizes)
