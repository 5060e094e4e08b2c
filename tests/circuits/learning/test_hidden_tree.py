"""Hidden trees against sums over all hidden states; spanning trees against all trees."""

from __future__ import annotations

from itertools import combinations, product
from math import prod

import numpy as np
import pytest

from circuits.random_circuits import partial_rows
from lapis.circuits.circuit import Properties, find_properties
from lapis.circuits.evaluation import log_values
from lapis.circuits.learning import hidden_tree as module
from lapis.circuits.learning.hidden_tree import (
    PRUNED,
    HiddenTree,
    as_circuit,
    count_tree_edges,
    expected_counts,
    initial_tree,
    learn_hidden_tree,
    log_likelihoods,
    mutual_information,
    pair_counts,
    prune,
    spanning_tree,
    step_parameters,
)
from lapis.circuits.learning.learn_rows import learn_rows
from lapis.circuits.learning.mixture import marginal_states
from lapis.errors import LapisError
from lapis.runtime.progress import Progress, Stop

SIZES = (2, 3, 2, 1)
NAMES = ["a", "b", "c", "d"]
STATES = [[str(s) for s in range(size)] for size in SIZES]
PARENT = np.array([1, -1, 1, 2])
ORDER = np.array([1, 0, 2, 3])


def make_tree(num_hidden: int = 2, seed: int = 0) -> HiddenTree:
    rng = np.random.default_rng(seed)
    marginal = [rng.dirichlet(np.ones(size)) for size in SIZES]
    return initial_tree(ORDER, PARENT, marginal, num_hidden, rng)


def make_rows(num_rows: int, seed: int, missing: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 2, num_rows)
    rows = np.stack([(hidden + (rng.random(num_rows) < 0.2)) % size for size in SIZES], axis=1)
    return np.where(rng.random(rows.shape) < missing, -1, rows)


def joint(tree: HiddenTree, row: np.ndarray, hidden: tuple[int, ...]) -> float:
    """Return P of a row and hidden states by the definition."""
    chances = []
    for v, (p, own) in enumerate(zip(PARENT.tolist(), hidden, strict=True)):
        chances.append(float(tree.transition[v][hidden[p] if p >= 0 else 0, own]))
        if row[v] >= 0:
            chances.append(float(tree.emission[v][own, row[v]]))
    return prod(chances)


@pytest.mark.parametrize("num_hidden", [1, 2, 3])
def test_sums_over_hidden_states(num_hidden: int) -> None:
    tree = make_tree(num_hidden)
    rows = partial_rows(SIZES)
    worlds = list(product(range(num_hidden), repeat=len(SIZES)))
    table = np.array([[joint(tree, row, world) for world in worlds] for row in rows])
    np.testing.assert_allclose(log_likelihoods(tree, rows), np.log(table.sum(1)), atol=2e-6)
    circuit = as_circuit(tree, NAMES, STATES)
    np.testing.assert_allclose(log_values(circuit, rows), np.log(table.sum(1)), atol=2e-6)
    assert find_properties(circuit)[:2] == Properties(True, True, False)[:2]
    assert circuit.num_edges == count_tree_edges(PARENT, STATES, num_hidden)
    times = np.arange(1, len(rows) + 1)
    share = table / table.sum(1, keepdims=True) * times[:, None]
    value, expected = expected_counts(tree, rows, times, np.array(SIZES))
    assert value == pytest.approx(times @ np.log(table.sum(1)), rel=1e-5)
    for v, (p, size) in enumerate(zip(PARENT.tolist(), SIZES, strict=True)):
        pairs = np.zeros(tree.transition[v].shape)
        shown = np.zeros((num_hidden, size))
        for column, world in enumerate(worlds):
            pairs[world[p] if p >= 0 else 0, world[v]] += share[:, column].sum()
            for state in range(size):
                shown[world[v], state] += share[rows[:, v] == state, column].sum()
        np.testing.assert_allclose(expected.transition[v], pairs, rtol=1e-4)
        np.testing.assert_allclose(expected.emission[v], shown, rtol=1e-4)


def test_whole_steps_climb() -> None:
    """log P(data) + prior · Σ p log θ never falls, with missing values too."""
    rows, prior = make_rows(80, 1, missing=0.3), 2.0
    marginal = marginal_states(rows, np.ones(len(rows)), STATES)
    tree, times = make_tree(3), np.ones(len(rows), np.int64)

    def objective() -> float:
        total = float(log_likelihoods(tree, rows).sum())
        for transition, emission, own in zip(tree.transition, tree.emission, marginal, strict=True):
            total += prior * float(np.log(transition).mean(axis=1).sum())
            total += prior * float((np.log(emission) @ own).sum())
        return total

    values = [objective()]
    for _ in range(15):
        _, expected = expected_counts(tree, rows, times, np.array(SIZES))
        tree = step_parameters(tree, expected, 1.0, 1.0, prior, marginal)
        values.append(objective())
    assert (np.diff(values) > -1e-3).all()  # single precision of hundreds
    assert values[-1] > values[0] + 1


