"""Queries to circuits: `query`, `query_rows`, `marginals`, `sample`, `score`, `info`.

A circuit is a `Circuit`, a `TreeNetwork`, or the path of one. Circuits answer exactly, networks by
Gibbs sampling. States of variables are given by name: `{"rain": "yes"}`, or "rain=yes" as on the
command line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lapis.circuits.circuit import Circuit, state_starts
from lapis.circuits.circuit_files import load_circuit
from lapis.circuits.circuit_results import (
    CircuitAnswer,
    CircuitScore,
    ModelMarginals,
    RowAnswers,
    Samples,
)
from lapis.circuits.compilation.partition import find_marginals
from lapis.circuits.construction import mean, sizes, stop_within
from lapis.circuits.evaluation import (
    draw_samples,
    entropy,
    log_conditionals,
    log_partition,
    log_probabilities,
    posteriors,
    require_possible_evidence,
)
from lapis.circuits.evaluation import most_likely as most_likely_rows
from lapis.circuits.factor_graph import FactorGraph
from lapis.circuits.inputs import (
    CircuitLike,
    known_row,
    open_circuit,
    open_factors,
    row_of_states,
    stored_network,
)
from lapis.circuits.row_table import RowsLike, code_rows, open_rows
from lapis.circuits.tree_networks.compile_network import compile_network
from lapis.circuits.tree_networks.tree_gibbs import (
    TreeChainOptions,
    estimate_conditionals,
    estimate_marginals,
    sample_given,
)
from lapis.circuits.tree_networks.tree_network import TreeNetwork
from lapis.errors import LapisError, TooLarge
from lapis.problem.state_names import StatesLike, read_states
from lapis.registry.method_table import check_options, front_door, seed_of
from lapis.registry.options import (
    CircuitInfoOptions,
    CircuitMarginalsOptions,
    CircuitQueryOptions,
    CircuitSampleOptions,
    CircuitScoreOptions,
    Header,
)
from lapis.results.columns import Coded, as_objects
from lapis.results.result import Figures
from lapis.runtime.progress import StopCallback

if TYPE_CHECKING:
    import threading

    from lapis.problem.task import DataLike, ModelLike


@front_door
def marginals(
    model: ModelLike | Circuit | TreeNetwork | FactorGraph,
    data: DataLike = None,
    query: Sequence[str] | str = (),
    *,
    open_predicates: Sequence[str] = (),
    evidence: StatesLike = (),
    time_limit: float | None = None,
    max_memory: int | None = None,
    strict: bool = False,
    random_state: int | np.random.Generator = 0,
    stop: StopCallback | threading.Event | None = None,
) -> ModelMarginals:
    """Compute all marginals of a model exactly, also where a circuit would be too large.

    Parameters
    ----------
    model
        As of `compile`; or a circuit.
    data
        As of `compile`.
    query
        As of `compile`.
    open_predicates
        As of `compile`.
    evidence
        As of `compile`.
    time_limit
        Upper limit of the time in seconds.
    max_memory
        Limit in bytes; 70 % of the machine if absent.
    strict
        Refuse facts of predicates that the model does not declare.
    random_state
        Seed of the search for an elimination order.
    stop
        A callable or an event that ends the work.

    Returns
    -------
    ModelMarginals
        `log_partition`, and the probability of each state of each unobserved variable.

    Raises
    ------
    LapisError
        If the model has no possible state, or the inputs do not fit each other.
    TooLarge
        If the tables of elimination do not fit, or the time limit is reached.

    Examples
    --------
    >>> import lapis
    >>> model = lapis.parse("t = {A}\\nP(t)\\nQ(t)\\n1 P(x) => Q(x)")
    >>> found = lapis.circuits.marginals(model, query=["P", "Q"])
    >>> round(found["P(A)"]["true"], 4)
    0.4062
    """
    options = CircuitMarginalsOptions(
        query=query, open_predicates=open_predicates, time_limit=time_limit, strict=strict,
        random_state=seed_of(random_state), max_memory=max_memory,
    )  # fmt: skip
    check_options(options)
    if isinstance(model, str | Path) and Path(model).suffix in (".npz", ".ac"):
        model = load_circuit(model)
    if isinstance(model, Circuit):
        row = known_row(model, evidence)
        value, chance = posteriors(model, row)
        require_possible_evidence(value)
        names = [n for n, state in zip(model.names, row, strict=True) if state < 0]
        return ModelMarginals(float(value[0]), distributions(model, chance[0], names))
    graph, row, shown = open_factors(model, data, query, open_predicates, evidence, strict)
    limit = stop_within(stop, time_limit)
    found = find_marginals(graph.given(row), seed=options.seed, stop=limit)
    names = [n for n, state in zip(graph.names, row, strict=True) if state < 0 and n in shown]
    return ModelMarginals(found.log_partition, distributions(graph, found.state, names))


@front_door
def query(
    circuit: CircuitLike,
    query: StatesLike = (),
    *,
    evidence: StatesLike = (),
    most_likely: bool = False,
    num_chains: int = 10,
    burn_in: int = 100,
    num_sweeps: int = 1000,
    time_limit: float | None = None,
    max_memory: int | None = None,
    random_state: int | np.random.Generator = 0,
) -> CircuitAnswer:
    """Answer a query, exactly with a circuit or by Gibbs sampling with a network.

    Without a query, return the probability of the evidence and the marginals of all other
    variables.

    Parameters
    ----------
    circuit
        A circuit or network, or the path of one.
    query
        States whose joint probability is computed (`{"cancer": "yes"}`, "cancer=yes"), and
        variables whose marginals are computed ("cancer").
    evidence
        Observed states.
    most_likely
        Also find the most likely states of all variables given the evidence. This needs a
        deterministic circuit.
    num_chains
        Chains of Gibbs sampling (networks).
    burn_in
        Discarded sweeps of each chain (networks).
    num_sweeps
        Counted sweeps of each chain (networks).
    time_limit
        Seconds after which the call ends.
    max_memory
        Limit in bytes; 70 % of the machine if absent.
    random_state
        Seed of the chains (networks).

    Returns
    -------
    CircuitAnswer
        `log_probability`, and `distribution` by variable and state.

    Raises
    ------
    LapisError
        If a variable or state is unknown, the evidence is impossible, or the circuit's structure
        does not support the query.

    Examples
    --------
    >>> import lapis
    >>> coin = lapis.circuits.parse("(2)\\nv 0 0\\nv 0 1\\nn 1\\nn 3\\n* 0 2\\n* 1 3\\n+ 4 5\\nEOF")
    >>> round(lapis.circuits.query(coin, {"x0": 1}).probability, 3)
    0.75
    """
    options = CircuitQueryOptions(
        most_likely=most_likely, num_chains=num_chains, burn_in=burn_in,
        num_sweeps=num_sweeps, random_state=seed_of(random_state),
        time_limit=time_limit, max_memory=max_memory,
    )  # fmt: skip
    check_options(options)
    found = open_circuit(circuit)
    row = known_row(found, evidence)
    named = read_states(found.names, found.states, query)
    states = [(name, state) for name, state in named if state is not None]
    event = row_of_states(found.names, found.states, states)
    variables = tuple(name for name, state in named if state is None)
    if not (variables or states or most_likely):
        variables = tuple(n for n, state in zip(found.names, row, strict=True) if state < 0)
    if isinstance(found, Circuit):
        return query_circuit(found, event, row, variables, most_likely)
    if most_likely:
        raise LapisError(
            "the most likely states cannot be found by Gibbs sampling",
            code="option-value",
            hint="compile the network, and query the circuit",
        )
    chains = TreeChainOptions(num_chains, burn_in, num_sweeps, options.seed)
    return query_network(found, event, row, variables, chains)


@front_door
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
    time_limit: float | None = None,
    max_memory: int | None = None,
    random_state: int | np.random.Generator = 0,
) -> RowAnswers:
    """Answer many queries at once: compute log P(row | evidence) of each row.

    Parameters
    ----------
    circuit
        A circuit or network, or the path of one.
    rows
        A query in each row; a missing value is not in the query.
    evidence_rows
        Evidence in the same number of rows.
    names
        Names of the columns of an array or of a file without a header (default: the circuit's).
    header
        Whether the first row of a CSV file names its columns: "auto", "yes" or "no".
    num_chains
        Chains of Gibbs sampling (networks).
    burn_in
        Discarded sweeps of each chain (networks).
    num_sweeps
        Counted sweeps of each chain (networks).
    time_limit
        Seconds after which the call ends.
    max_memory
        Limit in bytes; 70 % of the machine if absent.
    random_state
        Seed of the chains (networks).

    Returns
    -------
    RowAnswers
        A row for each query; NaN if its evidence is impossible.

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
    options = CircuitQueryOptions(
        header=header, num_chains=num_chains, burn_in=burn_in, num_sweeps=num_sweeps,
        random_state=seed_of(random_state),
        time_limit=time_limit, max_memory=max_memory,
    )  # fmt: skip
    check_options(options)
    found = open_circuit(circuit)
    table = open_rows(rows, "rows", names, header)
    events = code_rows(table, found.names, found.states)
    known = np.full_like(events, -1)
    if evidence_rows is not None:
        given = open_rows(evidence_rows, "evidence_rows", None, header)
        known = code_rows(given, found.names, found.states)
        if len(known) != len(events):
            raise LapisError(
                f"{table.source} has {len(events)} rows, {given.source} has {len(known)}",
                code="data-table",
            )
    if isinstance(found, Circuit):
        return RowAnswers({"log_probability": log_conditionals(found, events, known)})
    chains = TreeChainOptions(num_chains, burn_in, num_sweeps, options.seed)
    estimated = estimate_conditionals(found, events, known, chains)
    return RowAnswers(estimated._asdict(), exact=False)


@front_door
def sample(
    circuit: CircuitLike,
    num_samples: int = 10,
    *,
    evidence: StatesLike = (),
    burn_in: int = 100,
    time_limit: float | None = None,
    max_memory: int | None = None,
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
        Observed states.
    burn_in
        Sweeps of Gibbs sampling before each sample (networks with evidence); the samples are then
        not exact.
    time_limit
        Seconds after which the call ends.
    max_memory
        Limit in bytes; 70 % of the machine if absent.
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
    seed = seed_of(random_state)
    check_options(
        CircuitSampleOptions(
            num_samples=num_samples,
            burn_in=burn_in,
            random_state=seed,
            time_limit=time_limit,
            max_memory=max_memory,
        )
    )
    found = open_circuit(circuit)
    row = known_row(found, evidence)
    gibbs = None
    if isinstance(found, Circuit):
        worlds = draw_samples(found, num_samples, seed, row)
    elif (row < 0).all():
        worlds = found.draw_samples(num_samples, seed)
    else:
        gibbs = burn_in
        worlds = sample_given(found, num_samples, row, burn_in, seed)
    columns = {
        name: Coded(worlds[:, v], as_objects(found.states[v])) for v, name in enumerate(found.names)
    }
    return Samples(columns, gibbs)


@front_door
def score(
    circuit: CircuitLike,
    rows: RowsLike,
    *,
    names: Sequence[str] | None = None,
    header: Header = "auto",
    time_limit: float | None = None,
    max_memory: int | None = None,
) -> CircuitScore:
    """Score rows by their log-likelihood; missing values are summed out.

    Parameters
    ----------
    circuit
        A circuit or network, or the path of one.
    rows
        A table with columns of the circuit's variables.
    names
        Names of the columns of an array or of a file without a header (default: the circuit's).
    header
        Whether the first row of a CSV file names its columns: "auto", "yes" or "no".
    time_limit
        Seconds after which the call ends.
    max_memory
        Limit in bytes; 70 % of the machine if absent.

    Returns
    -------
    CircuitScore
        The mean (`found["log_likelihood"]`), and the value of each row (`log_likelihoods`).

    Raises
    ------
    LapisError
        If the rows cannot be read or do not fit, or have missing values for a network.

    Examples
    --------
    >>> import lapis, numpy as np
    >>> coin = lapis.circuits.parse("(2)\\nv 0 0\\nv 0 1\\nn 1\\nn 3\\n* 0 2\\n* 1 3\\n+ 4 5\\nEOF")
    >>> round(lapis.circuits.score(coin, np.array([[0], [1]]))["log_likelihood"], 4)
    -0.837
    """
    check_options(CircuitScoreOptions(header=header, time_limit=time_limit, max_memory=max_memory))
    found = open_circuit(circuit)
    table = open_rows(rows, "rows", names, header)
    states = code_rows(table, found.names, found.states)
    if isinstance(found, Circuit):
        values = log_probabilities(found, states)
    elif (states >= 0).all():
        values = found.log_likelihoods(states)
    else:
        raise LapisError(
            f"{table.source} has missing values; a network scores complete rows only",
            code="missing-values",
            hint="compile the network, and score by the circuit",
        )
    return CircuitScore({"log_likelihood": mean(values), "examples": len(values)}, values)


@front_door
def info(
    circuit: CircuitLike,
    *,
    max_edges: int = 1_000_000,
    time_limit: float | None = None,
    max_memory: int | None = None,
) -> Figures:
    """Measure a circuit or network: sizes, guarantees, log Z and entropy.

    For a network, also leaves, parents, treewidth and edges after compilation. The `.npz` file of a
    learned circuit contains its network.

    Parameters
    ----------
    circuit
        A circuit or network, or the path of one.
    max_edges
        Upper limit of the edges of the compiled circuit (networks).
    time_limit
        Seconds after which the call ends.
    max_memory
        Limit in bytes; 70 % of the machine if absent.

    Returns
    -------
    Figures
        The figures by name.

    Raises
    ------
    LapisError
        If the file contains no circuit.

    Examples
    --------
    >>> import lapis
    >>> coin = lapis.circuits.parse("(2)\\nv 0 0\\nv 0 1\\nn 1\\nn 3\\n* 0 2\\n* 1 3\\n+ 4 5\\nEOF")
    >>> found = lapis.circuits.info(coin)
    >>> found["edges"], found["deterministic"], round(found["entropy"], 4)
    (6, True, 0.5623)
    """
    check_options(
        CircuitInfoOptions(max_edges=max_edges, time_limit=time_limit, max_memory=max_memory)
    )
    found = open_circuit(circuit)
    if isinstance(found, TreeNetwork):
        return Figures(
            {"variables": len(found.names), "parameters": found.num_parameters}
            | measure_network(found, max_edges)
        )
    network = stored_network(circuit, found)
    figures: dict[str, float | int | str | None] = {
        **sizes(found),
        **found.properties._asdict(),
        "log_partition": log_partition(found),
        "entropy": entropy(found) if all(found.properties) else None,
    }
    return Figures(figures | ({} if network is None else measure_network(network, max_edges)))


def query_circuit(
    circuit: Circuit,
    event: np.ndarray,
    evidence: np.ndarray,
    variables: Sequence[str],
    with_most_likely: bool,
) -> CircuitAnswer:
    """Compute P(event | evidence), or P(evidence) without an event, and marginals.

    `event` and `evidence` are rows of states, -1 for missing.
    """
    log_evidence = log_probabilities(circuit, evidence)
    require_possible_evidence(log_evidence)
    has_event = (event >= 0).any()
    value = log_conditionals(circuit, event, evidence) if has_event else log_evidence
    found = CircuitAnswer(
        float(value[0]),
        distributions(circuit, posteriors(circuit, evidence)[1][0], variables) if variables else {},
    )
    if not with_most_likely:
        return found
    rows, joint = most_likely_rows(circuit, evidence)
    world = {
        name: states[state]
        for name, states, state in zip(circuit.names, circuit.states, rows[0].tolist(), strict=True)
    }
    return replace(found, most_likely=world, most_likely_log=float(joint[0] - log_evidence[0]))


def query_network(
    network: TreeNetwork,
    event: np.ndarray,
    evidence: np.ndarray,
    variables: Sequence[str],
    options: TreeChainOptions,
) -> CircuitAnswer:
    """Estimate P(event | evidence) and the marginals of variables."""
    value = stderr = None
    worst = 1.0
    chance: dict[str, dict[str, float]] = {}
    error: dict[str, dict[str, float]] = {}
    if (event >= 0).any():
        found = estimate_conditionals(network, event[None], evidence[None], options)
        value, stderr = float(found.log_probability[0]), float(found.stderr[0])
        worst = float(found.rhat[0])
    if variables:
        found = estimate_marginals(network, evidence, options)
        variable_of = np.repeat(np.arange(len(network.names)), [*map(len, network.states)])
        is_known = evidence[variable_of] >= 0
        state_of = np.arange(len(variable_of)) - state_starts(network.states)[variable_of]
        share = np.where(is_known, state_of == evidence[variable_of], np.exp(found.log_probability))
        chance = distributions(network, share, variables)
        error = distributions(network, np.where(is_known, 0.0, found.stderr), variables)
        is_queried = np.isin(variable_of, [network.names.index(name) for name in variables])
        worst = max(worst, float(found.rhat[is_queried & ~is_known].max(initial=1.0)))
    return CircuitAnswer(
        value, chance, exact=False, stderr=stderr, distribution_stderr=error, rhat=worst,
        num_sweeps=options.num_chains * options.num_sweeps,
    )  # fmt: skip


def distributions(
    over: Circuit | TreeNetwork | FactorGraph, share: np.ndarray, variables: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Return the values of the states of variables by name; `share` is float64[num_states]."""
    first, number = state_starts(over.states), {name: v for v, name in enumerate(over.names)}
    found = {}
    for name in variables:
        v = number[name]
        own = share[first[v] : first[v + 1]].tolist()
        found[name] = dict(zip(over.states[v], own, strict=True))
    return found


def measure_network(network: TreeNetwork, max_edges: int) -> dict[str, float | int | str | None]:
    """Return leaves, parents, treewidth and edges after compilation (Lowd 2010, table 5.4)."""
    parents = [len(own) for own in network.parents()]
    try:
        compiled = compile_network(network, max_edges)
        edges, method = compiled.circuit.num_edges, compiled.method
    except TooLarge:
        edges, method = None, None
    return {
        "leaves": network.num_leaves,
        "parents_mean": sum(parents) / len(parents),
        "parents_max": max(parents),
        "treewidth_min_fill_bound": network.treewidth(),
        "compiled_edges": edges,
        "compiled_edges_limit": max_edges,
        "compiled_by": method,
    }
