"""The lifted hypergraph of data, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lapis.registry.options import StructureOptions

if TYPE_CHECKING:
    from lapis.data.database import Database


def draw_lifted(
    model: Path, worlds: Sequence[Database], path: Path, options: StructureOptions
) -> None:
    from lapis.problem.problem import build_problem
    from lapis.problem.task import open_inputs
    from lapis.structure.drawing import cluster_graph
    from lapis.structure.lift_graph import PRIOR, lift_graph
    from lapis.structure.training_data import join_worlds

    inputs = open_inputs(model, worlds, strict=options.strict, quiet=True)
    problems = [build_problem(inputs.model, database) for database in inputs.databases]
    data = join_worlds(inputs.model, problems, ())
    cluster_graph(data, lift_graph(data, options.cluster_prior or PRIOR)).save(path)
