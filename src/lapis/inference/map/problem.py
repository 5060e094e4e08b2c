"""Most likely worlds of a problem: ground it and solve, or ground as needed (`lazy`)."""

from __future__ import annotations

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
) -> tuple[Network, MapResult]:
    """The network that was solved (for lazy: its listed part) and the world."""
    chosen = find_method("map", method)
    if chosen.takes == "problem":
        answered: tuple[Network, MapResult] = chosen.load()(
            problem, time_limit=time_limit, seed=seed, max_memory=max_memory, progress=progress,
            should_stop=should_stop,
        )  # fmt: skip
        return answered
    from lapis.grounding.bottom_up import ground
    from lapis.inference.marginals import is_tiny

    network = ground(problem, max_memory=max_memory, progress=progress)
    name = "enumerate" if method == "auto" and is_tiny(network) else method
    return network, most_likely_world(
        network, method=name, time_limit=time_limit, seed=seed, progress=progress,
        should_stop=should_stop,
    )  # fmt: skip
