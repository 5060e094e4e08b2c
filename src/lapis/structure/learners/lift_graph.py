"""LiftGraph: agglomerative clustering of the constants of a hypergraph (LHL, algorithm 2).

A clustering's log-posterior, with the weights of atom-prediction rules at their optimum, is

    Σ_r Σ_{K with a true atom of r} [ℓ(t_K, f_K) − λ],   ℓ(t, f) = t log(t/(t+f)) + f log(f/(t+f))

where K runs over combinations of clusters with t_K true and f_K false atoms of r. Combinations
without a true atom fall under the default rule, whose log-likelihood is 0: all its atoms are false.

Types take turns: each merges the candidate pair of its clusters with the largest gain, if one is
positive, until no type merges any. Clusters γ and γ′ are candidates if hyperedges r(…, γ, …) and
r(…, γ′, …) agree in all other arguments. A unary r has no other arguments, so all clusters with a
true r are candidates of each other: n constants with a unary fact make n(n − 1)/2 pairs.

A merge changes only the gains of pairs with a cluster that shares a hyperedge with the merged one.
These gains are computed again before the next turn of their type; all others stay in a heap.

`learn_clusters` (LHL-LiftGraph; Kok & Domingos 2009, section 4.2) turns the clusters into a model,
in which an atom depends on the clusters of its arguments alone: in a combination K with t of n
atoms true, P(r) = p_K = (t + ½)/(n + 1). The model has a hidden predicate of clusters for each
type, with one cluster for each constant, and

    log(size of C / all)                 in_t(x, C)
    logit p_0                            r(x, y)
    logit p_K − logit p_0                in_t(x, C) ^ in_u(y, D) ^ r(x, y)        for K = (C, D)
    log(1 − p_K) − log(1 − p_0)          in_t(x, C) ^ in_u(y, D)

where p_0 is the probability of atoms in no combination with a true one. Inference assigns new
constants to clusters.

Two deviations. The paper's default rule, "in none of these combinations", is a unit clause that
each combination corrects: as one formula it exceeded Alchemy's memory on Cora. The last kind of
rule is not in the paper: it makes the joint distribution P(clusters) Π P(r | clusters), so that the
cluster of a new constant follows from the likelihood; without it, combinations with many true atoms
attract constants whatever the evidence is. The prior on the number of combinations is not part of
the model.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import log, prod
from typing import NamedTuple

import numpy as np

from lapis.registry.options import StructureOptions
from lapis.results.graph import GraphEdge, GraphNode, Picture
from lapis.runtime.progress import Stop
from lapis.structure.clause_scores import fit_unit
from lapis.structure.learned_rules import LearnedRule
from lapis.structure.rule_search import RuleSearch
from lapis.structure.training_data import TrainingData

PRIOR = 1.0  # λ
SLIGHT = 1e-9  # smaller gains are rounding errors


class Hyperedge(NamedTuple):
    """A hyperedge: a predicate and the clusters at its arguments."""

    predicate: str
    nodes: tuple[int, ...]


class OpenEdge(NamedTuple):
    """A hyperedge without one of its arguments."""

    predicate: str
    place: int
    others: tuple[int, ...]


@dataclass(frozen=True)
class LiftedGraph:
    """Clusters of constants and the hyperedges between them."""

    members: dict[int, tuple[tuple[str, int], ...]]  # cluster → (type, constant of the union)
    edges: dict[Hyperedge, int]  # its number of true atoms

    def num_atoms(self, edge: Hyperedge) -> int:
        """Ground atoms, true and false, that a hyperedge contains."""
        return prod([len(self.members[node]) for node in edge.nodes])

    def member_names(self, data: TrainingData, node: int) -> list[str]:
        return data.constant_names(*zip(*self.members[node], strict=True))


@cache
def cluster_log_likelihood(true: int, total: int) -> float:
    """Return ℓ(t, f) with t + f = total.

    >>> cluster_log_likelihood(2, 2), round(cluster_log_likelihood(1, 2), 4)
    (0.0, -1.3863)
    """
    false = total - true
    found = true * log(true / total)
    return found + false * log(false / total) if false else found


class Lifting:
    """A clustering that changes by merges."""

    def __init__(self, data: TrainingData, prior: float) -> None:
        self.prior = prior
        self.number: dict[tuple[str, int], int] = {}
        self.edges: dict[Hyperedge, int] = {}
        # Dicts as ordered sets: sums over sets would differ in rounding from run to run.
        self.touching: dict[int, dict[Hyperedge, None]] = defaultdict(dict)
        self.completions: dict[OpenEdge, dict[int, None]] = defaultdict(dict)
        for name, predicate in data.predicates.items():
            for row in data.tuples[name].tolist():
                nodes = tuple(
                    self.number.setdefault((t, c), len(self.number))
                    for t, c in zip(predicate.types, row, strict=True)
                )
                self._add(Hyperedge(name, nodes), 1)
        self.type_of = {node: name for (name, _), node in self.number.items()}
        self.size = dict.fromkeys(self.type_of, 1)
        self.parent = {node: node for node in self.size}

    def gain(self, left: int, right: int) -> float:
        """Return the gain in log-posterior of merging two clusters."""
        size, both = self.size, self.size[left] + self.size[right]
        merged: dict[tuple[str, tuple[int, ...]], int] = {}
        before = after = 0.0
        old = self.touching[left] | self.touching[right]
        for edge in old:
            true, nodes = self.edges[edge], edge.nodes
            before += cluster_log_likelihood(true, prod([size[node] for node in nodes]))
            if right in nodes:
                nodes = tuple([left if node == right else node for node in nodes])
            key = edge.predicate, nodes
            merged[key] = merged.get(key, 0) + true
        for (_, nodes), true in merged.items():
            total = prod([both if node == left else size[node] for node in nodes])
            after += cluster_log_likelihood(true, total)
        return after - before + self.prior * (len(old) - len(merged))

    def merge(self, left: int, right: int) -> None:
        """Merge cluster `right` into `left`."""
        for edge in list(self.touching[right]):
            self._add(replace_node(edge, right, left), self._remove(edge))
        del self.touching[right]
        self.size[left] += self.size.pop(right)
        self.parent[right] = left

    def partners(self, node: int) -> set[int]:
        """Return the clusters that this one may be merged with."""
        found = {
            other
            for edge in self.touching[node]
            for place, own in enumerate(edge.nodes)
            if own == node
            for other in self.completions[open_edge(edge, place)]
        }
        return found - {node}

    def neighbours(self, node: int) -> set[int]:
        """Return the clusters that share a hyperedge with this one, and itself."""
        return {other for edge in self.touching[node] for other in edge.nodes}

    def _add(self, edge: Hyperedge, true: int) -> None:
        self.edges[edge] = self.edges.get(edge, 0) + true
        for place, node in enumerate(edge.nodes):
            self.touching[node][edge] = None
            self.completions[open_edge(edge, place)][node] = None

    def _remove(self, edge: Hyperedge) -> int:
        """Remove an edge; return its number of true atoms."""
        for place, node in enumerate(edge.nodes):
            self.touching[node].pop(edge, None)
            del self.completions[open_edge(edge, place)][node]
        return self.edges.pop(edge)


def replace_node(edge: Hyperedge, old: int, new: int) -> Hyperedge:
    return Hyperedge(edge.predicate, tuple(new if node == old else node for node in edge.nodes))


def open_edge(edge: Hyperedge, place: int) -> OpenEdge:
    return OpenEdge(edge.predicate, place, edge.nodes[:place] + edge.nodes[place + 1 :])


def lift_graph(data: TrainingData, prior: float = PRIOR, stop: Stop | None = None) -> LiftedGraph:
    """Merge clusters until no pair gains; return the lifted hypergraph."""
    state = Lifting(data, prior)
    for _ in merge_best_pairs(state):
        if stop is not None and stop.is_over():
            break
    return build_lifted_graph(state)


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
        """Remove and return the pair with the largest gain; None if no pair gains."""
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


def build_lifted_graph(state: Lifting) -> LiftedGraph:
    members: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for constant, node in state.number.items():
        while state.parent[node] != node:
            node = state.parent[node]
        members[node].append(constant)
    return LiftedGraph({n: tuple(found) for n, found in members.items()}, dict(state.edges))


def ground_graph(data: TrainingData) -> LiftedGraph:
    """Return the hypergraph with one cluster for each constant, which LHL-FindPaths searches."""
    return build_lifted_graph(Lifting(data, PRIOR))


EMPTY_CLUSTER = 0  # number of the cluster of constants without true atoms
MAX_NAMES = 3  # members of a cluster that are named


class ClusterModel(NamedTuple):
    """The result of `learn_clusters`."""

    declarations: str
    rules: tuple[LearnedRule, ...]
    value: float  # WPLL given the clusters
    unit_value: float
    is_whole: bool  # False if it was interrupted
    members: dict[str, dict[str, list[str]]]  # by type: cluster → constants


def learn_clusters(search: RuleSearch, options: StructureOptions) -> ClusterModel:
    """Learn the lifted hypergraph as a model."""
    search.report("lifting", 0, None)
    prior = PRIOR if options.cluster_prior is None else options.cluster_prior
    graph = lift_graph(search.data, prior, search.stop)
    return build_cluster_model(search.data, graph, not search.stop.is_over())


def build_cluster_model(data: TrainingData, graph: LiftedGraph, is_whole: bool) -> ClusterModel:
    """Build the model: rules of combinations by weight, then those of predicates and clusters."""
    clusters: dict[str, list[int]] = {name: [] for name in data.offset}
    for node in sorted(graph.members, key=lambda node: (-len(graph.members[node]), node)):
        clusters[graph.members[node][0][0]].append(node)
    number = {
        node: at for own in clusters.values() for at, node in enumerate(own, EMPTY_CLUSTER + 1)
    }
    rules: list[LearnedRule] = []
    others: list[LearnedRule] = []
    value = unit_value = of_defaults = 0.0
    for name in data.targets:
        if data.num_atoms[name]:
            alone, by_default, found = build_predicate_rules(data, graph, number, name)
            rules += (rule for rule in found if rule.gain is not None)
            others += (rule for rule in found if rule.gain is None)
            unit_value += alone
            of_defaults += by_default
            value += alone + sum(rule.gain or 0.0 for rule in found)
    value += of_defaults
    declared: list[str] = []
    for name, nodes in clusters.items():
        sizes = [len(graph.members[node]) for node in nodes]
        every = int(data.offset[name][-1])
        sizes.insert(EMPTY_CLUSTER, every - sum(sizes))
        words = [cluster_name(name, at) for at in range(len(sizes))]
        declared.append(f"{name}_cluster = {{{', '.join(words)}}}")
        declared.append(f"in_{name}({name}, {name}_cluster!)")
        for word, size in zip(words, sizes, strict=True):
            weight = log((size + 0.5) / (every + len(sizes) / 2))
            others.append(LearnedRule(f"in_{name}(x0, {word})", weight, None, None, size, every))
    rules.sort(key=lambda rule: -abs(rule.weight))
    members = {
        name: {cluster_name(name, number[n]): graph.member_names(data, n) for n in nodes}
        for name, nodes in clusters.items()
    }
    return ClusterModel(
        "\n".join(declared) + "\n", (*rules, *others), value, unit_value, is_whole, members
    )


def build_predicate_rules(
    data: TrainingData, graph: LiftedGraph, number: Mapping[int, int], name: str
) -> tuple[float, float, list[LearnedRule]]:
    """Return a predicate's WPLL with unit clauses, the gain of its default rule, and its rules."""
    num_atoms, types = data.num_atoms[name], data.predicates[name].types
    edges = [(edge.nodes, true) for edge, true in graph.edges.items() if edge.predicate == name]
    total_of = {nodes: prod(len(graph.members[n]) for n in nodes) for nodes, _ in edges}
    rest = num_atoms - sum(total_of.values())
    odds, alone = fit_unit(sum(true for _, true in edges) / num_atoms)
    by_default = log_likelihood_at(0, rest, logit(0, rest)) - log_likelihood_at(0, rest, odds)
    atom = f"{name}({', '.join(f'x{place}' for place in range(len(types)))})"
    rules = [LearnedRule(atom, logit(0, rest), None, None, len(data.tuples[name]), num_atoms)]
    for nodes, true in edges:
        total = total_of[nodes]
        gain = log_likelihood_at(true, total, logit(true, total)) - log_likelihood_at(
            true, total, odds
        )
        inside = " ^ ".join(
            f"in_{t}(x{place}, {cluster_name(t, number[node])})"
            for place, (t, node) in enumerate(zip(types, nodes, strict=True))
        )
        weight = logit(true, total) - logit(0, rest)
        members = [graph.member_names(data, node) for node in nodes]
        words = describe_combination(atom, members, true, total)
        rules.append(
            LearnedRule(
                f"{inside} ^ {atom}", weight, gain / num_atoms, true, true, num_atoms, words
            )
        )
        norm = log_probability(False, logit(true, total)) - log_probability(False, logit(0, rest))
        rules.append(LearnedRule(inside, norm, None, None, total, num_atoms))
    return alone, by_default / num_atoms, rules


