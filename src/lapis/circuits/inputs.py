"""Inputs of the functions of `lapis.circuits`: circuits, networks and models by value or path.

States of variables are given by name, or as on the command line: `smoke=yes,cancer`
(`problem.state_names`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lapis.circuits.circuit import Circuit
from lapis.circuits.circuit_files import load_circuit, load_stored_network
from lapis.circuits.factor_files import is_factor_file, read_evidence, read_factor_file
from lapis.circuits.factor_graph import FactorGraph, graph_of_tables
from lapis.circuits.row_table import code_rows, open_rows
from lapis.circuits.tree_networks.compile_network import tables_of
from lapis.circuits.tree_networks.tbn_files import SUFFIX, load_tree_network
from lapis.circuits.tree_networks.tree_network import TreeNetwork
from lapis.errors import LapisError
from lapis.language.names import format_state
from lapis.problem.state_names import EvidenceRows, Named, StatesLike, no_state, read_states

if TYPE_CHECKING:
    from lapis.language.model import Model
    from lapis.problem.task import DataLike, ModelLike


CircuitLike = Circuit | TreeNetwork | str | Path


def read(path: str | Path) -> Circuit | TreeNetwork:
    """Read a circuit, or a network with decision trees.

    Parameters
    ----------
    path
        Path of a circuit (`.npz`, `.ac`) or of a network (`.tbn`).

    Returns
    -------
    Circuit or TreeNetwork
        The suffix determines which.

    Raises
    ------
    LapisError
        If there is no such file, or it contains no circuit.
    """
    path = Path(path)
    return load_tree_network(path) if path.suffix == SUFFIX else load_circuit(path)


def open_circuit(circuit: CircuitLike) -> Circuit | TreeNetwork:
    """Read a circuit or network if it is given by its path."""
    return read(circuit) if isinstance(circuit, str | Path) else circuit


def stored_network(circuit: CircuitLike, found: Circuit | TreeNetwork) -> TreeNetwork | None:
    """Return the network itself, or the network in the file of a circuit."""
    if isinstance(found, TreeNetwork):
        return found
    return load_stored_network(circuit, found) if isinstance(circuit, str | Path) else None


def known_row(over: Circuit | TreeNetwork, evidence: StatesLike) -> np.ndarray:
    """int32[num_variables], the states of the evidence, -1 for other variables."""
    return row_of_states(over.names, over.states, read_states(over.names, over.states, evidence))


def open_trees(
    model: ModelLike | TreeNetwork | FactorGraph,
    data: DataLike,
    query: Sequence[str] | str,
    open_predicates: Sequence[str],
) -> TreeNetwork | None:
    """Open a network with decision trees; None for another kind of model."""
    if isinstance(model, TreeNetwork):
        network = model
    elif isinstance(model, str | Path) and Path(model).suffix == SUFFIX:
        network = load_tree_network(model)
    else:
        return None
    if (data is not None and data != []) or query or open_predicates:
        raise LapisError(
            f"{name_model(model)}: a network with decision trees takes evidence, but no data and "
            "no queries",
            code="option-value",
        )
    return network


def open_factors(
    model: ModelLike | TreeNetwork | FactorGraph,
    data: DataLike,
    query: Sequence[str] | str,
    open_predicates: Sequence[str],
    evidence: StatesLike,
    strict: bool,
) -> tuple[FactorGraph, np.ndarray, set[str]]:
    """Return the tables of a model, a row of evidence, and the names of the user's variables.

    The facts of a ground Markov logic network are in its tables.
    """
    graph: FactorGraph | None = None
    if isinstance(model, FactorGraph | TreeNetwork):
        graph = tables_of(model) if isinstance(model, TreeNetwork) else model
    elif isinstance(model, str | Path) and is_factor_file(Path(model)):
        graph = read_factor_file(model)
    if graph is not None:
        if query or open_predicates:
            raise LapisError(
                f"{name_model(model)}: a network has no predicates to query or open",
                code="option-value",
            )
        return graph, observed_row(graph, data, evidence), set(graph.names)
    assert not isinstance(model, FactorGraph | TreeNetwork)
    if evidence:
        raise LapisError(
            f"{name_model(model)}: evidence is for networks",
            code="option-value",
            hint="pass the facts of a Markov logic model as data",
        )
    from lapis.circuits.ground_factors import world_factors
    from lapis.problem.task import build_task

    task = build_task(model, data, query, open_predicates=open_predicates, strict=strict)
    if len(task.worlds) > 1:
        raise LapisError(
            "a circuit is compiled from one world",
            code="several-worlds",
            hint="merge the data files",
        )
    graph, shown = world_factors(task.worlds[0])
    return graph, row_of_states(graph.names, graph.states, ()), set(shown)


def name_model(model: object) -> str:
    """Return the path or the kind of a model, for messages."""
    return str(model) if isinstance(model, str | Path) else type(model).__name__


def observed_row(graph: FactorGraph, data: DataLike, evidence: StatesLike) -> np.ndarray:
    """int32[num_variables], states of .evid files and of the evidence, -1 for others."""
    from lapis.problem.task import list_worlds

    observed: dict[int, int] = {}
    for path in list_worlds(data):
        if not isinstance(path, str | Path):
            raise LapisError("a network takes .evid files for data", code="option-value")
        for variable, state in read_evidence(path, graph).items():
            if observed.setdefault(variable, state) != state:
                name = graph.names[variable]
                raise LapisError(
                    f"{path}: {name} has another state in an earlier file", code="data-table"
                )
    given = read_states(graph.names, graph.states, evidence)
    return row_of_states(graph.names, graph.states, given, observed)


def row_of_states(
    names: Sequence[str],
    states: Sequence[Sequence[str]],
    given: Sequence[Named],
    known: Mapping[int, int] | None = None,
) -> np.ndarray:
    """int32[num_variables], the states given and those known, -1 for others."""
    row = np.full(len(names), -1, np.int32)
    for variable, code in (known or {}).items():
        row[variable] = code
    number = {name: variable for variable, name in enumerate(names)}
    for name, state in given:
        if state is None:
            raise no_state(name)
        variable = number[name]
        code = states[variable].index(state)
        if row[variable] not in (-1, code):
            raise LapisError(
                f"{name} is given two states, {states[variable][row[variable]]} and {state}",
                code="option-value",
            )
        row[variable] = code
    return row


def read_evidence_rows(network: Model, rows: EvidenceRows) -> np.ndarray:
    """Return int32[num_rows, num_variables], states of a network, −1 where unobserved."""
    names = list(network.predicates)
    states = [network.types[name] for name in names]
    if isinstance(rows, Sequence):
        known = [row_of_states(names, states, read_states(names, states, row)) for row in rows]
        return np.array(known, np.int32).reshape(len(rows), len(names))
    return code_rows(open_rows(rows, "evidence"), names, states)


def read_observed(network: Model, paths: Sequence[str | Path]) -> list[str]:
    """Read the observed states of a network from .evid files, whose variables are numbers."""
    names = list(network.predicates)
    states = [network.types[name] for name in names]
    graph = graph_of_tables(names, states, [])
    row = observed_row(graph, list(paths), ())
    return [format_state(names[v], [states[v][row[v]]]) for v in np.flatnonzero(row >= 0).tolist()]
