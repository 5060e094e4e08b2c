"""The lifted hypergraph as a picture: a column of clusters for each type, an edge where related."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from lapis.results.graph import GraphEdge, GraphNode, Picture
from lapis.structure.explain import constant_names
from lapis.structure.learners.lift_graph import LiftedGraph
from lapis.structure.training_data import TrainingData

MAX_CLUSTERS = 60
EDGE = "#bcc3cc"
FILLS = ("#dbe6f2", "#fde4cc", "#dcefd9", "#f9dcdc", "#dff0ee", "#efe2ec", "#ebe2dc", "#fbf3d3")


def cluster_graph(data: TrainingData, graph: LiftedGraph) -> Picture:
    """The largest clusters, each with its first constants; edges say how many facts relate them."""
    order = sorted(graph.members, key=lambda node: (-len(graph.members[node]), node))
    shown = sorted(order[:MAX_CLUSTERS])
    number = {node: place for place, node in enumerate(shown)}
    types = {name: place for place, name in enumerate(data.offset)}
    nodes = []
    for node in shown:
        members = graph.members[node]
        kind, first = members[0][0], members[:3]
        names = constant_names(data, [t for t, _ in first], np.array([c for _, c in first]))
        more = f" +{len(members) - 3}" if len(members) > 3 else ""
        fill = FILLS[types[kind] % len(FILLS)]
        nodes.append(GraphNode(f"{kind}: {', '.join(names)}{more}", fill, layer=types[kind]))
    links: dict[tuple[int, int], dict[str, int]] = defaultdict(dict)
    for edge, true in graph.edges.items():
        for left, right in zip(edge.nodes, edge.nodes[1:], strict=False):
            if left in number and right in number:
                links[number[left], number[right]][edge.predicate] = true
    edges = [
        GraphEdge(
            *ends,
            colour=EDGE,
            width=min(6.0, 1 + sum(found.values()) ** 0.5 / 4),
            title=", ".join(f"{name} ({true})" for name, true in found.items()),
        )
        for ends, found in links.items()
    ]
    return Picture(tuple(nodes), tuple(edges), "right")
