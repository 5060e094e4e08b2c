"""Iterated conditional modes: from random worlds, change what makes the world more likely.

Thesis section 3.3, with the random restarts that it names as a possible improvement. A flip touches
only the features above it, so a sweep costs as much as one of Gibbs sampling. The world it ends in
is a local optimum, never proven to be the best.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from lapis.fields.kernels.cached import CachedField
from lapis.fields.kernels.flips import climb
from lapis.inference.sampling.starting_worlds import random_world
from lapis.runtime.progress import Progress, Report, Stop

NUM_STARTS = 20


class Mode(NamedTuple):
    world: np.ndarray  # bool[num_unknown]
    score: float  # log of its unnormalised probability
    starts: int
    interrupted: bool


def climb_modes(
    cached: CachedField, weights: np.ndarray, world: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """A local optimum, bool[num_unknown], and the log of its unnormalised probability."""
    ground = cached.ground
    cells = cached.start(weights, world)
    order = rng.permutation(len(cached.units.node))
    while climb(cached.graph, weights, cells, cached.units, order):
        pass
    best = cells.value[ground.cell] > 0.5
    after = cached.start(weights, best)
    return best, float(after.exponent[ground.nodes[ground.root].offset])


def find_mode(
    cached: CachedField,
    weights: np.ndarray,
    *,
    seed: int = 0,
    stop: Stop | None = None,
    progress: Report | None = None,
) -> Mode:
    """The best local optimum from all false, all true and random worlds."""
    rng, network = np.random.default_rng(seed), cached.ground.network
    began, best, best_score = time.monotonic(), np.zeros(network.num_base_atoms, bool), -np.inf
    for number in range(NUM_STARTS):
        if number > 0 and stop is not None and stop.is_over():
            return Mode(best, best_score, number, stop())
        start = random_world(network, number, rng).astype(bool)
        try:
            found, score = climb_modes(cached, weights, start, rng)
        except KeyboardInterrupt:
            if number == 0:
                raise
            return Mode(best, best_score, number, True)
        if score > best_score:
            best, best_score = found, score
        if progress is not None:
            seconds = time.monotonic() - began
            progress(Progress("searching", number + 1, NUM_STARTS, seconds, {"score": best_score}))
    return Mode(best, best_score, NUM_STARTS, False)
