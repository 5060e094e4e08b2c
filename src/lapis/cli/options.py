"""Flags from the table of options: a command says its name, and gets what was typed, checked.

`takes("infer")` gives a function the signature that typer reads, made of `COMMANDS["infer"]`; the
function itself is called with values as the keywords of `lapis.api` want them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from lapis.cli.progress import progress_bar
from lapis.cli.sizes import parse_size
from lapis.data.database import Database
from lapis.errors import LapisError
from lapis.methods import (
    OPTION_OF_TASK,
    PARTS_OF_COMMAND,
    TASKS_OF_COMMAND,
    check_options,
    methods_of,
)
from lapis.options import COMMANDS, WORLDS, Argument, Kind, Option, arguments_of
from lapis.progress import Progress

# What typer reads, and how the value is called in the help.
TYPES: dict[Kind, tuple[Any, str | None]] = {
    "flag": (bool, None),
    "integer": (int, "N"),
    "number": (float, "X"),
    "numbers": (str, "X,Y"),
    "word": (str, "WORD"),
    "names": (list[str], "P,Q"),
    "texts": (list[str], "P,Q"),
    "path": (Path, "FILE"),
    "size": (str, "SIZE"),
    "seed": (int, "N"),
    "prior": (str, "PRIOR"),
    "beliefs": (list[str], "ATOM=P"),
    "settings": (list[str], "NAME=X"),
}


def takes(command: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The function as a command of that name, with a flag for each option in the table.

    It is called with keywords: what stands by its place, `worlds` read, and every option.
    """
    options, arguments = COMMANDS[command], arguments_of(command)

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def run(**typed: Any) -> None:
            values = {option.name: parse_flag(option, typed[option.name]) for option in options}
            check_options(command, values, as_flags=True)
            given = {argument.name: typed[argument.name] for argument in arguments}
            if WORLDS in arguments:
                given["worlds"] = read_worlds(given["worlds"], bool(values.pop("merge", False)))
            function(**given, **values)

        parameters = [*map(place_of, arguments), *(flag_of(command, option) for option in options)]
        run.__name__ = command
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def place_of(argument: Argument) -> inspect.Parameter:
    """A parameter that typer makes a positional argument of."""
    own: Any = list[Path] if argument.many else Path
    return inspect.Parameter(
        argument.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if argument.is_required else None,
        annotation=Annotated[
            own if argument.is_required else own | None,
            typer.Argument(metavar=argument.metavar, help=argument.help),
        ],
    )


def flag_of(command: str, option: Option) -> inspect.Parameter:
    """A parameter that typer makes a flag of."""
    own, metavar = TYPES[option.kind]
    default = option.default
    if option.kind == "flag":
        default = False  # a flag that is on by default is typed to switch it off
    elif option.kind == "numbers" and isinstance(default, tuple):
        default = ",".join(f"{number:g}" for number in default)
    elif default in (None, ()):
        own, default = own | None, None
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[
            own, typer.Option(*option.flags, help=help_of(command, option), metavar=metavar)
        ],
    )


def help_of(command: str, option: Option) -> str:
    """What an option is for; where it names a method, which there are."""
    parts = PARTS_OF_COMMAND.get(command, (command,))
    tasks = [task for part in parts for task in TASKS_OF_COMMAND.get(part, ())]
    for task in tasks:
        if OPTION_OF_TASK[task] == option.name:
            return f"{option.help}: {', '.join(methods_of(task))}."
    return option.help


def parse_flag(option: Option, typed: Any) -> Any:
    """What was typed, as the keyword wants it."""
    if option.kind == "flag":
        return typed is not option.default if option.default is True else typed
    if not typed:
        return option.default if typed is None or typed == [] else typed
    match option.kind:
        case "names":
            return split(typed)
        case "numbers":
            return parse_numbers(option, typed)
        case "size":
            return parse_size(typed)
        case "beliefs":
            return dict(
                parse_pair(text, 'soft evidence, as in "Smokes(Anna)=0.7"') for text in typed
            )
        case "settings":
            what = "an option, as in damping=2"
            if option.name == "sizes":
                what = "a type with its number of constants, as in person=30000"
            return dict(parse_pair(text, what) for text in typed)
        case _:
            return typed


def parse_numbers(option: Option, text: str) -> tuple[float, ...]:
    """Numbers from a text like "1,0.5"."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise LapisError(
            f"{option.flags[-1]} must be {option.wanted}, not {text!r}",
            code="option-value",
            hint="as in 1,0.5",
        ) from None


def parse_pair(text: str, what: str) -> tuple[str, float]:
    """A name and a number from a text like "damping=2"."""
    name, _, value = text.rpartition("=")
    try:
        number = float(value)
    except ValueError:
        wanted, _, example = what.partition(", ")
        raise LapisError(f"{text!r} is not {wanted}", code="option-value", hint=example) from None
    return name.strip(), int(number) if number.is_integer() and "." not in value else number


def split(texts: Sequence[str]) -> list[str]:
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def read_worlds(paths: Sequence[Path] | None, merge: bool) -> list[Database]:
    """The databases named on the command line."""
    if not paths:
        return []
    if merge:
        return [Database.read(*paths)]
    worlds: list[Database] = []
    with progress_bar("reading") as progress:
        for path in paths:
            if progress is not None:
                progress(Progress("reading", len(worlds), len(paths), text=str(path)))
            worlds.append(Database.read(path))
    return worlds
