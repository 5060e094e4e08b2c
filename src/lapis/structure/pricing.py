"""The price of a literal and the prior of a weight, both in nats of log-likelihood.

Scores are means over a predicate's atoms, so one nat of log-likelihood is 1/n_r of the mean of
predicate r. A penalty of 0.002 of the mean for each literal is 0.1 nats for 50 atoms, but 30 nats
for 15,000 atoms. So gains are counted in nats:

    worth(c) = Σ_r gain_r(c) / (c_r · κ_r)       with c_r the share of one atom, mostly 1/n_r

A rule enters if its worth exceeds its number of literals: each literal costs κ_r nats of the
predicates that the rule explains. With κ_r = π/c_r for all r this is the penalty π for each literal
of Kok and Domingos (`flat_pricing`).

The prior is Gaussian, on the weight times the largest difference that an atom makes to the clause,
that is, on the largest log-odds that the clause gives an atom. A prior on the weight alone does not
limit counts over a whole domain. Among 48 people of whom 24 are tall, tall(x) ^ tall(y) has a
difference of 23 for each tall person and of 24 for the others. A weight of −5 with a unit weight of
118 predicts every atom from the number of the others, and fails in the next world. The largest
log-odds of this clause are 120, which the prior excludes.

One weight serves several predicates. The prior is scaled by the mean of their c_r, weighted by the
information of each about the weight (the ratio of variability and sensitivity of a composite
likelihood; Varin and Vidoni 2005, "A note on composite likelihood inference and model selection").
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lapis.structure.training_data import TrainingData

WIDTH = 5.0  # of the prior of the largest log-odds that a clause gives an atom
UNIT_WIDTH = 10.0  # of unit weights
SLIGHT = 0.01  # loss of mean log-likelihood that is not worth a warning


@dataclass(frozen=True)
class Pricing:
    """The worth of gains, and the prior of weights."""

    worth: Mapping[str, float]  # by target: 1 / (c_r · κ_r)
    width: float = math.inf  # of the prior; infinite for none

    def ridge(self, shares: Sequence[float], information: Sequence[float]) -> float:
        """Return the prior's precision in units of the score.

        `shares` are c_r of the predicates that the clause explains, `information` is
        c_r · Σ p(1 − p)·d² over their atoms.
        """
        if math.isinf(self.width):
            return 0.0
        total = sum(information)
        mean = float(np.dot(shares, information)) / total if total > 0 else max(shares)
        return mean / self.width**2


class Prices(NamedTuple):
    """Nats for each literal, by target."""

    plain: Mapping[str, float]  # of clauses without a repeated target
    coupling: Mapping[str, float]  # of the others


class PredicateGain(NamedTuple):
    """The mean gain of an atom over unit clauses, in nats."""

    held_out: float
    training: float  # on the data that the same rules were learned from


@dataclass(frozen=True)
class HeldOut:
    """The gain of rules in parts of the data that they were not learned from.

    The penalties were chosen on the same parts, so the gain is slightly optimistic.
    """

    split_by: str  # "worlds", or the type whose constants were split
    num_folds: int
    predicates: Mapping[str, PredicateGain]  # that differ from part to part

    @property
    def gain(self) -> float:
        """The gain in units of the score: a sum over predicates."""
        return sum(own.held_out for own in self.predicates.values())

    @property
    def training_gain(self) -> float:
        return sum(own.training for own in self.predicates.values())

    @property
    def lost(self) -> tuple[str, ...]:
        """The predicates that keep less than half of their gain."""
        return tuple(
            name
            for name, own in self.predicates.items()
            if own.held_out < own.training / 2 and own.training - own.held_out > SLIGHT
        )


def flat_pricing(data: TrainingData) -> Pricing:
    """Return the pricing in units of the score."""
    return Pricing(dict.fromkeys(data.targets, 1.0))


def nat_pricing(
    data: TrainingData, nats: Mapping[str, float] | None = None, width: float = WIDTH
) -> Pricing:
    """Return the pricing in nats, divided by the prices κ_r if they are given."""
    prices = nats if nats is not None else dict.fromkeys(data.targets, 1.0)
    return Pricing({n: 1.0 / (data.atom_share[n] * prices[n]) for n in data.targets}, width)
