"""Asking circuits: `query`, `query_rows`, `marginals`, `sample`, `score`, `info`.

A circuit is a `Circuit`, a `TreeNetwork`, or the path of one. Circuits answer exactly, networks by
Gibbs sampling. States of variables are given by name: `{"rain": "yes"}`, or "rain=yes" as on the
command line.

All marginals of a product of tables, without a circuit.

A circuit keeps a node for every entry of elimination's tables, some forty bytes, because it is
asked again and again. Who asks once needs the numbers only: the junction trees of exact inference,
eight bytes an entry, up and down once. Networks whose circuits would fill a machine (link, munin1)
are answered in seconds. States that are impossible are left out beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lapis.circuits.circuit import Circuit, state_starts
from lapis.circuits.compilation.compile import MARGINAL_ENTRIES, no_possible_state
from lapis.circuits.compilation.elimination import find_elimination_order
from lapis.circuits.compilation.partition import too_wide
from lapis.circuits.construction import mean, sizes, stop_within
from lapis.circuits.evaluation import (
    draw_samples,
    entropy,
    log_conditionals,
    log_partition,
    log_probabilities,
    posteriors,
    require_possible,
)
from lapis.circuits.evaluation import most_likely as most_likely_rows
from lapis.circuits.factor_graph import FactorGraph, entry_cubes, make_consistent
from lapis.circuits.files import load_circuit
from lapis.circuits.inputs import (
    CircuitLike,
    StatesLike,
    known_row,
    open_circuit,
    open_factors,
    read_states,
    row_of_states,
    stored_network,
)
from lapis.circuits.results import (
    CircuitAnswer,
    CircuitScore,
    ModelMarginals,
    RowAnswers,
    Samples,
)
from lapis.circuits.table import RowsLike, code_rows, open_rows
from lapis.circuits.tree_networks.compile_network import compile_network
from lapis.circuits.tree_networks.tree_gibbs import (
    estimate_conditionals,
    estimate_marginals,
    sample_given,
)
from lapis.circuits.tree_networks.tree_network import TreeNetwork
from lapis.errors import LapisError, TooLarge
from lapis.inference.exact.junction_tree import build_tree, collect_messages, distribute_beliefs
from lapis.registry.method_table import check_options, known_keywords, seed_of
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
from lapis.runtime.progress import Stop, StopCallback

if TYPE_CHECKING:
    import threading

    from lapis.problem.task import DataLike, ModelLike


@known_keywords
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
    stop: StopCallback | threading.Event | None = None,
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
    options = CircuitMarginalsOptions(
        query=query, open_predicates=open_predicates, time_limit=time_limit, strict=strict,
        random_state=seed_of(random_state),
    )  # fmt: skip
    check_options(options)
    if isinstance(model, str | Path) and Path(model).suffix in (".npz", ".ac"):
        model = load_circuit(model)
    if isinstance(model, Circuit):
        row = known_row(model, evidence)
        value, chance = posteriors(model, row)
        require_possible(value)
        names = [n for n, state in zip(model.names, row, strict=True) if state < 0]
        return ModelMarginals(float(value[0]), distributions(model, chance[0], names))
    graph, row, shown = open_factors(model, data, query, open_predicates, evidence, strict)
    limit = stop_within(stop, time_limit)
    found = find_marginals(graph.given(row), seed=options.seed, stop=limit)
    names = [n for n, state in zip(graph.names, row, strict=True) if state < 0 and n in shown]
    return ModelMarginals(found.log_partition, distributions(graph, found.state, names))


@known_keywords
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
    options = CircuitQueryOptions(
        most_likely=most_likely, num_chains=num_chains, burn_in=burn_in,
        num_sweeps=num_sweeps, random_state=seed_of(random_state),
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
    return query_network(
        found, event, row, variables, num_chains, burn_in, num_sweeps, options.seed
    )


@known_keywords
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
    options = CircuitQueryOptions(
        header=header, num_chains=num_chains, burn_in=burn_in, num_sweeps=num_sweeps,
        random_state=seed_of(random_state),
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
    estimated = estimate_conditionals(
        found, events, known, num_chains=num_chains, burn_in=burn_in, num_sweeps=num_sweeps,
        seed=options.seed,
    )  # fmt: skip
    return RowAnswers(estimated._asdict(), exact=False)


@known_keywords
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
    seed = seed_of(random_state)
    check_options(CircuitSampleOptions(num_samples=num_samples, burn_in=burn_in, random_state=seed))
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


@known_keywords
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
    check_options(CircuitScoreOptions(header=header))
    found = open_circuit(circuit)
    table = open_rows(rows, "rows", names, header)
    states = code_rows(table, found.names, found.states)
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


@known_keywords
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
    check_options(CircuitInfoOptions(max_edges=max_edges))
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
    """P(event | evidence) and the marginals of variables; rows of states, -1 for missing.

    Without an event: P(evidence).
    """
    log_evidence = log_probabilities(circuit, evidence)
    require_possible(log_evidence)
    is_asked = (event >= 0).any()
    value = log_conditionals(circuit, event, evidence) if is_asked else log_evidence
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
    num_chains: int,
    burn_in: int,
    num_sweeps: int,
    seed: int,
) -> CircuitAnswer:
    """Estimate P(event | evidence) and the marginals of variables."""
    value = stderr = None
    worst = 1.0
    chance: dict[str, dict[str, float]] = {}
    error: dict[str, dict[str, float]] = {}
    if (event >= 0).any():
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
        variable_of = np.repeat(np.arange(len(network.names)), [*map(len, network.states)])
        is_known = evidence[variable_of] >= 0
        state_of = np.arange(len(variable_of)) - state_starts(network.states)[variable_of]
        share = np.where(is_known, state_of == evidence[variable_of], np.exp(found.log_probability))
        chance = distributions(network, share, variables)
        error = distributions(network, np.where(is_known, 0.0, found.stderr), variables)
        asked = np.isin(variable_of, [network.names.index(name) for name in variables])
        worst = max(worst, float(found.rhat[asked & ~is_known].max(initial=1.0)))
    return CircuitAnswer(
        value, chance, exact=False, stderr=stderr, distribution_stderr=error, rhat=worst,
        num_sweeps=num_chains * num_sweeps,
    )  # fmt: skip


def distributions(
    over: Circuit | TreeNetwork | FactorGraph, share: np.ndarray, variables: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Figures of the states of variables, by name; `share` is float64[num_states]."""
    first, number = state_starts(over.states), {name: v for v, name in enumerate(over.names)}
    found = {}
    for name in variables:
        v = number[name]
        own = share[first[v] : first[v + 1]].tolist()
        found[name] = dict(zip(over.states[v], own, strict=True))
    return found


