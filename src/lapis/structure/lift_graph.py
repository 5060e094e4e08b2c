"""LiftGraph: constants clustered by what holds of them, bottom up (LHL, algorithm 2).

A clustering's log-posterior, with the weights of atom-prediction rules at their optimum, is

    Σ_r Σ_{K with a true atom of r} [ℓ(t_K, f_K) − λ],   ℓ(t, f) = t log(t/(t+f)) + f log(f/(t+f))

where K runs over combinations of clusters, t_K and f_K being their true and false atoms of r.
Combinations without a true atom fall under the default rule, whose atoms are all false: it costs
nothing. Merging two clusters moves only their own hyperedges, so a gain is a sum over these. Only
pairs that share a partner, r(…, γ, …) and r(…, γ′, …) with all else equal, are tried; their gains
stand in one heap. A pair that comes up with another gain than it had goes back, and when the heap
is empty the pairs near what was merged are looked at again.

The paper merges the best pair of each type in turn; we take the best pair of all, which is the
same ascent with a finer choice.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import log, prod
from typing import NamedTuple

from lapis.progress import Stop
from lapis.structure.training_data import TrainingData

PRIOR = 1.0  # λ
SLIGHT = 1e-9  # gains below are rounding


class Edge(NamedTuple):
    """A hyperedge: a predicate and the clusters at its arguments."""

    predicate: str
    nodes: tuple[int, ...]


@dataclass(frozen=True)
class LiftedGraph:
    """Clusters of constants and the hyperedges between them."""

    members: dict[int, tuple[tuple[str, int], ...]]  # cluster → (type, constant of the union)
    edges: dict[Edge, int]  # its number of true atoms


def log_likelihood(true: int, total: int) -> float:
    """ℓ(t, f) with t + f = total.

    >>> log_likelihood(2, 2), round(log_likelihood(1, 2), 4)
    (0.0, -1.3863)
    """
    false = total - true
    found = true * log(true / total)
    return found + false * log(false / total) if false else found


class Lifting:
    """A clustering under way."""

    def __init__(self, data: TrainingData, prior: float) -> None:
        self.prior = prior
        self.number: dict[tuple[str, int], int] = {}
        self.edges: dict[Edge, int] = {}
        # Kept in order: sums over sets of words would differ in rounding from run to run.
        self.touching: dict[int, dict[Edge, None]] = defaultdict(dict)
        for name, predicate in data.predicates.items():
            for row in data.tuples[name].tolist():
                nodes = tuple(
                    self.number.setdefault((t, c), len(self.number))
                    for t, c in zip(predicate.types, row, strict=True)
                )
                edge = Edge(name, nodes)
                self.edges[edge] = 1
                for node in nodes:
                    self.touching[node][edge] = None
        self.size = dict.fromkeys(self.number.values(), 1)
        self.parent = {node: node for node in self.size}

    def gain(self, left: int, right: int) -> float:
        """What merging two clusters adds to the log-posterior."""
        size, both = self.size, self.size[left] + self.size[right]
        merged: dict[Edge, int] = defaultdict(int)
        before = after = 0.0
        old = self.touching[left] | self.touching[right]
        for edge in old:
            true = self.edges[edge]
            before += log_likelihood(true, prod([size[node] for node in edge.nodes]))
            merged[rename(edge, right, left)] += true
        for edge, true in merged.items():
            total = prod([both if node == left else size[node] for node in edge.nodes])
            after += log_likelihood(true, total)
        return after - before + self.prior * (len(old) - len(merged))

    def merge(self, left: int, right: int) -> None:
        """`right` becomes part of `left`."""
        for edge in list(self.touching.pop(right)):
            true = self.edges.pop(edge)
            for node in set(edge.nodes) - {right}:
                self.touching[node].pop(edge, None)
            new = rename(edge, right, left)
            self.edges[new] = self.edges.get(new, 0) + true
            for node in new.nodes:
                self.touching[node][new] = None
        self.size[left] += self.size.pop(right)
        self.parent[right] = left

    def partners(self, node: int) -> Iterator[int]:
        """Clusters of its type that share all other arguments of a hyperedge with this one."""
        for edge in self.touching[node]:
            for place, own in enumerate(edge.nodes):
                if own == node:
                    yield from self.sharing(edge, place)

    def sharing(self, edge: Edge, place: int) -> Iterator[int]:
        """Nodes that could stand at this place of a hyperedge."""
        others = [node for at, node in enumerate(edge.nodes) if at != place]
        if not others:
            return
        least = min(others, key=lambda node: len(self.touching[node]))
        for other in self.touching[least]:
            if other.predicate == edge.predicate and all(
                a == b
                for at, (a, b) in enumerate(zip(edge.nodes, other.nodes, strict=True))
                if at != place
            ):
                yield other.nodes[place]


def rename(edge: Edge, old: int, new: int) -> Edge:
    return Edge(edge.predicate, tuple(new if node == old else node for node in edge.nodes))


def lift_graph(data: TrainingData, prior: float = PRIOR, stop: Stop | None = None) -> LiftedGraph:
    """The lifted hypergraph, merged until no pair gains."""
    state = Lifting(data, prior)
    heap: list[tuple[float, int, int]] = []

    def push(pairs: Iterable[tuple[int, int]]) -> None:
        for left, right in pairs:
            gain = state.gain(left, right)
            if gain > SLIGHT:
                heapq.heappush(heap, (-gain, left, right))

    push(candidate_pairs(state, state.size))
    near: set[int] = set()
    while not (stop is not None and stop()):
        if not heap:  # what became better through merges nearby
            push(candidate_pairs(state, near & state.size.keys()))
            near = set()
            if not heap:
                break
        known, left, right = heapq.heappop(heap)
        if not (left in state.size and right in state.size):
            continue
        gain = state.gain(left, right)
        if abs(gain + known) > SLIGHT:
            push([(left, right)])
            continue
        state.merge(left, right)
        near |= {node for edge in state.touching[left] for node in edge.nodes}
        push(candidate_pairs(state, {left}))
    return finish(state)


def candidate_pairs(state: Lifting, nodes: Iterable[int]) -> list[tuple[int, int]]:
    """Pairs of clusters that share a partner, one of them among `nodes`."""
    pairs: dict[tuple[int, int], None] = {}
    for node in sorted(nodes):
        for other in sorted(set(state.partners(node)) - {node}):
            pairs[min(node, other), max(node, other)] = None
    return list(pairs)


def finish(state: Lifting) -> LiftedGraph:
    members: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for constant, node in state.number.items():
        while state.parent[node] != node:
            node = state.parent[node]
        members[node].append(constant)
    return LiftedGraph({n: tuple(found) for n, found in members.items()}, dict(state.edges))


def ground_graph(data: TrainingData) -> LiftedGraph:
    """Every constant by itself: what LHL-FindPaths searches."""
    return finish(Lifting(data, PRIOR))
