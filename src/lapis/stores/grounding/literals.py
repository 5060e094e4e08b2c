"""What a query's rows leave of its literals, as SQL.

A kept literal is the number of its atom, which arithmetic on the row's codes gives. Two kinds need
a look at another table, by an outer join each:

    either       a literal that the query leaves kept or dropped: is its atom known?
    reference    an instance of a derived predicate: true, false, or the literal that it is

A literal that turns out false is 0, and a row in which one turns out true is no row.

The rows of a plan as one SELECT: what `answers.list_rows` gives, left on the store.

Rows whose literals other tables decide, as clauses.

First, for each row of a query, a column e for what each literal turned out to be, and a column a
for the instance of a derived predicate that stands in place of it:

    weight, piece, n, e0, a0, e1, a1, …        e = 0 for nothing, a = −1 for no instance

Then rows of literals: one that has no instance in place is whole, another is as many pieces as its
instances have literals, and a piece of the literals beside them. One with none at all is no clause.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lapis.errors import TooLarge
from lapis.grounding.templates import (
    EvidenceStatus,
    GroundingQuery,
    PlanLimits,
    Template,
    list_statuses,
    merge_statuses,
    plan_template,
)
from lapis.language.syntax import Variable
from lapis.logic.clauses import Literal, SimpleTerm
from lapis.relational.interpretation import refuse_costly_plan
from lapis.relational.plan import QueryPlan, Term
from lapis.stores.dialect import Dialect
from lapis.stores.grounding.atoms import KnownTables, columns_of, spell
from lapis.stores.sql import Integer, SqlWriter, TableLookup, bound
from lapis.stores.store import StoredTable

MOST_SPLIT = 6  # literals of one template over predicates that are partly known
EVERYWHERE = PlanLimits(split_above=-1, most_split=MOST_SPLIT)


class InstanceTables(NamedTuple):
    """The instances of a derived predicate that rows refer to."""

    first: int  # number of the one whose arguments all have code 0
    sizes: tuple[int, ...]
    decided: StoredTable | None  # atom, literal (0 if true), length; who is missing is false
    members: StoredTable | None  # atom, low: the literals of those that are `literal` = atom + 1


class KeptQuery(NamedTuple):
    """A query, and whether its kept literals may be known after all."""

    query: GroundingQuery
    either: bool


class QueryRows(NamedTuple):
    """A query's rows, in a table of their own or as a SELECT."""

    kept: KeptQuery
    source: str


class Written(NamedTuple):
    """The literals of rows `r` as SQL, base predicates first, and what `r` is joined with."""

    literals: tuple[str, ...]  # atom + 1, negative if negated, 0 for nothing
    references: tuple[Literal | None, ...]  # which of them are of derived predicates
    joins: str
    conditions: tuple[str, ...]

    def select(self, columns: Sequence[str], source: str) -> str:
        where = " AND ".join(self.conditions) or "TRUE"
        return f"SELECT {', '.join(columns)} FROM {source} r{self.joins} WHERE {where}"


