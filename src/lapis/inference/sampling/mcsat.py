"""MC-SAT: slice sampling with a constraint solver, without bias.

Poon and Domingos (2006, "Sound and efficient inference with probabilistic and deterministic
dependencies"); thesis sections 2.2 and 4.3. An auxiliary variable for each clause, uniform on
[0, exp(w·1[clause])], turns the model into the uniform distribution over the worlds that satisfy a
random subset of the clauses, the slice: each true clause of weight w is kept with probability
1 − exp(−w). Deterministic and nearly deterministic clauses are then no obstacle.

The distribution within the slice must be uniform, or another model is sampled. Alchemy's marginals
have a mean error of 0.17 at n = 10, however long it runs. Taking SampleSAT's first solution at
every sample makes ours wrong in the same way (0.085, `benchmarks/samplers.py`). So

- atoms that no kept clause constrains are drawn by a fair coin at every sample;
- a small component of the slice gets a uniform draw from the list of its solutions;
- in a large component the chain moves from its current world, which satisfies the slice, by moves
  that preserve the uniform distribution (`mcsat_kernel`).

Each sample ends with a Gibbs sweep under the model's own weights. The stationary distribution is
exactly that of the model. In exchange there are no jumps to unrelated solutions of a large
component; `restart_probability` > 0 makes them by SampleSAT, which is only nearly uniform, and the
events then count the `restarts`.

A false clause with w < 0 stays false with probability 1 − exp(w), which fixes all its literals. A
weighted formula that is not a clause is several clauses of one weight (disjoint cubes). Each has
its own slice: their sum is the feature, so the product of their slices is its slice, without
approximation.

What did not work: without the Gibbs sweep, chains stayed in worlds of probability 1e-11 if two
strong clauses exclude each other, since the slice keeps the one that is true.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lapis.inference.random_numbers import draw_uniform
from lapis.inference.sampling.clause_graph import (
    ClauseGraph,
    WorldCounters,
    build_graph,
    clause_weights,
    make_counters,
)
from lapis.inference.sampling.gibbs_units import (
    GibbsUnits,
    build_units,
    clause_literals,
    clause_strength,
)
from lapis.inference.sampling.mcsat_kernel import (
    NUM_EVENTS,
    BacktrackArrays,
    Moves,
    Scratch,
    Slice,
    draw_constraints,
    new_scratch,
    new_search,
    new_slice,
    run_mcsat,
)
from lapis.inference.sampling.samplesat import find_solution
from lapis.inference.sampling.starting_worlds import overdispersed_start
from lapis.inference.sampling.tally import Tallies
from lapis.network.network import Network

SLICE_WORK = 6.0  # cost of a sample relative to a Gibbs sweep, as measured


class McsatPlan(NamedTuple):
    """The data that all chains share."""

    network: Network
    graph: ClauseGraph
    units: GibbsUnits
    keep: np.ndarray  # float64[num_clauses], 1 − exp(−|weight|)
    frozen: np.ndarray  # bool[num_base_atoms], atoms that Gibbs sweeps may not move
    ergodic: bool | None


class McsatState(NamedTuple):
    """One chain; `step` changes its arrays in place."""

    world: WorldCounters
    part: Slice
    search: BacktrackArrays
    scratch: Scratch
    estimate: np.ndarray  # float64[num_base_atoms], E[atom | slice] if available
    rng: np.ndarray  # uint64[4]


class McsatInfo(NamedTuple):
    solved_components: int  # drawn uniformly from all solutions
    large_components: int
    kept_clauses: int
    regions: int
    excursions: int
    returned_excursions: int
    restarts: int
    failed_restarts: int  # SampleSAT found no solution: the state was kept


@dataclass(frozen=True)
class MCSAT:
    """MC-SAT; one sample is one slice."""

    node_budget: int = 4096  # nodes of the search for all solutions of a component
    sweeps: int = 1  # Gibbs sweeps through the large components of a slice
    restart_probability: float = 0.0
    restart_flips: int = 100_000
    name: str = "mcsat"

    def __post_init__(self) -> None:
        if self.sweeps < 1:
            raise ValueError("large components need at least one sweep")

    def prepare(self, network: Network) -> McsatPlan:
        graph = build_graph(network, keep_definitional=True)
        units, ergodic = build_units(network, graph)
        frozen = frozen_atoms(graph, ergodic)
        return McsatPlan(network, graph, units, keep_probability(graph), frozen, ergodic)

    def start(self, plan: McsatPlan, chain: int, rng: np.ndarray) -> np.ndarray:
        return overdispersed_start(plan.network, plan.graph, plan.units, chain, rng)

    def init(self, plan: McsatPlan, world: np.ndarray, rng: np.ndarray) -> McsatState:
        return McsatState(
            make_counters(plan.graph, len(plan.network.weights), world),
            new_slice(plan.graph, plan.units),
            new_search(plan.graph),
            new_scratch(plan.graph, plan.units, plan.frozen),
            np.zeros(plan.network.num_base_atoms),
            rng,
        )

    def reweigh(
        self, plan: McsatPlan, state: McsatState, weights: np.ndarray
    ) -> tuple[McsatPlan, McsatState]:
        network, graph = plan.network.with_weights(weights), plan.graph
        weight = clause_weights(weights, graph.weight_id, graph.coefficient)
        reweighed = graph._replace(weight=weight)
        keep = keep_probability(reweighed)
        if np.array_equal(clause_strength(graph), clause_strength(reweighed)):
            return plan._replace(network=network, graph=reweighed, keep=keep), state
        units, ergodic = build_units(network, reweighed)
        frozen = frozen_atoms(reweighed, ergodic)
        after = McsatPlan(network, reweighed, units, keep, frozen, ergodic)
        return after, self.init(after, self.world(state), state.rng)

    def step(
        self, plan: McsatPlan, state: McsatState, tallies: Tallies, num_samples: int
    ) -> McsatInfo:
        moves = Moves(self.node_budget, self.sweeps)
        events = np.zeros(NUM_EVENTS, np.int64)
        restarts, failed = 0, 0
        at_once = 1 if self.restart_probability > 0 else num_samples
        for _ in range(0, num_samples, at_once):
            run_mcsat(
                plan.graph, plan.units, plan.keep, state.world, state.part, state.search,
                state.scratch, moves, state.estimate, events, state.rng, tallies, at_once,
            )  # fmt: skip
            if self.restart_probability > 0 and draw_uniform(state.rng) < self.restart_probability:
                restarts += 1
                failed += not restart(plan, state, self.restart_flips)
        return McsatInfo(*[*events.tolist(), restarts, failed])

    def work(self, plan: McsatPlan, state: McsatState) -> float:
        return SLICE_WORK * len(plan.graph.literal)

    def counts(self, state: McsatState) -> np.ndarray:
        return state.world.count

    def world(self, state: McsatState) -> np.ndarray:
        return state.world.value.astype(bool)


def keep_probability(graph: ClauseGraph) -> np.ndarray:
    """Return float64[num_clauses], P(kept) of a true clause (false if its weight is negative)."""
    keep: np.ndarray = -np.expm1(-np.abs(graph.weight))
    return keep


def frozen_atoms(graph: ClauseGraph, ergodic: bool | None) -> np.ndarray:
    """Return the atoms in hard clauses, unless Gibbs sweeps alone reach every world."""
    frozen = np.zeros(graph.first_auxiliary, bool)
    if ergodic is None:
        atom, _ = clause_literals(graph, np.flatnonzero(np.isinf(graph.weight)))
        frozen[atom[atom < graph.first_auxiliary]] = True
    return frozen


def restart(plan: McsatPlan, state: McsatState, max_flips: int) -> bool:
    """Draw a slice and replace the world by SampleSAT's solution; False if none is found."""
    draw_constraints(plan.graph, plan.units, plan.keep, state.world, state.part, state.rng)
    constrained = np.zeros(plan.network.num_atoms, bool)
    length = np.diff(plan.graph.clause_start)
    active = np.repeat(state.part.active, length)
    constrained[np.abs(plan.graph.literal[active]) - 1] = True
    constrained[plan.network.block_atom] = True
    members = np.flatnonzero(constrained & ~state.part.fixed).astype(np.int32)
    num_clauses = len(length)
    return bool(
        find_solution(
            plan.graph, plan.units, state.world, state.part, members, len(members),
            np.zeros(num_clauses, np.int32), np.zeros(num_clauses, np.int32),
            np.zeros(plan.network.num_atoms, np.uint8), np.zeros(num_clauses, np.int32),
            max_flips, state.rng,
        )
    )  # fmt: skip
