"""`lapis evaluate`: cross-validation, and a picture of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lapis.cli.progress import progress_bar
from lapis.cli.render import present
from lapis.data.database import Database
from lapis.evaluation.cross_validation import cross_validate


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
    present(found, as_json)
