"""The rows of a plan as one SELECT: what `answers.list_rows` gives, left on the store."""

from __future__ import annotations

import math

from lapis.errors import TooLarge
from lapis.relational.plan import Plan, Term
from lapis.stores.dialect import Dialect
from lapis.stores.sql import Integer, SqlWriter, TableLookup, bound


def write_rows(plan: Plan, tables: TableLookup, dialect: Dialect) -> str:
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


def _select_term(plan: Plan, term: Term, writer: SqlWriter, integer: str) -> str:
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
