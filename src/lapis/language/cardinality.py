"""Hard constraints on numbers of true atoms, as in |Boss| - 2 |Works| = 3."""

from __future__ import annotations

from lapis.errors import LapisError, Span
from lapis.language.formulas import ASCII_OPERATOR
from lapis.language.lexer import Token
from lapis.language.syntax import Cardinality


def is_cardinality(tokens: list[Token]) -> bool:
    kinds = [token.kind for token in tokens]
    first = next((i for i, kind in enumerate(kinds) if kind not in ("NUMBER", "MINUS")), 0)
    return kinds[first : first + 3] == ["BAR", "NAME", "BAR"]


def parse_cardinality(tokens: list[Token], span: Span) -> Cardinality:
    """2 |P| - |Q| = 3"""
    parts: list[tuple[int, str]] = []
    sign, size, index = 1, 1, 0
    while index < len(tokens) and tokens[index].kind not in ASCII_OPERATOR:
        token = tokens[index]
        following = [t.kind for t in tokens[index : index + 3]]
        if following == ["BAR", "NAME", "BAR"]:
            parts.append((sign * size, tokens[index + 1].text))
            sign, size, index = 1, 1, index + 3
            continue
        if token.kind in ("PLUS", "MINUS"):
            sign = 1 if token.kind == "PLUS" else -1
        elif token.kind == "NUMBER" and token.text.isdecimal():
            size = int(token.text)
        elif token.kind != "STAR":
            break
        index += 1
    rest = tokens[index:]
    shape = [token.kind for token in rest]
    compares = len(shape) == 2 and shape[0] in ASCII_OPERATOR and rest[1].text.isdecimal()
    if not parts or not compares:
        raise LapisError(
            "a cardinality constraint reads like |P| - 2 |Q| = 3", code="cardinality", span=span
        )
    return Cardinality(tuple(parts), ASCII_OPERATOR[rest[0].kind], int(rest[1].text), span)
