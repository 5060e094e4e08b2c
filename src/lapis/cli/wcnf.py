"""`lapis map FILE.wcnf`: weighted MaxSAT problems by the same solver."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lapis.cli.progress import progress_bar
from lapis.inference.answer import MostLikelyWorld


def is_wcnf(path: Path) -> bool:
    return path.name.endswith((".wcnf", ".wcnf.gz"))


def map_wcnf(path: Path, method: str, time_limit: float, seed: int) -> MostLikelyWorld:
    """The assignment of least cost; `cost` is the weight of the soft clauses it breaks."""
    from lapis.inference.map.wcnf import solve_wcnf

    with progress_bar("most likely world") as progress:
        result = solve_wcnf(
            path, method=method, time_limit=time_limit, seed=seed, progress=progress
        )
    found = result.found
    names = [f"x{i + 1}" for i in range(result.network.num_base_atoms)]
    return MostLikelyWorld(
        found.method,
        found.optimal,
        found.score,
        tuple(names),
        np.asarray(found.world[: len(names)]),
        diagnostics={
            "cost": result.cost,
            "cost_bound": result.bound,
            "gap": found.gap,
            "interrupted": found.interrupted,
            **found.diagnostics,
        },
    )
