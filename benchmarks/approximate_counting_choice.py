"""How long to climb, and how narrow a prior: chosen on the folds that are learned from.

Each fold that is learned from is predicted from the others, after every CHECKED iterations. A
setting gains CLL − base rate there, which is comparable between folds; the CLL is that of one chain
from coins, whose start is the farthest from the data.

Where rules tie many atoms to each other, a climb improves from check to check and then falls: from
some weights on, chains end in a world in which nearly everything is true, and score far below the
base rate. One fold does not tell when another will fall. So all of them are asked, and as weights
after so many iterations differ from climb to climb, a check is worth no more than the next one,
which shows how close it is to a fall. A setting is worth what it gains on the fold on which it
gains least, and the best one is taken.

What is learned without folds i and j predicts j to choose for i, and i to choose for j: five folds
take ten climbs, for each width of the prior.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

import numpy as np
from approximate_counting_data import DATA_SETS
from approximate_counting_learning import (
    PLL_ITERATIONS,
    WIDTH,
    Job,
    Setting,
    build_learner,
    read_folds,
)
from approximate_counting_scoring import frequency_cll, glance_cll

from lapis.learning.examples import Example
from lapis.runtime.progress import Progress

CHECKED = 4  # iterations from one check to the next
# For rules that tie an atom to many others: what they may do to one of them is many times their
# weight.
DENSE_WIDTHS = (0.001, 0.01, 0.1)
# Of the base rate: chains that score so badly are not followed to the end of their warm-up. In a
# world in which all is true, a sweep takes ten times as long.
HOPELESS = 1.5


class Trial(NamedTuple):
    """A climb without two folds, one left out and one to be predicted in choosing for it."""

    without: tuple[int, int]
    width: float


class Prediction(NamedTuple):
    """What a climb gained on a fold, in choosing for another."""

    chooser: int
    width: float
    gains: np.ndarray  # float64[num_checks]


def list_checks(job: Job) -> list[int]:
    """The iterations after which a climb is looked at."""
    if job.method == "pll":
        return [PLL_ITERATIONS]
    return [*range(CHECKED, job.iterations, CHECKED), job.iterations]


def list_widths(job: Job) -> Sequence[float]:
    return DENSE_WIDTHS if DATA_SETS[job.data].dense else (WIDTH,)


def list_trials(job: Job, num_folds: int) -> list[Trial]:
    """None where there is nothing to choose from, or nothing left to learn from."""
    if num_folds < 3 or len(list_checks(job)) * len(list_widths(job)) == 1:
        return []
    pairs = [pair for pair in combinations(range(num_folds), 2) if pair[0] < job.folds]
    return [Trial(pair, width) for width in list_widths(job) for pair in pairs]


def run_trial(job: Job, trial: Trial) -> list[Prediction]:
    """The gains on both folds, each in choosing for the other, where that is to be left out."""
    _, examples = read_folds(job)
    rest = [example for n, example in enumerate(examples) if n not in trial.without]
    asked = [pair for pair in (trial.without, trial.without[::-1]) if pair[0] < job.folds]
    learner = build_learner(job, rest, [examples[predicted] for _, predicted in asked])
    checks = list_checks(job)
    watched = [Watch(examples[n], frequency_cll(rest, examples[n]), checks) for _, n in asked]

    def look(step: Progress) -> None:
        assert step.weights is not None
        for number, watch in enumerate(watched):
            watch.look(step.done, learner.weights_of_other(number, step.weights))

    longest = Setting(checks[-1], trial.width)
    course = learner.ascend(longest, look, lambda: all(watch.has_fallen for watch in watched))
    for number, watch in enumerate(watched):  # it may have converged between two checks
        watch.finish(learner.weights_of_other(number, course.weights))
    for (_, predicted), watch in zip(asked, watched, strict=True):
        tell(job, trial, predicted, watch.gains)
    return [
        Prediction(chooser, trial.width, np.array(watch.gains))
        for (chooser, _), watch in zip(asked, watched, strict=True)
    ]


def tell(job: Job, trial: Trial, predicted: int, gains: Sequence[float]) -> None:
    one, other = (n + 1 for n in trial.without)
    found = " ".join(f"{gain:+.4f}" for gain in gains)
    print(
        f"{job.data} {job.method} {job.counts} width {trial.width:g}, without {one} and {other}: "
        f"gains on {predicted + 1} {found}",
        file=sys.stderr,
        flush=True,
    )


@dataclass
class Watch:
    """A fold that is predicted while a climb goes on."""

    example: Example
    base: float
    checks: Sequence[int]
    gains: list[float] = field(default_factory=list)

    @property
    def has_fallen(self) -> bool:
        """Below the base rate, and it was better before."""
        return len(self.gains) > 1 and self.gains[-1] < min(0.0, self.gains[-2])

    def look(self, iteration: int, weights: np.ndarray) -> None:
        if iteration == self.checks[len(self.gains)] and not self.has_fallen:
            self.gains.append(self._gain(weights))

    def finish(self, weights: np.ndarray) -> None:
        """What is not known by now is what it is at the end; nothing is expected after a fall."""
        missing = len(self.checks) - len(self.gains)
        if missing:
            last = self.gains[-1] if self.has_fallen else self._gain(weights)
            self.gains += [last] * missing

    def _gain(self, weights: np.ndarray) -> float:
        return glance_cll(self.example, weights, HOPELESS * self.base) - self.base


def choose_setting(job: Job, fold: int, found: Sequence[Prediction]) -> Setting:
    """For a fold left out."""
    widths, checks = list_widths(job), list_checks(job)
    by_width: Mapping[float, list[np.ndarray]] = {width: [] for width in widths}
    for each in found:
        if each.chooser == fold:
            by_width[each.width].append(each.gains)
    if not found:
        return Setting(checks[-1], WIDTH)
    width, check = best_place(np.array([by_width[width] for width in widths]))
    return Setting(checks[check], widths[width])


def best_place(gains: np.ndarray) -> tuple[int, int]:
    """The width and the check that gain most on the fold on which they gain least.

    The gains are float64[num_widths, num_folds, num_checks]. A check that is followed by a fall is
    close to one.

    >>> best_place(np.array([[[0.1, 0.2, 0.3, -0.5], [0.1, 0.2, 0.2, 0.2]]]))
    (0, 1)
    """
    least = gains.min(axis=1)
    worth = np.minimum(least, np.append(least[:, 1:], least[:, -1:], axis=1))
    width, check = np.unravel_index(np.argmax(worth), worth.shape)
    return int(width), int(check)
