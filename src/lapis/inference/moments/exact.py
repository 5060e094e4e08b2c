"""Exact moments of the components that inference solves exactly, by junction trees or by counts.

A plan (`exact.by_components`, `symmetry.by_counts`) is made once and solved at the weights of each
iteration. Second moments are derivatives of first ones,

    Cov[z]·v = d/dt E_{θ+tv}[z]  at t = 0,

by central differences with Richardson extrapolation until two estimates agree (Ridders 1982): two
solves a level, three or four levels for ten digits. The first step is relative to the largest
change of a clause's weight. Ridders also stops when a level is worse than the one before; if many
atoms change together the first levels are all bad, and that rule gave errors of 15 %.

The diagonal costs one product for each parameter of these components. If that is too much work, it
is estimated from independent samples with a fixed seed, with a standard error of about 10 %, enough
for a preconditioner. Beside sampled components, products also come from a few samples: more digits
than those of the other parts are worth nothing.

The covariance from few samples. A covariance of five samples has rank four, and a word without a
sample would have variance 0. So the block of the fields is shrunk towards independent atoms,
Σ p(1 − p), which few samples estimate well; with many samples the shrinkage vanishes:

    Cov[z] ≈ [ C_tt      √α·C_tf                       ]          α = (S − 1) / (S − 1 + ν)
             [ √α·C_ft   α·C_ff + (1 − α)·diag Σp(1−p) ]

for tied statistics t, fields f and the sample covariance C of S draws. This is the covariance
of samples whose fields are scaled by √α, plus a diagonal: positive semidefinite.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from lapis.inference.exact.by_components import ExactResult
from lapis.inference.moments.statistics import Statistics
from lapis.network.network import Network
from lapis.runtime.kernels import entry

if TYPE_CHECKING:
    pass


SHRINKAGE = 5.0  # ν, the weight of the independent atoms in draws
ROWS_AT_ONCE = 64  # samples that are turned into counts together


@dataclass(frozen=True)
class SampleCovariance:
    """The covariance of statistics from samples, shrunk towards independent atoms."""

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
        """Return Cov[z]·v, float64[num_statistics]."""
        sampled = self.deviations.T @ (self.deviations @ direction)
        return sampled + (1.0 - self.share) * self.spread * direction

    def count_variance(self) -> np.ndarray:
        """Return the diagonal of Aᵀ·Cov[z]·A, float64[num_parameters]."""
        independent = (1.0 - self.share) * self.spread
        variance: np.ndarray = self.statistics.squared_design.T @ independent
        for first in range(0, len(self.deviations), ROWS_AT_ONCE):
            rows = self.deviations[first : first + ROWS_AT_ONCE]
            counts = self.statistics.to_parameters(rows)
            variance += np.einsum("sp,sp->p", counts, counts)
        return variance


def sum_fields(statistics: Statistics, atom: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Sum values of ground atoms by field, float64[num_statistics]; 0 for tied statistics."""
    field = statistics.field[atom]
    counted = field >= 0
    return np.bincount(field[counted], values[counted], statistics.num_statistics)


def count_in_worlds(network: Network, worlds: np.ndarray) -> np.ndarray:
    """Count true groundings in worlds bool[…, num_atoms], float64[num_worlds, num_weights]."""
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


FIRST_STEP = 0.02  # of the largest change of a clause's weight
MAX_LEVELS = 12
AGREEMENT = 1e-8  # of two estimates; the better one has about twice as many digits
MAX_DIFFERENCED = 50_000  # parameters × entries of tables
NUM_SAMPLES = 200
FEW_SAMPLES = 20  # if other components are sampled


class WeightlessPlan(Protocol):
    """A plan that solves components at any weights: by junction trees, or by counts."""

    @property
    def network(self) -> Network: ...

    @property
    def affordable(self) -> np.ndarray:
        """bool[num_atoms], the atoms of the components that are solved."""

    @property
    def num_entries(self) -> int:
        """The entries of all tables, in proportion to the time of a solve."""

    def solve(self, weights: np.ndarray) -> ExactResult: ...

    def sample(
        self, num_samples: int, rng: np.random.Generator, weights: np.ndarray
    ) -> np.ndarray: ...

    def for_sampling(self) -> tuple[WeightlessPlan, np.ndarray] | None:
        """Return a plan that can draw samples, and the atom of this plan for each of its atoms."""


