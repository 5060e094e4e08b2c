"""Whether chains of a ground network know more than the worlds that they started near.

They start in the data and outlive the weights. Where they do not leave it (Gibbs in a ferromagnet,
atoms that hard clauses tie together) the weights explain the data among worlds near it only, and
the gradient reads zero. So, as with chains by counts (`count_based`), other chains start
far away once weights are learned: with all atoms false, all true, or tossed. Where their counts
come to others than those of the chains that learned, and stay there, the weights are doubtful.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lapis.errors import LapisError
from lapis.inference.moments.persistent_chain import PersistentChain
from lapis.inference.moments.sampled import Sampled, SampledMoments
from lapis.inference.random_numbers import random_states
from lapis.learning.objectives.count_based import Seen, disagreement

if TYPE_CHECKING:
    from lapis.learning.objectives.conditional import ConditionalObjective

SAMPLES = 25  # of a chain in each of three looks
SMALL = 10_000  # literals of a network that is looked at from all starts
STARTS = (2, 0, 1, 3, 4, 5, 6, 7)  # numbers of chains: 0 all false, 1 all true, others coins


def doubtful_weights(objective: ConditionalObjective, weights: np.ndarray) -> np.ndarray:
    """int64[k], parameters whose counts depend on where a chain began, most doubtful first.

    The chains are not put back.
    """
    doubt = np.zeros(len(weights))
    for side in (*objective.free, *objective.clamped):
        natural = side.statistics.natural(weights)
        for part in side.sources:
            if isinstance(part, Sampled):
                doubt = np.maximum(doubt, doubts_of(part, natural))
    found = np.argsort(-doubt, kind="stable")
    return found[: np.count_nonzero(doubt)]


def doubts_of(part: Sampled, natural: np.ndarray) -> np.ndarray:
    """float64[num_parameters], how far other chains stay from those of the part; 0: they come."""
    before = seen(replace(part, num_samples=SAMPLES).moments(natural))
    doubt = np.zeros(len(before.moved))
    starts = STARTS if len(part.network.literal) <= SMALL else STARTS[:1]
    streams = random_states(int(part.chains[0].rng[0]), len(starts))
    for number, stream in zip(starts, streams, strict=True):
        try:
            other = PersistentChain(part.chains[0].sampler, part.network, None, number, stream)
        except LapisError:  # no world but the data's was found to start from
            continue
        away = replace(part, chains=(other,), num_samples=SAMPLES)
        first, second = seen(away.moments(natural)), seen(away.moments(natural))
        doubt = np.maximum(doubt, disagreement(before, first, second))
    return doubt


def seen(moments: SampledMoments) -> Seen:
    """What chains have seen of the counts, by parameters."""
    statistics = moments.source.statistics
    return Seen(
        statistics.to_parameters(moments.mean), moments.mean_variance(), moments.count_variance()
    )
