"""`lapis evaluate`: cross-validation, and a picture of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lapis.data.database import Database
from lapis.evaluation.cross_validation import CrossValidation, cross_validate


def run_evaluate(
    model: Path,
    worlds: Sequence[Database],
    query: Sequence[str],
    *,
    plot: Path | None = None,
    **options: Any,
) -> CrossValidation:
    """Cross-validate, and write the picture asked for."""
    if plot is not None:
        from lapis.results.plots import check_picture

        check_picture(plot)
    found = cross_validate(model, worlds, query, **options)
    if plot is not None:
        found.plot(plot)
    return found
