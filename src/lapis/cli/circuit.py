"""`lapis circuit …`: learn circuits from rows, query them, compile and approximate models."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lapis.cli.options import read_worlds, takes
from lapis.errors import LapisError

if TYPE_CHECKING:
    from lapis.circuits.results import CircuitFigures, ModelMarginals
    from lapis.problem.task import DataLike
    from lapis.progress import Report
    from lapis.results.result import Result


@takes("circuit learn", "learning")
def learn(table: Path, output: Path | None, network: Path | None, **options: Any) -> Result:
    """Learn a circuit from rows of discrete values, paying for its edges."""
    from dataclasses import replace

    from lapis import circuits
    from lapis.circuits.files import check_output
    from lapis.circuits.results import no_network, save_network
    from lapis.circuits.tree_networks.text import SUFFIX
    from lapis.data.whole_path import require_writable

    wants_network = output is not None and output.suffix == SUFFIX
    wants_circuit = output is not None and not wants_network
    if wants_circuit:
        check_output(output)
    for path in (output, network):
        require_writable(path)
    is_single = (options["num_components"] or 1) * options["num_starts"] == 1
    if (network or wants_network) and not (is_single and options["method"] != "tree"):
        raise no_network()
    compiling = {"max_edges": options["max_edges"], "random_state": options["random_state"]}
    if wants_circuit and not any(options["edge_costs"]):
        options["max_edges"] = None  # the limit is that of the network, compiled
    found = circuits.learn(table, **options)
    if wants_circuit and found.circuit is None and found.network is not None:
        limits = {name: value for name, value in compiling.items() if value is not None}
        circuit = circuits.compile(found.network, **limits).circuit
        assert circuit is not None
        sizes = {"edges": circuit.num_edges, "parameters": circuit.num_parameters}
        found = replace(found, circuit=circuit, values={**found.values, **sizes})
    if network is not None:
        save_network(found.network, network)
    if output is not None:
        found.save(output)
    return found


@takes("circuit score")
def score(circuit: Path, table: Path, per_example: Path | None, **options: Any) -> Result:
    """The mean log-likelihood of rows; variables that a row leaves out are summed out."""
    from lapis import circuits
    from lapis.data.whole_path import write_whole

    found = circuits.score(circuit, table, **options)
    if per_example is not None:
        values = found.log_likelihoods.tolist()
        write_whole(per_example, "".join(f"{value!r}\n" for value in values))
    return found


@takes("circuit query")
def query(
    circuit: Path,
    query: Sequence[str],
    evidence: Sequence[str],
    rows: Path | None,
    given: Path | None,
    most_likely: bool,
    header: Any,
    **options: Any,
) -> Result:
    """Conditional probabilities: exactly of a circuit, by Gibbs sampling of a network."""
    from lapis import circuits

    if rows is None:
        if given is not None:
            raise LapisError("--given is the evidence for --rows", code="option-value")
        return circuits.query(circuit, query, evidence=evidence, most_likely=most_likely, **options)
    if query or evidence or most_likely:
        raise LapisError("a query stands in --query or in --rows, not in both", code="option-value")
    return circuits.query_rows(circuit, rows, evidence_rows=given, header=header, **options)


@takes("circuit sample")
def sample(circuit: Path, output: Path | None, as_json: bool, **options: Any) -> None:
    """Independent samples, given evidence; of a network with evidence by Gibbs sampling."""
    from lapis import circuits
    from lapis.cli.render import print_json, show_notes

    found = circuits.sample(circuit, **options)
    show_notes(found.remarks())
    if as_json:
        print_json(found.document())
    elif output is None:
        sys.stdout.write(found.to_csv())
    if output is not None:
        found.save(output)


@takes("circuit info")
def info(circuit: Path, output: Path | None, max_edges: int, plot: Path | None) -> Result:
    """Size and guarantees of a circuit or network; other forms and a picture of it."""
    from lapis import circuits
    from lapis.circuits.circuit import Circuit
    from lapis.circuits.files import save_circuit
    from lapis.circuits.inputs import stored_network
    from lapis.circuits.results import save_network
    from lapis.circuits.tree_networks.text import SUFFIX

    model = circuits.read(circuit)
    if plot is not None:
        if not isinstance(model, Circuit):
            raise LapisError("only circuits are drawn", code="option-value")
        circuits.draw(model).save(plot)
    if output is not None and output.suffix == SUFFIX:
        save_network(stored_network(circuit, model), output)
    elif output is not None and isinstance(model, Circuit):
        save_circuit(model, output, stored_network(circuit, model))
    elif output is not None:
        raise LapisError(
            f"{output}: networks are written as {SUFFIX}", code="circuit-file",
            hint=f"`lapis circuit compile {circuit} -o {output}` makes a circuit",
        )  # fmt: skip
    return circuits.info(circuit, max_edges=max_edges)


@takes("circuit compile", "compiling")
def compile_(
    model: Path, data: Sequence[Path] | None, merge: bool, output: Path | None, **options: Any
) -> CircuitFigures:
    """A circuit that computes a model exactly: all its marginals in one sweep."""
    from lapis import circuits
    from lapis.circuits.files import check_output

    check_output(output)
    options["open_predicates"] = options.pop("opened")
    found = circuits.compile(model, open_data(model, data, merge), **options)
    if output is not None:
        found.save(output)
    return found


@takes("circuit marginals")
def marginals(
    model: Path, data: Sequence[Path] | None, merge: bool, **options: Any
) -> ModelMarginals:
    """All marginals of a model exactly, in numbers: also where a circuit would be too large."""
    from lapis import circuits

    options["open_predicates"] = options.pop("opened")
    return circuits.marginals(model, open_data(model, data, merge), **options)


@takes("circuit approximate", "approximating")
def approximate(
    model: Path,
    data: Sequence[Path] | None,
    merge: bool,
    output: Path | None,
    progress: Report | None,
    **options: Any,
) -> CircuitFigures:
    """The circuit within a budget of edges that is closest to a model, given evidence."""
    from lapis import circuits
    from lapis.circuits.files import check_output

    check_output(output)
    options["open_predicates"] = options.pop("opened")
    found = circuits.approximate(model, open_data(model, data, merge), progress=progress, **options)
    if output is not None:
        found.save(output)
    return found


def open_data(model: Path, data: Sequence[Path] | None, merge: bool) -> DataLike:
    """Facts are read, one world or several; the evidence files of a network stay paths."""
    from lapis.circuits.factors.files import is_factor_file

    if is_factor_file(model):
        return list(data or ()) or None
    return read_worlds(data, merge) or None


CIRCUIT = (learn, score, query, sample, info, compile_, marginals, approximate)
