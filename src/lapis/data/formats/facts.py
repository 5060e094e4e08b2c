r"""Scan the text of a `.db` file: facts, function facts, type declarations, comments.

    text        = { fact | function | declaration | comment | white space }
    fact        = [ "!" | "?" ] predicate [ "(" [ constants ] ")" ]
    function    = [ "!" | "?" ] constant "=" name "(" [ constants ] ")"
                | [ "!" | "?" ] name "(" [ constants ] ")" "=" constant
    declaration = type "=" "{" [ constants ] "}"       constants may be  1, ..., 10
    constants   = constant { "," constant }
    constant    = bare | '"' characters '"'            escapes \" \\ \n \r \t
    comment     = "//" … end of line | "/*" … "*/"

A fact stands on one line and ends at white space; declarations and block comments may span
lines. A bare constant is any run of letters, digits and _ - ' . : of any case.
"""

from __future__ import annotations

import gzip
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from lapis.data.database import FALSE, TRUE, UNKNOWN
from lapis.errors import LapisError, Source
from lapis.language.names import expand_range, parse_constant
from lapis.runtime.text_files import read_error, read_source

# A file of facts or of a table, or a text of facts.
Origin = Path | Source

TABLE_SUFFIXES = (".csv", ".csv.gz", ".parquet")


def table_suffix(path: Path) -> str | None:
    """Return the suffix of a table file, None for other files."""
    return next((suffix for suffix in TABLE_SUFFIXES if path.name.endswith(suffix)), None)


def open_origin(origin: Origin) -> BinaryIO:
    """Open a text of facts for reading bytes, decompressed."""
    if isinstance(origin, Source):
        return io.BytesIO(origin.text.encode())
    try:
        if origin.suffix == ".gz":
            return gzip.open(origin, "rb")  # type: ignore[return-value]
        return origin.open("rb")
    except OSError as error:
        raise read_error(origin, error, "file or folder") from None


def source_text(origin: Origin) -> Source | None:
    """Read the text of an origin for error messages; None if it is a table."""
    if isinstance(origin, Source):
        return origin
    if table_suffix(origin):
        return None
    return read_source(origin)


SIGNS = {"": TRUE, "!": FALSE, "?": UNKNOWN}

# Characters that end a bare constant. Letters outside ASCII are allowed, spaces are not.
PUNCTUATION = '!"#$%&()*+,/;<=>?@[\\]^`{|}~'
SPACE = r"[ \t\r\f\v]*+"
NAME = r"[^\W\d][\w\-']*+"
BARE = rf"[^\s\x00-\x1f\x7f{re.escape(PUNCTUATION)}]++"
QUOTED = r'"(?:[^"\\\n]|\\["\\nrt])*+"'
CONSTANT = rf"(?:{BARE}|{QUOTED})"
CONSTANTS = rf"{CONSTANT}(?:{SPACE},{SPACE}{CONSTANT})*+"
ARGUMENTS = rf"\({SPACE}({CONSTANTS})?{SPACE}\)"
END = r"(?=[ \t\r\f\v\n]|\Z|/[/*])"
COMMENT = r"//[^\n]*+|/\*(?s:.*?)\*/"
GAP = rf"(?>[ \t\r\f\v\n]++|{COMMENT})*+"

FACT = re.compile(
    rf"[ \t\r\f\v\n]*+(([!?]?){SPACE}({NAME})"
    rf"(?:{SPACE}{ARGUMENTS}(?!{SPACE}=(?!>))|(?!{SPACE}[(=])){END})"
)
FUNCTION = re.compile(rf"([!?]?){SPACE}({CONSTANT}){SPACE}={SPACE}({NAME}){SPACE}{ARGUMENTS}{END}")
VALUED = re.compile(rf"([!?]?){SPACE}({NAME}){SPACE}{ARGUMENTS}{SPACE}={SPACE}({CONSTANT}){END}")
DECLARATION = re.compile(
    rf"({NAME}){SPACE}={SPACE}\{{({GAP}(?:{CONSTANT}{GAP}(?:,{GAP}{CONSTANT}{GAP})*+)?)\}}{END}"
)
OPEN_DECLARATION = re.compile(rf"{NAME}{SPACE}={SPACE}\{{[^}}]*+\Z")
ELEMENT = re.compile(rf"{COMMENT}|({CONSTANT})")
SKIP = re.compile(GAP)
PREDICATE = re.compile(NAME)

RANGE = re.compile(r"(-?[0-9]+)\.\.\.(-?[0-9]+)")  # without commas, one bare constant


class Fact(NamedTuple):
    truth: int  # TRUE, FALSE or UNKNOWN
    predicate: str
    constants: tuple[str, ...]  # of a function: arguments, then value
    function: bool
    start: int  # characters of the text, [start, end)
    end: int


class Declaration(NamedTuple):
    type: str
    constants: tuple[str, ...]
    start: int
    end: int


class Mistake(NamedTuple):
    """Something that is neither a fact nor a declaration begins here."""

    start: int
    after_fact: bool  # a fact or declaration stands before it on the same line


class Unfinished(NamedTuple):
    """The text ends inside a comment or declaration that begins here."""

    start: int


def scan_facts(text: str) -> Iterator[Fact | Declaration | Mistake | Unfinished]:
    """Yield the items of a text in order; after an error the scan continues with the next line."""
    position, size = 0, len(text)
    while True:
        if found := FACT.match(text, position):
            _, sign, predicate, arguments = found.groups()
            start, position = found.span(1)[0], found.end()
            constants = split_constants(arguments)
            yield Fact(SIGNS[sign], predicate, constants, False, start, position)
            continue
        before, position = position, SKIP.match(text, position).end()  # type: ignore[union-attr]
        if position >= size:
            return
        if position > before and FACT.match(text, position):
            continue
        if found := FUNCTION.match(text, position) or VALUED.match(text, position):
            sign, value, name, arguments = found.groups()
            if found.re is VALUED:
                name, arguments, value = value, name, arguments
            constants = (*split_constants(arguments), parse_constant(value))
            yield Fact(SIGNS[sign], name, constants, True, position, found.end())
            position = found.end()
        elif found := DECLARATION.match(text, position):
            try:
                declared = expand_ranges(found.group(2))
                yield Declaration(found.group(1), declared, position, found.end())
            except LapisError:
                yield Mistake(position, False)
            position = found.end()
        elif text.startswith("/*", position) or OPEN_DECLARATION.match(text, position):
            yield Unfinished(position)
            return
        else:
            yield Mistake(position, before > text.rfind("\n", 0, position) + 1)
            newline = text.find("\n", position)
            position = newline if newline >= 0 else size


def split_constants(arguments: str | None) -> tuple[str, ...]:
    if not arguments:
        return ()
    if '"' not in arguments:
        return tuple([constant.strip() for constant in arguments.split(",")])
    return tuple([parse_constant(found) for found in ELEMENT.findall(arguments)])


def expand_ranges(text: str) -> tuple[str, ...]:
    """Return the constants between braces, ranges `1, ..., 4` expanded; raise if one is wrong."""
    found = [element for element in ELEMENT.findall(text) if element]
    constants: dict[str, None] = {}
    for position, element in enumerate(found):
        if whole := RANGE.fullmatch(element):
            constants |= dict.fromkeys(expand_range(*whole.groups()))
        elif element == "...":
            around = found[max(position - 1, 0) : position + 2 : 2]
            first, last = (around[0], around[-1]) if len(around) > 1 else ("", "")
            constants |= dict.fromkeys(expand_range(first, last))
        else:
            constants[parse_constant(element)] = None
    return tuple(constants)
