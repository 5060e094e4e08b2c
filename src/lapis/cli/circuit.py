"""`lapis circuit …`: learn a circuit from rows, and ask it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lapis.circuits.typed_states import read_states, row_of_states
from lapis.cli.circuit_compile import sizes
from lapis.cli.options import takes
from lapis.errors import LapisError
from lapis.progress import Report, Stop, work_clock

if TYPE_CHECKING:
    import numpy as np

    from lapis.circuits.circuit import Circuit
    from lapis.results.result import Result


@takes("circuit learn", "learning")
def learn(
    table: Path,
    valid: Path | None,
    time_limit: float | None,
    output: Path | None,
    network: Path | None,
    header: Any,
    random_state: int,
    progress: Report | None,
    **options: Any,
) -> Result:
    """Learn a circuit from rows of discrete values, paying for its edges."""
    from lapis.circuits.files import check_output, save_circuit
    from lapis.circuits.learning.learner import learn_rows
    from lapis.circuits.results import LearnedFigures
    from lapis.circuits.table import read_table, rows_of, variables_of
    from lapis.data.whole_path import write_whole

    check_output(output)
    is_single = (options["num_components"] or 1) * options["num_starts"] == 1
    if network is not None and not (is_single and options["method"] != "tree"):
        raise LapisError(
            "a circuit with hidden variables is not equivalent to a Bayesian network of its own",
            code="option-value",
            hint="leave out --network, or --components, --starts and --method tree",
        )
    tables = [read_table(path, header) for path in (table, valid) if path is not None]
    names, states = variables_of(tables)
    train, *others = (rows_of(one, names, states) for one in tables)
    held_out = others[0] if others else None
    stop = Stop(deadline=work_clock() + time_limit) if time_limit else Stop()
    found = learn_rows(
        train, held_out, names, states, seed=random_state, progress=progress, stop=stop, **options
    )
    fit = found.fit
    if network is not None and fit.network is not None:
        write_whole(network, fit.network.format())
    if output is not None:
        save_circuit(fit.circuit, output)
    figures = {
        "edges": fit.circuit.num_edges,
        "parameters": fit.circuit.num_parameters,
        "splits": fit.num_splits,
        "train_log_likelihood": mean(fit.log_likelihoods(train)),
        "valid_log_likelihood": None if held_out is None else mean(fit.log_likelihoods(held_out)),
        "seconds": found.seconds,
        "converged": fit.converged,
        "edge_cost": found.edge_cost,
        "parameter_cost": found.parameter_cost,
    }
    return LearnedFigures(figures, found.trials)


@takes("circuit score")
def score(circuit: Path, table: Path, per_example: Path | None, header: Any) -> Result:
    """The mean log-likelihood of rows; variables that a row leaves out are summed out."""
    from lapis.circuits.files import load_circuit
    from lapis.circuits.queries import log_probabilities
    from lapis.circuits.table import read_table, rows_of
    from lapis.data.whole_path import write_whole
    from lapis.results.result import Figures

    found = load_circuit(circuit)
    rows = rows_of(read_table(table, header), found.names, found.states)
    values = log_probabilities(found, rows)
    if per_example is not None:
        write_whole(per_example, "".join(f"{value!r}\n" for value in values.tolist()))
    return Figures({"log_likelihood": mean(values), "examples": len(values)})


@takes("circuit query")
def query(
    circuit: Path,
    query: Sequence[str],
    evidence: Sequence[str],
    rows: Path | None,
    given: Path | None,
    most_likely: bool,
    header: Any,
) -> Result:
    """Conditional probabilities, exactly: one query, or a file of them."""
    from lapis.circuits.files import load_circuit
    from lapis.circuits.results import ask, ask_rows
    from lapis.circuits.table import read_table, rows_of

    found = load_circuit(circuit)
    if rows is None:
        if given is not None:
            raise LapisError("--given is the evidence for --rows", code="option-value")
        row = given_row(found, evidence)
        named = read_states(found.names, found.states, query)
        asked = [name for name, state in named if state is None]
        states = [(name, state) for name, state in named if state is not None]
        event = row_of_states(found.names, found.states, states)
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
    return ask_rows(found, events, known)


@takes("circuit sample")
def sample(
    circuit: Path,
    num_samples: int,
    evidence: Sequence[str],
    output: Path | None,
    random_state: int,
    as_json: bool,
) -> None:
    """Independent samples, given evidence."""
    import csv
    import sys

    from lapis.circuits.files import load_circuit
    from lapis.circuits.queries import draw_samples
    from lapis.cli.render import print_json
    from lapis.data.whole_path import whole_path

    found = load_circuit(circuit)
    row = given_row(found, evidence)
    worlds = draw_samples(found, num_samples, random_state, row)
    columns = [
        [states[code] for code in worlds[:, v].tolist()] for v, states in enumerate(found.states)
    ]
    rows = zip(*columns, strict=True)
    if as_json:
        print_json({"samples": (dict(zip(found.names, row, strict=True)) for row in rows)})
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


@takes("circuit info")
def info(circuit: Path, output: Path | None, plot: Path | None) -> Result:
    """Size and guarantees of a circuit; other forms and a picture of it."""
    from lapis.circuits.files import load_circuit, save_circuit
    from lapis.circuits.queries import entropy, log_partition
    from lapis.results.result import Figures

    found = load_circuit(circuit)
    if output is not None:
        save_circuit(found, output)
    if plot is not None:
        from lapis.circuits.draw import draw_circuit

        draw_circuit(found, plot)
    figures: dict[str, float | int | str | None] = {
        **sizes(found),
        **found.properties._asdict(),
        "log_partition": log_partition(found),
        "entropy": entropy(found) if all(found.properties) else None,
    }
    return Figures(figures)


def given_row(circuit: Circuit, evidence: Sequence[str]) -> np.ndarray:
    given = read_states(circuit.names, circuit.states, evidence)
    return row_of_states(circuit.names, circuit.states, given)


def mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


CIRCUIT = (learn, score, query, sample, info)
