"""Most likely worlds of a problem: ground it and solve, or ground as needed (`lazy`)."""

from __future__ import annotations

from lapis.inference.map import solver as map_solver
from lapis.inference.map.solver import MapResult
from lapis.network.network import Network
from lapis.problem.problem import Problem
from lapis.progress import Report, Wish

METHODS = (*map_solver.METHODS, "lazy")


def check_method(method: str) -> None:
    map_solver.check_method(method, METHODS)


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
    if method == "lazy":
        from lapis.inference.map.lazy import most_likely_world_lazily

        return most_likely_world_lazily(
            problem, time_limit=time_limit, seed=seed, max_memory=max_memory, progress=progress,
            should_stop=should_stop,
        )  # fmt: skip
    from lapis.grounding.bottom_up import ground
    from lapis.inference.marginals import is_tiny

    network = ground(problem, max_memory=max_memory, progress=progress)
    chosen = "enumerate" if method == "auto" and is_tiny(network) else method
    return network, map_solver.most_likely_world(
        network, method=chosen, time_limit=time_limit, seed=seed, progress=progress,
        should_stop=should_stop,
    )  # fmt: skip
