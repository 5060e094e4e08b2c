"""`lapis circuit …`: learn circuits from rows, query them, compile and approximate models."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lapis.cli.command_line import (
    ANY_DATA,
    ANY_MODEL,
    CIRCUIT,
    ROWS,
    command,
    read_databases,
    shown_if_unsaved,
)
from lapis.errors import LapisError
from lapis.registry.option_field import keywords
from lapis.registry.options import (
    CircuitApproximateOptions,
    CircuitCompileOptions,
    CircuitInfoOptions,
    CircuitLearnOptions,
    CircuitMarginalsOptions,
    CircuitQueryOptions,
    CircuitSampleOptions,
    CircuitScoreOptions,
)

if TYPE_CHECKING:
    from lapis.problem.task import DataLike
    from lapis.results.result import Result
    from lapis.runtime.progress import Report


@command("circuit learn", CircuitLearnOptions, ROWS, bar="learning")
def learn(table: Path, options: CircuitLearnOptions, progress: Report | None) -> Result:
    """Learn a circuit from rows of discrete values, with a penalty on its edges."""
    from lapis import circuits
    from lapis.circuits.circuit_files import check_output
    from lapis.circuits.circuit_results import no_network, save_tree_network
    from lapis.circuits.tree_networks.tbn_files import SUFFIX

    output, network = options.output, options.network
    wants_network = output is not None and output.suffix == SUFFIX
    wants_circuit = output is not None and not wants_network
    if wants_circuit:
        check_output(output)
    is_single = (options.num_components or 1) * options.num_starts == 1
    if (network or wants_network) and not (is_single and options.method != "tree"):
        raise no_network()
    compiles = wants_circuit and not any(options.edge_costs)
    given = keywords(replace(options, max_edges=None) if compiles else options)
    found = circuits.learn(table, progress=progress, **given)
    if wants_circuit and found.circuit is None and found.network is not None:
        limit = {} if options.max_edges is None else {"max_edges": options.max_edges}
        found = found.compile(random_state=options.random_state, **limit)
    with shown_if_unsaved(found, options.as_json):
        if network is not None:
            save_tree_network(found.network, network)
        if output is not None:
            found.save(output)
    return found


@command("circuit score", CircuitScoreOptions, CIRCUIT, ROWS)
def score(circuit: Path, table: Path, options: CircuitScoreOptions) -> Result:
    """Compute the mean log-likelihood of rows; missing values are summed out."""
    from lapis import circuits
    from lapis.data.atomic_write import write_whole

    found = circuits.score(circuit, table, **keywords(options))
    if options.per_example is not None:
        values = found.log_likelihoods.tolist()
        with shown_if_unsaved(found, options.as_json):
            write_whole(options.per_example, "".join(f"{value!r}\n" for value in values))
    return found


@command("circuit query", CircuitQueryOptions, CIRCUIT)
def query(circuit: Path, options: CircuitQueryOptions) -> Result:
    """Query conditional probabilities: exact for a circuit, by Gibbs sampling for a network."""
    from lapis import circuits

    given = keywords(options)
    header = given.pop("header")
    if options.rows is None:
        if options.evidence_rows is not None:
            raise LapisError("--evidence-rows is the evidence for --rows", code="option-value")
        return circuits.query(circuit, **given)
    if any(given.pop(name) for name in ("query", "evidence", "most_likely")):
        raise LapisError("a query stands in --query or in --rows, not in both", code="option-value")
    evidence = options.evidence_rows
    return circuits.query_rows(
        circuit, options.rows, evidence_rows=evidence, header=header, **given
    )


@command("circuit sample", CircuitSampleOptions, CIRCUIT)
def sample(circuit: Path, options: CircuitSampleOptions) -> None:
    """Draw independent samples, given evidence; by Gibbs sampling for a network with evidence."""
    from lapis import circuits
    from lapis.cli.command_line import show_notes
    from lapis.cli.render import print_json

    found = circuits.sample(circuit, **keywords(options))
    show_notes(found.remarks())
    if options.as_json:
        print_json(found.document())
    elif options.output is None:
        sys.stdout.write(found.to_csv())
    if options.output is not None:
        try:
            found.save(options.output)
        except LapisError:
            sys.stdout.write(found.to_csv())
            raise


@command("circuit info", CircuitInfoOptions, CIRCUIT)
def info(circuit: Path, options: CircuitInfoOptions) -> Result:
    """Show size and structural properties of a circuit or network; convert or draw it."""
    from lapis import circuits
    from lapis.circuits.circuit import Circuit
    from lapis.circuits.circuit_results import save_tree_network
    from lapis.circuits.inputs import stored_network
    from lapis.circuits.tree_networks.tbn_files import SUFFIX

    model, output = circuits.read(circuit), options.output
    if options.plot is not None:
        if not isinstance(model, Circuit):
            raise LapisError("only circuits are drawn", code="option-value")
        circuits.draw(model).save(options.plot)
    if output is not None and output.suffix == SUFFIX:
        save_tree_network(stored_network(circuit, model), output)
    elif output is not None and isinstance(model, Circuit):
        circuits.save(model, output, stored_network(circuit, model))
    elif output is not None:
        raise LapisError(
            f"{output}: networks are written as {SUFFIX}", code="circuit-file",
            hint=f"`lapis circuit compile {circuit} -o {output}` makes a circuit",
        )  # fmt: skip
    return circuits.info(circuit, **keywords(options))


@command("circuit compile", CircuitCompileOptions, ANY_MODEL, ANY_DATA, bar="compiling")
def compile_(
    model: Path,
    data: Sequence[Path] | None,
    options: CircuitCompileOptions,
    progress: Report | None,
) -> Result:
    """Compile a model exactly to a circuit, which gives all marginals in one sweep."""
    from lapis import circuits
    from lapis.circuits.circuit_files import check_output

    check_output(options.output)
    worlds = open_data(model, data, options.merge)
    found = circuits.compile(model, worlds, progress=progress, **keywords(options))
    if options.output is not None:
        with shown_if_unsaved(found, options.as_json):
            found.save(options.output)
    return found


@command("circuit marginals", CircuitMarginalsOptions, ANY_MODEL, ANY_DATA)
def marginals(model: Path, data: Sequence[Path] | None, options: CircuitMarginalsOptions) -> Result:
    """Compute all marginals of a model exactly, without storing a circuit."""
    from lapis import circuits

    worlds = open_data(model, data, options.merge)
    return circuits.marginals(model, worlds, **keywords(options))


@command("circuit approximate", CircuitApproximateOptions, ANY_MODEL, ANY_DATA, bar="approximating")
def approximate(
    model: Path,
    data: Sequence[Path] | None,
    options: CircuitApproximateOptions,
    progress: Report | None,
) -> Result:
    """Find a circuit with a limited number of edges that is close to a model, given evidence."""
    from lapis import circuits
    from lapis.circuits.circuit_files import check_output

    check_output(options.output)
    worlds = open_data(model, data, options.merge)
    found = circuits.approximate(model, worlds, progress=progress, **keywords(options))
    if options.output is not None:
        with shown_if_unsaved(found, options.as_json):
            found.save(options.output)
    return found


def open_data(model: Path, data: Sequence[Path] | None, merge: bool) -> DataLike:
    """Read facts, as one world or several; the evidence files of a network stay paths."""
    from lapis.circuits.factor_files import is_factor_file

    if is_factor_file(model):
        return list(data or ()) or None
    return read_databases(data, merge)
