"""Commands: a name, a dataclass of options, arguments by place and a function; and their parser.

    @command("infer", InferOptions, MODEL, WORLDS, bar="sampling")
    def infer(model, worlds, options, progress): ...

The function is called by keyword: the arguments by name (databases are read first), the options,
and `progress` if the command has a progress bar. The result is shown as tables or as JSON. The
first line of the docstring is the help.

argparse parses the words. The parser of one command is built from its dataclass. The parser makes
values of the right type. `registry.method_table` checks them, as it checks the keywords of the API.
Usage errors end with exit code 2 and a suggestion. Progress bars are shown on terminals only.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from lapis.errors import LapisError, did_you_mean
from lapis.registry.method_table import check_options, methods_of
from lapis.registry.option_field import Kind, Option, options_of
from lapis.runtime.limits import limit_work, limits_suspended
from lapis.runtime.progress import Progress
from lapis.runtime.progress_bars import shown_progress

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from lapis.data.database import Database
    from lapis.language.model import Model
    from lapis.results.result import Result


ABOUT = "Markov logic: weighted rules, relational data, exact answers where possible."
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
SEVERAL: tuple[Kind, ...] = ("names", "texts", "pairs")  # options that may be repeated
METAVARS: dict[Kind, str] = {
    "integer": "N", "number": "X", "numbers": "X,Y", "word": "WORD", "names": "P,Q", "texts": "P,Q",
    "path": "FILE", "size": "SIZE", "prior": "PRIOR",
}  # fmt: skip
MAX_WIDTH = 100  # columns of the help


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument that is given by its place."""

    name: str  # the keyword of the function behind the command
    metavar: str
    help: str
    many: bool = False
    is_required: bool = True
    choices: tuple[str, ...] = ()  # of a word
    is_word: bool = False  # a path otherwise


MODEL = Argument("model", "MODEL", "A Markov logic file (.mln).")
OPEN_MODEL = Argument(
    "model",
    "MODEL",
    "Markov logic (.mln), a network (.bif, .uai, .tbn) or a ProbLog program (.pl).",
)
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

