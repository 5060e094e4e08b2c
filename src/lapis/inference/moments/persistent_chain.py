"""A chain that outlives the weights: each evaluation goes on from the last world of the one before.

Contrastive divergence needs no burn-in if the chain is kept from one iteration of learning to
the next, since the weights change little between them (thesis section 4.2.2; Tieleman 2008 names
it persistent). It starts at the training data, as Hinton's does, where all hard clauses hold, or at
a world kept from an earlier run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from lapis.inference.sampling.kernels.tally import new_tallies
from lapis.inference.sampling.sampler import PlanType, Sampler, StateType
from lapis.network.network import Network
from lapis.runtime.processes import num_cores

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
        return np.add.reduceat(self.counts, first) / self.size[:, None]


class PersistentChain(Generic[PlanType, StateType]):
    """A sampler's plan and state; `draw` changes both."""

    def __init__(
        self,
        sampler: Sampler[PlanType, StateType],
        network: Network,
        world: np.ndarray | None,
        number: int,
        rng: np.ndarray,
    ) -> None:
        """At a feasible world, bool[num_atoms], or at one that is searched for.

        `number` tells chains of the same network apart that search for their starts.
        """
        self.sampler, self.network, self.rng = sampler, network, rng
        self.plan = sampler.prepare(network)
        if world is None:
            world = sampler.start(self.plan, number, rng)
        self.state = sampler.init(self.plan, world, rng)

    def world(self) -> np.ndarray:
        """bool[num_atoms], the current world."""
        return self.sampler.world(self.state)

    def keep(self) -> list[np.ndarray]:
        """The current world bool[num_atoms] and the generator uint64[4]: all that a chain is."""
        return [self.world().copy(), self.rng.copy()]

    def resume(self, kept: Sequence[np.ndarray]) -> None:
        """Go on from where a chain of the same network was kept."""
        self.rng[:] = kept[1]
        self.state = self.sampler.init(self.plan, kept[0], self.rng)

    def draw(self, weights: np.ndarray, num_samples: int, num_batches: int) -> Draws:
        """The next samples under these weights, in batches of about equal size."""
        sampler = self.sampler
        self.plan, self.state = sampler.reweigh(self.plan, self.state, weights)
        base, nothing = self.network.num_base_atoms, np.empty(0)
        counts = np.empty((num_samples, len(weights)))
        size = np.bincount(np.arange(num_samples) * num_batches // num_samples)
        estimate = np.zeros((num_batches, self.network.num_atoms))
        sample = 0
        for batch in range(num_batches):
            tallies = new_tallies(base, nothing)
            for _ in range(size[batch]):
                sampler.step(self.plan, self.state, tallies, 1)
                counts[sample] = sampler.counts(self.state)
                estimate[batch, base:] += sampler.world(self.state)[base:]
                sample += 1
            estimate[batch, :base] = tallies.atoms.batch_sum.sum(axis=0)
        return Draws(counts, size, estimate / size[:, None])


def on_all_cores(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """The work on each item, in threads: kernels let each other run. On Ctrl-C all is finished."""
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(num_cores(), len(items))) as pool:
        return list(pool.map(work, items))
