"""What was typed, read from the table of options where it is plain.

Typer reads anything and explains what is wrong with it, but to load it, to build a command's
flags and to convert what they hold takes as long as a small job. So words that are plainly right
are read here: flags of the table written out, numbers of digits, each flag once unless it takes
several. Everything else, `--help` and every mistake, is left to typer (`app.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lapis.option import Argument, Kind, Option
from lapis.options import COMMANDS, GROUPS, arguments_of

SEVERAL: tuple[Kind, ...] = ("names", "texts", "beliefs", "settings")
WHOLE = re.compile("[0-9]{1,18}")
DECIMAL = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?(e-?[0-9]{1,3})?")


def find_command(words: Sequence[str]) -> str | None:
    """The command that words begin with, if it is one: "infer", "circuit learn".

    >>> find_command(["circuit", "learn", "rows.csv"]), find_command(["--help"])
    ('circuit learn', None)
    """
    name = " ".join(words[: 2 if words and words[0] in GROUPS else 1])
    return name if name in COMMANDS else None


def read_arguments(command: str, words: Sequence[str]) -> dict[str, Any] | None:
    """What typer would hand to the command, by name; None where it has to look.

    >>> read_arguments("demo", ["--json"]), read_arguments("demo", ["--jsn"])
    ({'as_json': True}, None)
    """
    options = {flag: option for option in COMMANDS[command] for flag in option.flags}
    typed = {option.name: initial(option) for option in COMMANDS[command]}
    given: set[str] = set()
    several: dict[str, list[Any]] = {}
    places: list[str] = []
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            places.append(word)
            continue
        flag, mark, text = word.partition("=") if word.startswith("--") else (word, "", "")
        option = options.get(flag)
        if option is None or (option.name in given and option.kind not in SEVERAL):
            return None
        given.add(option.name)
        if option.kind == "flag":
            if mark:
                return None
            typed[option.name] = True
            continue
        value = convert(option.kind, text if mark else next(rest, ""))
        if value is None:
            return None
        if option.kind in SEVERAL:
            several.setdefault(option.name, []).append(value)
        else:
            typed[option.name] = value
    placed = place(arguments_of(command), places)
    return None if placed is None else {**placed, **typed, **several}


def initial(option: Option) -> object:
    """What typer gives where nothing was typed."""
    if option.kind == "flag":
        return False
    return None if option.kind in (*SEVERAL, "numbers") else option.default


def convert(kind: Kind, text: str) -> Any:
    """The value of a flag; None where typer has to look."""
    if not text or text.startswith("-"):
        return None
    match kind:
        case "integer" | "seed":
            return int(text) if WHOLE.fullmatch(text) else None
        case "number":
            return float(text) if DECIMAL.fullmatch(text) else None
        case "path":
            return Path(text)
        case _:
            return text


def place(arguments: Sequence[Argument], words: Sequence[str]) -> dict[str, Any] | None:
    """The words by the names of their places, of which the last may take several."""
    placed: dict[str, Any] = {}
    left = [Path(word) for word in words if word]
    for argument in arguments:
        if argument.many:
            placed[argument.name], left = left or None, []
        elif left:
            placed[argument.name] = left.pop(0)
        else:
            return None
    return None if left or "" in words else placed
