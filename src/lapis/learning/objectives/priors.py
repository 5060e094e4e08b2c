"""Priors on weights.

    none            log P(w) = 0
    gaussian        log P(w) = −Σ (w_i − m_i)² / (2 s_i²)
    l1              log P(w) = −Σ λ_i |w_i − m_i|

up to constants. A prior keeps a weight finite that the data alone would drive to infinity; l1 sets
weights that change the objective little to m exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from lapis.errors import LapisError
from lapis.optimisation.objective import Objective, PenalizedObjective

KINDS = ("none", "gaussian", "l1")
DEFAULT_STRENGTH = {"none": 0.0, "gaussian": 10.0, "l1": 1.0}

Numbers = float | np.ndarray


@dataclass(frozen=True)
class Prior:
    """A prior. `strength` is the width s of a Gaussian or the λ of l1, for all weights or for each.

    >>> print(parse_prior("gaussian:2"))
    gaussian:2
    """

    kind: str
    strength: Numbers
    mean: Numbers = 0.0
    text: str = field(default="", compare=False)  # what is shown, if it is not the numbers

    def __post_init__(self) -> None:
        strength = np.asarray(self.strength, np.float64)
        least = 0.0 if self.kind == "l1" else np.nextafter(0.0, 1.0)
        held = self.kind == "none" or bool(np.all((strength >= least) & (strength < np.inf)))
        if self.kind not in KINDS or not held or not np.all(np.isfinite(self.mean)):
            raise bad_prior(f"{self.kind}:{self.strength}")

    def __str__(self) -> str:
        if self.kind == "none" or self.text:
            return self.text or "none"
        strength = f"{self.strength:g}" if isinstance(self.strength, float | int) else "(each)"
        return f"{self.kind}:{strength}"


class PriorArrays(NamedTuple):
    """The numbers of a prior, one for each weight."""

    precision: np.ndarray  # float64[size], 1/s² of a Gaussian, 0 for other priors
    mean: np.ndarray  # float64[size], m
    slope: np.ndarray  # float64[size], λ of l1, 0 for other priors
    holds: np.ndarray  # bool[size], weights that the prior keeps finite for any data
    origin: np.ndarray  # float64[size], the corners of l1, which optimisers see as 0; else 0


def expand_prior(prior: Prior, size: int) -> PriorArrays:
    """Expand a prior to arrays for `size` weights.

    Raises LapisError if the prior has its own numbers for another number of weights.
    """

    def expand(number: Numbers) -> np.ndarray:
        values = np.asarray(number, np.float64)
        if values.ndim and values.shape != (size,):
            raise LapisError(
                f"the prior has {len(values)} numbers for {size} parameters", code="prior"
            )
        return np.broadcast_to(values, size).copy()

    strength, mean, zero = expand(prior.strength), expand(prior.mean), np.zeros(size)
    if prior.kind == "l1":
        return PriorArrays(zero, mean, strength, strength > 0, mean)
    if prior.kind == "gaussian":
        return PriorArrays(1.0 / strength**2, mean, zero, np.full(size, True), zero)
    return PriorArrays(zero, mean, zero, np.full(size, False), zero)


def parse_prior(text: str) -> Prior:
    """Parse the text of a prior: none, gaussian[:width], l1[:strength]."""
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
    """Add a prior to an objective and restrict it to the parameters that are not fixed.

    `base` float64[num_parameters] holds the fixed weights; `fixed` bool[num_parameters] marks them.
    """
    arrays = expand_prior(prior, len(base))
    free = np.flatnonzero(~fixed)
    return PenalizedObjective(
        objective,
        free,
        base.copy(),
        arrays.precision[free],
        arrays.mean[free],
        arrays.origin[free],
        arrays.slope[free] if prior.kind == "l1" else None,
    )


def bad_prior(text: str) -> LapisError:
    return LapisError(
        f"{text!r} is not a prior",
        code="prior",
        hint="one of none, gaussian, gaussian:2 (its width), l1, l1:0.5 (its strength)",
    )
