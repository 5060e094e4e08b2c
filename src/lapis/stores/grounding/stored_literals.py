"""The literals that evidence leaves in a query's rows, as SQL.

The rows of a query are one SELECT (`write_rows`), like those of `answers.list_rows` in memory. A
kept literal is the number of its atom, arithmetic on the row's codes. Two kinds of literals need an
outer join with another table:

    either       the query does not determine whether the atom is known
    derived      an instance of a derived predicate: true, false, or a literal

A false literal becomes 0; rows with a true literal are removed. Such rows become clauses in two
steps. First each row gets a column e for each literal, and a column a for the instance of a derived
predicate that its literals replace (`select_undecided`):

    weight, piece, n, e0, a0, e1, a1, …        e = 0 for no literal, a = −1 for no instance

Then a row without replaced instances becomes one row of literals. Any other row becomes several
pieces: one for each literal of its instances, and one for its other literals (`select_pieces`).
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
from lapis.relational.query_plan import QueryPlan, Term
from lapis.stores.dialect import Dialect
from lapis.stores.grounding.stored_atoms import KnownTables, argument_columns, packed_code
from lapis.stores.sql import Integer, SqlWriter, TableLookup, upper_bound
from lapis.stores.store import StoredTable

MOST_SPLIT = 6  # literals of a template over partly known predicates that queries split
EVERYWHERE = PlanLimits(split_above=-1, most_split=MOST_SPLIT)


class InstanceTables(NamedTuple):
    """The instances of a derived predicate that occur in rows."""

    first: int  # number of the instance whose arguments all have code 0
    sizes: tuple[int, ...]
    decided: StoredTable | None  # atom, literal (0 if true), length; others are false
    members: StoredTable | None  # atom, low: literals of instances with `literal` = atom + 1


class KeptQuery(NamedTuple):
    """A query, and whether the atoms of its literals may be known."""

    query: GroundingQuery
    either: bool


class QueryRows(NamedTuple):
    """A query and its rows: a table, or a SELECT in parentheses."""

    kept: KeptQuery
    source: str


class WrittenLiterals(NamedTuple):
    """The literals of rows `r` as SQL, base predicates first, and the joins with `r`."""

    literals: tuple[str, ...]  # atom + 1, negative if negated, 0 for none
    references: tuple[Literal | None, ...]  # the literal if its predicate is derived
    joins: str
    conditions: tuple[str, ...]

    def select(self, columns: Sequence[str], source: str) -> str:
        """Write a SELECT of columns from rows `r` of a source."""
        where = " AND ".join(self.conditions) or "TRUE"
        return f"SELECT {', '.join(columns)} FROM {source} r{self.joins} WHERE {where}"


@dataclass(frozen=True)
class LiteralWriter:
    """Writes the rows and literals of queries."""

    world: KnownTables
    resolved: dict[str, InstanceTables]  # of derived predicates that are resolved already

    def plan(self, template: Template) -> list[KeptQuery]:
        """Plan the queries of a template. Raises TooLarge if the estimated work is too large."""
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
        """Write a SELECT of a query's rows: c0, c1, … and n."""
        return write_rows(query.plan, self.world.tables, self.world.scratch.store.dialect)

    def codes(
        self, terms: Sequence[SimpleTerm], types: Sequence[str], query: GroundingQuery
    ) -> list[str]:
        """Write the codes of terms: columns of the query's rows, or numbers."""
        keep = query.plan.keep
        return [
            f"r.c{keep.index(term.name)}"
            if isinstance(term, Variable)
            else str(self.world.domains[type_name].index[term.name])
            for term, type_name in zip(terms, types, strict=True)
        ]

    def argument_codes(self, literal: Literal, query: GroundingQuery) -> list[str]:
        """Write the codes of a literal's arguments."""
        return self.codes(literal.terms, self.world.types[literal.predicate], query)

    def number(self, literal: Literal, query: GroundingQuery) -> str:
        """Write the number of a literal's atom."""
        codes = self.argument_codes(literal, query)
        atoms = self.world.atoms.get(literal.predicate)
        if atoms is not None:
            return atoms.number(codes)
        instances = self.resolved[literal.predicate]
        return f"({instances.first} + {packed_code(codes, instances.sizes)})"

    def write(self, kept: KeptQuery) -> WrittenLiterals:
        """Write the literals of a query's rows."""
        derived = [each for each in kept.query.literals if each.predicate not in self.world.atoms]
        base = [each for each in kept.query.literals if each.predicate in self.world.atoms]
        literals, joins, conditions = [], "", []
        for place, literal in enumerate([*base, *derived]):
            number = self.number(literal, kept.query)
            signed = f"({number} + 1)" if literal.positive else f"(-1 - {number})"
            if place >= len(base):
                signed, join, condition = self._write_derived(literal, number, f"x{place}")
                joins += join
                conditions += condition
            elif kept.either:
                join, is_unknown = self._join_known(literal, kept.query, f"x{place}")
                joins += join
                signed = f"CASE WHEN {is_unknown} THEN {signed} ELSE 0 END" if join else signed
            literals.append(signed)
        references = (*[None] * len(base), *derived)
        return WrittenLiterals(tuple(literals), references, joins, tuple(conditions))

    def _write_derived(
        self, literal: Literal, number: str, alias: str
    ) -> tuple[str, str, list[str]]:
        """Write a derived literal, the join that finds it, and the test that it is not true."""
        table = self.resolved[literal.predicate].decided
        if table is None:  # all instances are false
            return "0", "", [] if literal.positive else ["FALSE"]
        join = f" LEFT JOIN {table} {alias} ON {alias}.atom = {number}"
        found = f"{alias}.literal"
        if literal.positive:
            return f"coalesce({found}, 0)", join, [f"coalesce({found}, 1) <> 0"]
        return f"(0 - {found})", join, [f"{found} IS NOT NULL"]

    def _join_known(self, literal: Literal, query: GroundingQuery, alias: str) -> tuple[str, str]:
        """Write a join that finds an atom, and the test that it is unknown; "" if all are."""
        atoms = self.world.atoms[literal.predicate]
        table = atoms.unknown
        if not atoms.sparse:
            table = atoms.false if literal.positive else atoms.true
        if table is None or (not atoms.sparse and not table.rows):
            return "", ""
        columns = argument_columns(len(atoms.sizes))
        codes = self.argument_codes(literal, query)
        matches = [f"{alias}.{name} = {code}" for name, code in zip(columns, codes, strict=False)]
        join = f" LEFT JOIN {table} {alias} ON {' AND '.join(matches) or 'TRUE'}"
        return join, f"{alias}.{columns[0]} IS {'NOT NULL' if atoms.sparse else 'NULL'}"


