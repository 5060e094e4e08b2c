"""From paths to scored clauses, on all cores; each path once, all its sign patterns together."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from lapis.progress import Progress, Report, Stop
from lapis.structure.clauses import Path, sign_patterns
from lapis.structure.scores import ClauseScore, Sample, Scorer
from lapis.structure.training_data import TrainingData

CHUNK = 20  # paths handed to a process at a time
FEW = 400  # paths for which other processes are not worth starting


class Search(NamedTuple):
    """What every learner of rules is given to work with."""

    scorer: Scorer
    jobs: int
    started: float  # time.monotonic()
    progress: Report | None
    stop: Stop

    @property
    def data(self) -> TrainingData:
        return self.scorer.data

    def tell(self, phase: str, done: int, total: int | None, **figures: float) -> None:
        if self.progress is not None:
            seconds = time.monotonic() - self.started
            self.progress(Progress(phase, done, total, seconds, figures))

    def score_paths(
        self, paths: Sequence[Path], flips: int | None = None
    ) -> Iterator[list[ClauseScore]]:
        """The scores of all clauses of each path, in the order of the paths."""
        best, kept = 0.0, 0
        for done, found in enumerate(self._run(paths, flips), 1):
            kept += sum(score.gain > 0 for score in found)
            best = max([best, *(score.gain for score in found)])
            if done % CHUNK == 0 or done == len(paths):
                self.tell("scoring", done, len(paths), clauses=kept, best=best)
            yield found
            if self.stop.is_over():
                return

    def _run(self, paths: Sequence[Path], flips: int | None) -> Iterator[list[ClauseScore]]:
        if self.jobs == 1 or len(paths) < FEW:
            for path in paths:
                yield score_path(self.scorer, path, flips)
            return
        context = multiprocessing.get_context("spawn")  # compiled code's threads survive no fork
        given = (self.data, self.scorer.sample)
        with ProcessPoolExecutor(
            self.jobs, mp_context=context, initializer=start_process, initargs=given
        ) as pool:
            chunks = [list(paths[at : at + CHUNK]) for at in range(0, len(paths), CHUNK)]
            results = [pool.submit(score_chunk, chunk, flips) for chunk in chunks]
            try:
                for result in results:
                    yield from result.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)


def score_path(scorer: Scorer, path: Path, flips: int | None) -> list[ClauseScore]:
    return scorer.score(path, sign_patterns(path, flips))


_own: list[Scorer] = []  # of this process


def start_process(data: TrainingData, sample: Sample | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one that waits hears Ctrl-C
    _own[:] = [Scorer(data, sample)]


def score_chunk(paths: Sequence[Path], flips: int | None) -> list[list[ClauseScore]]:
    return [score_path(_own[0], path, flips) for path in paths]
