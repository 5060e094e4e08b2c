"""The most likely world of a network: each component by the cheapest method that proves it.

1. Minimum cuts (`persistency`) fix every atom of an attractive network, and some atoms of others.
2. Atoms with at most two neighbours are maximised over (`reduction`). With more neighbours, pairs
   would become long clauses, for which linear programs are weak. The core is cut again.
3. Small components are solved by elimination.
4. The others get a world by local search. It is proven or improved by branch and bound if the
   component is an independent set, and by integer programming otherwise.

Components are independent: costs and bounds add up, and an unproven component adds its gap.

The score is that of the returned world, the gap the distance to the bound. `optimal` means that
every component is proven: its gap is at most 10^-12 of its largest weight or of its cost, the loss
against a world that violates nothing. Cuts round weights to integers; the gap of a component that
they fix may also be the rounding error of a sum of its weights in doubles, which is 10^-8 if they
add up to 10^8. (A tolerance relative to the score would be meaningless,
because evidence may make the score 10^12; relative to all costs, one component would pay for
another.)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lapis.errors import LapisError, TooLarge
from lapis.grounding.assembly import count_all_groundings
from lapis.grounding.hard_formulas import CONTRADICTIONS, refuse_relaxing
from lapis.inference.map.map_objective import (
    ComponentResult,
    MapComponent,
    MapObjective,
    objective_of,
    split_components,
)
from lapis.inference.marginals import InferenceOptions
from lapis.inference.plan import is_tiny
from lapis.inference.sampling.clause_graph import clause_weights
from lapis.network.network import Network
from lapis.problem.problem import Problem, refuse_network
from lapis.registry.method_table import find_method
from lapis.runtime.progress import Progress, Report, Stop, report_progress, work_clock

ELIMINATED_SCOPE = 2  # most neighbours of an atom that is maximised over first
SMALL_COMPONENT = 300  # atoms; larger components get no search for an elimination order
SMALL_MEMORY = 1 << 24  # bytes of tables


@dataclass(frozen=True)
class MapResult:
    """A world, its score, and its bound."""

    world: np.ndarray  # bool[num_atoms], auxiliary atoms too
    score: float  # Σ w·n, evidence included
    bound: float  # no world has a higher score
    gap: float  # bound − score, without rounding of large scores
    cost: float  # Σ |w| of violated ground formulas; of a network: of its merged clauses
    optimal: bool
    method: str
    interrupted: bool = False
    diagnostics: Mapping[str, Any] = field(default_factory=dict)


def most_likely_world(
    network: Network, method: str = "auto", options: InferenceOptions | None = None
) -> MapResult:
    """Return the best world found in the given time; Ctrl-C returns the best so far.

    Atoms in no clause are false in it.

    Raise LapisError "unsatisfiable" if no world satisfies the hard clauses, and TooLarge
    "no-feasible-world" if none was found and none was ruled out.
    """
    chosen = find_method("map", method)
    if chosen.takes == "problem":
        raise LapisError(
            f"method {method!r} takes a model, not a network",
            code="needs-model",
            hint="choose another method",
        )
    found: MapResult = chosen.load()(network, method, options or InferenceOptions())
    return replace(found, world=found.world & find_weighed_atoms(network))


def find_weighed_atoms(network: Network) -> np.ndarray:
    """Return the atoms whose values can change the score or feasibility, bool[num_atoms]."""
    weight = clause_weights(network.weights, network.weight_id, network.coefficient)
    clause = np.repeat(weight != 0, np.diff(network.clause_start))
    found = np.zeros(network.num_atoms, bool)
    found[np.abs(network.literal[clause]) - 1] = True
    found[network.block_atom] = True
    return found


def solve_by_components(network: Network, method: str, options: InferenceOptions) -> MapResult:
    """Cut; then, if atoms are left, eliminate, cut again, split, search and prove."""
    stop, objective = options.begin_map(), objective_of(network)
    fixed = leave_open(network)
    if method in ("auto", "flow"):
        fixed = fix_by_cuts(network, objective, stop, options.progress)
    names = {"flow": None} if fixed.num_cut else {"exact": None}
    world, gap = np.zeros(0, bool), fixed.gap
    is_resolved = fixed.is_resolved
    diagnostics = dict.fromkeys(
        ("components", "eliminated_atoms", "exact_atoms", "unproven_components", "flips"), 0
    )
    if fixed.rest.num_atoms:
        world, rest, more, names, diagnostics = solve_rest(fixed.rest, method, options, stop)
        gap += rest.gap + more
        is_resolved &= rest.is_resolved
        names = {"flow": None, **names} if fixed.num_cut else names
    diagnostics["cut_atoms"] = fixed.num_cut + diagnostics.get("cut_atoms", 0)
    whole = fixed.complete(world)
    score, cost = network.score(whole), objective.cost(whole)
    gap = min(gap, cost)
    return MapResult(
        whole,
        score,
        score + gap,
        gap,
        cost,
        diagnostics["unproven_components"] == 0 and is_resolved and cost < math.inf,
        " + ".join(names),
        stop.requested,
        diagnostics,
    )


def solve_rest(
    network: Network, method: str, options: InferenceOptions, stop: Stop
) -> tuple[np.ndarray, MapPartial, float, dict[str, None], dict[str, Any]]:
    """Return (world, what cuts fixed, gap of proofs, methods, figures) of the rest."""
    from lapis.inference.reduction.eliminate import reduce

    reduction = reduce(network, max_scope=ELIMINATED_SCOPE, semiring="max")
    fixed = leave_open(reduction.core)
    if method in ("auto", "flow"):
        objective = objective_of(reduction.core)
        fixed = fix_by_cuts(reduction.core, objective, stop, options.progress)
    core = fixed.rest
    solved = np.zeros(core.num_atoms, bool)
    world = np.zeros(core.num_atoms, bool)
    if method == "auto" and core.num_atoms:
        solved, world = solve_small(core)
    parts = unsolved_parts(core, solved)
    found = solve_parts(core, parts, method, options, stop)
    for part, result in zip(parts, found, strict=True):
        world[part.atom] = result.world
    gap = sum(result.cost - result.bound for result in found)
    eliminated = network.num_atoms - reduction.core.num_atoms
    used = {"flow": fixed.num_cut > 0, "exact": not found or bool(solved.any())}
    names = dict.fromkeys(
        [name for name in used if used[name]] + [result.method for result in found]
    )
    diagnostics = {
        "components": core.num_components,
        "cut_atoms": fixed.num_cut,
        "eliminated_atoms": eliminated,
        "exact_atoms": int(solved.sum()),
        "unproven_components": sum(not is_proven(*pair) for pair in zip(parts, found, strict=True)),
        "flips": sum(result.flips for result in found),
    }
    whole = reduction.complete_map(fixed.complete(world))
    return whole, fixed, gap, names, diagnostics


@dataclass(frozen=True)
class MapPartial:
    """A network with some atoms fixed, and the network of the others."""

    value: np.ndarray  # int8[num_atoms], −1 where open
    rest: Network
    open_atom: np.ndarray  # int64[rest.num_atoms]
    gap: float  # bounds the loss of the best world with these values
    is_resolved: bool = True  # whether doubles distinguish no better world in any component

    @property
    def num_cut(self) -> int:
        return len(self.value) - len(self.open_atom)

    def complete(self, world: np.ndarray) -> np.ndarray:
        """Return the whole world, bool[num_atoms], from a world of the rest."""
        whole = self.value > 0
        whole[self.open_atom] = world
        return whole


def leave_open(network: Network) -> MapPartial:
    """Return the network with no atom fixed."""
    everything = np.arange(network.num_atoms)
    return MapPartial(np.full(network.num_atoms, -1, np.int8), network, everything, 0.0)


def fix_by_cuts(
    network: Network, objective: MapObjective, stop: Stop, progress: Report | None
) -> MapPartial:
    """Fix atoms by minimum cuts; none if the time is up first."""
    from lapis.inference.map.persistency import find_persistent
    from lapis.network.components import fix_atoms

    if network.num_atoms == 0 or stop.is_over():
        return leave_open(network)
    began, rounds = work_clock(), itertools.count(1)

    def is_over() -> bool:
        report_progress(progress, Progress("cutting", next(rounds), seconds=work_clock() - began))
        return stop.is_over()

    try:
        value, gap, is_resolved = find_persistent(objective, network.component, is_over)
    except KeyboardInterrupt:
        stop.request()
        return leave_open(network)
    if (value < 0).all():
        return leave_open(network)
    rest, atom = fix_atoms(network, value)
    return MapPartial(value, rest, atom, gap, is_resolved)


def solve_whole(network: Network, method: str, options: InferenceOptions) -> MapResult:
    """Solve by elimination or enumeration, which have no world before they end."""
    stop = options.begin_map()
    if method == "exact":
        from lapis.inference.exact.by_components import exact_map

        world = exact_map(network, stop)[1]
    else:
        from lapis.inference.exact.enumerate import enumerate_worlds

        world = network.complete(enumerate_worlds(network, stop).map_world)
    score = network.score(world)
    return MapResult(world, score, score, 0.0, objective_of(network).cost(world), True, method)


def solve_small(core: Network) -> tuple[np.ndarray, np.ndarray]:
    """Solve small components by elimination; return (solved, world), bool[num_atoms] each."""
    from lapis.inference.exact.by_components import plan_exact
    from lapis.network.components import keep_part

    solved = np.zeros(core.num_atoms, bool)
    world = np.zeros(core.num_atoms, bool)
    is_small = np.bincount(core.component) <= SMALL_COMPONENT
    if is_small.any():
        part = keep_part(core, is_small[core.component])
        plan = plan_exact(part.network, SMALL_MEMORY)
        solved[part.atom] = plan.affordable
        world[part.atom] = plan.maximise()
    return solved, world


def unsolved_parts(core: Network, solved: np.ndarray) -> list[MapComponent]:
    """Return the components that are left, smallest first."""
    if solved.all():
        return []
    parts = split_components(objective_of(core), core.component)
    left = [part for part in parts if not solved[part.atom[0]]]
    return sorted(left, key=lambda part: part.objective.num_atoms)


def solve_parts(
    core: Network, parts: list[MapComponent], method: str, options: InferenceOptions, stop: Stop
) -> list[ComponentResult]:
    """Search a world for each component, then prove them while there is time."""
    seeds = np.random.SeedSequence(options.seed).generate_state(len(parts))
    began = work_clock()
    found: list[ComponentResult] = []

    def report_proofs(number: int) -> None:
        if options.progress is not None:
            known = [result for result in found if result.world is not None]
            gap = sum(result.cost - result.bound for result in known)
            seconds = work_clock() - began
            options.progress(Progress("proving", number, len(parts), seconds, {"gap": gap}))

    for number, part in enumerate(parts):
        event = Progress("searching", number, len(parts), work_clock() - began)
        report_progress(options.progress, event)
        share = share_of_time(stop, parts, number)
        start = initial_component_world(core, part)
        found.append(
            search_component(part.objective, start, method, int(seeds[number]), share, stop)
        )
    if method in ("auto", "ilp"):
        for number, part in enumerate(parts):
            report_proofs(number)
            if stop.is_over() or is_proven(part, found[number]):
                continue
            share = share_of_time(stop, parts, number)
            found[number] = prove_component(part.objective, found[number], method, share, stop)
            if not found[number].possible:
                from lapis.network.satisfiability import contradiction_error

                raise contradiction_error(core, int(core.component[part.atom[0]]))
    report_proofs(len(parts))
    refuse_infeasible(parts, found, stop)
    return found


def is_proven(part: MapComponent, found: ComponentResult) -> bool:
    """Return whether a component's world is proven to be the best."""
    return part.objective.is_proven(found.cost, found.bound)


