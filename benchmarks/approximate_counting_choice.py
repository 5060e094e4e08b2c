"""Choose the number of iterations and the prior width on the training folds.

Each training fold is predicted from the other training folds, after every CHECKED iterations. The
gain of a setting is CLL − CLL of the base rate, which is comparable between folds. The CLL is that
of one chain from random values, the start farthest from the data.

If rules couple many atoms, learning improves from check to check and then collapses: from some
weights on, chains end in a world in which nearly all atoms are true, with a CLL far below the base
rate. Folds collapse at different iterations. So all folds are used, and a check is worth no more
than the next check, which shows how near the collapse is. The value of a setting is its smallest
gain over the folds; the setting with the largest value is chosen.

Weights learned without folds i and j predict j in the choice for i, and i in the choice for j. Five
folds need ten runs for each prior width.
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
    """A run without two folds, one held out and one predicted in the choice for it."""

    without: tuple[int, int]
    width: float


class Prediction(NamedTuple):
    """The gain of a run on one fold, in the choice for another."""

    chooser: int
    width: float
    gains: np.ndarray  # float64[num_checks]


def list_checks(job: Job) -> list[int]:
    """Return the iterations after which a run is checked."""
    if job.method == "pll":
        return [PLL_ITERATIONS]
    return [*range(CHECKED, job.iterations, CHECKED), job.iterations]


def list_widths(job: Job) -> Sequence[float]:
    return DENSE_WIDTHS if DATA_SETS[job.data].dense else (WIDTH,)


def list_trials(job: Job, num_folds: int) -> list[Trial]:
    """Return the trials; none if there is one setting only, or no fold left to learn from."""
    if num_folds < 3 or len(list_checks(job)) * len(list_widths(job)) == 1:
        return []
    pairs = [pair for pair in combinations(range(num_folds), 2) if pair[0] < job.folds]
    return [Trial(pair, width) for width in list_widths(job) for pair in pairs]


def run_trial(job: Job, trial: Trial) -> list[Prediction]:
    """Return the gains on both folds, each in the choice for the other."""
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
    """A fold that is predicted during a run."""

    example: Example
    base: float
    checks: Sequence[int]
    gains: list[float] = field(default_factory=list)

    @property
    def has_fallen(self) -> bool:
        """Return whether the CLL fell below the base rate after a better value."""
        return len(self.gains) > 1 and self.gains[-1] < min(0.0, self.gains[-2])

    def look(self, iteration: int, weights: np.ndarray) -> None:
        if iteration == self.checks[len(self.gains)] and not self.has_fallen:
            self.gains.append(self._gain(weights))

    def finish(self, weights: np.ndarray) -> None:
        """Fill the remaining checks: the last gain after a collapse, else the final gain."""
        missing = len(self.checks) - len(self.gains)
        if missing:
            last = self.gains[-1] if self.has_fallen else self._gain(weights)
            self.gains += [last] * missing

    def _gain(self, weights: np.ndarray) -> float:
        return glance_cll(self.example, weights, HOPELESS * self.base) - self.base


def choose_setting(job: Job, fold: int, found: Sequence[Prediction]) -> Setting:
    """Choose the setting for a held-out fold."""
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
    """Return the width and the check with the largest minimum gain over folds.

    The gains are float64[num_widths, num_folds, num_checks]. A check counts at most as much as the
    next one.

     best_place(np.array([[[0.1, 0.2, 0.3, -0.5], [0.1, 0.2, 0.2, 0.2]]]))
    (0, 1)
    """
    least = gains.min(axis=1)
    worth = np.minimum(least, np.append(least[:, 1:], least[:, -1:], axis=1))
    width, check = np.unravel_index(np.argmax(worth), worth.shape)
    return int(width), int(check)
