"""Options are fields of frozen dataclasses, and their annotations say the rest.

    precision: Annotated[float, Range(0), Help("Standard error wanted.")] = 0.01

`options_of` reads a dataclass as a tuple of `Option`: the kind of value from the type, range, help
and flags from the annotation, the group of the help from the docstring of the class that declares
the field.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache
from inspect import get_annotations
from numbers import Integral, Real
from pathlib import Path
from types import NoneType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    Protocol,
    get_args,
    get_origin,
    get_type_hints,
    runtime_checkable,
)

from lapis.errors import LapisError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Kind = Literal[
    "flag", "integer", "number", "numbers", "word", "names", "texts", "path", "size", "prior",
    "pairs",
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
    "prior": "a prior",
    "pairs": "a dictionary",
}

LAST = {"Limits": 1, "Engine": 2, "Data": 3, "Output": 4}  # groups that end the help


@dataclass(frozen=True, slots=True)
class Help:
    """What an option is for."""

    text: str


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers that an option may hold."""

    low: float = -math.inf
    high: float = math.inf
    above: bool = False  # whether `low` itself is out of range


@dataclass(frozen=True, slots=True)
class Flag:
    """A further spelling on the command line; `alone` in place of the keyword's."""

    spelling: str
    alone: bool = False


@dataclass(frozen=True, slots=True)
class MethodOf:
    """The option names a method of this task."""

    task: str


@dataclass(frozen=True, slots=True)
class NumberPairs:
    """The option is typed as NAME=NUMBER, once for each pair."""

    noun: str  # what a pair is, for errors
    example: str
    metavar: str = "NAME=X"


@dataclass(frozen=True, slots=True)
class Bytes:
    """The whole number is typed as a size: 8GB."""


@dataclass(frozen=True, slots=True)
class CommandLineOnly:
    """The option is no keyword of a function."""


@runtime_checkable
class PriorLike(Protocol):
    """A prior on weights, which a folder above defines."""

    @property
    def kind(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Option:
    """A field of a dataclass of options."""

    name: str
    kind: Kind
    type: Any  # of the value
    default: object
    group: str  # of the help
    help: str = ""
    range: Range = Range()
    choices: tuple[str, ...] = ()  # of a word, unless it names a method
    task: str | None = None  # whose methods the option names
    pairs: NumberPairs | None = None
    flags: tuple[str, ...] = ()
    is_keyword: bool = True

    @property
    def flag(self) -> str:
        """The spelling that messages use."""
        return self.flags[-1]

    @property
    def wanted(self) -> str:
        """The values that are allowed, in words."""
        if self.choices:
            return " or ".join(self.choices)
        noun, (low, high) = NOUNS[self.kind], (self.range.low, self.range.high)
        if high < math.inf:
            return f"{noun} between {low:g} and {high:g}"
        if low > -math.inf:
            return f"{noun} {'above' if self.range.above else 'of at least'} {low:g}"
        return noun

    def check(self, value: object, label: str | None = None) -> None:
        """Refuse a value of another kind or out of range; `label` names the option."""
        if value is None and self.default is None:
            return
        if not (is_of_kind(self.kind, value) and self.is_in_range(value)):
            raise LapisError(
                f"{label or self.name} must be {self.wanted}, not {value!r}",
                code="option-value",
                hint=f"as in {self.name}=[{value!r}]"
                if self.kind == "names" and isinstance(value, str)
                else None,
            )

    def is_in_range(self, value: object) -> bool:
        if self.choices:
            return value in self.choices
        if isinstance(value, tuple) and self.kind == "numbers":
            return len(value) > 0 and all(map(self.is_in_range, value))
        if not isinstance(value, Real):
            return True
        number = float(value)
        within = self.range.low <= number <= self.range.high  # False for NaN
        return within and not (self.range.above and number == self.range.low)


def is_of_kind(kind: Kind, value: object) -> bool:
    match kind:
        case "flag":
            return isinstance(value, bool)
        case "integer" | "size":
            return isinstance(value, Integral) and not isinstance(value, bool)
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
            return isinstance(value, str | PriorLike)
        case "pairs":
            return isinstance(value, Mapping)


def is_texts(value: object) -> bool:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and all(isinstance(text, str) for text in value)
    )


