"""Moments of the components that are too large to solve, from the samples of persistent chains.

Thesis section 4.2: a few samples of a chain that is never restarted give the expected counts and,
as the same counts' covariance (`expectation_covariance`), the curvature. Fields are averaged over
P(atom | rest), not over the values drawn (Rao–Blackwell).

Standard errors are those of batch means: each chain is cut into at most `MAX_BATCHES` pieces. With
a handful of samples the pieces are the samples, and what correlation they have is not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lapis.inference.moments.exact import SampleCovariance, sum_fields
from lapis.inference.moments.persistent_chain import PersistentChain, on_all_cores
from lapis.inference.moments.statistics import Statistics
from lapis.inference.sampling.recovery import batch_mean
from lapis.network.network import Network

MAX_BATCHES = 16  # a chain


@dataclass(frozen=True)
class Sampled:
    """Components of a network that chains run on."""

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
        draws = on_all_cores(
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
        """Put the sums of their atoms' estimates in the place of the counts of fields."""
        field = self.statistics.field[self.atom]
        is_field = np.unique(field[field >= 0])
        for mean, probability in zip(means, estimate, strict=True):
            mean[is_field] = sum_fields(self.statistics, self.atom, probability)[is_field]


@dataclass(frozen=True)
class SampledMoments:
    source: Sampled
    mean: np.ndarray  # float64[num_statistics]
    batch: np.ndarray  # float64[num_batches, num_statistics], the means of pieces of the chains
    share: np.ndarray  # float64[num_batches]
    covariance: SampleCovariance
    log_partition: None = None

    def mean_variance(self) -> np.ndarray:
        counts = self.source.statistics.to_parameters(self.batch)
        return batch_mean(counts, self.share)[1] ** 2

    def covariance_product(self, direction: np.ndarray) -> np.ndarray:
        return self.covariance.product(direction)

    def count_variance(self) -> np.ndarray:
        return self.covariance.count_variance()
