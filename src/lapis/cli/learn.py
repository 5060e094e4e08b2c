"""`lapis learn`: weights from data, as a table and a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from lapis.cli.render import console, escape, new_table, note_rest

if TYPE_CHECKING:
    from lapis.learning.fit import Fit

MAX_ROWS = 60
MAX_NAMED = 5


def show_fit(fit: Fit) -> None:
    out = console()
    table = new_table("weight", "error", "formula")
    rows = fit.rows()
    for name, weight, error, fixed in rows[:MAX_ROWS]:
        spread = "fixed" if fixed else "" if error is None else f"± {error:.3g}"
        table.add_row(f"{weight:z.4f}", spread, escape(name))
    out.print(table)
    note_rest(len(rows))
    out.print(f"[dim]{escape(fit.summary())}[/dim]")
    phases = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in fit.seconds.items())
    out.print(f"[dim]{phases}[/dim]")
    for growing in fit.unbounded[:MAX_NAMED]:
        typer.echo(f"warning: {growing.formula}: {growing.reason}", err=True)
    if len(fit.unbounded) > MAX_NAMED:
        more = len(fit.unbounded) - MAX_NAMED
        typer.echo(f"warning: {more:,} more weights have no bound (--json lists them)", err=True)
    for warning in fit.warnings:
        typer.echo(f"warning: {warning}", err=True)
    if fit.interrupted:
        typer.echo("stopped early: this is what there was so far", err=True)
    elif not fit.converged:
        typer.echo(f"not converged: {fit.reason}", err=True)
