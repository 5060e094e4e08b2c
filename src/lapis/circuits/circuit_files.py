"""Circuits in files: `.npz` (complete), `.ac` (Libra's text) and `.dot` (Graphviz); and pictures.

A line of an `.ac` file is a node, numbered by its line: `v VARIABLE STATE`, `n NUMBER`, `+ NODES`
or `* NODES`. The first line has the sizes of the variables, the last is EOF. The format has no
names. Numbers are written so that reading them gives the same number.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from decimal import (
    MAX_EMAX,
    MIN_EMIN,
    Context,
    Decimal,
    DecimalException,
    localcontext,
)
from pathlib import Path

import numpy as np

from lapis.circuits.circuit import (
    INDICATOR,
    PARAMETER,
    PRODUCT,
    SUM,
    Circuit,
    Properties,
    new_circuit,
    state_starts,
)
from lapis.circuits.tree_networks.tree_network import TreeNetwork
from lapis.data.archives import DAMAGED, read_arrays, write_arrays
from lapis.data.atomic_write import require_writable, save_path, write_whole
from lapis.errors import LapisError, Source, Span
from lapis.results.graph import GraphEdge, GraphNode, Picture
from lapis.runtime.text_files import read_error, read_source

FORMAT = 1
DOUBLE_DIGITS = 17  # of a double in decimal, at most
MOST_EXP = 700.0  # largest logarithm whose exponential is a double
MAX_STATES = 10**6  # of all variables that a text declares
MAX_DIGITS = 1000  # of a number
WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
WIDE = Context(Emax=MAX_EMAX, Emin=MIN_EMIN)
ARRAYS = ("kind", "leaf", "start", "child", "log_parameter")
NETWORK_ARRAYS = ("variable", "split_on", "first_child", "first_parameter", "log_parameter")


def save_circuit(circuit: Circuit, path: str | Path, network: TreeNetwork | None = None) -> None:
    """Write a circuit to a file, atomically.

    Parameters
    ----------
    circuit
        The circuit.
    path
        `.npz` (complete), `.ac` (Libra's text) or `.dot` (Graphviz).
    network
        The equivalent network, which an `.npz` file also contains.

    Raises
    ------
    LapisError
        If the suffix is unknown, or the file cannot be written.
    """
    path = Path(path)
    check_output(path)
    if path.suffix == ".ac":
        write_whole(path, format_ac(circuit))
    elif path.suffix == ".dot":
        write_whole(path, circuit_graph(circuit).dot())
    else:
        head = {
            "format": FORMAT, "names": circuit.names, "states": circuit.states,
            "properties": circuit.properties._asdict(),
        }  # fmt: skip
        arrays = {name: getattr(circuit, name) for name in ARRAYS}
        if network is not None:
            arrays |= {f"network_{name}": getattr(network, name) for name in NETWORK_ARRAYS}
        content = {"head": np.array(json.dumps(head)), **arrays}
        save_path(path, lambda place: write_arrays(place, content, compressed=True))


def check_output(path: Path | None) -> None:
    """Refuse a path to which a circuit cannot be written, before it is computed."""
    if path is None:
        return
    if path.suffix not in (".npz", ".ac", ".dot"):
        raise LapisError(f"{path}: circuits are written as .npz, .ac or .dot", code="circuit-file")
    require_writable(path)


def load_circuit(path: str | Path) -> Circuit:
    """Read a circuit from an `.npz` or `.ac` file."""
    path = Path(path)
    if path.suffix == ".ac":
        return parse_ac(read_source(path).text, str(path))
    try:
        return build_circuit(read_arrays(path))
    except OSError as error:
        raise read_error(path, error) from None
    except (RecursionError, AttributeError, *DAMAGED):
        raise LapisError(
            f"{path}: this is not a circuit, or a damaged one", code="circuit-file",
            hint="circuits are .npz files, as `lapis circuit learn -o` writes them, or .ac files",
        ) from None  # fmt: skip


def build_circuit(stored: Mapping[str, np.ndarray]) -> Circuit:
    """Build the circuit in an archive; raise ValueError and the like if it has none."""
    head = json.loads(str(stored["head"]))
    arrays = {name: stored[name] for name in ARRAYS}
    check_types(arrays)
    names, states = map(str, head["names"]), [list(map(str, own)) for own in head["states"]]
    known = {name: bool(head["properties"][name]) for name in Properties._fields}
    found = new_circuit(tuple(names), states, properties=Properties(**known), **arrays)
    check_names(found)
    check_arrays(found)
    return found


def check_types(arrays: Mapping[str, np.ndarray]) -> None:
    """Raise ValueError unless arrays are rows of integers, parameters logarithms."""
    for name, array in arrays.items():
        if array.ndim != 1 or array.dtype.kind not in ("f" if name == "log_parameter" else "iu"):
            raise ValueError(name)
    if not (arrays["log_parameter"] < np.inf).all():  # NaN or infinite
        raise ValueError("log_parameter")


def check_names(circuit: Circuit) -> None:
    """Raise ValueError unless variables have different names, and different states."""
    if not 0 < len(set(circuit.names)) == len(circuit.names) == len(circuit.states):
        raise ValueError("names")
    if any(not own or len(set(own)) < len(own) for own in circuit.states):
        raise ValueError("states")


def load_stored_network(path: str | Path, circuit: Circuit) -> TreeNetwork | None:
    """Read the network in the file of a circuit; None if there is none."""
    path = Path(path)
    if path.suffix == ".ac":
        return None
    try:
        stored = read_arrays(path)
        if "network_variable" not in stored:
            return None
        arrays = [stored[f"network_{name}"] for name in NETWORK_ARRAYS]
        network = TreeNetwork(circuit.names, circuit.states, *arrays)
        check_network(network)
    except (OSError, *DAMAGED):
        raise LapisError(
            f"{path}: the network in this file is damaged", code="circuit-file"
        ) from None
    return network


def check_network(network: TreeNetwork) -> None:
    """Raise ValueError if arrays are no network: kernels would read out of bounds."""
    num_variables, num_nodes = len(network.names), len(network.variable)
    check_types({name: getattr(network, name) for name in NETWORK_ARRAYS})
    of_nodes = (network.split_on, network.first_child, network.first_parameter)
    if num_nodes < num_variables or any(len(array) != num_nodes for array in of_nodes):
        raise ValueError("nodes")
    variables = np.concatenate((network.variable, np.maximum(network.split_on, 0)))
    if not ((variables >= 0) & (variables < num_variables)).all():
        raise ValueError("variable")
    if not (network.variable[:num_variables] == np.arange(num_variables)).all():
        raise ValueError
    sizes = np.array([len(states) for states in network.states])
    own = sizes[network.variable]
    is_leaf = network.split_on < 0
    first = network.first_parameter[is_leaf]
    if (first < 0).any() or (first + own[is_leaf] > len(network.log_parameter)).any():
        raise ValueError
    for node in np.flatnonzero(~is_leaf).tolist():
        begin = int(network.first_child[node])
        end = begin + int(sizes[network.split_on[node]])
        if not node < begin < end <= num_nodes:
            raise ValueError
        if (network.variable[begin:end] != network.variable[node]).any():
            raise ValueError


def check_arrays(circuit: Circuit) -> None:
    """Raise ValueError if arrays are no circuit: kernels would read out of bounds."""
    kind, leaf, start, child = circuit.kind, circuit.leaf, circuit.start, circuit.child
    if not len(kind) == len(leaf) == len(start) - 1 > 0 or start[0] or start[-1] != len(child):
        raise ValueError
    num_children = np.diff(start)
    is_leaf = (kind == INDICATOR) | (kind == PARAMETER)
    if not (is_leaf | (kind == SUM) | (kind == PRODUCT)).all() or (num_children < 0).any():
        raise ValueError
    if num_children[is_leaf].any():
        raise ValueError
    if not ((child >= 0) & (child < np.repeat(np.arange(len(kind)), num_children))).all():
        raise ValueError
    for own, size in ((INDICATOR, circuit.num_states), (PARAMETER, circuit.num_parameters)):
        if not ((leaf >= 0) & (leaf < size))[kind == own].all():
            raise ValueError


def format_ac(circuit: Circuit) -> str:
    """Format a circuit as Libra's text."""
    lines = [f"({' '.join(str(len(states)) for states in circuit.states)})"]
    variable, first = circuit.variable_of_state, circuit.state_start
    for node in range(circuit.num_nodes):
        kind, leaf = circuit.kind[node], circuit.leaf[node]
        if kind == INDICATOR:
            lines.append(f"v {variable[leaf]} {leaf - first[variable[leaf]]}")
        elif kind == PARAMETER:
            lines.append(f"n {format_exp(float(circuit.log_parameter[leaf]))}")
        elif circuit.start[node] == circuit.start[node + 1]:  # without children: a constant
            lines.append(f"n {float(kind == PRODUCT)}")
        else:
            children = circuit.child[circuit.start[node] : circuit.start[node + 1]]
            lines.append(" ".join(["+" if kind == SUM else "*", *map(str, children)]))
    return "\n".join([*lines, "EOF", ""])


def parse_ac(text: str, name: str = "<ac>") -> Circuit:
    """Parse a circuit from Libra's text.

    Parameters
    ----------
    text
        Lines of nodes, children above their parents.
    name
        Name of the text in messages.

    Returns
    -------
    Circuit
        The circuit; its variables are x0, x1, …

    Raises
    ------
    LapisError
        If a line is no node, or the last line is missing.

    Examples
    --------
    >>> parse_ac("(2)\\nv 0 0\\nv 0 1\\nn 0.3\\nn 0.7\\n* 0 2\\n* 1 3\\n+ 4 5\\nEOF").num_edges
    6
    """
    source = Source(name, text)
    lines, mark = text.split("\n"), ""
    sizes = parse_sizes(source, lines[0])
    states = number_states(sizes)
    first = state_starts(states)
    kind: list[int] = []
    leaf: list[int] = []
    start, child = [0], list[int]()
    numbers: list[float] = []
    for position, line in enumerate(lines[1:], 1):
        mark, *words = line.split() or [""]
        if mark == "EOF":
            break
        try:
            if mark == "v":
                variable, state = map(parse_whole, words)
                if not (0 <= variable < len(sizes) and 0 <= state < sizes[variable]):
                    raise ValueError
                kind.append(INDICATOR)
                leaf.append(int(first[variable]) + state)
            elif mark == "n":
                kind.append(PARAMETER)
                leaf.append(len(numbers))
                (word,) = words
                numbers.append(parse_log(word))
            else:
                children = [parse_whole(word) for word in words]
                if not children or not all(0 <= c < len(kind) for c in children):
                    raise ValueError
                kind.append({"+": SUM, "*": PRODUCT}[mark])
                leaf.append(-1)
                child += children
        except (ValueError, IndexError, KeyError):
            begin = source.line_starts[position]
            raise LapisError(
                "this is not a node of a circuit", code="circuit-file",
                span=Span(source, begin, begin + max(len(line), 1)),
                hint="as in `v 0 1`, `n 0.5`, `+ 3 4`; children stand above their parents",
            ) from None  # fmt: skip
        start.append(len(child))
    if mark != "EOF" or not kind:
        raise LapisError(
            "the last line, EOF, is missing" if kind else "a circuit needs at least one node",
            code="circuit-file", span=Span(source, len(text), len(text)),
            hint="is the file complete?",
        )  # fmt: skip
    names = [f"x{variable}" for variable in range(len(sizes))]
    arrays = {"kind": kind, "leaf": leaf, "start": start, "child": child, "log_parameter": numbers}
    found = {name: np.array(arrays[name]) for name in ARRAYS}
    return new_circuit(names, states, properties=None, **found)


def parse_sizes(source: Source, line: str) -> list[int]:
    """Parse the first line of Libra's text: the numbers of states of the variables."""
    span = Span(source, 0, max(1, len(line)))
    found = re.fullmatch(r"\s*\(([\s0-9]*)\)\s*", line, re.ASCII)
    words = found[1].split() if found else []
    if found is None or any(not word.strip("0") for word in words):
        raise LapisError(
            "the first line must have the numbers of states of the variables",
            code="circuit-file", span=span, hint="as in (2 2 3)",
        )  # fmt: skip
    if max(map(len, words), default=0) > len(str(MAX_STATES)) or sum(map(int, words)) > MAX_STATES:
        raise LapisError(
            f"more than {MAX_STATES:,} states are not supported", code="circuit-file", span=span
        )
    return [int(word) for word in words]


def number_states(sizes: Sequence[int]) -> list[tuple[str, ...]]:
    """Return the states 0, 1, … of variables of these sizes."""
    known = {size: tuple(map(str, range(size))) for size in set(sizes)}
    return [known[size] for size in sizes]


def parse_whole(word: str) -> int:
    """Parse an integer of at most 18 digits; ValueError for other words."""
    if WHOLE.fullmatch(word) is None:
        raise ValueError(word)
    return int(word)


def format_exp(log_value: float) -> str:
    """Format the exponential of a number so that `parse_log` returns the number.

    >>> format_exp(-0.5), parse_log(format_exp(1000.7)), parse_log(format_exp(-1e-20))
    ('0.6065306597126334', 1000.7, -1e-20)
    """
    if log_value == -math.inf:
        return "0.0"
    if abs(log_value) < MOST_EXP:
        value = math.exp(log_value)
        for short in (f"{value:.15g}", f"{value:.16g}", repr(value)):
            if parse_log(short) == log_value:
                return short
    small = -math.floor(math.log10(abs(log_value))) if log_value else 0
    return str(decimal_exp(log_value, 20 + max(0, small)))


def decimal_exp(log_value: float, digits: int) -> Decimal:
    """Return the exponential of a number with this many digits."""
    with localcontext(WIDE) as context:
        context.prec = digits
        return Decimal(log_value).exp()


def parse_log(text: str) -> float:
    """Return the logarithm of a decimal number of any size; ValueError if it has none."""
    if len(text) > MAX_DIGITS or NUMBER.fullmatch(text) is None:
        raise ValueError(text)
    number = float(text)
    if not number >= 0.0:
        raise ValueError(text)
    digits = text.lower().partition("e")[0].replace(".", "").lstrip("+0")
    if 0.0 < number < math.inf and len(digits) <= DOUBLE_DIGITS:
        return math.log(number)
    with localcontext(WIDE) as context:
        context.prec = len(text) + 30
        try:
            found = float(Decimal(text).ln())
        except DecimalException:  # an exponent out of range
            raise ValueError(text) from None
    if found == math.inf:
        raise ValueError(text)
    return found


def node_label(circuit: Circuit, node: int) -> str:
    """Return a short label of a node."""
    kind, leaf = circuit.kind[node], int(circuit.leaf[node])
    if kind == PARAMETER:
        return f"{decimal_exp(float(circuit.log_parameter[leaf]), 6):.3g}"
    if kind == INDICATOR:
        variable = int(circuit.variable_of_state[leaf])
        state = circuit.states[variable][leaf - int(circuit.state_start[variable])]
        return f"{circuit.names[variable]}={state}"
    return "+" if kind == SUM else "×"


LOOKS = {  # fill, ink, whether the node is round
    SUM: ("#4c72b0", "#ffffff", True),
    PRODUCT: ("#7d93b5", "#ffffff", True),
    INDICATOR: ("#e8eef7", "#222222", False),
    PARAMETER: ("#ffffff", "#222222", False),
}


def draw(circuit: Circuit | str | Path) -> Picture:
    """Draw a circuit.

    Parameters
    ----------
    circuit
        A circuit or the path of one.

    Returns
    -------
    Picture
        The picture. Notebooks show it; `save` writes it as `.svg`, `.dot`, `.png` or `.pdf`, with
        more than a few hundred nodes only as `.dot`.

    Raises
    ------
    LapisError
        If the file contains no circuit.

    Examples
    --------
    >>> from lapis import circuits
    >>> coin = circuits.parse("(2)\\nv 0 0\\nv 0 1\\nn 1\\nn 3\\n* 0 2\\n* 1 3\\n+ 4 5\\nEOF")
    >>> [node.label for node in circuits.draw(coin).nodes]
    ['+', '×', '×', '3.00', '1', 'x0=1', 'x0=0']
    """
    return circuit_graph(circuit if isinstance(circuit, Circuit) else load_circuit(circuit))


def circuit_graph(circuit: Circuit) -> Picture:
    """Return the graph of a circuit, the root first."""
    last = circuit.num_nodes - 1
    nodes = [
        GraphNode(node_label(circuit, node), *LOOKS[int(circuit.kind[node])])
        for node in range(last, -1, -1)
    ]
    edges = [
        GraphEdge(last - node, last - int(child))
        for node in range(last, -1, -1)
        for child in circuit.child[circuit.start[node] : circuit.start[node + 1]]
    ]
    return Picture(tuple(nodes), tuple(edges))
