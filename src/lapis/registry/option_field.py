"""Options as fields of frozen dataclasses.

    precision: float = option(0.01, "Standard error wanted.", low=0)

`option` declares a field: its default, the help text and the range. `options_of` reads the fields
of a dataclass as `Option` values. The annotation of a field gives the kind of its value. The
docstring of the class that declares it gives its group in the help.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from functools import cache, reduce
from inspect import get_annotations
from numbers import Integral, Real
from operator import or_
from pathlib import Path
from types import NoneType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    Protocol,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    runtime_checkable,
)

from lapis.errors import LapisError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
LAST_GROUPS = {"Limits": 1, "Engine": 2, "Data": 3, "Output": 4}  # at the end of the help


@dataclass(frozen=True, slots=True)
class NumberPairs:
    """How pairs NAME=NUMBER are written; the option is repeated for each pair."""

    noun: str  # a pair, in errors
    example: str
    metavar: str = "NAME=X"


@runtime_checkable
class PriorLike(Protocol):
    """A prior on weights (`learning/objectives/priors.py`)."""

    @property
    def kind(self) -> str: ...


def is_integer(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_real(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def is_texts(value: object) -> bool:
    """Whether a value is a list of texts, not one text."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return False
    return all(isinstance(text, str) for text in value)


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

IS_OF_KIND: Mapping[Kind, Callable[[object], bool]] = {
    "flag": lambda value: isinstance(value, bool),
    "integer": is_integer,
    "number": is_real,
    "numbers": lambda value: isinstance(value, tuple) and all(isinstance(v, Real) for v in value),
    "word": lambda value: isinstance(value, str),
    "names": is_texts,
    "texts": lambda value: isinstance(value, str) or is_texts(value),
    "path": lambda value: isinstance(value, str | os.PathLike),
    "size": is_integer,
    "prior": lambda value: isinstance(value, str | PriorLike),
    "pairs": lambda value: isinstance(value, Mapping),
}

KIND_OF_TYPE: Mapping[object, Kind] = {
    bool: "flag",
    int: "integer",
    float: "number",
    tuple[float, ...]: "numbers",
    str: "word",
    Sequence[str]: "names",
    str | Sequence[str]: "texts",
    Path: "path",
    str | Path: "path",
    str | PriorLike: "prior",
    Mapping[str, float]: "pairs",
    Mapping[str, int]: "pairs",
}


