"""Replicas at several temperatures, swept by Gibbs and swapped with their neighbours.

Level l samples exp(β_l · score) over the feasible worlds, β_0 = 1. Two neighbours exchange their
worlds with probability min(1, exp((β_l − β_{l+1}) (score_{l+1} − score_l))); here they exchange
places, so nothing is copied. Scores are weights · counts, and counts are exact: no rounding
gathers in them however long the chain runs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.inference.random_numbers import uniform
from lapis.inference.sampling.clause_graph import WorldCounters
from lapis.inference.sampling.gibbs_kernel import sweep
from lapis.inference.sampling.tally import record_sample
from lapis.runtime.kernels import entry, inner


class Ladder(NamedTuple):
    beta: np.ndarray  # float64[num_levels], from 1 down to 0
    holder: np.ndarray  # int64[num_levels], the replica at each level
    tried: np.ndarray  # float64[num_levels − 1], swaps tried with the next level
    accepted: np.ndarray  # float64[num_levels − 1], sum of their acceptance probabilities
    parity: np.ndarray  # int64[1], which pairs are next: even or odd ones


@inner
def _swap_neighbours(ladder, replicas, weights, rng):  # type: ignore[no-untyped-def]
    """Try to swap every second pair of levels; returns how many were."""
    swaps = 0
    ladder.parity[0] = 1 - ladder.parity[0]
    for level in range(ladder.parity[0], len(ladder.beta) - 1, 2):
        one, other = ladder.holder[level], ladder.holder[level + 1]
        gain = 0.0
        for index in range(len(weights)):
            gain += weights[index] * (replicas.count[other, index] - replicas.count[one, index])
        chance = min(1.0, np.exp(min(0.0, (ladder.beta[level] - ladder.beta[level + 1]) * gain)))
        ladder.tried[level] += 1.0
        ladder.accepted[level] += chance
        if uniform(rng) < chance:
            ladder.holder[level], ladder.holder[level + 1] = other, one
            swaps += 1
    return swaps


@entry
def run_tempering(
    graph, units, replicas, ladder, weights, order, estimate, aside, rng, score, digit, tallies,
    num_samples,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Rounds of a sweep at every level and one of swaps; level 0 is tallied.

    `replicas` are worlds, stacked: a `WorldCounters` whose arrays have a row for each.
    """
    updates, swaps = 0, 0
    for _ in range(num_samples):
        for level in range(len(ladder.beta)):
            row = ladder.holder[level]
            world = WorldCounters(
                replicas.value[row], replicas.true_literals[row], replicas.definition_true[row],
                replicas.count[row], replicas.change[row], replicas.stack[row],
            )  # fmt: skip
            into = estimate if level == 0 else aside
            more, _ = sweep(
                graph, units, graph.weight, ladder.beta[level], world, order, into, rng, score,
                digit,
            )  # fmt: skip
            updates += more
        row = ladder.holder[0]
        record_sample(tallies, estimate, replicas.count[row], replicas.value[row])
        swaps += _swap_neighbours(ladder, replicas, weights, rng)
    return updates, swaps
