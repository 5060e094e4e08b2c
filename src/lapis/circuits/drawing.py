"""Small circuits as pictures: the root on top, every node below its parents."""

from __future__ import annotations

from pathlib import Path

from lapis.circuits.circuit import INDICATOR, PARAMETER, PRODUCT, SUM, Circuit
from lapis.circuits.files import load_circuit, node_label
from lapis.results.graph import GraphEdge, GraphNode, Picture

LOOKS = {  # fill, ink, whether it is round
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
        The picture: notebooks show it, `save` writes it as `.svg`, `.dot`, `.png` or `.pdf`. One
        of more than a few hundred nodes can only be written as `.dot`.

    Raises
    ------
    LapisError
        If the file holds no circuit.

    Examples
    --------
    >>> from lapis import circuits
    >>> coin = circuits.parse("(2)\\nv 0 0\\nv 0 1\\nn 1\\nn 3\\n* 0 2\\n* 1 3\\n+ 4 5\\nEOF")
    >>> [node.label for node in circuits.draw(coin).nodes]
    ['+', '×', '×', '3.00', '1', 'x0=1', 'x0=0']
    """
    return circuit_graph(circuit if isinstance(circuit, Circuit) else load_circuit(circuit))


def circuit_graph(circuit: Circuit) -> Picture:
    """The root first: + and ×, states as X=x, parameters as numbers."""
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
