"""LiftGraph: agglomerative clustering of the constants of a hypergraph (LHL, algorithm 2).

A clustering's log-posterior, with the weights of atom-prediction rules at their optimum, is

    Σ_r Σ_{K with a true atom of r} [ℓ(t_K, f_K) − λ],   ℓ(t, f) = t log(t/(t+f)) + f log(f/(t+f))

where K runs over combinations of clusters, t_K and f_K being their true and false atoms of r.
Combinations without a true atom fall under the default rule, whose atoms are all false: its
log-likelihood is 0.

Types take turns: each merges the candidate pair of its clusters with the largest gain, if one is
positive, until no type merges any. Clusters γ and γ′ are candidates if hyperedges r(…, γ, …) and
r(…, γ′, …) agree in all other arguments. A unary r has no other arguments, so all clusters with a
true r are candidates of each other: n constants with a unary fact make n(n − 1)/2 pairs.

A merge changes the gains of those pairs only of which a cluster shares a hyperedge with the merged
one. These gains are computed again before the next turn of their type; all others stay in a heap.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import log, prod
from typing import NamedTuple

from lapis.runtime.progress import Stop
from lapis.structure.training_data import TrainingData

PRIOR = 1.0  # λ
SLIGHT = 1e-9  # gains below are rounding


class Edge(NamedTuple):
    """A hyperedge: a predicate and the clusters at its arguments."""

    predicate: str
    nodes: tuple[int, ...]


class Hole(NamedTuple):
    """A hyperedge without one of its arguments."""

    predicate: str
    place: int
    others: tuple[int, ...]


@dataclass(frozen=True)
class LiftedGraph:
    """Clusters of constants and the hyperedges between them."""

    members: dict[int, tuple[tuple[str, int], ...]]  # cluster → (type, constant of the union)
    edges: dict[Edge, int]  # its number of true atoms

    def num_atoms(self, edge: Edge) -> int:
        """Ground atoms, true and false, that a hyperedge contains."""
        return prod([len(self.members[node]) for node in edge.nodes])


@cache
def log_likelihood(true: int, total: int) -> float:
    """ℓ(t, f) with t + f = total.

    >>> log_likelihood(2, 2), round(log_likelihood(1, 2), 4)
    (0.0, -1.3863)
    """
    false = total - true
    found = true * log(true / total)
    return found + false * log(false / total) if false else found


class Lifting:
    """A clustering that merges change."""

    def __init__(self, data: TrainingData, prior: float) -> None:
        self.prior = prior
        self.number: dict[tuple[str, int], int] = {}
        self.edges: dict[Edge, int] = {}
        # Dicts as ordered sets: sums over sets would differ in rounding from run to run.
        self.touching: dict[int, dict[Edge, None]] = defaultdict(dict)
        self.filling: dict[Hole, dict[int, None]] = defaultdict(dict)  # nodes that fill a hole
        for name, predicate in data.predicates.items():
            for row in data.tuples[name].tolist():
                nodes = tuple(
                    self.number.setdefault((t, c), len(self.number))
                    for t, c in zip(predicate.types, row, strict=True)
                )
                self._add(Edge(name, nodes), 1)
        self.type_of = {node: name for (name, _), node in self.number.items()}
        self.size = dict.fromkeys(self.type_of, 1)
        self.parent = {node: node for node in self.size}

    def gain(self, left: int, right: int) -> float:
        """What merging two clusters adds to the log-posterior."""
        size, both = self.size, self.size[left] + self.size[right]
        merged: dict[tuple[str, tuple[int, ...]], int] = {}
        before = after = 0.0
        old = self.touching[left] | self.touching[right]
        for edge in old:
            true, nodes = self.edges[edge], edge.nodes
            before += log_likelihood(true, prod([size[node] for node in nodes]))
            if right in nodes:
                nodes = tuple([left if node == right else node for node in nodes])
            key = edge.predicate, nodes
            merged[key] = merged.get(key, 0) + true
        for (_, nodes), true in merged.items():
            total = prod([both if node == left else size[node] for node in nodes])
            after += log_likelihood(true, total)
        return after - before + self.prior * (len(old) - len(merged))

    def merge(self, left: int, right: int) -> None:
        """Make `right` part of `left`."""
        for edge in list(self.touching[right]):
            self._add(rename(edge, right, left), self._remove(edge))
        del self.touching[right]
        self.size[left] += self.size.pop(right)
        self.parent[right] = left

    def partners(self, node: int) -> set[int]:
        """Clusters that this one may be merged with."""
        found = {
            other
            for edge in self.touching[node]
            for place, own in enumerate(edge.nodes)
            if own == node
            for other in self.filling[hole_of(edge, place)]
        }
        return found - {node}

    def neighbours(self, node: int) -> set[int]:
        """Clusters that share a hyperedge with this one, and itself."""
        return {other for edge in self.touching[node] for other in edge.nodes}

    def _add(self, edge: Edge, true: int) -> None:
        self.edges[edge] = self.edges.get(edge, 0) + true
        for place, node in enumerate(edge.nodes):
            self.touching[node][edge] = None
            self.filling[hole_of(edge, place)][node] = None

    def _remove(self, edge: Edge) -> int:
        """The edge's number of true atoms."""
        for place, node in enumerate(edge.nodes):
            self.touching[node].pop(edge, None)
            del self.filling[hole_of(edge, place)][node]
        return self.edges.pop(edge)


