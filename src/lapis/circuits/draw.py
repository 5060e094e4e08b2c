"""Small circuits as pictures: the root on top, every node below its parents, leaves below."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lapis.circuits.circuit import INDICATOR, PARAMETER, Circuit
from lapis.circuits.files import node_label
from lapis.errors import TooLarge
from lapis.results.plots import COLOUR, check_picture, new_figure, save_picture
from lapis.results.result import escape

MAX_NODES = 200
SWEEPS = 8  # of moving nodes to the middle of their neighbours


def draw_circuit(circuit: Circuit, path: str | Path) -> None:
    """Draw a circuit to a file of a kind that its ending says."""
    path = Path(path)
    check_picture(path)
    if circuit.num_nodes > MAX_NODES:
        raise TooLarge(
            f"{circuit.num_nodes:,} nodes are too many to draw",
            code="too-large",
            hint=f"pictures have at most {MAX_NODES}; write a .dot file, and let Graphviz try",
        )
    x, y = place_nodes(circuit)
    figure = new_figure((2 + 0.9 * (x.max() - x.min()), 1.5 + 1.1 * y.max()), shown=False)
    axes = figure.subplots()
    axes.axis("off")
    for node in range(circuit.num_nodes):
        for edge in range(circuit.start[node], circuit.start[node + 1]):
            below = circuit.child[edge]
            axes.plot([x[node], x[below]], [y[node], y[below]], color="0.7", lw=0.8, zorder=1)
    for node in range(circuit.num_nodes):
        is_leaf = circuit.kind[node] in (INDICATOR, PARAMETER)
        is_state = circuit.kind[node] == INDICATOR
        axes.text(
            x[node], y[node], escape(node_label(circuit, node), "plot"), ha="center", va="center",
            fontsize=9 if is_leaf else 12, color="black" if is_leaf else "white", zorder=2,
            bbox={
                "boxstyle": "round,pad=0.25" if is_leaf else "circle,pad=0.2",
                "fc": "#e8eef7" if is_state else "white" if is_leaf else COLOUR,
                "ec": COLOUR if is_leaf else "none",
            },
        )  # fmt: skip
    axes.set_xlim(x.min() - 0.7, x.max() + 0.7)
    axes.set_ylim(-0.5, y.max() + 0.5)
    save_picture(figure, path)


def place_nodes(circuit: Circuit) -> tuple[np.ndarray, np.ndarray]:
    """Places such that layers are even and edges short: barycentres, swept up and down."""
    height = np.zeros(circuit.num_nodes, int)
    parent = np.repeat(np.arange(circuit.num_nodes), np.diff(circuit.start))
    for node in range(circuit.num_nodes):
        below = circuit.child[circuit.start[node] : circuit.start[node + 1]]
        height[node] = height[below].max() + 1 if len(below) else 0
    x = np.zeros(circuit.num_nodes)
    layers = [np.flatnonzero(height == level) for level in range(height.max() + 1)]
    for layer in layers:
        x[layer] = np.arange(len(layer)) - (len(layer) - 1) / 2
    for sweep in range(SWEEPS):
        ends = (parent, circuit.child) if sweep % 2 else (circuit.child, parent)
        for layer in layers if sweep % 2 else reversed(layers):
            wish = x[layer].copy()
            for place, node in enumerate(layer.tolist()):
                near = ends[1][ends[0] == node]
                if len(near):
                    wish[place] = x[near].mean()
            order = layer[np.argsort(wish, kind="stable")]
            x[order] = np.arange(len(layer)) - (len(layer) - 1) / 2
    return x, height.astype(float)