@cache
def options_of(owner: type[DataclassInstance]) -> tuple[Option, ...]:
    """The options that a dataclass declares: fields with a `Help`, grouped.

    >>> from lapis.registry.options import JobOptions
    >>> (option,) = options_of(JobOptions)
    >>> option.flag, option.wanted
    ('--jobs', 'a whole number of at least 1')
    """
    hints = get_type_hints(owner, include_extras=True)
    defaults = {each.name: each.default for each in fields(owner)}
    found = [
        read_option(
            name,
            hints[name],
            None if defaults[name] is MISSING else defaults[name],
            title_of(declaring),
        )
        for name, declaring in list_fields(owner).items()
        if any(isinstance(note, Help) for note in get_args(hints[name]))
    ]
    return tuple(sorted(found, key=place_in_help))


def place_in_help(option: Option) -> tuple[int, str, bool]:
    """The query first, then the command's own groups, then what most commands share."""
    place = -1 if option.group == "Query" else LAST.get(option.group, 0)
    return place, option.group, option.task is None


def list_fields(owner: type) -> dict[str, type]:
    """Fields with the class that declares each first: those of the bases, in their order, first."""
    found: dict[str, type] = {}
    for base in owner.__bases__:
        for name, declaring in list_fields(base).items():
            found.setdefault(name, declaring)
    for name in get_annotations(owner):
        found.setdefault(name, owner)
    return found


def title_of(owner: type) -> str:
    return (owner.__doc__ or "").partition("\n")[0].rstrip(".")


def read_option(name: str, hint: Any, default: object, group: str) -> Option:
    """An option from the annotation of its field."""
    own, *notes = get_args(hint)
    value = without_none(own)
    by_type = {type(note): note for note in notes}
    flags = [note.spelling for note in notes if isinstance(note, Flag)]
    if not any(isinstance(note, Flag) and note.alone for note in notes):
        # A switch that is on by default is typed to turn it off.
        flags.append(("--no-" if default is True else "--") + name.replace("_", "-"))
        flags.sort(key=lambda flag: flag.startswith("--"))
    task = by_type[MethodOf].task if MethodOf in by_type else None
    kind: Kind = "size" if Bytes in by_type else kind_of(value)
    return Option(
        name,
        kind,
        own,
        default,
        group,
        by_type[Help].text,
        by_type.get(Range, Range()),
        get_args(value) if get_origin(value) is Literal and task is None else (),
        task,
        by_type.get(NumberPairs),
        tuple(flags),
        CommandLineOnly not in by_type,
    )


def without_none(hint: Any) -> Any:
    """A type without None among its alternatives."""
    left = [each for each in get_args(hint) if each is not NoneType]
    if NoneType not in get_args(hint):
        return hint
    return left[0] if len(left) == 1 else frozenset(left)


def kind_of(hint: Any) -> Kind:
    """How values of a type are typed and checked."""
    several = hint if isinstance(hint, frozenset) else frozenset(get_args(hint))
    if get_origin(hint) is Literal:
        return "word"
    if several == {str, Sequence[str]}:
        return "texts"
    if several == {str, Path}:
        return "path"
    if several == {str, PriorLike}:
        return "prior"
    kinds: list[tuple[Any, Kind]] = [
        (bool, "flag"), (int, "integer"), (float, "number"), (str, "word"), (Path, "path"),
        (tuple[float, ...], "numbers"), (Sequence[str], "names"),
        (Mapping[str, float], "pairs"), (Mapping[str, int], "pairs"),
    ]  # fmt: skip
    return next(kind for own, kind in kinds if own == hint)


def keywords(options: DataclassInstance) -> dict[str, Any]:
    """The options that are keywords of a function, by name."""
    return {o.name: getattr(options, o.name) for o in options_of(type(options)) if o.is_keyword}