@dataclass(frozen=True)
class LiteralWriter:
    world: KnownTables
    resolved: dict[str, InstanceTables]  # of derived predicates, as far as they are

    def plan(self, template: Template) -> list[KeptQuery]:
        """The queries of a template. Raises TooLarge where they are estimated to be hopeless."""
        splittable = [
            literal
            for literal in template.literals
            if len(list_statuses(literal, self.world, split=True)) > 1
        ]

        def choose(literals: Sequence[Literal]) -> list[list[EvidenceStatus]]:
            fates, left = [], MOST_SPLIT
            for literal in literals:
                options = list_statuses(literal, self.world, split=True)
                left -= len(options) > 1
                split = len(options) == 1 or left >= 0
                fates.append(options if split else [merge_statuses(literal, self.world)])
            return fates

        queries = list(plan_template(template, self.world, EVERYWHERE, choose))
        for query in queries:
            refuse_costly_plan(query.plan.cost)
        either = len(splittable) > MOST_SPLIT
        return [KeptQuery(query, either) for query in queries]

    def rows(self, query: GroundingQuery) -> str:
        """A SELECT of a query's rows: c0, c1, … and n."""
        return write_rows(query.plan, self.world.tables, self.world.store.dialect)

    def codes(
        self, terms: Sequence[SimpleTerm], types: Sequence[str], query: GroundingQuery
    ) -> list[str]:
        """The codes of terms: a column of the query's rows, or a number."""
        keep = query.plan.keep
        return [
            f"r.c{keep.index(term.name)}"
            if isinstance(term, Variable)
            else str(self.world.domains[type_name].index[term.name])
            for term, type_name in zip(terms, types, strict=True)
        ]

    def reference_codes(self, literal: Literal, query: GroundingQuery) -> list[str]:
        return self.codes(literal.terms, self.world.types[literal.predicate], query)

    def number(self, literal: Literal, query: GroundingQuery) -> str:
        """The number of a literal's atom."""
        codes = self.reference_codes(literal, query)
        atoms = self.world.atoms.get(literal.predicate)
        if atoms is not None:
            return atoms.number(codes)
        instances = self.resolved[literal.predicate]
        return f"({instances.first} + {spell(codes, instances.sizes)})"

    def write(self, kept: KeptQuery) -> Written:
        derived = [each for each in kept.query.literals if each.predicate not in self.world.atoms]
        base = [each for each in kept.query.literals if each.predicate in self.world.atoms]
        literals, joins, conditions = [], "", []
        for place, literal in enumerate([*base, *derived]):
            number = self.number(literal, kept.query)
            signed = f"({number} + 1)" if literal.positive else f"(-1 - {number})"
            if place >= len(base):
                table = self.resolved[literal.predicate].decided
                if table is None:
                    signed = "0"
                    conditions += [] if literal.positive else ["FALSE"]
                else:
                    joins += f" LEFT JOIN {table} x{place} ON x{place}.atom = {number}"
                    found = f"x{place}.literal"
                    signed = f"coalesce({found}, 0)" if literal.positive else f"(0 - {found})"
                    alive = (
                        f"coalesce({found}, 1) <> 0" if literal.positive else f"{found} IS NOT NULL"
                    )
                    conditions.append(alive)
            elif kept.either:
                joined, test = self._look_up(literal, kept.query, f"x{place}")
                joins += joined
                signed = f"CASE WHEN {test} THEN {signed} ELSE 0 END" if joined else signed
            literals.append(signed)
        return Written(tuple(literals), (*[None] * len(base), *derived), joins, tuple(conditions))

    def _look_up(self, literal: Literal, query: GroundingQuery, label: str) -> tuple[str, str]:
        """A join that finds an atom, and the test that it is unknown; nothing if all are."""
        atoms = self.world.atoms[literal.predicate]
        table = atoms.unknown
        if not atoms.sparse:
            table = atoms.false if literal.positive else atoms.true
        if table is None or (not atoms.sparse and not table.rows):
            return "", ""
        columns = columns_of(len(atoms.sizes))
        codes = self.reference_codes(literal, query)
        matches = [f"{label}.{name} = {code}" for name, code in zip(columns, codes, strict=False)]
        join = f" LEFT JOIN {table} {label} ON {' AND '.join(matches) or 'TRUE'}"
        return join, f"{label}.{columns[0]} IS {'NOT NULL' if atoms.sparse else 'NULL'}"


def refers(query: GroundingQuery, world: KnownTables) -> bool:
    """Whether derived predicates have a say in a query's rows."""
    return any(literal.predicate not in world.atoms for literal in query.literals)


def demanded(rows: Sequence[QueryRows], predicate: str, writer: LiteralWriter) -> list[str]:
    """SELECTs of the instances of a derived predicate that rows refer to."""
    selects = []
    for (query, _), source in rows:
        for literal in query.literals:
            if literal.predicate == predicate:
                codes = writer.reference_codes(literal, query)
                columns = [f"CAST({code} AS INTEGER) AS c{i}" for i, code in enumerate(codes)]
                named = ", ".join(columns) or "CAST(1 AS INTEGER) AS n"
                selects.append(f"SELECT {named} FROM {source} r")
    return selects


def write_rows(plan: QueryPlan, tables: TableLookup, dialect: Dialect) -> str:
    """Columns c0, c1, … for the kept variables, which every term must list, and n ≠ 0.

    Raises TooLarge where the dialect has no integers for the counts.
    """
    largest = sum(
        abs(term.coefficient) * term.multiplier
        * math.prod(bound(part, plan, tables.world) for part in term.parts)
        for term in plan.terms
    )  # fmt: skip
    integer = dialect.integer(max(largest, 1))
    if integer is None:
        raise TooLarge(
            f"a formula has more groundings than the integers of {dialect.name} can count",
            code="too-large",
            hint="write the formula with fewer unconnected variables",
        )
    writer = SqlWriter(plan, tables, dialect, Integer(integer))
    selects = [_select_term(plan, term, writer, integer) for term in plan.terms]
    text = writer.definitions() if writer.expressions else ""
    if len(selects) == 1:
        return text + selects[0]
    names = [f"c{i}" for i in range(len(plan.keep))]
    total = f"CAST(sum(n) AS {integer})"
    union = "\nUNION ALL ".join(selects)
    grouped = f" GROUP BY {', '.join(names)}" if names else ""
    return (
        f"{text}SELECT {', '.join([*names, f'{total} AS n'])} FROM ({union}) t{grouped} "
        "HAVING sum(n) <> 0"
    )


