"""A chain that outlives the weights: each evaluation goes on from the last world of the one before.

Contrastive divergence needs no burn-in if the chain is kept from one iteration of learning to
the next, since the weights change little between them (thesis section 4.2.2; Tieleman 2008 names
it persistent). It starts at the training data, as Hinton's does, where all hard clauses hold.

The arrays of a sampler's plan do not depend on the weights, but for the weight of each clause,
which is put in anew, and for the units that a Gibbs sweep moves together (`gibbs_units`): strong
clauses join atoms, so when other clauses than before are strong the units are built again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from lapis.inference.sampling.chains import available_cores
from lapis.inference.sampling.gibbs import Gibbs
from lapis.inference.sampling.gibbs import state_at as gibbs_state_at
from lapis.inference.sampling.gibbs_units import NEARLY_HARD, STRONG_WEIGHT, build_units
from lapis.inference.sampling.kernels.clause_graph import clause_weights
from lapis.inference.sampling.kernels.tally import new_tally
from lapis.inference.sampling.mcsat import MCSAT, frozen_atoms
from lapis.inference.sampling.mcsat import state_at as mcsat_state_at
from lapis.network.network import Network

Item = TypeVar("Item")
Result = TypeVar("Result")


class Draws(NamedTuple):
    """Consecutive samples of a chain, in batches."""

    counts: np.ndarray  # float64[num_samples, num_weights], true groundings in the worlds drawn
    size: np.ndarray  # int64[num_batches], samples in each batch
    # float64[num_batches, num_atoms], means of P(atom | rest), of the value for auxiliary atoms
    estimate: np.ndarray

    def count_means(self) -> np.ndarray:
        """float64[num_batches, num_weights], the counts drawn, averaged over each batch."""
        first = np.cumsum(self.size) - self.size
        means: np.ndarray = np.add.reduceat(self.counts, first) / self.size[:, None]
        return means


@dataclass
class Chain:
    """A sampler's plan and state; `draw` changes both."""

    sampler: Gibbs | MCSAT
    network: Network
    plan: Any
    state: Any
    strength: np.ndarray  # int8[num_clauses], 0, 1 strong, 2 nearly hard: what the units depend on

    def draw(self, weights: np.ndarray, num_samples: int, num_batches: int) -> Draws:
        """The next samples under these weights, in batches of about equal size."""
        self._reweigh(weights)
        nothing = new_tally(np.empty(0), np.empty(0, np.int64))
        counts = np.empty((num_samples, len(weights)))
        batch_of = np.arange(num_samples) * num_batches // num_samples
        estimate = np.zeros((num_batches, self.network.num_atoms))
        base = self.network.num_base_atoms
        for sample, batch in enumerate(batch_of):
            self.sampler.step(self.plan, self.state, nothing, nothing, 1)
            counts[sample] = self.state.world.count
            estimate[batch, :base] += self.state.estimate
            estimate[batch, base:] += self.state.world.value[base:]
        size = np.bincount(batch_of)
        return Draws(counts, size, estimate / size[:, None])

    def _reweigh(self, weights: np.ndarray) -> None:
        graph = self.plan.graph
        weight = clause_weights(weights, graph.weight_id, graph.coefficient)
        graph = graph._replace(weight=weight)
        self.plan = self.plan._replace(graph=graph)
        strength = clause_strength(graph)
        if not np.array_equal(strength, self.strength):
            self.strength = strength
            self._rebuild_units()
        elif isinstance(self.sampler, MCSAT):
            self.state.part.keep[:] = -np.expm1(-np.abs(weight))

    def _rebuild_units(self) -> None:
        graph = self.plan.graph
        units, ergodic = build_units(self.network, graph)
        plan = self.plan._replace(units=units, ergodic=ergodic)
        if isinstance(self.sampler, MCSAT):
            plan = plan._replace(frozen=frozen_atoms(graph, units, ergodic))
        self.plan = plan
        self.state = start_at(self.sampler, plan, self.state.world.value, self.state.rng)


def start_chain(
    method: str, network: Network, world: np.ndarray | None, number: int, rng: np.ndarray
) -> Chain:
    """A chain at a feasible world, bool[num_atoms], or at one that is searched for.

    `number` tells chains of the same network apart that search for their starts.
    """
    sampler = MCSAT() if method == "mcsat" else Gibbs()
    plan: Any = sampler.prepare(network)
    state: Any
    if world is None:
        state = sampler.init(plan, number, rng)
    else:
        state = start_at(sampler, plan, world, rng)
    return Chain(sampler, network, plan, state, clause_strength(plan.graph))


def start_at(sampler: Gibbs | MCSAT, plan: Any, world: np.ndarray, rng: np.ndarray) -> Any:
    at = mcsat_state_at if isinstance(sampler, MCSAT) else gibbs_state_at
    return at(plan, world, rng)


def on_all_cores(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The work on each item, in threads: kernels let each other run. On Ctrl-C all is finished."""
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(available_cores(), len(items))) as pool:
        return list(pool.map(work, items))


def clause_strength(graph: Any) -> np.ndarray:
    """int8[num_clauses], the classes of strength that `build_units` tells apart; 0 for units."""
    size = np.where(np.isinf(graph.weight), 0.0, np.abs(graph.weight))
    strength = (size >= STRONG_WEIGHT).astype(np.int8) + (size >= NEARLY_HARD)
    strength[np.diff(graph.clause_start) == 1] = 0
    return strength
