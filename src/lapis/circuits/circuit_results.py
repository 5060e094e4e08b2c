"""Results of circuits: frames, text and JSON, by the names of variables and states."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from lapis.circuits.circuit import Circuit
from lapis.circuits.circuit_files import check_output, save_circuit
from lapis.circuits.compilation.compile_model import MAX_EDGES
from lapis.circuits.learning.learn_rows import CostTrial
from lapis.circuits.tree_networks.compile_network import compile_network
from lapis.circuits.tree_networks.tbn_files import SUFFIX, format_network
from lapis.circuits.tree_networks.tree_gibbs import MAX_RHAT
from lapis.circuits.tree_networks.tree_network import TreeNetwork
from lapis.data.atomic_write import write_whole
from lapis.errors import LapisError
from lapis.registry.method_table import seed_of
from lapis.results.columns import as_list, with_nulls
from lapis.results.result import Columns, Figures, Result, Table
from lapis.runtime.views import View, format_number, new_view


@dataclass(frozen=True, repr=False)
class CircuitFigures(Figures):
    """A compiled, approximated or learned circuit, and figures about it by name."""

    circuit: Circuit | None  # None if only a network was learned
    network: TreeNetwork | None  # an equivalent network with decision trees

    def save(self, path: str | Path) -> None:
        """Write the circuit, or its network with decision trees, to a file.

        Parameters
        ----------
        path
            `.npz` (complete), `.ac` (Libra's text) or `.dot` for the circuit; `.tbn` for the
            network.

        Raises
        ------
        LapisError
            If there is no circuit or network to write, or the file cannot be written.
        """
        path = Path(path)
        if path.suffix == SUFFIX:
            save_tree_network(self.network, path)
        elif self.circuit is None:
            check_output(path)
            raise LapisError(
                f"{path}: only a network was learned, no circuit",
                code="circuit-file",
                hint=f"write it as {SUFFIX}, or compile it first",
            )
        else:
            save_circuit(self.circuit, path, self.network)


@dataclass(frozen=True, repr=False)
class LearnedCircuit(CircuitFigures):
    """A circuit or network learned from rows, and the costs that were tried."""

    trials: Sequence[CostTrial] = ()  # empty for one pair of costs
    notes: Sequence[str] = ()  # what was guessed about the rows

    def remarks(self) -> list[str]:
        return list(self.notes)

    def compile(
        self, *, max_edges: int = MAX_EDGES, random_state: int | np.random.Generator = 0
    ) -> LearnedCircuit:
        """Compile the network if an edge cost of 0 kept no circuit.

        Parameters
        ----------
        max_edges
            Upper limit of the edges.
        random_state
            Seed of the search for an elimination order.

        Returns
        -------
        LearnedCircuit
            The same result with a circuit.

        Raises
        ------
        LapisError
            If there is no network.
        TooLarge
            If no circuit of at most `max_edges` edges is found.
        """
        if self.network is None:
            raise no_network()
        circuit = compile_network(self.network, max_edges, seed_of(random_state)).circuit
        sizes = {"edges": circuit.num_edges, "parameters": circuit.num_parameters}
        return replace(self, circuit=circuit, values={**self.values, **sizes})

    def views(self) -> list[View]:
        if not self.trials:
            return super().views()
        rows = [[format_number(figure) for figure in trial] for trial in self.trials]
        names = [name.replace("_", " ") for name in CostTrial._fields]
        return [new_view(names, rows, numbers=names), *super().views()]

    def document(self) -> dict[str, Any]:
        return {**self.values, "trials": [trial._asdict() for trial in self.trials]}


@dataclass(frozen=True, repr=False)
class CircuitScore(Figures):
    """The mean log-likelihood of rows."""

    log_likelihoods: np.ndarray  # float64[num_rows]

    def columns(self) -> Columns:
        return {"log_likelihood": self.log_likelihoods}


@dataclass(frozen=True, repr=False)
class CircuitAnswer(Result):
    """The answer to a query: exact from a circuit, estimated by Gibbs sampling from a network.

    `log_probability` is that of the queried states given the evidence. Without queried states it is
    that of the evidence, which Gibbs sampling does not estimate.
    """

    log_probability: float | None
    distribution: Mapping[str, Mapping[str, float]]  # variable → state → probability
    most_likely: Mapping[str, str] | None = None  # variable → state
    most_likely_log: float | None = None  # log P of these states given the evidence
    exact: bool = True
    stderr: float | None = None  # of the probability, if it is not exact
    distribution_stderr: Mapping[str, Mapping[str, float]] | None = None
    rhat: float | None = None  # the largest R-hat, if it is not exact
    num_sweeps: int = 0  # counted sweeps of all chains

    @property
    def probability(self) -> float | None:
        return None if self.log_probability is None else float(np.exp(self.log_probability))

    def __getitem__(self, variable: str) -> Mapping[str, float]:
        """Return the probability of each state of a variable."""
        return self.distribution[variable]

    def columns(self) -> Columns:
        pairs = [(v, state) for v, states in self.distribution.items() for state in states]
        found: dict[str, list[Any]] = {
            "variable": [v for v, _ in pairs],
            "state": [state for _, state in pairs],
            "probability": [self.distribution[v][state] for v, state in pairs],
        }
        if self.distribution_stderr is not None:
            found["stderr"] = [self.distribution_stderr[v][state] for v, state in pairs]
        return found

    def views(self) -> list[View]:
        columns = dict(self.columns())
        chances = list(columns["probability"])
        views = []
        if chances:
            columns["probability"] = [f"{chance:.4f}" for chance in chances]
            if "stderr" in columns:
                columns["stderr"] = [f"{error:.2g}" for error in columns["stderr"]]
            rows = zip(*columns.values(), strict=True)
            numbers = [name for name in columns if name in ("probability", "stderr")]
            views.append(new_view(list(columns), rows, numbers=numbers, bars=chances))
        if self.most_likely is not None:
            views.append(new_view(["variable", "most likely"], self.most_likely.items()))
        return views

    def summary(self) -> str:
        how = "exact"
        if not self.exact:
            how = f"not exact: {self.num_sweeps:,} sweeps of Gibbs sampling, R-hat {self.rhat:.3f}"
            how += ", the chains disagree" if self.rhat is not None and self.rhat > MAX_RHAT else ""
        if self.log_probability is None:
            return how
        error = "" if self.stderr is None else f" ± {self.stderr:.2g}"
        value = format_number(self.log_probability)
        found = f"log probability {value} (probability {self.probability:.6g}{error}), {how}"
        if self.most_likely_log is None:
            return found
        return f"{found}; of the most likely states {math.exp(self.most_likely_log):.6g}"

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "exact": self.exact,
            "method": "circuit" if self.exact else "gibbs",
            "log_probability": self.log_probability,
            "probability": self.probability,
            "distribution": {name: dict(states) for name, states in self.distribution.items()},
        }
        if not self.exact:
            assert self.rhat is not None
            found |= {
                "stderr": self.stderr,
                "rhat": self.rhat,
                "converged": self.rhat <= MAX_RHAT,
                "distribution_stderr": self.distribution_stderr or {},
            }
        if self.most_likely is not None:
            found["most_likely"] = dict(self.most_likely)
            found["most_likely_log_probability"] = self.most_likely_log
        return found


@dataclass(frozen=True, repr=False)
class ModelMarginals(CircuitAnswer):
    """All marginals of a model; `log_probability` is its log partition function."""

    @property
    def log_partition(self) -> float:
        assert self.log_probability is not None
        return self.log_probability

    def summary(self) -> str:
        return f"log Z = {format_number(self.log_probability)}, exact"

    def document(self) -> dict[str, Any]:
        found = super().document()
        del found["probability"], found["method"]
        return {**found, "log_partition": self.log_partition}


@dataclass(frozen=True, repr=False)
class RowAnswers(Table):
    """The log probability of each row of queries, with standard errors if sampled."""

    exact: bool = True

    @property
    def log_probabilities(self) -> np.ndarray:
        """float64[num_rows]: -inf for impossible queries, NaN for impossible evidence."""
        return np.asarray(self.values["log_probability"])

    def summary(self) -> str:
        values = self.log_probabilities
        answered = values[~np.isnan(values)]
        mean = format_number(float(answered.mean()) if len(answered) else None)
        found = f"{len(values):,} queries, mean log probability {mean}, "
        if not self.exact:
            worst = float(np.asarray(self.values["rhat"]).max(initial=1.0))
            return f"{found}not exact: Gibbs sampling, R-hat at most {worst:.3f}"
        unanswered = len(values) - len(answered)
        found += "exact"
        return f"{found}; {unanswered:,} given impossible evidence" if unanswered else found

    def columns(self) -> Columns:
        """Return the probability of each row beside its logarithm."""
        return {**self.values, "probability": np.exp(self.log_probabilities)}

    def document(self) -> dict[str, Any]:
        values = self.log_probabilities
        columns = self.columns()
        rows = zip(*map(with_nulls, columns.values()), strict=True)
        return {
            "exact": self.exact,
            "method": "circuit" if self.exact else "gibbs",
            "log_probability": float(values.mean()) if len(values) else None,
            "distribution": None,
            "queries": (dict(zip(columns, row, strict=True)) for row in rows),
        }


@dataclass(frozen=True, repr=False)
class Samples(Table):
    """Samples of a circuit or network: a column of states for each variable."""

    burn_in: int | None = None  # sweeps of Gibbs sampling before each; None if exact

    @property
    def exact(self) -> bool:
        return self.burn_in is None

    def summary(self) -> str:
        return f"{len(self):,} samples"

    def remarks(self) -> list[str]:
        if self.exact:
            return []
        return [f"not exact: each sample is the end of a Gibbs chain of {self.burn_in:,} sweeps"]

    def document(self) -> dict[str, Any]:
        return {"exact": self.exact, "samples": super().document()["rows"]}

    def to_csv(self) -> str:
        """Return the samples as CSV text with a header."""
        stream = io.StringIO(newline="")
        rows = zip(*(as_list(column) for column in self.values.values()), strict=True)
        csv.writer(stream, lineterminator="\n").writerows([list(self.values), *rows])
        return stream.getvalue()

    def save(self, path: str | Path) -> None:
        """Write a CSV file.

        Parameters
        ----------
        path
            Path of the file.

        Raises
        ------
        LapisError
            If the file cannot be written.
        """
        write_whole(path, self.to_csv())


def save_tree_network(network: TreeNetwork | None, path: Path) -> None:
    """Write a network with decision trees; refuse None."""
    if network is None:
        raise no_network()
    write_whole(path, format_network(network))


def no_network() -> LapisError:
    """Return the error of a circuit without an equivalent network."""
    return LapisError(
        "a circuit with hidden variables has no equivalent Bayesian network over its variables",
        code="option-value",
        hint="write the circuit, or learn without num_components, num_starts and method tree",
    )
