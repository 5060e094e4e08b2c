"""Moments of components that are too large to solve, from samples of persistent chains.

Lowd's thesis, section 4.2: a few samples of a chain give the expected counts and, by their
covariance (`SampleCovariance`), the curvature. Fields are averaged over P(atom | rest), not over
the values drawn (Rao–Blackwell).

A chain continues from the last world of the evaluation before. Contrastive divergence then needs no
burn-in, since the weights change little between iterations (thesis section 4.2.2; Tieleman 2008).
It starts at the training data, where all hard clauses hold, or at a stored world.

Standard errors are those of batch means: each chain is cut into at most `MAX_BATCHES` batches. With
few samples the batches are the samples, and their correlation is not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from lapis.inference.moments.exact import SampleCovariance, sum_fields
from lapis.inference.moments.statistics import Statistics
from lapis.inference.sampling.recovery import average_batches
from lapis.inference.sampling.sampler import PlanType, Sampler, StateType
from lapis.inference.sampling.tally import new_tallies
from lapis.network.network import Network
from lapis.runtime.processes import ThreadPool, num_cores

MAX_BATCHES = 16  # a chain


@dataclass(frozen=True)
class SampledComponents:
    """Components of a network that are sampled by chains."""

    statistics: Statistics
    network: Network
    atom: np.ndarray  # int64[network.num_atoms], the ground atom each one is
    chains: tuple[PersistentChain[Any, Any], ...]
    num_samples: int  # a chain and evaluation
    name: str
    is_exact: bool = False

    def keep(self) -> list[np.ndarray]:
        return [array for chain in self.chains for array in chain.keep()]

    def resume(self, kept: Sequence[np.ndarray]) -> None:
        for number, chain in enumerate(self.chains):
            chain.resume(kept[2 * number : 2 * number + 2])

    def moments(self, natural: np.ndarray) -> SampledMoments:
        num_batches = min(self.num_samples, MAX_BATCHES)
        draws = map_in_threads(
            lambda chain: chain.draw(natural, self.num_samples, num_batches), self.chains
        )
        size = np.concatenate([drawn.size for drawn in draws])
        share = size / size.sum()
        estimate = np.concatenate([drawn.estimate for drawn in draws])
        means = np.concatenate([drawn.count_means() for drawn in draws])
        self._estimate_fields(means, estimate)
        probability = share @ estimate
        covariance = SampleCovariance(
            self.statistics,
            np.concatenate([drawn.counts for drawn in draws]),
            sum_fields(self.statistics, self.atom, probability * (1.0 - probability)),
        )
        return SampledMoments(self, share @ means, means, share, covariance)

    def _estimate_fields(self, means: np.ndarray, estimate: np.ndarray) -> None:
        """Replace the counts of fields by the sums of their atoms' estimates."""
        field = self.statistics.field[self.atom]
        is_field = np.unique(field[field >= 0])
        for mean, probability in zip(means, estimate, strict=True):
            mean[is_field] = sum_fields(self.statistics, self.atom, probability)[is_field]


@dataclass(frozen=True)
class SampledMoments:
    """The moments of sampled components."""

    source: SampledComponents
    mean: np.ndarray  # float64[num_statistics]
    batch: np.ndarray  # float64[num_batches, num_statistics], the means of pieces of the chains
    share: np.ndarray  # float64[num_batches]
    covariance: SampleCovariance
    log_partition: None = None

    def mean_variance(self) -> np.ndarray:
        counts = self.source.statistics.to_parameters(self.batch)
        return average_batches(counts, self.share)[1] ** 2

    def covariance_product(self, direction: np.ndarray) -> np.ndarray:
        return self.covariance.product(direction)

    def count_variance(self) -> np.ndarray:
        return self.covariance.count_variance()


Item = TypeVar("Item")
Result = TypeVar("Result")


class SampleBatches(NamedTuple):
    """Consecutive samples of a chain, in batches."""

    counts: np.ndarray  # float64[num_samples, num_weights], true groundings in the worlds drawn
    size: np.ndarray  # int64[num_batches], samples in each batch
    # float64[num_batches, num_atoms], means of P(atom | rest), of the value for auxiliary atoms
    estimate: np.ndarray

    def count_means(self) -> np.ndarray:
        """Return the mean counts of each batch, float64[num_batches, num_weights]."""
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
        """Start at a feasible world, bool[num_atoms], or search for one.

        `number` distinguishes chains of the same network that search for their starts.
        """
        self.sampler, self.network, self.rng = sampler, network, rng
        self.plan = sampler.prepare(network)
        if world is None:
            world = sampler.start(self.plan, number, rng)
        self.state = sampler.init(self.plan, world, rng)

    def world(self) -> np.ndarray:
        """Return the current world, bool[num_atoms]."""
        return self.sampler.world(self.state)

    def keep(self) -> list[np.ndarray]:
        """Return the current world, bool[num_atoms], and the generator, uint64[4]."""
        return [self.world().copy(), self.rng.copy()]

    def resume(self, kept: Sequence[np.ndarray]) -> None:
        """Continue from the stored state of a chain of the same network."""
        self.rng[:] = kept[1]
        self.state = self.sampler.init(self.plan, kept[0], self.rng)

    def draw(self, weights: np.ndarray, num_samples: int, num_batches: int) -> SampleBatches:
        """Draw the next samples under these weights, in batches of about equal size."""
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
        return SampleBatches(counts, size, estimate / size[:, None])


def map_in_threads(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Apply the work to each item, in threads: kernels release the lock. Ctrl-C waits for all."""
    if len(items) < 2:
        return [work(item) for item in items]
    with ThreadPool(min(num_cores(), len(items))) as pool:
        return list(pool.map(work, items))
