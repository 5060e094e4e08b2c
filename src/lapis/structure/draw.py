"""A picture of the lifted hypergraph: clusters by type, an edge where they are related."""

from __future__ import annotations

from collections import defaultdict
from math import cos, pi, sin
from pathlib import Path

import numpy as np

from lapis.data.whole_path import write_whole
from lapis.results.result import escape
from lapis.structure.explain import constant_names
from lapis.structure.lift_graph import LiftedGraph
from lapis.structure.training_data import TrainingData

SIZE = 900
MAX_CLUSTERS = 60
COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#9d755d", "#eeca3b")


def draw_graph(data: TrainingData, graph: LiftedGraph, path: Path) -> None:
    """An SVG of the largest clusters, on a circle, those of a type side by side."""
    order = sorted(graph.members, key=lambda node: (-len(graph.members[node]), node))
    shown = sorted(order[:MAX_CLUSTERS], key=lambda node: (graph.members[node][0][0], node))
    types = {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(data.offset)}
    middle, radius = SIZE / 2, SIZE * 0.36
    place = {
        node: (
            middle + radius * cos(2 * pi * at / len(shown)),
            middle + radius * sin(2 * pi * at / len(shown)),
        )
        for at, node in enumerate(shown)
    }
    links: dict[tuple[int, int], dict[str, int]] = defaultdict(dict)
    for edge, true in graph.edges.items():
        for left, right in zip(edge.nodes, edge.nodes[1:], strict=False):
            if left in place and right in place:
                links[left, right][edge.predicate] = true
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE} {SIZE}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{SIZE}" height="{SIZE}" fill="white"/>',
    ]
    for (left, right), names in links.items():
        (x1, y1), (x2, y2) = place[left], place[right]
        title = ", ".join(f"{name} ({true})" for name, true in names.items())
        width = min(6.0, 1 + sum(names.values()) ** 0.5 / 4)
        parts.append(
            f'<path d="M{x1:.1f} {y1:.1f} Q{middle} {middle} {x2:.1f} {y2:.1f}" fill="none" '
            f'stroke="#888" stroke-opacity="0.4" stroke-width="{width:.1f}">'
            f"<title>{escape(title, 'html')}</title></path>"
        )
    for node in shown:
        x, y = place[node]
        members = graph.members[node]
        kind = members[0][0]
        first = members[:3]
        names_of = constant_names(data, [t for t, _ in first], np.array([c for _, c in first]))
        more = f" +{len(members) - 3}" if len(members) > 3 else ""
        side = "start" if x > middle else "end"
        shift = 14 if x > middle else -14
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{4 + len(members) ** 0.5:.1f}" '
            f'fill="{types[kind]}"/><text x="{x + shift:.1f}" y="{y + 4:.1f}" '
            f'text-anchor="{side}">{escape(", ".join(names_of) + more, "html")}</text>'
        )
    for at, (name, colour) in enumerate(types.items()):
        parts.append(
            f'<circle cx="16" cy="{18 + 18 * at}" r="6" fill="{colour}"/>'
            f'<text x="28" y="{22 + 18 * at}">{escape(name, "html")}</text>'
        )
    write_whole(path, "\n".join([*parts, "</svg>", ""]))
