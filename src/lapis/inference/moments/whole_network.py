"""The moments of a whole network: those of its parts, added up, in terms of the parameters.

An example has two sides, each a network: *free*, with the evidence given and the answers unknown,
and, where atoms are hidden, *clamped*, with the answers given too. The likelihood is the difference
of their log Z, the gradient that of their expected counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lapis.inference.moments.closed_form import Moments, Source
from lapis.inference.moments.statistics import Statistics


class Side(NamedTuple):
    """A network's statistics and the sources of their moments, one for each part of it."""

    statistics: Statistics
    sources: tuple[Source, ...]

    def at(self, weights: np.ndarray) -> SideMoments:
        natural = self.statistics.natural(weights)
        return SideMoments(self.statistics, [part.moments(natural) for part in self.sources])

    def with_rough_curvature(self) -> Side:
        """The same where second moments of other sides are sampled: no part's need be exact."""
        from lapis.inference.moments.exact import Exact

        rough = [replace(p, rough=True) if isinstance(p, Exact) else p for p in self.sources]
        return self._replace(sources=tuple(rough))


class SideMoments(NamedTuple):
    """The parts' moments at some weights; they add up."""

    statistics: Statistics
    parts: list[Moments]

    def log_partition(self, weights: np.ndarray) -> float | None:
        score = float(weights @ self.statistics.constant)
        for part in self.parts:
            if part.log_partition is None:
                return None
            score += part.log_partition
        return score

    def expected_counts(self) -> np.ndarray:
        """float64[num_parameters], E[n]."""
        mean = total((part.mean for part in self.parts), self.statistics.num_statistics)
        return self.statistics.constant + self.statistics.to_parameters(mean)

    def variance_of_mean(self) -> np.ndarray | None:
        """float64[num_parameters], the squared standard error of E[n]; None where exact."""
        known = [variance for part in self.parts if (variance := part.mean_variance()) is not None]
        return total(known, len(self.statistics.constant)) if known else None

    def covariance_product(self, direction: np.ndarray) -> np.ndarray:
        """float64[num_parameters], Cov[n]·d."""
        natural = self.statistics.natural(direction)
        product = total((p.covariance_product(natural) for p in self.parts), len(natural))
        return self.statistics.to_parameters(product)

    def count_variance(self) -> np.ndarray:
        """float64[num_parameters], Var[n]."""
        size = len(self.statistics.constant)
        return np.maximum(total((part.count_variance() for part in self.parts), size), 0.0)


def total(parts: Iterable[np.ndarray], size: int) -> np.ndarray:
    """float64[size], the sum of vectors, of which there may be none."""
    added = np.zeros(size)
    for part in parts:
        added += part
    return added
