"""Most likely worlds of a problem: ground it and solve, or ground as needed (`lazy`)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from lapis.errors import LapisError
from lapis.grounding.assembly import total_counts
from lapis.grounding.hard_formulas import CONTRADICTIONS, refuse_relaxing
from lapis.inference.map.solver import MapResult, most_likely_world
from lapis.inference.marginals import InferenceOptions
from lapis.inference.plan import is_tiny
from lapis.network.network import Network
from lapis.problem.problem import Problem
from lapis.registry.method import find_method


def map_problem(
    problem: Problem, method: str, options: InferenceOptions
) -> tuple[Network, MapResult]:
    """The network that was solved (for lazy: its listed part) and the world.

    With `relax` hard formulas that contradict are broken, as few as possible (`relaxation`).
    """
    chosen = find_method("map", method)
    found: MapResult
    if chosen.takes == "problem":
        refuse_relaxing(method, options.relax)
        network, found = chosen.load()(problem, options)
    else:
        from lapis.grounding.bottom_up import ground
        from lapis.inference.relaxation import relax

        try:
            network = ground(problem, max_memory=options.max_memory, progress=options.progress)
        except LapisError as error:
            if not options.relax or error.code not in CONTRADICTIONS:
                raise
            relaxed = relax(problem, method, options)
            network, found = relaxed.network, relaxed.best
            found = replace(found, diagnostics={**found.diagnostics, **relaxed.diagnostics})
        else:
            if method == "auto" and is_tiny(network):  # done at once, whatever the time
                method, options = "enumerate", replace(options, stop=None, time_limit=math.inf)
            found = most_likely_world(network, method, options)
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
