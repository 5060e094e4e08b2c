"""`lapis structure`: rules from data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lapis.cli.options import takes
from lapis.errors import LapisError

if TYPE_CHECKING:
    from lapis.data.database import Database
    from lapis.results.result import Result


@takes("structure")
def structure(
    model: Path,
    worlds: Sequence[Database],
    output: Path | None,
    explain: bool,
    draw: Path | None,
    as_json: bool,
    **options: Any,
) -> Result:
    """Learn rules from data; MODEL declares the predicates."""
    from lapis.api import learn_structure
    from lapis.cli.progress import progress_bar
    from lapis.data.whole_path import require_writable
    from lapis.results.graph import check_drawing

    if not worlds and (options["tables"] is None or draw is not None):
        raise LapisError("nothing to learn from", code="no-data", hint="name data files")
    require_writable(output)
    if draw is not None:
        check_drawing(draw)
        draw_lifted(model, worlds, draw, options)
    with progress_bar("learning rules") as progress:
        found = learn_structure(model, worlds or None, progress=progress, **options)
    if output is not None:
        found.save(output)
    if explain and not as_json:
        print(found.explain())
    return found


def draw_lifted(
    model: Path, worlds: Sequence[Database], path: Path, options: dict[str, Any]
) -> None:
    from lapis.problem.problem import build_problem
    from lapis.problem.task import open_inputs
    from lapis.structure.drawing import cluster_graph
    from lapis.structure.lift_graph import PRIOR, lift_graph
    from lapis.structure.training_data import join_worlds

    inputs = open_inputs(model, worlds, strict=options["strict"], quiet=True)
    problems = [build_problem(inputs.model, database) for database in inputs.databases]
    data = join_worlds(inputs.model, problems, ())
    cluster_graph(data, lift_graph(data, options["cluster_prior"] or PRIOR)).save(path)
