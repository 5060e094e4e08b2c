"""Draw graphs as DOT, as SVG, or with matplotlib.

The layout is layered (Sugiyama, Tagawa and Toda 1981, Methods for Visual Understanding of
Hierarchical System Structures). A node is one layer below its lowest parent, and an edge across
several layers bends at an invisible node in each. Sweeps up and down sort each layer by the mean
position of the neighbours. Then positions minimise Σ w (x − mean)² subject to minimal distances,
which is an isotonic regression.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from lapis.data.atomic_write import require_writable, write_whole
from lapis.errors import TooLarge
from lapis.results.plots import check_picture, new_figure, save_picture
from lapis.runtime.views import escape, escape_unprintable, text_width

CurvePoint = tuple[float, float]
NodeBox = tuple[float, float, float, float]  # x and y of the middle, width and height

FONT, LETTER = 12, 7.0  # pixels: size and width of a letter
LINE, PAD, GAP, MARGIN = 15.0, 9.0, 16.0, 16.0  # of a text, within a box, between, around all
LAYER = {"down": 50.0, "right": 60.0}  # between layers
SWEEPS = 24  # half of them also sort
STRAIGHT = 8.0  # weight of an invisible node, so that long edges are straight
ALONG = 0.6  # of the last curve of an edge, where labels of neighbours do not meet
GREY = "#9aa0a6"
MAX_NODES = 1000  # of a picture


class GraphNode(NamedTuple):
    label: str
    fill: str = "#ffffff"
    ink: str = "#222222"
    is_round: bool = False
    layer: int | None = None  # None: below its parents; set for all nodes or for none


class GraphEdge(NamedTuple):
    source: int  # the number of the node
    target: int
    label: str = ""
    colour: str = GREY
    width: float = 1.0
    title: str = ""  # tooltip


@dataclass(frozen=True, repr=False)
class Picture:
    """A graph to draw; without cycles unless its nodes have layers."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    direction: Literal["down", "right"] = "down"

    def __repr__(self) -> str:
        return f"<Picture: {len(self.nodes):,} nodes, {len(self.edges):,} edges>"

    def dot(self) -> str:
        """Return the graph in the DOT language of Graphviz.

        Examples
        --------
        >>> nodes = GraphNode("a"), GraphNode('"b"')
        >>> print(Picture(nodes, (GraphEdge(0, 1, "2"),)).dot(), end="")
        digraph {
          rankdir=TB; node [shape=box, style="rounded,filled"]; edge [arrowhead=none];
          n0 [label="a", fillcolor="#ffffff", fontcolor="#222222"];
          n1 [label="\\"b\\"", fillcolor="#ffffff", fontcolor="#222222"];
          n0 -> n1 [label="2", color="#9aa0a6", penwidth=1, tooltip=""];
        }
        """
        lines = [
            f"digraph {{\n  rankdir={'TB' if self.direction == 'down' else 'LR'}; "
            'node [shape=box, style="rounded,filled"]; edge [arrowhead=none];'
        ]
        for number, node in enumerate(self.nodes):
            shape = ", shape=circle" * node.is_round
            lines.append(
                f'  n{number} [label={quote_dot(node.label)}, fillcolor="{node.fill}", '
                f'fontcolor="{node.ink}"{shape}];'
            )
        for layer in sorted({node.layer for node in self.nodes if node.layer is not None}):
            same = (f"n{n}" for n, node in enumerate(self.nodes) if node.layer == layer)
            lines.append(f"  {{ rank=same; {'; '.join(same)} }}")
        lines += (
            f"  n{edge.source} -> n{edge.target} [label={quote_dot(edge.label)}, "
            f'color="{edge.colour}", penwidth={edge.width:.3g}, tooltip={quote_dot(edge.title)}];'
            for edge in self.edges
        )
        return "\n".join([*lines, "}", ""])

    def svg(self) -> str:
        """Return the graph as an SVG picture."""
        boxes, curves = place_graph(self)
        width, height = (f"{size:.0f}" for size in picture_size(boxes, curves))
        out = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif" '
            f'font-size="{FONT}" text-anchor="middle">',
            f'<rect width="{width}" height="{height}" fill="white"/>',
        ]
        for edge, curve in zip(self.edges, curves, strict=True):
            points = [f"{x:.1f} {y:.1f}" for x, y in curve]
            out.append(
                f'<path d="M{points[0]} C{" ".join(points[1:])}" fill="none" '
                f'stroke="{edge.colour}" stroke-width="{edge.width:.3g}">'
                f"<title>{escape(edge.title or edge.label, 'html')}</title></path>"
            )
        for edge, curve in zip(self.edges, curves, strict=True):
            if edge.label:
                x, y = along_curve(curve)
                wide = LETTER * text_width(edge.label)
                out.append(draw_box(x, y, wide, 14, "white", "none", 2))
                out.append(draw_text(x, y, edge.label, edge.colour))
        for node, (x, y, wide, high) in zip(self.nodes, boxes, strict=True):
            radius = high / 2 if node.is_round else 6
            out.append(draw_box(x, y, wide, high, node.fill, GREY, radius))
            out.append(draw_text(x, y, node.label, node.ink))
        return "\n".join([*out, "</svg>", ""])

    def graphml(self) -> str:
        """Return the graph in GraphML, with labels, which yEd, Gephi and NetworkX read.

        Examples
        --------
        >>> nodes = GraphNode("a"), GraphNode("b")
        >>> print(Picture(nodes, (GraphEdge(0, 1, "2"),)).graphml().splitlines()[5])
          <node id="n0"><data key="label">a</data></node>
        """
        lines = [
            '<?xml version="1.0" encoding="UTF-8"?>',
            '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">',
            '<key id="label" for="node" attr.name="label" attr.type="string"/>',
            '<key id="text" for="edge" attr.name="label" attr.type="string"/>',
            '<graph edgedefault="undirected">',
        ]
        lines += (
            f'  <node id="n{number}"><data key="label">{escape(node.label, "html")}</data></node>'
            for number, node in enumerate(self.nodes)
        )
        lines += (
            f'  <edge source="n{edge.source}" target="n{edge.target}">'
            f'<data key="text">{escape(edge.label, "html")}</data></edge>'
            for edge in self.edges
        )
        return "\n".join([*lines, "</graph>", "</graphml>", ""])

    def save(self, path: str | Path) -> None:
        """Write the graph.

        Parameters
        ----------
        path
            `.dot`, `.graphml` or `.svg`, or a format of matplotlib such as `.png` and `.pdf`.

        Raises
        ------
        LapisError
            If the suffix is unknown, the file cannot be written, or matplotlib is missing.
        """
        path = Path(path)
        check_drawing(path)
        if path.suffix == ".dot":
            write_whole(path, self.dot())
        elif path.suffix == ".graphml":
            write_whole(path, self.graphml())
        elif path.suffix == ".svg":
            write_whole(path, self.svg())
        else:
            draw_with_matplotlib(self, path)

    def _repr_svg_(self) -> str:
        return self.svg()


