"""Format and parse names of predicates and constants, the same in models and in data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from lapis.errors import LapisError

# A constant is written without quotes unless it looks like a variable, quantifier or punctuation.
BARE_CONSTANT = re.compile(r"(?!(?i:exists?|forall)\Z)[A-Z0-9][A-Za-z0-9_]*|-?[0-9]+(\.[0-9]+)?")

ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
UNESCAPES = {written[1]: character for character, written in ESCAPES.items()}

_NEEDS_ESCAPE = re.compile(r'[\\"\n\r\t]')
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def format_constant(name: str) -> str:
    r"""Format a constant, in quotes if it needs them.

    >>> print(format_constant("Ann"), format_constant("-3.5"), format_constant('a "b"'))
    Ann -3.5 "a \"b\""
    """
    return name if BARE_CONSTANT.fullmatch(name) else quote_text(name)


def read_number(name: str) -> float:
    """Return the number that a constant denotes, NaN if it is none.

    1_000 and digits of other scripts are no numbers, as in SQL engines.

    >>> read_number("-1.5e3"), read_number("1_000"), read_number("Ann")
    (-1500.0, nan, nan)
    """
    try:
        return float(name) if name.isascii() and "_" not in name else float("nan")
    except ValueError:
        return float("nan")


def format_number(value: float) -> str:
    """Format a number as a constant, the same for equal numbers.

    >>> format_number(0.50), format_number(3.0), format_number(-1e-9)
    ('0.5', '3', '-1e-09')
    """
    text = repr(value + 0.0)  # -0.0 + 0.0 is 0.0
    return text.removesuffix(".0")


INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
WHOLE = re.compile(r"[0-9]{1,18}")
MAX_RANGE = 10_000_000


def is_whole(text: str) -> bool:
    """Whether a text is a whole number of at most 18 digits.

    >>> is_whole("12"), is_whole("²"), is_whole("9" * 5000)
    (True, False, False)
    """
    return WHOLE.fullmatch(text) is not None


def expand_range(first: str, last: str) -> list[str]:
    """Return the integers of a range `first, ..., last`; raise LapisError if it has none.

    >>> expand_range("-1", "2")
    ['-1', '0', '1', '2']
    """
    if not (INTEGER.fullmatch(first) and INTEGER.fullmatch(last)):
        problem = "a range needs two whole numbers, as in {1, ..., 10}"
    elif int(last) < int(first):
        problem = f"this range is empty: {first} is more than {last}"
    elif int(last) - int(first) >= MAX_RANGE:
        size = int(last) - int(first) + 1
        problem = f"this range has {size:,} constants; at most {MAX_RANGE:,} are possible"
    else:
        return [str(value) for value in range(int(first), int(last) + 1)]
    raise LapisError(problem, code="range")


def quote_text(text: str) -> str:
    """Return a string literal of a text."""
    return '"' + _NEEDS_ESCAPE.sub(lambda found: ESCAPES[found.group()], text) + '"'


def parse_constant(text: str) -> str:
    """Return the constant of a bare or quoted text: the inverse of `format_constant`."""
    if not text.startswith('"'):
        return text
    if "\\" not in text:
        return text[1:-1]
    return _ESCAPED.sub(lambda found: UNESCAPES.get(found.group(1), found.group(1)), text[1:-1])


def format_atom(predicate: str, constants: Sequence[str], function: bool = False) -> str:
    """Format a ground atom; a function's value is the last of the constants.

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
    """A template for the atoms of a predicate."""

    text: str  # a %s for each constant
    order: tuple[int, ...]  # the argument that each %s stands for


def atom_pattern(predicate: str, arity: int, function: bool = False) -> AtomPattern:
    """Return the template for atoms of a predicate; a function's value is its last argument.

    >>> atom_pattern("MotherOf", 2, function=True)
    AtomPattern(text='%s = MotherOf(%s)', order=(1, 0))
    """
    name, places = predicate.replace("%", "%%"), range(arity)
    if function:
        arguments = ",".join(["%s"] * (arity - 1))
        return AtomPattern(f"%s = {name}({arguments})", (arity - 1, *places[:-1]))
    return AtomPattern(f"{name}({','.join(['%s'] * arity)})" if arity else name, tuple(places))


def format_state(variable: str, states: Sequence[str]) -> str:
    """Format a state of a variable; one without states is true.

    >>> format_state("dysp", ["yes"]), format_state("path(1,2)", [])
    ('dysp=yes', 'path(1,2)')
    """
    return "=".join((variable, *states))


def lower_first_letter(name: str) -> str:
    """Return a name that starts with a lower-case letter, as variables and types do."""
    found = name[0].lower() + name[1:]
    return found if found[0].islower() else f"t{found}"
