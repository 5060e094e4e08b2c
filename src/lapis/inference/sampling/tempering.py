"""Parallel tempering: replicas at several temperatures that exchange worlds.

For networks with several modes, in which a Gibbs chain stays in the mode it starts in. The soft
weights are multiplied by β, from 1 (the model) down to 0 (uniform over feasible worlds). Hard
clauses hold at every β. Worlds that move freely at small β migrate to β = 1 (Geyer 1991, "Markov
chain Monte Carlo maximum likelihood"). Two neighbouring levels swap with probability
min(1, exp((β_l − β_{l+1}) (score_{l+1} − score_l))). They exchange their levels, so nothing is
copied. Scores are weights · counts, and counts are exact, so rounding does not accumulate.

Levels: the average rejections between neighbours add up to a barrier Λ(β) that hardly depends on
the levels. A few short rounds estimate it, and the levels divide it into equal steps (Syed,
Bouchard-Côté, Deligiannidis and Doucet 2022, "Non-reversible parallel tempering", algorithm 4).
With 2Λ + 1 levels about half of the swaps are accepted, which is optimal. All tuning is in `init`;
the recorded chain is a plain Markov chain. Even and odd pairs alternate, which moves worlds faster
than random pairs. If the barrier needs more than `max_levels`, swaps become rare, as the events
show.

Samples are recorded after the sweep and before the swaps, from the world at β = 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lapis.inference.random_numbers import uniform
from lapis.inference.sampling.clause_graph import WorldCounters
from lapis.inference.sampling.gibbs import Gibbs, GibbsPlan, GibbsState, reweigh_plan, sweep_work
from lapis.inference.sampling.gibbs_kernel import sweep
from lapis.inference.sampling.tally import Tallies, new_tallies, record_sample
from lapis.network.network import Network
from lapis.runtime.kernels import entry, inner
from lapis.runtime.progress import seconds_left


class Ladder(NamedTuple):
    """The levels of tempering and the statistics of their swaps."""

    beta: np.ndarray  # float64[num_levels], from 1 down to 0
    holder: np.ndarray  # int64[num_levels], the replica at each level
    tried: np.ndarray  # float64[num_levels − 1], swaps tried with the next level
    accepted: np.ndarray  # float64[num_levels − 1], sum of their acceptance probabilities
    parity: np.ndarray  # int64[1], whether even or odd pairs are next


@inner
def _swap_neighbours(ladder, replicas, weights, rng):  # type: ignore[no-untyped-def]
    """Try to swap every second pair of levels; return the number of swaps."""
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
    """Run rounds of a sweep at every level, then swaps; level 0 is recorded.

    `replicas` is a `WorldCounters` whose arrays have a row for each world.
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
                graph, units, graph.weight, ladder.beta[level], score[:0], world, order, into, rng,
                score, digit,
            )  # fmt: skip
            updates += more
        row = ladder.holder[0]
        record_sample(tallies, estimate, replicas.count[row], replicas.value[row])
        swaps += _swap_neighbours(ladder, replicas, weights, rng)
    return updates, swaps


FIRST_LEVELS = 8
TUNING_STEP = 16  # sweeps between two checks of the time
TUNING_WORK = 200_000_000  # most literals visited to tune the levels of a chain


class TemperingState(NamedTuple):
    """One chain of replicas; `step` changes its arrays in place."""

    replicas: WorldCounters  # stacked: arrays with a row for each
    ladder: Ladder
    gibbs: GibbsState  # estimate and working arrays
    aside: np.ndarray  # float64[num_base_atoms], estimates at the other levels
    rng: np.ndarray  # uint64[4]

    def replica(self, level: int) -> WorldCounters:
        row = int(self.ladder.holder[level])
        return WorldCounters(*(array[row] for array in self.replicas))


class TemperingInfo(NamedTuple):
    updates: int  # atoms resampled, at all levels
    swaps: int
    swaps_tried: int
    levels: int  # sums over chains and steps; levels / steps is the number of levels
    steps: int


