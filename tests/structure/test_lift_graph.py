"""LiftGraph: gains against the log-posterior from scratch, and planted clusters found again."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

import lapis
from lapis.structure.lift_graph import Lifting, ground_graph, lift_graph, log_likelihood
from lapis.structure.paths.find_paths import find_paths
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
    """From scratch: Σ over hyperedges."""
    sizes = {edge: prod(state.size[node] for node in edge.nodes) for edge in state.edges}
    found = [log_likelihood(true, sizes[edge]) for edge, true in state.edges.items()]
    return sum(found) - state.prior * len(found)


@pytest.mark.parametrize("seed", range(8))
def test_gains_are_differences_of_the_log_posterior(seed: int) -> None:
    """Merged at random, so that clusters of several sizes meet."""
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

    An exception costs about five nats, so where there are some the prior must cost more than a
    cluster of its own would save.
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


def test_paths_of_a_small_graph() -> None:
    """A chain x → y → z: by hand."""
    model = lapis.parse("R(a, a)\nP(a)")
    data = join(model, "R(A,B) R(B,C) P(C)")
    found = {each.path for each in find_paths(ground_graph(data), 3)}
    shown = {tuple((atom.predicate, atom.variables) for atom in path) for path in found}
    assert shown == {
        (("R", (0, 1)), ("R", (1, 2))),
        (("P", (0,)), ("R", (1, 0))),
        (("P", (0,)), ("R", (1, 0)), ("R", (2, 1))),
    }
