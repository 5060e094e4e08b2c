"""`lapis circuit …`: learn a circuit from rows, and ask it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lapis.circuits.typed_states import read_states, row_of_states
from lapis.cli.circuit_compile import sizes
from lapis.cli.command import CIRCUIT, ROWS, command
from lapis.errors import LapisError, TooLarge
from lapis.progress import Report, Stop, work_clock
from lapis.registry.circuit_options import (
    CircuitInfoOptions,
    CircuitLearnOptions,
    CircuitQueryOptions,
    CircuitSampleOptions,
    CircuitScoreOptions,
)

if TYPE_CHECKING:
    import numpy as np

    from lapis.circuits.circuit import Circuit
    from lapis.circuits.tree_networks.tree_network import TreeNetwork
    from lapis.results.result import Result


@command("circuit learn", CircuitLearnOptions, ROWS, bar="learning")
def learn(table: Path, options: CircuitLearnOptions, progress: Report | None) -> Result:
    """Learn a circuit from rows of discrete values, paying for its edges."""
    from lapis.circuits.compilation.compile import MAX_EDGES
    from lapis.circuits.files import check_output, save_circuit
    from lapis.circuits.learning.learner import learn_rows
    from lapis.circuits.results import LearnedFigures
    from lapis.circuits.table import read_table, rows_of, variables_of
    from lapis.circuits.tree_networks.compiling import compile_network
    from lapis.circuits.tree_networks.text import SUFFIX, format_network
    from lapis.data.whole_path import require_writable, write_whole

    output, network, seed = options.output, options.network, options.seed
    wants_circuit = output is not None and output.suffix != SUFFIX
    if wants_circuit:
        check_output(output)
    require_writable(output)
    is_single = (options.num_components or 1) * options.num_starts == 1
    wants_network = network is not None or (output is not None and output.suffix == SUFFIX)
    if wants_network and not (is_single and options.method != "tree"):
        raise LapisError(
            "a circuit with hidden variables is not equivalent to a Bayesian network of its own",
            code="option-value",
            hint="leave out --network, or --num-components, --num-starts and --method tree",
        )
    if options.max_edges is not None and not any(options.edge_costs) and not wants_circuit:
        raise LapisError(
            "--max-edges limits a circuit, and with --edge-costs 0 none is kept",
            code="option-value",
            hint="leave it out, or write a circuit with -o c.npz",
        )
    tables = [
        read_table(path, options.header) for path in (table, options.valid) if path is not None
    ]
    names, states = variables_of(tables)
    train, *others = (rows_of(one, names, states) for one in tables)
    held_out = others[0] if others else None
    limit = options.time_limit
    stop = Stop(deadline=work_clock() + limit) if limit else Stop()
    found = learn_rows(
        train,
        held_out,
        names,
        states,
        seed=seed,
        progress=progress,
        stop=stop,
        edge_costs=options.edge_costs,
        parameter_costs=options.parameter_costs,
        prior=options.prior,
        method=options.method,
        num_components=options.num_components,
        num_starts=options.num_starts,
        max_edges=options.max_edges,
    )
    fit = found.fit
    if wants_circuit and fit.circuit is None and fit.network is not None:
        most = options.max_edges or MAX_EDGES
        fit = replace(fit, circuit=compile_network(fit.network, most, seed).circuit)
    if network is not None and fit.network is not None:
        write_whole(network, format_network(fit.network))
    if output is not None and fit.circuit is not None and wants_circuit:
        save_circuit(fit.circuit, output, fit.network)
    elif output is not None and fit.network is not None:
        write_whole(output, format_network(fit.network))
    model = fit.network if fit.circuit is None else fit.circuit
    figures = {
        "edges": fit.num_edges,
        "parameters": None if model is None else model.num_parameters,
        "leaves": None if fit.network is None else fit.network.num_leaves,
        "splits": fit.num_splits,
        "train_log_likelihood": mean(fit.log_likelihoods(train)),
        "valid_log_likelihood": None if held_out is None else mean(fit.log_likelihoods(held_out)),
        "seconds": found.seconds,
        "converged": fit.converged,
        "edge_cost": found.edge_cost,
        "parameter_cost": found.parameter_cost,
    }
    return LearnedFigures(figures, found.trials)


@command("circuit score", CircuitScoreOptions, CIRCUIT, ROWS)
def score(circuit: Path, table: Path, options: CircuitScoreOptions) -> Result:
    """The mean log-likelihood of rows; variables that a row leaves out are summed out."""
    from lapis.circuits.queries import log_probabilities
    from lapis.circuits.table import read_table, rows_of
    from lapis.circuits.tree_networks.tree_network import TreeNetwork
    from lapis.data.whole_path import write_whole
    from lapis.results.result import Figures

    found = load_model(circuit)
    rows = rows_of(read_table(table, options.header), found.names, found.states)
    if not isinstance(found, TreeNetwork):
        values = log_probabilities(found, rows)
    elif (rows >= 0).all():
        values = found.log_likelihoods(rows)
    else:
        raise LapisError(
            f"{table} has missing values, and a network scores complete rows",
            code="missing-values",
            hint=f"`lapis circuit compile {circuit} -o c.npz`, and score the circuit",
        )
    if options.per_example is not None:
        write_whole(options.per_example, "".join(f"{value!r}\n" for value in values.tolist()))
    return Figures({"log_likelihood": mean(values), "examples": len(values)})


@command("circuit query", CircuitQueryOptions, CIRCUIT)
def query(circuit: Path, options: CircuitQueryOptions) -> Result:
    """Conditional probabilities: exactly of a circuit, by Gibbs sampling of a network."""
    from lapis.circuits.results import ask, ask_network, ask_network_rows, ask_rows
    from lapis.circuits.table import read_table, rows_of
    from lapis.circuits.tree_networks.tree_network import TreeNetwork

    found = load_model(circuit)
    query, evidence, header = list(options.query), list(options.evidence), options.header
    rows, given, most_likely = options.rows, options.evidence_rows, options.most_likely
    sampling = (options.num_chains, options.burn_in, options.num_sweeps, options.seed)
    if most_likely and isinstance(found, TreeNetwork):
        raise LapisError(
            "the most likely states cannot be found by Gibbs sampling",
            code="option-value",
            hint=f"`lapis circuit compile {circuit} -o c.npz`, and query the circuit",
        )
    if rows is None:
        if given is not None:
            raise LapisError("--evidence-rows is the evidence for --rows", code="option-value")
        row = given_row(found, evidence)
        named = read_states(found.names, found.states, query)
        asked = [name for name, state in named if state is None]
        states = [(name, state) for name, state in named if state is not None]
        event = row_of_states(found.names, found.states, states)
        if isinstance(found, TreeNetwork):
            return ask_network(found, event, row, asked, *sampling)
        return ask(found, event, row, asked, most_likely)
    if query or evidence or most_likely:
        raise LapisError("a query stands in --query or in --rows, not in both", code="option-value")
    events = rows_of(read_table(rows, header), found.names, found.states)
    known = 0 * events - 1
    if given is not None:
        known = rows_of(read_table(given, header), found.names, found.states)
        if len(known) != len(events):
            raise LapisError(
                f"{rows} has {len(events)} rows, {given} has {len(known)}", code="data-table"
            )
    if isinstance(found, TreeNetwork):
        return ask_network_rows(found, events, known, *sampling)
    return ask_rows(found, events, known)


@command("circuit sample", CircuitSampleOptions, CIRCUIT)
def sample(circuit: Path, options: CircuitSampleOptions) -> None:
    """Independent samples, given evidence; of a network with evidence by Gibbs sampling."""
    import csv
    import sys

    from lapis.circuits.queries import draw_samples
    from lapis.circuits.tree_networks.gibbs import draw_given
    from lapis.circuits.tree_networks.tree_network import TreeNetwork
    from lapis.cli.render import print_json
    from lapis.data.whole_path import whole_path

    found = load_model(circuit)
    num_samples, burn_in, output = options.num_samples, options.burn_in, options.output
    row = given_row(found, list(options.evidence))
    is_exact = True
    if not isinstance(found, TreeNetwork):
        worlds = draw_samples(found, num_samples, options.seed, row)
    elif (row < 0).all():
        worlds = found.draw_samples(num_samples, options.seed)
    else:
        is_exact = False
        worlds = draw_given(found, num_samples, row, burn_in, options.seed)
        print(
            f"not exact: each sample is the end of a Gibbs chain of {burn_in:,} sweeps",
            file=sys.stderr,
        )
    columns = [
        [states[code] for code in worlds[:, v].tolist()] for v, states in enumerate(found.states)
    ]
    rows = zip(*columns, strict=True)
    if options.as_json:
        samples = (dict(zip(found.names, row, strict=True)) for row in rows)
        print_json({"exact": is_exact, "samples": samples})
    elif output is None:
        csv.writer(sys.stdout, lineterminator="\n").writerows([found.names, *rows])
    if output is not None:
        with (
            whole_path(output) as temporary,
            temporary.open("w", encoding="utf-8", newline="") as stream,
        ):
            csv.writer(stream, lineterminator="\n").writerows(
                [found.names, *zip(*columns, strict=True)]
            )


@command("circuit info", CircuitInfoOptions, CIRCUIT)
def info(circuit: Path, options: CircuitInfoOptions) -> Result:
    """Size and guarantees of a circuit or network; other forms and a picture of it."""
    from lapis.circuits.files import load_stored_network, save_circuit
    from lapis.circuits.queries import entropy, log_partition
    from lapis.circuits.tree_networks.text import SUFFIX, format_network
    from lapis.circuits.tree_networks.tree_network import TreeNetwork
    from lapis.data.whole_path import write_whole
    from lapis.results.result import Figures

    found, output, plot = load_model(circuit), options.output, options.plot
    figures: dict[str, float | int | str | None] = {}
    if isinstance(found, TreeNetwork):
        network: TreeNetwork | None = found
        if plot is not None:
            raise LapisError("only circuits are drawn", code="option-value")
        figures |= {"variables": len(found.names), "parameters": found.num_parameters}
    else:
        network = load_stored_network(circuit, found)
        figures |= {
            **sizes(found),
            **found.properties._asdict(),
            "log_partition": log_partition(found),
            "entropy": entropy(found) if all(found.properties) else None,
        }
    if network is not None:
        figures |= measure(network, options.max_edges)
    if output is not None and output.suffix == SUFFIX and network is not None:
        write_whole(output, format_network(network))
    elif output is not None and isinstance(found, TreeNetwork):
        raise LapisError(
            f"{output}: networks are written as {SUFFIX}", code="circuit-file",
            hint=f"`lapis circuit compile {circuit} -o {output}` makes a circuit",
        )  # fmt: skip
    elif output is not None and not isinstance(found, TreeNetwork):
        save_circuit(found, output, network)
    if plot is not None and not isinstance(found, TreeNetwork):
        from lapis.circuits.draw import draw_circuit

        draw_circuit(found, plot)
    return Figures(figures)


def measure(network: TreeNetwork, max_edges: int) -> dict[str, float | int | str | None]:
    """The rows of table 5.4 of the thesis: leaves, parents, treewidth, edges after compiling."""
    from lapis.circuits.tree_networks.compiling import compile_network

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


def load_model(path: Path) -> Circuit | TreeNetwork:
    """A circuit, or a network with decision trees; the ending tells which."""
    from lapis.circuits.tree_networks.text import SUFFIX, load_network

    if path.suffix == SUFFIX:
        return load_network(path)
    from lapis.circuits.files import load_circuit

    return load_circuit(path)


def given_row(circuit: Circuit | TreeNetwork, evidence: Sequence[str]) -> np.ndarray:
    given = read_states(circuit.names, circuit.states, evidence)
    return row_of_states(circuit.names, circuit.states, given)


def mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None
