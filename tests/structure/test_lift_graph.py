"""LiftGraph and FindPaths, compared with naive versions of algorithms 2 and 3."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import chain, combinations
from math import prod

import numpy as np
import pytest

import lapis
from lapis.structure.candidates import (
    Path,
    PathAtom,
    canonicalize_clause,
    has_dangling,
    is_connected,
)
from lapis.structure.learners.find_paths import find_paths
from lapis.structure.learners.lift_graph import (
    Hyperedge,
    LiftedGraph,
    Lifting,
    cluster_log_likelihood,
    draw_cluster_graph,
    ground_graph,
    lift_graph,
    merge_best_pairs,
)
from lapis.structure.training_data import TrainingData, join_worlds


def join(model: lapis.Model, *texts: str) -> TrainingData:
    problems = [lapis.build_problem(model, lapis.Database.parse(text)) for text in texts]
    return join_worlds(model, problems, list(model.predicates))


def random_data(seed: int) -> TrainingData:
    generator = np.random.default_rng(seed)
    facts = [f"R(A{i},A{j})" for i in range(6) for j in range(6) if generator.random() < 0.4]
    facts += [f"T(A{i},B{j},A{k})" for i in range(6) for j in range(3) for k in range(6)
              if generator.random() < 0.2]  # fmt: skip
    facts += [f"P(A{i})" for i in range(6) if generator.random() < 0.5]
    return join(lapis.parse("R(a, a)\nT(a, b, a)\nP(a)"), " ".join(facts))


def log_posterior(state: Lifting) -> float:
    """Compute the log-posterior from its definition: Σ over hyperedges."""
    sizes = {edge: prod(state.size[node] for node in edge.nodes) for edge in state.edges}
    found = [cluster_log_likelihood(true, sizes[edge]) for edge, true in state.edges.items()]
    return sum(found) - state.prior * len(found)


@pytest.mark.parametrize("seed", range(8))
def test_gains_are_differences_of_the_log_posterior(seed: int) -> None:
    """Merges are random, so that clusters have several sizes."""
    generator = np.random.default_rng(seed)
    state = Lifting(random_data(seed), prior=0.7)
    type_of = {node: name for (name, _), node in state.number.items()}
    for _ in range(6):
        nodes = sorted(state.size)
        left = int(generator.choice(nodes))
        alike = [n for n in nodes if n != left and type_of[n] == type_of[left]]
        if not alike:
            continue
        right = int(generator.choice(alike))
        before, gain = log_posterior(state), state.gain(left, right)
        state.merge(left, right)
        assert log_posterior(state) - before == pytest.approx(gain, abs=1e-9)
        assert sum(state.edges.values()) == sum(map(len, random_data(seed).tuples.values()))


@pytest.mark.parametrize(("noise", "prior"), [(0.0, 1.0), (0.01, 10.0), (0.03, 10.0)])
def test_planted_clusters_are_found(noise: float, prior: float) -> None:
    """Two kinds of people and two of things: each kind likes all of one kind.

    An exception costs about five nats, so with exceptions the prior must cost more than a
    separate cluster would save.
    """
    generator = np.random.default_rng(0)
    facts = [
        f"Likes(P{i},T{j})"
        for i in range(20)
        for j in range(20)
        if (i % 2 == j % 2) == (generator.random() < 1 - noise)
    ]
    model = lapis.parse("Likes(person, thing)")
    data = join(model, " ".join(facts))
    graph = lift_graph(data, prior)
    clusters = {
        frozenset(data.worlds[0].domains[t].constants[c] for t, c in members)
        for members in graph.members.values()
    }
    for kind, size in (("P", 20), ("T", 20)):
        for rest in (0, 1):
            assert frozenset(f"{kind}{i}" for i in range(rest, size, 2)) in clusters


def test_unary_facts_alone_make_clusters() -> None:
    """Hyperedges of a unary predicate agree in all other arguments, because there are none."""
    facts = [f"Actor(A{i})" for i in range(12)] + [f"Director(D{i})" for i in range(6)]
    graph = lift_graph(join(lapis.parse("Actor(person)\nDirector(person)"), " ".join(facts)))
    assert sorted(map(len, graph.members.values())) == [6, 12]


Atom = tuple[str, tuple[tuple[str, int], ...]]  # a predicate and its constants with their types
Cluster = frozenset[tuple[str, int]]
Pair = frozenset[Cluster]


class NaiveLifting:
    """The paper's definitions, from the true atoms and the clusters alone."""

    def __init__(self, data: TrainingData, prior: float) -> None:
        self.prior = prior
        self.true: list[Atom] = [
            (name, tuple(zip(predicate.types, row, strict=True)))
            for name, predicate in data.predicates.items()
            for row in data.tuples[name].tolist()
        ]

    def hyperedges(self, clusters: list[Cluster]) -> Counter[tuple[str, tuple[Cluster, ...]]]:
        """Return the cluster combinations with true atoms, and the number of these."""
        home = {constant: cluster for cluster in clusters for constant in cluster}
        return Counter((name, tuple(home[c] for c in row)) for name, row in self.true)

    def log_posterior(self, clusters: list[Cluster]) -> float:
        total = 0.0
        for (_, combination), true in self.hyperedges(clusters).items():
            atoms = prod(map(len, combination))
            total += cluster_log_likelihood(true, atoms) - self.prior
        return total

    def candidates(self, clusters: list[Cluster], type_name: str) -> set[Pair]:
        """Return pairs at the same argument of two hyperedges that are otherwise equal."""
        edges = list(self.hyperedges(clusters))
        pairs = set()
        for (name, left), (other_name, right) in combinations(edges, 2):
            differing = [p for p in range(len(left)) if other_name == name and left[p] != right[p]]
            if len(differing) == 1:
                a, b = left[differing[0]], right[differing[0]]
                if next(iter(a))[0] == type_name:
                    pairs.add(frozenset((a, b)))
        return pairs

    def gains(self, clusters: list[Cluster], type_name: str) -> dict[Pair, float]:
        before = self.log_posterior(clusters)
        found = {}
        for pair in self.candidates(clusters, type_name):
            found[pair] = self.log_posterior(merge(clusters, pair)) - before
        return found