def check_drawing(path: Path) -> None:
    """Raise if a drawing cannot be written, before the work that it shows."""
    require_writable(path)
    if path.suffix not in (".dot", ".graphml", ".svg"):
        check_picture(path)


def draw_with_matplotlib(graph: Picture, path: Path) -> None:
    """Write the picture with matplotlib, as PNG, PDF or another of its formats."""
    from matplotlib.patches import FancyBboxPatch, PathPatch
    from matplotlib.path import Path as Outline

    boxes, curves = place_graph(graph)
    width, height = picture_size(boxes, curves)
    figure = new_figure((width / 72, height / 72), shown=False)
    axes = figure.subplots()
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    middle: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": FONT - 2}
    for edge, curve in zip(graph.edges, curves, strict=True):
        line = Outline(curve, [Outline.MOVETO, *[Outline.CURVE4] * (len(curve) - 1)])
        axes.add_patch(PathPatch(line, fill=False, ec=edge.colour, lw=edge.width))
        if edge.label:
            back = {"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none"}
            text = escape(edge.label, "plot")
            axes.text(*along_curve(curve), text, color=edge.colour, bbox=back, **middle)
    for node, (x, y, wide, high) in zip(graph.nodes, boxes, strict=True):
        style = f"round,pad=0,rounding_size={high / 2 if node.is_round else 6}"
        corner = x - wide / 2, y - high / 2
        axes.add_patch(FancyBboxPatch(corner, wide, high, style, fc=node.fill, ec=GREY))
        axes.text(x, y, escape(node.label, "plot"), color=node.ink, **middle)
    save_picture(figure, path)


