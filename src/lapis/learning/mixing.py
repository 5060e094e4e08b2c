"""Detection of learning chains that have not left the worlds near the data.

A chain that starts in the data and flips single atoms may never leave that region: transitivity
holds clusters together, a ferromagnet keeps its sign, a hard equivalence lets neither side move.
Its counts then vary little, and the gradient is near zero with a small standard error, though the
weights explain the data only among worlds near it. No diagnostic of the chain alone can detect
this.

So after learning other chains start far away and run for two evaluations at the learned weights: by
counts (`count_based`) in worlds with random atoms; on a ground network with all atoms false, all
true, or random. A weight is doubtful if its count in the second evaluation differs from that of the
learning chain by more than noise and by more than a standard deviation, and is not much nearer than
in the first evaluation. Random worlds that break hard rules are left out.

This is a sign, not a proof: a region that random worlds do not reach is missed. In worlds of more
than `MOST_COINS` sites random atoms are true as often as in the data, and regions of another
density are missed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lapis.errors import LapisError
from lapis.inference.moments.sampled import PersistentChain, SampledComponents, SampledMoments
from lapis.inference.random_numbers import random_states
from lapis.learning.fit import name_some
from lapis.learning.learning_run import LearningRun
from lapis.learning.objectives.conditional import ConditionalObjective
from lapis.learning.objectives.count_based import ChainCounts, CountObjective, randomize_world
from lapis.optimisation.objective import PenalizedObjective
from lapis.runtime.progress import check_time

if TYPE_CHECKING:
    from lapis.optimisation.history import Trajectory

SMALL_WALK = 10_000  # steps of an evaluation up to which a world is randomised `NUM_STARTS` times
NUM_STARTS = 8
CHANCE = 1e-4  # probability that noise alone makes a weight doubtful
ROUNDING = 1e-6  # rounding error of counts that never vary
NUM_SAMPLES = 25  # samples of a chain on a ground network in each of three evaluations
SMALL_NETWORK = 10_000  # literals up to which all starts are used
STARTS = (2, 0, 1, 3, 4, 5, 6, 7)  # numbers of chains: 0 all false, 1 all true, others random


def check_mixing(
    run: LearningRun, trajectory: Trajectory, posterior: PenalizedObjective
) -> Trajectory:
    """Warn of chains that do not mix; return the trajectory, then not converged."""
    check_time("the mixing of chains")
    objective, notes = posterior.objective, run.notes
    is_restarted = isinstance(objective, CountObjective) and not objective.persistent
    if is_restarted:
        notes.warnings.append(
            "chains restart in the data before they complete a sweep: the weights are near those "
            "of --objective pseudo, not of a likelihood"
        )
    if not trajectory.converged and run.options.time_limit is not None:
        return trajectory
    weights = posterior.all_weights(trajectory.weights)
    if isinstance(objective, CountObjective):
        doubtful = find_doubtful_counts(objective, weights)
    else:
        assert isinstance(objective, ConditionalObjective)
        doubtful = find_doubtful_moments(objective, weights)
    notes.details["chains_mix"] = None if is_restarted else not len(doubtful)
    if not len(doubtful):
        return trajectory
    names = run.parameters.names()
    shown = name_some([names[number] for number in doubtful.tolist()])
    notes.warnings.append(
        f"chains do not mix: chains that start elsewhere stay at other counts of {shown}, so that "
        "the weights explain the data only among worlds near it; "
        f"a stronger prior{', or --expectation mcsat,' if run.expectation != 'mcsat' else ''} "
        "may help"
    )
    if run.expectation != "count-map":
        notes.details["standard_errors_note"] = "those of the worlds near the data"
    if not trajectory.converged:
        return trajectory
    reason = "chains that start elsewhere stay at other counts"
    return trajectory._replace(converged=False, reason=reason)


def find_doubtful_counts(objective: CountObjective, weights: np.ndarray) -> np.ndarray:
    """int64[k], doubtful weights of a `CountObjective`, most doubtful first; moves its chains."""
    doubt = np.zeros(len(weights))
    if not objective.persistent:
        return np.flatnonzero(doubt)
    objective.evaluate(weights)
    for number, world in enumerate(objective.worlds):
        if not world.num_steps or world.last is None:
            continue
        index, before = objective.parameters.world_index[number], world.last
        for _ in range(NUM_STARTS if world.num_steps <= SMALL_WALK else 1):
            randomize_world(world)
            first = objective.visit(number, weights)[0]
            second = objective.visit(number, weights)[0]
            if not world.chain.num_broken:
                np.maximum.at(doubt, index, measure_doubt(before, first, second))
    return rank_doubts(doubt)


def find_doubtful_moments(objective: ConditionalObjective, weights: np.ndarray) -> np.ndarray:
    """int64[k], doubtful weights of sampled ground networks, most doubtful first; moves chains."""
    doubt = np.zeros(len(weights))
    for term in (*objective.free, *objective.clamped):
        natural = term.statistics.natural(weights)
        for part in term.sources:
            if isinstance(part, SampledComponents):
                doubt = np.maximum(doubt, doubt_components(part, natural))
    return rank_doubts(doubt)


def doubt_components(part: SampledComponents, natural: np.ndarray) -> np.ndarray:
    """float64[num_parameters], how doubtful each count of a sampled network is; 0 if it is not."""
    before = summarize_moments(replace(part, num_samples=NUM_SAMPLES).moments(natural))
    doubt = np.zeros(len(before.gradient))
    starts = STARTS if len(part.network.literal) <= SMALL_NETWORK else STARTS[:1]
    streams = random_states(int(part.chains[0].rng[0]), len(starts))
    for number, stream in zip(starts, streams, strict=True):
        try:
            chain = PersistentChain(part.chains[0].sampler, part.network, None, number, stream)
        except LapisError:  # no start was found that satisfies the hard clauses
            continue
        other = replace(part, chains=(chain,), num_samples=NUM_SAMPLES)
        first, second = (summarize_moments(other.moments(natural)) for _ in range(2))
        doubt = np.maximum(doubt, measure_doubt(before, first, second))
    return doubt


def summarize_moments(moments: SampledMoments) -> ChainCounts:
    """Return mean and variances of the counts by parameters; the mean stands for the gradient."""
    mean = moments.source.statistics.to_parameters(moments.mean)
    return ChainCounts(mean, moments.mean_variance(), moments.count_variance())


def measure_doubt(before: ChainCounts, first: ChainCounts, second: ChainCounts) -> np.ndarray:
    """float64[num_weights], |second − before| relative to its threshold; 0 below, or if it falls.

    `before` is of the learning chain, `first` and `second` are of a chain that started elsewhere.
    """
    away = np.abs(second.gradient - before.gradient)
    # A quantile of normal noise for all weights together: √(2 log(2n/p)) bounds it from above.
    most = np.sqrt(2.0 * np.log(2.0 * max(1, len(away)) / CHANCE))
    noise = most * np.sqrt(before.gradient_variance + second.gradient_variance)
    deviation = np.sqrt(np.maximum(before.count_variance, second.count_variance))
    least = np.maximum(np.maximum(noise, deviation), ROUNDING)
    stays = away > 0.5 * np.abs(first.gradient - before.gradient)
    return np.where((away > least) & stays, away / least, 0.0)


def rank_doubts(doubt: np.ndarray) -> np.ndarray:
    """int64[k], the parameters of positive doubt, largest first."""
    return np.argsort(-doubt, kind="stable")[: np.count_nonzero(doubt)]
