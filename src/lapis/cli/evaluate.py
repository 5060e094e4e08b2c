"""`lapis evaluate` and the tables of `lapis score`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from lapis.cli.progress import progress_bar
from lapis.cli.render import console, escape, new_table, print_json, show_scores
from lapis.data.database import Database
from lapis.evaluation.cross_validation import (
    CrossValidation,
    cross_validate,
    format_spread,
    format_value,
)
from lapis.evaluation.score import Score

HEADINGS = {
    "cll": "CLL",
    "auc_pr": "AUC-PR",
    "auc_pr_trapezoid": "(trapezoid)",
    "brier": "Brier",
}
PREDICATE_MEASURES = {"auc_pr": "average_precision"}  # named in full for a single predicate


def run_evaluate(
    model: Path,
    worlds: Sequence[Database],
    query: Sequence[str],
    *,
    plot: Path | None = None,
    as_json: bool = False,
    **options: Any,
) -> None:
    """Cross-validate, show the folds, and write the picture asked for."""
    if plot is not None:
        from lapis.evaluation.plots import check_picture

        check_picture(plot)
    with progress_bar("cross-validation") as progress:
        found = cross_validate(model, worlds, query, progress=progress, **options)
    if plot is not None:
        found.plot(plot)
    if as_json:
        print_json(found.to_json())
    else:
        show_cross_validation(found)


def show_cross_validation(found: CrossValidation) -> None:
    """A row for each fold, their mean and spread, and all atoms pooled; each predicate below."""
    table = new_table("fold", "tested on", "atoms", "true", *HEADINGS.values(), "seconds")
    align_right(table)
    for fold in found.folds:
        table.add_row(
            str(fold.number),
            escape(found.tested_on(fold)),
            f"{fold.score.num_atoms:,}",
            f"{fold.score.num_true:,}",
            *(format_value(getattr(fold.score, name)) for name in HEADINGS),
            f"{sum(fold.seconds.values()):.1f}",
        )
    table.add_section()
    spreads = (format_spread(found.spread(name)) for name in HEADINGS)
    table.add_row("", "mean ± sd", "", "", *spreads, "", style="bold")
    pooled = found.pooled
    table.add_row(
        "",
        "pooled",
        f"{pooled.num_atoms:,}",
        f"{pooled.num_true:,}",
        *(format_value(getattr(pooled, name)) for name in HEADINGS),
        "",
    )
    out = console()
    out.print(table)
    if len(found.query) > 1:
        out.print(predicate_table(found))
    out.print(f"[dim]{escape(describe(found))}[/dim]")
    show_concerns(found)


def predicate_table(found: CrossValidation) -> Any:
    table = new_table("predicate (mean ± sd)", *HEADINGS.values())
    align_right(table, first=1)
    for name in found.query:
        spreads = [
            format_spread(found.predicate_spread(name, PREDICATE_MEASURES.get(measure, measure)))
            for measure in HEADINGS
        ]
        table.add_row(escape(name), *spreads)
    return table


def align_right(table: Any, first: int = 2) -> None:
    for column in table.columns[first:]:
        column.justify = "right"
        column.no_wrap = True


def describe(found: CrossValidation) -> str:
    """How the weights were learned and the predictions made."""
    accounts = [fold.account for fold in found.folds]
    ways = dict.fromkeys(
        f"{account['objective']}, {account['optimizer']}, prior {account['prior']}"
        for account in accounts
        if "objective" in account
    )
    methods = dict.fromkeys(str(fold.score.method) for fold in found.folds)
    learned = f"learned by {'; '.join(ways)}; " if ways else ""
    certainty = "exact" if found.exact else "approximate"
    return f"{learned}predictions {certainty} (by {', '.join(methods)})"


def show_concerns(found: CrossValidation) -> None:
    """What a reader should know before believing the table."""
    if found.interrupted:
        done, planned = len(found.folds), found.num_folds
        typer.echo(f"stopped early: {done} of {planned} folds are finished", err=True)
    for fold in found.folds:
        if fold.account.get("converged") is False:
            typer.echo(
                f"fold {fold.number}: learning has not converged ({fold.account['reason']})",
                err=True,
            )
        for note in fold.score.notes:
            typer.echo(f"fold {fold.number}: {note}", err=True)


def show_score(score: Score) -> None:
    """The measures of `lapis score`, and those of each predicate below."""
    values = score.to_json()
    for name in ("method", "exact", "predicates", "notes", "interrupted"):
        del values[name]
    show_scores(values)
    if score.predicates:
        table = new_table("predicate", "atoms", "true", *HEADINGS.values(), "pseudo-log-likelihood")
        align_right(table, first=1)
        for part in score.predicates:
            measures = (getattr(part, PREDICATE_MEASURES.get(name, name)) for name in HEADINGS)
            table.add_row(
                escape(part.predicate),
                f"{part.num_atoms:,}",
                f"{part.num_true:,}",
                *map(format_value, measures),
                format_value(part.pseudo_log_likelihood),
            )
        console().print(table)
    if score.method is not None:
        certainty = "exact" if score.exact else "approximate"
        console().print(f"[dim]predictions {certainty} (by {score.method})[/dim]")
    for note in score.notes:
        typer.echo(note, err=True)