def test_it_comes_to_the_optimum() -> None:
    """Two hidden states suffice for two binary variables: EM reaches the entropy of the data."""
    counts = {(0, 0): 300, (0, 1): 50, (1, 0): 100, (1, 1): 150}
    rows = np.array([row for row, count in counts.items() for _ in range(count)])
    tree, converged = learn_hidden_tree(rows, [["0", "1"]] * 2, num_hidden=2, prior=1e-6)
    assert converged
    chance = np.array(list(counts.values())) / 600
    best = float(chance @ np.log(chance))
    assert log_likelihoods(tree, rows).mean() == pytest.approx(best, abs=1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_the_tree_is_the_best_of_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = make_rows(60, seed, missing=0.2)
    rows[:, 2] = np.where(rng.random(60) < 0.7, rows[:, 0], rows[:, 2])
    rows[-1] = [1, 2, 1, 0]
    weight = mutual_information(pair_counts(rows, STATES), STATES)

    def by_definition(u: int, v: int) -> float:
        both = rows[(rows[:, u] >= 0) & (rows[:, v] >= 0)]
        table = np.full((SIZES[u], SIZES[v]), 0.1 / SIZES[u] / SIZES[v])
        np.add.at(table, (both[:, u], both[:, v]), 1.0)
        table /= table.sum()
        return float((table * np.log(table / np.outer(table.sum(1), table.sum(0)))).sum())

    edges = list(combinations(range(len(SIZES)), 2))
    for u, v in edges:
        assert weight[u, v] == pytest.approx(by_definition(u, v), abs=1e-10)

    def is_tree(chosen: tuple[tuple[int, int], ...]) -> bool:
        reached = {0}
        for _ in SIZES:
            reached |= {b for pair in chosen for a, b in (pair, pair[::-1]) if a in reached}
        return len(reached) == len(SIZES)

    trees = [chosen for chosen in combinations(edges, len(SIZES) - 1) if is_tree(chosen)]
    assert len(trees) == 16
    best = max(sum(weight[edge] for edge in chosen) for chosen in trees)
    order, parent = spanning_tree(weight)
    assert sorted(order.tolist()) == list(range(len(SIZES)))
    found = [(v, p) for v, p in enumerate(parent.tolist()) if p >= 0]
    assert all(order.tolist().index(p) < order.tolist().index(v) for v, p in found)
    assert sum(weight[edge] for edge in found) == pytest.approx(best, abs=1e-12)


def test_transitions_that_nobody_misses_are_cut_off() -> None:
    """The best threshold on held-out rows is chosen; removed transitions have no edges."""
    tree, rows = make_tree(3), make_rows(200, 4, missing=0.1)
    rare = np.array([[0.996, 0.0025, 0.0015], [0.001, 0.9985, 0.0005], [0.3, 0.3, 0.4]], np.float32)
    tree = tree._replace(transition=[rare, *tree.transition[1:]])
    found = prune(tree, rows)
    values = []
    for least in PRUNED:
        kept = [np.where(one < least, 0, one) for one in tree.transition]
        one = tree._replace(transition=[k / k.sum(axis=1, keepdims=True) for k in kept])
        values.append(log_likelihoods(one, rows).mean())
    assert log_likelihoods(found, rows).mean() == pytest.approx(max(values), abs=1e-7)
    share = np.where(rare < 2e-3, 0, rare)
    cut = tree._replace(transition=[share / share.sum(1, keepdims=True), *tree.transition[1:]])
    circuit = as_circuit(cut, NAMES, STATES)
    assert circuit.num_edges == count_tree_edges(PARENT, STATES, 3) - 3 * int((share == 0).sum())
    np.testing.assert_allclose(log_values(circuit, rows), log_likelihoods(cut, rows), atol=2e-6)


def test_by_way_of_the_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEPS", 60)
    train, valid = make_rows(300, 2, missing=0.1), make_rows(100, 3, missing=0.1)
    seen: list[Progress] = []
    arguments = {"method": "tree", "num_components": 3, "num_starts": 2, "seed": 5}
    found = learn_rows(train, valid, NAMES, STATES, progress=seen.append, **arguments)  # type: ignore[arg-type]
    again = learn_rows(train, valid, NAMES, STATES, **arguments)  # type: ignore[arg-type]
    assert (found.fit.log_likelihoods(valid) == again.fit.log_likelihoods(valid)).all()
    assert found.fit.converged
    assert {event.phase for event in seen} == {"passes"}
    alone = learn_rows(train, None, NAMES, STATES, method="tree", num_components=1)
    assert found.fit.log_likelihoods(valid).mean() > alone.fit.log_likelihoods(valid).mean()
    complete = partial_rows(SIZES)
    complete = complete[(complete >= 0).all(axis=1)]
    assert np.exp(found.fit.log_likelihoods(complete)).sum() == pytest.approx(1, abs=1e-9)
    limit = found.fit.circuit.num_edges - 1
    small = learn_rows(train, valid, NAMES, STATES, max_edges=limit, **arguments)  # type: ignore[arg-type]
    assert small.fit.circuit.num_edges <= limit
    wishes = iter([False] * 20 + [True])
    ended = learn_rows(train, valid, NAMES, STATES, stop=Stop(lambda: next(wishes)), **arguments)  # type: ignore[arg-type]
    assert not ended.fit.converged
    assert np.exp(ended.fit.log_likelihoods(complete)).sum() == pytest.approx(1, abs=1e-9)
    with pytest.raises(LapisError, match="method 'tree' does not read costs of edges"):
        learn_rows(train, valid, NAMES, STATES, method="tree", edge_costs=(0.5,))
