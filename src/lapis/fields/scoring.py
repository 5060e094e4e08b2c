"""`fields.score`: the measures of `lapis.score` for a field."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lapis.errors import TooLarge
from lapis.evaluation.likelihood import PredicateLikelihood, weighted_sum
from lapis.evaluation.predictions import Predictions, join_predictions, predict_atoms
from lapis.evaluation.score import (
    NOTHING,
    Score,
    measure,
    note_caveats,
    predicate_score,
    total_pseudo,
)
from lapis.fields.field_objectives import FieldExample, make_field_example
from lapis.fields.field_text import FieldLike, open_field
from lapis.fields.ground_field import enumerate_field
from lapis.fields.lifted_counts import class_pseudo_likelihood
from lapis.inference.marginals import InferenceOptions, Marginals
from lapis.learning.examples import build_examples
from lapis.problem.query import query_predicates
from lapis.problem.task import DataLike, open_inputs
from lapis.registry.method_table import check_options, find_method, front_door, seed_of
from lapis.registry.options import FieldScoreOptions
from lapis.runtime.progress import Stop, StopCallback
from lapis.runtime.progress_bars import ProgressOption, as_report

if TYPE_CHECKING:
    import threading


@dataclass(frozen=True, repr=False)
class FieldScore(Score):
    """With a query, likelihood and pseudo-likelihood are those of its atoms given all others."""

    mean_pseudo: float | None = None  # of an atom, or a block
    atoms: int = 0  # explained


@front_door
def score(
    field: FieldLike,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    unobserved: Sequence[str] = (),
    method: str = "auto",
    precision: float = 0.01,
    time_limit: float | None = None,
    max_memory: int | None = None,
    likelihood: bool = True,
    predictions: bool = True,
    strict: bool = False,
    random_state: int | np.random.Generator = 0,
    progress: ProgressOption = True,
    stop: StopCallback | threading.Event | None = None,
) -> FieldScore:
    """Score a field on data: (pseudo-)log-likelihood, CLL, AUC-PR, AUC-ROC and Brier score.

    Parameters
    ----------
    field
        A field or the path of one.
    data
        A database, the path of one, None, or a list of these: several are several independent
        worlds, each with its own constants. Facts of undeclared predicates are ignored with a
        warning.
    query
        Predicates whose atoms are predicted from all others.
    unobserved
        Predicates that the data does not show; there is no pseudo-likelihood then.
    method
        "auto" (enumeration of small fields, Gibbs chains otherwise) or the name of a method.
    precision
        Standard error wanted on every sampled marginal.
    time_limit
        Seconds after which predictions end with the samples so far.
    max_memory
        Limit in bytes; 70 % of the machine if absent.
    likelihood
        Whether to compute the log-likelihood, which is exact or absent: it needs all worlds of the
        atoms asked.
    predictions
        Whether to predict the atoms of the query.
    strict
        Refuse facts of predicates that the model does not declare.
    random_state
        Seed of everything random, or a generator to draw one from.
    progress
        True for a display on a terminal or in a notebook, once the work takes a second; a
        function that is called with `lapis.runtime.progress.Progress` events; None for neither.
    stop
        A callable or an event; where it is true the result so far is returned, marked interrupted.

    Returns
    -------
    FieldScore
        The measures of all atoms; with a query those of its atoms given all others.

    Raises
    ------
    LapisError
        If an input or an option is wrong.
    TooLarge
        If the ground field does not fit in memory.

    Examples
    --------
    >>> from lapis import Database, fields
    >>> field = fields.parse("t = {A, B}\\nP(t)\\nroot:\\n 0 P(x)")
    >>> found = fields.score(field, Database.parse("P(A)"), "P")
    >>> round(found.pseudo_log_likelihood, 4), round(found.cll, 4), found.exact
    (-1.3863, -0.6931, True)
    """
    options = FieldScoreOptions(
        query=query,
        unobserved=unobserved,
        method=method,
        precision=precision,
        time_limit=time_limit,
        max_memory=max_memory,
        likelihood=likelihood,
        predictions=predictions,
        strict=strict,
        random_state=seed_of(random_state),
    )
    check_options(options)
    resolved = open_field(field)
    inputs = open_inputs(resolved.declarations, data, strict=strict)
    asked = query_predicates(query, inputs.model)
    examples = build_examples(inputs.model, inputs.databases, asked, unobserved=unobserved)
    field_examples = [
        make_field_example(resolved, example, max_memory, as_report(progress))
        for example in examples
    ]
    notes: list[str] = []
    parts = total_pseudo(map(pseudo_by_predicate, field_examples), notes)
    total = exact_log_likelihood(field_examples, notes) if likelihood else None
    plain = None if parts is None else sum(part.value for part in parts.values())
    variables = 0 if parts is None else sum(part.num_variables for part in parts.values())
    names = tuple(dict.fromkeys(asked)) or tuple(inputs.model.predicates)
    limits = InferenceOptions(
        precision=precision,
        time_limit=time_limit,
        seed=options.seed,
        max_memory=max_memory,
        progress=as_report(progress),
        stop=Stop(stop),
    )
    found = (
        predict_field_examples(field_examples, method, limits, notes)
        if asked and predictions
        else []
    )
    joint = join_predictions([each for each, _ in found], names) if found else None
    whole = NOTHING if joint is None else measure(joint)
    exact = all(marginals.exact for _, marginals in found)
    own = [
        predicate_score(name, NOTHING if joint is None else measure(joint.of(name)), parts)
        for name in names
    ]
    return FieldScore(
        log_likelihood=total,
        pseudo_log_likelihood=plain,
        weighted_pseudo_log_likelihood=None if parts is None else weighted_sum(parts),
        **whole._asdict(),
        conditional_log_likelihood=total if asked else None,
        method="+".join(dict.fromkeys(each.method for _, each in found)) if found else None,
        exact=exact if found else None,
        max_stderr=None if exact or joint is None else joint.max_stderr,
        predicates=tuple(own),
        notes=tuple(notes),
        interrupted=any(each.diagnostics.get("interrupted") for _, each in found),
        log_likelihood_method=None if total is None else "enumerate",
        predictions=joint,
        mean_pseudo=plain / variables if plain is not None and variables else None,
        atoms=sum(len(field_example.world) for field_example in field_examples),
    )


def pseudo_by_predicate(field_example: FieldExample) -> dict[str, PredicateLikelihood]:
    values, _ = class_pseudo_likelihood(field_example.classes, field_example.field.weights)
    none = dict.fromkeys(field_example.example.asked, PredicateLikelihood(0.0, 0))
    return none | {
        each.predicate: PredicateLikelihood(values[each.predicate], each.num_variables)
        for each in field_example.classes.groups
    }


def exact_log_likelihood(field_examples: Sequence[FieldExample], notes: list[str]) -> float | None:
    """Compute log Z(data known) − log Z by enumeration; None if there are too many worlds."""
    total = 0.0
    for field_example in field_examples:
        try:
            known, unknown = field_example.given.ground, field_example.cached.ground
            weights = field_example.field.weights
            total += enumerate_field(known, weights).log_partition
            total -= enumerate_field(unknown, weights).log_partition
        except TooLarge as error:
            notes.append(f"no log-likelihood: {error.message}")
            return None
    return total


def predict_field_examples(
    field_examples: Sequence[FieldExample], method: str, options: InferenceOptions, notes: list[str]
) -> list[tuple[Predictions, Marginals]]:
    """Predict the query atoms of each world; the time limit is divided equally."""
    chosen = find_method("field infer", method).load()
    if options.time_limit is not None:
        options = replace(options, time_limit=options.time_limit / max(1, len(field_examples)))
    found = []
    for field_example in field_examples:
        marginals: Marginals = chosen(
            field_example.cached.ground, field_example.field.weights, options
        )
        note_caveats(field_example.example, marginals.diagnostics, notes)
        found.append(
            (predict_atoms(field_example.example, field_example.network, marginals), marginals)
        )
    return found
