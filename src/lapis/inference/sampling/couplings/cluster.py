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
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lapis.inference.sampling import gibbs
from lapis.inference.sampling.couplings.pairs import Coupled, couple
from lapis.inference.sampling.gibbs import Gibbs
from lapis.inference.sampling.kernels.cluster import Clusters, new_clusters, run_clusters
from lapis.inference.sampling.kernels.tally import Tallies
from lapis.network.network import Network

PAIR_WORK, ATOM_WORK = 2.2, 5.0  # literals of a sweep that a pair and an atom cost, as measured


class State(NamedTuple):
    """One chain; `step` changes its arrays in place."""

    gibbs: gibbs.State
    clusters: Clusters


class Info(NamedTuple):
    bonds: int
    clusters: int
    turned: int  # atoms that changed with their cluster
    changes: int  # units that changed in the sweeps


@dataclass(frozen=True)
class Cluster:
    """Swendsen–Wang moves and Gibbs sweeps; one sample is one of each, or a sweep alone."""

    name: str = "cluster"

    def prepare(self, network: Network) -> Coupled:
        return couple(Gibbs().prepare(network))

    def start(self, plan: Coupled, chain: int, rng: np.ndarray) -> np.ndarray:
        return Gibbs().start(plan.gibbs, chain, rng)

    def init(self, plan: Coupled, world: np.ndarray, rng: np.ndarray) -> State:
        state = Gibbs().init(plan.gibbs, world, rng)
        return State(state, new_clusters(len(plan.pairs.field)))

    def step(self, plan: Coupled, state: State, tallies: Tallies, num_samples: int) -> Info:
        chain, (plan_of_gibbs, *coupled) = state.gibbs, plan
        bonds, clusters, turned, _, changes = run_clusters(
            plan_of_gibbs.graph, plan_of_gibbs.units, *coupled, chain.world, chain.estimate,
            chain.rng, chain.score, chain.digit, state.clusters, tallies, num_samples,
        )  # fmt: skip
        return Info(bonds, clusters, turned, changes)

    def work(self, plan: Coupled, state: State) -> float:
        moves = PAIR_WORK * len(plan.pairs.one) + ATOM_WORK * len(plan.pairs.field)
        return plan.sweep_work + moves

    def reweigh(self, plan: Coupled, state: State, weights: np.ndarray) -> tuple[Coupled, State]:
        after, chain = Gibbs().reweigh(plan.gibbs, state.gibbs, weights)
        return couple(after), state._replace(gibbs=chain)

    def counts(self, state: State) -> np.ndarray:
        return Gibbs().counts(state.gibbs)

    def world(self, state: State) -> np.ndarray:
        return Gibbs().world(state.gibbs)
