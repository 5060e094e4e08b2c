"""Cluster moves: what wants to agree turns over together.

Swendsen and Wang (Nonuniversal critical dynamics in Monte Carlo simulations, Phys. Rev. Lett. 58,
1987), in the form of Edwards and Sokal (1988). Where attraction dominates, a chain of single flips
waits for ever: to leave a world in which everybody smokes, friends would have to stop one by one
against all the others. Here a random part of the contented pairs is bonded, and each cluster of
bonded atoms turns over as a whole, with the probability that its fields ask for. A mode is left
in one move, if another is likelier.

Where we deviate: fields are no ghost atom but weigh on the clusters they are in, which is the same
distribution with the ghost summed out. Nothing is switched to make couplings positive: a pair
that wants to differ is bonded where it differs, and a cluster turns with all its differences.
Clauses that are no pairs take part by their scores: a cluster that touches some is turned and
stays so with the probability of heat bath, or is turned back; atoms of blocks hold their clusters.
A Gibbs sweep follows every cluster move, for them and because its probabilities vary less than what
is drawn: the mixture of both has the model as its stationary distribution. Where most atoms hang
together in one cluster that never turns, moves change less than sweeps and cost more. A chain that
sees this in the samples 17 to 32 of its warm-up has a move before every third sweep from then on:
among a hundred thousand friends a sample is worth as much and costs two thirds.

On frustrated couplings clusters grow over everything at weights where nothing is ordered yet; then
these moves turn all or nothing, and the chain is as fast as Gibbs at twice the cost. Never wrong.

What a network says of single atoms and of pairs of them, as couplings and fields.

With s = ±1 for true and false, a soft clause of two literals with signs σ, τ and weight w is

    w·[l₁ ∨ l₂] = const + (w/4)(σ s₁ + τ s₂ − σ τ s₁ s₂)

so all soft clauses of one or two base atoms together are Σ h_i s_i + Σ J_ij s_i s_j, whatever their
signs. Samplers that move many atoms at once walk on these numbers; the clauses they do not cover
(hard, long, or of auxiliary atoms) keep their weights in `rest`, where the others have 0.
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
from lapis.inference.sampling.tally import Tallies
from lapis.network.csr import row_starts
from lapis.network.network import Network

PAIR_WORK, ATOM_WORK = 2.2, 5.0  # literals of a sweep that a pair and an atom cost, as measured


class ClusterState(NamedTuple):
    """One chain; `step` changes its arrays in place."""

    gibbs: gibbs.GibbsState
    clusters: Clusters


class ClusterInfo(NamedTuple):
    bonds: int
    clusters: int
    turned: int  # atoms that changed with their cluster
    changes: int  # units that changed in the sweeps


@dataclass(frozen=True)
class ClusterSampler:
    """Swendsen–Wang moves and Gibbs sweeps; one sample is one of each, or a sweep alone."""

    name: str = "cluster"

    def prepare(self, network: Network) -> ClusterPlan:
        return build_couplings(Gibbs().prepare(network))

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
            plan_of_gibbs.graph, plan_of_gibbs.units, *coupled, chain.world, chain.estimate,
            chain.rng, chain.score, chain.digit, state.clusters, tallies, num_samples,
        )  # fmt: skip
        return ClusterInfo(bonds, clusters, turned, changes)

    def work(self, plan: ClusterPlan, state: ClusterState) -> float:
        moves = PAIR_WORK * len(plan.pairs.one) + ATOM_WORK * len(plan.pairs.field)
        return plan.sweep_work + moves

    def reweigh(
        self, plan: ClusterPlan, state: ClusterState, weights: np.ndarray
    ) -> tuple[ClusterPlan, ClusterState]:
        after, chain = Gibbs().reweigh(plan.gibbs, state.gibbs, weights)
        return build_couplings(after), state._replace(gibbs=chain)

    def counts(self, state: ClusterState) -> np.ndarray:
        return Gibbs().counts(state.gibbs)

    def world(self, state: ClusterState) -> np.ndarray:
        return Gibbs().world(state.gibbs)


class ClusterPlan(NamedTuple):
    """A Gibbs plan, its couplings, and who is resampled by them alone."""

    gibbs: GibbsPlan
    pairs: PairCouplings
    near: Neighbours
    plain: np.ndarray  # int32[...], plain atoms that are units by themselves
    order: np.ndarray  # int32[...], all other units
    freeze: np.ndarray  # float64[num_pairs], 1 − exp(−2|J|); negative where a pair wants to differ

    @property
    def ergodic(self) -> bool | None:
        return self.gibbs.ergodic

    @property
    def sweep_work(self) -> float:
        """In visits of literals; a coupling of a plain atom is a third of one."""
        own = np.diff(self.near.start)[self.plain].sum() / 3 + 2 * len(self.plain)
        units = self.gibbs.units
        atom_unit = units.unit_of_variable[units.variable_of_atom]
        others = np.zeros(len(units.single), bool)
        others[self.order] = True
        return float(own) + sweep_work(self.gibbs, others[atom_unit])


def build_couplings(plan: GibbsPlan) -> ClusterPlan:
    """The couplings of a Gibbs sampler's network, under its weights."""
    pairs = find_pairs(plan.network, plan.graph)
    single = plan.units.single
    plain = (single >= 0) & pairs.plain[np.maximum(single, 0)] if len(single) else single >= 0
    order = np.flatnonzero(~plain).astype(np.int32)
    freeze = -np.sign(pairs.coupling) * np.expm1(-2.0 * np.abs(pairs.coupling))
    return ClusterPlan(plan, pairs, find_neighbours(pairs), single[plain], order, freeze)


def find_neighbours(pairs: PairCouplings) -> Neighbours:
    """Each pair at both of its atoms."""
    atom = np.concatenate((pairs.one, pairs.other))
    order = np.argsort(atom, kind="stable")
    return Neighbours(
        row_starts(np.bincount(atom, minlength=len(pairs.field))),
        np.concatenate((pairs.other, pairs.one))[order],
        np.tile(pairs.coupling, 2)[order],
    )


def find_pairs(network: Network, graph: ClauseGraph) -> PairCouplings:
    """The couplings and fields of a network under the graph's weights."""
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
    """float64[base], of clauses of one literal and of two, int32[num_clauses, 2]."""
    place = np.concatenate((np.abs(alone) - 1, np.abs(ends).ravel() - 1))
    pull = weight * np.sign(alone) / 2, (weight_of_two[:, None] * np.sign(ends) / 4).ravel()
    return sum_by_place(place, np.concatenate(pull), base)


def find_couplings(
    ends: np.ndarray, weight: np.ndarray, base: int
) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of clauses of two literals, int64[num_pairs] of low·base + high, and J."""
    atoms = np.abs(ends) - 1
    low, high = atoms.min(axis=1, initial=base), atoms.max(axis=1, initial=0)
    key, place = np.unique(low.astype(np.int64) * base + high, return_inverse=True)
    sign = np.sign(ends)
    coupling = sum_by_place(place, -weight * sign[:, 0] * sign[:, 1] / 4, len(key))
    real = coupling != 0
    return key[real], coupling[real]


def sum_by_place(place: np.ndarray, amount: np.ndarray, size: int) -> np.ndarray:
    """float64[size], the amounts added up by place; numpy's own makes integers of nothing."""
    return np.bincount(place, amount, size).astype(np.float64)