def rename(edge: Edge, old: int, new: int) -> Edge:
    return Edge(edge.predicate, tuple(new if node == old else node for node in edge.nodes))


def hole_of(edge: Edge, place: int) -> Hole:
    return Hole(edge.predicate, place, edge.nodes[:place] + edge.nodes[place + 1 :])


def lift_graph(data: TrainingData, prior: float = PRIOR, stop: Stop | None = None) -> LiftedGraph:
    """The lifted hypergraph, merged until no pair gains."""
    state = Lifting(data, prior)
    for _ in merge_best_pairs(state):
        if stop is not None and stop():
            break
    return finish(state)


def merge_best_pairs(state: Lifting) -> Iterator[tuple[int, int]]:
    """Merge the best pair of each type in turn; yield the pairs, the cluster that stays first."""
    best = {name: PairHeap(state) for name in dict.fromkeys(state.type_of.values())}
    for node, name in state.type_of.items():
        best[name].changed.add(node)
    merged = True
    while merged:
        merged = False
        for heap in best.values():
            pair = heap.pop_best()
            if pair is not None:
                state.merge(*pair)
                for node in state.neighbours(pair[0]):
                    best[state.type_of[node]].changed.add(node)
                merged = True
                yield pair


class PairHeap:
    """Candidate pairs of one type with positive gains, the largest first."""

    def __init__(self, state: Lifting) -> None:
        self.state = state
        self.changed: set[int] = set()  # nodes whose gains are to be computed again
        self.gains: dict[tuple[int, int], float] = {}
        self.heap: list[tuple[float, int, int]] = []  # (−gain, pair); stale where `gains` differs

    def pop_best(self) -> tuple[int, int] | None:
        """The pair with the largest gain; None if none gains."""
        self._update()
        while self.heap:
            negative, left, right = heapq.heappop(self.heap)
            if self.gains.get((left, right)) == -negative:
                del self.gains[left, right]
                if left in self.state.size and right in self.state.size:
                    return left, right
        return None

    def _update(self) -> None:
        seen: set[tuple[int, int]] = set()
        for node in sorted(self.changed & self.state.size.keys()):
            for other in sorted(self.state.partners(node)):
                pair = min(node, other), max(node, other)
                if pair in seen:
                    continue
                seen.add(pair)
                gain = self.state.gain(*pair)
                if gain > SLIGHT:
                    if self.gains.get(pair) != gain:
                        self.gains[pair] = gain
                        heapq.heappush(self.heap, (-gain, *pair))
                else:
                    self.gains.pop(pair, None)
        self.changed.clear()


def finish(state: Lifting) -> LiftedGraph:
    members: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for constant, node in state.number.items():
        while state.parent[node] != node:
            node = state.parent[node]
        members[node].append(constant)
    return LiftedGraph({n: tuple(found) for n, found in members.items()}, dict(state.edges))


def ground_graph(data: TrainingData) -> LiftedGraph:
    """Every constant in a cluster of its own: what LHL-FindPaths searches."""
    return finish(Lifting(data, PRIOR))