def merge(clusters: list[Cluster], pair: Pair) -> list[Cluster]:
    return [*(c for c in clusters if c not in pair), frozenset().union(*pair)]


@pytest.mark.parametrize("prior", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("seed", range(4))
def test_each_type_merges_its_best_candidates_in_turn(seed: int, prior: float) -> None:
    """Follow algorithm 2 step by step; of equal gains any may be chosen."""
    data = random_data(seed)
    state, naive = Lifting(data, prior), NaiveLifting(data, prior)
    name_of = {node: constant for constant, node in state.number.items()}
    clusters = [frozenset([constant]) for constant in state.number]
    merges = merge_best_pairs(state)
    merged = True
    while merged:
        merged = False
        for type_name in dict.fromkeys(name for name, _ in state.number):
            gains = naive.gains(clusters, type_name)
            best = max(gains.values(), default=0.0)
            if best > 1e-9:
                left, right = (
                    next(c for c in clusters if name_of[node] in c) for node in next(merges)
                )
                pair = frozenset((left, right))
                assert gains[pair] == pytest.approx(best, abs=1e-9)
                clusters = merge(clusters, pair)
                merged = True
    assert next(merges, None) is None
    found = lift_graph(data, prior)
    assert {frozenset(members) for members in found.members.values()} == set(clusters)
    expected = naive.hyperedges(clusters)
    for edge, true in found.edges.items():
        combination = tuple(frozenset(found.members[node]) for node in edge.nodes)
        assert expected[edge.predicate, combination] == true
    assert len(found.edges) == len(expected)


def test_paths_of_a_small_graph() -> None:
    """The paths of a chain x → y → z."""
    model = lapis.parse("R(a, a)\nP(a)")
    data = join(model, "R(A,B) R(B,C) P(C)")
    found = {each.path for each in chain.from_iterable(find_paths(ground_graph(data), 3))}
    shown = {tuple((atom.predicate, atom.variables) for atom in path) for path in found}
    assert shown == {
        (("R", (0, 1)), ("R", (1, 2))),
        (("P", (0,)), ("R", (1, 0))),
        (("P", (0,)), ("R", (1, 0)), ("R", (2, 1))),
    }


def naive_paths(graph: LiftedGraph, max_literals: int) -> dict[Path, set[Hyperedge]]:
    """Return all connected sets of hyperedges, variabilised."""
    found: dict[Path, set[Hyperedge]] = defaultdict(set)
    for length in range(2, max_literals + 1):
        for chosen in combinations(graph.edges, length):
            nodes = list(dict.fromkeys(node for edge in chosen for node in edge.nodes))
            path = tuple(
                PathAtom(edge.predicate, tuple(nodes.index(n) for n in edge.nodes))
                for edge in chosen
            )
            if is_connected(path):
                found[canonicalize_clause(path).path].update(chosen)
    return found


@pytest.mark.parametrize("is_lifted", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_without_limits_all_paths_are_found(seed: int, is_lifted: bool) -> None:
    data = sparse_data(seed)
    graph = lift_graph(data) if is_lifted else ground_graph(data)
    found = list(chain.from_iterable(find_paths(graph, 4, max_variables=0, max_examples=0)))
    every = naive_paths(graph, 4)
    assert {each.path: set(each.edges) for each in found} == every
    closed = list(
        chain.from_iterable(
            find_paths(graph, 4, max_variables=0, max_examples=0, keeps_dangling=False)
        )
    )
    expected = {path: edges for path, edges in every.items() if not has_dangling(path)}
    assert {each.path: set(each.edges) for each in closed} == expected
    for limited in (
        list(chain.from_iterable(find_paths(graph, 4, max_variables=3, max_examples=0))),
        list(chain.from_iterable(find_paths(graph, 4, max_variables=0, max_examples=2))),
    ):
        assert all(each.edges <= every[each.path] for each in limited)
    few = list(chain.from_iterable(find_paths(graph, 4, max_variables=3, max_examples=0)))
    assert {each.path for each in few} == {
        path for path in every if len({v for atom in path for v in atom.variables}) <= 3
    }


def sparse_data(seed: int) -> TrainingData:
    generator = np.random.default_rng(seed)
    facts = [f"R(A{i},A{j})" for i in range(6) for j in range(6) if generator.random() < 0.2]
    facts += [f"T(A{i},B{j})" for i in range(6) for j in range(3) if generator.random() < 0.3]
    facts += [f"P(A{i})" for i in range(6) if generator.random() < 0.5]
    return join(lapis.parse("R(a, a)\nT(a, b)\nP(a)"), " ".join(facts))


def test_clusters_are_drawn_by_type_with_their_facts() -> None:
    """Single constants: an edge for each binary fact, a column for each type."""
    model = lapis.parse("R(a, a)\nT(a, b)\nP(a)")
    data = join(model, "R(A1,A2) R(A2,A2) T(A1,B1) P(A1)")
    drawn = draw_cluster_graph(data, ground_graph(data))
    names = [node.label for node in drawn.nodes]
    assert sorted(names) == ["a: A1", "a: A2", "b: B1"]
    layers = {node.label[0]: node.layer for node in drawn.nodes}
    assert [node.layer for node in drawn.nodes] == [layers[name[0]] for name in names]
    assert layers["a"] != layers["b"]
    facts = {(names[edge.source], names[edge.target]): edge.title for edge in drawn.edges}
    assert facts == {
        ("a: A1", "a: A2"): "R (1)",
        ("a: A2", "a: A2"): "R (1)",
        ("a: A1", "b: B1"): "T (1)",
    }
