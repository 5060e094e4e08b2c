"""Constants that are one number written in two ways: they are different, and rarely meant to be."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from lapis.data.database import Database
from lapis.errors import Warning
from lapis.language.model import Model
from lapis.language.names import format_constant

# Numbers that may be written in another way: 01, 1.0, +1, 1e3. One search reads all names of a
# type; a name of several lines may be found in parts, which are then no names.
ODD_NUMBER = re.compile(r"^(?:[+-]?(?:0\d+|\d*\.\d*|\d+(?:\.\d*)?[eE][+-]?\d+)|\+\d+|-0)$", re.M)


def same_numbers(model: Model, databases: Sequence[Database]) -> list[Warning]:
    """A warning for each type in which a number is two constants.

    >>> from lapis.language import parse_model
    >>> model = parse_model("n = {1, 2}\\nP(n)")
    >>> print(same_numbers(model, [Database.parse("P(1.0) P(02) P(3)")])[0].message)
    1.0 and 1 of type 'n' are one number, but two constants (2 numbers are written in two ways)
    """
    found: list[Warning] = []
    for type_name, named in model.types.items():
        pairs = [
            pair for data in databases for pair in _pairs(_names(model, data, type_name), named)
        ]
        if pairs:
            one, other = map(format_constant, pairs[0])
            more = f" ({len(pairs)} numbers are written in two ways)" if len(pairs) > 1 else ""
            found.append(
                Warning(
                    f"{one} and {other} of type {type_name!r} are one number, but two "
                    f"constants{more}",
                    "same-number",
                    hint="constants are compared as texts: write a number in one way",
                )
            )
    return found


def _names(model: Model, database: Database, type_name: str) -> Iterable[Sequence[str]]:
    """The constants that a database gives to a type, column by column."""
    yield database.declared.get(type_name, ())
    for name, relation in database.relations.items():
        predicate = model.predicates[name]
        for own, column in zip(predicate.types, relation.types, strict=False):
            if own == type_name:
                yield database.domains[column].constants


def _pairs(columns: Iterable[Sequence[str]], named: Sequence[str]) -> list[tuple[str, str]]:
    columns = [named, *columns]
    odd = dict.fromkeys(n for names in columns for n in ODD_NUMBER.findall("\n".join(names)))
    if not odd:
        return []
    known = {name for names in columns for name in names}
    seen: dict[float, str] = {}
    pairs: list[tuple[str, str]] = []
    for name in odd:
        try:
            value = float(name)
        except ValueError:
            continue
        plain = str(int(value)) if value.is_integer() else repr(value)
        other = seen.setdefault(value, plain if plain in known else name)
        if name in known and other != name:
            pairs.append((name, other))
    return pairs