def cluster_name(type_name: str, number: int) -> str:
    """Return the name of a cluster, capitalized because it is a constant."""
    return f"{type_name[0].upper()}{type_name[1:]}{number}"


def logit(true: int, total: int) -> float:
    """Return log p/(1 − p) with p = (t + ½)/(n + 1).

    >>> logit(3, 6)
    0.0
    """
    return log(true + 0.5) - log(total - true + 0.5)


def log_probability(truth: bool, odds: float) -> float:
    """Return log P(truth), given the log-odds."""
    return float(-np.logaddexp(0.0, -odds if truth else odds))


def log_likelihood_at(true: int, total: int, odds: float) -> float:
    return true * log_probability(True, odds) + (total - true) * log_probability(False, odds)


def describe_combination(atom: str, members: list[list[str]], true: int, total: int) -> str:
    """Describe the atoms that a rule is about, by members of the clusters at each argument."""
    parts = []
    for place, names in enumerate(members):
        more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        parts.append(f"x{place} like {', '.join(names[:MAX_NAMES])}{more}")
    return f"{true:,} of {total:,} {atom}, {'; '.join(parts)}"


MAX_CLUSTERS = 60
EDGE = "#bcc3cc"
FILLS = ("#dbe6f2", "#fde4cc", "#dcefd9", "#f9dcdc", "#dff0ee", "#efe2ec", "#ebe2dc", "#fbf3d3")


def draw_cluster_graph(data: TrainingData, graph: LiftedGraph) -> Picture:
    """Draw the largest clusters, a column for each type, with edges labelled by true atoms."""
    order = sorted(graph.members, key=lambda node: (-len(graph.members[node]), node))
    shown = sorted(order[:MAX_CLUSTERS])
    number = {node: place for place, node in enumerate(shown)}
    types = {name: place for place, name in enumerate(data.offset)}
    nodes = []
    for node in shown:
        members = graph.members[node]
        kind = members[0][0]
        names = graph.member_names(data, node)[:3]
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
