"""Rows and learned models of chapter 5 of Lowd's thesis, used by Table 5.4 and Figure 5.3.

The thesis (section 5.7.2) splits the training rows into 90 % for tuning and 10 % for validation,
chooses all costs on the validation rows, and learns again from all training rows. kdd and msweb are
distributed with this split; the 10 % of eachmovie are drawn here.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from benchmarks import protocol

from lapis.circuits.circuit import Circuit
from lapis.circuits.circuit_files import load_circuit, save_circuit
from lapis.circuits.learning.split_search import Method, SearchResult, learn_circuit
from lapis.circuits.row_table import code_rows, merge_variables, read_table
from lapis.runtime.progress import Stop

MODELS = protocol.ROOT / "benchmarks" / "out" / "papers"  # circuits, so that each is learned once
PRIOR = "thesis"  # one count for each state (5.5.1)
VALIDATION_SHARE = 0.1


class DensityRows(NamedTuple):
    """A data set; rows are int32[num_rows, num_variables], states."""

    names: tuple[str, ...]
    states: tuple[tuple[str, ...], ...]
    tuning: np.ndarray
    validation: np.ndarray
    test: np.ndarray

    @property
    def training(self) -> np.ndarray:
        """All rows but those of the test."""
        return np.concatenate([self.tuning, self.validation])


def read_density(name: str) -> DensityRows:
    """Read a data set of `density`; without training rows, its validation part is split."""
    folder = protocol.DATA / "density" / name
    paths = [folder / f"{name}.{part}.data.gz" for part in ("train", "valid", "test")]
    has_train = paths[0].exists()
    tables = [read_table(path, "no") for path in paths if path.exists()]
    names, states = merge_variables(tables)
    *known, test = (code_rows(table, names, states) for table in tables)
    if has_train:
        tuning, validation = known
    else:
        order = np.random.default_rng(0).permutation(len(known[0]))
        cut = round(VALIDATION_SHARE * len(order))
        tuning, validation = known[0][order[cut:]], known[0][order[:cut]]
    return DensityRows(names, states, tuning, validation, test)


class Costs(NamedTuple):
    """The costs of a search: k_e of an edge (0: no circuit) and k_p of a parameter."""

    edge: float
    parameter: float


class ChosenCosts(NamedTuple):
    costs: Costs
    scores: dict[str, float]  # mean log-likelihood of validation rows, by "k_e, k_p"


def choose_costs(data: DensityRows, candidates: Sequence[Costs], seconds: float) -> ChosenCosts:
    """Learn from the tuning rows by quick search; return the costs that are best in validation."""
    scores = []
    for costs in candidates:
        found, _ = learn_within(data, data.tuning, "quick", costs, seconds / len(candidates))
        scores.append(float(found.network.log_likelihoods(data.validation).mean()))
    names = [f"{costs.edge:g}, {costs.parameter:g}" for costs in candidates]
    best = candidates[int(np.argmax(scores))]
    return ChosenCosts(best, dict(zip(names, scores, strict=True)))


def learn_within(
    data: DensityRows, rows: np.ndarray, method: Method, costs: Costs, seconds: float
) -> tuple[SearchResult, float]:
    """Learn from rows in at most a number of processor seconds; return the seconds too."""
    began = time.process_time()
    found = learn_circuit(
        rows, data.names, data.states, edge_cost=costs.edge, parameter_cost=costs.parameter,
        prior=PRIOR, method=method, stop=stop_after(seconds),
    )  # fmt: skip
    return found, time.process_time() - began


def stop_after(seconds: float) -> Stop:
    """Return a request to stop after processor seconds of this process."""
    end = time.process_time() + seconds
    return Stop(lambda: time.process_time() > end)


def model_file(rows: np.ndarray, method: Method, costs: Costs) -> Path:
    """Return where the circuit that is learned from rows is kept."""
    content = hashlib.sha256(np.ascontiguousarray(rows)).hexdigest()[:12]
    return MODELS / f"{content}-{method}-{costs.edge:g}-{costs.parameter:g}.npz"


def keep_circuit(circuit: Circuit, rows: np.ndarray, method: Method, costs: Costs) -> None:
    MODELS.mkdir(parents=True, exist_ok=True)
    save_circuit(circuit, model_file(rows, method, costs))


def final_circuit(data: DensityRows, method: Method, costs: Costs, seconds: float) -> Circuit:
    """Return the circuit of all training rows: the kept one, or learn it."""
    path = model_file(data.training, method, costs)
    if path.exists():
        return load_circuit(path)
    circuit = learn_within(data, data.training, method, costs, seconds)[0].circuit
    assert circuit is not None
    keep_circuit(circuit, data.training, method, costs)
    return circuit
