"""The result of learning: the model with its weights, standard errors and diagnostics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lapis.data.atomic_write import write_whole
from lapis.errors import TooLarge
from lapis.language.model import Model
from lapis.language.printer import print_model
from lapis.learning.parameters import Parameters, weighted_model
from lapis.registry.method_table import check_options, front_door, seed_of
from lapis.results.columns import as_list
from lapis.results.plots import COLOUR, new_axes, shorten_label, style_axes
from lapis.results.result import Columns, Result
from lapis.runtime.progress import STOPPED, Stop, StopCallback
from lapis.runtime.progress_bars import ProgressOption, as_report
from lapis.runtime.views import View, new_view

if TYPE_CHECKING:
    import threading

    from matplotlib.axes import Axes

    from lapis.data.formats.table_files import Frame
    from lapis.learning.weight_posterior import WeightPosterior
    from lapis.optimisation.history import CurvePoint
    from lapis.problem.task import DataLike
    from lapis.results.answer import Answer

FARTHEST = 100.0  # largest |w| without a prior: a factor of 10^43 in the odds
MAX_NAMED = 5  # unbounded weights that a file's heading names
# Fields of a fit that its JSON begins with.
JSON_FIELDS = (
    "objective", "optimizer", "prior", "value", "log_prior", "exact", "converged", "interrupted",
    "reason", "iterations", "gradient_norm",
)  # fmt: skip


@dataclass(frozen=True)
class UnboundedWeight:
    """A weight that the data drives to infinity, and why."""

    parameter: int
    formula: str
    sign: int  # 1: towards +∞, −1: towards −∞
    reason: str


@dataclass(frozen=True, repr=False)
class Fit(Result):
    """Learned weights. `value` is the objective there, without the prior."""

    objective: str
    optimizer: str
    prior: str
    value: float | None  # None if the objective has no value
    log_prior: float
    exact: bool  # values and gradients were exact
    converged: bool
    interrupted: bool
    reason: str  # why it stopped
    iterations: int
    gradient_norm: float  # the largest component, prior included
    parameters: Parameters = field(repr=False)
    weights: np.ndarray = field(repr=False)  # float64[num_parameters]
    # float64[num_parameters] from the curvature at the weights, NaN without curvature
    standard_errors: np.ndarray | None = field(repr=False)
    curve: tuple[CurvePoint, ...] = field(repr=False)
    seconds: Mapping[str, float]  # by phase
    unbounded: tuple[UnboundedWeight, ...] = ()
    warnings: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    posterior: WeightPosterior | None = None  # with estimate="mean", whose means the weights are
    query: tuple[str, ...] = ()  # predicates that were predicted; all if learning was generative
    # Constants of types that keep those of training: of + variables, and marked arguments (!, ?).
    constants: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)

    @property
    def estimate(self) -> str:
        """Whether the weights are the posterior's "mode" or its "mean"."""
        return "mode" if self.posterior is None else "mean"

    @cached_property
    def model(self) -> Model:
        """The model with the learned weights."""
        return weighted_model(self.parameters.model, self.parameters.keys(), self.weights)

    @property
    def text(self) -> str:
        """The learned model as a file, with standard errors as comments."""
        return print_model(self.model, title=self.title(), notes=self.notes())

    def save(self, path: str | Path) -> None:
        """Write the learned model, or the whole fit.

        Parameters
        ----------
        path
            Path of the file: `.mln` for the model, with standard errors as comments; `.json` for
            the whole fit, which `Fit.load` reads.

        Raises
        ------
        LapisError
            If the file cannot be written, or a `.json` file cannot hold the fit.
        """
        if Path(path).suffix == ".json":
            from lapis.learning.fit_files import write_fit

            write_fit(self, path)
        else:
            write_whole(path, self.text)

    @staticmethod
    def load(path: str | Path) -> Fit:
        """Read a fit that `save` wrote to a `.json` file.

        Parameters
        ----------
        path
            Path of the file.

        Returns
        -------
        Fit
            The fit, equal to the one that was saved.

        Raises
        ------
        LapisError
            If the file cannot be read, or is not such a file.
        """
        from lapis.learning.fit_files import read_fit

        return read_fit(path)

    @front_door
    def predict(
        self,
        data: DataLike | Mapping[str, Frame],
        query: Sequence[str] | str = (),
        *,
        only_listed: bool = False,
        method: str = "auto",
        precision: float = 0.01,
        time_limit: float | None = None,
        max_samples: int = 400_000,
        num_chains: int = 4,
        random_state: int | np.random.Generator = 0,
        max_memory: int | None = None,
        progress: ProgressOption = True,
        stop: StopCallback | threading.Event | None = None,
    ) -> Answer:
        """Infer the query in data that was not there in training, without learning anew.

        The data has its own constants. Types with a weight for each constant (+), and the values of
        blocks (!), keep the constants of training beside those of the data. The answer has a note
        of constants that training did not have; their weights are 0.

        Parameters
        ----------
        data
            Facts of new records: a database, the path of one, a list of these as independent
            worlds, or frames by predicate, as for `Database.from_frames`.
        query
            Predicates, atoms or formulas; the predicates of `learn` if empty.
        only_listed
            Ask only the query atoms that the data marks unknown.
        method
            Name of a method of inference.
        precision
            Largest standard error of a sampled marginal.
        time_limit
            Seconds after which the result so far is returned, marked interrupted.
        max_samples
            Number of samples in all chains after warm-up.
        num_chains
            Number of chains.
        random_state
            Seed of everything random, or a generator to draw one from.
        max_memory
            Limit in bytes; 70 % of the machine if absent.
        progress
            True for a display once the work takes a second; a function that is called with events;
            None for neither.
        stop
            A callable or an event; if true, the result so far is returned, marked interrupted.

        Returns
        -------
        Answer
            A probability for each atom.

        Raises
        ------
        LapisError
            If the data or an option is wrong.
        TooLarge
            If the method cannot answer within its limits.

        Examples
        --------
        >>> import lapis
        >>> model = lapis.parse("Has(page, word)\\nCourse(page)\\nHas(p, +w) => Course(p)")
        >>> data = lapis.Database.parse("Has(A, Exam) Course(A) Has(B, Cat) Has(C, Exam) Course(C)")
        >>> fit = lapis.learn(model, data, "Course")
        >>> answer = fit.predict(lapis.Database.parse("Has(D, Exam) Has(E, Dog)"))
        >>> answer["Course(D)"] > answer["Course(E)"] == 0.5
        True
        >>> print(answer.remarks()[0])
        1 constant of type word was not in training (Dog); its weights are 0
        """
        from lapis.inference.marginals import InferenceOptions
        from lapis.learning.predict import predict_records
        from lapis.registry.options import InferOptions

        asked = (query,) if isinstance(query, str) else tuple(query)
        given = InferOptions(
            query=asked or self.query,
            method=method,
            precision=precision,
            time_limit=time_limit,
            max_samples=max_samples,
            num_chains=num_chains,
            random_state=seed_of(random_state),
            max_memory=max_memory,
        )
        check_options(given)
        limits = InferenceOptions(
            precision=precision,
            max_samples=max_samples,
            num_chains=num_chains,
            time_limit=time_limit,
            seed=given.seed,
            max_memory=max_memory,
            progress=as_report(progress),
            stop=Stop(stop),
        )
        return predict_records(
            self.model, self.constants, data, given.query, method, limits, only_listed
        )

    def require_iteration(self) -> None:
        """Raise TooLarge if learning was stopped before its first iteration.

        Raises
        ------
        TooLarge
            If no weight was learned.
        """
        if self.interrupted and not self.iterations:
            raise TooLarge("learning was stopped before its first iteration", code=STOPPED)

    def title(self) -> str:
        """Return the comment at the head of the learned model."""
        value = "" if self.value is None else f", value {self.value:.6g}"
        how = f"{self.objective}, {self.optimizer}, prior {self.prior}{value}"
        lines = [f"weights learned by {how}"]
        if self.posterior is not None:
            lines = [f"posterior means of weights, by {how}", self.posterior.summary()]
            lines += [f"caveat: {caveat}" for caveat in self.posterior.caveats]
        if not self.converged:
            lines.append(f"not converged: {self.reason}")
        lines += self.about_errors()
        lines += [f"{u.formula}: {u.reason}" for u in self.unbounded[:MAX_NAMED]]
        if len(self.unbounded) > MAX_NAMED:
            lines.append(f"… and {len(self.unbounded) - MAX_NAMED:,} more weights without bound")
        return "\n".join(lines)

    def notes(self) -> list[list[str]]:
        """Return for each rule a comment for each of its weights."""
        if self.standard_errors is None:
            return [[""] * max(1, size) for size in np.diff(self.parameters.offset)]
        texts = [describe_error(e, False, bounded) for _, _, e, _, bounded in self.entries()]
        offset = self.parameters.offset.tolist()
        return [texts[i:j] or [""] for i, j in pairwise(offset)]

    def about_errors(self) -> list[str]:
        """Return caveats of the standard errors, if there are any."""
        if self.standard_errors is None or not np.isfinite(self.standard_errors).any():
            return []
        found = []
        if self.details.get("standard_errors") == "diagonal":
            found.append(
                "standard errors are lower bounds: each as if the other weights were known"
            )
        if "standard_errors_note" in self.details:
            found.append(f"standard errors are {self.details['standard_errors_note']}")
        return found

    @cached_property
    def bounded(self) -> np.ndarray:
        """bool[num_parameters], false for weights that the data drives to infinity."""
        found = np.ones(len(self.weights), bool)
        found[[weight.parameter for weight in self.unbounded]] = False
        if self.prior == "none":
            found &= self.parameters.fixed | (np.abs(self.weights) < FARTHEST)
        return found

    def columns(self) -> Columns:
        """Return a row for each weight; the standard error is NaN if there is none."""
        errors = self.standard_errors
        stderr = np.full(len(self.weights), np.nan) if errors is None else errors
        return {
            "formula": self.parameters.names(),
            "weight": self.weights,
            "stderr": np.where(self.bounded, stderr, np.nan),
            "fixed": self.parameters.fixed,
            "bounded": self.bounded,
        }

    def rows(self) -> list[tuple[str, float, float | None, bool]]:
        """Return (formula, weight, standard error, fixed) for each weight."""
        return [(name, w, e, fixed) for name, w, e, fixed, _ in self.entries()]

    def entries(self) -> list[tuple[str, float, float | None, bool, bool]]:
        """Return (formula, weight, standard error, fixed, bounded) for each weight."""
        found = zip(*map(as_list, self.columns().values()), strict=True)
        return [(name, w, e if np.isfinite(e) else None, f, b) for name, w, e, f, b in found]

    @cached_property
    def by_formula(self) -> dict[str, float]:
        return dict(zip(self.parameters.names(), self.weights.tolist(), strict=True))

    def __getitem__(self, formula: str) -> float:
        """The weight of a formula, as it is printed."""
        return self.by_formula[formula]

    def weight_covariance(self) -> np.ndarray | None:
        """Return the covariance of the weights, if their posterior is known.

        Returns
        -------
        numpy.ndarray or None
            float64[num_weights, num_weights], in the order of the weights; 0 where they are fixed.
        """
        if self.posterior is None:
            return None
        return self.posterior.covariance()

    def document(self) -> dict[str, Any]:
        """Return the JSON of `lapis learn --json`."""
        names = ("formula", "weight", "stderr", "fixed", "bounded")
        return {
            **{name: getattr(self, name) for name in JSON_FIELDS},
            "estimate": self.estimate,
            "posterior": None if self.posterior is None else self.posterior.to_json(),
            "weights": (dict(zip(names, row, strict=True)) for row in self.entries()),
            "unbounded": [
                {"formula": u.formula, "sign": u.sign, "reason": u.reason} for u in self.unbounded
            ],
            "warnings": list(self.warnings),
            "seconds": dict(self.seconds),
            "curve": (point._asdict() for point in self.curve),
            **self.details,
        }

    def views(self) -> list[View]:
        if self.posterior is not None:
            return self.posterior.views()
        rows = [
            (f"{weight:z.4f}", describe_error(error, fixed, bounded), name)
            for name, weight, error, fixed, bounded in self.entries()
        ]
        return [new_view(("weight", "error", "formula"), rows, numbers=["weight"])]

    def summary(self) -> str:
        value = "" if self.value is None else f"; value {self.value:.6g}"
        how = "exact" if self.exact else "sampled or estimated"
        if self.posterior is not None:
            seconds = f"{sum(self.seconds.values()):.2f} s"
            return f"{self.posterior.summary()}, {seconds}; value at the mean {self.value:.6g}"
        state = "converged" if self.converged else "not converged"
        took = f"{self.iterations} iterations"
        steps = "" if self.reason.startswith(took) else f", {took}"
        return (
            f"{self.objective} ({how}), {self.optimizer}, prior {self.prior}: {state}, "
            f"{self.reason}{steps}, {sum(self.seconds.values()):.2f} s{value}"
        )

    def remarks(self) -> list[str]:
        found = [f"warning: {weight.formula}: {weight.reason}" for weight in self.unbounded]
        if len(found) > MAX_NAMED:
            more = len(found) - MAX_NAMED
            listed = "to_json() and --json list them"
            found[MAX_NAMED:] = [f"warning: {more:,} more weights have no bound ({listed})"]
        farthest = int((~self.bounded).sum()) - len(self.unbounded)
        if farthest:
            weights = "1 weight was" if farthest == 1 else f"{farthest:,} weights were"
            found.append(
                f"warning: {weights} stopped at {FARTHEST:g}, since the data sets no bound; "
                "give a prior"
            )
        found += [f"warning: {warning}" for warning in self.warnings]
        found += [
            f"{formula}: the prior counts in {size:.4g}, the standard deviation of its number"
            for formula, size in self.details.get("standardized", {}).items()
        ]
        found += self.about_errors()
        found += [] if self.posterior is None else self.posterior.remarks()
        if self.interrupted:
            found.append("stopped early: these are the weights so far")
        elif not self.converged:
            found.append(f"not converged: {self.reason}")
        return found

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draw the learning curve: the objective, or the gradient where it has no value.

        Parameters
        ----------
        axes
            Matplotlib axes to draw on; new ones if absent.

        Returns
        -------
        matplotlib.axes.Axes
            The axes with the picture.

        Raises
        ------
        LapisError
            If matplotlib is not installed.
        """
        return plot_curve(self, axes)


def describe_error(error: float | None, fixed: bool, bounded: bool) -> str:
    if fixed:
        return "fixed"
    if not bounded:
        return "no bound"
    return "" if error is None else f"± {error:.3g}"


def plot_curve(fit: Fit, axes: Axes | None) -> Axes:
    found = new_axes(axes, (6, 3))
    seconds = [point.seconds for point in fit.curve]
    values = [point.value for point in fit.curve if point.value is not None]
    if len(values) == len(seconds):
        found.plot(seconds, values, color=COLOUR)
        found.set(ylabel=f"{fit.objective} with prior")
    else:
        found.plot(seconds, [point.gradient_norm for point in fit.curve], color=COLOUR)
        found.set(yscale="log", ylabel="largest component of the gradient")
    found.set(xlabel="seconds", title=shorten_label(f"{fit.optimizer}: {fit.reason}"))
    return style_axes(found)


NAMED = 3  # formulas that a message names


def name_some(formulas: list[str]) -> str:
    """Quote the first formulas and count the others."""
    shown = ", ".join(map(repr, formulas[:NAMED]))
    more = len(formulas) - NAMED
    return f"{shown} and {more:,} more" if more > 0 else shown