def picture_size(boxes: Sequence[NodeBox], curves: Sequence[Sequence[CurvePoint]]) -> CurvePoint:
    """Return the width and height of the picture."""
    corners = [(x + wide / 2, y + high / 2) for x, y, wide, high in boxes]
    corners += [point for curve in curves for point in curve]
    width, height = (max((corner[i] for corner in corners), default=0.0) + MARGIN for i in (0, 1))
    return width, height


def quote_dot(text: str) -> str:
    return json.dumps(escape_unprintable(text), ensure_ascii=False)


def draw_box(
    x: float, y: float, wide: float, high: float, fill: str, line: str, radius: float
) -> str:
    return (
        f'<rect x="{x - wide / 2:.1f}" y="{y - high / 2:.1f}" width="{wide:.1f}" '
        f'height="{high:.1f}" rx="{radius:g}" fill="{fill}" stroke="{line}"/>'
    )


def draw_text(x: float, y: float, text: str, ink: str) -> str:
    lines = escape(text, "html").split("\n")
    top = y + FONT / 3 - LINE * (len(lines) - 1) / 2
    return "".join(
        f'<text x="{x:.1f}" y="{top + LINE * row:.1f}" fill="{ink}">{line}</text>'
        for row, line in enumerate(lines)
    )


def along_curve(points: Sequence[CurvePoint]) -> CurvePoint:
    """Return the position of the label of an edge."""
    t, s = ALONG, 1 - ALONG
    share = np.array([s**3, 3 * s * s * t, 3 * s * t * t, t**3])
    x, y = share @ np.array(points[-4:])
    return float(x), float(y)


def place_graph(graph: Picture) -> tuple[list[NodeBox], list[list[CurvePoint]]]:
    """Return the box of each node, and each edge as cubic Bézier curves."""
    if len(graph.nodes) > MAX_NODES:
        raise TooLarge(
            f"{len(graph.nodes):,} nodes are too many to draw",
            code="too-large",
            hint=f"pictures have at most {MAX_NODES:,}; write .dot and use Graphviz, or .graphml",
        )
    if not graph.nodes:
        return [], []
    down = graph.direction == "down"
    size = [box_size(node) for node in graph.nodes]
    layer = layers_of(graph)
    chains = [bend_edge(edge, layer) for edge in graph.edges]
    extent = np.array(size + [(0.0, 0.0)] * (len(layer) - len(size)))
    across, along = extent.T if down else extent.T[::-1]
    u = place_nodes(layer, chains, across, len(size))
    thick = [along[np.array(layer) == at].max() for at in range(max(layer) + 1)]
    begin = np.cumsum([MARGIN, *(size + LAYER[graph.direction] for size in thick)])
    v = begin[layer] + (np.array(thick)[layer] if down else along) / 2
    curves = []
    for chain in chains:
        points = [(float(u[n]), float(v[n])) for n in chain]
        for at, bend in zip(range(len(chain) - 2, 0, -1), chain[-2:0:-1], strict=True):
            first = float(begin[layer[bend]])  # straight across its layer
            points[at : at + 1] = [
                (points[at][0], first + far) for far in (0.0, thick[layer[bend]])
            ]
        out, into = along[chain[0]] / 2, along[chain[-1]] / 2
        curve = curve_through(points, out, into, layer[chain[0]] == layer[chain[-1]])
        curves.append(curve if down else [(y, x) for x, y in curve])
    places = zip(*((u, v) if down else (v, u)), size, strict=False)
    return [(float(x), float(y), *own) for x, y, own in places], curves


