"""Cluster moves (Swendsen–Wang) for strongly coupled pairs of atoms.

Swendsen and Wang (1987, "Nonuniversal critical dynamics in Monte Carlo simulations"), in the form
of Edwards and Sokal (1988). If most couplings are attractive, single flips leave a mode only very
slowly: coupled atoms would have to change one by one. Here a random subset of the satisfied pairs
is bonded, and each cluster of bonded atoms flips as a whole, with a probability that depends on its
fields. One move can change the mode.

With s = ±1 for true and false, a soft clause of two literals with signs σ, τ and weight w is

    w·[l₁ ∨ l₂] = const + (w/4)(σ s₁ + τ s₂ − σ τ s₁ s₂)

so all soft clauses of one or two base atoms sum to Σ h_i s_i + Σ J_ij s_i s_j. All other clauses
(hard, long, or with auxiliary atoms) keep their weights in `rest`, where the former have 0.

Deviations: fields act on clusters directly instead of through a ghost atom, which is the same
distribution with the ghost summed out. Couplings of either sign are allowed: a pair with J < 0 is
bonded if its atoms differ. Clauses in `rest` enter by their scores: a cluster that they touch is
flipped, and flipped back unless the heat-bath probability accepts it. Clusters with atoms of blocks
do not move. A Gibbs sweep follows every cluster move, for these atoms and because conditional
probabilities vary less than drawn values; the combination has the model as its stationary
distribution. If most atoms are in one cluster that never flips, moves change less than sweeps and
cost more. A chain measures this in the samples 17 to 32 of its warm-up, and then makes a move only
before every third sweep: with 100,000 people a sample is as good and costs two thirds.

With frustrated couplings a cluster may contain all atoms at weights without any order. Then the
moves are useless, and the chain is as good as Gibbs at twice the cost, but never wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lapis.inference.sampling import gibbs
from lapis.inference.sampling.clause_graph import ClauseGraph
from lapis.inference.sampling.cluster_kernel import (
    Clusters,
    Neighbours,
    PairCouplings,
    new_clusters,
    run_clusters,
)
from lapis.inference.sampling.gibbs import Gibbs, GibbsPlan, sweep_work
from lapis.inference.sampling.jumps import Jumps
from lapis.inference.sampling.tally import Tallies
from lapis.network.csr import row_starts
from lapis.network.network import Network

PAIR_WORK, ATOM_WORK = 2.2, 5.0  # cost of a pair and an atom in visits of literals, as measured


class ClusterState(NamedTuple):
    """One chain; `step` changes its arrays in place."""

    gibbs: gibbs.GibbsState
    clusters: Clusters


class ClusterInfo(NamedTuple):
    bonds: int
    clusters: int
    turned: int  # atoms that flipped with their cluster
    changes: int  # units that changed in the sweeps


@dataclass(frozen=True)
class ClusterSampler:
    """Swendsen–Wang moves and Gibbs sweeps; a sample is one of each, or only a sweep."""

    name: str = "cluster"

    def prepare(self, network: Network) -> ClusterPlan:
        return find_cluster_couplings(Gibbs().prepare(network))

    def start(self, plan: ClusterPlan, chain: int, rng: np.ndarray) -> np.ndarray:
        return Gibbs().start(plan.gibbs, chain, rng)

    def init(self, plan: ClusterPlan, world: np.ndarray, rng: np.ndarray) -> ClusterState:
        state = Gibbs().init(plan.gibbs, world, rng)
        return ClusterState(state, new_clusters(len(plan.pairs.field)))

    def step(
        self, plan: ClusterPlan, state: ClusterState, tallies: Tallies, num_samples: int
    ) -> ClusterInfo:
        chain, (plan_of_gibbs, *coupled) = state.gibbs, plan
        bonds, clusters, turned, _, changes = run_clusters(
            plan_of_gibbs.graph, plan_of_gibbs.units, plan_of_gibbs.jumps, *coupled, chain.world,
            chain.estimate, chain.rng, chain.score, chain.digit, state.clusters, tallies,
            num_samples,
        )  # fmt: skip
        return ClusterInfo(bonds, clusters, turned, changes)

    def work(self, plan: ClusterPlan, state: ClusterState) -> float:
        moves = PAIR_WORK * len(plan.pairs.one) + ATOM_WORK * len(plan.pairs.field)
        return plan.sweep_work + moves

    def reweigh(
        self, plan: ClusterPlan, state: ClusterState, weights: np.ndarray
    ) -> tuple[ClusterPlan, ClusterState]:
        after, chain = Gibbs().reweigh(plan.gibbs, state.gibbs, weights)
        return find_cluster_couplings(after), state._replace(gibbs=chain)

    def counts(self, state: ClusterState) -> np.ndarray:
        return Gibbs().counts(state.gibbs)

    def world(self, state: ClusterState) -> np.ndarray:
        return Gibbs().world(state.gibbs)


class ClusterPlan(NamedTuple):
    """A Gibbs plan, its couplings, and the atoms that depend on couplings only."""

    gibbs: GibbsPlan
    pairs: PairCouplings
    near: Neighbours
    plain: np.ndarray  # int32[...], plain atoms that are single units
    order: np.ndarray  # int32[...], all other units
    freeze: np.ndarray  # float64[num_pairs], 1 − exp(−2|J|) with the sign of J

    @property
    def ergodic(self) -> bool | None:
        return self.gibbs.ergodic

    def with_jumps(self, jumps: Jumps) -> ClusterPlan:
        return self._replace(gibbs=self.gibbs.with_jumps(jumps))

    @property
    def sweep_work(self) -> float:
        """The cost of a sweep in visits of literals; a coupling costs a third of a visit."""
        own = np.diff(self.near.start)[self.plain].sum() / 3 + 2 * len(self.plain)
        units = self.gibbs.units
        atom_unit = units.unit_of_variable[units.variable_of_atom]
        others = np.zeros(len(units.single), bool)
        others[self.order] = True
        return float(own) + sweep_work(self.gibbs, others[atom_unit])


def find_cluster_couplings(plan: GibbsPlan) -> ClusterPlan:
    """Compute the couplings of a Gibbs plan's network."""
    pairs = find_pairs(plan.network, plan.graph)
    single = plan.units.single
    plain = (single >= 0) & pairs.plain[np.maximum(single, 0)] if len(single) else single >= 0
    order = np.flatnonzero(~plain).astype(np.int32)
    freeze = -np.sign(pairs.coupling) * np.expm1(-2.0 * np.abs(pairs.coupling))
    return ClusterPlan(plan, pairs, list_neighbours(pairs), single[plain], order, freeze)


