"""Draw a ground network: a box for each atom, clause and block, an edge for each literal.

A clause of one atom is written in the atom's box. Atoms and clauses alternate in layers, by their
distance from the atom of each component that is in most clauses.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lapis.errors import TooLarge
from lapis.network.network import Network
from lapis.results.graph import GraphEdge, GraphNode, Picture

MAX_DRAWN = 20_000  # nodes of a file for other programs; pictures have fewer
NEGATED, CLAUSE_FILL, BLOCK_FILL = "#b3413b", "#fff6dd", "#e4e0f2"


def draw_network(network: Network) -> Picture:
    """Return the graph of a network; raise TooLarge if it has too many nodes."""
    length = np.diff(network.clause_start)
    drawn = np.flatnonzero(length > 1)
    number = network.num_atoms + len(drawn) + network.num_blocks
    if number > MAX_DRAWN:
        raise TooLarge(
            f"{network.num_atoms:,} atoms, {len(drawn):,} clauses of several atoms and "
            f"{network.num_blocks:,} blocks are too many to draw: at most {MAX_DRAWN:,} together",
            code="too-large",
            hint="answer.explain(ATOM).draw() shows what is near one atom; .json has everything",
        )
    layer = find_layers(network, drawn)
    names = network.atom_names(np.arange(network.num_atoms))
    units = unit_texts(network)
    nodes = [
        GraphNode(f"{name}{units.get(atom, '')}", layer=int(layer[atom]))
        for atom, name in enumerate(names)
    ]
    edges: list[GraphEdge] = []
    for place, clause in enumerate(drawn.tolist(), network.num_atoms):
        nodes.append(GraphNode(clause_text(network, clause), CLAUSE_FILL, layer=int(layer[place])))
        first, last = network.clause_start[clause : clause + 2]
        for literal in network.literal[first:last].tolist():
            edge = directed(place, abs(literal) - 1, layer)
            edges.append(edge if literal > 0 else edge._replace(label="¬", colour=NEGATED))
    for block in range(network.num_blocks):
        place = network.num_atoms + len(drawn) + block
        text = "exactly one" if network.block_exact[block] else "at most one"
        nodes.append(GraphNode(text, BLOCK_FILL, layer=int(layer[place])))
        first, last = network.block_start[block : block + 2]
        edges += [directed(place, a, layer) for a in network.block_atom[first:last].tolist()]
    return Picture(tuple(nodes), tuple(edges), "right")


def directed(one: int, other: int, layer: np.ndarray) -> GraphEdge:
    """Return an edge from the lower layer to the higher one."""
    source, target = (one, other) if layer[one] < layer[other] else (other, one)
    return GraphEdge(source, target)


def clause_text(network: Network, clause: int) -> str:
    """Return the weight of a clause."""
    weight_id = int(network.weight_id[clause])
    if weight_id < 0:
        return "hard"
    return f"{network.weights[weight_id] * network.coefficient[clause]:+.3g}"


def unit_texts(network: Network) -> dict[int, str]:
    """Return the clauses of one atom as lines of its box."""
    found: dict[int, str] = {}
    for clause in np.flatnonzero(np.diff(network.clause_start) == 1).tolist():
        literal = int(network.literal[network.clause_start[clause]])
        sign = "" if literal > 0 else "¬ "
        atom = abs(literal) - 1
        found[atom] = found.get(atom, "") + f"\n{sign}{clause_text(network, clause)}"
    return found


def find_layers(network: Network, drawn: np.ndarray) -> np.ndarray:
    """Return int64[num_nodes], the distance from the first node of each component."""
    neighbours: list[list[int]] = [[] for _ in range(network.num_atoms)]
    members: list[list[int]] = []
    for row in node_atoms(network, drawn):
        for atom in row:
            neighbours[atom].append(network.num_atoms + len(members))
        members.append(row)
    neighbours += members
    layer = np.full(len(neighbours), -1, np.int64)
    for start in sorted(range(network.num_atoms), key=lambda atom: -len(neighbours[atom])):
        if layer[start] >= 0:
            continue
        layer[start], reached = 0, [start]
        for node in reached:
            for other in neighbours[node]:
                if layer[other] < 0:
                    layer[other] = layer[node] + 1
                    reached.append(other)
    return layer


def node_atoms(network: Network, drawn: np.ndarray) -> Iterator[list[int]]:
    """Yield the atoms of each drawn clause, then those of each block."""
    for clause in drawn.tolist():
        first, last = network.clause_start[clause : clause + 2]
        yield (np.abs(network.literal[first:last]) - 1).tolist()
    for block in range(network.num_blocks):
        first, last = network.block_start[block : block + 2]
        yield network.block_atom[first:last].tolist()
