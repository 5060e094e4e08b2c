"""FindPaths: connected sets of hyperedges, with nodes replaced by variables (LHL, algorithm 3).

The paper lists every path of the lifted hypergraph, then variabilises. Most paths variabilise
alike, so we go by what they become: level by level, each variabilised path keeps a few of the
ground paths behind it (`MAX_EXAMPLES`, the first found), and is extended by every hyperedge that
touches these. A path of the graph whose every part is rare among many may thus be missed; in
exchange the work is bounded by the number of distinct paths, not of their occurrences.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import chain
from typing import NamedTuple

from lapis.progress import Progress, Report, Stop
from lapis.structure.clauses import Path, PathAtom, canonical
from lapis.structure.lift_graph import Edge, LiftedGraph

MAX_EXAMPLES = 30


class FoundPath(NamedTuple):
    """A path and the hyperedges that were seen on it."""

    path: Path
    edges: frozenset[Edge]


def find_paths(
    graph: LiftedGraph,
    max_length: int,
    *,
    max_variables: int = 6,
    progress: Report | None = None,
    stop: Stop | None = None,
) -> list[FoundPath]:
    """All paths of 2 … max_length hyperedges, up to renaming, shortest first."""
    touching: dict[int, list[Edge]] = defaultdict(list)
    for edge in sorted(graph.edges):
        for node in dict.fromkeys(edge.nodes):
            touching[node].append(edge)
    level: dict[Path, list[tuple[Edge, ...]]] = defaultdict(list)
    for edge in sorted(graph.edges):
        if edge.nodes:
            examples = level[variabilise((edge,))]
            if len(examples) < MAX_EXAMPLES:
                examples.append((edge,))
    found: list[FoundPath] = []
    for length in range(2, max_length + 1):
        level = extend(level, touching, max_variables, stop)
        found += [
            FoundPath(path, frozenset(chain.from_iterable(examples)))
            for path, examples in level.items()
        ]
        if progress is not None:
            progress(Progress("finding paths", length, max_length, 0.0, {"paths": len(found)}))
        if stop is not None and stop():
            break
    return found


def extend(
    level: Mapping[Path, list[tuple[Edge, ...]]],
    touching: Mapping[int, list[Edge]],
    max_variables: int,
    stop: Stop | None,
) -> dict[Path, list[tuple[Edge, ...]]]:
    """Every example with one hyperedge more."""
    longer: dict[Path, list[tuple[Edge, ...]]] = defaultdict(list)
    sets: dict[Path, set[frozenset[Edge]]] = defaultdict(set)
    for examples in level.values():
        if stop is not None and stop():
            break
        forms: dict[tuple[object, ...], Path | None] = {}
        for example in examples:
            number = {node: at for at, node in enumerate(nodes_of(example))}
            for edge in dict.fromkeys(e for node in number for e in touching[node]):
                if edge in example:
                    continue
                fresh: dict[int, int] = {}
                form = (
                    edge.predicate,
                    tuple(
                        number[n] if n in number else fresh.setdefault(n, -1 - len(fresh))
                        for n in edge.nodes
                    ),
                    shape_of(example, number),
                )
                if form not in forms:
                    new = variabilise((*example, edge))
                    num_variables = len({v for atom in new for v in atom.variables})
                    forms[form] = new if num_variables <= max_variables else None
                known = forms[form]
                if known is None or len(longer[known]) >= MAX_EXAMPLES:
                    continue
                together = frozenset((*example, edge))
                if together not in sets[known]:
                    sets[known].add(together)
                    longer[known].append((*example, edge))
    return longer


def nodes_of(example: tuple[Edge, ...]) -> dict[int, None]:
    return dict.fromkeys(node for edge in example for node in edge.nodes)


def shape_of(example: tuple[Edge, ...], number: Mapping[int, int]) -> tuple[object, ...]:
    """The example with nodes numbered as they occur: the same for the same order of atoms."""
    return tuple((edge.predicate, *(number[node] for node in edge.nodes)) for edge in example)


def variabilise(example: tuple[Edge, ...]) -> Path:
    """The path with its nodes as variables."""
    numbered = {node: at for at, node in enumerate(nodes_of(example))}
    return canonical(
        tuple(
            PathAtom(edge.predicate, tuple(numbered[node] for node in edge.nodes))
            for edge in example
        )
    ).path
