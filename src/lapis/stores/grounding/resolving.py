"""Rows whose literals other tables decide, as clauses.

First, for each row of a query, a column e for what each literal turned out to be, and a column a
for the instance of a derived predicate that stands in place of it:

    weight, piece, n, e0, a0, e1, a1, …        e = 0 for nothing, a = −1 for no instance

Then rows of literals: one that has no instance in place is whole, another is as many pieces as its
instances have literals, and a piece of the literals beside them. One with none at all is no clause.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lapis.stores.grounding.literals import LiteralWriter, QueryRows, Written
from lapis.stores.store import Table

REPLACED = "a{0} >= 0"
EMPTY = "e{0} = 0 AND a{0} < 0"


def select_undecided(
    rows: QueryRows, written: Written, writer: LiteralWriter, in_place: Mapping[str, Table]
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
    written: Written, undecided: Table, writer: LiteralWriter, width: int
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