# The help of each group of commands; the commands of a group have names of two words.
GROUPS = {
    "field": "Recursive random fields: every connective and quantifier soft.",
    "circuit": "Arithmetic circuits: learned, compiled, approximated, queried.",
    "recipe": "From tables to an answer, with a model and data to run again.",
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
        from lapis.cli.render import present

        check_options(options, as_flags=True)
        check_outputs(options)
        with limit_work(getattr(options, "time_limit", None), getattr(options, "max_memory", None)):
            result = self.find_result(places, options)
            if result is not None:
                with limits_suspended():
                    present(result, getattr(options, "as_json", False))

    def find_result(self, places: dict[str, Any], options: DataclassInstance) -> Result | None:
        """Read the data and call the function."""
        given = dict(places)
        if WORLDS in self.arguments:
            given["worlds"] = read_databases(given["worlds"], getattr(options, "merge", False))
        if getattr(options, "cnf", False):
            given["model"] = read_clauses(given["model"], quiet=self.name == "check")
        if self.bar is None:
            return self.function(**given, options=options)
        with shown_progress(True, self.bar) as progress:
            return self.function(**given, options=options, progress=progress)

    def run_or_stop(self, places: dict[str, Any], options: DataclassInstance) -> None:
        """Run the command; Ctrl-C ends with the message "stopped" and exit code 130."""
        try:
            self.run(places, options)
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
            sys.exit(130)


COMMANDS: dict[str, Command] = {}


def command(
    name: str, options: type[DataclassInstance], *arguments: Argument, bar: str | None = None
) -> Callable[[Callable[..., Result | None]], Callable[..., Result | None]]:
    """Register a function as a command."""

    def decorate(function: Callable[..., Result | None]) -> Callable[..., Result | None]:
        COMMANDS[name] = Command(name, options, arguments, function, bar)
        return function

    return decorate


def check_outputs(options: DataclassInstance) -> None:
    """Raise if a file cannot be written that the command would write after its work."""
    from lapis.data.atomic_write import require_writable

    for option in options_of(type(options)):
        value = getattr(options, option.name) if option.is_output else None
        if isinstance(value, str):
            from lapis.stores.components.component_answers import check_target

            check_target(value)
        else:
            require_writable(value)


@contextmanager
def shown_if_unsaved(result: Result, as_json: bool) -> Iterator[None]:
    """Show a result if the block cannot write its file, so that it is not lost."""
    from lapis.cli.render import present

    try:
        yield
    except LapisError as error:
        if error.code == "unwritable":
            present(result, as_json)
        raise


def read_clauses(path: Path, quiet: bool) -> Model:
    """Read a model and split it into clauses; announce its warnings unless `quiet`."""
    from lapis.errors import issue_warnings
    from lapis.logic.clausal import clausal
    from lapis.model_files import read
    from lapis.problem.task import first_warnings

    model = read(path)
    issue_warnings([] if quiet else first_warnings(model))
    return clausal(model)


def read_databases(paths: Sequence[Path] | None, merge: bool) -> Sequence[Database | Path] | None:
    """Read the databases named on the command line; None if there are none."""
    if not paths:
        return None
    from lapis.data.database import Database

    observed = [path for path in paths if path.name.lower().endswith(".evid")]
    if observed:  # of a network
        return list(paths)
    if merge:
        return [Database.read(*paths)]
    worlds: list[Database] = []
    with shown_progress(True, "reading") as progress:
        for path in paths:
            if progress is not None:
                progress(Progress("reading", len(worlds), len(paths), text=str(path)))
            worlds.append(Database.read(path))
    return worlds


def run(words: Sequence[str]) -> None:
    """Run the command named by the words of a command line."""
    if words and words[0] == "--version":
        from lapis import __version__

        print(f"lapis {__version__}")
        return
    command = find_command(words)
    if command is None:
        show_commands(words)
        return
    command.run_or_stop(*parse_words(command, words[len(command.name.split()) :]))


def find_command(words: Sequence[str]) -> Command | None:
    """Return the command that the words begin with: "infer", "circuit learn"."""
    return COMMANDS.get(" ".join(words[: 2 if words and words[0] in GROUPS else 1]))


def show_commands(words: Sequence[str]) -> None:
    """Print help on the commands; refuse an unknown name."""
    group = words[0] if words and words[0] in GROUPS else ""
    rest = list(words[1:] if group else words)
    if rest and rest[0] not in ("-h", "--help"):
        known = [name.removeprefix(group).strip() for name in list_names(group)]
        usage_error(f"lapis {group}".strip(), f"no command {rest[0]!r}", rest[0], known)
    width = help_width()
    rows = [(name, COMMANDS[name].help if name in COMMANDS else GROUPS[name])
            for name in list_names(group)]  # fmt: skip
    lines = [
        f"usage: lapis {group} COMMAND …".replace("  ", " "),
        "",
        *textwrap.wrap(GROUPS.get(group, ABOUT), width),
        "",
        "commands:",
        *list_rows(rows, width),
        "",
        "options:",
        *list_rows([("-h, --help", "Show this help; after a command, its options.")], width),
        *list_rows([] if group else [("--version", "Show the version.")], width),
    ]
    print("\n".join(lines))


def list_names(group: str) -> list[str]:
    """List the commands of a group; without one, single commands and the groups."""
    if group:
        return [name for name in COMMANDS if name.startswith(f"{group} ")]
    return [*(name for name in COMMANDS if " " not in name), *GROUPS]


def parse_words(command: Command, words: Sequence[str]) -> tuple[dict[str, Any], DataclassInstance]:
    """Parse the words after a command: its arguments by name, and its options."""
    parser = build_parser(command)
    typed, rest = parser.parse_known_intermixed_args(list(words))
    known = [flag for option in options_of(command.options) for flag in option.flags]
    for word in rest:
        flag = word.partition("=")[0]
        if flag.startswith("-"):
            usage_error(parser.prog, f"unknown option {flag}", flag, known)
        usage_error(parser.prog, f"unexpected argument {word!r}")
    values = vars(typed)
    places = {argument.name: values.pop(argument.name) for argument in command.arguments}
    by_name = {option.name: option for option in options_of(command.options)}
    given = {name: read_value(by_name[name], value) for name, value in values.items()}
    return places, command.options(**given)


class CommandParser(argparse.ArgumentParser):
    """The parser of argparse with other messages for usage errors."""

    def error(self, message: str) -> NoReturn:
        wrong = re.fullmatch(r"argument (.*): invalid (int|float) value: (.*)", message)
        if wrong is not None:
            wanted = "a whole number" if wrong[2] == "int" else "a number"
            message = f"{wrong[1].rpartition('/')[2]} must be {wanted}, not {wrong[3]}"
        without = re.fullmatch(r"argument (.*): expected one argument", message)
        if without is not None:
            message = f"{without[1].rpartition('/')[2]} needs a value"
        usage_error(self.prog, message.replace("the following arguments are required:", "missing"))


def usage_error(prog: str, message: str, word: str = "", known: Sequence[str] = ()) -> NoReturn:
    """Print a usage error with a suggestion and exit with code 2."""
    close = did_you_mean(word, known)
    print(f"error: {message}", file=sys.stderr)
    hint = f"did you mean {close}?" if close else f"see {prog} --help"
    print(f"    {hint}", file=sys.stderr)
    sys.exit(2)


def build_parser(command: Command) -> argparse.ArgumentParser:
    """Build the parser of a command from its arguments and its dataclass of options."""
    width = help_width()
    parser = CommandParser(
        prog=f"lapis {command.name}",
        description=command.help,
        epilog="\n".join(list_methods(command, width)),
        argument_default=argparse.SUPPRESS,  # options that are not typed keep their defaults
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(
            prog, max_help_position=30, width=width
        ),
        usage=" ".join([f"lapis {command.name}", *map(usage_of, command.arguments), "[options]"]),
    )
    for argument in command.arguments:
        add_place(parser, argument)
    groups: dict[str, argparse._ArgumentGroup] = {}
    for option in options_of(command.options):
        if option.group not in groups:
            groups[option.group] = parser.add_argument_group(option.group.lower())
        add_flag(groups[option.group], option)
    return parser


def usage_of(argument: Argument) -> str:
    shown = f"{argument.metavar}…" if argument.many else argument.metavar
    return shown if argument.is_required else f"[{shown}]"


def add_place(parser: argparse.ArgumentParser, argument: Argument) -> None:
    if argument.choices:
        parser.add_argument(
            argument.name, metavar=argument.metavar, help=argument.help, choices=argument.choices
        )
    elif argument.many:
        parser.add_argument(
            argument.name, metavar=argument.metavar, help=argument.help,
            type=str if argument.is_word else Path, nargs="*", default=None,
        )  # fmt: skip
    else:
        parser.add_argument(
            argument.name, metavar=argument.metavar, help=argument.help, type=Path,
            nargs=None if argument.is_required else "?", default=None,
        )  # fmt: skip


def add_flag(group: argparse._ArgumentGroup, option: Option) -> None:
    help = option.help.replace("%", "%%")
    if option.kind == "flag":
        action = "store_false" if option.default is True else "store_true"
        group.add_argument(*option.flags, dest=option.name, action=action, help=help)
        return
    types: dict[Kind, Any] = {"integer": int, "number": float, "path": Path}
    metavar = option.pairs.metavar if option.pairs else METAVARS[option.kind]
    shown = show_default(option)
    group.add_argument(
        *option.flags,
        dest=option.name,
        action="append" if option.kind in SEVERAL else "store",
        type=types.get(option.kind, str),
        metavar="|".join(option.choices) or metavar,
        help=f"{help} [{shown}]" if shown else help,
    )


def show_default(option: Option) -> str:
    """Return the default as it would be typed; "" if there is none."""
    if option.default is None or option.default == ():
        return ""
    if isinstance(option.default, tuple):
        return ",".join(f"{number:g}" for number in option.default)
    return str(option.default)


def list_methods(command: Command, width: int) -> Iterator[str]:
    """Yield a line for each method that an option can select."""
    for option in options_of(command.options):
        if option.task is not None:
            yield f"{option.flag}:"
            rows = [(method.name, method.help) for method in methods_of(option.task).values()]
            yield from list_rows(rows, width)
            yield ""


def list_rows(rows: Sequence[tuple[str, str]], width: int, first: int = 18) -> Iterator[str]:
    """Yield lines of names and texts in two columns; `first` is the width of the first one."""
    indent = first + 4
    for name, text in rows:
        lines = textwrap.wrap(text, width - indent, break_on_hyphens=False)
        yield f"  {name:<{first}}  {lines[0] if lines else ''}".rstrip()
        for line in lines[1:]:
            yield " " * indent + line


def help_width() -> int:
    return min(MAX_WIDTH, shutil.get_terminal_size().columns)


def read_value(option: Option, typed: str | list[str] | float | Path) -> object:
    """Convert a typed value to the type of the keyword."""
    match option.kind:
        case "names" if isinstance(typed, list):
            return [name.strip() for text in typed for name in text.split(",") if name.strip()]
        case "pairs" if isinstance(typed, list):
            return parse_pairs(option, typed)
        case "numbers" if isinstance(typed, str):
            return parse_numbers(option, typed)
        case "size" if isinstance(typed, str):
            return parse_size(typed)
        case _:
            return typed


def parse_numbers(option: Option, text: str) -> tuple[float, ...]:
    """Parse numbers in a text like "1,0.5"."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise LapisError(
            f"{option.flag} must be {option.wanted}, not {text!r}",
            code="option-value",
            hint="as in 1,0.5",
        ) from None


def parse_pairs(option: Option, texts: Sequence[str]) -> dict[str, float]:
    """Parse texts like "damping=2" to a dictionary; whole numbers keep all their digits."""
    assert option.pairs is not None
    found: dict[str, float] = {}
    for text in texts:
        name, _, value = (part.strip() for part in text.rpartition("="))
        try:
            number = int(value) if value.lstrip("+-").isdecimal() else float(value)
        except ValueError:
            raise LapisError(
                f"{text!r} is not {option.pairs.noun}",
                code="option-value",
                hint=option.pairs.example,
            ) from None
        if name in found:
            raise LapisError(f"{option.flag} is given twice for {name}", code="option-value")
        whole = isinstance(number, float) and number.is_integer() and "." not in value
        found[name] = int(number) if whole else number
    return found


def parse_size(text: str) -> int:
    """Parse a number of bytes in a text like 8GB, 500 MB or 1000000.

    >>> parse_size("2GB"), parse_size("1.5 M")
    (2147483648, 1572864)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?\s*", text, re.IGNORECASE)
    if match is None:
        raise LapisError(f"{text!r} is not a size", code="size", hint="as in 8GB or 500MB")
    return int(float(match.group(1)) * UNITS[match.group(2).upper()])


def show_notes(notes: Sequence[str]) -> None:
    """Print notes to the error stream."""
    from lapis.runtime.views import escape

    for note in notes:
        print(escape(note, "terminal"), file=sys.stderr)
