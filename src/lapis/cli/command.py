"""A command: a name, a dataclass of options, arguments by place, and a function.

    @command("infer", InferOptions, MODEL, WORLDS, bar="sampling")
    def infer(model, worlds, options, progress): ...

The function is called by keyword: the arguments by their names (the databases read), the options,
and `progress` where there is a bar. The result is shown, as JSON where that was asked for. The
first line of the docstring is the help.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lapis.progress import Progress
from lapis.registry.check import check_options

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from lapis.data.database import Database
    from lapis.language.model import Model
    from lapis.results.result import Result


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument that is given by its place."""

    name: str  # the keyword of the function behind the command
    metavar: str
    help: str
    many: bool = False
    is_required: bool = True
    choices: tuple[str, ...] = ()  # of a word; a path otherwise


MODEL = Argument("model", "MODEL", "A Markov logic file (.mln).")
FIELD = Argument("field", "FIELD", "A recursive random field (.rrf).")
WORLDS = Argument(
    "worlds", "DATA", "Facts: .db, .db.gz, or a folder of CSV or Parquet files. Several files are "
    "several worlds, unless --merge.", many=True, is_required=False,
)  # fmt: skip
ANY_MODEL = Argument(
    "model", "MODEL", "A Markov logic file (.mln) or a network (.bif, .uai, .tbn)."
)
ANY_DATA = Argument(
    "data", "DATA", "Facts for a Markov logic file; a .evid file for a network.", many=True,
    is_required=False,
)  # fmt: skip
CIRCUIT = Argument(
    "circuit", "CIRCUIT", "A circuit (.npz or .ac), or a network with decision trees (.tbn)."
)
ROWS = Argument("table", "TABLE", "Rows: .csv, with or without a header, .gz, .parquet or .npy.")

# What each group of commands is for; a name in two words is of a group.
GROUPS = {
    "field": "Recursive random fields: every connective and quantifier soft.",
    "circuit": "Arithmetic circuits: learned, compiled, approximated, queried.",
}


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the command line."""

    name: str
    options: type[DataclassInstance]
    arguments: tuple[Argument, ...]
    function: Callable[..., Result | None]
    bar: str | None = None  # title of the progress bar

    @property
    def help(self) -> str:
        return (self.function.__doc__ or "").partition("\n")[0]

    def run(self, places: dict[str, Any], options: DataclassInstance) -> None:
        """Check the options, read the data, call the function, show the result."""
        check_options(options, as_flags=True)
        given = dict(places)
        if WORLDS in self.arguments:
            given["worlds"] = read_worlds(given["worlds"], getattr(options, "merge", False))
        if getattr(options, "cnf", False):
            given["model"] = read_clauses(given["model"], quiet=self.name == "check")
        if self.bar is None:
            result = self.function(**given, options=options)
        else:
            from lapis.cli.progress import progress_bar

            with progress_bar(self.bar) as progress:
                result = self.function(**given, options=options, progress=progress)
        if result is not None:
            from lapis.cli.render import present

            present(result, getattr(options, "as_json", False))

    def run_or_stop(self, places: dict[str, Any], options: DataclassInstance) -> None:
        """Run; Ctrl-C ends in a word and the shell's usual code."""
        try:
            self.run(places, options)
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
            sys.exit(130)


COMMANDS: dict[str, Command] = {}


def command(
    name: str, options: type[DataclassInstance], *arguments: Argument, bar: str | None = None
) -> Callable[[Callable[..., Result | None]], Callable[..., Result | None]]:
    """Make a command of a function."""

    def decorate(function: Callable[..., Result | None]) -> Callable[..., Result | None]:
        COMMANDS[name] = Command(name, options, arguments, function, bar)
        return function

    return decorate


def read_clauses(path: Path, quiet: bool) -> Model:
    """The model in a file as clauses; its warnings are announced, unless `quiet`."""
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
