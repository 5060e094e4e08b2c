"""Answers of a circuit as results: frames, text, JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lapis.circuits.circuit import Circuit
from lapis.circuits.evaluation import posteriors
from lapis.circuits.learning.tuning import Trial
from lapis.circuits.queries import (
    log_conditionals,
    log_probabilities,
    most_likely,
    refuse_impossible,
)
from lapis.results.result import Columns, Figures, Result, Table
from lapis.results.view import View, format_number, new_view


@dataclass(frozen=True, repr=False)
class LearnedFigures(Figures):
    """What learning came to, and the costs that were tried."""

    trials: Sequence[Trial]  # empty if there was no choice

    def views(self) -> list[View]:
        if not self.trials:
            return super().views()
        rows = [[format_number(figure) for figure in trial] for trial in self.trials]
        names = [name.replace("_", " ") for name in Trial._fields]
        return [new_view(names, rows, numbers=names), *super().views()]

    def document(self) -> dict[str, Any]:
        return {**self.values, "trials": [trial._asdict() for trial in self.trials]}


@dataclass(frozen=True, repr=False)
class CircuitAnswer(Result):
    """What a circuit says about one query."""

    log_probability: float  # of the states asked for given the evidence; without, of the evidence
    distribution: Mapping[str, Mapping[str, float]]  # state → probability, for each variable
    most_likely: Mapping[str, str] | None = None  # state of each variable
    most_likely_log: float | None = None  # log P of these states given the evidence

    def columns(self) -> Columns:
        rows = [(v, s, p) for v, states in self.distribution.items() for s, p in states.items()]
        found: dict[str, list[Any]] = {"variable": [], "state": [], "probability": []}
        for column, values in zip(found.values(), zip(*rows, strict=True), strict=False):
            column += values
        return found

    def views(self) -> list[View]:
        columns = self.columns()
        chances = list(columns["probability"])
        views = []
        if chances:
            texts = [f"{chance:.4f}" for chance in chances]
            rows = zip(columns["variable"], columns["state"], texts, strict=True)
            views.append(new_view(list(columns), rows, numbers=["probability"], bars=chances))
        if self.most_likely is not None:
            views.append(new_view(["variable", "most likely"], self.most_likely.items()))
        return views

    def summary(self) -> str:
        found = (
            f"log probability {format_number(self.log_probability)} "
            f"(probability {self.probability:.6g}), exact"
        )
        if self.most_likely_log is None:
            return found
        return f"{found}; of the most likely states {math.exp(self.most_likely_log):.6g}"

    @property
    def probability(self) -> float:
        return float(np.exp(self.log_probability))

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "log_probability": self.log_probability,
            "probability": self.probability,
            "distribution": {name: dict(states) for name, states in self.distribution.items()},
        }
        if self.most_likely is not None:
            found["most_likely"] = dict(self.most_likely)
            found["most_likely_log_probability"] = self.most_likely_log
        return found


@dataclass(frozen=True, repr=False)
class ModelMarginals(CircuitAnswer):
    """All marginals of a model; its log partition function stands in `log_probability`."""

    def summary(self) -> str:
        return f"log Z = {format_number(self.log_probability)}, exact"

    def document(self) -> dict[str, Any]:
        found = super().document()
        del found["probability"]
        return {**found, "log_partition": self.log_probability}


def ask(
    circuit: Circuit,
    event: np.ndarray,
    evidence: np.ndarray,
    variables: Sequence[str] = (),
    with_most_likely: bool = False,
) -> CircuitAnswer:
    """P(event | evidence) and the marginals of variables, rows of states with -1 for missing.

    Without an event or variables: P(evidence), and the marginals of all that it leaves open.
    """
    log_evidence = log_probabilities(circuit, evidence)
    refuse_impossible(log_evidence)
    is_asked = (event >= 0).any()
    value = log_conditionals(circuit, event, evidence) if is_asked else log_evidence
    if not variables and not is_asked and not with_most_likely:
        variables = [n for n, state in zip(circuit.names, evidence, strict=True) if state < 0]
    distribution = {}
    if variables:
        _, chance = posteriors(circuit, evidence)
        first = circuit.state_start
        for name in variables:
            v = circuit.names.index(name)
            own = chance[0, first[v] : first[v + 1]].tolist()
            distribution[name] = dict(zip(circuit.states[v], own, strict=True))
    if not with_most_likely:
        return CircuitAnswer(float(value[0]), distribution)
    rows, joint = most_likely(circuit, evidence)
    row = rows[0].tolist()
    world = {
        name: states[state]
        for name, states, state in zip(circuit.names, circuit.states, row, strict=True)
    }
    return CircuitAnswer(float(value[0]), distribution, world, float(joint[0] - log_evidence[0]))


@dataclass(frozen=True, repr=False)
class RowAnswers(Table):
    """The log probability of each row of queries."""

    def summary(self) -> str:
        values = np.asarray(self.values["log_probability"])
        answered = values[~np.isnan(values)]
        mean = format_number(float(answered.mean()) if len(answered) else None)
        found = f"{len(values):,} queries, mean log probability {mean}, exact"
        unanswered = len(values) - len(answered)
        return f"{found}; {unanswered:,} given impossible evidence" if unanswered else found

    def document(self) -> dict[str, Any]:
        values = np.asarray(self.values["log_probability"])
        return {
            "log_probability": float(values.mean()) if len(values) else None,
            "distribution": None,
            "queries": (
                {"log_probability": value, "probability": math.exp(value)}
                for value in values.tolist()
            ),
        }


def ask_rows(circuit: Circuit, events: np.ndarray, evidence: np.ndarray) -> RowAnswers:
    """log P(event | evidence) of each row, all of them at once."""
    return RowAnswers({"log_probability": log_conditionals(circuit, events, evidence)})
