"""Inputs of the functions of `lapis.circuits`: circuits, networks and models by value or path.

States of variables are given by name, or as on the command line: `smoke=yes,cancer`. The names of
variables may be atoms, and contain commas and equality signs (`Friends(Anna,Bob)=true`). So a text
is matched against all known names and states, the longest first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lapis.circuits.circuit import Circuit
from lapis.circuits.circuit_files import load_circuit, load_stored_network
from lapis.circuits.factor_files import is_factor_file, read_evidence, read_factor_file
from lapis.circuits.factor_graph import FactorGraph
from lapis.circuits.tree_networks.compile_network import tables_of
from lapis.circuits.tree_networks.tbn_files import SUFFIX, load_tree_network
from lapis.circuits.tree_networks.tree_network import TreeNetwork
from lapis.errors import LapisError, check_word

if TYPE_CHECKING:
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


Named = tuple[str, str | None]  # a variable, and a state if one is given
StatesLike = Mapping[str, str | int | bool] | Sequence[str] | str


def read_states(
    names: Sequence[str], states: Sequence[Sequence[str]], given: StatesLike
) -> list[Named]:
    """Parse the variables and states that texts or a dictionary name, in order.

    >>> read_states(["F(A,B)", "rain"], [["no", "yes"]] * 2, ["rain, F(A, B) = yes"])
    [('rain', None), ('F(A,B)', 'yes')]
    >>> read_states(["coin", "rain"], [["0", "1"], ["no", "yes"]], {"coin": 1, "rain": "no"})
    [('coin', '1'), ('rain', 'no')]
    """
    if isinstance(given, Mapping):
        return [name_state(names, states, name, state) for name, state in given.items()]
    texts = [given] if isinstance(given, str) else given
    known: dict[str, Named] = {strip_spaces(name): (name, None) for name in names}
    for name, own in zip(names, states, strict=True):
        known |= {strip_spaces(f"{name}={state}"): (name, state) for state in own}
    found: list[Named] = []
    for text in texts:
        parts = [part for part in strip_spaces(text).split(",") if part]
        while parts:
            ends = range(len(parts), 0, -1)
            end = next((end for end in ends if ",".join(parts[:end]) in known), None)
            if end is None:
                raise unknown_state(names, states, first_name(parts))
            found.append(known[",".join(parts[:end])])
            parts = parts[end:]
    return found


def name_state(
    names: Sequence[str], states: Sequence[Sequence[str]], name: str, state: str | int | bool
) -> Named:
    """Check a state of a variable; numbers and Booleans become names of states."""
    check_word("variable", name, names, code="unknown-variable")
    own = states[names.index(name)]
    text = str(state).lower() if isinstance(state, bool) and "true" in own else state
    text = str(int(text)) if isinstance(text, bool) else str(text)
    check_word(f"state of {name}", text, own, code="unknown-state")
    return name, text


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


def strip_spaces(text: str) -> str:
    """Remove spaces around commas and equality signs."""
    return re.sub(r"\s*([,=])\s*", r"\1", text.strip())


def first_name(parts: Sequence[str]) -> str:
    """Join parts up to the first comma outside of parentheses."""
    piece = ""
    for part in parts:
        piece = f"{piece},{part}" if piece else part
        if piece.count("(") <= piece.count(")"):
            break
    return piece


def unknown_state(names: Sequence[str], states: Sequence[Sequence[str]], text: str) -> LapisError:
    """Return the error of a text that is no variable and no state of one."""
    fitting = [name for name in names if text.startswith(f"{strip_spaces(name)}=")]
    name = max(fitting, key=len, default=text.partition("=")[0])
    try:
        check_word("variable", name, names, code="unknown-variable")
        state = text.removeprefix(f"{strip_spaces(name)}=")
        check_word(f"state of {name}", state, states[names.index(name)], code="unknown-state")
    except LapisError as error:
        return error
    return no_state(text)


def no_state(text: str) -> LapisError:
    """Return the error of a text without a state."""
    return LapisError(
        f"{text!r} is not a state of a variable", code="option-value", hint="as in smoke=yes"
    )
