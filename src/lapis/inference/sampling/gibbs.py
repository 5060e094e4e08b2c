"""Gibbs sampling, blocked and Rao–Blackwellised.

Each unit (an atom, a block, a small group: `gibbs_units`) is drawn in turn from its distribution
given all others, which depends only on the clauses of the unit (thesis section 2.2; Geman and Geman
1984, "Stochastic relaxation, Gibbs distributions, and the Bayesian restoration of images").
Averages are taken over the conditional probabilities E[x | rest], not over the drawn values: the
mean is the same and the variance never larger (Gelfand and Smith 1990).

Units are visited in a fixed order, which has the same stationary distribution as a random one and
reads memory in sequence. Hard clauses across units may disconnect the worlds; then `ergodic` is
None, and MC-SAT is the better choice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from lapis.inference.sampling.clause_graph import (
    ClauseGraph,
    WorldCounters,
    build_graph,
    clause_weights,
    make_counters,
)
from lapis.inference.sampling.cluster_kernel import (
    new_clusters,
    no_neighbours,
    no_pairs,
    run_clusters,
)
from lapis.inference.sampling.gibbs_units import GibbsUnits, build_units, clause_strength
from lapis.inference.sampling.jumps import Jumps, no_jumps
from lapis.inference.sampling.starting_worlds import overdispersed_start
from lapis.inference.sampling.tally import Tallies
from lapis.network.network import Network

HARD_WEIGHT = 12.0  # of a hard clause that `soften_hard_clauses` makes soft


class GibbsPlan(NamedTuple):
    """The data that all chains share."""

    network: Network
    graph: ClauseGraph
    cnf: ClauseGraph  # with the definitions as clauses, for the search of a start
    units: GibbsUnits
    ergodic: bool | None
    jumps: Jumps = no_jumps()

    def with_jumps(self, jumps: Jumps) -> GibbsPlan:
        """Return the plan of chains that also propose these jumps."""
        return self._replace(jumps=jumps)


class GibbsState(NamedTuple):
    """One chain; `step` changes its arrays in place."""

    world: WorldCounters
    order: np.ndarray  # int32[num_units]
    estimate: np.ndarray  # float64[num_base_atoms], P(atom | rest) at its last update
    score: np.ndarray  # float64[max_states]
    digit: np.ndarray  # int64[max_variables]
    rng: np.ndarray  # uint64[4]


class GibbsInfo(NamedTuple):
    updates: int  # atoms resampled
    changes: int  # units that changed their state


@dataclass(frozen=True)
class Gibbs:
    """The blocked Gibbs sampler; one sample is one sweep over all units."""

    name: str = "gibbs"

    def prepare(self, network: Network) -> GibbsPlan:
        graph = build_graph(network)
        has_auxiliary = network.num_atoms > network.num_base_atoms
        cnf = build_graph(network, keep_definitional=True) if has_auxiliary else graph
        units, ergodic = build_units(network, graph)
        return GibbsPlan(network, graph, cnf, units, ergodic)

    def start(self, plan: GibbsPlan, chain: int, rng: np.ndarray) -> np.ndarray:
        return overdispersed_start(plan.network, plan.cnf, plan.units, chain, rng)

    def init(self, plan: GibbsPlan, world: np.ndarray, rng: np.ndarray) -> GibbsState:
        units = plan.units
        return GibbsState(
            make_counters(plan.graph, len(plan.network.weights), world),
            np.arange(len(units.single), dtype=np.int32),
            np.zeros(plan.network.num_base_atoms),
            np.zeros(units.max_states),
            np.zeros(int(np.diff(units.unit_start).max(initial=1)), np.int64),
            rng,
        )

    def reweigh(
        self, plan: GibbsPlan, state: GibbsState, weights: np.ndarray
    ) -> tuple[GibbsPlan, GibbsState]:
        after = reweigh_plan(plan, weights)
        if after.units is plan.units:
            return after, state
        return after, self.init(after, self.world(state), state.rng)

    def step(
        self, plan: GibbsPlan, state: GibbsState, tallies: Tallies, num_samples: int
    ) -> GibbsInfo:
        *_, updates, changes = run_clusters(
            plan.graph, plan.units, plan.jumps, no_pairs(), no_neighbours(), np.empty(0, np.int32),
            state.order, np.empty(0), state.world, state.estimate, state.rng, state.score,
            state.digit, new_clusters(0), tallies, num_samples,
        )  # fmt: skip
        return GibbsInfo(updates, changes)

    def work(self, plan: GibbsPlan, state: GibbsState) -> float:
        return sweep_work(plan)

    def counts(self, state: GibbsState) -> np.ndarray:
        return state.world.count

    def world(self, state: GibbsState) -> np.ndarray:
        return state.world.value.astype(bool)


def sweep_work(plan: GibbsPlan, chosen: np.ndarray | None = None) -> float:
    """Count the literals visited by a sweep: once for a single atom, once per state for others.

    `chosen`, bool[num_base_atoms], restricts the count to some atoms.
    """
    graph, units = plan.graph, plan.units
    bits = np.log2(np.maximum(units.variable_size, 1))[units.unit_variable]
    states = np.exp2(np.bincount(units.unit_of_variable[units.unit_variable], bits))
    states[units.single >= 0] = 1.0
    atom_unit = units.unit_of_variable[units.variable_of_atom]
    degree = np.diff(graph.atom_start)[: plan.network.num_base_atoms]
    visits = states[atom_unit] * (degree + 1)
    return float(visits.sum() if chosen is None else visits[chosen].sum())


def reweigh_plan(plan: GibbsPlan, weights: np.ndarray) -> GibbsPlan:
    """Return the plan with other weights.

    Units depend on the weights only through the set of strong clauses. If that set is unchanged,
    `units` is the same object.
    """
    network, graph = plan.network.with_weights(weights), plan.graph
    weight = clause_weights(weights, graph.weight_id, graph.coefficient)
    reweighed = graph._replace(weight=weight)
    after = plan._replace(network=network, graph=reweighed)
    if np.array_equal(clause_strength(graph), clause_strength(reweighed)):
        return after
    units, ergodic = build_units(network, reweighed)
    return after._replace(units=units, ergodic=ergodic)


def soften_hard_clauses(plan: GibbsPlan) -> GibbsPlan:
    """Give hard clauses a finite weight, the last one of the network."""
    graph, network = plan.graph, plan.network
    hard = np.isinf(graph.weight)
    own = len(network.weights)
    return plan._replace(
        network=replace(
            network,
            weights=np.append(network.weights, HARD_WEIGHT),
            constant_count=np.append(network.constant_count, 0.0),
        ),
        graph=graph._replace(
            weight=np.where(hard, HARD_WEIGHT, graph.weight),
            weight_id=np.where(hard, own, graph.weight_id).astype(np.int32),
            coefficient=np.where(hard, 1.0, graph.coefficient),
        ),
    )