@dataclass(frozen=True)
class Tempering:
    """Parallel tempering over the Gibbs kernel; one sample is a sweep at every level."""

    max_levels: int = 24
    tuning_rounds: int = 5
    name: str = "tempering"

    def prepare(self, network: Network) -> GibbsPlan:
        return Gibbs().prepare(network)

    def start(self, plan: GibbsPlan, chain: int, rng: np.ndarray) -> np.ndarray:
        return Gibbs().start(plan, chain, rng)

    def init(self, plan: GibbsPlan, world: np.ndarray, rng: np.ndarray) -> TemperingState:
        beta = np.linspace(1.0, 0.0, FIRST_LEVELS)
        state = make_replicas(plan, beta, [world] * len(beta), rng)
        sweeps = sweeps_per_round(sweep_work(plan), self.tuning_rounds)
        for number in sweeps:
            self.tune(plan, state, number)
            rejection = 1 - state.ladder.accepted / np.maximum(state.ladder.tried, 1)
            last = number == sweeps[-1]
            levels = self.num_levels(rejection) if last else len(state.ladder.beta)
            beta = spread_levels(state.ladder.beta, rejection, levels)
            worlds = [state.replica(level).value for level in find_nearest(state.ladder.beta, beta)]
            state = make_replicas(plan, beta, worlds, rng)
        return state

    def tune(self, plan: GibbsPlan, state: TemperingState, num_sweeps: int) -> None:
        """Run sweeps whose samples are discarded; fewer if the time of the call is over."""
        for begin in range(0, num_sweeps, TUNING_STEP):
            if seconds_left() == 0:
                return
            number = min(TUNING_STEP, num_sweeps - begin)
            self.step(plan, state, new_tallies(0, np.empty(0)), number)

    def num_levels(self, rejection: np.ndarray) -> int:
        """Compute 2Λ + 1, within bounds."""
        return int(np.clip(np.ceil(2 * rejection.sum()) + 1, 3, self.max_levels))

    def reweigh(
        self, plan: GibbsPlan, state: TemperingState, weights: np.ndarray
    ) -> tuple[GibbsPlan, TemperingState]:
        after = reweigh_plan(plan, weights)
        if after.units is plan.units:
            return after, state
        worlds = [state.replica(level).value for level in range(len(state.ladder.beta))]
        return after, make_replicas(after, state.ladder.beta, worlds, state.rng)

    def step(
        self, plan: GibbsPlan, state: TemperingState, tallies: Tallies, num_samples: int
    ) -> TemperingInfo:
        gibbs, ladder = state.gibbs, state.ladder
        before = ladder.tried.sum()
        updates, swaps = run_tempering(
            plan.graph, plan.units, state.replicas, ladder, plan.network.weights, gibbs.order,
            gibbs.estimate, state.aside, state.rng, gibbs.score, gibbs.digit, tallies, num_samples,
        )  # fmt: skip
        tried = int(ladder.tried.sum() - before)
        return TemperingInfo(updates, swaps, tried, num_samples * len(ladder.beta), num_samples)

    def work(self, plan: GibbsPlan, state: TemperingState) -> float:
        return len(state.ladder.beta) * sweep_work(plan)

    def counts(self, state: TemperingState) -> np.ndarray:
        return state.replica(0).count

    def world(self, state: TemperingState) -> np.ndarray:
        return state.replica(0).value.astype(bool)


def make_replicas(
    plan: GibbsPlan, beta: np.ndarray, values: list[np.ndarray], rng: np.ndarray
) -> TemperingState:
    """Build replicas at the given levels and worlds."""
    each = [Gibbs().init(plan, value, rng) for value in values]
    levels = len(beta)
    ladder = Ladder(
        beta, np.arange(levels), np.zeros(levels - 1), np.zeros(levels - 1), np.zeros(1, np.int64)
    )
    stacked = WorldCounters(
        *(np.stack(arrays) for arrays in zip(*(s.world for s in each), strict=True))
    )
    return TemperingState(stacked, ladder, each[0], np.zeros(plan.network.num_base_atoms), rng)


def sweeps_per_round(work: float, rounds: int) -> list[int]:
    """Return doubling numbers of sweeps, fewer if a sweep visits millions of literals."""
    total = max(1, min(500, int(TUNING_WORK / (FIRST_LEVELS * max(work, 1.0)))))
    return [max(1, (total << number) // (1 << rounds)) for number in range(rounds)]


def spread_levels(beta: np.ndarray, rejection: np.ndarray, levels: int) -> np.ndarray:
    """Return levels from 1 to 0 that divide the barrier Λ(β) = Σ rejection into equal steps."""
    barrier = np.concatenate(([0.0], np.cumsum(rejection)))
    if barrier[-1] <= 0:
        return np.linspace(1.0, 0.0, levels)
    # A small slope keeps levels distinct if nothing is rejected.
    barrier = barrier / barrier[-1] + 1e-3 * (1 - beta)
    placed = np.interp(np.linspace(0.0, barrier[-1], levels), barrier, beta)
    placed[0], placed[-1] = 1.0, 0.0
    return placed


def find_nearest(old: np.ndarray, new: np.ndarray) -> list[int]:
    """Return the old level closest to each new one."""
    return [int(np.argmin(np.abs(old - value))) for value in new]
