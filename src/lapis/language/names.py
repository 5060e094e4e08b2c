"""How names of predicates and constants are written, in models and in data alike."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

# A constant is written bare if no reader could take it for a variable, a quantifier or punctuation.
BARE_CONSTANT = re.compile(r"(?!(?i:exists?|forall)\Z)[A-Z0-9][A-Za-z0-9_]*|-?[0-9]+(\.[0-9]+)?")

ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
UNESCAPES = {written[1]: character for character, written in ESCAPES.items()}

_NEEDS_ESCAPE = re.compile(r'[\\"\n\r\t]')
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def format_constant(name: str) -> str:
    r"""A constant as it is written: bare where that is clear, otherwise quoted.

    >>> print(format_constant("Ann"), format_constant("-3.5"), format_constant('a "b"'))
    Ann -3.5 "a \"b\""
    """
    return name if BARE_CONSTANT.fullmatch(name) else quote_text(name)


def read_number(name: str) -> float:
    """The number that a constant's name is, NaN where it is none, as every engine has it.

    Python alone takes 1_000 and digits of other scripts for numbers.

    >>> read_number("-1.5e3"), read_number("1_000"), read_number("Ann")
    (-1500.0, nan, nan)
    """
    try:
        return float(name) if name.isascii() and "_" not in name else float("nan")
    except ValueError:
        return float("nan")


def quote_text(text: str) -> str:
    """A text as a string literal."""
    return '"' + _NEEDS_ESCAPE.sub(lambda found: ESCAPES[found.group()], text) + '"'


def parse_constant(text: str) -> str:
    """The constant that a bare or quoted text stands for; inverse of `format_constant`."""
    if not text.startswith('"'):
        return text
    if "\\" not in text:
        return text[1:-1]
    return _ESCAPED.sub(lambda found: UNESCAPES.get(found.group(1), found.group(1)), text[1:-1])


def format_atom(predicate: str, constants: Sequence[str], function: bool = False) -> str:
    """A ground atom as it is written; a function's value is the last of the constants.

    >>> format_atom("Friends", ["Ann", "Bob"])
    'Friends(Ann,Bob)'
    >>> format_atom("MotherOf", ["Ann", "Eve"], function=True)
    'Eve = MotherOf(Ann)'
    >>> format_atom("Rain", [])
    'Rain'
    """
    pattern = atom_pattern(predicate, len(constants), function)
    return pattern.text % tuple(format_constant(constants[place]) for place in pattern.order)


class AtomPattern(NamedTuple):
    """How the atoms of a predicate are written."""

    text: str  # a %s for each constant
    order: tuple[int, ...]  # the argument that each %s stands for


def atom_pattern(predicate: str, arity: int, function: bool = False) -> AtomPattern:
    """How atoms of a predicate are written; a function's value is its last argument.

    >>> atom_pattern("MotherOf", 2, function=True)
    AtomPattern(text='%s = MotherOf(%s)', order=(1, 0))
    """
    name, places = predicate.replace("%", "%%"), range(arity)
    if function:
        arguments = ",".join(["%s"] * (arity - 1))
        return AtomPattern(f"%s = {name}({arguments})", (arity - 1, *places[:-1]))
    return AtomPattern(f"{name}({','.join(['%s'] * arity)})" if arity else name, tuple(places))
