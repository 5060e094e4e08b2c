"""What a query's rows leave of its literals, as SQL.

A kept literal is the number of its atom, which arithmetic on the row's codes gives. Two kinds need
a look at another table, by an outer join each:

    either       a literal that the query leaves kept or dropped: is its atom known?
    reference    an instance of a derived predicate: true, false, or the literal that it is

A literal that turns out false is 0, and a row in which one turns out true is no row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lapis.grounding.templates import (
    Fate,
    PlanLimits,
    Query,
    Template,
    either_fate,
    literal_fates,
    plan_template,
)
from lapis.language.syntax import Variable
from lapis.logic.clauses import Literal, SimpleTerm
from lapis.relational.interpretation import refuse_work
from lapis.stores.grounding.atoms import columns_of, spell
from lapis.stores.grounding.listing import write_rows
from lapis.stores.grounding.world import KnownTables
from lapis.stores.store import Table

MOST_SPLIT = 6  # literals of one template over predicates that are partly known
EVERYWHERE = PlanLimits(split_above=-1, most_split=MOST_SPLIT)


class InstanceTables(NamedTuple):
    """The instances of a derived predicate that rows refer to."""

    first: int  # number of the one whose arguments all have code 0
    sizes: tuple[int, ...]
    decided: Table | None  # atom, literal (0 if true), length; who is missing is false
    members: Table | None  # atom, low: the literals of those that are `literal` = atom + 1


class KeptQuery(NamedTuple):
    """A query, and whether its kept literals may be known after all."""

    query: Query
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
            if len(literal_fates(literal, self.world, split=True)) > 1
        ]

        def choose(literals: Sequence[Literal]) -> list[list[Fate]]:
            fates, left = [], MOST_SPLIT
            for literal in literals:
                options = literal_fates(literal, self.world, split=True)
                left -= len(options) > 1
                split = len(options) == 1 or left >= 0
                fates.append(options if split else [either_fate(literal, self.world)])
            return fates

        queries = list(plan_template(template, self.world, EVERYWHERE, choose))
        for query in queries:
            refuse_work(query.plan.cost)
        either = len(splittable) > MOST_SPLIT
        return [KeptQuery(query, either) for query in queries]

    def rows(self, query: Query) -> str:
        """A SELECT of a query's rows: c0, c1, … and n."""
        return write_rows(query.plan, self.world.tables, self.world.store.dialect)

    def codes(self, terms: Sequence[SimpleTerm], types: Sequence[str], query: Query) -> list[str]:
        """The codes of terms: a column of the query's rows, or a number."""
        keep = query.plan.keep
        return [
            f"r.c{keep.index(term.name)}"
            if isinstance(term, Variable)
            else str(self.world.domains[type_name].index[term.name])
            for term, type_name in zip(terms, types, strict=True)
        ]

    def reference_codes(self, literal: Literal, query: Query) -> list[str]:
        return self.codes(literal.terms, self.world.types[literal.predicate], query)

    def number(self, literal: Literal, query: Query) -> str:
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

    def _look_up(self, literal: Literal, query: Query, label: str) -> tuple[str, str]:
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


def refers(query: Query, world: KnownTables) -> bool:
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
