"""`lapis circuit compile`, `marginals` and `approximate`: models of all kinds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lapis.cli.circuit import row_of_states
from lapis.cli.options import read_worlds
from lapis.cli.progress import progress_bar
from lapis.cli.render import present
from lapis.errors import LapisError
from lapis.progress import Stop
from lapis.results.result import Figures

if TYPE_CHECKING:
    from lapis.circuits.circuit import Circuit
    from lapis.circuits.factors.factor_graph import FactorGraph


def run_compile(
    model: Path,
    data: Sequence[Path],
    *,
    output: Path | None,
    max_edges: int,
    time_limit: float | None,
    random_state: int,
    as_json: bool,
    **opening: Any,
) -> None:
    from lapis.circuits.compilation.compile import compile_factors
    from lapis.circuits.queries import log_partition

    graph, row = open_factors(model, data, **opening)
    graph = conditioned(graph, row)
    began = time.monotonic()
    stop = Stop(deadline=began + time_limit) if time_limit else None
    with progress_bar("compiling") as progress:
        found = compile_factors(graph, max_edges, random_state, stop, progress)
    save(found.circuit, output)
    figures: dict[str, float | int | str | None] = {
        "method": found.method,
        **sizes(found.circuit),
        "width": found.width,
        "log_partition": log_partition(found.circuit),
        "seconds": time.monotonic() - began,
    }
    present(Figures(figures), as_json)


def run_marginals(
    model: Path,
    data: Sequence[Path],
    *,
    time_limit: float | None,
    random_state: int,
    as_json: bool,
    **opening: Any,
) -> None:
    from lapis.circuits.compilation.marginals import find_marginals
    from lapis.circuits.results import ModelMarginals
    from lapis.network.csr import row_starts

    graph, row = open_factors(model, data, **opening)
    stop = Stop(deadline=time.monotonic() + time_limit) if time_limit else None
    found = find_marginals(conditioned(graph, row), seed=random_state, stop=stop)
    first = row_starts(graph.size).tolist()
    distribution = {
        name: dict(zip(graph.states[v], found.state[first[v] : first[v + 1]].tolist(), strict=True))
        for v, name in enumerate(graph.names)
        if row[v] < 0
    }
    present(ModelMarginals(found.log_partition, distribution), as_json)


def run_approximate(
    model: Path,
    data: Sequence[Path],
    *,
    parameters: str,
    num_samples: int,
    max_edges: int,
    random_state: int,
    time_limit: float | None,
    output: Path | None,
    as_json: bool,
    **opening: Any,
) -> None:
    from lapis.circuits.approximation.approximate import approximate, find_structure
    from lapis.circuits.compilation.partition import cheap_partition

    graph, row = open_factors(model, data, **opening)
    began = time.monotonic()
    stop = Stop(deadline=began + time_limit) if time_limit else None
    with progress_bar("approximating") as progress:
        structure = find_structure(graph, row, max_edges, num_samples, random_state, stop, progress)
        found = approximate(graph, structure, row, parameters, random_state, stop, progress)
    save(found.circuit, output)
    figures: dict[str, float | int | str | None] = {
        "parameters_by": found.parameters,
        **sizes(found.circuit),
        "log_partition": cheap_partition(conditioned(graph, row)),
        "log_partition_bound": found.bound,
        "log_partition_upper": found.upper,
        "log_partition_estimate": found.log_partition,
        "log_partition_stderr": found.log_partition_stderr,
        "effective": found.effective,
        "seconds": time.monotonic() - began,
    }
    present(Figures(figures), as_json)


def open_factors(
    model: Path,
    data: Sequence[Path],
    *,
    query: Sequence[str],
    opened: Sequence[str],
    evidence: Sequence[str],
    merge: bool,
    strict: bool,
) -> tuple[FactorGraph, np.ndarray]:
    """The tables of a network file or of a ground Markov logic network, and a row of evidence.

    The facts of a ground network are in its tables.
    """
    from lapis.circuits.factors.files import is_factor_file, read_evidence, read_factors

    if is_factor_file(model):
        if query or opened:
            raise LapisError(
                f"{model}: a network has no predicates to ask for or to open", code="option-value"
            )
        graph = read_factors(model)
        observed: dict[int, int] = {}
        for path in data:
            for variable, state in read_evidence(path, graph).items():
                if observed.setdefault(variable, state) != state:
                    name = graph.names[variable]
                    raise LapisError(f"{path}: {name} has another state before", code="data-table")
        return graph, row_of_states(graph.names, graph.states, evidence, observed)
    if evidence:
        raise LapisError(
            f"{model}: --evidence is for .bif and .uai files", code="option-value",
            hint="write facts to a .db file",
        )  # fmt: skip
    from lapis.circuits.factors.ground import ground_factors
    from lapis.grounding.bottom_up import ground
    from lapis.problem.task import build_task

    worlds = read_worlds(data, merge)
    if len(worlds) > 1:
        raise LapisError("one circuit is one world", code="several-worlds", hint="use --merge")
    task = build_task(model, worlds or None, query, opened=opened, strict=strict)
    graph = ground_factors(ground(task.worlds[0].problem)).graph
    return graph, nothing_known(graph)


def conditioned(graph: FactorGraph, row: np.ndarray) -> FactorGraph:
    """The model with what a row of states observes in its tables."""
    seen = np.flatnonzero(row >= 0)
    return graph.condition({int(v): int(row[v]) for v in seen}) if len(seen) else graph


def nothing_known(graph: FactorGraph) -> np.ndarray:
    return np.full(graph.num_variables, -1, np.int32)


def sizes(circuit: Circuit) -> dict[str, int]:
    return {
        "variables": circuit.num_variables,
        "nodes": circuit.num_nodes,
        "edges": circuit.num_edges,
        "parameters": circuit.num_parameters,
    }


def save(circuit: Circuit, output: Path | None) -> None:
    from lapis.circuits.files import save_circuit

    if output is not None:
        save_circuit(circuit, output)
