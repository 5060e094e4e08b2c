"""The covariance of a network's statistics, from few samples.

A covariance of five samples has rank four, and a word that no draw touched would have variance 0.
So the block of the fields is shrunk towards independent atoms, Σ p(1 − p), which five samples know
well, as they know the probabilities p; with many samples the shrinkage vanishes:

    Cov[z] ≈ [ C_tt      √α·C_tf                       ]          α = (S − 1) / (S − 1 + ν)
             [ √α·C_ft   α·C_ff + (1 − α)·diag Σp(1−p) ]

for tied statistics t, fields f and the sample covariance C of S draws. This is the covariance
of samples whose fields are scaled by √α, plus a diagonal: positive semidefinite.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lapis.inference.moments.statistics import Statistics
from lapis.network.network import Network
from lapis.runtime.kernels import entry

SHRINKAGE = 5.0  # ν, how many draws the independent atoms count for
ROWS_AT_ONCE = 64  # of samples turned into counts of parameters


@dataclass(frozen=True)
class SampleCovariance:
    statistics: Statistics
    drawn: np.ndarray  # float64[num_draws, num_statistics]
    spread: np.ndarray  # float64[num_statistics], Σ p(1 − p) over the atoms of a field

    @property
    def share(self) -> float:
        """α, the share of the samples in the block of the fields."""
        freedom = len(self.drawn) - 1
        return freedom / (freedom + SHRINKAGE)

    @cached_property
    def deviations(self) -> np.ndarray:
        """float64[num_draws, num_statistics], whose products are the sampled part of Cov[z]."""
        centered = (self.drawn - self.drawn.mean(axis=0)) / np.sqrt(len(self.drawn) - 1)
        return np.where(self.spread > 0, np.sqrt(self.share), 1.0) * centered

    def product(self, direction: np.ndarray) -> np.ndarray:
        """float64[num_statistics], Cov[z]·v."""
        sampled = self.deviations.T @ (self.deviations @ direction)
        return sampled + (1.0 - self.share) * self.spread * direction

    def count_variance(self) -> np.ndarray:
        """float64[num_parameters], the diagonal of Aᵀ·Cov[z]·A."""
        independent = (1.0 - self.share) * self.spread
        variance: np.ndarray = self.statistics.squared_design.T @ independent
        for first in range(0, len(self.deviations), ROWS_AT_ONCE):
            rows = self.deviations[first : first + ROWS_AT_ONCE]
            counts = self.statistics.to_parameters(rows)
            variance += np.einsum("sp,sp->p", counts, counts)
        return variance


def sum_fields(statistics: Statistics, atom: np.ndarray, values: np.ndarray) -> np.ndarray:
    """float64[num_statistics], numbers for ground atoms added up by field; 0 where tied."""
    field = statistics.field[atom]
    counted = field >= 0
    return np.bincount(field[counted], values[counted], statistics.num_statistics)


def count_worlds(network: Network, worlds: np.ndarray) -> np.ndarray:
    """float64[num_worlds, num_weights], the true groundings in each world, bool[…, num_atoms]."""
    counts = np.tile(network.constant_count, (len(worlds), 1))
    _count_worlds(
        network.clause_start, network.literal, network.weight_id, network.coefficient, worlds,
        counts,
    )  # fmt: skip
    return counts


@entry
def _count_worlds(clause_start, literal, weight_id, coefficient, worlds, counts):  # type: ignore[no-untyped-def]
    for world in range(len(worlds)):
        for clause in range(len(weight_id)):
            if weight_id[clause] < 0:
                continue
            for at in range(clause_start[clause], clause_start[clause + 1]):
                if worlds[world, abs(literal[at]) - 1] == (literal[at] > 0):
                    counts[world, weight_id[clause]] += coefficient[clause]
                    break
