"""The objective of the weights that are free to move, with their prior.

    value      objective(w) − Σ (w_i − m_i)² p_i / 2        p = 1/s², zero without a Gaussian
    gradient   ∇objective − p (w − m)
    curvature  −∇²objective + diag(p)

Fixed weights stay where they are and are not seen by the optimiser. L1 has a corner, so it is
left to the optimisers, which know how to stop there; they see weights less its means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lapis.learning.objectives.priors import Prior
from lapis.optimisation.objective import Around, Moving, Objective, Point


@dataclass(frozen=True)
class PosteriorPoint:
    posterior: Posterior
    weights: np.ndarray  # float64[num_free]
    inner: Point  # of the objective, at all weights

    @property
    def value(self) -> float | None:
        if self.inner.value is None:
            return None
        return self.inner.value + self.posterior.gaussian(self.weights)

    @property
    def gradient(self) -> np.ndarray:
        posterior = self.posterior
        pull: np.ndarray = posterior.precision * (self.weights - posterior.mean)
        taken: np.ndarray = self.inner.gradient[posterior.free]
        return taken - pull

    @property
    def gradient_stderr(self) -> np.ndarray | None:
        stderr = self.inner.gradient_stderr
        return None if stderr is None else stderr[self.posterior.free]

    def curvature_diagonal(self) -> np.ndarray:
        taken: np.ndarray = self.inner.curvature_diagonal()[self.posterior.free]
        return taken + self.posterior.precision

    def curvature_product(self, direction: np.ndarray) -> np.ndarray:
        posterior = self.posterior
        everywhere = np.zeros(posterior.objective.num_parameters)
        everywhere[posterior.free] = direction
        taken: np.ndarray = self.inner.curvature_product(everywhere)[posterior.free]
        return taken + posterior.precision * direction


@dataclass(frozen=True)
class Posterior(Around):
    """An objective of the free weights alone."""

    free: np.ndarray  # int64[num_free], the parameters that move
    base: np.ndarray  # float64[num_parameters], values of those that do not
    precision: np.ndarray  # float64[num_free]
    mean: np.ndarray  # float64[num_free]
    l1: np.ndarray | None  # float64[num_free], left to the optimiser
    origin: np.ndarray  # float64[num_free], subtracted from the weights the optimiser sees

    @property
    def num_parameters(self) -> int:
        return len(self.free)

    @property
    def true_counts(self) -> np.ndarray:
        return self.objective.true_counts[self.free]

    def gaussian(self, weights: np.ndarray) -> float:
        """−Σ (w_i − m_i)² p_i / 2, of weights float64[num_free] as the optimiser sees them."""
        return -0.5 * float(self.precision @ (weights - self.mean) ** 2)

    def log_prior(self, weights: np.ndarray) -> float:
        """The log-density of the free weights, L1 included, up to a constant."""
        corner = 0.0 if self.l1 is None else float(self.l1 @ np.abs(weights))
        return self.gaussian(weights) - corner

    def keep(self) -> dict[str, np.ndarray]:
        return self.objective.keep() if isinstance(self.objective, Moving) else {}

    def resume(self, kept: Mapping[str, np.ndarray]) -> None:
        if isinstance(self.objective, Moving):
            self.objective.resume(kept)

    def evaluate(self, weights: np.ndarray) -> PosteriorPoint:
        return PosteriorPoint(self, weights, self.objective.evaluate(self.all_weights(weights)))

    def all_weights(self, weights: np.ndarray) -> np.ndarray:
        """float64[num_parameters], the fixed weights included."""
        everywhere = self.base.copy()
        everywhere[self.free] = weights + self.origin
        return everywhere

    def free_weights(self, weights: np.ndarray) -> np.ndarray:
        """float64[num_free], what the optimiser sees of weights float64[num_parameters]."""
        return weights[self.free] - self.origin


def with_prior(
    objective: Objective, prior: Prior, base: np.ndarray, fixed: np.ndarray
) -> Posterior:
    """The posterior of the parameters that are not fixed.

    `base` float64[num_parameters] holds the fixed weights, `fixed` bool[num_parameters] says
    which they are; the prior's numbers are those of all parameters.
    """
    size = len(base)
    free = np.flatnonzero(~fixed)
    slope = prior.slope(size)
    return Posterior(
        objective,
        free,
        base.copy(),
        prior.precision(size)[free],
        prior.means(size)[free],
        None if slope is None else slope[free],
        prior.origin(size)[free],
    )
