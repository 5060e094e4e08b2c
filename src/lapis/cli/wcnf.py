"""`lapis map FILE.wcnf`: weighted MaxSAT problems by the same solver."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lapis.data.database import Domain
from lapis.registry.options import MapOptions
from lapis.results.atoms import AtomGroup, Atoms
from lapis.results.most_likely_world import MostLikelyWorld
from lapis.runtime.progress import Report


def is_wcnf(path: Path) -> bool:
    return path.name.endswith((".wcnf", ".wcnf.gz"))


def map_wcnf(path: Path, options: MapOptions, progress: Report | None) -> MostLikelyWorld:
    """The assignment of least cost; `cost` is the weight of the soft clauses it breaks."""
    from lapis.inference.map.wcnf import solve_wcnf
    from lapis.inference.marginals import InferenceOptions

    limits = InferenceOptions(time_limit=options.time_limit, seed=options.seed, progress=progress)
    result = solve_wcnf(path, options.method, limits)
    found = result.found
    size = result.network.num_base_atoms
    numbers = Domain("variable", tuple(str(i + 1) for i in range(size)))
    codes = np.arange(size, dtype=np.int32).reshape(size, 1)
    variables = AtomGroup("x", codes, (numbers,), ("variable",), "x{0[0]}".format)
    return MostLikelyWorld(
        found.method,
        found.optimal,
        found.score,
        Atoms((variables,)),
        np.asarray(found.world[:size]),
        diagnostics={
            "cost": result.cost,
            "cost_bound": result.bound,
            "gap": found.gap,
            "interrupted": found.interrupted,
            **found.diagnostics,
        },
    )
