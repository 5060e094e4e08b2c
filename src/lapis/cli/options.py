"""Commands from the table of options: a command says its name, and gets what was typed, checked.

`takes("infer")` makes a command of a function, which is called with values as the keywords of
`lapis.api` want them. What was typed is read by `arguments.py`, or by typer (`app.py`) where it is
not plainly right; both know the flags from `COMMANDS`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lapis.errors import LapisError
from lapis.methods import check_options
from lapis.option import Option
from lapis.options import COMMANDS, WORLDS, arguments_of
from lapis.progress import Progress

if TYPE_CHECKING:
    from lapis.data.database import Database
    from lapis.language.model import Model
    from lapis.results.result import Result

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def takes(
    command: str, bar: str | None = None
) -> Callable[[Callable[..., Result | None]], Callable[..., None]]:
    """The function as a command of that name, with a flag for each option in the table.

    It is called with keywords: what stands by its place, `worlds` read, every option, and with a
    `bar` the `progress` that moves it; it prints nothing while there is a bar. What it returns is
    shown, as JSON where that was asked. Ctrl-C ends a command with a word and the shell's usual
    code.
    """
    options, arguments = COMMANDS[command], arguments_of(command)

    def decorate(function: Callable[..., Result | None]) -> Callable[..., None]:
        def run(**typed: Any) -> None:
            values = {option.name: parse_flag(option, typed[option.name]) for option in options}
            check_options(command, values, as_flags=True)
            given = {argument.name: typed[argument.name] for argument in arguments}
            if WORLDS in arguments:
                given["worlds"] = read_worlds(given["worlds"], bool(values.pop("merge", False)))
            if values.pop("cnf", False):
                given["model"] = read_clauses(given["model"], quiet=command == "check")
            as_json = bool(values.get("as_json"))
            if "as_json" not in function.__annotations__:
                values.pop("as_json", None)
            if bar is None:
                result = function(**given, **values)
            else:
                from lapis.cli.progress import progress_bar

                with progress_bar(bar) as progress:
                    result = function(**given, **values, progress=progress)
            if result is not None:
                from lapis.cli.render import present

                present(result, as_json)

        @wraps(function)
        def run_or_stop(**typed: Any) -> None:
            try:
                run(**typed)
            except KeyboardInterrupt:
                print("stopped", file=sys.stderr)
                sys.exit(130)

        run_or_stop.__name__ = command
        return run_or_stop

    return decorate


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
            return parse_pairs(option, typed, 'soft evidence, as in "Smokes(Anna)=0.7"')
        case "settings":
            what = "an option, as in damping=2"
            if option.name == "sizes":
                what = "a type with its number of constants, as in person=30000"
            return parse_pairs(option, typed, what)
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


def parse_pairs(option: Option, texts: Sequence[str], what: str) -> dict[str, float]:
    """Names and numbers from texts like "damping=2"; whole numbers keep all their digits."""
    found: dict[str, float] = {}
    for text in texts:
        name, _, value = (part.strip() for part in text.rpartition("="))
        try:
            number = int(value) if value.lstrip("+-").isdecimal() else float(value)
        except ValueError:
            wanted, _, example = what.partition(", ")
            message = f"{text!r} is not {wanted}"
            raise LapisError(message, code="option-value", hint=example) from None
        if name in found:
            raise LapisError(f"{option.flags[-1]} is given twice for {name}", code="option-value")
        whole = isinstance(number, float) and number.is_integer() and "." not in value
        found[name] = int(number) if whole else number
    return found


def parse_size(text: str) -> int:
    """Bytes in a text like 8GB, 500 MB or 1000000.

    >>> parse_size("2GB"), parse_size("1.5 M")
    (2147483648, 1572864)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?\s*", text, re.IGNORECASE)
    if match is None:
        raise LapisError(f"{text!r} is not a size", code="size", hint="as in 8GB or 500MB")
    return int(float(match.group(1)) * UNITS[match.group(2).upper()])


def split(texts: Sequence[str]) -> list[str]:
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def read_clauses(path: Path, quiet: bool) -> Model:
    """The model in a file as clauses; what is doubtful about it is told here, unless `quiet`."""
    from lapis.errors import announce
    from lapis.language.resolution.resolve import read_model
    from lapis.logic.clausal import clausal
    from lapis.problem.task import first_warnings

    model = read_model(path)
    announce([] if quiet else first_warnings(model))
    return clausal(model)


def read_worlds(paths: Sequence[Path] | None, merge: bool) -> list[Database]:
    """The databases named on the command line."""
    if not paths:
        return []
    from lapis.cli.progress import progress_bar
    from lapis.data.database import Database

    if merge:
        return [Database.read(*paths)]
    worlds: list[Database] = []
    with progress_bar("reading") as progress:
        for path in paths:
            if progress is not None:
                progress(Progress("reading", len(worlds), len(paths), text=str(path)))
            worlds.append(Database.read(path))
    return worlds
