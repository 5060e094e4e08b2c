"""A most likely world by cutting planes over a network that is grounded on demand.

Riedel (UAI 2008). A ground clause that has not been listed counts as it would like to be, so the
best score of the listed clauses bounds that of all worlds; the clauses that the best world for
them violates are listed next, by joins with that world (`grounding.lazy`), until there are none.
Then the world's score is the true one and the bound is attained. For networks of which a most
likely world concerns only a small part.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lapis.errors import TooLarge
from lapis.grounding.lazy import LazyGrounding
from lapis.inference.map.solver import MapResult, most_likely_world
from lapis.inference.marginals import InferenceOptions
from lapis.network.network import Network
from lapis.problem.problem import Problem
from lapis.runtime.progress import Progress, work_clock

MAX_ROUNDS = 200


def most_likely_world_lazily(
    problem: Problem, options: InferenceOptions
) -> tuple[Network, MapResult]:
    """The last network and the world; `optimal` only if nothing is left to be listed."""
    began, deadline, progress = work_clock(), options.begin_map().deadline, options.progress
    lazy = LazyGrounding(problem, max_memory=options.max_memory)
    network = lazy.extend(starting_world(lazy, problem))
    for number in range(1, MAX_ROUNDS + 1):
        left = max(0.1, deadline - work_clock())
        own = replace(options, time_limit=left, progress=None)
        found = most_likely_world(network, "auto", own)
        if progress is not None:
            figures = {"clauses": float(network.num_clauses), "gap": found.gap}
            progress(Progress("listing", number, MAX_ROUNDS, work_clock() - began, figures))
        network = lazy.extend(found.world[: network.num_base_atoms])
        if lazy.num_added == 0 or found.interrupted or work_clock() > deadline:
            break
    return network, settle(network, found, lazy.num_added == 0, number)


def starting_world(lazy: LazyGrounding, problem: Problem) -> np.ndarray:
    """All false, but for the first candidate of each block that needs one."""
    from lapis.grounding.assembly import network_blocks

    atoms = lazy.session.world.atoms
    base = {name: found for name, found in atoms.items() if name in problem.model.predicates}
    blocks = network_blocks(problem, base)
    world = np.zeros(sum(found.num_unknown for found in base.values()), bool)
    world[blocks.atom[blocks.start[:-1][blocks.exact]]] = True
    return world


def settle(network: Network, found: MapResult, complete: bool, rounds: int) -> MapResult:
    """The result with the world's true score: listed last, its violations are all in.

    Raises TooLarge "no-feasible-world" if hard formulas are among these.
    """
    world = network.complete(found.world[: network.num_base_atoms])
    if not complete and not network.is_feasible(world):
        raise TooLarge(
            "no world that satisfies the hard formulas was found by cutting planes within the "
            "limits given",
            code="no-feasible-world",
            hint="give more time or use method 'ilp', which also finds out if there is none",
        )
    score = network.score(world)
    bound = max(found.bound, score)
    return replace(
        found,
        world=world,
        score=score,
        bound=bound,
        gap=found.gap if complete else bound - score,
        optimal=found.optimal and complete,
        method=f"cutting planes + {found.method}",
        diagnostics={**found.diagnostics, "rounds": rounds, "listed_clauses": network.num_clauses},
    )
