"""What an option is: its kind, range, default, help and flag, and which values it refuses."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from lapis.errors import LapisError

if TYPE_CHECKING:
    import numpy as np
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")

Kind = Literal[
    "flag", "integer", "number", "numbers", "word", "names", "texts", "path", "size", "seed",
    "prior", "beliefs", "settings",
]  # fmt: skip

NOUNS: Mapping[Kind, str] = {
    "flag": "True or False",
    "integer": "a whole number",
    "number": "a number",
    "numbers": "numbers",
    "word": "a word",
    "names": "a list of names",
    "texts": "a text or a list of texts",
    "path": "a path",
    "size": "a whole number of bytes",
    "seed": "a whole number or a numpy Generator",
    "prior": "a prior",
    "beliefs": "a dictionary",
    "settings": "a dictionary",
}


@dataclass(frozen=True, slots=True)
class Option:
    """One thing that can be said to a command, a function or a method."""

    name: str  # the keyword
    kind: Kind
    help: str
    default: object = None  # None: left open, or chosen from the rest
    flag: str = ""  # on the command line, if not as the name; "-q --query" has a short one too
    low: float = -math.inf
    high: float = math.inf
    above: bool = False  # whether `low` itself is out of range
    words: tuple[str, ...] = ()  # that a word may be; empty where methods say
    is_keyword: bool = True  # False: for the command line only

    @property
    def flags(self) -> list[str]:
        return (self.flag or "--" + self.name.replace("_", "-")).split()

    @property
    def wanted(self) -> str:
        """What a value must be, in words.

        >>> Option("rate", "number", "", low=0, above=True).wanted
        'a number above 0'
        """
        if self.words:
            return " or ".join(self.words)
        noun = NOUNS[self.kind]
        if self.high < math.inf:
            return f"{noun} between {self.low:g} and {self.high:g}"
        if self.low > -math.inf:
            return f"{noun} {'above' if self.above else 'of at least'} {self.low:g}"
        return noun

    def check(self, value: object, spelling: str | None = None) -> None:
        """Refuse a value of another kind or out of range.

        >>> Option("jobs", "integer", "", low=1).check(0)
        Traceback (most recent call last):
        lapis.errors.LapisError: jobs must be a whole number of at least 1, not 0
        """
        if value is None and self.default is None:
            return
        if not (self.is_of_kind(value) and self.is_in_range(value)):
            raise LapisError(
                f"{spelling or self.name} must be {self.wanted}, not {value!r}",
                code="option-value",
                hint=f"as in {self.name}=[{value!r}]"
                if self.kind == "names" and isinstance(value, str)
                else None,
            )

    def is_of_kind(self, value: object) -> bool:
        match self.kind:
            case "flag":
                return isinstance(value, bool)
            case "integer" | "size":
                return isinstance(value, Integral) and not isinstance(value, bool)
            case "seed":
                whole = isinstance(value, Integral) and not isinstance(value, bool)
                return whole or hasattr(value, "integers")
            case "number":
                return isinstance(value, Real) and not isinstance(value, bool)
            case "numbers":
                return isinstance(value, tuple) and all(isinstance(one, Real) for one in value)
            case "word":
                return isinstance(value, str)
            case "names":
                return is_texts(value)
            case "texts":
                return isinstance(value, str) or is_texts(value)
            case "path":
                return isinstance(value, str | os.PathLike)
            case "prior":
                return True  # `parse_prior` knows more
            case "beliefs" | "settings":
                return isinstance(value, Mapping)

    def is_in_range(self, value: object) -> bool:
        if self.words:
            return value in self.words
        if isinstance(value, tuple) and self.kind == "numbers":
            return len(value) > 0 and all(map(self.is_in_range, value))
        if not isinstance(value, Real):
            return True
        number = float(value)
        within = self.low <= number <= self.high  # False for NaN
        return within and not (self.above and number == self.low)


def options_of(kind: type[T], given: Mapping[str, Any], **others: object) -> T:
    """A dataclass of options, from the keywords of a function that people call and from others."""
    own = {each.name: given[each.name] for each in fields(kind) if each.name in given}
    return kind(**{**own, "seed": seed_of(given["random_state"]), **others})


def seed_of(random_state: int | np.random.Generator) -> int:
    """A whole number from what a seed may be."""
    drawn = random_state.integers(1 << 31) if hasattr(random_state, "integers") else random_state
    return int(drawn)


def is_texts(value: object) -> bool:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and all(isinstance(text, str) for text in value)
    )


@dataclass(frozen=True, slots=True)
class Argument:
    """What a command is given by its place."""

    name: str  # the keyword of the function behind the command
    metavar: str
    help: str
    many: bool = False
    is_required: bool = True
