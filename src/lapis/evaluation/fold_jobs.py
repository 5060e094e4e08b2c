"""Folds of a cross-validation, learned and scored one by one or in processes side by side.

Ctrl-C ends the worker processes and keeps the finished folds. Without processes a learner that was
stopped says so itself, and its half-learned fold is dropped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from lapis.data.database import Database
from lapis.errors import LapisError, Note
from lapis.evaluation.score import Score, score_worlds
from lapis.inference.marginals import InferenceOptions
from lapis.language.model import Model
from lapis.runtime.processes import as_completed, worker_pool
from lapis.runtime.progress import Stop


class Learned(NamedTuple):
    """What a learner gives back."""

    model: Model
    account: Mapping[str, Any]  # how it went, for the report
    interrupted: bool = False  # stopped by the user: not what it would have been


@dataclass(frozen=True)
class FoldTask:
    """One fold: what to learn, from what, and what to test on."""

    number: int  # from 1
    model: Model
    train: tuple[Database, ...]
    test: tuple[Database, ...]
    query: tuple[str, ...]  # predicted in the test
    learned_query: tuple[str, ...]  # predicted while learning; none: learning is generative
    unobserved: tuple[str, ...] = ()
    only_listed: bool = False
    learn_options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    inference: InferenceOptions = field(default_factory=InferenceOptions)
    scoring: Mapping[str, Any] = field(default_factory=dict)  # further keywords of `score_worlds`
    stop: Stop | None = None  # within this process


Learner = Callable[[FoldTask], Learned]


@dataclass(frozen=True)
class Fold:
    """A finished fold."""

    number: int
    train: tuple[str, ...]  # names of the databases
    test: tuple[str, ...]
    score: Score
    account: Mapping[str, Any]  # of the learner
    seconds: Mapping[str, float]  # learning, scoring

    def to_json(self) -> dict[str, Any]:
        return {
            "fold": self.number,
            "train": list(self.train),
            "test": list(self.test),
            "learning": dict(self.account),
            "seconds": dict(self.seconds),
            **self.score.to_json(),
        }


def learn_fold(task: FoldTask) -> Learned:
    """The learner of the library."""
    from lapis.learning.learn import learn_weights
    from lapis.registry.options import LearnOptions

    options = LearnOptions(**{**task.learn_options, "random_state": task.seed})
    fit = learn_weights(
        task.model,
        task.train,
        task.learned_query,
        options,
        unobserved=task.unobserved,
        only_listed=task.only_listed,
        unit_formulas=options.unit_formulas,
        stop=task.stop,
    )
    said = ("objective", "optimizer", "prior", "value", "converged", "reason", "iterations")
    warnings = [*fit.warnings, *(f"{u.formula}: {u.reason}" for u in fit.unbounded)]
    account = {**{name: getattr(fit, name) for name in said}, "warnings": warnings}
    return Learned(fit.model, account, fit.interrupted)


def run_fold(task: FoldTask, learn: Learner) -> Fold | None:
    """Learn on the rest, score the held-out databases; None if the user stopped it."""
    began = time.perf_counter()
    learned = learn(task)
    learned_at = time.perf_counter()
    if learned.interrupted:
        return None
    score = score_worlds(
        learned.model,
        task.test,
        task.query,
        options=replace(task.inference, stop=task.stop),
        unobserved=task.unobserved,
        only_listed=task.only_listed,
        **task.scoring,
    )
    if score.interrupted:
        return None
    return Fold(
        task.number,
        tuple(world.name for world in task.train),
        tuple(world.name for world in task.test),
        score,
        learned.account,
        {"learning": learned_at - began, "scoring": time.perf_counter() - learned_at},
    )


def run_one_by_one(
    tasks: Sequence[FoldTask], learn: Learner, stop: Stop
) -> Generator[Fold, None, None]:
    """Folds as they finish; raises KeyboardInterrupt where the user stopped one."""
    for task in tasks:
        try:
            fold = None if stop() else run_fold(replace(task, stop=stop), learn)
        except LapisError as error:
            raise name_fold(error, task) from None
        if fold is None:
            raise KeyboardInterrupt
        yield fold


def run_side_by_side(
    tasks: Sequence[FoldTask], learn: Learner, num_jobs: int, stop: Stop
) -> Generator[Fold, None, None]:
    """Folds as they finish, `num_jobs` at a time; the first error ends all."""
    with worker_pool(min(num_jobs, len(tasks))) as pool:
        running = {pool.submit(run_fold, task, learn): task for task in tasks}
        for finished in as_completed(running, stop):
            task = running[finished]
            try:
                fold = finished.result()
            except LapisError as error:
                raise name_fold(error, task) from None
            except BrokenProcessPool:
                raise name_fold(process_ended(), task) from None
            except Exception as error:
                error.add_note(f"in fold {task.number}")
                raise
            if fold is None:
                raise KeyboardInterrupt
            yield fold


def process_ended() -> LapisError:
    return LapisError(
        "a process ended before its fold was done",
        code="process-ended",
        hint="out of memory? use one job, or data in fewer folds",
    )


def name_fold(error: LapisError, task: FoldTask) -> LapisError:
    tested = ", ".join(world.name for world in task.test)
    error.notes = (*error.notes, Note(f"in fold {task.number}, tested on {tested}"))
    return error
