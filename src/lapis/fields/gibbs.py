"""Gibbs sampling of a field's unknown atoms, from cached feature sums.

Thesis section 3.3. To the chains it is a sampler like the others (`inference.sampling.sampler`), on
a network that has atoms and no clauses, whose counts are the sums Σ f of the root's children. What
is averaged is the probability that an atom was drawn with. Chains start at random, or where
iterated conditional modes lead from there (`start_at_modes`), which the thesis found to shorten the
burn-in; chains that start in the same mode agree from the first sample on, whether or not there
are others, so random starts are the rule here and modes are asked for.

Iterated conditional modes: from random worlds, change what makes the world more likely.

Thesis section 3.3, with the random restarts that it names as a possible improvement. A flip touches
only the features above it, so a sweep costs as much as one of Gibbs sampling. The world it ends in
is a local optimum, never proven to be the best.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lapis.fields.cached_sums import CachedField
from lapis.fields.flips_kernel import Cells, climb, run_gibbs
from lapis.inference.sampling.starting_worlds import random_world
from lapis.inference.sampling.tally import Tallies, new_tallies
from lapis.network.network import Network
from lapis.runtime.progress import Progress, Report, Stop

REFRESH = 1024  # sweeps after which everything is computed afresh


class FieldGibbsPlan(NamedTuple):
    """What all chains share."""

    network: Network
    weights: np.ndarray  # float64[num_weights], of all parfeatures
    ergodic: bool | None


class FieldGibbsState(NamedTuple):
    """One chain; `step` changes its arrays in place."""

    cells: Cells
    world: np.ndarray  # uint8[num_unknown]
    estimate: np.ndarray  # float64[num_unknown], P(atom | rest) at its last update
    sweeps: np.ndarray  # int64[1]
    rng: np.ndarray  # uint64[4]


class FieldGibbsInfo(NamedTuple):
    updates: int  # atoms resampled
    changes: int  # atoms or blocks that changed


@dataclass(frozen=True)
class FieldGibbs:
    """One sample is one sweep over all unknown atoms."""

    cached: CachedField
    weights: np.ndarray  # float64[num_weights]
    start_at_modes: bool = False
    name: str = "gibbs"

    def prepare(self, network: Network) -> FieldGibbsPlan:
        """`network` is that of the ground field."""
        return FieldGibbsPlan(network, self.weights, True)

    def start(self, plan: FieldGibbsPlan, chain: int, rng: np.ndarray) -> np.ndarray:
        generator = np.random.default_rng(rng)
        world = random_world(plan.network, chain, generator).astype(bool)
        if self.start_at_modes:
            world, _ = climb_modes(self.cached, plan.weights, world, generator)
        return world

    def init(self, plan: FieldGibbsPlan, world: np.ndarray, rng: np.ndarray) -> FieldGibbsState:
        size = len(self.cached.ground.cell)
        return FieldGibbsState(
            self.cached.start(plan.weights, world),
            world[:size].astype(np.uint8),
            np.zeros(size),
            np.zeros(1, np.int64),
            rng,
        )

    def reweigh(
        self, plan: FieldGibbsPlan, state: FieldGibbsState, weights: np.ndarray
    ) -> tuple[FieldGibbsPlan, FieldGibbsState]:
        """The same chain with other weights of the root, float64[num_root_weights]."""
        everywhere = plan.weights.copy()
        everywhere[self.cached.ground.root_edges] = weights
        self.cached.refresh(state.cells, everywhere, state.world)
        after = plan._replace(network=plan.network.with_weights(weights), weights=everywhere)
        return after, state

    def step(
        self, plan: FieldGibbsPlan, state: FieldGibbsState, tallies: Tallies, num_samples: int
    ) -> FieldGibbsInfo:
        ground, changes, done = self.cached.ground, 0, 0
        while done < num_samples:
            # At fixed numbers of sweeps, however many are asked for at a time.
            now = min(num_samples - done, REFRESH - int(state.sweeps[0]) % REFRESH)
            changes += run_gibbs(
                self.cached.graph, plan.weights, state.cells, self.cached.units, state.estimate,
                state.world, state.rng, tallies, now,
            )  # fmt: skip
            state.sweeps[0] += now
            done += now
            if state.sweeps[0] % REFRESH == 0:
                self.cached.refresh(state.cells, plan.weights, state.world)
        return FieldGibbsInfo(num_samples * len(ground.cell), changes)

    def work(self, plan: FieldGibbsPlan, state: FieldGibbsState) -> float:
        return float(plan.network.num_atoms)

    def counts(self, state: FieldGibbsState) -> np.ndarray:
        return state.cells.root_sums

    def world(self, state: FieldGibbsState) -> np.ndarray:
        return state.world.astype(bool)


def walk(
    cached: CachedField, weights: np.ndarray, world: np.ndarray, rng: np.ndarray, num_sweeps: int
) -> np.ndarray:
    """bool[num_unknown], where a chain from a world is after a few sweeps."""
    after, estimate = world.astype(np.uint8), np.zeros(len(world))
    tallies = new_tallies(len(world), np.zeros(len(cached.ground.root_edges)))
    run_gibbs(
        cached.graph, weights, cached.start(weights, world), cached.units, estimate, after, rng,
        tallies, num_sweeps,
    )  # fmt: skip
    return after.astype(bool)


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
