"""FindPaths: connected sets of hyperedges, with nodes replaced by variables (LHL, algorithm 3).

The paper lists every path of the lifted hypergraph, then variabilises. Most paths have the same
variabilised path, so the search proceeds level by level over variabilised paths. Each keeps its
ground paths as examples, and is extended by every hyperedge that touches one of them. Every
connected set of hyperedges is a smaller one with one hyperedge more, so without limits the result
is the paper's.

`max_examples` limits the examples that a variabilised path keeps, the first ones found. Then a path
may be missed, or found with fewer hyperedges, but the work is bounded by the number of distinct
variabilised paths. `max_variables` leaves out paths with more variables.

If clauses with dangling variables (those that occur once) are discarded, a path with more of them
than its missing hyperedges have arguments cannot become a clause, so it is not extended.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from lapis.runtime.progress import Progress, Report, Stop, check_time
from lapis.structure.candidates import Path, PathAtom, canonicalize_path, has_dangling
from lapis.structure.learners.lift_graph import Hyperedge, LiftedGraph

MAX_EXAMPLES = 30
MAX_VARIABLES = 6


class FoundPath(NamedTuple):
    """A variabilised path and the hyperedges of its ground paths."""

    path: Path
    edges: frozenset[Hyperedge]


Nodes = tuple[int, ...]  # a ground path: the node of each variable


@dataclass
class PathExamples:
    """The ground paths of a variabilised path."""

    kept: dict[Nodes, None] = field(default_factory=dict)  # an ordered set
    edges: set[Hyperedge] = field(default_factory=set)


def find_paths(
    graph: LiftedGraph,
    max_literals: int,
    *,
    max_variables: int = MAX_VARIABLES,
    max_examples: int = MAX_EXAMPLES,
    keeps_dangling: bool = True,
    progress: Report | None = None,
    stop: Stop | None = None,
) -> Iterator[list[FoundPath]]:
    """Yield the paths of 2, 3, … max_literals hyperedges, up to renaming.

    `max_variables` and `max_examples` are limits if they are not 0. Without `keeps_dangling`, paths
    with dangling variables are left out.
    """
    touching: dict[int, list[Hyperedge]] = defaultdict(list)
    level: dict[Path, PathExamples] = defaultdict(PathExamples)
    for edge in sorted(graph.edges):
        nodes = tuple(dict.fromkeys(edge.nodes))
        for node in nodes:
            touching[node].append(edge)
        if nodes:
            path = (PathAtom(edge.predicate, tuple(map(nodes.index, edge.nodes))),)
            add_example(level[path], nodes, (edge,), max_examples)
    num_found = 0
    max_arity = max((len(edge.nodes) for edge in graph.edges), default=0)
    for length in range(2, max_literals + 1):
        left = max_literals - length
        limits = PathLimits(
            max_variables,
            max_examples if left else -1,
            None if keeps_dangling else left * max_arity,
        )
        level = extend_paths(level, touching, limits, stop)
        found = [
            FoundPath(path, frozenset(own.edges))
            for path, own in level.items()
            if keeps_dangling or not has_dangling(path)
        ]
        num_found += len(found)
        if progress is not None:
            progress(Progress("finding paths", length, max_literals, 0.0, {"paths": num_found}))
        yield found
        if stop is not None and stop.is_over():
            return


class PathLimits(NamedTuple):
    """Limits of the paths of one length."""

    max_variables: int  # 0: no limit
    max_examples: int  # 0: no limit; −1: none is kept
    max_dangling: int | None  # variables that occur once

    def allow(self, path: Path) -> bool:
        times = Counter(variable for atom in path for variable in atom.variables)
        if self.max_variables and len(times) > self.max_variables:
            return False
        return self.max_dangling is None or list(times.values()).count(1) <= self.max_dangling


def extend_paths(
    level: Mapping[Path, PathExamples],
    touching: Mapping[int, list[Hyperedge]],
    limits: PathLimits,
    stop: Stop | None,
) -> dict[Path, PathExamples]:
    """Extend every example by one hyperedge."""
    longer: dict[Path, PathExamples] = defaultdict(PathExamples)
    for path, own in level.items():
        if stop is not None and stop.is_over():
            break
        known_atoms = set(path)
        times = Counter(variable for atom in path for variable in atom.variables)
        dangling = [variable for variable, number in times.items() if number == 1]
        # If no dangling variable is allowed, the new hyperedge must contain all of these.
        starts = dangling[:1] if limits.max_dangling == 0 and dangling else sorted(times)
        # For each atom that extends the path: examples of the longer path, order of its variables.
        extended: dict[PathAtom, tuple[PathExamples, tuple[int, ...]] | None] = {}
        for example in own.kept:
            check_time("finding paths")
            number = {node: variable for variable, node in enumerate(example)}
            edges = tuple(
                [Hyperedge(atom.predicate, tuple([example[v] for v in atom[1]])) for atom in path]
            )
            for edge in dict.fromkeys([edge for v in starts for edge in touching[example[v]]]):
                nodes = example
                if all(node in number for node in edge.nodes):
                    atom = PathAtom(edge.predicate, tuple([number[n] for n in edge.nodes]))
                    if atom in known_atoms:
                        continue
                else:
                    nodes = tuple(dict.fromkeys(example + edge.nodes))
                    atom = PathAtom(edge.predicate, tuple([nodes.index(n) for n in edge.nodes]))
                if atom not in extended:
                    extended[atom] = None
                    if limits.allow((*path, atom)):
                        new, order = canonicalize_path((*path, atom))
                        extended[atom] = longer[new], order
                target = extended[atom]
                if target is not None:
                    examples, order = target
                    add_example(
                        examples,
                        tuple([nodes[v] for v in order]),
                        (*edges, edge),
                        limits.max_examples,
                    )
    return longer


def add_example(
    examples: PathExamples, nodes: Nodes, edges: tuple[Hyperedge, ...], max_examples: int
) -> None:
    examples.edges.update(edges)
    if max_examples == 0 or len(examples.kept) < max_examples:
        examples.kept[nodes] = None
