"""The command line. Exit codes: 0 done, 1 wrong input, 2 wrong usage, 3 beyond the limits."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Annotated, TextIO

import typer

from lapis.cli import commands
from lapis.options import GROUPS

app = typer.Typer(
    name="lapis",
    help="Markov logic: weighted rules, relational data, exact answers where possible.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_version(value: bool) -> None:
    if value:
        from lapis import __version__

        typer.echo(f"lapis {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, help="Show the version and stop.")
    ] = False,
) -> None:
    pass


def interruptible(command: Callable[..., None]) -> Callable[..., None]:
    """Ctrl-C ends a command with a word and the shell's usual code."""

    @wraps(command)
    def run(*arguments: object, **options: object) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt:
            typer.echo("stopped", err=True)
            raise typer.Exit(130) from None

    return run


groups = {name: typer.Typer(help=help, no_args_is_help=True) for name, help in GROUPS.items()}
for name, group in groups.items():
    app.add_typer(group, name=name)
for command in commands.ALL:
    group_name, _, name = command.__name__.rpartition(" ")
    groups.get(group_name, app).command(name)(interruptible(command))


def main(arguments: list[str] | None = None) -> None:
    """Run a command; user mistakes end in a message and an exit code, never in a traceback."""
    from lapis.cli.render import show_notes
    from lapis.errors import LapisError, LapisWarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if isinstance(message, LapisWarning):
            show_notes([str(message.warning)])
        else:
            show_others(message, category, filename, lineno, file, line)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", LapisWarning)
            show_others, warnings.showwarning = warnings.showwarning, show
            app(arguments)
    except LapisError as error:
        show_notes([f"error: {error}" if error.span is None else str(error)])
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
