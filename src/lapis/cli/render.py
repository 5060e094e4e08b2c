"""Tables and bars on a terminal, JSON for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from lapis.errors import Warning
from lapis.inference.answer import Answer, MostLikelyWorld

if TYPE_CHECKING:
    from rich.console import Console

    from lapis.api import RuleCount
    from lapis.checks import Report

BAR_WIDTH = 24
MAX_ROWS = 60
EIGHTHS = " ▏▎▍▌▋▊▉"


def console() -> Console:
    from rich.console import Console

    return Console(soft_wrap=True, highlight=False)


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
    out.print(
        f"[dim]{answer.summary()}; log partition {format_optional(answer.log_partition)}[/dim]"
    )


def show_world(world: MostLikelyWorld) -> None:
    out = console()
    table = new_table("true in the most likely world")
    for atom in world.true_atoms[:MAX_ROWS]:
        table.add_row(atom)
    out.print(table)
    note_rest(len(world.true_atoms))
    out.print(f"[dim]{world.summary()}[/dim]")


def show_counts(rows: Sequence[RuleCount]) -> None:
    table = new_table("weight", "formula", "true", "groundings")
    for row in rows[:MAX_ROWS]:
        weight = "" if row.weight is None else f"{row.weight:g}"
        table.add_row(weight, row.formula, f"{row.true:,}", f"{row.groundings:,}")
    console().print(table)
    note_rest(len(rows))


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
    plural = "" if len(report.warnings) == 1 else "s"
    out.print(f"{len(report.formulas)} formulas, {len(report.warnings)} warning{plural}, no errors")


def show_warnings(warnings: Sequence[Warning]) -> None:
    for warning in warnings:
        typer.echo(str(warning), err=True)


def new_table(*headings: str) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        right = heading in ("probability", "true", "groundings", "value", "weight")
        table.add_column(heading, justify="right" if right else "left", no_wrap=True)
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
