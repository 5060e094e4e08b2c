"""Cross-validation: for each fold, learn on the other databases and predict in its own.

Reported are the scores of each fold, their mean and standard deviation, and the measures of all
held-out atoms pooled. Pooling gives every atom the same weight, the mean every fold.

Folds run one by one or in parallel processes. Ctrl-C and a time limit end the processes and keep
the finished folds; a fold that was stopped is dropped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lapis.data.database import Database
from lapis.errors import LapisError, Note, TooLarge, check_word
from lapis.evaluation.folds import make_folds
from lapis.evaluation.predictions import Predictions, join_predictions
from lapis.evaluation.score import MEASURE_HEADINGS, Quality, Score, measure, score_worlds
from lapis.inference.marginals import InferenceOptions
from lapis.language.model import Model
from lapis.problem.query import query_predicates
from lapis.problem.task import ModelLike, WorldLike, open_inputs
from lapis.registry.method_table import check_options, front_door, seed_of
from lapis.registry.option_field import options_of
from lapis.registry.options import EvaluateOptions, LearnOptions, Missing
from lapis.results.result import Columns, Result
from lapis.runtime.limits import is_time_limit
from lapis.runtime.processes import as_completed, num_cores, worker_pool
from lapis.runtime.progress import (
    STOPPED,
    Progress,
    Stop,
    StopCallback,
    report_progress,
    seconds_left,
)
from lapis.runtime.progress_bars import ProgressOption, as_report
from lapis.runtime.views import View, format_measure, new_view

if TYPE_CHECKING:
    import threading

    from matplotlib.figure import Figure


class LearnerOutput(NamedTuple):
    """The result of a learner."""

    model: Model
    account: Mapping[str, Any]  # objective, optimiser, convergence: for the report
    interrupted: bool = False  # stopped by the user


@dataclass(frozen=True)
class FoldTask:
    """One fold: model, data, query and options."""

    number: int  # from 1
    model: Model
    train: tuple[Database, ...]
    test: tuple[Database, ...]
    query: tuple[str, ...]  # predicted in the test
    learned_query: tuple[str, ...]  # predicted in learning; empty for generative learning
    unobserved: tuple[str, ...] = ()
    only_listed: bool = False
    learn_options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    inference: InferenceOptions = field(default_factory=InferenceOptions)
    scoring: Mapping[str, Any] = field(default_factory=dict)  # further keywords of `score_worlds`
    stop: Stop | None = None  # of this process


Learner = Callable[[FoldTask], LearnerOutput]


@dataclass(frozen=True)
class FoldResult:
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


def learn_fold(task: FoldTask) -> LearnerOutput:
    """Learn the weights of a fold by `learn_weights`."""
    from lapis.learning.learn import learn_weights

    options = LearnOptions(
        **task.learn_options,
        random_state=task.seed,
        unobserved=task.unobserved,
        only_listed=task.only_listed,
    )
    fit = learn_weights(task.model, task.train, task.learned_query, options, stop=task.stop)
    names = ("objective", "optimizer", "prior", "value", "converged", "reason", "iterations")
    warnings = [*fit.warnings, *(f"{u.formula}: {u.reason}" for u in fit.unbounded)]
    account = {**{name: getattr(fit, name) for name in names}, "warnings": warnings}
    return LearnerOutput(fit.model, account, fit.interrupted)


def run_fold(task: FoldTask, learn: Learner) -> FoldResult | None:
    """Learn on the training databases and score the test databases; None if stopped."""
    began = time.perf_counter()
    learned = learn(task)
    learned_at = time.perf_counter()
    if learned.interrupted or not seconds_left():
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
    return FoldResult(
        task.number,
        tuple(world.name for world in task.train),
        tuple(world.name for world in task.test),
        score,
        learned.account,
        {"learning": learned_at - began, "scoring": time.perf_counter() - learned_at},
    )


def run_one_by_one(
    tasks: Sequence[FoldTask], learn: Learner, stop: Stop
) -> Generator[FoldResult, None, None]:
    """Yield folds as they finish; raises KeyboardInterrupt if one was stopped."""
    for task in tasks:
        try:
            fold = None if stop.is_over() else run_fold(replace(task, stop=stop), learn)
        except LapisError as error:
            raise name_fold(error, task) from None
        if fold is None:
            raise KeyboardInterrupt
        yield fold


def run_side_by_side(
    tasks: Sequence[FoldTask], learn: Learner, num_jobs: int, stop: Stop
) -> Generator[FoldResult, None, None]:
    """Yield folds as they finish, `num_jobs` at a time; the first error ends all."""
    with worker_pool(min(num_jobs, len(tasks))) as pool:
        running = {pool.submit(run_fold, task, learn): task for task in tasks}
        for finished in as_completed(running, stop):
            task = running[finished]
            try:
                fold = finished.result()
            except LapisError as error:
                raise name_fold(error, task) from None
            except BrokenProcessPool:
                ended = LapisError(
                    "a process ended before its fold was done",
                    code="process-ended",
                    hint="out of memory? use one job, or data in fewer folds",
                )
                raise name_fold(ended, task) from None
            except Exception as error:
                error.add_note(f"in fold {task.number}")
                raise
            if fold is None:
                raise KeyboardInterrupt
            yield fold


def name_fold(error: LapisError, task: FoldTask) -> LapisError:
    """Add the number and the databases of a fold to an error."""
    tested = ", ".join(world.name for world in task.test)
    error.notes = (*error.notes, Note(f"in fold {task.number}, tested on {tested}"))
    return error


MEASURES = (
    "cll",
    "auc_pr",
    "auc_pr_trapezoid",
    "auc_roc",
    "brier",
    "pseudo_log_likelihood",
    "weighted_pseudo_log_likelihood",
    "conditional_log_likelihood",
    "log_likelihood",
)
PREDICATE_MEASURES = (
    "cll", "average_precision", "auc_pr_trapezoid", "auc_roc", "brier",
    "pseudo_log_likelihood",
)  # fmt: skip
# Options of `learn` that are not given for each fold.
NOT_OF_FOLDS = (
    "checkpoint", "query", "unobserved", "only_listed", "random_state", "engine", "tables",
    "strict", "missing",
)  # fmt: skip


class FoldSpread(NamedTuple):
    """Mean and standard deviation of a measure over the folds that have it."""

    mean: float | None
    sd: float | None  # of a sample (n − 1); None for fewer than two folds
    num_folds: int


def summarize_folds(values: Sequence[float | None]) -> FoldSpread:
    known = np.array([value for value in values if value is not None])
    if not len(known):
        return FoldSpread(None, None, 0)
    if len(known) < 2 or not np.isfinite(known).all():
        return FoldSpread(float(known.mean()), None, len(known))
    return FoldSpread(float(known.mean()), float(known.std(ddof=1)), len(known))


@dataclass(frozen=True, repr=False)
class CrossValidation(Result):
    """The finished folds, in order."""

    query: tuple[str, ...]
    folds: tuple[FoldResult, ...]
    num_folds: int  # finished or not
    interrupted: bool

    @property
    def exact(self) -> bool:
        """Whether all predictions are exact."""
        return all(fold.score.exact for fold in self.folds)

    def spread(self, measure: str) -> FoldSpread:
        """Compute mean and standard deviation of a measure over folds."""
        return summarize_folds([getattr(fold.score, measure) for fold in self.folds])

    def predicate_spread(self, predicate: str, measure: str) -> FoldSpread:
        parts = [fold.score.of(predicate) for fold in self.folds]
        return summarize_folds([getattr(part, measure) for part in parts])

    @property
    def predictions(self) -> Predictions:
        """All held-out atoms, each predicted by the fold that did not learn from it."""
        parts = [f.score.predictions for f in self.folds if f.score.predictions is not None]
        return join_predictions(parts, self.query)

    @property
    def pooled(self) -> Quality:
        """The measures of all held-out atoms together."""
        return measure(self.predictions)

    def tested_on(self, fold: FoldResult) -> str:
        """Name the test databases of a fold, without folders if that is unambiguous."""
        names = {name for other in self.folds for name in other.test}
        short = {name: PurePath(name).name or name for name in names}
        clear = len(set(short.values())) == len(names)
        return ", ".join(short[name] if clear else name for name in fold.test)

    def document(self) -> dict[str, Any]:
        """Return the JSON of `lapis evaluate --json`."""
        overall = {name: self.spread(name) for name in MEASURES}
        return {
            "query": list(self.query),
            "num_folds": self.num_folds,
            "interrupted": self.interrupted,
            "exact": self.exact,
            "folds": [fold.to_json() for fold in self.folds],
            "mean": {name: found.mean for name, found in overall.items()},
            "sd": {name: found.sd for name, found in overall.items()},
            "pooled": self.pooled._asdict(),
            "predicates": [self.predicate_json(name) for name in self.query],
        }

    def predicate_json(self, predicate: str) -> dict[str, Any]:
        found = {name: self.predicate_spread(predicate, name) for name in PREDICATE_MEASURES}
        pooled = measure(self.predictions.of(predicate))._asdict()
        pooled["average_precision"] = pooled.pop("auc_pr")
        return {
            "predicate": predicate,
            "mean": {name: value.mean for name, value in found.items()},
            "sd": {name: value.sd for name, value in found.items()},
            "pooled": pooled,
        }

    def columns(self) -> Columns:
        """Return a row for each fold and predicate, and one for all predicates of a fold."""
        rows = []
        for fold in self.folds:
            tested = self.tested_on(fold)
            whole = {name: getattr(fold.score, name) for name in MEASURES}
            whole |= {"num_atoms": fold.score.num_atoms, "num_true": fold.score.num_true}
            rows.append({"fold": fold.number, "test": tested, "predicate": "(all)", **whole})
            for part in fold.score.predicates:
                own = part.to_json()
                own["auc_pr"] = own.pop("average_precision")
                rows.append({"fold": fold.number, "test": tested, **own})
        names = ("fold", "test", "predicate", *MEASURES, "num_atoms", "num_true")
        return {name: [row.get(name) for row in rows] for name in names}

    def views(self) -> list[View]:
        """Return a row for each fold, mean, deviation and pooled atoms; below, each predicate."""
        measures = tuple(MEASURE_HEADINGS.values())
        rows = [
            (
                str(fold.number),
                self.tested_on(fold),
                f"{fold.score.num_atoms:,}",
                f"{fold.score.num_true:,}",
                *(format_measure(getattr(fold.score, name)) for name in MEASURE_HEADINGS),
                f"{sum(fold.seconds.values()):.1f}",
            )
            for fold in self.folds
        ]
        spreads = [self.spread(name) for name in MEASURE_HEADINGS]
        pooled = self.pooled
        pools = (format_measure(getattr(pooled, name)) for name in MEASURE_HEADINGS)
        totals = [
            ("", "mean", "", "", *(format_measure(found.mean) for found in spreads), ""),
            ("", "sd", "", "", *(format_measure(found.sd) for found in spreads), ""),
            ("", "pooled", f"{pooled.num_atoms:,}", f"{pooled.num_true:,}", *pools, ""),
        ]
        headings = ("fold", "tested on", "atoms", "true", *measures, "seconds")
        found = [new_view(headings, rows, numbers=("fold", *headings[2:]), totals=totals)]
        if len(self.query) > 1:
            named = [(name, *self.predicate_spreads(name)) for name in self.query]
            headings = ("predicate (mean ± sd)", *measures)
            found.append(new_view(headings, named, numbers=measures))
        return found

    def predicate_spreads(self, predicate: str) -> list[str]:
        full = {"auc_pr": "average_precision"}  # named in full for a single predicate
        return [
            format_spread(self.predicate_spread(predicate, full.get(name, name)))
            for name in MEASURE_HEADINGS
        ]

    def summary(self) -> str:
        cll, area = self.spread("cll"), self.spread("auc_pr")
        state = "" if not self.interrupted else f", stopped after {len(self.folds)}"
        return (
            f"{self.num_folds} folds{state}: CLL {format_spread(cll)}, AUC-PR {format_spread(area)}"
        )

    def caption(self) -> str:
        """Return how the weights were learned and the predictions made."""
        ways = dict.fromkeys(
            f"{fold.account['objective']}, {fold.account['optimizer']}, "
            f"prior {fold.account['prior']}"
            for fold in self.folds
            if "objective" in fold.account
        )
        methods = dict.fromkeys(str(fold.score.method) for fold in self.folds)
        learned = f"learned by {'; '.join(ways)}; " if ways else ""
        certainty = "exact" if self.exact else "approximate"
        return f"{learned}predictions {certainty} (by {', '.join(methods)})"

    def remarks(self) -> list[str]:
        found = []
        if self.interrupted:
            found.append(f"stopped early: {len(self.folds)} of {self.num_folds} folds are finished")
        for fold in self.folds:
            if fold.account.get("converged") is False:
                reason = fold.account["reason"]
                found.append(f"fold {fold.number}: learning has not converged ({reason})")
            notes = *fold.account.get("warnings", ()), *fold.score.notes
            found += [f"fold {fold.number}: {note}" for note in notes]
        without = len(self.folds) - self.spread("auc_pr").num_folds
        if 0 < without < len(self.folds):
            found.append(
                f"the mean AUC-PR is of {len(self.folds) - without} of {len(self.folds)} folds: "
                "in the others no query atom is true"
            )
        return found

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw precision–recall curves of the folds and pooled, and the pooled calibration."""
        from lapis.evaluation.score_plots import plot_quality

        series = {
            self.tested_on(fold): fold.score.predictions
            for fold in self.folds
            if fold.score.predictions is not None
        }
        return plot_quality(series, self.predictions, path)


