"""Learning with one method and one kind of counts, for `approximate_counting.py`."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from approximate_counting_data import DATA_SETS

from lapis.counting.ijgp import IjgpSettings
from lapis.learning.examples import Example, build_examples
from lapis.learning.objectives.count_based import Expectation, count_objective
from lapis.learning.objectives.count_pseudo import count_pseudo_objective
from lapis.learning.objectives.priors import Prior, with_prior
from lapis.learning.objectives.pseudo import pseudo_objective
from lapis.learning.parameters import Parameters, share_parameters
from lapis.optimisation.history import Trajectory
from lapis.optimisation.maximize import make_optimizer, maximize
from lapis.optimisation.objective import Objective, PenalizedObjective
from lapis.registry.options import CountDifferences
from lapis.runtime.progress import Report

METHODS = ("cd", "vp", "pll")
# The paper takes diagonal Newton for all; with MaxWalkSAT it does not move.
OPTIMIZER = {"cd": "dn", "vp": "dn", "vp-walksat": "vp", "pll": "pscg"}
EXPECTATION: Mapping[str, Expectation] = {"cd": "gibbs", "vp": "map", "vp-walksat": "maxwalksat"}
PLL_ITERATIONS = 200  # at most: it climbs to its maximum, whatever that predicts
WIDTH = 2.0  # of the Gaussian prior


@dataclass(frozen=True)
class Job:
    """A method with its counts, on all folds of a data set."""

    data: str
    method: str
    counts: str  # exact, or the i-bound
    steps: int | None  # of the chains, at each evaluation; None: in proportion to the atoms
    iterations: int  # at most
    warm_sweeps: float  # of the chains that predict, at most, or as many times LEAST_WARM steps
    folds: int
    processes: int
    worlds: str = ""  # a file that holds the databases
    fraction: float = 1.0
    part: float = 1.0  # of the constants that is learned from, where folds left out stay whole
    snapshots: int = 0  # of the weights on the way, to be scored
    differences: CountDifferences = "substituted"  # of estimated counts

    @property
    def ijgp(self) -> IjgpSettings | None:
        if self.counts == "exact":
            return None
        return IjgpSettings(int(self.counts), differences=self.differences)


@dataclass(frozen=True)
class Setting:
    """The options that are chosen on the training folds."""

    iterations: int
    width: float  # of the dense rules' prior


@cache
def read_folds(job: Job) -> tuple[list[Example], list[Example]]:
    """Return the folds as they are held out, and as they are learned from."""
    data = DATA_SETS[job.data]
    model = data.model()
    whole, part = pickle.loads(Path(job.worlds).read_bytes())
    left_out = build_examples(model, whole, data.query)
    return left_out, left_out if job.part == 1.0 else build_examples(model, part, data.query)


@dataclass(frozen=True)
class Learner:
    """Learns from some examples and predicts others."""

    job: Job
    training: Sequence[Example]
    parameters: Parameters  # of the worlds of the training examples, and of the others
    objective: Objective

    def ascend(
        self,
        setting: Setting,
        progress: Report | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> Trajectory:
        posterior = self._posterior(setting.width)
        return maximize(
            posterior,
            make_optimizer(OPTIMIZER[self.job.method]),
            np.zeros(posterior.num_parameters),
            max_iterations=setting.iterations,
            tolerance=1e-3,
            progress=progress,
            should_stop=should_stop,
        )

    def weights_of_other(self, number: int, weights: np.ndarray) -> np.ndarray:
        """Return float64[num_weights], the weights in the world of another example."""
        return self.parameters.of_world(len(self.training) + number, weights)

    def _posterior(self, dense: float) -> PenalizedObjective:
        """Return the objective with a Gaussian prior; dense rules have their own width."""
        starts = DATA_SETS[self.job.data].dense
        rules = self.parameters.model.rules
        widths = [dense if rule.text.startswith(starts) else WIDTH for rule in rules]
        prior = Prior("gaussian", np.repeat(widths, np.diff(self.parameters.offset)))
        return with_prior(self.objective, prior, self.parameters.initial, self.parameters.fixed)


def build_learner(job: Job, training: Sequence[Example], others: Sequence[Example]) -> Learner:
    model = DATA_SETS[job.data].model()
    parameters = share_parameters(model, [each.complete for each in (*training, *others)])
    return Learner(job, training, parameters, build_objective(job, training, parameters))


def build_objective(job: Job, training: Sequence[Example], parameters: Parameters) -> Objective:
    if job.method == "pll":
        if job.ijgp is None:
            return pseudo_objective(training, parameters)
        return count_pseudo_objective(training, parameters, ijgp=job.ijgp)
    return count_objective(
        training,
        parameters,
        ijgp=job.ijgp,
        expectation=EXPECTATION[job.method],
        num_steps=job.steps,
    )
