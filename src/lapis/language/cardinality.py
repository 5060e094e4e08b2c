"""Hard constraints on numbers of true atoms, as in |Boss| - 2 |Works| = 3."""

from __future__ import annotations

import re

from lapis.errors import LapisError, Span
from lapis.language.formulas import COMPARISONS
from lapis.language.lexer import Token
from lapis.language.syntax import Cardinality

# [+-] [2 [*]] |P|, a space after each word; a sign stands before every part but the first.
PART = re.compile(r"(?:^|([+-]) )(?:(\d+) (?:\* )?)?\| (\S+) \| ")
BOUND = re.compile(r"(- )?(\d+) ")


def is_cardinality(tokens: list[Token]) -> bool:
    kinds = [token.kind for token in tokens]
    start = ("NUMBER", "PLUS", "MINUS", "STAR")
    first = next((i for i, kind in enumerate(kinds) if kind not in start), 0)
    return kinds[first : first + 3] == ["BAR", "NAME", "BAR"]


def parse_cardinality(tokens: list[Token], span: Span) -> Cardinality:
    """2 |P| - |Q| = 3"""
    place = next((i for i, token in enumerate(tokens) if token.kind in COMPARISONS), len(tokens))
    sides = ["".join(f"{t.text} " for t in side) for side in (tokens[:place], tokens[place + 1 :])]
    parts: list[tuple[int, str]] = []
    start = 0
    while found := PART.match(sides[0], start):
        sign, size, name = found.groups()
        parts.append((int(size or 1) * (-1 if sign == "-" else 1), name))
        start = found.end()
    bound = BOUND.fullmatch(sides[1])
    if not parts or start < len(sides[0]) or bound is None:
        raise LapisError(
            "a cardinality constraint reads like |P| - 2 |Q| = 3", code="cardinality", span=span
        )
    number = int(bound[2]) * (-1 if bound[1] else 1)
    return Cardinality(tuple(parts), COMPARISONS[tokens[place].kind], number, span)
