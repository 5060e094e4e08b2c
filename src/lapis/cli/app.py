"""The command line as typer knows it: help, usage errors, and whatever is not typed plainly.

Only the command that was asked for gets its flags: to build those of all commands takes longer than
to show the help.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from lapis.cli.commands import BY_NAME
from lapis.methods import OPTION_OF_TASK, PARTS_OF_COMMAND, TASKS_OF_COMMAND, methods_of
from lapis.option import Argument, Kind, Option
from lapis.options import COMMANDS, GROUPS, arguments_of

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


def build_app(asked: str | None) -> typer.Typer:
    """All commands by name and help, and the flags of the one that is asked for."""
    app = typer.Typer(
        name="lapis",
        help="Markov logic: weighted rules, relational data, exact answers where possible.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(global_options)
    groups = {name: typer.Typer(help=help, no_args_is_help=True) for name, help in GROUPS.items()}
    for name, group in groups.items():
        app.add_typer(group, name=name)
    for name, command in BY_NAME.items():
        group_name, _, own_name = name.rpartition(" ")
        shown = signed(command) if name == asked else named(command)
        groups.get(group_name, app).command(own_name)(shown)
    return app


def show_version(value: bool) -> None:
    if value:
        from lapis import __version__

        typer.echo(f"lapis {__version__}")
        raise typer.Exit


def global_options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, help="Show the version and stop.")
    ] = False,
) -> None:
    pass


def named(command: Callable[..., None]) -> Callable[..., None]:
    """A command for lists of commands, without its flags."""

    def run() -> None:
        pass

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run


def signed(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the signature that typer reads, made of the table of options."""
    name = command.__name__
    parameters = [
        *map(place_of, arguments_of(name)),
        *(flag_of(name, option) for option in COMMANDS[name]),
    ]

    def run(**typed: Any) -> None:
        command(**typed)

    run.__name__, run.__doc__ = name, command.__doc__
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


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
