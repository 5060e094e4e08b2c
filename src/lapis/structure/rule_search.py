"""`RuleSearch`: scores the clauses of paths, in several processes and with a replay log.

A search with a time limit gives each of its stages a share of the time that is left, so that there
is time to select clauses among those that were scored. Paths are found and scored by length, so
that the shorter ones are scored if the time does not suffice for all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from copy import copy
from typing import NamedTuple, TypeVar

import numpy as np

from lapis.data.database import Database
from lapis.errors import TooLarge
from lapis.language.model import Model
from lapis.optimisation.replay_log import ReplayLog
from lapis.runtime.limits import is_time_limit, limit_stage
from lapis.runtime.processes import STOP_SECONDS, worker_pool
from lapis.runtime.progress import Progress, Report, Stop
from lapis.structure.candidates import Candidate, Path, sign_patterns
from lapis.structure.clause_scores import ClauseScore, Sample, Scorer
from lapis.structure.ensemble import Ensemble
from lapis.structure.pricing import Pricing
from lapis.structure.training_data import TrainingData

CHUNK = 20  # paths that a process scores at a time
MIN_PARALLEL_PATHS = 400  # fewer paths are scored in this process
# Shares of the time that is left.
CHOOSING = 0.5  # one of two ways to learn
FINDING = 0.5  # what paths are found from: clusters, Markov blankets
SCORING = 0.6  # finding and scoring paths
RETAINING = 0.5  # comparing clauses with their sub-clauses
PRICING = 0.7  # choosing prices
SELECTING = 0.9  # the rest is for the counts of the rules
T = TypeVar("T")


class RuleSearch(NamedTuple):
    """The data, scorer, log and limits that a learner of rules works with."""

    model: Model  # the declarations
    databases: Sequence[Database]
    scorer: Scorer
    jobs: int
    started: float  # time.monotonic()
    progress: Report | None
    stop: Stop
    log: ReplayLog

    @property
    def data(self) -> TrainingData:
        return self.scorer.data

    def with_pricing(self, pricing: Pricing) -> RuleSearch:
        """Return the search with another pricing of gains."""
        scorer = copy(self.scorer)
        scorer.pricing = pricing
        return self._replace(scorer=scorer)

    @property
    def is_whole(self) -> bool:
        """Whether neither the search nor a stage of it was stopped."""
        return not (self.stop.is_over() or self.stop.is_cut)

    @contextmanager
    def stage(self, share: float) -> Iterator[RuleSearch]:
        """Yield the search with a share of the time that is left. The end of this time is no error.

        The block is left there, and the search is not whole.
        """
        stop = self.stop.within(share * self.stop.seconds_left())
        with limit_stage(stop.deadline):
            try:
                yield self._replace(stop=stop)
            except (KeyboardInterrupt, TooLarge) as error:
                if not is_time_limit(error):
                    raise
                stop.cut()

    def collect(self, share: float, produce: Callable[[RuleSearch], Iterator[T]]) -> list[T]:
        """Return what is produced in a share of the time that is left."""
        found: list[T] = []
        with self.stage(share) as own:
            found.extend(produce(own))  # what was appended stays if the iterator raises
        return found

    def report(self, phase: str, done: int, total: int | None, **figures: float) -> None:
        if self.progress is not None:
            seconds = time.monotonic() - self.started
            self.progress(Progress(phase, done, total, seconds, figures))

    def score_paths(
        self, paths: Sequence[Path], flips: int | None = None
    ) -> Iterator[list[ClauseScore]]:
        """Yield the scores of all clauses of each path, in the order of the paths."""
        best, kept = 0.0, 0
        for done, found in enumerate(self._scores(paths, flips), 1):
            kept += sum(score.gain > 0 for score in found)
            best = max([best, *(score.gain for score in found)])
            if done % CHUNK == 0 or done == len(paths):
                self.report("scoring", done, len(paths), clauses=kept, best=best)
            yield found
            if self.stop.is_over():
                return

    def gain_of(self, ensemble: Ensemble, candidate: Candidate) -> float:
        """Return the worth of adding a clause to the ensemble; the call is logged."""
        arguments = len(ensemble.clauses), candidate
        return self.log.call(arguments, lambda: [ensemble.gain_of(candidate)])[0]

    def refit(self, ensemble: Ensemble, *, l1: float = 0.0, l2: float | None) -> float:
        """Fit the weights of the ensemble; return the WPLL. The call is logged."""

        def weights() -> list[float]:
            value = ensemble.refit(l1=l1, l2=l2)
            return [*ensemble.weights.tolist(), *ensemble.units.tolist(), value]

        found = self.log.call(ensemble.clauses, weights)
        size = len(ensemble.weights)
        ensemble.weights, ensemble.units = np.array(found[:size]), np.array(found[size:-1])
        ensemble.value = found[-1]
        return ensemble.value

    def _scores(self, paths: Sequence[Path], flips: int | None) -> Iterator[list[ClauseScore]]:
        """Yield the logged scores of an earlier run, then new ones."""
        replayed = 0
        for path in paths:
            known = self.log.replay(path)
            if known is None:
                break
            replayed += 1
            yield read_scores(path, flips, known.tolist())
        rest = paths[replayed:]
        for path, found in zip(rest, self._run(rest, flips), strict=False):  # until it is stopped
            self.log.record(path, write_scores(path, flips, found))
            yield found

    def _run(self, paths: Sequence[Path], flips: int | None) -> Iterator[list[ClauseScore]]:
        if self.jobs == 1 or len(paths) < MIN_PARALLEL_PATHS or not self.scorer.is_in_memory:
            for path in paths:
                yield score_path(self.scorer, path, flips)
            return
        given = (self.data, self.scorer.sample, self.scorer.pricing)
        with worker_pool(self.jobs, start_scoring_worker, given) as pool:
            chunks = [list(paths[at : at + CHUNK]) for at in range(0, len(paths), CHUNK)]
            results = [pool.submit(score_chunk, chunk, flips) for chunk in chunks]
            for result in results:
                while not result.done():
                    if self.stop.is_over():
                        return
                    wait([result], STOP_SECONDS)
                yield from result.result()


def score_path(scorer: Scorer, path: Path, flips: int | None) -> list[ClauseScore]:
    return scorer.score(path, sign_patterns(path, flips))


def write_scores(path: Path, flips: int | None, scores: Sequence[ClauseScore]) -> list[float]:
    """Return scores as numbers for the log: signs in the path's order, then the other fields."""
    signs = sign_patterns(path, flips)
    return [number for score in scores for number in (signs[score.candidate], *score[1:])]


def read_scores(path: Path, flips: int | None, numbers: Sequence[float]) -> list[ClauseScore]:
    candidates = {float(signs): each for each, signs in sign_patterns(path, flips).items()}
    size = len(ClauseScore._fields)
    rows = [numbers[at : at + size] for at in range(0, len(numbers), size)]
    return [ClauseScore(candidates[signs], *others) for signs, *others in rows]


_worker_scorer: list[Scorer] = []  # of a worker process, at most one


def start_scoring_worker(data: TrainingData, sample: Sample | None, pricing: Pricing) -> None:
    _worker_scorer[:] = [Scorer(data, sample, pricing=pricing)]


def score_chunk(paths: Sequence[Path], flips: int | None) -> list[list[ClauseScore]]:
    return [score_path(_worker_scorer[0], path, flips) for path in paths]