def box_size(node: GraphNode) -> CurvePoint:
    lines = escape_unprintable(node.label).split("\n")
    height = LINE * len(lines) + PAD
    return max(LETTER * max(map(text_width, lines)) + 2 * PAD, height), height


def layers_of(graph: Picture) -> list[int]:
    """Return the layer of each node: given, or below all parents."""
    if all(node.layer is not None for node in graph.nodes):
        used = sorted({node.layer or 0 for node in graph.nodes})
        return [used.index(node.layer or 0) for node in graph.nodes]
    parents: dict[int, list[int]] = {number: [] for number in range(len(graph.nodes))}
    for edge in graph.edges:
        parents[edge.target].append(edge.source)
    layer = [0] * len(graph.nodes)
    for number in TopologicalSorter(parents).static_order():
        layer[number] = max((layer[parent] + 1 for parent in parents[number]), default=0)
    return layer


def bend_edge(edge: GraphEdge, layer: list[int]) -> list[int]:
    """Return the nodes that an edge passes, downwards; invisible ones are added to `layer`."""
    first, last = sorted((edge.source, edge.target), key=lambda node: layer[node])
    between = range(layer[first] + 1, layer[last])
    bends = range(len(layer), len(layer) + len(between))
    layer += between
    return [first, *bends, last]


def place_nodes(
    layer: Sequence[int], chains: Sequence[Sequence[int]], across: np.ndarray, num_nodes: int
) -> np.ndarray:
    """Return float64[num_places], the centre of each node within its layer."""
    from scipy.optimize import isotonic_regression

    near: list[list[list[int]]] = [[[] for _ in layer] for _ in range(2)]  # above, below
    for chain in chains:
        for upper, lower in pairwise(chain):
            if layer[upper] < layer[lower]:
                near[0][lower].append(upper)
                near[1][upper].append(lower)
    weight = np.where(np.arange(len(layer)) < num_nodes, 1.0, STRAIGHT)
    rows = [np.flatnonzero(np.array(layer) == at) for at in range(max(layer) + 1)]
    u = np.zeros(len(layer))
    for row in rows:
        u[row] = np.arange(len(row)) * GAP
    for sweep in range(SWEEPS):
        for at in range(len(rows))[:: 1 - 2 * (sweep % 2)]:
            row = rows[at]
            sorts = sweep < SWEEPS // 2
            own = [near[sweep % 2][n] if sorts else near[0][n] + near[1][n] for n in row]
            want = np.array([u[m].mean() if m else u[n] for n, m in zip(row, own, strict=True)])
            if sorts:
                order = np.argsort(want, kind="stable")
                rows[at] = row = row[order]
                want = want[order]
            half = across[row] / 2
            offset = np.cumsum([0.0, *(half[:-1] + half[1:] + GAP)])
            u[row] = isotonic_regression(want - offset, weights=weight[row]).x + offset
    return u + MARGIN - (u - across / 2).min()


def curve_through(
    points: list[CurvePoint], out: float, into: float, within: bool
) -> list[CurvePoint]:
    """Return the curve of an edge, from below its first node to above its last.

    An edge within a layer is curved below it.
    """
    (a, b), (c, d) = points[0], points[-1]
    if within:
        shift = PAD * (a == c)
        far = max(b + out, d + into) + LAYER["down"] / 2
        return [(a - shift, b + out), (a - shift, far), (c + shift, far), (c + shift, d + into)]
    points = [(a, b + out), *points[1:-1], (c, d - into)]
    found = points[:1]
    for (a, b), (c, d) in pairwise(points):
        found += [(a, (b + d) / 2), (c, (b + d) / 2), (c, d)]
    return found
