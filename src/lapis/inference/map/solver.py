"""The most likely world of a network: by components, each by the cheapest method that proves it.

Atoms that are easy to maximise over go first (`reduce`, with at most two neighbours: more would
turn pairs of atoms into long clauses, of which linear programs make little). Small components of
what is left are solved by elimination. The others get a world by local search, which is then
proven or improved by branch and bound where the component is an independent set, and by integer
programming otherwise. Components are independent: their costs and bounds add up, and a component
that is not proven leaves its gap to the whole.

Whatever the method, the score is that of the network in the world returned, and `optimal` means
that the bound proves it: bound − score ≤ 1e-6 · max(1, cost), where the cost is what the world
loses against one that violates nothing. (Relative to the score, which evidence may make 10^12, a
tolerance would mean nothing.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lapis.errors import LapisError, TooLarge
from lapis.inference.map.component import Found, improve, prove
from lapis.inference.map.objective import Objective, Part, objective_of, split_components
from lapis.methods import find_method
from lapis.network.network import Network
from lapis.progress import Progress, Report, Stop

ELIMINATED_SCOPE = 2  # neighbours of an atom that is maximised over in front
SMALL_COMPONENT = 300  # atoms; beyond this no elimination order is looked for
SMALL_MEMORY = 1 << 24  # bytes of tables


@dataclass(frozen=True)
class MapResult:
    """A world, its score, and what is proven about it."""

    world: np.ndarray  # bool[num_atoms], auxiliary atoms too
    score: float  # Σ w·n, evidence included
    bound: float  # no world has a higher score
    gap: float  # bound − score, without the rounding of large scores; 0 where optimal
    cost: float  # Σ |w| of broken ground formulas; of a network: of its merged clauses
    optimal: bool
    method: str
    interrupted: bool = False
    diagnostics: Mapping[str, Any] = field(default_factory=dict)


def most_likely_world(
    network: Network,
    *,
    method: str = "auto",
    time_limit: float = 60.0,
    seed: int = 0,
    progress: Report | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> MapResult:
    """The best world found in `time_limit` seconds; Ctrl-C returns what there is so far.

    Raises LapisError "unsatisfiable" if no world satisfies the hard clauses, and TooLarge
    "no-feasible-world" if none was found and none was ruled out.
    """
    chosen = find_method("map", method)
    if chosen.takes == "problem":
        raise LapisError(
            f"{method} starts from a model, not from a network",
            code="needs-model",
            hint="choose another method",
        )
    found: MapResult = chosen.load()(
        network,
        method=method,
        time_limit=time_limit,
        seed=seed,
        progress=progress,
        should_stop=should_stop,
    )
    return found


def solve_by_components(
    network: Network,
    *,
    method: str,
    time_limit: float,
    seed: int,
    progress: Report | None,
    should_stop: Callable[[], bool] | None,
) -> MapResult:
    """Eliminate, split, search, prove."""
    from lapis.inference.reduction.eliminate import reduce

    stop = Stop(should_stop, time.monotonic() + time_limit)
    reduction = reduce(network, max_scope=ELIMINATED_SCOPE, semiring="max")
    core = reduction.core
    solved = np.zeros(core.num_atoms, bool)
    world = np.zeros(core.num_atoms, bool)
    if method == "auto" and core.num_atoms:
        solved, world = solve_small(core)
    parts = unsolved_parts(core, solved)
    found = solve_parts(core, parts, method, seed, stop, progress)
    for part, result in zip(parts, found, strict=True):
        world[part.atom] = result.world
    gap = sum(result.cost - result.bound for result in found)
    methods = dict.fromkeys(result.method for result in found)
    if not found or solved.any():
        methods = {"exact": None, **methods}
    diagnostics = {
        "components": int(core.component.max(initial=-1)) + 1,
        "eliminated_atoms": network.num_atoms - core.num_atoms,
        "exact_atoms": int(solved.sum()),
        "unproven_components": sum(not result.optimal for result in found),
        "flips": sum(result.flips for result in found),
    }
    return describe(
        network, reduction.complete_map(world), gap, " + ".join(methods), stop.pressed, diagnostics
    )


def describe(
    network: Network,
    world: np.ndarray,
    gap: float,
    method: str,
    interrupted: bool = False,
    diagnostics: Mapping[str, Any] | None = None,
) -> MapResult:
    from lapis.inference.map.integer_program import TOLERANCE

    score = network.score(world)
    cost = objective_of(network).cost(world)
    optimal = gap <= TOLERANCE * max(1.0, cost)
    gap = 0.0 if optimal else gap
    return MapResult(
        world, score, score + gap, gap, cost, optimal, method, interrupted, diagnostics or {}
    )


def solve_whole(network: Network, *, method: str, **limits: object) -> MapResult:
    """By elimination or enumeration, which know no limits but their memory."""
    if method == "exact":
        from lapis.inference.exact.by_components import exact_map

        return describe(network, exact_map(network)[1], 0.0, method)
    from lapis.inference.exact.enumerate import enumerate_worlds

    return describe(network, network.complete(enumerate_worlds(network).map_world), 0.0, method)


def solve_small(core: Network) -> tuple[np.ndarray, np.ndarray]:
    """Which atoms elimination has solved, and their values: two bool[num_atoms]."""
    from lapis.inference.exact.by_components import plan_exact
    from lapis.network.parts import keep_part

    solved = np.zeros(core.num_atoms, bool)
    world = np.zeros(core.num_atoms, bool)
    is_small = np.bincount(core.component) <= SMALL_COMPONENT
    if is_small.any():
        part = keep_part(core, is_small[core.component])
        plan = plan_exact(part.network, SMALL_MEMORY)
        solved[part.atom] = plan.affordable
        world[part.atom] = plan.maximise()
    return solved, world


def unsolved_parts(core: Network, solved: np.ndarray) -> list[Part]:
    """The components that are left, smallest first."""
    if solved.all():
        return []
    parts = split_components(objective_of(core), core.component)
    left = [part for part in parts if not solved[part.atom[0]]]
    return sorted(left, key=lambda part: part.objective.num_atoms)


def solve_parts(
    core: Network,
    parts: list[Part],
    method: str,
    seed: int,
    stop: Stop,
    progress: Report | None,
) -> list[Found]:
    """A world for each component first, then proofs as long as there is time."""
    seeds = np.random.SeedSequence(seed).generate_state(len(parts))
    began = time.monotonic()
    found: list[Found] = []
    for number, part in enumerate(parts):
        if progress is not None:
            progress(Progress("searching", number, len(parts), time.monotonic() - began))
        share = share_of_time(stop, parts, number)
        start = define_auxiliaries(core, part)
        found.append(improve(part.objective, start, method, int(seeds[number]), share, stop))
    if method in ("auto", "ilp"):
        for number, part in enumerate(parts):
            if progress is not None:
                gap = sum(
                    result.cost - result.bound for result in found if result.world is not None
                )
                seconds = time.monotonic() - began
                progress(Progress("proving", number, len(parts), seconds, {"gap": gap}))
            if stop.is_over() or found[number].optimal:
                continue
            share = share_of_time(stop, parts, number)
            found[number] = prove(part.objective, found[number], method, share, stop)
            if not found[number].possible:
                from lapis.network.satisfiability import contradiction

                raise contradiction(core, int(core.component[part.atom[0]]))
    if progress is not None:
        seconds = time.monotonic() - began
        gap = sum(result.cost - result.bound for result in found)
        progress(Progress("proving", len(parts), len(parts), seconds, {"gap": gap}))
    refuse_infeasible(parts, found, stop)
    return found


def share_of_time(stop: Stop, parts: list[Part], number: int) -> float:
    """Seconds for a component: as its size is among those left, or one part of their number."""
    left = max(0.0, stop.deadline - time.monotonic())
    sizes = [part.objective.num_atoms for part in parts[number:]]
    return left * max(sizes[0] / sum(sizes), 1.0 / len(sizes))


def define_auxiliaries(core: Network, part: Part) -> np.ndarray:
    """A first world of a component: auxiliary atoms are what they are defined to be."""
    from lapis.inference.map.maxwalksat import initial_world

    start = initial_world(part.objective)
    if core.num_base_atoms == core.num_atoms:
        return start
    whole = np.zeros(core.num_atoms, bool)
    whole[part.atom] = start
    return core.complete(whole[: core.num_base_atoms])[part.atom]


def refuse_infeasible(parts: list[Part], found: list[Found], stop: Stop) -> None:
    missing = [p.objective for p, result in zip(parts, found, strict=True) if result.world is None]
    if not missing:
        return
    worst: Objective = max(missing, key=lambda objective: objective.num_atoms)
    why = "before it was interrupted" if stop.pressed else "within the limits given"
    raise TooLarge(
        f"no world that satisfies the hard formulas was found {why}: a connected component has "
        f"{worst.num_atoms:,} unknown atoms and {int(worst.hard.sum()):,} hard ground clauses",
        code="no-feasible-world",
        hint="give more time or use method 'ilp', which also finds out if there is none",
    )
