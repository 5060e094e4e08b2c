"""Most likely worlds of a problem: ground it and solve, or ground as needed (`lazy`)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lapis.errors import LapisError
from lapis.grounding.assembly import total_counts
from lapis.grounding.hard_formulas import CONTRADICTIONS, refuse_relaxing
from lapis.inference.map.solver import MapResult, most_likely_world
from lapis.methods import find_method
from lapis.network.network import Network
from lapis.problem.problem import Problem
from lapis.progress import Report, Wish


def map_problem(
    problem: Problem,
    method: str,
    time_limit: float,
    seed: int,
    *,
    max_memory: int | None = None,
    progress: Report | None = None,
    should_stop: Wish | None = None,
    relaxing: bool = False,
) -> tuple[Network, MapResult]:
    """The network that was solved (for lazy: its listed part) and the world.

    With `relaxing` hard formulas that contradict are broken, as few as possible (`relaxation`).
    """
    chosen = find_method("map", method)
    found: MapResult
    if chosen.takes == "problem":
        refuse_relaxing(method, relaxing)
        network, found = chosen.load()(
            problem, time_limit=time_limit, seed=seed, max_memory=max_memory, progress=progress,
            should_stop=should_stop,
        )  # fmt: skip
    else:
        from lapis.grounding.bottom_up import ground
        from lapis.inference.marginals import is_tiny
        from lapis.inference.relaxation import relax

        try:
            network = ground(problem, max_memory=max_memory, progress=progress)
        except LapisError as error:
            if not relaxing or error.code not in CONTRADICTIONS:
                raise
            relaxed = relax(
                problem, method=method, time_limit=time_limit, seed=seed, max_memory=max_memory,
                progress=progress, should_stop=should_stop,
            )  # fmt: skip
            network, found = relaxed.network, relaxed.best
            found = replace(found, diagnostics={**found.diagnostics, **relaxed.diagnostics})
        else:
            found = most_likely_world(
                network,
                method="enumerate" if method == "auto" and is_tiny(network) else method,
                time_limit=time_limit,
                seed=seed,
                progress=progress,
                should_stop=should_stop,
            )
    return network, replace(found, cost=broken_weight(problem, network.counts(found.world)))


def broken_weight(problem: Problem, counts: np.ndarray) -> float:
    """Σ w·(groundings − n_w) over weights w > 0, and Σ |w|·n_w over w < 0.

    What a world with these true groundings, float64[num_weights], pays for ground formulas that
    are not as their weights want them, those decided by evidence included: the cost that other
    systems report, and the score of a world that breaks nothing less the score of this one.
    """
    weights = problem.weight_table.value
    wanted = np.where(weights > 0, total_counts(problem), 0.0)
    return float(np.abs(weights) @ np.abs(wanted - counts))