def option(
    default: T,
    help: str,
    *,
    low: float = -math.inf,
    above: float | None = None,
    high: float = math.inf,
    flag: str | None = None,
    only_flag: str | None = None,
    task: str | None = None,
    pairs: NumberPairs | None = None,
    is_size: bool = False,
    cli_only: bool = False,
    is_output: bool = False,
) -> T:
    """Declare a field of a dataclass of options.

    Numbers are at least `low`, or greater than `above`, and at most `high`. `flag` is a further
    spelling on the command line, `only_flag` replaces the keyword's. The option may name a method
    of `task`. A size is written as in 8GB. A `cli_only` option is no keyword of a function.
    An output is a path that the command writes: it is checked before the work.
    """
    described = Option(
        help=help,
        low=low if above is None else above,
        excludes_low=above is not None,
        high=high,
        flags=tuple(spelling for spelling in (flag, only_flag) if spelling is not None),
        has_keyword_flag=only_flag is None,
        task=task,
        pairs=pairs,
        is_size=is_size,
        cli_only=cli_only,
        is_output=is_output,
    )
    found: T = field(default=default, metadata={"option": described})
    return found


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a command and of the function behind it."""

    help: str
    low: float
    excludes_low: bool
    high: float
    flags: tuple[str, ...]
    has_keyword_flag: bool
    task: str | None  # whose methods the option names
    pairs: NumberPairs | None
    is_size: bool
    cli_only: bool  # no keyword of a function
    is_output: bool  # a path, or a target of answers, that the command writes
    # Read from the field:
    name: str = ""
    kind: Kind = "word"
    type: object = None  # of the value
    default: object = None
    group: str = ""  # of the help
    choices: tuple[str, ...] = ()  # of a word, unless it names a method

    @property
    def flag(self) -> str:
        """The spelling that messages use."""
        return self.flags[-1]

    @property
    def wanted(self) -> str:
        """The values that are allowed, in words."""
        if self.choices:
            return " or ".join(self.choices)
        noun = NOUNS[self.kind]
        if self.high < math.inf:
            return f"{noun} between {self.low:g} and {self.high:g}"
        if self.low > -math.inf:
            return f"{noun} {'above' if self.excludes_low else 'of at least'} {self.low:g}"
        return noun

    def check(self, value: object, label: str | None = None) -> None:
        """Raise if a value is of another kind or out of range; `label` names the option."""
        if value is None and self.default is None:
            return
        if not (IS_OF_KIND[self.kind](value) and self.is_in_range(value)):
            needs_list = self.kind == "names" and isinstance(value, str)
            raise LapisError(
                f"{label or self.name} must be {self.wanted}, not {value!r}",
                code="option-value",
                hint=f"as in {self.name}=[{value!r}]" if needs_list else None,
            )

    def is_in_range(self, value: object) -> bool:
        if self.choices:
            return value in self.choices
        if isinstance(value, tuple) and self.kind == "numbers":
            return len(value) > 0 and all(map(self.is_in_range, value))
        if not isinstance(value, Real):
            return True
        number = float(value)
        within = self.low <= number <= self.high  # False for NaN
        return within and not (self.excludes_low and number == self.low)


@cache
def options_of(owner: type[DataclassInstance]) -> tuple[Option, ...]:
    """Return the options that a dataclass declares, grouped as in the help.

    >>> from lapis.registry.options import JobOptions
    >>> (option,) = options_of(JobOptions)
    >>> option.flag, option.wanted
    ('--jobs', 'a whole number of at least 1')
    """
    types = get_type_hints(owner)
    declared = {each.name: each for each in fields(owner) if "option" in each.metadata}
    found = [
        read_option(declared[name], types[name], title)
        for name, title in find_titles(owner).items()
        if name in declared
    ]
    return tuple(sorted(found, key=order_in_help))


def order_in_help(option: Option) -> tuple[int, str, bool]:
    """Return the place: the query first, the command's own groups, then the shared ones."""
    place = -1 if option.group == "Query" else LAST_GROUPS.get(option.group, 0)
    return place, option.group, option.task is None


def find_titles(owner: type) -> dict[str, str]:
    """Return the title of the class that first declares each field; fields of bases come first."""
    found: dict[str, str] = {}
    for base in owner.__bases__:
        for name, title in find_titles(base).items():
            found.setdefault(name, title)
    own = (owner.__doc__ or "").partition("\n")[0].rstrip(".")
    for name in get_annotations(owner):
        found.setdefault(name, own)
    return found


def read_option(declared: Field[Any], hint: object, group: str) -> Option:
    """Complete an option by the name, type and default of its field."""
    described: Option = declared.metadata["option"]
    value = without_none(hint)
    is_choice = get_origin(value) is Literal
    flags = list(described.flags)
    if described.has_keyword_flag:
        # A switch that is on by default is typed to turn it off.
        start = "--no-" if declared.default is True else "--"
        flags.append(start + declared.name.replace("_", "-"))
        flags.sort(key=lambda flag: flag.startswith("--"))
    return replace(
        described,
        flags=tuple(flags),
        name=declared.name,
        kind="size" if described.is_size else "word" if is_choice else KIND_OF_TYPE[value],
        type=hint,
        default=declared.default,
        group=group,
        choices=get_args(value) if is_choice and described.task is None else (),
    )


def without_none(hint: object) -> object:
    """Remove None from the alternatives of a type."""
    if NoneType not in get_args(hint):
        return hint
    return reduce(or_, [each for each in get_args(hint) if each is not NoneType])


def keywords(options: DataclassInstance) -> dict[str, Any]:
    """Return the options that are keywords of a function, by name."""
    return {o.name: getattr(options, o.name) for o in options_of(type(options)) if not o.cli_only}
