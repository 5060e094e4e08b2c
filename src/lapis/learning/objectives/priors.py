"""Priors on weights: what is believed of them before the data.

    none            log P(w) = 0
    gaussian        log P(w) = −Σ (w_i − m_i)² / (2 s_i²)
    l1              log P(w) = −Σ λ_i |w_i − m_i|

up to constants. A prior keeps a weight finite that the data alone would drive to infinity
(section "Bayesian Weight Learning" of the notes); l1 sets those that do not matter to m exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lapis.errors import LapisError
from lapis.optimisation.objective import Objective, PenalizedObjective

KINDS = ("none", "gaussian", "l1")
DEFAULT_STRENGTH = {"none": 0.0, "gaussian": 10.0, "l1": 1.0}

Numbers = float | np.ndarray


@dataclass(frozen=True)
class Prior:
    """`strength` is the width s of a Gaussian or the λ of l1, one number or one a parameter.

    >>> print(parse_prior("gaussian:2"))
    gaussian:2
    """

    kind: str
    strength: Numbers
    mean: Numbers = 0.0

    def __post_init__(self) -> None:
        strength = np.asarray(self.strength, np.float64)
        least = 0.0 if self.kind == "l1" else np.nextafter(0.0, 1.0)
        held = self.kind == "none" or bool(np.all((strength >= least) & (strength < np.inf)))
        if self.kind not in KINDS or not held or not np.all(np.isfinite(self.mean)):
            raise bad_prior(f"{self.kind}:{self.strength}")

    def __str__(self) -> str:
        if self.kind == "none":
            return "none"
        strength = f"{self.strength:g}" if isinstance(self.strength, float | int) else "(each)"
        return f"{self.kind}:{strength}"

    def precision(self, size: int) -> np.ndarray:
        """Precisions of a Gaussian prior.

        Parameters
        ----------
        size
            Number of weights.

        Returns
        -------
        numpy.ndarray
            float64[size], 1/s²; 0 for other priors.

        Raises
        ------
        LapisError
            If the prior has numbers of its own for another number of weights.
        """
        if self.kind != "gaussian":
            return np.zeros(size)
        return 1.0 / self._each(self.strength, size) ** 2

    def slope(self, size: int) -> np.ndarray | None:
        """Strengths of an l1 prior.

        Parameters
        ----------
        size
            Number of weights.

        Returns
        -------
        numpy.ndarray or None
            float64[size], λ; None for other priors.

        Raises
        ------
        LapisError
            If the prior has numbers of its own for another number of weights.
        """
        return self._each(self.strength, size) if self.kind == "l1" else None

    def holds(self, size: int) -> np.ndarray:
        """Find the weights that the prior keeps finite whatever the data says.

        Parameters
        ----------
        size
            Number of weights.

        Returns
        -------
        numpy.ndarray
            bool[size].

        Raises
        ------
        LapisError
            If the prior has numbers of its own for another number of weights.
        """
        slope = self.slope(size)
        return np.full(size, self.kind == "gaussian") if slope is None else slope > 0

    def means(self, size: int) -> np.ndarray:
        """Means of the prior.

        Parameters
        ----------
        size
            Number of weights.

        Returns
        -------
        numpy.ndarray
            float64[size].

        Raises
        ------
        LapisError
            If the prior has numbers of its own for another number of weights.
        """
        return self._each(self.mean, size)

    def origin(self, size: int) -> np.ndarray:
        """Weights that optimisers see as 0: the corners of l1.

        Parameters
        ----------
        size
            Number of weights.

        Returns
        -------
        numpy.ndarray
            float64[size].

        Raises
        ------
        LapisError
            If the prior has numbers of its own for another number of weights.
        """
        return self.means(size) if self.kind == "l1" else np.zeros(size)

    def _each(self, number: Numbers, size: int) -> np.ndarray:
        values = np.asarray(number, np.float64)
        if values.ndim and values.shape != (size,):
            raise LapisError(
                f"the prior has {len(values)} numbers for {size} parameters", code="prior"
            )
        return np.broadcast_to(values, size).copy()


def parse_prior(text: str) -> Prior:
    """A prior from the words of the command line: none, gaussian[:sd], l1[:lambda]."""
    kind, _, number = text.partition(":")
    if kind not in KINDS:
        raise bad_prior(text)
    try:
        strength = float(number) if number else DEFAULT_STRENGTH[kind]
    except ValueError:
        raise bad_prior(text) from None
    if (kind == "none" and number) or (kind != "none" and not 0 < strength < np.inf):
        raise bad_prior(text)
    return Prior(kind, strength)


def with_prior(
    objective: Objective, prior: Prior, base: np.ndarray, fixed: np.ndarray
) -> PenalizedObjective:
    """The objective with a prior, of the parameters that are not fixed.

    `base` float64[num_parameters] holds the fixed weights, `fixed` bool[num_parameters] says
    which they are; the prior's numbers are those of all parameters.
    """
    size = len(base)
    free = np.flatnonzero(~fixed)
    slope = prior.slope(size)
    return PenalizedObjective(
        objective,
        free,
        base.copy(),
        prior.precision(size)[free],
        prior.means(size)[free],
        prior.origin(size)[free],
        None if slope is None else slope[free],
    )


def bad_prior(text: str) -> LapisError:
    return LapisError(
        f"{text!r} is not a prior",
        code="prior",
        hint="one of none, gaussian, gaussian:2 (its width), l1, l1:0.5 (its strength)",
    )
