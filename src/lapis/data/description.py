"""A database in a table: what each predicate ranges over and how much is said of it."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import prod
from typing import NamedTuple

from lapis.data.database import Database, Relation

HEADINGS = ("predicate", "types", "true", "false", "unknown", "density")
NUM_TEXT_COLUMNS = 2  # aligned to the left; the others are numbers


class Row(NamedTuple):
    predicate: str
    types: tuple[str, ...]
    true: int
    false: int
    unknown: int
    density: float | None  # true / Π |domain|, None if there is no ground atom

    def cells(self) -> list[str]:
        density = "-" if self.density is None else f"{self.density:.3g}"
        types = ", ".join(self.types) or "-"
        return [self.predicate, types, *map(str, (self.true, self.false, self.unknown)), density]


@dataclass(frozen=True)
class Description:
    """Prints as a text table; a notebook shows it as HTML."""

    database: Database

    @property
    def rows(self) -> list[Row]:
        return [self._row(relation) for relation in self.database.relations.values()]

    def _row(self, relation: Relation) -> Row:
        num_atoms = prod(len(self.database.domains[name]) for name in relation.types)
        return Row(
            relation.predicate,
            relation.types,
            len(relation.true),
            len(relation.false),
            len(relation.unknown),
            len(relation.true) / num_atoms if num_atoms else None,
        )

    def __str__(self) -> str:
        lines = [list(HEADINGS), *(row.cells() for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if column < NUM_TEXT_COLUMNS else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{heading}</th>" for heading in HEADINGS)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row.cells()) + "</tr>"
            for row in self.rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
