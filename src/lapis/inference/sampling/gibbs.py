"""Gibbs sampling, blocked and Rao–Blackwellised.

Each unit (an atom, a block, a small cluster: `gibbs_units`) is drawn in turn from its
distribution given all the others, which needs only the clauses it is in (thesis section 2.2;
Geman and Geman 1984). What is averaged is not the value drawn but the probability it was drawn
with, E[x | rest], whose mean is the same and whose variance is never larger (Gelfand and Smith
1990).

Units are visited in a fixed order, which has the same stationary distribution as a random one and
reads memory in sequence. Hard clauses that reach across units may cut the
worlds into islands; then `ergodic` is None and MC-SAT should be asked instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lapis.inference.sampling.gibbs_units import Units, build_units
from lapis.inference.sampling.kernels.clause_graph import ClauseGraph, World, build_graph, world_of
from lapis.inference.sampling.kernels.gibbs import run_gibbs
from lapis.inference.sampling.kernels.tally import Tally
from lapis.inference.sampling.starting_worlds import overdispersed_start
from lapis.network.network import Network


class Plan(NamedTuple):
    """What all chains share."""

    network: Network
    graph: ClauseGraph
    cnf: ClauseGraph  # with the definitions as clauses, for the search of a start
    units: Units
    ergodic: bool | None


class State(NamedTuple):
    """One chain; `step` changes its arrays in place."""

    world: World
    order: np.ndarray  # int32[num_units]
    estimate: np.ndarray  # float64[num_base_atoms], P(atom | rest) at its last update
    score: np.ndarray  # float64[max_states]
    digit: np.ndarray  # int64[max_variables]
    rng: np.ndarray  # uint64[4]


class Info(NamedTuple):
    updates: int  # atoms resampled
    changes: int  # units that changed their state


@dataclass(frozen=True)
class Gibbs:
    """The blocked Gibbs sampler; one sample is one sweep over all units."""

    name: str = "gibbs"

    def prepare(self, network: Network) -> Plan:
        graph = build_graph(network)
        has_auxiliary = network.num_atoms > network.num_base_atoms
        cnf = build_graph(network, keep_definitional=True) if has_auxiliary else graph
        units, ergodic = build_units(network, graph)
        return Plan(network, graph, cnf, units, ergodic)

    def init(self, plan: Plan, chain: int, rng: np.ndarray) -> State:
        start = overdispersed_start(plan.network, plan.cnf, plan.units, chain, rng)
        return state_at(plan, start.value, rng)

    def step(self, plan: Plan, state: State, atoms: Tally, counts: Tally, num_samples: int) -> Info:
        updates, changes = run_gibbs(
            plan.graph, plan.units, state.world, state.order, state.estimate, state.rng,
            state.score, state.digit, atoms, counts, num_samples,
        )  # fmt: skip
        return Info(updates, changes)

    def counts(self, state: State) -> np.ndarray:
        return state.world.count


def state_at(plan: Plan, value: np.ndarray, rng: np.ndarray) -> State:
    """The chain at a given world."""
    units = plan.units
    return State(
        world_of(plan.graph, len(plan.network.weights), value),
        np.arange(len(units.single), dtype=np.int32),
        np.zeros(plan.network.num_base_atoms),
        np.zeros(units.max_states),
        np.zeros(int(np.diff(units.unit_start).max(initial=1)), np.int64),
        rng,
    )