def share_of_time(stop: Stop, parts: list[MapComponent], number: int) -> float:
    """Return seconds for a component: its share by size, or one part of the number left."""
    left = max(0.0, stop.deadline - work_clock())
    sizes = [part.objective.num_atoms for part in parts[number:]]
    return left * max(sizes[0] / sum(sizes), 1.0 / len(sizes))


def initial_component_world(core: Network, part: MapComponent) -> np.ndarray:
    """Return a first world of a component; auxiliary atoms follow their definitions."""
    from lapis.inference.map.maxwalksat import initial_world

    start = initial_world(part.objective)
    if core.num_base_atoms == core.num_atoms:
        return start
    whole = np.zeros(core.num_atoms, bool)
    whole[part.atom] = start
    return core.complete(whole[: core.num_base_atoms])[part.atom]


def refuse_infeasible(parts: list[MapComponent], found: list[ComponentResult], stop: Stop) -> None:
    """Raise TooLarge if a component has no feasible world."""
    missing = [p.objective for p, result in zip(parts, found, strict=True) if result.world is None]
    if not missing:
        return
    worst: MapObjective = max(missing, key=lambda objective: objective.num_atoms)
    why = "before it was interrupted" if stop.requested else "within the limits given"
    raise TooLarge(
        f"no world that satisfies the hard formulas was found {why}: a connected component has "
        f"{worst.num_atoms:,} unknown atoms and {int(worst.hard.sum()):,} hard ground clauses",
        code="no-feasible-world",
        hint="give more time, or use method 'ilp', which also detects that there is none",
    )