def _select_term(plan: QueryPlan, term: Term, writer: SqlWriter, integer: str) -> str:
    """coefficient · multiplier · Π parts, row by row."""
    where: dict[str, str] = {}  # the column of each variable
    sources: list[str] = []
    for number, part in enumerate(term.parts):
        columns = {name: f"p{number}.c{i}" for i, name in enumerate(part.variables)}
        matches = [f"{where[name]} = {columns[name]}" for name in columns if name in where]
        joined = f" ON {' AND '.join(matches) or 'TRUE'}" if sources else ""
        sources.append(f"{writer.name(part)} p{number}{joined}")
        where = columns | where
    value = " * ".join(
        [f"CAST({term.coefficient * term.multiplier} AS {integer})"]
        + [f"p{number}.n" for number in range(len(term.parts))]
    )
    named = [f"{where[name]} AS c{i}" for i, name in enumerate(plan.keep)]
    text = f"SELECT {', '.join([*named, f'CAST({value} AS {integer}) AS n'])}"
    if not sources:
        return text
    nonzero = "".join(f" AND p{number}.n <> 0" for number in range(len(term.parts)))
    return f"{text} FROM {' JOIN '.join(sources)} WHERE TRUE{nonzero}"


REPLACED = "a{0} >= 0"
EMPTY = "e{0} = 0 AND a{0} < 0"


def select_undecided(
    rows: QueryRows, written: Written, writer: LiteralWriter, in_place: Mapping[str, StoredTable]
) -> str:
    """The first step, of c0, c1, … and n instead of weight and piece."""
    literals, joins = [], ""
    for place, (text, reference) in enumerate(
        zip(written.literals, written.references, strict=True)
    ):
        instance = "-1"
        if reference is not None and reference.positive and reference.predicate in in_place:
            table, own = in_place[reference.predicate], f"w{place}.atom"
            number = writer.number(reference, rows.kept.query)
            joins += f" LEFT JOIN {table} w{place} ON {own} = {number}"
            instance = f"coalesce({own}, -1)"
            text = f"CASE WHEN {own} IS NULL THEN {text} ELSE 0 END"
        literals.append(f"CAST({text} AS BIGINT) AS e{place}")
        literals.append(f"CAST({instance} AS BIGINT) AS a{place}")
    joined = written._replace(joins=written.joins + joins)
    keep = [f"r.c{i} AS c{i}" for i in range(len(rows.kept.query.plan.keep))]
    return joined.select([*keep, "r.n AS n", *literals], rows.source)


def select_pieces(
    written: Written, undecided: StoredTable, writer: LiteralWriter, width: int
) -> Iterator[str]:
    """The second step: weight, piece, n, l0, l1, … of `width` literals."""
    places = range(len(written.literals))
    zeros = ["CAST(0 AS BIGINT)"] * width
    # Every row needs a first literal; that it may be there twice changes no clause.
    first = f"coalesce({', '.join(f'nullif(e{i}, 0)' for i in places)})"
    literals = [first, *(f"e{i}" for i in places[1:]), *zeros[len(places) :]]
    named = ", ".join(f"{text} AS l{i}" for i, text in enumerate(literals))
    replaced = " OR ".join(map(REPLACED.format, places))
    some = " OR ".join(f"e{i} <> 0" for i in places)
    yield (
        f"SELECT weight, CASE WHEN {replaced} THEN piece ELSE -1 END AS piece, n, {named} "
        f"FROM {undecided} WHERE {some}"
    )
    others = "".join(f", {zero} AS l{i}" for i, zero in enumerate(zeros[1:], 1))
    for place, reference in enumerate(written.references):
        if reference is None or not reference.positive:
            continue
        members = writer.resolved[reference.predicate].members
        if members is not None:
            yield (
                f"SELECT u.weight AS weight, u.piece AS piece, u.n AS n, m.low AS l0{others} "
                f"FROM {undecided} u JOIN {members} m ON m.atom = u.a{place}"
            )


def is_empty(written: Written) -> str:
    """The test that nothing is left of a row."""
    return " AND ".join(map(EMPTY.format, range(len(written.literals))))
