"""One component of a MAP problem: a world by local search, then a proof.

`improve` never proves more than that a cost of 0 cannot be beaten; `prove` starts from its world.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from lapis.inference.map.objective import Objective
from lapis.progress import Stop

SEARCH_SHARE = 0.3  # of a component's time for the search of an independent set
LONG_TRIES = 10  # of MaxWalkSAT where nothing follows it


@dataclass(frozen=True)
class Found:
    """What is known of a component."""

    world: np.ndarray | None  # bool[num_atoms]
    cost: float  # +inf without a world
    bound: float  # no world costs less
    method: str
    flips: int = 0
    possible: bool = True  # False if proven that the hard clauses contradict each other


def improve(
    objective: Objective, start: np.ndarray, method: str, seed: int, seconds: float, stop: Stop
) -> Found:
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
    return Found(world, cost, 0.0, name, flips)


def prove(objective: Objective, found: Found, method: str, seconds: float, stop: Stop) -> Found:
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
            found = replace(
                found, world=best.world, cost=best.cost, bound=best.bound, method="branch-and-bound"
            )
        if objective.is_proven(found.cost, found.bound) or stop.is_over():
            return found
        solution = ilp.solve(objective, start=found.world, stop=own)
    except KeyboardInterrupt:
        stop.press()
        return found
    if solution.interrupted:
        stop.press()
    bound = max(found.bound, solution.bound)
    return Found(solution.world, solution.cost, bound, "ilp", found.flips, solution.feasible)
