"""Split text into tokens, and tokens into statements.

A statement ends with its line, unless a bracket is open, the line ends with a connective or a
comma, or the next line starts with a connective. Each statement is parsed by itself, so all errors
of a file are reported, not only the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from lapis.errors import LapisError, Source, Span


class Token(NamedTuple):
    kind: str  # NAME, NUMBER, STRING, or the name of a symbol below
    text: str
    start: int
    end: int


# Spellings of the connectives: Alchemy's, those of WFOMC files, and the mathematical ones.
SYMBOLS = {
    "<=>": "IFF", "<->": "IFF", "⇔": "IFF", "↔": "IFF",
    "=>": "IMPLIES", "->": "IMPLIES", "⇒": "IMPLIES", "→": "IMPLIES",
    "^": "AND", "&": "AND", "∧": "AND",
    "|": "BAR", "∨": "OR",
    "!=": "NE", "=/=": "NE", "≠": "NE", "<=": "LE", "=<": "LE", "≤": "LE", ">=": "GE", "≥": "GE",
    "=": "EQ", "==": "EQ", "<": "LT", ">": "GT",
    "!": "NOT", "~": "NOT", "¬": "NOT",
    "∃": "EXISTS", "∀": "FORALL", "\\exists": "EXISTS", "\\forall": "FORALL",
    "...": "ELLIPSIS", ".": "PERIOD", ",": "COMMA", ":": "COLON", "?": "QUESTION", "@": "AT",
    "(": "LPAR", ")": "RPAR", "[": "LSQB", "]": "RSQB", "{": "LBRACE", "}": "RBRACE",
    "+": "PLUS", "-": "MINUS", "*": "STAR", "/": "SLASH",
}  # fmt: skip

KEYWORDS = {"v": "OR", "_": "UNDERSCORE"}
QUANTIFIERS = {"exist": "EXISTS", "exists": "EXISTS", "forall": "FORALL"}

STRING = r'"(?:[^"\\\n]|\\.)*"'
# Possessive: `12ab` and `2020_01` are one word, not a number and a word after it.
NUMBER = r"(?:\d++(?:\.\d++)?+|\.\d++)(?:[eE][+-]?\d++)?+(?!\w)"
NAME = r"[^\W\d]\w*'*|\d+\w*'*"

TOKEN = re.compile(
    rf"""
    [^\S\n]*+(?:
      (?P<COMMENT>//[^\n]*|/\*.*?\*/)
    | (?P<OPEN>/\*)
    | (?P<NEWLINE>\n)
    | (?P<INCLUDE>\#include\b)
    | (?P<HASH>\#[^\n]*)
    | (?P<STRING>{STRING})
    | (?P<NUMBER>{NUMBER})
    | (?P<NAME>{NAME})
    | (?P<SYMBOL>"""
    + "|".join(re.escape(symbol) for symbol in sorted(SYMBOLS, key=len, reverse=True))
    + r""")
    | (?P<OTHER>.)
    | (?P<END>\Z))
    """,
    re.VERBOSE | re.DOTALL,
)

# Lines of pracmln about the next formula.
DIRECTIVE = re.compile(r"#(?:fixweight\s*(?://.*)?$|unique\s*\{)", re.IGNORECASE)
REFUSED = {
    "#fuzzy": (
        "fuzzy truth values are not supported: an atom is true or false",
        'a fact that is uncertain has a probability: --soft-evidence "Tall(Anna)=0.7"',
    ),
    "#adaptivemlndependency": ("adaptive dependencies are not supported", None),
    "#group": ("groups of formulas are not supported", "give each formula its weight"),
}

OPENING = {"LPAR", "LSQB", "LBRACE"}
CLOSING = {"RPAR", "RSQB", "RBRACE"}
CONTINUING = {"AND", "OR", "IMPLIES", "IFF", "COMMA", "EQ", "NE", "LT", "GT", "LE", "GE"}
DANGLING = CONTINUING | {"NOT", "BAR"}


def tokenize(source: Source, *, hash_comments: bool = False) -> Iterator[Token | LapisError]:
    """Yield the tokens of a text, newlines included, and errors in their places."""
    for match in TOKEN.finditer(source.text):
        kind = match.lastgroup or "OTHER"
        if kind in ("COMMENT", "END") or (kind == "HASH" and hash_comments):
            continue
        piece = match[kind]
        start, end = match.span(kind)
        if kind == "NAME":
            yield Token(token_kind(piece), piece, start, end)
        elif kind == "SYMBOL":
            yield Token(SYMBOLS[piece], piece, start, end)
        elif kind == "HASH" and DIRECTIVE.match(piece):
            yield Token("DIRECTIVE", piece, start, end)
        elif kind in ("OTHER", "HASH", "OPEN"):
            yield describe_bad_token(piece, Span(source, start, end))
        else:
            yield Token(kind, piece, start, end)


def token_kind(name: str) -> str:
    """Return the kind of a name: quantifiers in any case, `v` and `_` in lower case only."""
    return KEYWORDS.get(name) or QUANTIFIERS.get(name.lower(), "NAME")


def describe_bad_token(piece: str, span: Span) -> LapisError:
    if piece == '"':
        return LapisError("this string has no closing quote", code="open-string", span=span)
    if piece == "/*":
        return LapisError("this comment has no closing */", code="open-comment", span=span)
    word = re.split(r"\W", piece.lower()[1:], maxsplit=1)[0] if piece.startswith("#") else ""
    if "#" + word in REFUSED:
        message, hint = REFUSED["#" + word]
        return LapisError(message, code="unsupported-directive", span=span, hint=hint)
    if piece.startswith("#"):
        return LapisError(
            f"unknown directive {piece.split()[0]!r}",
            code="unknown-directive",
            span=span,
            hint='the only directive is #include "file"; comments start with //',
        )
    return LapisError(f"unexpected character {piece!r}", code="unexpected-character", span=span)


def split_statements(
    tokens: Sequence[Token | LapisError],
) -> Iterator[list[Token | LapisError]]:
    """Group tokens into statements.

    If a bracket is never closed, the statement ends with its first line, so that the rest of the
    file is still read.
    """
    tokens = [
        token
        for token, before in zip(tokens, [None, *tokens], strict=False)
        if before is None or not (kind_of(token) == kind_of(before) == "NEWLINE")
    ]
    closed = closed_starts(tokens)
    first = 0
    while first < len(tokens):
        end = statement_end(tokens, first) if closed[first] else None
        if end is None:
            end = line_end(tokens, first)
        statement = [
            t for t in tokens[first:end] if isinstance(t, LapisError) or t.kind != "NEWLINE"
        ]
        if statement:
            yield statement
        first = end + 1


def closed_starts(tokens: Sequence[Token | LapisError]) -> list[bool]:
    """Return for each token whether the brackets from it on are closed at the end of some line."""
    kinds = [kind_of(token) for token in tokens]
    depths = [0, *accumulate((kind in OPENING) - (kind in CLOSING) for kind in kinds)]
    lowest, found = depths[-1], [False] * len(kinds)
    for place in range(len(kinds) - 1, -1, -1):
        if kinds[place] == "NEWLINE":
            lowest = min(lowest, depths[place])
        found[place] = lowest <= depths[place]
    return found


def kind_of(token: Token | LapisError) -> str:
    return token.kind if isinstance(token, Token) else "ERROR"


def statement_end(tokens: Sequence[Token | LapisError], first: int) -> int | None:
    """Return the index of the newline that closes the statement, None if brackets are open."""
    depth, last = 0, "NEWLINE"
    for index in range(first, len(tokens)):
        kind = kind_of(tokens[index])
        if kind != "NEWLINE":
            depth += (kind in OPENING) - (kind in CLOSING)
            last = kind
        elif depth <= 0 and last not in DANGLING and not continues_statement(tokens, index):
            return index
    return len(tokens) if depth <= 0 else None


def continues_statement(tokens: Sequence[Token | LapisError], index: int) -> bool:
    """Return whether the line after a newline continues the statement."""
    following: list[str] = []
    while index < len(tokens) and len(following) < 3:
        kind = kind_of(tokens[index])
        if kind != "NEWLINE":
            following.append(kind)
        index += 1
    if following in (["BAR", "NAME", "BAR"], ["BAR", "NAME", "COMMA"], ["OR", "EQ", "LBRACE"]):
        return False  # a cardinality constraint |P| = 1; the constants of a type v = {A}
    return bool(following) and (following[0] in CONTINUING or following[0] == "BAR")


def line_end(tokens: Sequence[Token | LapisError], first: int) -> int:
    for index in range(first, len(tokens)):
        if kind_of(tokens[index]) == "NEWLINE":
            return index
    return len(tokens)
