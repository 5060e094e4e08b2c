"""Construction of circuits: `learn` from rows, `compile` and `approximate` models.

A model is one of Markov logic, a network in a `.bif`, `.uai` or `.tbn` file, or a `FactorGraph`.
Rows are a path, a NumPy array or a frame. States of variables are given by name: `{"rain": "yes"}`,
or "rain=yes" as on the command line.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lapis.circuits.approximation import approximate as approximation
from lapis.circuits.circuit import Circuit
from lapis.circuits.circuit_results import (
    CircuitFigures,
    LearnedCircuit,
)
from lapis.circuits.compilation.compile_model import MAX_EDGES, compile_factors
from lapis.circuits.compilation.partition import cheap_partition
from lapis.circuits.evaluation import (
    log_partition,
)
from lapis.circuits.factor_graph import FactorGraph
from lapis.circuits.inputs import known_row, open_factors, open_trees
from lapis.circuits.learning.learn_rows import EDGE_COSTS, PARAMETER_COSTS, learn_rows
from lapis.circuits.row_table import RowsLike, code_rows, merge_variables, open_rows
from lapis.circuits.tree_networks.compile_network import compile_network
from lapis.circuits.tree_networks.tree_network import TreeNetwork
from lapis.errors import LapisError
from lapis.problem.state_names import StatesLike
from lapis.registry.method_table import check_options, front_door, seed_of
from lapis.registry.options import (
    CircuitApproximateOptions,
    CircuitCompileOptions,
    CircuitLearner,
    CircuitLearnOptions,
    CircuitParameters,
    Header,
)
from lapis.runtime.progress import Stop, StopCallback, deadline_in
from lapis.runtime.progress_bars import ProgressOption, as_report

if TYPE_CHECKING:
    import threading

    from lapis.problem.task import DataLike, ModelLike


@front_door
def learn(
    rows: RowsLike,
    *,
    valid: RowsLike | None = None,
    names: Sequence[str] | None = None,
    edge_costs: Sequence[float] = EDGE_COSTS,
    parameter_costs: Sequence[float] = PARAMETER_COSTS,
    prior: str | float = "libra",
    method: CircuitLearner = "quick",
    num_components: int | None = None,
    num_starts: int = 1,
    max_edges: int | None = None,
    time_limit: float | None = None,
    max_memory: int | None = None,
    header: Header = "auto",
    random_state: int | np.random.Generator = 0,
    progress: ProgressOption = True,
    stop: StopCallback | threading.Event | None = None,
) -> LearnedCircuit:
    """Learn a circuit from rows of discrete values, with a cost for each edge.

    Parameters
    ----------
    rows
        A table with a column for each variable. An empty cell, a null or a negative number is a
        missing value.
    valid
        Held-out rows; they choose between costs, end EM and limit merging.
    names
        Names of the columns of an array or of a file without a header (default: x0, x1, …).
    edge_costs
        Costs of an edge in nats (k_e); `valid` chooses between several. With 0 the result is a
        network with decision trees and no circuit.
    parameter_costs
        Costs of a parameter in nats (k_p); `valid` chooses between several.
    prior
        Counts added to a distribution: "thesis" (1 for each state), "libra" (1 in total) or a
        number in total.
    method
        "greedy" makes the best split in every step, "quick" nearly so, "tree" learns a tree of
        hidden variables by EM.
    num_components
        Circuits in a mixture (default 1); for "tree", states of a hidden variable (default 16).
    num_starts
        Number of random starts whose results are averaged.
    max_edges
        Upper limit of the edges.
    time_limit
        Seconds after which the current circuit is returned.
    max_memory
        Limit in bytes; 70 % of the machine if absent.
    header
        Whether the first row of a CSV file names its columns: "auto", "yes" or "no".
    random_state
        Seed of all random numbers.
    progress
        True for a display on a terminal or in a notebook, once the work takes a second; a
        function that is called with `lapis.runtime.progress.Progress` events; None for neither.
    stop
        A callable or an event that ends the search; the current circuit is returned.

    Returns
    -------
    LearnedCircuit
        `circuit`, `network`, figures by name, and the costs that were tried.

    Raises
    ------
    LapisError
        If the rows cannot be read or learned from, or options contradict each other.
    TooLarge
        If even without splits the circuit has more than `max_edges` edges.

    Examples
    --------
    >>> import lapis, numpy as np
    >>> rows = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], [40, 4, 5, 11], axis=0)
    >>> found = lapis.circuits.learn(rows, names=["smokes", "cancer"])
    >>> found.circuit
    <Circuit: 2 variables, 19 nodes, 20 edges, 6 parameters>
    >>> answer = lapis.circuits.query(found.circuit, "cancer", evidence={"smokes": 1})
    >>> round(answer["cancer"]["1"], 3)
    0.672
    """
    seed = seed_of(random_state)
    options = CircuitLearnOptions(
        edge_costs=tuple(edge_costs), parameter_costs=tuple(parameter_costs), method=method,
        num_components=num_components, num_starts=num_starts, max_edges=max_edges,
        time_limit=time_limit, header=header, random_state=seed, max_memory=max_memory,
    )  # fmt: skip
    check_options(options)
    if max_edges is not None and not any(edge_costs):
        raise LapisError(
            "max_edges limits a circuit, and with an edge cost of 0 no circuit is kept",
            code="option-value",
            hint="leave it out, or pass it to compile, which makes a circuit of the network",
        )
    tables = [open_rows(rows, "rows", names, header)]
    if valid is not None:
        tables.append(open_rows(valid, "valid", None, header))
    names, states = merge_variables(tables)
    train, *others = (code_rows(one, names, states) for one in tables)
    held_out = others[0] if others else None
    found = learn_rows(
        train, held_out, names, states, edge_costs=edge_costs, parameter_costs=parameter_costs,
        prior=prior, method=method, num_components=num_components, num_starts=num_starts,
        max_edges=max_edges, seed=seed, progress=as_report(progress),
        stop=stop_within(stop, time_limit),
    )  # fmt: skip
    fit = found.fit
    model = fit.network if fit.circuit is None else fit.circuit
    assert model is not None
    figures: dict[str, float | int | str | None] = {
        "edges": fit.num_edges,
        "parameters": model.num_parameters,
        "leaves": None if fit.network is None else fit.network.num_leaves,
        "splits": fit.num_splits,
        "train_log_likelihood": mean(fit.log_likelihoods(train)),
        "valid_log_likelihood": None if held_out is None else mean(fit.log_likelihoods(held_out)),
        "seconds": found.seconds,
        "converged": fit.converged,
        "edge_cost": found.edge_cost,
        "parameter_cost": found.parameter_cost,
    }
    notes = tuple(one.note for one in tables if one.note)
    return LearnedCircuit(figures, fit.circuit, fit.network, found.trials, notes)


@front_door
def compile(
    model: ModelLike | TreeNetwork | FactorGraph,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    open_predicates: Sequence[str] = (),
    evidence: StatesLike = (),
    max_edges: int = MAX_EDGES,
    time_limit: float | None = None,
    max_memory: int | None = None,
    strict: bool = False,
    random_state: int | np.random.Generator = 0,
    progress: ProgressOption = True,
    stop: StopCallback | threading.Event | None = None,
) -> CircuitFigures:
    """Compile a model to a circuit that computes it exactly.

    Parameters
    ----------
    model
        A Markov logic model, a network (`.bif`, `.uai`, `.tbn`), or a factor graph.
    data
        Facts of one world (Markov logic), or `.evid` files (networks).
    query
        Query predicates, atoms or formulas (Markov logic).
    open_predicates
        Further open predicates: their atoms are unknown unless the data has them.
    evidence
        Observed states of a network, as in `{"smoke": "yes"}` or "smoke=yes".
    max_edges
        Upper limit of the edges.
    time_limit
        Upper limit of the time in seconds.
    max_memory
        Limit in bytes; 70 % of the machine if absent.
    strict
        Refuse facts of predicates that the model does not declare.
    random_state
        Seed of the search for an elimination order.
    progress
        True for a display on a terminal or in a notebook, once the work takes a second; a
        function that is called with `lapis.runtime.progress.Progress` events; None for neither.
    stop
        A callable or an event that ends the search.

    Returns
    -------
    CircuitFigures
        The `circuit`, and figures by name: its sizes, `method`, `width` and `log_partition`.

    Raises
    ------
    LapisError
        If the model has no possible state, or the inputs do not fit each other.
    TooLarge
        If no circuit of at most `max_edges` edges is found.

    Examples
    --------
    >>> import lapis
    >>> model = lapis.parse("t = {A}\\nP(t)\\nQ(t)\\n1 P(x) => Q(x)")
    >>> found = lapis.circuits.compile(model, query=["P", "Q"])
    >>> found["variables"], round(found["log_partition"], 4)
    (2, 2.2143)
    """
    options = CircuitCompileOptions(
        query=query, open_predicates=open_predicates, max_edges=max_edges,
        time_limit=time_limit, strict=strict,
        random_state=seed_of(random_state), max_memory=max_memory,
    )  # fmt: skip
    check_options(options)
    began, seed = time.monotonic(), options.seed
    limit = stop_within(stop, time_limit)
    network = open_trees(model, data, query, open_predicates)
    if network is not None:
        fixed = network.given(known_row(network, evidence))
        compiled = compile_network(fixed, max_edges, seed, limit, as_report(progress))
        circuit, method, width = compiled.circuit, compiled.method, fixed.treewidth()
        network = network if fixed is network else None
    else:
        graph, row, _ = open_factors(model, data, query, open_predicates, evidence, strict)
        found = compile_factors(graph.given(row), max_edges, seed, limit, as_report(progress))
        circuit, method, width = found.circuit, found.method, found.width
    figures: dict[str, float | int | str | None] = {
        "method": method,
        **sizes(circuit),
        "width": width,
        "log_partition": log_partition(circuit),
        "seconds": time.monotonic() - began,
    }
    return CircuitFigures(figures, circuit, network)


@front_door
def approximate(
    model: ModelLike | TreeNetwork | FactorGraph,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    open_predicates: Sequence[str] = (),
    evidence: StatesLike = (),
    max_edges: int = approximation.MAX_EDGES,
    parameters: CircuitParameters = "auto",
    num_samples: int = approximation.NUM_SAMPLES,
    time_limit: float | None = None,
    max_memory: int | None = None,
    strict: bool = False,
    random_state: int | np.random.Generator = 0,
    progress: ProgressOption = True,
    stop: StopCallback | threading.Event | None = None,
) -> CircuitFigures:
    """Find a circuit within a budget of edges that is close to a model given evidence.

    Parameters
    ----------
    model
        As of `compile`.
    data
        As of `compile`.
    query
        As of `compile`.
    open_predicates
        As of `compile`.
    evidence
        As of `compile`.
    max_edges
        Upper limit of the edges.
    parameters
        Method for parameters: "F" (learned), "G" (Gibbs samples), "V" (variational), "VI" (V with
        importance weights), "E" (exact samples) or "P" (particles). "auto" takes E if its tables
        fit, else the one of P and VI with the smaller error.
    num_samples
        Number of samples from which the structure is learned.
    time_limit
        Seconds after which the best circuit so far is returned.
    max_memory
        Limit in bytes; 70 % of the machine if absent.
    strict
        Refuse facts of predicates that the model does not declare.
    random_state
        Seed of all random numbers.
    progress
        True for a display on a terminal or in a notebook, once the work takes a second; a
        function that is called with `lapis.runtime.progress.Progress` events; None for neither.
    stop
        A callable or an event that ends the search; the best circuit so far is returned.

    Returns
    -------
    CircuitFigures
        The normalised `circuit` for P(· | evidence), and figures by name: sizes, bounds and
        estimates of log Z, `effective` and `interrupted`.

    Raises
    ------
    LapisError
        If the model has no possible state, or the inputs do not fit each other.
    TooLarge
        If no circuit of at most `max_edges` edges is found.

    Examples
    --------
    >>> import lapis
    >>> model = lapis.parse("t = {A}\\nP(t)\\nQ(t)\\n1 P(x) => Q(x)")
    >>> found = lapis.circuits.approximate(model, query=["P", "Q"], max_edges=30)
    >>> found["edges"] <= 30, round(found["log_partition"], 4)
    (True, 2.2143)
    """
    options = CircuitApproximateOptions(
        query=query, open_predicates=open_predicates, max_edges=max_edges,
        parameters=parameters, num_samples=num_samples, time_limit=time_limit, strict=strict,
        random_state=seed_of(random_state), max_memory=max_memory,
    )  # fmt: skip
    check_options(options)
    graph, row, _ = open_factors(model, data, query, open_predicates, evidence, strict)
    began, seed = time.monotonic(), options.seed
    limit = stop_within(stop, time_limit)
    structure = approximation.find_structure(
        graph, row, max_edges, num_samples, seed, limit, as_report(progress)
    )
    found = approximation.fit_structure(
        graph, structure, row, parameters, seed, limit, as_report(progress)
    )
    exact = found.parameters == "E"
    figures: dict[str, float | int | str | None] = {
        "parameters_by": found.parameters,
        **sizes(found.circuit),
        "log_partition": found.log_partition if exact else cheap_partition(graph.given(row), limit),
        "log_partition_bound": found.bound,
        "log_partition_upper": found.upper,
        "log_partition_estimate": found.log_partition,
        "log_partition_stderr": found.log_partition_stderr,
        "effective": found.effective,
        "interrupted": limit.is_over(),
        "seconds": time.monotonic() - began,
    }
    return CircuitFigures(figures, found.circuit, None)


def mean(values: np.ndarray) -> float | None:
    """Return the mean; None without values."""
    return float(values.mean()) if len(values) else None


def stop_within(stop: StopCallback | threading.Event | None, time_limit: float | None) -> Stop:
    """Join a stop callback and a time limit."""
    return Stop(stop, deadline_in(time_limit))


def sizes(circuit: Circuit) -> dict[str, int]:
    """Return the sizes of a circuit by name."""
    return {
        "variables": circuit.num_variables,
        "nodes": circuit.num_nodes,
        "edges": circuit.num_edges,
        "parameters": circuit.num_parameters,
    }
