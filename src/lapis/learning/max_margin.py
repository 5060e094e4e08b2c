"""Max-margin weights: the data's world must score higher than every other, by its errors.

    minimise  ½ Σ (w_i − m_i)² / s_i²  +  C · ξ
    subject to  w·(n(y) − n(y')) ≥ Δ(y, y') − ξ   for all worlds y' that agree with the evidence

Huynh & Mooney (Max-Margin Weight Learning for Markov Logic Networks, 2009). Δ is the number of
asked atoms that y' has wrong, a wrong block counting as one. It is a number, not a fraction, and
n adds up over the examples: then an atom that stands alone costs its own hinge, C · max(0, 1 −
margin), J is on the scale of a negative log-likelihood, and a prior's width means the same as
there. The constraint of the worst world is found as a most likely world of the network in
which each wrong value is one more unit clause of weight 1 (loss-augmented inference): by
elimination where components are small, by integer programming where they are not. What is not
proven in time widens the gap that is reported.

Deviations: the paper relaxes the search for the worst world to a linear program and rounds it;
here it is exact where it can be, and says so where it is not. Weights are pulled towards the
prior's means rather than 0. `cutting_plane` says how the worlds are chosen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from lapis.errors import LapisError
from lapis.inference.exact.treewidth_bounds import divide_network
from lapis.inference.moments.most_likely import MostLikelyExact
from lapis.inference.moments.statistics import ClosedForm, Statistics, gather_statistics
from lapis.learning.examples import HIDDEN, Example
from lapis.learning.objectives.conditional import AUTO_MEMORY, observed_world
from lapis.learning.objectives.priors import Prior
from lapis.learning.parameters import Parameters
from lapis.network.components import Subnetwork
from lapis.network.network import Network
from lapis.optimisation.checkpoint import CheckpointFile
from lapis.optimisation.cutting_plane import (
    Cut,
    CuttingPlaneState,
    Minimum,
    minimise_by_cuts,
    new_bundle,
)
from lapis.optimisation.history import CurvePoint, Trajectory, max_norm
from lapis.runtime.progress import Progress, Report

ORACLE_SECONDS = 10.0  # for the worst world of one example, where elimination does not find it


class Margin(NamedTuple):
    """Max-margin weights, and how far from the optimum they may be.

    In `trajectory`, values are −J, and the place of the gradient's norm has the gap, which here is
    what vanishes at the optimum.
    """

    trajectory: Trajectory
    gap: float  # J is at most this much above the least
    proven: bool  # every worst world was proven to be the worst
    num_cuts: int


def fit_max_margin(
    examples: Sequence[Example],
    parameters: Parameters,
    prior: Prior,
    *,
    slack_cost: float = 1.0,
    tolerance: float = 1e-3,
    max_iterations: int = 500,
    time_limit: float | None = None,
    max_memory: int | None = None,
    seed: int = 0,
    progress: Report | None = None,
    should_stop: Callable[[], bool] | None = None,
    checkpoint: CheckpointFile | None = None,
) -> Margin:
    """The weights of least J, fixed ones left alone; example k is world k of the parameters.

    Ends with a gap of `tolerance` · max(1, J). Raises LapisError if the prior is not Gaussian, if
    data are missing, or if they break a hard rule or a block.

    >>> import lapis
    >>> from lapis.learning.examples import build_examples
    >>> from lapis.learning.parameters import share_parameters
    >>> model = lapis.parse("Smokes(person)\\nCancer(person)\\nSmokes(x) => Cancer(x)")
    >>> data = lapis.Database.parse("Smokes(Ann) Cancer(Ann) Smokes(Bob) Cancer(Bob)")
    >>> examples = build_examples(model, [data], ["Cancer"])
    >>> parameters = share_parameters(model, [example.free for example in examples])
    >>> found = fit_max_margin(examples, parameters, Prior("gaussian", 2.0))
    >>> found.trajectory.weights.round(6).tolist(), found.proven
    ([1.0], True)
    """
    if prior.kind != "gaussian":
        raise LapisError(
            f"max-margin learning needs a Gaussian prior, not {prior.kind!r}",
            code="prior",
            hint="as in gaussian:1; its width sets the scale of the margin",
        )
    size = len(parameters)
    free = np.flatnonzero(~parameters.fixed)
    rivals = [
        find_rival(example, parameters, world, max_memory, seed)
        for world, example in enumerate(examples)
    ]
    observed = sum((rival.observed for rival in rivals), np.zeros(size))
    base = np.where(parameters.fixed, parameters.initial, 0.0)

    def worst(weights: np.ndarray, seconds: float | None) -> Cut:
        everywhere = base.copy()
        everywhere[free] = weights
        found = [rival.worst_world(everywhere, seconds) for rival in rivals]
        slope = observed - sum((world.counts[:size] for world in found), np.zeros(size))
        loss = sum(float(world.counts[size]) for world in found)
        return Cut(
            slope[free],
            loss - float(base @ slope),
            sum(world.excess for world in found),
            any(world.interrupted for world in found),
        )

    mean = prior.means(size)[free]
    found = minimise_by_cuts(
        worst,
        new_bundle(prior.precision(size)[free], mean, slack_cost),
        mean,
        tolerance=tolerance,
        max_iterations=max_iterations,
        time_limit=time_limit,
        progress=None if progress is None else lambda now: progress(as_event(now, base, free)),
        should_stop=should_stop,
        checkpoint=checkpoint,
    )
    return as_margin(found, base, free, mean)


class WorstWorld(NamedTuple):
    counts: np.ndarray  # float64[num_parameters + 1], true groundings, then the number of errors
    excess: float  # another world may be this much worse
    interrupted: bool


@dataclass
class Rival:
    """An example's network with its errors as one more weight, and ways to find its worst world."""

    observed: np.ndarray  # float64[num_parameters], n(y)
    statistics: Statistics
    closed: ClosedForm
    solved: MostLikelyExact
    rest: Subnetwork  # components that elimination cannot do
    seed: int

    def worst_world(self, weights: np.ndarray, seconds: float | None) -> WorstWorld:
        """The world of highest score plus errors, weights float64[num_parameters]."""
        natural = self.statistics.natural(np.append(weights, 1.0))
        counted = self.closed.moments(natural).mean + self.solved.moments(natural).mean
        excess, interrupted = 0.0, False
        if self.rest.network.num_atoms:
            from lapis.inference.map.solver import most_likely_world
            from lapis.inference.marginals import InferenceOptions

            limit = ORACLE_SECONDS if seconds is None else min(ORACLE_SECONDS, max(0.0, seconds))
            network = self.rest.network.with_weights(natural)
            found = most_likely_world(
                network, "auto", InferenceOptions(time_limit=limit, seed=self.seed)
            )
            counted += network.counts(found.world)
            excess = 0.0 if found.optimal else found.gap
            interrupted = found.interrupted
        counts = self.statistics.constant + self.statistics.to_parameters(counted)
        return WorstWorld(counts, excess, interrupted)