def format_spread(found: FoldSpread) -> str:
    sd = "" if found.sd is None else f" ± {found.sd:.4f}"
    return f"{format_measure(found.mean)}{sd}"


@front_door
def cross_validate(
    model: ModelLike,
    databases: Sequence[WorldLike],
    query: Sequence[str] | str,
    *,
    folds: int | None = None,
    leave_one_out: bool = False,
    learn_options: Mapping[str, object] | None = None,
    generative: bool = False,
    unobserved: Sequence[str] = (),
    only_listed: bool = False,
    method: str = "auto",
    precision: float = 0.01,
    time_limit: float | None = None,
    max_memory: int | None = None,
    likelihood: bool = False,
    pseudo: bool = True,
    strict: bool = False,
    missing: Missing = "error",
    jobs: int | None = None,
    random_state: int | np.random.Generator = 0,
    progress: ProgressOption = True,
    stop: StopCallback | threading.Event | None = None,
    learn: Learner = learn_fold,
) -> CrossValidation:
    """Cross-validate: learn on some databases, predict the query in the others, in turn.

    Parameters
    ----------
    model
        A model or the path of one.
    databases
        The worlds, or their paths.
    query
        Predicates to predict.
    folds
        Number of groups of databases that are tested in turn; if absent, each database is one.
    leave_one_out
        Whether to test each database once.
    learn_options
        Keywords of `learn`, such as objective, optimizer and prior.
    generative
        Whether to learn generatively, from all atoms, not only to predict the query.
    unobserved
        Predicates that are unknown in the data.
    only_listed
        Predict only the query atoms that the data mentions.
    method
        Name of a method (`lapis.methods`); "auto" is exact if affordable and samples the rest.
    precision
        Largest standard error of a sampled marginal.
    time_limit
        Seconds after which the finished folds are returned, marked interrupted.
    max_memory
        Limit in bytes; 70 % of the machine if absent.
    likelihood
        Whether to compute the exact log-likelihood of all test facts, which can take long.
    pseudo
        Whether to compute the pseudo-log-likelihood of the test facts.
    strict
        Refuse facts of undeclared predicates, which are ignored with a warning otherwise.
    missing
        What a number means that the data lack and a formula needs: "error", or "skip" (such
        groundings are left out).
    jobs
        Number of processes; one for each core if absent. The result does not depend on it.
    random_state
        Seed of everything random, or a generator to draw one from.
    progress
        True for a display on a terminal or in a notebook, once the work takes a second; a
        function that is called with `lapis.runtime.progress.Progress` events; None for neither.
    stop
        A callable or an event; if true, the finished folds are returned.
    learn
        The function that learns on the databases of a fold.

    Returns
    -------
    CrossValidation
        The scores of each fold, their means, and all predictions.

    Raises
    ------
    LapisError
        If an input or an option is wrong, or there are fewer databases than folds.
    TooLarge
        If learning or inference of a fold exceeds its limits, or the time ends without a fold.
    """
    options: dict[str, Any] = dict(learn_options or {})
    check_names(options)
    seed = seed_of(random_state)
    check_options(
        EvaluateOptions(
            query=query,
            unobserved=unobserved,
            only_listed=only_listed,
            method=method,
            precision=precision,
            time_limit=time_limit,
            max_memory=max_memory,
            strict=strict,
            missing=missing,
            jobs=jobs,
            random_state=seed,
            folds=folds,
            leave_one_out=leave_one_out,
            generative=generative,
        )
    )
    check_options(LearnOptions(**options))
    inputs = open_inputs(model, databases, strict=strict)
    model = replace(inputs.model, missing=missing)
    names = tuple(query_predicates(query, model))
    check_query(names)
    query_predicates(unobserved, model)
    generative = generative or options.get("objective") == "likelihood"
    plan = make_folds(
        model, inputs.databases, names, folds=folds, leave_one_out=leave_one_out, random_state=seed
    )
    inference = InferenceOptions(
        precision=precision, time_limit=time_limit, seed=seed, max_memory=max_memory
    )
    scoring = {"method": method, "likelihood": likelihood, "pseudo": pseudo}
    tasks = [
        FoldTask(
            number + 1,
            model,
            tuple(plan.databases[i] for i in plan.train(number)),
            tuple(plan.databases[i] for i in plan.test[number]),
            names,
            () if generative else names,
            tuple(unobserved),
            only_listed,
            options,
            seed,
            inference,
            scoring,
        )
        for number in range(len(plan))
    ]
    num_jobs = min(len(tasks), jobs or num_cores())
    finished: list[FoldResult] = []
    began, halt = time.monotonic(), Stop(stop)
    report_progress(as_report(progress), Progress("folds", 0, len(tasks)))
    running = (
        run_one_by_one(tasks, learn, halt)
        if num_jobs == 1
        else run_side_by_side(tasks, learn, num_jobs, halt)
    )
    try:
        for fold in running:
            finished.append(fold)
            text, seconds = f"tested on {', '.join(fold.test)}", time.monotonic() - began
            event = Progress("folds", len(finished), len(tasks), seconds, text=text)
            report_progress(as_report(progress), event)
    except (KeyboardInterrupt, TooLarge) as error:
        if isinstance(error, TooLarge) and (not is_time_limit(error) or seconds_left()):
            raise
        if not finished:
            raise (KeyboardInterrupt if seconds_left() else no_fold_error(began)) from None
        halt.request()
    finally:
        running.close()
    finished.sort(key=lambda fold: fold.number)
    return CrossValidation(names, tuple(finished), len(tasks), halt.requested)


def no_fold_error(began: float) -> TooLarge:
    """Return the error of a cross-validation that ended without a fold; `began` is monotonic."""
    seconds = time.monotonic() - began
    more = f"{4 * max(seconds, 0.05):.2g}"
    return TooLarge(
        f"the time limit ended cross-validation after {seconds:.2g} s, before a fold was finished",
        code=STOPPED,
        hint=f"set --time-limit {more} (time_limit={more}) or more",
    )


def check_names(options: Mapping[str, Any]) -> None:
    """Refuse learning options that `lapis.learn` does not have, or that folds do not take."""
    known = [
        option.name
        for option in options_of(LearnOptions)
        if not option.cli_only and option.name not in NOT_OF_FOLDS
    ]
    for name in options:
        check_word("learning option", name, known, code="learn-option")


def check_query(query: Sequence[str]) -> None:
    if not query:
        raise LapisError(
            "cross-validation needs a query to predict in the held-out data",
            code="no-query",
            hint="name the predicates to predict (-q P,Q)",
        )