@dataclass(frozen=True)
class Exact:
    """The components of a network that a plan solves."""

    statistics: Statistics
    plan: WeightlessPlan
    atom: np.ndarray  # int64[plan.network.num_atoms], the ground atom each one is
    rough: bool = False  # estimate second moments, as for sampled components
    name: str = "exact"
    is_exact: bool = True

    def moments(self, natural: np.ndarray) -> ExactMoments:
        return ExactMoments(self, natural, self.plan.solve(natural))

    @cached_property
    def largest_coefficient(self) -> np.ndarray:
        """float64[num_statistics], the change of a clause's weight with θ; 0 if unused."""
        network = self.plan.network
        affordable = self.plan.affordable[network.first_atom]
        clauses = np.flatnonzero(affordable & (network.weight_id >= 0))
        largest = np.zeros(self.statistics.num_statistics)
        np.maximum.at(largest, network.weight_id[clauses], np.abs(network.coefficient[clauses]))
        return largest

    @cached_property
    def parameters(self) -> np.ndarray:
        """int64[...], the parameters of these components."""
        rows = self.statistics.design[np.flatnonzero(self.largest_coefficient)]
        return np.unique(rows.indices)

    @cached_property
    def sampling(self) -> tuple[WeightlessPlan, np.ndarray] | None:
        """A plan that can draw samples, and its atoms in the plan; None if it is too large."""
        return self.plan.for_sampling()


@dataclass(frozen=True)
class ExactMoments:
    """The moments of components solved exactly."""

    source: Exact
    natural: np.ndarray  # float64[num_statistics]
    solved: ExactResult

    @property
    def log_partition(self) -> float:
        return self.solved.log_partition

    @property
    def mean(self) -> np.ndarray:
        return self.solved.expected_count

    def mean_variance(self) -> None:
        return None

    @cached_property
    def sampled(self) -> SampleCovariance | None:
        """The covariance by independent samples; None if they are too large."""
        if self.source.sampling is None:
            return None
        plan, atom = self.source.sampling
        size = FEW_SAMPLES if self.source.rough else NUM_SAMPLES
        worlds = plan.sample(size, np.random.default_rng(0), self.natural)
        drawn = count_in_worlds(plan.network, worlds)
        probability = worlds.mean(axis=0)
        is_base = atom < len(self.solved.marginal)
        probability[is_base] = self.solved.marginal[atom[is_base]]
        statistics = self.source.statistics
        spread = sum_fields(statistics, self.source.atom[atom], probability * (1.0 - probability))
        return SampleCovariance(statistics, drawn, spread)

    def covariance_product(self, direction: np.ndarray) -> np.ndarray:
        if self.source.rough and self.sampled is not None:
            return self.sampled.product(direction)
        change = float(np.abs(self.source.largest_coefficient * direction).max(initial=0.0))
        if change == 0.0:
            return np.zeros(len(direction))

        def expected(step: float) -> np.ndarray:
            return self.source.plan.solve(self.natural + step * direction).expected_count

        return differentiate(expected, FIRST_STEP / change)

    def count_variance(self) -> np.ndarray:
        source = self.source
        work = len(source.parameters) * source.plan.num_entries
        if (source.rough or work > MAX_DIFFERENCED) and self.sampled is not None:
            return self.sampled.count_variance()
        design = source.statistics.design.tocsc()
        variance = np.zeros(design.shape[1])
        for parameter in source.parameters:
            column = design[:, [parameter]].toarray().ravel()
            variance[parameter] = column @ self.covariance_product(column)
        return variance


def differentiate(function: Callable[[float], np.ndarray], first_step: float) -> np.ndarray:
    """Return the derivative at 0 by Ridders' method: central differences, extrapolated.

    >>> bool(abs(differentiate(lambda t: np.sin(np.array([t, 2 * t])), 0.5) - [1, 2]).max() < 1e-12)
    True
    """
    best, error = np.full(1, np.nan), np.inf
    before: list[np.ndarray] = []
    step = first_step
    for _ in range(MAX_LEVELS):
        above, below = function(step), function(-step)
        row = [(above - below) / (2.0 * step)]
        for order, coarse in enumerate(before, start=1):
            row.append(row[-1] + (row[-1] - coarse) / (4.0**order - 1.0))
            doubt = max(largest_difference(row[-1], row[-2]), largest_difference(row[-1], coarse))
            if doubt < error:
                best, error = row[-1], doubt
        rounding = float(np.abs(above).max()) * np.finfo(float).eps / step
        if before and error <= AGREEMENT * float(np.abs(best).max()) + 4.0 * rounding:
            return best
        before = row
        step /= 2.0
    return best


def largest_difference(one: np.ndarray, other: np.ndarray) -> float:
    """Return max |one − other|."""
    return float(np.abs(one - other).max())
