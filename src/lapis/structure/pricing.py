"""What a rule must earn, and how large its weight may be: both in log-likelihood of atoms.

Scores are means over a predicate's atoms, so one nat of log-likelihood is 1/n_r of the mean of
predicate r, and a price in units of the mean is n_r times as many nats. A hundredth of the score a
rule is little for 50 atoms and more than all there is to explain for 15,000 of which 100 are true.
So gains are paid in nats:

    worth(c) = Σ_r gain_r(c) / (c_r · κ_r)       with c_r the share of one atom, mostly 1/n_r

and a rule enters if worth(c) exceeds its number of literals: each literal costs κ_r nats of the
predicates that it explains. With κ_r = π/c_r for all r this is the penalty π for each literal of the
score, as Kok and Domingos charge it (`flat_pricing`).

The prior is Gaussian, of the largest difference that an atom makes to the clause times the weight:
of the most that the clause can say about an atom, in log-odds. A prior of the weight itself lets
counts over a whole domain through: tall(x) ^ !tall(y) has differences of 24 and 25 among 48 people,
of whom those who are tall count one tall person less. A weight of 5 then tells every atom from the
number of the others, and −120 as unit weight; in the next world, in which another number is tall,
all of it is wrong. The most that this clause says is 120, which no prior of log-odds lets pass. One
weight serves several predicates: its prior counts in the mean of their nats, weighed by the
information that each has about it (the ratio of variability and sensitivity of a composite
likelihood; Varin and Vidoni 2005).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lapis.structure.training_data import TrainingData

WIDTH = 5.0  # of the prior of what a clause says about an atom, in log-odds
UNIT_WIDTH = 10.0  # of unit weights


@dataclass(frozen=True)
class Pricing:
    """What gains are worth, and the prior of weights."""

    worth: Mapping[str, float]  # by target: 1 / (c_r · κ_r)
    width: float = math.inf  # of the prior; infinite for none

    def ridge(self, shares: Sequence[float], information: Sequence[float]) -> float:
        """The prior's precision in units of the score.

        `shares` are c_r of the predicates that the clause explains; `information` is
        c_r · Σ p(1 − p)·d² over their atoms.
        """
        if math.isinf(self.width):
            return 0.0
        total = sum(information)
        mean = float(np.dot(shares, information)) / total if total > 0 else max(shares)
        return mean / self.width**2


class Prices(NamedTuple):
    """Nats for each literal, by target."""

    plain: Mapping[str, float]  # of clauses in which no target occurs twice
    coupling: Mapping[str, float]  # of the others


class HeldOut(NamedTuple):
    """What rules learned without a part of the data are worth there; sums over the parts."""

    split_by: str  # "worlds", or the type whose constants were split
    num_parts: int
    gain: Mapping[str, float]  # by target: nats gained over unit clauses in the part held out
    training_gain: Mapping[str, float]  # by target: nats an atom gained in training × held-out atoms
    num_atoms: Mapping[str, float]


def flat_pricing(data: TrainingData) -> Pricing:
    """Gains as they are."""
    return Pricing(dict.fromkeys(data.targets, 1.0))


def nat_pricing(
    data: TrainingData, nats: Mapping[str, float] | None = None, width: float = WIDTH
) -> Pricing:
    """Gains in nats, divided by the price κ_r of a literal where prices are given."""
    prices = nats if nats is not None else dict.fromkeys(data.targets, 1.0)
    return Pricing({n: 1.0 / (data.atom_share[n] * prices[n]) for n in data.targets}, width)
