"""Tables and bars on a terminal, JSON for programs."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from lapis.errors import Warning
from lapis.inference.answer import Answer, MostLikelyWorld

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from lapis.checks import Report
    from lapis.counting.rule_counts import RuleCount

BAR_WIDTH = 24
MAX_ROWS = 60
RIGHT_ALIGNED = {"probability", "true", "groundings", "value", "weight", "relative error"}
EIGHTHS = " ▏▎▍▌▋▊▉"


def console() -> Console:
    """Where output goes: as wide as the terminal, and 120 columns where it is none."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else 120
    return Console(soft_wrap=True, highlight=False, width=width)


def print_json(value: Any) -> None:
    """JSON, with null where a number is not finite."""
    typer.echo(json.dumps(finite(value), indent=1, allow_nan=False))


def finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [finite(inner) for inner in value]
    return value


def bar(probability: float) -> str:
    eighths = round(probability * BAR_WIDTH * 8)
    full, part = divmod(eighths, 8)
    return "█" * full + (EIGHTHS[part] if part else "")


def show_answer(answer: Answer) -> None:
    table = new_table("atom", "probability", "")
    order = sorted(answer.rows(), key=lambda row: -row[1])
    for atom, probability, error in order[:MAX_ROWS]:
        spread = "" if error is None else f" ± {error:.4f}"
        table.add_row(atom, f"{probability:.4f}{spread}", bar(probability))
    out = console()
    out.print(table)
    note_rest(len(order))
    partition = (
        "" if answer.log_partition is None else f"; log partition {answer.log_partition:.6g}"
    )
    out.print(f"[dim]{answer.summary()}{partition}[/dim]")
    show_quality(answer.diagnostics)
    if not len(answer):
        typer.echo("nothing asked for is unknown (lapis check MODEL DATA may say why)", err=True)


def show_quality(diagnostics: Mapping[str, Any]) -> None:
    """What a sampled answer is worth."""
    if diagnostics.get("interrupted"):
        typer.echo("stopped early: this is what there was so far", err=True)
    elif diagnostics.get("converged") is False:
        rhat = diagnostics.get("rhat")
        reason = "" if rhat is None else f" (worst R-hat {rhat:.3f})"
        typer.echo(
            f"not converged{reason}: allow more --max-samples or --time-limit, "
            "or try --method tempering",
            err=True,
        )


def show_world(world: MostLikelyWorld) -> None:
    out = console()
    table = new_table("true in the most likely world")
    for atom in world.true_atoms[:MAX_ROWS]:
        table.add_row(atom)
    out.print(table)
    note_rest(len(world.true_atoms))
    out.print(f"[dim]{world.summary()}[/dim]")
    show_quality(world.diagnostics)


def show_counts(rows: Sequence[RuleCount]) -> None:
    measured = any(row.relative_error is not None for row in rows)
    headings = ["weight", "formula", "true", "groundings", *(["relative error"] * measured)]
    table = new_table(*headings)
    for row in rows[:MAX_ROWS]:
        weight = "" if row.weight is None else f"{row.weight:g}"
        true = f"{'' if row.exact else '≈ '}{row.true:,}"
        error = [] if row.relative_error is None else [f"{row.relative_error:.2e}"]
        table.add_row(weight, escape(row.formula), true, f"{row.groundings:,}", *error)
    console().print(table)
    note_rest(len(rows))


def show_text(text: str) -> None:
    typer.echo(text)


def show_scores(values: dict[str, Any]) -> None:
    table = new_table("measure", "value")
    for name, value in values.items():
        table.add_row(name.replace("_", " "), format_optional(value))
    console().print(table)


def show_report(report: Report) -> None:
    out = console()
    for formula in report.formulas:
        weight = (
            "hard" if formula.hard else "?" if formula.weight is None else f"{formula.weight:g}"
        )
        out.print(f"[bold]{weight:>8}[/bold]  {escape(formula.formula)}")
        out.print(f"          {escape(formula.words)}")
        groundings = f"{formula.groundings:,} grounding{'' if formula.groundings == 1 else 's'}"
        out.print(f"          {groundings}; as clauses: {escape('; '.join(formula.clauses))}")
    sizes = ", ".join(f"{name} {size:,}" for name, size in report.constants.items())
    out.print(f"[dim]constants: {sizes or 'none'}[/dim]")
    show_warnings(report.warnings)
    counted = [number_of(report.formulas, "formula"), number_of(report.warnings, "warning")]
    out.print(f"{', '.join(counted)}, no errors")


def number_of(things: Sequence[object], noun: str) -> str:
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}"


def show_warnings(warnings: Sequence[Warning]) -> None:
    for warning in warnings:
        typer.echo(str(warning), err=True)


def new_table(*headings: str) -> Table:
    """A table whose numbers are never cut; long texts go on in the next line."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        if heading in RIGHT_ALIGNED:
            table.add_column(heading, justify="right", no_wrap=True)
        else:
            table.add_column(heading, overflow="fold")
    return table


def note_rest(total: int) -> None:
    if total > MAX_ROWS:
        typer.echo(f"… and {total - MAX_ROWS:,} more (all of them with --json)")


def format_optional(value: float | int | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def escape(text: str) -> str:
    from rich.markup import escape as rich_escape

    return rich_escape(text)
