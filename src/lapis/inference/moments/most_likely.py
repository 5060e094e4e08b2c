"""The most likely world in place of the expected one, for the voted perceptron.

Collins (2002), Singla and Domingos (2005), Lowd's thesis, section 4.2.1: E[n] is replaced by n(x*)
with x* a most likely world. Components whose tables fit are maximised exactly. The others are
searched by MaxWalkSAT from the best world of the last evaluation: the weights have changed little,
so a short search suffices, and the result is never worse than its start.

A world has no covariance. Perceptrons need none, and optimisers that need a scale get the number of
true groundings, by which thesis section 4.2.3 divides learning rates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lapis.inference.exact.by_components import ExactPlan
from lapis.inference.map.map_objective import MapObjective
from lapis.inference.map.maxwalksat import initial_world, search_world
from lapis.inference.moments.statistics import Statistics
from lapis.inference.sampling.clause_graph import clause_weights
from lapis.network.csr import take_rows
from lapis.network.network import Network

MIN_FLIPS = 2_000
FLIPS_AN_ATOM = 5


@dataclass(frozen=True)
class MostLikelyExact:
    """The components that are maximised exactly."""

    statistics: Statistics
    plan: ExactPlan
    name: str = "map"
    is_exact: bool = False

    def moments(self, natural: np.ndarray) -> WorldMoments:
        affordable = self.plan.affordable
        world = self.plan.maximise(natural)
        counted = counts_of_part(self.plan.network, affordable, world)
        return WorldMoments(self.statistics, counted)


@dataclass
class MostLikelySearched:
    """Components that MaxWalkSAT searches, and the best world so far."""

    statistics: Statistics
    network: Network
    world: np.ndarray  # bool[num_atoms]
    seed: int
    name: str = "maxwalksat"
    is_exact: bool = False
    num_searches: int = 0

    def keep(self) -> list[np.ndarray]:
        return [self.world.copy(), np.array(self.num_searches)]

    def resume(self, kept: Sequence[np.ndarray]) -> None:
        self.world, self.num_searches = kept[0].copy(), int(kept[1])

    def moments(self, natural: np.ndarray) -> WorldMoments:
        objective = weighed_objective(self.network, natural)
        self.num_searches += 1
        found = search_world(
            objective,
            seed=self.seed + self.num_searches,
            max_flips=MIN_FLIPS + FLIPS_AN_ATOM * self.network.num_atoms,
            restarts=1,
            start=self.world,
        )
        if found.world is not None:
            self.world = found.world
        counted = self.network.counts(self.world)
        return WorldMoments(self.statistics, counted)


@dataclass(frozen=True)
class WorldMoments:
    """The moments of one world with probability 1."""

    statistics: Statistics
    mean: np.ndarray  # float64[num_statistics], z(x*)
    log_partition: None = None

    def mean_variance(self) -> None:
        return None

    def covariance_product(self, direction: np.ndarray) -> np.ndarray:
        return np.zeros(len(direction))

    def count_variance(self) -> np.ndarray:
        return np.zeros(self.statistics.design.shape[1])


def counts_of_part(network: Network, part: np.ndarray, world: np.ndarray) -> np.ndarray:
    """Return true groundings of the clauses over some components' atoms, float64[num_weights]."""
    counted = part[network.first_atom] & (network.weight_id >= 0) & network.is_satisfied(world)
    return np.bincount(
        network.weight_id[counted], network.coefficient[counted], len(network.weights)
    )


def first_world(network: Network, known: np.ndarray | None, seed: int) -> np.ndarray:
    """Return a world that satisfies the hard clauses, with few atoms true, bool[num_atoms].

    `known` is such a world, used only if no other is found: it is that of the training data. If all
    worlds tie, as at weights 0, a perceptron that starts there never leaves it.
    """
    objective = weighed_objective(network, np.zeros(len(network.weights)))
    found = search_world(objective, seed=seed, first_feasible=True, start=initial_world(objective))
    if found.world is not None:
        return found.world
    if known is not None:
        return known
    from lapis.inference.map.solver import most_likely_world
    from lapis.inference.marginals import InferenceOptions

    return most_likely_world(network, options=InferenceOptions(seed=seed)).world


def weighed_objective(network: Network, weights: np.ndarray) -> MapObjective:
    """Return the objective of a search, without clauses of weight 0.

    `objective_of` would also merge equal clauses, which takes longer than a short search.
    """
    weight = clause_weights(weights, network.weight_id, network.coefficient)
    start, literal = network.clause_start, network.literal
    nonzero = np.flatnonzero(weight != 0)
    if len(nonzero) < len(weight):
        start, literal = take_rows(start, literal, nonzero)
        weight = weight[nonzero]
    return MapObjective(
        network.num_atoms, start, literal, weight,
        network.block_start, network.block_atom, network.block_exact,
    )  # fmt: skip