def find_rival(
    example: Example, parameters: Parameters, world: int, max_memory: int | None, seed: int
) -> Rival:
    from lapis.grounding.bottom_up import ground

    network = ground(example.free, max_memory=max_memory)
    answers = example.answers(network)
    if (answers == HIDDEN).any():
        raise LapisError(
            "max-margin learning needs complete data, but some atoms are unknown",
            code="incomplete-data",
            hint="leave out what is unknown, or learn by the conditional likelihood",
        )
    truth = observed_world(example, network, answers)
    size = len(parameters)
    statistics = gather_statistics(
        with_errors(network, answers == 1), np.append(parameters.world_index[world], size), size + 1
    )
    division = divide_network(statistics.network, min(max_memory or AUTO_MEMORY, AUTO_MEMORY))
    return Rival(
        parameters.to_parameters(world, network.counts(truth)),
        statistics,
        ClosedForm(statistics, most_likely=True),
        MostLikelyExact(statistics, division.plan),
        division.rest,
        seed,
    )


def with_errors(network: Network, truth: np.ndarray) -> Network:
    """The network with one more weight of 1, whose count is the number of errors.

    `truth` bool[num_base_atoms]. An atom outside blocks is an error where it is not as in the
    data. A block is one error where it is not: where one of its atoms is true in the data, if
    that atom is false; where none is, if any atom is true.
    """
    told = np.ones(network.num_base_atoms, bool)  # atoms whose own value tells an error
    block = np.repeat(np.arange(network.num_blocks), np.diff(network.block_start))
    decided = np.zeros(network.num_blocks, bool)
    decided[block[truth[network.block_atom]]] = True
    told[network.block_atom] = ~decided[block] | truth[network.block_atom]
    atom = np.flatnonzero(told)
    wrong = np.where(truth[atom], -atom - 1, atom + 1)
    ends = network.clause_start[-1] + np.arange(1, len(atom) + 1)
    number = np.full(len(atom), len(network.weights))
    return replace(
        network,
        clause_start=np.concatenate((network.clause_start, ends)),
        literal=np.concatenate((network.literal, wrong)).astype(np.int32),
        weight_id=np.concatenate((network.weight_id, number)).astype(np.int32),
        coefficient=np.concatenate((network.coefficient, np.ones(len(atom)))),
        weights=np.append(network.weights, 1.0),
        constant_count=np.append(network.constant_count, 0.0),
    )


def as_event(now: CuttingPlaneState, base: np.ndarray, free: np.ndarray) -> Progress:
    weights = base.copy()
    weights[free] = now.weights
    figures = {"value": -now.upper, "gap": now.upper - now.lower}
    return Progress("learning", now.iteration, None, now.seconds, figures, weights=weights)


def as_margin(found: Minimum, base: np.ndarray, free: np.ndarray, start: np.ndarray) -> Margin:
    weights = base.copy()
    weights[free] = start
    curve = []
    before = start
    for now in found.rounds:
        change = max_norm(now.weights - before)
        gap = now.upper - now.lower
        curve.append(CurvePoint(now.iteration, now.seconds, -now.upper, gap, change))
        before = now.weights
    weights[free] = before
    value = curve[-1].value if curve else None
    gap = curve[-1].gradient_norm if curve else math.inf
    seconds = curve[-1].seconds if curve else 0.0
    trajectory = Trajectory(
        weights, value, gap, tuple(curve), len(curve),
        found.converged, found.reason, found.interrupted, seconds,
    )  # fmt: skip
    return Margin(trajectory, gap, found.proven, len(curve))