SEARCH_SHARE = 0.3  # of a component's time for the search of an independent set
LONG_TRIES = 10  # of MaxWalkSAT where nothing follows it


def search_component(
    objective: MapObjective, start: np.ndarray, method: str, seed: int, seconds: float, stop: Stop
) -> ComponentResult:
    """Find a good world by local search; Ctrl-C ends it with the best so far."""
    from lapis.inference.map.maxwalksat import iterate_modes, search_world

    world, cost, flips, name = None, objective.cost(start), 0, "icm"
    if cost < math.inf:
        world = start
    try:
        found = iterate_modes(objective, seed=seed, start=start, stop=stop)
        flips += found.flips
        if found.cost <= cost:
            world, cost = found.world, found.cost
        if method != "icm" and cost > 0.0:
            name = "maxwalksat"
            proof_follows = method in ("auto", "ilp")
            found = search_world(
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
        stop.request()
    return ComponentResult(world, cost, name, flips=flips)


def prove_component(
    objective: MapObjective, found: ComponentResult, method: str, seconds: float, stop: Stop
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
            limit = stop.within(SEARCH_SHARE * seconds)
            best = solve_independent_set(objective, conflicts, start=found.world, stop=limit)
            found = replace(best, flips=found.flips)
        if objective.is_proven(found.cost, found.bound) or stop.is_over():
            return found
        solution = ilp.solve_integer_program(objective, start=found.world, stop=own)
    except KeyboardInterrupt:
        stop.request()
        return found
    if own.requested:
        stop.request()
    return replace(solution, bound=max(found.bound, solution.bound), flips=found.flips)


def map_problem(
    problem: Problem, method: str, options: InferenceOptions
) -> tuple[Network, MapResult]:
    """Return the network that was solved (`lazy`: the listed part) and the world.

    With `relax` the fewest hard formulas are violated if they contradict (`relaxation`).
    """
    chosen = find_method("map", method)
    found: MapResult
    if chosen.takes == "problem":
        refuse_relaxing(method, options.relax)
        refuse_network(problem.model)
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
            if method == "auto" and is_tiny(network):  # immediate: no time limit applies
                method, options = "enumerate", replace(options, stop=None, time_limit=math.inf)
            found = most_likely_world(network, method, options)
    return network, replace(found, cost=broken_weight(problem, network.counts(found.world)))


def broken_weight(problem: Problem, counts: np.ndarray) -> float:
    """Return Σ w·(groundings − n_w) over weights w > 0, plus Σ |w|·n_w over w < 0.

    This is the cost that other systems report, from true groundings, float64[num_weights]: the
    score of a world that violates nothing, less the score of this one, evidence included.
    """
    weights = problem.weight_table.value
    best = np.where(weights > 0, count_all_groundings(problem), 0.0)
    return float(np.abs(weights) @ np.abs(best - counts))
