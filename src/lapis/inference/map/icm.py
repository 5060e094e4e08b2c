"""Iterated conditional modes: the cheapest local search for a most likely world.

Besag (On the Statistical Analysis of Dirty Pictures, 1986): set each variable in turn to its most
likely value given all others, until nothing changes. The world it ends in is a local optimum: no
single flip, and no single move of a block, is better. Hard clauses weigh more than all soft ones
together, so a world that satisfies them is never left; where the start violates some,
`maxwalksat` first looks for a world that does not.
"""

from __future__ import annotations

import numpy as np

from lapis.inference.map.maxwalksat import initial_world, prepare, search
from lapis.inference.map.objective import ComponentResult, Objective
from lapis.runtime.progress import Stop


def climb(
    objective: Objective,
    *,
    seed: int = 0,
    max_flips: int = 1_000_000,
    start: np.ndarray | None = None,
    stop: Stop | None = None,
) -> ComponentResult:
    """A local optimum near `start`; no world if no feasible one to start from was found."""
    from lapis.inference.map.maxwalksat_kernel import begin, descend

    world = initial_world(objective) if start is None else start
    flips = 0
    if objective.cost(world) == np.inf:
        found = search(
            objective, seed=seed, max_flips=max_flips, first_feasible=True, start=world, stop=stop
        )
        if found.world is None:
            return found
        world, flips = found.world, found.flips
    clauses, walk = prepare(objective, world)
    begin(clauses, walk, 1.0 + float(np.abs(clauses.weight).sum()))
    while descend(clauses, walk) and not (stop and stop.is_over()):
        pass
    flips += int(walk.flips[0])
    return ComponentResult(walk.world, objective.cost(walk.world), "icm", flips=flips)