def has_derived_literals(query: GroundingQuery, world: KnownTables) -> bool:
    """Return whether a query has literals of derived predicates that are not evaluated."""
    return any(literal.predicate not in world.atoms for literal in query.literals)


def select_instances(rows: Sequence[QueryRows], predicate: str, writer: LiteralWriter) -> list[str]:
    """Write SELECTs of the instances of a derived predicate that occur in rows."""
    selects = []
    for (query, _), source in rows:
        for literal in query.literals:
            if literal.predicate == predicate:
                codes = writer.argument_codes(literal, query)
                columns = [f"CAST({code} AS INTEGER) AS c{i}" for i, code in enumerate(codes)]
                named = ", ".join(columns) or "CAST(1 AS INTEGER) AS n"
                selects.append(f"SELECT {named} FROM {source} r")
    return selects


def write_rows(plan: QueryPlan, tables: TableLookup, dialect: Dialect) -> str:
    """Write a SELECT of c0, c1, … for the kept variables, which every term lists, and n ≠ 0.

    Raises TooLarge if the dialect has no integers for the counts.
    """
    largest = sum(
        abs(term.coefficient) * term.multiplier
        * math.prod(upper_bound(part, plan, tables.world) for part in term.parts)
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
    """Write a SELECT of coefficient · multiplier · Π parts, row by row."""
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


def select_undecided(
    rows: QueryRows,
    written: WrittenLiterals,
    writer: LiteralWriter,
    in_place: Mapping[str, StoredTable],
) -> str:
    """Write the first step, with c0, c1, … in place of weight and piece."""
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
    written: WrittenLiterals, undecided: StoredTable, writer: LiteralWriter, width: int
) -> Iterator[str]:
    """Write the second step: weight, piece, n, l0, l1, … of `width` literals."""
    places = range(len(written.literals))
    zeros = ["CAST(0 AS BIGINT)"] * width
    # Every row needs a first literal. A second copy of it does not change the clause.
    first = f"coalesce({', '.join(f'nullif(e{i}, 0)' for i in places)})"
    literals = [first, *(f"e{i}" for i in places[1:]), *zeros[len(places) :]]
    named = ", ".join(f"{text} AS l{i}" for i, text in enumerate(literals))
    replaced = " OR ".join(f"a{i} >= 0" for i in places)
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


def is_empty_row(written: WrittenLiterals) -> str:
    """Write the test that a row of the first step has no literal."""
    return " AND ".join(f"e{i} = 0 AND a{i} < 0" for i in range(len(written.literals)))
