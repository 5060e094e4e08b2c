"""Moments of the components that are too large to solve, from the samples of persistent chains.

Thesis section 4.2: a few samples of a chain that is never restarted give the expected counts and,
as the same counts' covariance, the curvature. Two things are done to make five samples go a
long way, and both vanish as samples become many.

- Fields are averaged over P(atom | rest), not over the values drawn (Rao–Blackwell).
- A covariance of five samples has rank four: a word that no draw touched would have variance 0.
  The block of the fields is shrunk towards independent atoms, Σ p(1 − p), which five samples
  know well:

      Cov[z] ≈ [ C_tt   √α·C_tf ]                                α = (S − 1) / (S − 1 + ν)
               [ √α·C_ft  α·C_ff + (1 − α)·diag Σ p(1 − p) ]

  for tied statistics t, fields f, sample covariances C of S draws. This stays positive
  semidefinite, being α times (or √α) a sample covariance plus a diagonal.

Standard errors are those of batch means: each chain is cut into at most `MAX_BATCHES` pieces. With
a handful of samples the pieces are the samples, and what correlation they have is not seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lapis.grounding.network import Network
from lapis.inference.recording import batch_mean
from lapis.learning.chain import Chain
from lapis.learning.statistics import Statistics

MAX_BATCHES = 16  # a chain
SHRINKAGE = 5.0  # ν, how many draws the independent atoms count for
ROWS_AT_ONCE = 64  # of samples turned into counts of parameters


@dataclass(frozen=True)
class Sampled:
    """Components of a network that chains run on."""

    statistics: Statistics
    network: Network
    atom: np.ndarray  # int64[network.num_atoms], the ground atom each one is
    chains: tuple[Chain, ...]
    num_samples: int  # a chain and evaluation
    name: str

    @property
    def is_exact(self) -> bool:
        return False

    def moments(self, natural: np.ndarray) -> SampledMoments:
        num_batches = min(self.num_samples, MAX_BATCHES)
        draws = [chain.draw(natural, self.num_samples, num_batches) for chain in self.chains]
        size = np.concatenate([drawn.size for drawn in draws])
        share = size / size.sum()
        estimate = np.concatenate([drawn.estimate for drawn in draws])
        means = np.concatenate([drawn.count_means() for drawn in draws])
        self._estimate_fields(means, estimate)
        probability = share @ estimate
        return SampledMoments(
            self,
            share @ means,
            means,
            share,
            np.concatenate([drawn.counts for drawn in draws]),
            probability,
            self._sum_fields(probability * (1.0 - probability)),
        )

    def _estimate_fields(self, means: np.ndarray, estimate: np.ndarray) -> None:
        """Put the sums of their atoms' estimates in the place of the counts of fields."""
        field = self.statistics.field[self.atom]
        is_field = np.unique(field[field >= 0])
        for mean, probability in zip(means, estimate, strict=True):
            mean[is_field] = self._sum_fields(probability)[is_field]

    def _sum_fields(self, values: np.ndarray) -> np.ndarray:
        """float64[num_statistics], numbers for atoms added up by field; 0 for tied statistics."""
        field = self.statistics.field[self.atom]
        counted = field >= 0
        return np.bincount(field[counted], values[counted], self.statistics.num_statistics)


@dataclass(frozen=True)
class SampledMoments:
    source: Sampled
    mean: np.ndarray  # float64[num_statistics]
    batch: np.ndarray  # float64[num_batches, num_statistics], the means of pieces of the chains
    share: np.ndarray  # float64[num_batches]
    drawn: np.ndarray  # float64[num_draws, num_statistics]
    probability: np.ndarray  # float64[network.num_atoms]
    spread: np.ndarray  # float64[num_statistics], Σ p(1 − p) over the atoms of a field

    @property
    def log_partition(self) -> None:
        return None

    def mean_variance(self) -> np.ndarray:
        counts = self.source.statistics.to_parameters(self.batch)
        return batch_mean(counts, self.share)[1] ** 2

    @property
    def shrinkage(self) -> float:
        """α, the share of the sample covariance in the block of the fields."""
        freedom = len(self.drawn) - 1
        return freedom / (freedom + SHRINKAGE)

    @property
    def deviations(self) -> np.ndarray:
        """float64[num_draws, num_statistics], whose products are the sampled part of Cov[z]."""
        centered = (self.drawn - self.drawn.mean(axis=0)) / np.sqrt(len(self.drawn) - 1)
        scaled: np.ndarray = np.where(self.spread > 0, np.sqrt(self.shrinkage), 1.0) * centered
        return scaled

    def covariance_product(self, direction: np.ndarray) -> np.ndarray:
        deviations = self.deviations
        sampled = deviations.T @ (deviations @ direction)
        product: np.ndarray = sampled + (1.0 - self.shrinkage) * self.spread * direction
        return product

    def count_variance(self) -> np.ndarray:
        statistics = self.source.statistics
        shrunk = (1.0 - self.shrinkage) * self.spread
        variance: np.ndarray = statistics.squared_design.T @ shrunk
        deviations = self.deviations
        for first in range(0, len(deviations), ROWS_AT_ONCE):
            counts = statistics.to_parameters(deviations[first : first + ROWS_AT_ONCE])
            variance += np.einsum("sp,sp->p", counts, counts)
        return variance

    def set_marginals(self, probability: np.ndarray) -> None:
        probability[self.source.atom] = self.probability
