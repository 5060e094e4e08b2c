"""`lapis circuit compile`, `marginals` and `approximate`: models of all kinds."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lapis.circuits.typed_states import read_states, row_of_states
from lapis.cli.command import ANY_DATA, ANY_MODEL, command, read_worlds
from lapis.errors import LapisError
from lapis.progress import Report, Stop, work_clock
from lapis.registry.circuit_options import (
    CircuitApproximateOptions,
    CircuitCompileOptions,
    CircuitMarginalsOptions,
    FactorOptions,
)

if TYPE_CHECKING:
    import numpy as np

    from lapis.circuits.circuit import Circuit
    from lapis.circuits.factors.factor_graph import FactorGraph
    from lapis.circuits.results import ModelMarginals
    from lapis.results.result import Figures


@command("circuit compile", CircuitCompileOptions, ANY_MODEL, ANY_DATA, bar="compiling")
def compile_(
    model: Path,
    data: Sequence[Path] | None,
    options: CircuitCompileOptions,
    progress: Report | None,
) -> Figures:
    """A circuit that computes a model exactly: all its marginals in one sweep."""
    from lapis.circuits.compilation.compile import compile_factors
    from lapis.circuits.queries import log_partition
    from lapis.circuits.tree_networks.text import SUFFIX
    from lapis.results.result import Figures

    if model.suffix == SUFFIX:
        return compile_trees(model, data, options, progress)
    output, time_limit = options.output, options.time_limit
    graph, row, _ = open_factors(model, data, options)
    graph = graph.given(row)
    began = time.monotonic()
    stop = Stop(deadline=work_clock() + time_limit) if time_limit else None
    found = compile_factors(graph, options.max_edges, options.seed, stop, progress)
    save(found.circuit, output)
    figures: dict[str, float | int | str | None] = {
        "method": found.method,
        **sizes(found.circuit),
        "width": found.width,
        "log_partition": log_partition(found.circuit),
        "seconds": time.monotonic() - began,
    }
    return Figures(figures)


def compile_trees(
    model: Path,
    data: Sequence[Path] | None,
    options: CircuitCompileOptions,
    progress: Report | None,
) -> Figures:
    """Compile a network with decision trees, whose families may be too large for tables."""
    from lapis.circuits.files import check_output, save_circuit
    from lapis.circuits.queries import log_partition
    from lapis.circuits.tree_networks.compiling import compile_network
    from lapis.circuits.tree_networks.text import load_network
    from lapis.results.result import Figures

    output, time_limit = options.output, options.time_limit
    others = (options.query, options.open_predicates, options.merge, options.strict)
    if data or any(others):
        raise LapisError(
            f"{model}: a network with decision trees takes --evidence, no data and no queries",
            code="option-value",
        )
    check_output(output)
    network = load_network(model)
    given = read_states(network.names, network.states, list(options.evidence))
    row = row_of_states(network.names, network.states, given)
    began = time.monotonic()
    stop = Stop(deadline=work_clock() + time_limit) if time_limit else None
    fixed = network.given(row)
    found = compile_network(fixed, options.max_edges, options.seed, stop, progress)
    if output is not None:
        save_circuit(found.circuit, output, network if fixed is network else None)
    figures: dict[str, float | int | str | None] = {
        "method": found.method,
        **sizes(found.circuit),
        "width": fixed.treewidth(),
        "log_partition": log_partition(found.circuit),
        "seconds": time.monotonic() - began,
    }
    return Figures(figures)


@command("circuit marginals", CircuitMarginalsOptions, ANY_MODEL, ANY_DATA)
def marginals(
    model: Path, data: Sequence[Path] | None, options: CircuitMarginalsOptions
) -> ModelMarginals:
    """All marginals of a model exactly, in numbers: also where a circuit would be too large."""
    from lapis.circuits.compilation.marginals import find_marginals
    from lapis.circuits.results import ModelMarginals
    from lapis.network.csr import row_starts

    graph, row, shown = open_factors(model, data, options)
    time_limit = options.time_limit
    stop = Stop(deadline=work_clock() + time_limit) if time_limit else None
    found = find_marginals(graph.given(row), seed=options.seed, stop=stop)
    first = row_starts(graph.size).tolist()
    distribution = {
        name: dict(zip(graph.states[v], found.state[first[v] : first[v + 1]].tolist(), strict=True))
        for v, name in enumerate(graph.names)
        if row[v] < 0 and name in shown
    }
    return ModelMarginals(found.log_partition, distribution)


@command("circuit approximate", CircuitApproximateOptions, ANY_MODEL, ANY_DATA, bar="approximating")
def approximate(
    model: Path,
    data: Sequence[Path] | None,
    options: CircuitApproximateOptions,
    progress: Report | None,
) -> Figures:
    """The circuit within a budget of edges that is closest to a model, given evidence."""
    from lapis.circuits.approximation import approximate as by
    from lapis.circuits.compilation.partition import cheap_partition
    from lapis.results.result import Figures

    graph, row, _ = open_factors(model, data, options)
    seed, time_limit, output = options.seed, options.time_limit, options.output
    began = time.monotonic()
    stop = Stop(deadline=math.inf if time_limit is None else work_clock() + time_limit)
    structure = by.find_structure(
        graph, row, options.max_edges, options.num_samples, seed, stop, progress
    )
    found = by.approximate(graph, structure, row, options.parameters, seed, stop, progress)
    save(found.circuit, output)
    figures: dict[str, float | int | str | None] = {
        "parameters_by": found.parameters,
        **sizes(found.circuit),
        "log_partition": found.log_partition
        if found.parameters == "E"
        else cheap_partition(graph.given(row), stop),
        "log_partition_bound": found.bound,
        "log_partition_upper": found.upper,
        "log_partition_estimate": found.log_partition,
        "log_partition_stderr": found.log_partition_stderr,
        "effective": found.effective,
        "interrupted": stop.is_over(),
        "seconds": time.monotonic() - began,
    }
    return Figures(figures)


def open_factors(
    model: Path, data: Sequence[Path] | None, options: FactorOptions
) -> tuple[FactorGraph, np.ndarray, set[str]]:
    """The tables of a network file or of a ground Markov logic network, and a row of evidence.

    The facts of a ground network are in its tables. Last come the variables that are the user's.
    """
    from lapis.circuits.factors.files import is_factor_file, read_evidence, read_factors

    if is_factor_file(model):
        if options.query or options.open_predicates:
            raise LapisError(
                f"{model}: a network has no predicates to ask for or to open", code="option-value"
            )
        graph = read_factors(model)
        observed: dict[int, int] = {}
        for path in data or ():
            for variable, state in read_evidence(path, graph).items():
                if observed.setdefault(variable, state) != state:
                    name = graph.names[variable]
                    raise LapisError(f"{path}: {name} has another state before", code="data-table")
        given = read_states(graph.names, graph.states, list(options.evidence))
        row = row_of_states(graph.names, graph.states, given, observed)
        return graph, row, set(graph.names)
    if options.evidence:
        raise LapisError(
            f"{model}: --evidence is for .bif and .uai files", code="option-value",
            hint="write facts to a .db file",
        )  # fmt: skip
    from lapis.circuits.factors.ground import world_factors
    from lapis.problem.task import build_task

    worlds = read_worlds(data, options.merge)
    if len(worlds) > 1:
        raise LapisError("one circuit is one world", code="several-worlds", hint="use --merge")
    task = build_task(
        model,
        worlds or None,
        options.query,
        open_predicates=options.open_predicates,
        strict=options.strict,
    )
    graph, shown = world_factors(task.worlds[0])
    return graph, row_of_states(graph.names, graph.states, ()), set(shown)


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
