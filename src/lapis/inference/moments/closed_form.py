"""Moments of a network's statistics, and those of lone atoms, which are logistic functions.

What learning needs to know at some weights is the same however it is found: the expected
statistics E[z], log Z where it is known, products with Cov[z], and the variances of the counts
Aᵀz. Independent parts of a network (lone atoms, components solved exactly, components sampled)
each have their moments, over the same statistics, and all of these add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from lapis.inference.moments.statistics import Statistics


class Moments(Protocol):
    """What is known of a part of a network at some natural parameters θ."""

    @property
    def log_partition(self) -> float | None:
        """None where it is not known."""

    @property
    def mean(self) -> np.ndarray:
        """float64[num_statistics], E[z]."""

    def mean_variance(self) -> np.ndarray | None:
        """float64[num_parameters], the squared standard error of Aᵀ·E[z]; None where exact."""

    def covariance_product(self, direction: np.ndarray) -> np.ndarray:
        """float64[num_statistics], Cov[z]·v."""

    def count_variance(self) -> np.ndarray:
        """float64[num_parameters], the diagonal of Aᵀ·Cov[z]·A."""


class MomentSource(Protocol):
    """A way to find the moments of a part of a network."""

    @property
    def name(self) -> str: ...

    @property
    def is_exact(self) -> bool: ...

    def moments(self, natural: np.ndarray) -> Moments: ...


@runtime_checkable
class Walking(Protocol):
    """A source that goes on from where its last moments left it: a chain or a search."""

    def keep(self) -> list[np.ndarray]:
        """Where it stands."""

    def resume(self, kept: Sequence[np.ndarray]) -> None:
        """Stand where another of the same network stood."""


@dataclass(frozen=True)
class ClosedForm:
    """The lone atoms. `most_likely`: their best values instead of their expected ones."""

    statistics: Statistics
    most_likely: bool = False
    name: str = "closed form"

    @property
    def is_exact(self) -> bool:
        return not self.most_likely

    def moments(self, natural: np.ndarray) -> LoneMoments:
        if self.most_likely:
            return LoneMoments(self.statistics, natural, (natural > 0).astype(float))
        return LoneMoments(self.statistics, natural, np.exp(-np.logaddexp(0.0, -natural)))


@dataclass(frozen=True)
class LoneMoments:
    """m_f atoms in field f, each true with probability p_f = 1 / (1 + exp(−θ_f))."""

    statistics: Statistics
    natural: np.ndarray  # float64[num_statistics]
    probability: np.ndarray  # float64[num_statistics], p

    @property
    def log_partition(self) -> float:
        coins = self.statistics.lone_count @ np.logaddexp(0.0, self.natural)
        return float(coins + self.statistics.num_loose * np.log(2.0))

    @property
    def mean(self) -> np.ndarray:
        return self.statistics.lone_count * self.probability

    @property
    def variance(self) -> np.ndarray:
        """float64[num_statistics]; statistics of lone atoms are independent."""
        return self.mean * np.exp(-np.logaddexp(0.0, self.natural))

    def mean_variance(self) -> None:
        return None

    def covariance_product(self, direction: np.ndarray) -> np.ndarray:
        return self.variance * direction

    def count_variance(self) -> np.ndarray:
        return self.statistics.squared_design.T @ self.variance