def list_neighbours(pairs: PairCouplings) -> Neighbours:
    """List each pair at both of its atoms."""
    atom = np.concatenate((pairs.one, pairs.other))
    order = np.argsort(atom, kind="stable")
    return Neighbours(
        row_starts(np.bincount(atom, minlength=len(pairs.field))),
        np.concatenate((pairs.other, pairs.one))[order],
        np.tile(pairs.coupling, 2)[order],
    )


def find_pairs(network: Network, graph: ClauseGraph) -> PairCouplings:
    """Compute the couplings and fields of a network with the graph's weights."""
    base = network.num_base_atoms
    length = np.diff(graph.clause_start)
    first = graph.literal[graph.clause_start[:-1]]
    soft = np.isfinite(graph.weight)
    unit = soft & (length == 1) & (np.abs(first) <= base)
    two = np.flatnonzero(soft & (length == 2))
    ends = graph.literal[graph.clause_start[two][:, None] + np.arange(2)]
    inside = (np.abs(ends) <= base).all(axis=1)
    two, ends = two[inside], ends[inside]
    field = find_fields(first[unit], graph.weight[unit], ends, graph.weight[two], base)
    key, coupling = find_couplings(ends, graph.weight[two], base)
    del first, soft, ends, inside

    rest = graph.weight.copy()
    rest[unit] = 0.0
    rest[two] = 0.0
    in_block = np.zeros(base, bool)
    in_block[network.block_atom] = True
    plain = ~in_block & (np.diff(graph.use_start)[:base] == 0)
    atom = np.abs(graph.literal) - 1
    mine = np.repeat(rest != 0, length) & (atom < base)
    plain[atom[mine]] = False
    size = np.where(np.isinf(rest), 0.0, np.abs(rest))
    slack = sum_by_place(atom[mine], np.repeat(size, length)[mine], base)
    slack[np.diff(graph.use_start)[:base] > 0] = np.inf
    return PairCouplings(
        (key // max(base, 1)).astype(np.int32), (key % max(base, 1)).astype(np.int32),
        coupling, field, rest, plain, slack, in_block,
    )  # fmt: skip


def find_fields(
    alone: np.ndarray, weight: np.ndarray, ends: np.ndarray, weight_of_two: np.ndarray, base: int
) -> np.ndarray:
    """Compute fields float64[base] from clauses of one literal and of two, int32[n, 2]."""
    place = np.concatenate((np.abs(alone) - 1, np.abs(ends).ravel() - 1))
    parts = weight * np.sign(alone) / 2, (weight_of_two[:, None] * np.sign(ends) / 4).ravel()
    return sum_by_place(place, np.concatenate(parts), base)


def find_couplings(
    ends: np.ndarray, weight: np.ndarray, base: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs as int64[num_pairs] of low·base + high, and their J."""
    atoms = np.abs(ends) - 1
    low, high = atoms.min(axis=1, initial=base), atoms.max(axis=1, initial=0)
    key, place = np.unique(low.astype(np.int64) * base + high, return_inverse=True)
    sign = np.sign(ends)
    coupling = sum_by_place(place, -weight * sign[:, 0] * sign[:, 1] / 4, len(key))
    real = coupling != 0
    return key[real], coupling[real]


def sum_by_place(place: np.ndarray, amount: np.ndarray, size: int) -> np.ndarray:
    """Sum amounts by place to float64[size]; np.bincount returns integers if there are none."""
    return np.bincount(place, amount, size).astype(np.float64)
