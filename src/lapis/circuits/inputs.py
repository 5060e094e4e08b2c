"""What the functions of `lapis.circuits` take: circuits, networks and models by value or path."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lapis.circuits.circuit import Circuit
from lapis.circuits.factors.factor_graph import FactorGraph
from lapis.circuits.factors.files import is_factor_file, read_evidence, read_factors
from lapis.circuits.files import load_circuit, load_stored_network
from lapis.circuits.tree_networks.compiling import tables_of
from lapis.circuits.tree_networks.text import SUFFIX, load_network
from lapis.circuits.tree_networks.tree_network import TreeNetwork
from lapis.circuits.typed_states import StatesLike, read_states, row_of_states
from lapis.errors import LapisError

if TYPE_CHECKING:
    from lapis.problem.task import DataLike, ModelLike

CircuitLike = Circuit | TreeNetwork | str | Path


def read(path: str | Path) -> Circuit | TreeNetwork:
    """Read a circuit, or a network with decision trees.

    Parameters
    ----------
    path
        Of a circuit (`.npz`, `.ac`) or of a network (`.tbn`).

    Returns
    -------
    Circuit or TreeNetwork
        As the ending says.

    Raises
    ------
    LapisError
        If there is no such file, or it holds no circuit.
    """
    path = Path(path)
    return load_network(path) if path.suffix == SUFFIX else load_circuit(path)


def open_circuit(circuit: CircuitLike) -> Circuit | TreeNetwork:
    return read(circuit) if isinstance(circuit, str | Path) else circuit


def stored_network(circuit: CircuitLike, found: Circuit | TreeNetwork) -> TreeNetwork | None:
    """The network of a network, or the one that a circuit's file keeps."""
    if isinstance(found, TreeNetwork):
        return found
    return load_stored_network(circuit, found) if isinstance(circuit, str | Path) else None


def known_row(over: Circuit | TreeNetwork, evidence: StatesLike) -> np.ndarray:
    """int32[num_variables], the states of the evidence, -1 for the rest."""
    return row_of_states(over.names, over.states, read_states(over.names, over.states, evidence))


def open_trees(
    model: ModelLike | TreeNetwork | FactorGraph,
    data: DataLike,
    query: Sequence[str] | str,
    open_predicates: Sequence[str],
) -> TreeNetwork | None:
    """A network with decision trees, whose families may be too large for tables; else None."""
    if isinstance(model, TreeNetwork):
        network = model
    elif isinstance(model, str | Path) and Path(model).suffix == SUFFIX:
        network = load_network(model)
    else:
        return None
    if (data is not None and data != []) or query or open_predicates:
        raise LapisError(
            f"{name_model(model)}: a network with decision trees takes evidence, no data and no "
            "queries",
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
    """The tables of a network or of a ground Markov logic network, and a row of evidence.

    The facts of a ground network are in its tables. Last come the variables that are the user's.
    """
    graph: FactorGraph | None = None
    if isinstance(model, FactorGraph | TreeNetwork):
        graph = tables_of(model) if isinstance(model, TreeNetwork) else model
    elif isinstance(model, str | Path) and is_factor_file(Path(model)):
        graph = read_factors(model)
    if graph is not None:
        if query or open_predicates:
            raise LapisError(
                f"{name_model(model)}: a network has no predicates to ask for or to open",
                code="option-value",
            )
        return graph, observed_row(graph, data, evidence), set(graph.names)
    assert not isinstance(model, FactorGraph | TreeNetwork)
    if evidence:
        raise LapisError(
            f"{name_model(model)}: evidence is for networks",
            code="option-value",
            hint="give a Markov logic model facts, as data",
        )
    from lapis.circuits.factors.ground import world_factors
    from lapis.problem.task import build_task

    task = build_task(model, data, query, open_predicates=open_predicates, strict=strict)
    if len(task.worlds) > 1:
        raise LapisError(
            "one circuit is one world", code="several-worlds", hint="merge the data files"
        )
    graph, shown = world_factors(task.worlds[0])
    return graph, row_of_states(graph.names, graph.states, ()), set(shown)


def name_model(model: object) -> str:
    """A model in messages: its path, or its kind."""
    return str(model) if isinstance(model, str | Path) else type(model).__name__


def observed_row(graph: FactorGraph, data: DataLike, evidence: StatesLike) -> np.ndarray:
    """int32[num_variables], states of .evid files and of the evidence, -1 for the rest."""
    from lapis.problem.task import list_worlds

    observed: dict[int, int] = {}
    for path in list_worlds(data):
        if not isinstance(path, str | Path):
            raise LapisError("a network takes .evid files for data", code="option-value")
        for variable, state in read_evidence(path, graph).items():
            if observed.setdefault(variable, state) != state:
                name = graph.names[variable]
                raise LapisError(f"{path}: {name} has another state before", code="data-table")
    given = read_states(graph.names, graph.states, evidence)
    return row_of_states(graph.names, graph.states, given, observed)
