"""Quantified subformulas over unknown atoms, resolved in tables.

As in `grounding.definitions`, an instance is derived(x) ⇔ ∃ bound: cube₁ ∨ cube₂ ∨ …. Joins and
sums find the cubes, and their literals, that the evidence leaves. Only instances that occur in rows
are ground: the definitions are visited from the last to the first, each joined with the table of
its instances that rules and later definitions contain. Then, from the first to the last, a
definition becomes one table of (atom, literal):

    a cube without literals       the instance is true
    a cube with one literal       that literal
    a longer cube                 ¬b, for an auxiliary atom b ⇔ ⋁ ¬l: the cube is false

A sum by instance finds the true ones (a literal and its negation), those with one literal, and the
disjunctions. The number of an auxiliary atom is the mixed-radix number of its variables' codes. So
it is the same on all engines. Equal cubes at different variables are not merged as in memory; each
has its own atom.

In rows where a disjunction is positive, its literals replace it, in pieces, unless that repeats
many literals. Other rows contain the auxiliary atom a ⇔ ⋁ l. Only the definitions of atoms that
some row reaches are ground: the others would connect components.
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
from lapis.stores.grounding.stored_atoms import (
    DEFINITION,
    MOST_NUMBER,
    KnownTables,
    argument_columns,
    packed_code,
)
from lapis.stores.grounding.stored_literals import (
    InstanceTables,
    LiteralWriter,
    QueryRows,
    WrittenLiterals,
    select_instances,
)
from lapis.stores.store import ScratchTables, StoredTable


class FailingCubes(NamedTuple):
    """Cubes with several literals, and the auxiliary atoms that are true if a cube is false."""

    table: StoredTable  # atom, literal, m0, m1, …: the literals of ¬cube
    literals: int
    numbers: range  # of the auxiliary atoms


@dataclass
class StoredDefinitions:
    """Resolves the definitions over unknown atoms."""

    definitions: Sequence[Definition]  # each after those that it uses
    writer: LiteralWriter
    first: int  # number of the next auxiliary atom
    failing: dict[str, list[FailingCubes]] = field(default_factory=dict)

    @property
    def world(self) -> KnownTables:
        return self.writer.world

    @property
    def scratch(self) -> ScratchTables:
        return self.writer.world.scratch

    def resolve(self, features: Sequence[QueryRows]) -> None:
        """Ground the instances that occur in rows, and fill `writer.resolved`."""
        cubes: dict[str, list[QueryRows]] = {}
        rows = list(features)
        for definition in reversed(self.definitions):
            name = definition.predicate.name
            cubes[name] = list(self._ground_cubes(definition, rows))
            rows += cubes[name]
        for definition in self.definitions:
            name = definition.predicate.name
            self.writer.resolved[name] = self._decide(definition, cubes[name])

    def find_in_place(self, features: Sequence[QueryRows]) -> dict[str, StoredTable]:
        """Find the instances that their literals replace: those for which this repeats few."""
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
            found[name] = self.scratch.create(
                f"SELECT d.atom AS atom FROM {instances.decided} d JOIN ({counted}) t "
                "ON t.atom = d.atom WHERE d.literal = d.atom + 1 "
                f"AND (t.times - 1) * d.length <= {MOST_REPEATED}"
            )
        return found

    def ground_used(self, rows: Sequence[StoredTable], width: int) -> Iterator[StoredTable]:
        """Create rows of the definitions that rows reach, directly or through definitions."""
        sources = [
            f"SELECT abs(l{i}) - 1 AS atom FROM {table} WHERE l{i} <> 0"
            for table in rows
            for i in range(width)
        ]
        zeros = "".join(f", CAST(0 AS BIGINT) AS l{i}" for i in range(1, width))
        for numbers, pairs in self._select_definitions() if sources else ():
            used = (
                f"SELECT DISTINCT atom FROM ({' UNION ALL '.join(sources)}) s "
                f"WHERE atom BETWEEN {numbers.start} AND {numbers.stop - 1}"
            )
            table = self.scratch.create(
                f"SELECT CAST({DEFINITION} AS BIGINT) AS weight, p.atom AS piece, "
                f"CAST(1 AS {self.scratch.store.dialect.real}) AS n, p.literal AS l0{zeros} "
                f"FROM ({pairs}) p JOIN ({used}) u ON u.atom = p.atom"
            )
            if table.rows:
                sources.append(f"SELECT abs(l0) - 1 AS atom FROM {table}")
                yield table

    def _select_definitions(self) -> Iterator[tuple[range, str]]:
        """Yield ranges of auxiliary atoms and SELECTs of (atom, literal), the last ones first."""
        for definition in reversed(self.definitions):
            name = definition.predicate.name
            instances = self.writer.resolved[name]
            if instances.members is not None:
                last = instances.first + math.prod(instances.sizes)
                pairs = f"SELECT atom, low AS literal FROM {instances.members}"
                yield range(instances.first, last), pairs
            for cubes in reversed(self.failing.get(name, [])):
                fails = f"WHERE literal < {-cubes.numbers.start}"  # −(b + 1)
                pairs = " UNION ".join(
                    f"SELECT -1 - literal AS atom, m{i} AS literal FROM {cubes.table} "
                    f"{fails} AND literal >= {-cubes.numbers.stop} AND m{i} <> 0"
                    for i in range(cubes.literals)
                )
                yield cubes.numbers, pairs

    def _ground_cubes(
        self, definition: Definition, rows: Sequence[QueryRows]
    ) -> Iterator[QueryRows]:
        """Create the cubes of the instances that occur in rows."""
        name = definition.predicate.name
        selects = select_instances(rows, name, self.writer)
        if not selects:
            return
        sizes = self._sizes(definition)
        expect_packable(name, sizes)
        columns = ", ".join(argument_columns(len(sizes)))
        union = " UNION ALL ".join(selects)
        table = self.scratch.create(f"SELECT DISTINCT {columns} FROM ({union}) d")
        if not table.rows:
            return
        demand = None
        if table.rows < math.prod(sizes):
            types = tuple(type_name for _, type_name in definition.variables)
            variables = tuple(Variable(variable) for variable, _ in definition.variables)
            demand = RelationAtom(self.world.add(table, types), variables)
        for template in cube_templates(definition, demand):
            for kept in self.writer.plan(template):
                cubes = self.scratch.create(self.writer.rows(kept.query))
                if cubes.rows:
                    yield QueryRows(kept, str(cubes))

    def _decide(self, definition: Definition, cubes: Sequence[QueryRows]) -> InstanceTables:
        """Find the value of each instance from the cubes that are left."""
        name, sizes = definition.predicate.name, self._sizes(definition)
        pairs = [self._select_pairs(definition, rows) for rows in cubes]
        first = self._allocate(sizes, name)
        if not pairs:
            return InstanceTables(first, sizes, None, None)
        union = " UNION ALL ".join(pairs)
        numbered = f"SELECT {first} + code AS atom, literal FROM ({union}) p"
        members = self.scratch.create(
            "SELECT atom, min(literal) AS low, max(literal) AS high "
            f"FROM ({numbered}) q GROUP BY atom, abs(literal)"
        )
        decided = self.scratch.create(
            "SELECT atom, CASE WHEN max(CASE WHEN low <> high OR low = 0 THEN 1 ELSE 0 END) = 1 "
            "THEN 0 WHEN count(*) = 1 THEN min(low) ELSE atom + 1 END AS literal, "
            f"count(*) AS length FROM {members} GROUP BY atom"
        )
        return InstanceTables(first, sizes, decided, members)

    def _select_pairs(self, definition: Definition, rows: QueryRows) -> str:
        """Write a SELECT of (code, literal) for each cube: the literal is true iff the cube is."""
        written = self.writer.write(rows.kept)
        query = rows.kept.query
        terms = [query.stands_for[variable] for variable, _ in definition.variables]
        types = [type_name for _, type_name in definition.variables]
        code = packed_code(self.writer.codes(terms, types, query), self._sizes(definition))
        owner = f"CAST({code} AS BIGINT) AS code"
        if len(written.literals) < 2:
            holds = f"0 - {written.literals[0]}" if written.literals else "0"
            columns = [owner, f"CAST({holds} AS BIGINT) AS literal"]
            return written.select(columns, rows.source)
        failing = self._failing_cubes(definition, rows, written, owner)
        return f"SELECT code, literal FROM {failing.table}"

    def _failing_cubes(
        self, definition: Definition, rows: QueryRows, written: WrittenLiterals, owner: str
    ) -> FailingCubes:
        """Create the table of a query's cubes with several literals."""
        query, name = rows.kept.query, definition.predicate.name
        types = dict((*definition.variables, *definition.bound))
        variables = [
            variable
            for variable in query.plan.keep
            if any(Variable(variable) in literal.terms for literal in query.literals)
        ]
        sizes = tuple(len(self.world.domains[types[variable]]) for variable in variables)
        first = self._allocate(sizes, name)
        own = packed_code(
            [f"r.c{query.plan.keep.index(variable)}" for variable in variables], sizes
        )
        named = [f"CAST({text} AS BIGINT) AS e{i}" for i, text in enumerate(written.literals)]
        inner = written.select([owner, f"{first} + {own} AS b", *named], rows.source)
        places = range(len(written.literals))
        before = {i: [f"e{j}" for j in range(i)] for i in places[1:]}
        # Drop repeated literals, and cubes with a literal and its negation, which are false.
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
        table = self.scratch.create(
            f"SELECT code, CASE WHEN {length} > 1 THEN -1 - b ELSE 0 - ({total}) END AS literal, "
            f"{', '.join(f'm{i}' for i in places)} FROM ({cubes}) s"
        )
        found = FailingCubes(table, len(places), range(first, first + math.prod(sizes)))
        self.failing.setdefault(name, []).append(found)
        return found

    def _sizes(self, definition: Definition) -> tuple[int, ...]:
        return tuple(len(self.world.domains[type_name]) for _, type_name in definition.variables)

    def _allocate(self, sizes: Sequence[int], name: str) -> int:
        """Reserve numbers for auxiliary atoms; return the first."""
        first = self.first
        self.first += math.prod(sizes)
        if self.first > MOST_NUMBER:
            raise TooLarge(
                f"the quantified part '{name}' has too many possible instances to number "
                f"({math.prod(sizes):.0e})",
                code="too-large",
                hint="split the formula so that fewer free variables occur inside its quantifier",
            )
        return first


def row_number(query: GroundingQuery, world: KnownTables) -> tuple[str, int]:
    """Write the number of each row `r` of a query; return it and the number of possible rows."""
    types = dict(query.plan.variables)
    sizes = [len(world.domains[types[name]]) for name in query.plan.keep]
    return packed_code([f"r.c{i}" for i in range(len(sizes))], sizes), math.prod(sizes)
