"""One component of a MAP problem: a world by local search, then a proof.

`improve` never proves more than that a cost of 0 cannot be beaten; `prove` starts from its world.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from lapis.inference.map.objective import ComponentResult, Objective
from lapis.runtime.progress import Stop

SEARCH_SHARE = 0.3  # of a component's time for the search of an independent set
LONG_TRIES = 10  # of MaxWalkSAT where nothing follows it


def improve(
    objective: Objective, start: np.ndarray, method: str, seed: int, seconds: float, stop: Stop
) -> ComponentResult:
    """A good world by local search; Ctrl-C ends it with the best so far."""
    from lapis.inference.map.icm import climb
    from lapis.inference.map.maxwalksat import search

    world, cost, flips, name = None, objective.cost(start), 0, "icm"
    if cost < math.inf:
        world = start
    try:
        found = climb(objective, seed=seed, start=start, stop=stop)
        flips += found.flips
        if found.cost <= cost:
            world, cost = found.world, found.cost
        if method != "icm" and cost > 0.0:
            name = "maxwalksat"
            proof_follows = method in ("auto", "ilp")
            found = search(
                objective,
                seed=seed,
                max_flips=2_000 + objective.num_atoms * (20 if proof_follows else 200),
                restarts=1 if proof_follows else LONG_TRIES,
                start=start if world is None else world,
                stop=stop.within(seconds),
            )
            flips += found.flips
            if found.cost < cost:
                world, cost = found.world, found.cost
    except KeyboardInterrupt:
        stop.press()
    return ComponentResult(world, cost, name, flips=flips)


def prove(
    objective: Objective, found: ComponentResult, method: str, seconds: float, stop: Stop
) -> ComponentResult:
    """Prove the world to be the best, or find a better one."""
    from lapis.inference.map import integer_program as ilp
    from lapis.inference.map.independent_set import (
        MAX_VERTICES,
        find_conflicts,
        solve_independent_set,
    )

    own = stop.within(seconds)
    try:
        conflicts = find_conflicts(objective) if method == "auto" else None
        if conflicts is not None and len(conflicts.vertex) <= MAX_VERTICES:
            search = stop.within(SEARCH_SHARE * seconds)
            best = solve_independent_set(objective, conflicts, start=found.world, stop=search)
            found = replace(best, flips=found.flips)
        if objective.is_proven(found.cost, found.bound) or stop.is_over():
            return found
        solution = ilp.solve(objective, start=found.world, stop=own)
    except KeyboardInterrupt:
        stop.press()
        return found
    if own.pressed:
        stop.press()
    return replace(solution, bound=max(found.bound, solution.bound), flips=found.flips)
