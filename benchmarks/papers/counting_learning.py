"""Learning by counts on the training folds, and the CLL of a held-out fold.

CLL is the mean over the ground atoms of the query predicates of log P(value | evidence). P comes
from Gibbs chains with exact counts, averaged over the conditional probabilities at each visit to an
atom. One chain starts with every query atom at its better value given that all others are false;
the other starts at random values. Warm-up doubles until the CLLs of the two chains differ by less
than AGREED, or until a limit. The remaining difference is the gap; a CLL with a large gap is not
reliable. All query atoms are scored.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from benchmarks.papers.counting_data import DATA_SETS, DataSet

import lapis
from lapis.counting.differences.atom_differences import open_differences
from lapis.counting.differences.sparse_vectors import split_column
from lapis.counting.ijgp import IjgpSettings
from lapis.data.keys import contains
from lapis.inference.sampling.counted_world import ExactWorld
from lapis.learning.examples import Example, build_examples
from lapis.learning.objectives.count_based import Expectation, count_objective
from lapis.learning.objectives.count_pseudo import count_pseudo_objective
from lapis.learning.objectives.count_walk import Sites, asked_sites
from lapis.learning.objectives.priors import Prior, with_prior
from lapis.learning.objectives.pseudo import pseudo_objective
from lapis.learning.parameters import Parameters, share_parameters
from lapis.optimisation.history import Trajectory
from lapis.optimisation.maximize import make_optimizer, maximize
from lapis.optimisation.objective import Objective
from lapis.registry.options import ChainStart, CountDifferences
from lapis.runtime.progress import Report

EXACT = "exact"
# The paper takes diagonal Newton for all. It needs counts that are continuous in the weights; those
# of best worlds (MaxWalkSAT) are not.
OPTIMIZER = {"cd": "dn", "vp": "dn", "walksat": "vp", "pll": "pscg"}
EXPECTATION: Mapping[str, Expectation] = {"cd": "gibbs", "vp": "map", "walksat": "maxwalksat"}
PLL_ITERATIONS = 200  # at most: it converges before
WIDTH = 2.0  # of the Gaussian prior
TOLERANCE = 1e-3
IJGP_ITERATIONS = 10  # of the paper

# Sweeps that are averaged, at least and at most: log P of a noisy mean is too low.
SEEN_SWEEPS = 16, 256
SEEN_STEPS = 2_000_000  # as many sweeps as these make
LEAST_WARM = 5000  # steps before scoring: a sweep of a hundred atoms mixes nothing
WARM_SWEEPS = 32  # two chains may agree for twenty before they fall into another world together
MOST_WARM = 64  # sweeps, or as many times LEAST_WARM steps
AGREED = 0.005  # of CLL: two chains that are no further apart have warmed up


@dataclass(frozen=True)
class Task:
    """What is learned, and by which counts."""

    data: str
    method: str = "cd"  # or vp, walksat (VP by MaxWalkSAT), pll
    counts: str = EXACT  # or the i-bound
    differences: CountDifferences = "substituted"  # of estimated counts
    fraction: float = 1.0  # of the constants of every fold
    steps: int | None = None  # N of Algorithm 1; by default in proportion to the atoms
    start: ChainStart | None = None  # of the chains; by default with the steps

    @property
    def set(self) -> DataSet:
        return DATA_SETS[self.data]

    @property
    def ijgp(self) -> IjgpSettings | None:
        if self.counts == EXACT:
            return None
        return IjgpSettings(int(self.counts), IJGP_ITERATIONS, differences=self.differences)


@cache
def read_folds(data: str, fraction: float) -> dict[str, Example]:
    """Return the folds of a data set as examples."""
    chosen = DATA_SETS[data]
    worlds = chosen.worlds(fraction)
    examples = build_examples(chosen.model(), list(worlds.values()), chosen.query)
    return dict(zip(worlds, examples, strict=True))


@dataclass(frozen=True)
class Learner:
    """Learns from some folds; its weights predict others."""

    task: Task
    training: Sequence[Example]
    others: Sequence[Example]
    parameters: Parameters  # of the worlds of the training examples, and of the others
    objective: Objective

    @property
    def is_exact(self) -> bool:
        """Return whether the counts are exact."""
        return "ijgp" not in self.objective.name or "exact" in self.objective.name

    def ascend(
        self,
        iterations: int,
        width: float,
        seconds: float,
        progress: Report | None = None,
    ) -> tuple[Trajectory, bool]:
        """Return the course of learning, and whether it ended because of the processor time."""
        began, late = time.process_time(), []

        def is_late() -> bool:
            if time.process_time() - began > seconds:
                late.append(True)
            return bool(late)

        start = np.repeat(self._widths(width), np.diff(self.parameters.offset))
        posterior = with_prior(
            self.objective,
            Prior("gaussian", start),
            self.parameters.initial,
            self.parameters.fixed,
        )
        course = maximize(
            posterior,
            make_optimizer(OPTIMIZER[self.task.method]),
            np.zeros(posterior.num_parameters),
            max_iterations=PLL_ITERATIONS if self.task.method == "pll" else iterations,
            tolerance=TOLERANCE,
            progress=progress,
            should_stop=is_late,
        )
        return course, bool(late)

    def weights_of_other(self, number: int, weights: np.ndarray) -> np.ndarray:
        """Return float64[num_weights], the weights in the world of another example."""
        return self.parameters.of_world(len(self.training) + number, weights)

    def _widths(self, dense: float) -> list[float]:
        """Return the width of the prior of each rule."""
        rules = self.parameters.model.rules
        starts = self.task.set.dense
        return [dense if rule.text.startswith(starts) else WIDTH for rule in rules]


def build_learner(task: Task, training: Sequence[Example], others: Sequence[Example]) -> Learner:
    worlds = [each.complete for each in (*training, *others)]
    parameters = share_parameters(task.set.model(), worlds)
    objective = build_objective(task, training, parameters)
    return Learner(task, training, others, parameters, objective)


def build_objective(task: Task, training: Sequence[Example], parameters: Parameters) -> Objective:
    if task.method == "pll":
        if task.ijgp is None:
            return pseudo_objective(training, parameters)
        return count_pseudo_objective(training, parameters, ijgp=task.ijgp)
    return count_objective(
        training,
        parameters,
        ijgp=task.ijgp,
        expectation=EXPECTATION[task.method],
        num_steps=task.steps,
        start=task.start,
    )


def frequency_cll(training: Sequence[Example], test: Example) -> float:
    """Return the CLL of predicting the frequency of each query predicate."""
    score, number = 0.0, 0
    for sites in asked_sites(test.free):
        name = sites.predicate.name
        seen = [len(example.complete.evidence[name].true) for example in training]
        asked = [len(s) for e in training for s in asked_sites(e.free) if s.predicate.name == name]
        rate = sum(seen) / sum(asked)
        true = len(test.complete.evidence[name].true)
        score += true * np.log(rate) + (len(sites) - true) * np.log(1.0 - rate)
        number += len(sites)
    return float(score / number)


def estimate_cll(test: Example, weights: np.ndarray) -> tuple[float, float]:
    """Return the CLL by the mean of two chains, and the difference of their own CLLs."""
    rng = np.random.default_rng(0)
    sites = asked_sites(test.free)
    truth = np.concatenate([find_truth(test, each) for each in sites])
    starts = start_from_evidence(test, sites, weights), start_from_coins(test, sites, rng)
    chains = [Predictor(ExactWorld(start), sites, weights, rng) for start in starts]
    least = max(1, LEAST_WARM // len(truth))
    sweeps = made = max(least, WARM_SWEEPS)
    seen = max(sweeps, num_seen(len(truth)))
    while True:
        for chain in chains:
            chain.predict(sweeps)
        found = [chain.predict(seen) for chain in chains]
        one, other = (mean_log(each, truth) for each in found)
        if abs(one - other) <= AGREED or made >= MOST_WARM * least:
            return mean_log((found[0] + found[1]) / 2.0, truth), abs(one - other)
        sweeps, made, seen = made, 2 * made, max(made, seen)


def glance_cll(test: Example, weights: np.ndarray, floor: float) -> float:
    """Estimate the CLL by one chain with half the warm-up, in a quarter of the time.

    It starts at random values, half of them true, and so reaches a world in which nearly all atoms
    are true before other chains do. A chain below the floor during warm-up is ended early.
    """
    rng = np.random.default_rng(0)
    sites = asked_sites(test.free)
    truth = np.concatenate([find_truth(test, each) for each in sites])
    chain = Predictor(ExactWorld(start_from_coins(test, sites, rng)), sites, weights, rng)
    quarter = max(LEAST_WARM // len(truth), WARM_SWEEPS) // 4
    chain.predict(quarter)
    reached = mean_log(chain.predict(quarter), truth)
    if reached < floor:
        return reached
    return mean_log(chain.predict(max(SEEN_SWEEPS[0], num_seen(len(truth)) // 2)), truth)


def num_seen(num_atoms: int) -> int:
    """Return the number of sweeps that are averaged."""
    least, most = SEEN_SWEEPS
    return max(least, min(most, SEEN_STEPS // num_atoms))


def find_truth(test: Example, sites: Sites) -> np.ndarray:
    """Return bool[num_sites], the values in the data."""
    rows = sites.rows(np.arange(len(sites)))
    return contains(test.complete.evidence[sites.predicate.name].true, rows)


def mean_log(probability: np.ndarray, truth: np.ndarray) -> float:
    value = np.where(truth, probability, 1.0 - probability)
    return float(np.log(np.maximum(value, np.finfo(float).tiny)).mean())


@dataclass(frozen=True)
class Predictor:
    """A chain over the query atoms."""

    chain: ExactWorld
    sites: Sequence[Sites]
    weights: np.ndarray  # float64[num_weights]
    rng: np.random.Generator

    def predict(self, sweeps: int) -> np.ndarray:
        """Return float64[num_sites], the means of P(true | rest) over some sweeps."""
        return sum((self.sweep() for _ in range(sweeps)), np.zeros(1)) / sweeps

    def sweep(self) -> np.ndarray:
        """Resample all query atoms in random order; return float64[num_sites], P(true | rest)."""
        found = []
        for each in self.sites:
            name, order = each.predicate.name, self.rng.permutation(len(each))
            parts, noise = [(name, each.rows(order))], self.rng.logistic(size=len(each))
            probability = np.empty(len(each))
            probability[order] = self.chain.draw(parts, self.weights, noise, False).probability
            found.append(probability)
        return np.concatenate(found)


def start_from_evidence(
    test: Example, sites: Sequence[Sites], weights: np.ndarray
) -> lapis.Problem:
    """Return a complete problem: each query atom has its better value if all others are false."""
    problem = test.complete
    evidence = dict(problem.evidence)
    for each in sites:
        name = each.predicate.name
        evidence[name] = replace(evidence[name], true=evidence[name].true[:0])
    world = {name: known.true for name, known in evidence.items()}
    for each in sites:
        name = each.predicate.name
        rows = each.rows(np.arange(len(each)))
        found, _ = open_differences(problem, name, world=world).at_rows(rows)
        vectors, _ = split_column(found, len(weights))
        scores = weights[vectors.column] * vectors.value
        better = np.bincount(vectors.row, scores, minlength=len(rows)) > 0
        evidence[name] = replace(evidence[name], true=rows[better])
    return replace(problem, evidence=evidence)


def start_from_coins(
    test: Example, sites: Sequence[Sites], rng: np.random.Generator
) -> lapis.Problem:
    """Return a complete problem with random values of the query atoms."""
    evidence = dict(test.complete.evidence)
    for each in sites:
        name = each.predicate.name
        rows = each.rows(np.flatnonzero(rng.random(len(each)) < 0.5))
        evidence[name] = replace(evidence[name], true=rows)
    return replace(test.complete, evidence=evidence)
