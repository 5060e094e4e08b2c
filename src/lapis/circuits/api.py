"""The functions of `lapis.circuits`: learn, compile, approximate, query, sample, score, draw.

A circuit is a `Circuit`, a `TreeNetwork`, or the path of one. A model is one of Markov logic, a
network in a `.bif`, `.uai` or `.tbn` file, or a `FactorGraph`. Rows are a path, a NumPy array or a
frame. States of variables are given by name: `{"rain": "yes"}`, or `"rain=yes"` as on the command
line.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from lapis.circuits.answers import ask, ask_network, distributions, measure, sizes
from lapis.circuits.approximation import approximate as approximation
from lapis.circuits.circuit import Circuit
from lapis.circuits.compilation.compile import MAX_EDGES, compile_factors
from lapis.circuits.compilation.marginals import find_marginals
from lapis.circuits.compilation.partition import cheap_partition
from lapis.circuits.evaluation import posteriors
from lapis.circuits.factors.factor_graph import FactorGraph
from lapis.circuits.files import load_circuit
from lapis.circuits.inputs import (
    CircuitLike,
    known_row,
    open_circuit,
    open_factors,
    open_trees,
    stored_network,
)
from lapis.circuits.learning.learner import EDGE_COSTS, PARAMETER_COSTS, AnyMethod, learn_rows
from lapis.circuits.queries import (
    draw_samples,
    entropy,
    log_conditionals,
    log_partition,
    log_probabilities,
    refuse_impossible,
)
from lapis.circuits.results import (
    CircuitAnswer,
    CircuitFigures,
    CircuitScore,
    LearnedCircuit,
    ModelMarginals,
    RowAnswers,
    Samples,
)
from lapis.circuits.table import Header, RowsLike, open_rows, rows_of, variables_of
from lapis.circuits.tree_networks.compiling import compile_network
from lapis.circuits.tree_networks.gibbs import draw_given, estimate_conditionals
from lapis.circuits.tree_networks.tree_network import TreeNetwork
from lapis.circuits.typed_states import StatesLike, read_states, row_of_states
from lapis.errors import LapisError
from lapis.methods import check_options
from lapis.option import seed_of
from lapis.progress import Report, Stop, Wish, work_clock
from lapis.results.columns import Coded, as_objects
from lapis.results.result import Figures

if TYPE_CHECKING:
    import threading

    from lapis.problem.task import DataLike, ModelLike

ParametersBy = Literal["auto", "F", "G", "V", "VI", "E", "P"]


def learn(
    rows: RowsLike,
    *,
    valid: RowsLike | None = None,
    names: Sequence[str] | None = None,
    edge_costs: Sequence[float] = EDGE_COSTS,
    parameter_costs: Sequence[float] = PARAMETER_COSTS,
    prior: str | float = "libra",
    method: AnyMethod = "quick",
    num_components: int | None = None,
    num_starts: int = 1,
    max_edges: int | None = None,
    time_limit: float | None = None,
    header: Header = "auto",
    random_state: int | np.random.Generator = 0,
    progress: Report | None = None,
    stop: Wish | threading.Event | None = None,
) -> LearnedCircuit:
    """Learn a circuit from rows of discrete values, paying for its edges.

    Parameters
    ----------
    rows
        A table with a column for each variable; an empty cell, a null or a negative number is
        missing.
    valid
        Held-out rows: they choose between costs, end EM and limit what is merged.
    names
        Of the columns of an array, or of a file without a header; x0, x1, … otherwise.
    edge_costs
        Cost of an edge in nats (k_e); of several, `valid` chooses. With 0 no circuit is kept, only
        the network with decision trees.
    parameter_costs
        Cost of a parameter in nats (k_p), in the same way.
    prior
        Counts added to a distribution: "thesis" (1 for each state), "libra" (1 in total) or a
        number in total.
    method
        "greedy" makes the best split in every step, "quick" nearly so, "tree" learns a tree of
        hidden variables by EM.
    num_components
        Circuits in a mixture (1); of a tree the states of a hidden variable (16).
    num_starts
        Number of results from different starts that are averaged.
    max_edges
        Upper limit of the edges.
    time_limit
        Seconds after which the circuit so far is the result.
    header
        Whether the first row of a CSV file names its columns: "auto", "yes" or "no".
    random_state
        Seed of everything random.
    progress
        Called with `lapis.progress.Progress` events.
    stop
        A callable or an event; where it is true the circuit so far is the result.

    Returns
    -------
    LearnedCircuit
        `circuit`, `network`, the figures by name, and the costs that were tried.

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
    check_options(
        "circuit learn",
        {
            "edge_costs": tuple(edge_costs), "parameter_costs": tuple(parameter_costs),
            "method": method, "num_components": num_components, "num_starts": num_starts,
            "max_edges": max_edges, "time_limit": time_limit, "header": header,
            "random_state": random_state,
        },
    )  # fmt: skip
    if max_edges is not None and not any(edge_costs):
        raise LapisError(
            "max_edges limits a circuit, and with an edge cost of 0 no circuit is kept",
            code="option-value",
            hint="leave it out, or give it to compile, which makes a circuit of the network",
        )
    tables = [open_rows(rows, "rows", names, header)]
    if valid is not None:
        tables.append(open_rows(valid, "valid", None, header))
    names, states = variables_of(tables)
    train, *others = (rows_of(one, names, states) for one in tables)
    held_out = others[0] if others else None
    found = learn_rows(
        train, held_out, names, states, edge_costs=edge_costs, parameter_costs=parameter_costs,
        prior=prior, method=method, num_components=num_components, num_starts=num_starts,
        max_edges=max_edges, seed=seed_of(random_state), progress=progress,
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
    return LearnedCircuit(figures, fit.circuit, fit.network, found.trials)


def compile(
    model: ModelLike | TreeNetwork | FactorGraph,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    open_predicates: Sequence[str] = (),
    evidence: StatesLike = (),
    max_edges: int = MAX_EDGES,
    time_limit: float | None = None,
    strict: bool = False,
    random_state: int | np.random.Generator = 0,
    progress: Report | None = None,
    stop: Wish | threading.Event | None = None,
) -> CircuitFigures:
    """Compile a model to a circuit that computes it exactly.

    Parameters
    ----------
    model
        A Markov logic model, a network (`.bif`, `.uai`, `.tbn`), or a table of factors.
    data
        Facts, one world of them, of a Markov logic model; `.evid` files of a network.
    query
        Predicates, atoms or formulas of a Markov logic model that are asked.
    open_predicates
        Further predicates that are unknown where the data is silent.
    evidence
        States of a network's variables, as in `{"smoke": "yes"}` or "smoke=yes".
    max_edges
        Upper limit of the edges.
    time_limit
        Seconds after which to give up.
    strict
        Refuse facts of predicates that the model does not declare.
    random_state
        Seed of the search for an elimination order.
    progress
        Called with `lapis.progress.Progress` events.
    stop
        A callable or an event that ends the search.

    Returns
    -------
    CircuitFigures
        The `circuit`, and figures by name: its sizes, `method`, `width` and `log_partition`.

    Raises
    ------
    LapisError
        If the model has no possible state, or inputs do not go together.
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
    check_limits("circuit compile", max_edges, time_limit, random_state)
    began, seed = time.monotonic(), seed_of(random_state)
    limit = stop_within(stop, time_limit)
    network = open_trees(model, data, query, open_predicates)
    if network is not None:
        fixed = network.given(known_row(network, evidence))
        compiled = compile_network(fixed, max_edges, seed, limit, progress)
        circuit, method, width = compiled.circuit, compiled.method, fixed.treewidth()
        network = network if fixed is network else None
    else:
        graph, row, _ = open_factors(model, data, query, open_predicates, evidence, strict)
        found = compile_factors(graph.given(row), max_edges, seed, limit, progress)
        circuit, method, width = found.circuit, found.method, found.width
    figures: dict[str, float | int | str | None] = {
        "method": method,
        **sizes(circuit),
        "width": width,
        "log_partition": log_partition(circuit),
        "seconds": time.monotonic() - began,
    }
    return CircuitFigures(figures, circuit, network)


def marginals(
    model: ModelLike | Circuit | TreeNetwork | FactorGraph,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    open_predicates: Sequence[str] = (),
    evidence: StatesLike = (),
    time_limit: float | None = None,
    strict: bool = False,
    random_state: int | np.random.Generator = 0,
    stop: Wish | threading.Event | None = None,
) -> ModelMarginals:
    """Find all marginals of a model exactly, also where a circuit would be too large.

    Parameters
    ----------
    model
        As of `compile`; or a circuit, which answers by itself.
    data
        As of `compile`.
    query
        As of `compile`.
    open_predicates
        As of `compile`.
    evidence
        As of `compile`.
    time_limit
        Seconds after which to give up.
    strict
        Refuse facts of predicates that the model does not declare.
    random_state
        Seed of the search for an elimination order.
    stop
        A callable or an event that ends the work.

    Returns
    -------
    ModelMarginals
        `log_partition`, and the probability of each state of each variable that is not known.

    Raises
    ------
    LapisError
        If the model has no possible state, or inputs do not go together.
    TooLarge
        If the tables of elimination do not fit, or time is up.

    Examples
    --------
    >>> import lapis
    >>> model = lapis.parse("t = {A}\\nP(t)\\nQ(t)\\n1 P(x) => Q(x)")
    >>> found = lapis.circuits.marginals(model, query=["P", "Q"])
    >>> round(found["P(A)"]["true"], 4)
    0.4062
    """
    check_limits("circuit marginals", None, time_limit, random_state)
    if isinstance(model, str | Path) and Path(model).suffix in (".npz", ".ac"):
        model = load_circuit(model)
    if isinstance(model, Circuit):
        row = known_row(model, evidence)
        value, chance = posteriors(model, row)
        refuse_impossible(value)
        names = [n for n, state in zip(model.names, row, strict=True) if state < 0]
        return ModelMarginals(float(value[0]), distributions(model, chance[0], names))
    graph, row, shown = open_factors(model, data, query, open_predicates, evidence, strict)
    limit = stop_within(stop, time_limit)
    found = find_marginals(graph.given(row), seed=seed_of(random_state), stop=limit)
    names = [n for n, state in zip(graph.names, row, strict=True) if state < 0 and n in shown]
    return ModelMarginals(found.log_partition, distributions(graph, found.state, names))


def approximate(
    model: ModelLike | TreeNetwork | FactorGraph,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    open_predicates: Sequence[str] = (),
    evidence: StatesLike = (),
    max_edges: int = approximation.MAX_EDGES,
    parameters: ParametersBy = "auto",
    num_samples: int = approximation.NUM_SAMPLES,
    time_limit: float | None = None,
    strict: bool = False,
    random_state: int | np.random.Generator = 0,
    progress: Report | None = None,
    stop: Wish | threading.Event | None = None,
) -> CircuitFigures:
    """Find the circuit within a budget of edges that is closest to a model, given evidence.

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
        How parameters are found: "F" (learned), "G" (Gibbs samples), "V" (variational), "VI" (V,
        its worlds weighed), "E" (drawn exactly) or "P" (particles); "auto" takes E where that
        fits, else P or VI, whichever is surer.
    num_samples
        Number of samples that the structure is learned from.
    time_limit
        Seconds after which the best so far is the result.
    strict
        Refuse facts of predicates that the model does not declare.
    random_state
        Seed of everything random.
    progress
        Called with `lapis.progress.Progress` events.
    stop
        A callable or an event; where it is true the best so far is the result.

    Returns
    -------
    CircuitFigures
        The `circuit`, normalised, which stands for P(· | evidence), and figures by name: sizes,
        bounds and estimates of log Z, `effective` and `interrupted`.

    Raises
    ------
    LapisError
        If the model has no possible state, or inputs do not go together.
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
    check_limits("circuit approximate", max_edges, time_limit, random_state)
    check_options("circuit approximate", {"parameters": parameters, "num_samples": num_samples})
    graph, row, _ = open_factors(model, data, query, open_predicates, evidence, strict)
    began, seed = time.monotonic(), seed_of(random_state)
    limit = stop_within(stop, time_limit)
    structure = approximation.find_structure(
        graph, row, max_edges, num_samples, seed, limit, progress
    )
    found = approximation.approximate(graph, structure, row, parameters, seed, limit, progress)
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


def query(
    circuit: CircuitLike,
    query: StatesLike = (),
    *,
    evidence: StatesLike = (),
    most_likely: bool = False,
    num_chains: int = 10,
    burn_in: int = 100,
    num_sweeps: int = 1000,
    random_state: int | np.random.Generator = 0,
) -> CircuitAnswer:
    """Answer a query: exactly of a circuit, by Gibbs sampling of a network.

    Without a query: the probability of the evidence, and the marginals of all other variables.

    Parameters
    ----------
    circuit
        A circuit or network, or the path of one.
    query
        States whose joint probability is asked (`{"cancer": "yes"}`, "cancer=yes"), and variables
        whose marginals are asked ("cancer").
    evidence
        States that are known.
    most_likely
        Also find the most likely states of all variables given the evidence; of a deterministic
        circuit.
    num_chains
        Of a network: chains of Gibbs sampling.
    burn_in
        Of a network: sweeps of each chain that are left out.
    num_sweeps
        Of a network: sweeps of each chain that are counted.
    random_state
        Of a network: seed of the chains.

    Returns
    -------
    CircuitAnswer
        `log_probability`, and `distribution` by variable and state.

    Raises
    ------
    LapisError
        If a variable or state is unknown, the evidence is impossible, or the circuit's structure
        does not support the question.

    Examples
    --------
    >>> import lapis
    >>> coin = lapis.circuits.parse("(2)\\nv 0 0\\nv 0 1\\nn 1\\nn 3\\n* 0 2\\n* 1 3\\n+ 4 5\\nEOF")
    >>> round(lapis.circuits.query(coin, {"x0": 1}).probability, 3)
    0.75
    """
    check_sampling("circuit query", num_chains, burn_in, num_sweeps, random_state)
    found = open_circuit(circuit)
    row = known_row(found, evidence)
    named = read_states(found.names, found.states, query)
    states = [(name, state) for name, state in named if state is not None]
    event = row_of_states(found.names, found.states, states)
    variables = tuple(name for name, state in named if state is None)
    if not (variables or states or most_likely):
        variables = tuple(n for n, state in zip(found.names, row, strict=True) if state < 0)
    if isinstance(found, Circuit):
        return ask(found, event, row, variables, most_likely)
    if most_likely:
        raise LapisError(
            "the most likely states cannot be found by Gibbs sampling",
            code="option-value",
            hint="compile the network, and query the circuit",
        )
    seed = seed_of(random_state)
    return ask_network(found, event, row, variables, num_chains, burn_in, num_sweeps, seed)


def query_rows(
    circuit: CircuitLike,
    rows: RowsLike,
    *,
    evidence_rows: RowsLike | None = None,
    names: Sequence[str] | None = None,
    header: Header = "auto",
    num_chains: int = 10,
    burn_in: int = 100,
    num_sweeps: int = 1000,
    random_state: int | np.random.Generator = 0,
) -> RowAnswers:
    """Answer many queries at once: log P(row | evidence) of each row.

    Parameters
    ----------
    circuit
        A circuit or network, or the path of one.
    rows
        A query in each row; variables that are not asked are missing.
    evidence_rows
        What is known, in as many rows.
    names
        Of the columns of an array, or of a file without a header; those of the circuit otherwise.
    header
        Whether the first row of a CSV file names its columns: "auto", "yes" or "no".
    num_chains
        Of a network: chains of Gibbs sampling.
    burn_in
        Of a network: sweeps of each chain that are left out.
    num_sweeps
        Of a network: sweeps of each chain that are counted.
    random_state
        Of a network: seed of the chains.

    Returns
    -------
    RowAnswers
        A row for each query; NaN where its evidence is impossible.

    Raises
    ------
    LapisError
        If the rows cannot be read, or do not fit the circuit or each other.

    Examples
    --------
    >>> import lapis, numpy as np
    >>> coin = lapis.circuits.parse("(2)\\nv 0 0\\nv 0 1\\nn 1\\nn 3\\n* 0 2\\n* 1 3\\n+ 4 5\\nEOF")
    >>> found = lapis.circuits.query_rows(coin, np.array([[0], [1], [-1]]))
    >>> np.exp(found.log_probabilities).round(3)
    array([0.25, 0.75, 1.  ])
    """
    check_sampling("circuit query", num_chains, burn_in, num_sweeps, random_state)
    found = open_circuit(circuit)
    table = open_rows(rows, "rows", names, header)
    events = rows_of(table, found.names, found.states)
    known = np.full_like(events, -1)
    if evidence_rows is not None:
        given = open_rows(evidence_rows, "evidence_rows", None, header)
        known = rows_of(given, found.names, found.states)
        if len(known) != len(events):
            raise LapisError(
                f"{table.source} has {len(events)} rows, {given.source} has {len(known)}",
                code="data-table",
            )
    if isinstance(found, Circuit):
        return RowAnswers({"log_probability": log_conditionals(found, events, known)})
    estimated = estimate_conditionals(
        found, events, known, num_chains=num_chains, burn_in=burn_in, num_sweeps=num_sweeps,
        seed=seed_of(random_state),
    )  # fmt: skip
    return RowAnswers(estimated._asdict(), exact=False)


def sample(
    circuit: CircuitLike,
    num_samples: int = 10,
    *,
    evidence: StatesLike = (),
    burn_in: int = 100,
    random_state: int | np.random.Generator = 0,
) -> Samples:
    """Draw independent samples given evidence.

    Parameters
    ----------
    circuit
        A circuit or network, or the path of one.
    num_samples
        Number of samples.
    evidence
        States that are known.
    burn_in
        Of a network given evidence: sweeps of Gibbs sampling before a sample, which is then not
        exact.
    random_state
        Seed of the samples.

    Returns
    -------
    Samples
        A column of states for each variable.

    Raises
    ------
    LapisError
        If a variable or state is unknown, or the evidence is impossible.

    Examples
    --------
    >>> import lapis
    >>> coin = lapis.circuits.parse("(2)\\nv 0 0\\nv 0 1\\nn 1\\nn 3\\n* 0 2\\n* 1 3\\n+ 4 5\\nEOF")
    >>> print(lapis.circuits.sample(coin, 2, evidence={"x0": 1}))
    x0
    1
    1
    2 samples
    """
    check_options(
        "circuit sample",
        {"num_samples": num_samples, "burn_in": burn_in, "random_state": random_state},
    )
    found, seed = open_circuit(circuit), seed_of(random_state)
    row = known_row(found, evidence)
    gibbs = None
    if isinstance(found, Circuit):
        worlds = draw_samples(found, num_samples, seed, row)
    elif (row < 0).all():
        worlds = found.draw_samples(num_samples, seed)
    else:
        gibbs = burn_in
        worlds = draw_given(found, num_samples, row, burn_in, seed)
    columns = {
        name: Coded(worlds[:, v], as_objects(found.states[v])) for v, name in enumerate(found.names)
    }
    return Samples(columns, gibbs)


def score(
    circuit: CircuitLike,
    rows: RowsLike,
    *,
    names: Sequence[str] | None = None,
    header: Header = "auto",
) -> CircuitScore:
    """Score rows by their log-likelihood; variables that a row leaves out are summed out.

    Parameters
    ----------
    circuit
        A circuit or network, or the path of one.
    rows
        A table with columns of the circuit's variables.
    names
        Of the columns of an array, or of a file without a header; those of the circuit otherwise.
    header
        Whether the first row of a CSV file names its columns: "auto", "yes" or "no".

    Returns
    -------
    CircuitScore
        The mean by name (`found["log_likelihood"]`), and that of each row (`log_likelihoods`).

    Raises
    ------
    LapisError
        If the rows cannot be read or do not fit, or miss values and a network is to score them.

    Examples
    --------
    >>> import lapis, numpy as np
    >>> coin = lapis.circuits.parse("(2)\\nv 0 0\\nv 0 1\\nn 1\\nn 3\\n* 0 2\\n* 1 3\\n+ 4 5\\nEOF")
    >>> round(lapis.circuits.score(coin, np.array([[0], [1]]))["log_likelihood"], 4)
    -0.837
    """
    check_options("circuit score", {"header": header})
    found = open_circuit(circuit)
    table = open_rows(rows, "rows", names, header)
    states = rows_of(table, found.names, found.states)
    if isinstance(found, Circuit):
        values = log_probabilities(found, states)
    elif (states >= 0).all():
        values = found.log_likelihoods(states)
    else:
        raise LapisError(
            f"{table.source} has missing values, and a network scores complete rows",
            code="missing-values",
            hint="compile the network, and score by the circuit",
        )
    return CircuitScore({"log_likelihood": mean(values), "examples": len(values)}, values)


def info(circuit: CircuitLike, *, max_edges: int = 1_000_000) -> Figures:
    """Measure a circuit or network: sizes, guarantees, log Z and entropy.

    Of a network, and of a learned circuit in an `.npz` file, which keeps its network, also the
    rows of table 5.4 of the thesis: leaves, parents, treewidth, edges after compiling.

    Parameters
    ----------
    circuit
        A circuit or network, or the path of one.
    max_edges
        Of a network: upper limit of the edges of the circuit that it is compiled to.

    Returns
    -------
    Figures
        The figures by name.

    Raises
    ------
    LapisError
        If the file holds no circuit.

    Examples
    --------
    >>> import lapis
    >>> coin = lapis.circuits.parse("(2)\\nv 0 0\\nv 0 1\\nn 1\\nn 3\\n* 0 2\\n* 1 3\\n+ 4 5\\nEOF")
    >>> found = lapis.circuits.info(coin)
    >>> found["edges"], found["deterministic"], round(found["entropy"], 4)
    (6, True, 0.5623)
    """
    check_options("circuit info", {"max_edges": max_edges})
    found = open_circuit(circuit)
    if isinstance(found, TreeNetwork):
        return Figures(
            {"variables": len(found.names), "parameters": found.num_parameters}
            | measure(found, max_edges)
        )
    network = stored_network(circuit, found)
    figures: dict[str, float | int | str | None] = {
        **sizes(found),
        **found.properties._asdict(),
        "log_partition": log_partition(found),
        "entropy": entropy(found) if all(found.properties) else None,
    }
    return Figures(figures | ({} if network is None else measure(network, max_edges)))


def check_limits(
    command: str,
    max_edges: int | None,
    time_limit: float | None,
    random_state: int | np.random.Generator,
) -> None:
    limits: dict[str, object] = {"time_limit": time_limit, "random_state": random_state}
    check_options(command, limits if max_edges is None else {**limits, "max_edges": max_edges})


def check_sampling(
    command: str,
    num_chains: int,
    burn_in: int,
    num_sweeps: int,
    random_state: int | np.random.Generator,
) -> None:
    check_options(
        command,
        {
            "num_chains": num_chains, "burn_in": burn_in, "num_sweeps": num_sweeps,
            "random_state": random_state,
        },
    )  # fmt: skip


def stop_within(stop: Wish | threading.Event | None, time_limit: float | None) -> Stop:
    return Stop(stop, math.inf if time_limit is None else work_clock() + time_limit)


def mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None
