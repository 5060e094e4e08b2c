"""Exact moments of the components that inference solves exactly, by junction trees or by counts.

A plan (`exact.by_components`, `symmetry.by_counts`) is made once and solved at the weights of each
iteration: log Z and the expected statistics of one solve are exact. Second moments are derivatives
of first ones,

    Cov[z]·v = d/dt E_{θ+tv}[z]  at t = 0,

taken by central differences that Richardson extrapolation refines until two estimates agree
(Ridders 1982): two solves a level, three or four levels to ten digits. The first step is relative
to the largest change of a clause's weight, so that it means the same for any direction. Ridders
also stops when a level is worse than the one before; where many atoms turn over together the
first levels are all bad, and that rule ended with errors of 15 %.

The diagonal costs one such product for each parameter that these components depend on. Where that
is too much work it is estimated from exact, independent samples drawn with a fixed seed: the same
weights always give the same estimate, of about 10 % standard error, which is all that a
preconditioner needs. Beside components that are sampled, products come from a few such samples too:
ten digits of one part are worth nothing where the other parts have one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from lapis.inference.exact.by_components import ExactResult
from lapis.inference.moments.covariance import SampleCovariance, count_worlds, sum_fields
from lapis.inference.moments.statistics import Statistics
from lapis.network.network import Network

FIRST_STEP = 0.02  # of the largest change of a clause's weight
MAX_LEVELS = 12
AGREEMENT = 1e-8  # of two estimates; the better one has about twice as many digits
MAX_DIFFERENCED = 50_000  # parameters × entries of tables
NUM_SAMPLES = 200
FEW_SAMPLES = 20  # where other components are sampled


class WeightlessPlan(Protocol):
    """How components are solved at any weights: by junction trees, or by counts."""

    @property
    def network(self) -> Network: ...

    @property
    def affordable(self) -> np.ndarray:
        """bool[num_atoms], those of the components that are solved."""

    @property
    def num_entries(self) -> int:
        """Of all tables; a solve takes about as long."""

    def solve(self, weights: np.ndarray) -> ExactResult: ...

    def sample(
        self, num_samples: int, rng: np.random.Generator, weights: np.ndarray
    ) -> np.ndarray: ...

    def for_sampling(self) -> tuple[WeightlessPlan, np.ndarray] | None:
        """A plan that can draw samples, and the atom of this plan that each of its atoms is."""


@dataclass(frozen=True)
class Exact:
    """The components of a network that a plan solves."""

    statistics: Statistics
    plan: WeightlessPlan
    atom: np.ndarray  # int64[plan.network.num_atoms], the ground atom each one is
    rough: bool = False  # second moments are estimated, as those of other components are
    name: str = "exact"
    is_exact: bool = True

    def moments(self, natural: np.ndarray) -> ExactMoments:
        return ExactMoments(self, natural, self.plan.solve(natural))

    @cached_property
    def largest_coefficient(self) -> np.ndarray:
        """float64[num_statistics], how much a clause's weight changes with θ; 0 if unused."""
        network = self.plan.network
        affordable = self.plan.affordable[network.first_atom]
        clauses = np.flatnonzero(affordable & (network.weight_id >= 0))
        largest = np.zeros(self.statistics.num_statistics)
        np.maximum.at(largest, network.weight_id[clauses], np.abs(network.coefficient[clauses]))
        return largest

    @cached_property
    def parameters(self) -> np.ndarray:
        """int64[...], the parameters that these components depend on."""
        rows = self.statistics.design[np.flatnonzero(self.largest_coefficient)]
        return np.unique(rows.indices)

    @cached_property
    def sampling(self) -> tuple[WeightlessPlan, np.ndarray] | None:
        """A plan that can draw samples, and the plan's atoms it is of; None if it is too large."""
        return self.plan.for_sampling()


@dataclass(frozen=True)
class ExactMoments:
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
        """The covariance by independent samples; None where they are too large a matter."""
        if self.source.sampling is None:
            return None
        plan, atom = self.source.sampling
        size = FEW_SAMPLES if self.source.rough else NUM_SAMPLES
        worlds = plan.sample(size, np.random.default_rng(0), self.natural)
        drawn = count_worlds(plan.network, worlds)
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
    """The derivative at 0 by Ridders' method: central differences, extrapolated to step 0.

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
            doubt = max(distance(row[-1], row[-2]), distance(row[-1], coarse))
            if doubt < error:
                best, error = row[-1], doubt
        rounding = float(np.abs(above).max()) * np.finfo(float).eps / step
        if before and error <= AGREEMENT * float(np.abs(best).max()) + 4.0 * rounding:
            return best
        before = row
        step /= 2.0
    return best


def distance(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one - other).max())
