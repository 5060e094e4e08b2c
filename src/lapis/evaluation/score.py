"""Scores of a model on data.

The facts of the query predicates are hidden, predicted from the other predicates, and compared:
CLL, AUC-PR, AUC-ROC and Brier score of each predicate and of all together. The score also has the
likelihoods of all facts (`likelihood`). A measure that cannot be computed is None, with a note.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lapis.data.database import Database
from lapis.errors import LapisError, TooLarge
from lapis.evaluation.likelihood import (
    LogLikelihood,
    PredicateLikelihood,
    add_log_likelihoods,
    add_pseudo_log_likelihoods,
    log_likelihood,
    pseudo_log_likelihoods,
    weighted_sum,
)
from lapis.evaluation.metrics import (
    average_precision,
    brier_score,
    conditional_log_likelihood,
    roc_auc,
    trapezoid_auc,
)
from lapis.evaluation.predictions import (
    Predictions,
    WorldPrediction,
    join_predictions,
    predict_example,
)
from lapis.inference.marginals import InferenceOptions, add_or_none, join_names
from lapis.language.instances import gather_instances
from lapis.language.model import Model
from lapis.learning.examples import Example, build_examples
from lapis.problem.task import type_sizes
from lapis.registry.method_table import find_method
from lapis.results.result import Columns, Figures, Result
from lapis.runtime.views import View, format_measure, format_number, new_view

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Quality(NamedTuple):
    """Measures of predictions; None without atoms, areas also if no atom is true (or false)."""

    cll: float | None
    auc_pr: float | None  # average precision
    auc_pr_trapezoid: float | None
    auc_roc: float | None
    brier: float | None
    num_atoms: int
    num_true: int


NOTHING = Quality(None, None, None, None, None, 0, 0)


@dataclass(frozen=True, slots=True)
class PredicateScore:
    """The measures of one predicate."""

    predicate: str
    cll: float | None
    average_precision: float | None
    auc_pr_trapezoid: float | None
    auc_roc: float | None
    brier: float | None
    num_atoms: int  # query atoms compared
    num_true: int
    pseudo_log_likelihood: float | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


MEASURE_HEADINGS = {
    "cll": "CLL",
    "auc_pr": "AUC-PR",
    "auc_pr_trapezoid": "(trapezoid)",
    "auc_roc": "AUC-ROC",
    "brier": "Brier",
}


FIGURES = {
    "log_likelihood": "log-likelihood",
    "log_likelihood_stderr": "its standard error",
    "pseudo_log_likelihood": "pseudo-log-likelihood",
    "weighted_pseudo_log_likelihood": "weighted pseudo-log-likelihood",
    "cll": "CLL",
    "auc_pr": "AUC-PR",
    "auc_pr_trapezoid": "AUC-PR by trapezoids",
    "auc_roc": "AUC-ROC",
    "brier": "Brier score",
    "conditional_log_likelihood": "log-likelihood of the query",
    "num_atoms": "query atoms",
    "num_true": "of them true",
    "max_stderr": "largest standard error",
}


@dataclass(frozen=True, repr=False)
class Score(Result):
    """The measures of a model on data, of all atoms and of each predicate."""

    log_likelihood: float | None  # None if it is too expensive
    pseudo_log_likelihood: float | None  # None if facts are unknown
    weighted_pseudo_log_likelihood: float | None
    cll: float | None  # None without a query
    auc_pr: float | None  # average precision
    auc_pr_trapezoid: float | None
    auc_roc: float | None
    brier: float | None
    conditional_log_likelihood: float | None  # log P(all query atoms | the rest), if exact
    num_atoms: int  # query atoms compared
    num_true: int
    method: str | None  # of the predictions; None without a query
    exact: bool | None  # whether the predictions are exact
    max_stderr: float | None  # of the predictions; None if they are exact, and by bp
    predicates: tuple[PredicateScore, ...]  # those of the query; all without a query
    notes: tuple[str, ...] = ()  # reasons of missing measures, and caveats
    interrupted: bool = False  # sampling was stopped by the user
    log_likelihood_method: str | None = None
    log_likelihood_stderr: float | None = None  # None if exact
    predictions: Predictions | None = field(default=None, compare=False, repr=False)

    def document(self) -> dict[str, Any]:
        """Return the JSON of `lapis score --json`."""
        apart = ("predicates", "notes", "predictions")
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in apart}
        return {
            **plain,
            "predicates": [part.to_json() for part in self.predicates],
            "notes": list(self.notes),
        }

    def columns(self) -> Columns:
        """Return a row for each predicate."""
        rows = [part.to_json() for part in self.predicates]
        return {f.name: [row[f.name] for row in rows] for f in fields(PredicateScore)}

    def views(self) -> list[View]:
        """Return the measures of all atoms, then those of each predicate."""
        whole = {text: getattr(self, name) for name, text in FIGURES.items()}
        if self.log_likelihood_stderr is None:
            del whole[FIGURES["log_likelihood_stderr"]]
        found = Figures(whole).views()
        if self.predicates:
            numbers = ("atoms", "true", *MEASURE_HEADINGS.values(), "pseudo-LL")
            rows = [
                (
                    part.predicate,
                    f"{part.num_atoms:,}",
                    f"{part.num_true:,}",
                    *map(format_measure, (part.cll, part.average_precision)),
                    *map(format_measure, (part.auc_pr_trapezoid, part.auc_roc, part.brier)),
                    format_measure(part.pseudo_log_likelihood),
                )
                for part in self.predicates
            ]
            found.append(new_view(("predicate", *numbers), rows, numbers=numbers))
        return found

    def summary(self) -> str:
        if self.method is None:
            return f"pseudo-log-likelihood {format_number(self.pseudo_log_likelihood)}"
        measures = f"CLL {format_measure(self.cll)}, AUC-PR {format_measure(self.auc_pr)}"
        return f"{measures}; {self.caption()}"

    def caption(self) -> str:
        certainty = "exact" if self.exact else "approximate"
        return "" if self.method is None else f"predictions {certainty} (by {self.method})"

    def remarks(self) -> list[str]:
        return list(self.notes)

    def plot(self, path: str | Path | None = None) -> Figure:
        """Draw precision–recall, ROC and calibration of each query predicate and of all.

        Parameters
        ----------
        path
            Path of a picture to write; the figure is shown if absent.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.

        Raises
        ------
        LapisError
            If nothing was predicted, or matplotlib is not installed.
        """
        from lapis.evaluation.score_plots import plot_quality

        if self.predictions is None:
            raise LapisError(
                "nothing was predicted", code="no-query", hint="name the predicates to predict"
            )
        names = [part.predicate for part in self.predicates] if len(self.predicates) > 1 else []
        series = {name: self.predictions.of(name) for name in names}
        return plot_quality(series, self.predictions, path)

    def of(self, predicate: str) -> PredicateScore:
        """Select the score of one predicate.

        Parameters
        ----------
        predicate
            Name of the predicate.

        Returns
        -------
        PredicateScore
            Its measures.

        Raises
        ------
        KeyError
            If the predicate was not scored.
        """
        for part in self.predicates:
            if part.predicate == predicate:
                return part
        raise KeyError(predicate)


def score_worlds(
    model: Model,
    worlds: Sequence[Database],
    query: Sequence[str] = (),
    *,
    method: str = "auto",
    options: InferenceOptions | None = None,
    unobserved: Sequence[str] = (),
    only_listed: bool = False,
    likelihood: bool = True,
    pseudo: bool = True,
) -> Score:
    """Score a model on independent worlds: likelihoods are added, the other measures are pooled.

    `unobserved` predicates are unknown in the data. With `only_listed` only the atoms that the data
    mentions are asked; the other atoms of the query predicates are false. A time limit is for all
    worlds. `likelihood` and `pseudo` can take longer than the predictions.

    >>> import lapis
    >>> model = lapis.parse("Smokes(person)\\nCancer(person)\\n1.5 Smokes(x) => Cancer(x)")
    >>> data = lapis.Database.parse("Smokes(Ann) Cancer(Ann) Smokes(Bob)")
    >>> found = score_worlds(model, [data], ["Cancer"])
    >>> found.exact, round(found.cll, 4), found.auc_pr, round(found.log_likelihood, 4)
    (True, -0.9514, 0.5, -3.8407)
    """
    find_method("infer", method)
    options = options or InferenceOptions()
    if not query:
        refuse_unasked(method, options, only_listed)
    notes: list[str] = []
    model = gather_instances(model, type_sizes(model, worlds)).model
    everything = build_examples(model, worlds, unobserved=unobserved)
    whole = total_likelihood(everything, method, options, notes) if likelihood else None
    total, stderr_of_total, methods_of_total = whole or (None, None, ())
    by_world = (pseudo_log_likelihoods(example.complete) for example in everything)
    parts = total_pseudo(by_world, notes) if pseudo else None
    examples: list[Example] = []
    if query:
        examples = build_examples(
            model, worlds, query, unobserved=unobserved, only_listed=only_listed
        )
    found = predict_examples(examples, method, options, notes)
    names = tuple(dict.fromkeys(query)) or model.uncertain_predicates
    predictions = join_predictions([part.predictions for part in found], names)
    quality = measure(predictions)
    exact = all(part.exact for part in found) if query else None
    return Score(
        log_likelihood=total,
        pseudo_log_likelihood=None if parts is None else sum(p.value for p in parts.values()),
        weighted_pseudo_log_likelihood=None if parts is None else weighted_sum(parts),
        **quality._asdict(),
        conditional_log_likelihood=add_or_none([part.log_likelihood for part in found])
        if query
        else None,
        method="+".join(join_names(part.methods for part in found)) if query else None,
        exact=exact,
        max_stderr=predictions.max_stderr if exact is False else None,
        predicates=tuple(
            predicate_score(name, measure(predictions.of(name)), parts) for name in names
        ),
        notes=tuple(notes),
        interrupted=any(part.diagnostics.get("interrupted") for part in found),
        log_likelihood_method="+".join(methods_of_total) or None,
        log_likelihood_stderr=stderr_of_total,
        predictions=predictions if query else None,
    )


def refuse_unasked(method: str, options: InferenceOptions, only_listed: bool) -> None:
    """Refuse options of predictions if nothing is predicted."""
    given = {
        "--only-listed": only_listed,
        f"--method {method}": method not in ("auto", "ais"),
        "--precision": options.precision != InferenceOptions().precision,
    }
    for label, is_given in given.items():
        if is_given:
            raise LapisError(
                f"{label} is for predictions, and nothing is predicted",
                code="no-query",
                hint="name the predicates to predict (-q P,Q)",
            )


def measure(predictions: Predictions) -> Quality:
    """Compute CLL, the areas under curves and the Brier score."""
    truth, probability = predictions.truth, predictions.probability
    if not len(truth):
        return NOTHING
    return Quality(
        conditional_log_likelihood(predictions.log_odds, truth),
        average_precision(predictions.rank, truth),
        trapezoid_auc(predictions.rank, truth),
        roc_auc(predictions.rank, truth),
        brier_score(probability, truth),
        len(truth),
        int(truth.sum()),
    )


def predict_examples(
    examples: Sequence[Example], method: str, options: InferenceOptions, notes: list[str]
) -> list[WorldPrediction]:
    """Predict in each world, with an equal share of the time."""
    if options.time_limit is not None:
        options = replace(options, time_limit=options.time_limit / max(1, len(examples)))
    found = [predict_example(example, method, options) for example in examples]
    for example, part in zip(examples, found, strict=True):
        note_caveats(example, part.diagnostics, notes)
    return found


def note_caveats(example: Example, diagnostics: Mapping[str, Any], notes: list[str]) -> None:
    """Note the caveats of the predictions of a world."""
    if "not_ground" in diagnostics:
        notes.append(f"{example.free.name}: predicted by counts: {diagnostics['not_ground']}")
    if diagnostics.get("interrupted"):
        notes.append(f"{example.free.name}: sampling was stopped early")
    elif diagnostics.get("converged") is False:
        notes.append(f"{example.free.name}: the predictions have not converged")


def total_likelihood(
    examples: Sequence[Example], method: str, options: InferenceOptions, notes: list[str]
) -> LogLikelihood | None:
    try:
        return add_log_likelihoods([log_likelihood(e, options, method) for e in examples])
    except TooLarge as error:
        hint = "" if method == "ais" else "; method 'ais' estimates it"
        notes.append(f"no log-likelihood: {error.message}{hint}")
        return None


def total_pseudo(
    worlds: Iterable[dict[str, PredicateLikelihood]], notes: list[str]
) -> dict[str, PredicateLikelihood] | None:
    """Add the pseudo-log-likelihoods of worlds; None, with a note, if computing one fails."""
    try:
        return add_pseudo_log_likelihoods(list(worlds))
    except LapisError as error:
        if not (isinstance(error, TooLarge) or error.code == "incomplete-data"):
            raise
        notes.append(f"no pseudo-log-likelihood: {error.message}")
        return None


def predicate_score(
    name: str, quality: Quality, parts: dict[str, PredicateLikelihood] | None
) -> PredicateScore:
    pseudo = None if parts is None or name not in parts else parts[name].value
    return PredicateScore(name, *quality, pseudo)