def measure_network(network: TreeNetwork, max_edges: int) -> dict[str, float | int | str | None]:
    """The rows of table 5.4 of the thesis: leaves, parents, treewidth, edges after compiling."""
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


class FoundMarginals(NamedTuple):
    log_partition: float
    state: np.ndarray  # float64[num_states], the probability of each state of each variable
    entries: float  # of all tables
    width: int  # variables in the largest of them, less one


def find_marginals(graph: FactorGraph, seed: int = 0, stop: Stop | None = None) -> FoundMarginals:
    """log Z and every P(x_v = s); TooLarge if the tables pass `MARGINAL_ENTRIES`."""
    consistent = make_consistent(graph)
    if consistent is None:
        raise no_possible_state()
    small = consistent.graph
    order = find_elimination_order(small, MARGINAL_ENTRIES, seed)
    if not order.is_complete:
        raise too_wide(order, 8.0 * order.entries)
    cubes, log_value = entry_cubes(small)
    tree = build_tree(cubes, order.variable)
    potentials = collect_messages(tree, cubes, log_value, stop=stop)
    roots = potentials.root_values(tree)[1]
    if (roots == -np.inf).any():
        raise no_possible_state()
    constants = small.log_value[small.table_start[:-1][np.diff(small.scope_start) == 0]]
    state = np.zeros(int(graph.size.sum()))
    found = distribute_beliefs(tree, cubes, potentials, overwrite=True, stop=stop)
    state[consistent.state] = np.clip(found.state, 0.0, 1.0)
    return FoundMarginals(float(roots.sum() + constants.sum()), state, order.entries, order.width)
