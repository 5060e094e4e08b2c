"""Max-margin weights: the world of the data outscores every other world by its number of errors.

    minimise  ½ Σ (w_i − m_i)² / s_i²  +  C · ξ
    subject to  w·(n(y) − n(y')) ≥ Δ(y, y') − ξ   for all worlds y' that agree with the evidence

Huynh & Mooney (Max-Margin Weight Learning for Markov Logic Networks, 2009). Δ is the number of
wrong query atoms of y'; a wrong block counts as one. It is a number, not a fraction, and n is the
sum over the examples, so that J is on the scale of a negative log-likelihood, an independent atom
has the hinge loss C · max(0, 1 − margin), and the width of a prior keeps its meaning. The worst
world is a most likely world of the network with a unit clause of weight 1 for each wrong value
(loss-augmented inference). It is found by elimination for small components and by integer
programming for others. A world that is not proven in time widens the reported gap.

Deviations: the paper relaxes the search for the worst world to a linear program and rounds it; here
it is exact if possible, and the result says whether it is. Weights are pulled towards the prior's
means instead of 0. `optimisation/cutting_plane.py` chooses the worlds.
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
from lapis.learning.objectives.priors import Prior, expand_prior
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

ORACLE_SECONDS = 10.0  # for the worst world of one example by integer programming


class Margin(NamedTuple):
    """Max-margin weights. In `trajectory` the value is −J and the gradient norm is the gap."""

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
    """Minimise J over the free weights; example k is world k of the parameters.

    Ends with a gap of `tolerance` · max(1, J). Raises LapisError if the prior is not Gaussian, if
    atoms are hidden, or if the data violate a hard rule or a block.

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
    oracles = [
        build_oracle(example, parameters, world, max_memory, seed)
        for world, example in enumerate(examples)
    ]
    observed = sum((oracle.observed for oracle in oracles), np.zeros(size))
    base = np.where(parameters.fixed, parameters.initial, 0.0)

    def find_cut(weights: np.ndarray, seconds: float | None) -> Cut:
        everywhere = base.copy()
        everywhere[free] = weights
        found = [oracle.find_worst(everywhere, seconds) for oracle in oracles]
        slope = observed - sum((world.counts[:size] for world in found), np.zeros(size))
        loss = sum(float(world.counts[size]) for world in found)
        return Cut(
            slope[free],
            loss - float(base @ slope),
            sum(world.excess for world in found),
            any(world.interrupted for world in found),
        )

    arrays = expand_prior(prior, size)
    mean = arrays.mean[free]
    found = minimise_by_cuts(
        find_cut,
        new_bundle(arrays.precision[free], mean, slack_cost),
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
    excess: float  # upper bound of how much worse another world is
    interrupted: bool


@dataclass
class WorstWorldOracle:
    """An example's network with its errors as a further weight, divided by how it is solved."""

    observed: np.ndarray  # float64[num_parameters], n(y)
    statistics: Statistics
    closed: ClosedForm
    solved: MostLikelyExact
    rest: Subnetwork  # components that are too large for elimination
    seed: int

    def find_worst(self, weights: np.ndarray, seconds: float | None) -> WorstWorld:
        """Find the world of highest score plus errors at weights float64[num_parameters]."""
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


def build_oracle(
    example: Example, parameters: Parameters, world: int, max_memory: int | None, seed: int
) -> WorstWorldOracle:
    from lapis.grounding.bottom_up import ground

    network = ground(example.free, max_memory=max_memory)
    answers = example.answers(network)
    if (answers == HIDDEN).any():
        raise LapisError(
            "max-margin learning needs complete data, but some atoms are unknown",
            code="incomplete-data",
            hint="state the unknown facts, or use --objective conditional",
        )
    truth = observed_world(example, network, answers)
    size = len(parameters)
    statistics = gather_statistics(
        add_error_clauses(network, answers == 1),
        np.append(parameters.world_index[world], size),
        size + 1,
    )
    division = divide_network(statistics.network, min(max_memory or AUTO_MEMORY, AUTO_MEMORY))
    return WorstWorldOracle(
        parameters.to_parameters(world, network.counts(truth)),
        statistics,
        ClosedForm(statistics, most_likely=True),
        MostLikelyExact(statistics, division.plan),
        division.rest,
        seed,
    )


def add_error_clauses(network: Network, truth: np.ndarray) -> Network:
    """Add a weight of 1 whose count is the number of errors against `truth` bool[num_base_atoms].

    An atom outside blocks is an error if it differs from the data. A block is one error if its true
    atom in the data is false, or, if it has none, if any of its atoms is true.
    """
    has_clause = np.ones(network.num_base_atoms, bool)  # atoms whose value shows an error
    block = np.repeat(np.arange(network.num_blocks), np.diff(network.block_start))
    has_value = np.zeros(network.num_blocks, bool)
    has_value[block[truth[network.block_atom]]] = True
    has_clause[network.block_atom] = ~has_value[block] | truth[network.block_atom]
    atom = np.flatnonzero(has_clause)
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
