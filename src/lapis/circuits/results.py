"""Answers of a circuit as results: frames, text, JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lapis.circuits.circuit import Circuit, state_starts
from lapis.circuits.evaluation import posteriors
from lapis.circuits.learning.tuning import Trial
from lapis.circuits.queries import (
    log_conditionals,
    log_probabilities,
    most_likely,
    refuse_impossible,
)
from lapis.circuits.tree_networks.gibbs import (
    MAX_RHAT,
    estimate_conditionals,
    estimate_marginals,
)
from lapis.circuits.tree_networks.tree_network import TreeNetwork
from lapis.results.result import Columns, Figures, Result, Table, View, format_number, new_view


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


@dataclass(frozen=True, repr=False)
class GibbsAnswer(Result):
    """What Gibbs sampling on a network says about one query."""

    log_probability: float | None  # of the states asked for given the evidence; None without
    stderr: float | None  # of their probability
    rhat: float  # the largest
    distribution: Mapping[str, Mapping[str, tuple[float, float]]]  # state → probability, its error
    num_sweeps: int  # counted, in all chains

    def columns(self) -> Columns:
        rows = [(v, s, *p) for v, states in self.distribution.items() for s, p in states.items()]
        names = ("variable", "state", "probability", "stderr")
        return {name: [row[place] for row in rows] for place, name in enumerate(names)}

    def views(self) -> list[View]:
        columns = self.columns()
        chances = list(columns["probability"])
        if not chances:
            return []
        texts = zip(
            columns["variable"], columns["state"], (f"{chance:.4f}" for chance in chances),
            (f"{error:.2g}" for error in columns["stderr"]), strict=True,
        )  # fmt: skip
        return [new_view(list(columns), texts, numbers=["probability", "stderr"], bars=chances)]

    def summary(self) -> str:
        found = f"not exact: {self.num_sweeps:,} sweeps of Gibbs sampling, R-hat {self.rhat:.3f}"
        if self.rhat > MAX_RHAT:
            found += ", the chains disagree"
        if self.log_probability is None or self.stderr is None:
            return found
        value = format_number(self.log_probability)
        chance = f"{math.exp(self.log_probability):.6g} ± {self.stderr:.2g}"
        return f"log probability {value} (probability {chance}), {found}"

    def document(self) -> dict[str, Any]:
        chance = None if self.log_probability is None else math.exp(self.log_probability)
        return {
            "exact": False,
            "method": "gibbs",
            "log_probability": self.log_probability,
            "probability": chance,
            "stderr": self.stderr,
            "rhat": self.rhat,
            "converged": self.rhat <= MAX_RHAT,
            "distribution": {
                name: {state: chance for state, (chance, _) in states.items()}
                for name, states in self.distribution.items()
            },
            "distribution_stderr": {
                name: {state: error for state, (_, error) in states.items()}
                for name, states in self.distribution.items()
            },
        }


def ask_network(
    network: TreeNetwork,
    event: np.ndarray,
    evidence: np.ndarray,
    variables: Sequence[str],
    num_chains: int,
    burn_in: int,
    num_sweeps: int,
    seed: int,
) -> GibbsAnswer:
    """Estimate P(event | evidence) and the marginals of variables, as `ask` finds them exactly.

    Without an event or variables: the marginals of all that the evidence leaves open.
    """
    is_asked = bool((event >= 0).any())
    if not variables and not is_asked:
        variables = [n for n, state in zip(network.names, evidence, strict=True) if state < 0]
    value = stderr = None
    worst = 1.0
    distribution: dict[str, dict[str, tuple[float, float]]] = {}
    if is_asked:
        found = estimate_conditionals(
            network, event[None], evidence[None], num_chains=num_chains, burn_in=burn_in,
            num_sweeps=num_sweeps, seed=seed,
        )  # fmt: skip
        value, stderr = float(found.log_probability[0]), float(found.stderr[0])
        worst = float(found.rhat[0])
    if variables:
        found = estimate_marginals(
            network, evidence, num_chains=num_chains, burn_in=burn_in, num_sweeps=num_sweeps,
            seed=seed,
        )  # fmt: skip
        chance = np.exp(found.log_probability)
        first = state_starts(network.states)
        for name in variables:
            v = network.names.index(name)
            own = slice(first[v], first[v + 1])
            if evidence[v] >= 0:
                known = np.arange(first[v + 1] - first[v]) == evidence[v]
                pairs = [(float(is_known), 0.0) for is_known in known]
            else:
                pairs = [*zip(chance[own].tolist(), found.stderr[own].tolist(), strict=True)]
                worst = max(worst, float(found.rhat[own].max()))
            distribution[name] = dict(zip(network.states[v], pairs, strict=True))
    return GibbsAnswer(value, stderr, worst, distribution, num_chains * num_sweeps)


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


@dataclass(frozen=True, repr=False)
class GibbsRows(Table):
    """Estimates of the log probability of each row of queries."""

    def summary(self) -> str:
        values = np.asarray(self.values["log_probability"])
        mean = format_number(float(values.mean()) if len(values) else None)
        worst = float(np.asarray(self.values["rhat"]).max(initial=1.0))
        return (
            f"{len(values):,} queries, mean log probability {mean}, "
            f"not exact: Gibbs sampling, R-hat at most {worst:.3f}"
        )

    def document(self) -> dict[str, Any]:
        values = np.asarray(self.values["log_probability"])
        rows = zip(*(np.asarray(column).tolist() for column in self.values.values()), strict=True)
        return {
            "exact": False,
            "method": "gibbs",
            "log_probability": float(values.mean()) if len(values) else None,
            "distribution": None,
            "queries": (
                {
                    "log_probability": value, "probability": math.exp(value), "stderr": stderr,
                    "rhat": rhat,
                }
                for value, stderr, rhat in rows
            ),
        }  # fmt: skip


def ask_network_rows(
    network: TreeNetwork,
    events: np.ndarray,
    evidence: np.ndarray,
    num_chains: int,
    burn_in: int,
    num_sweeps: int,
    seed: int,
) -> GibbsRows:
    """Estimate log P(event | evidence) of each row."""
    found = estimate_conditionals(
        network, events, evidence, num_chains=num_chains, burn_in=burn_in, num_sweeps=num_sweeps,
        seed=seed,
    )  # fmt: skip
    return GibbsRows(found._asdict())
