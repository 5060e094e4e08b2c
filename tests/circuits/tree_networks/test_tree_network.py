"""Networks with decision trees, against splits by hand and enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numba import njit

from circuits.learning.test_split_search import Definition, make
from lapis.circuits.circuit_files import load_circuit, load_stored_network, save_circuit
from lapis.circuits.compilation.compile_model import compile_factors
from lapis.circuits.evaluation import log_partition, log_values
from lapis.circuits.learning.learn_rows import learn_rows
from lapis.circuits.learning.split_search import learn_circuit
from lapis.circuits.tree_networks.compile_network import compile_network, compile_splits, tables_of
from lapis.circuits.tree_networks.tbn_files import format_network, parse_network
from lapis.circuits.tree_networks.tree_gibbs import (
    TreeChainOptions,
    children_of,
    draw_variable,
    estimate_conditionals,
    estimate_marginals,
    new_cache,
    sample_given,
)
from lapis.circuits.tree_networks.tree_network import TreeNetwork, tree_arrays
from lapis.errors import LapisError, TooLarge
from lapis.inference.random_numbers import random_states
from lapis.runtime.progress import Stop

SEEDS = range(8)


def learn(seed: int, parameter_cost: float = 0.3, prior: str | float = "libra") -> TreeNetwork:
    data, _, names, states = make(300 + seed, most=5)
    found = learn_circuit(
        data, names, states, edge_cost=0.0, parameter_cost=parameter_cost, prior=prior
    )
    assert found.circuit is None
    return found.network


def all_worlds(network: TreeNetwork) -> np.ndarray:
    sizes = [len(states) for states in network.states]
    return np.array([*itertools.product(*map(range, sizes))], np.int32)


def leaf_of(network: TreeNetwork, own: int, world: np.ndarray) -> int:
    node = own
    while network.split_on[node] >= 0:
        node = int(network.first_child[node]) + int(world[network.split_on[node]])
    return node


def probability(network: TreeNetwork, world: np.ndarray) -> float:
    """Return Π_X P(x | parents), each from the tree of X."""
    found = 1.0
    for own in range(len(network.names)):
        at = int(network.first_parameter[leaf_of(network, own, world)]) + int(world[own])
        found *= math.exp(network.log_parameter[at])
    return found


class AnyPrior(Definition):
    """The definition with a prior count for each state."""

    def __init__(self, data: np.ndarray, sizes: tuple[int, ...], each: list[float]) -> None:
        super().__init__(data, sizes, 1.0)
        self.each = each

    def distribution(self, own: int, context: dict[int, int]) -> np.ndarray:
        rows = self.data
        for variable, state in context.items():
            rows = rows[rows[:, variable] == state]
        count = np.bincount(rows[:, own], minlength=self.sizes[own]) + self.each[own]
        return np.asarray(count / count.sum())

    def score(self, own: int, context: dict[int, int], parameter_cost: float) -> float:
        rows = self.data
        for variable, state in context.items():
            rows = rows[rows[:, variable] == state]
        value = np.log(self.distribution(own, context))[rows[:, own]].sum()
        return float(value) - parameter_cost * self.sizes[own]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("prior", ["libra", "thesis", 0.7])
def test_without_a_circuit_every_split_is_the_best(seed: int, prior: str | float) -> None:
    """Each split has the highest gain of all valid ones; at the end none has a positive gain."""
    data, sizes, names, states = make(300 + seed, most=5)
    cost = 0.3
    each = [1.0 if prior == "thesis" else (1.0 if prior == "libra" else 0.7) / n for n in sizes]
    for method in ("greedy", "quick"):
        found = learn_circuit(
            data, names, states, edge_cost=0.0, parameter_cost=cost, prior=prior, method=method
        )
        assert found.circuit is None
        wanted = AnyPrior(data, sizes, each)

        def gain(number: int, on: int, wanted: AnyPrior = wanted) -> float:
            own, context = wanted.leaves[number]
            after = sum(wanted.score(own, {**context, on: s}, cost) for s in range(sizes[on]))
            return after - wanted.score(own, context, cost)

        network = found.network
        splits = np.flatnonzero(network.split_on >= 0)
        for number in splits[np.argsort(network.first_child[splits])].tolist():
            best = max(gain(*split) for split in wanted.valid_splits())
            made = number, int(network.split_on[number])
            assert wanted.is_valid(*made)
            assert gain(*made) == pytest.approx(best, abs=1e-9)
            assert best > 0
            wanted.split(*made)
        assert max((gain(*split) for split in wanted.valid_splits()), default=0) <= 1e-9
        assert found.num_splits == len(splits)
        total = sum(wanted.score(*leaf, cost) for leaf in wanted.leaves.values())
        score = found.log_likelihood - cost * network.num_parameters
        assert score == pytest.approx(total, abs=1e-8)


@pytest.mark.parametrize("seed", SEEDS)
def test_likelihood_is_the_product_of_distributions(seed: int) -> None:
    network = learn(seed)
    worlds = all_worlds(network)
    wanted = [probability(network, world) for world in worlds]
    assert sum(wanted) == pytest.approx(1.0, abs=1e-10)
    np.testing.assert_allclose(np.exp(network.log_likelihoods(worlds)), wanted, rtol=1e-10)
    np.testing.assert_allclose(np.exp(tables_of(network).log_score(worlds)), wanted, rtol=1e-10)


@pytest.mark.parametrize("seed", SEEDS)
def test_text_comes_back_as_it_was(seed: int) -> None:
    network = learn(seed)
    again = parse_network(format_network(network))
    assert (again.names, again.states) == (network.names, network.states)
    for name in ("variable", "split_on", "first_child", "first_parameter", "log_parameter"):
        np.testing.assert_array_equal(getattr(again, name), getattr(network, name))


def test_names_that_must_be_quoted() -> None:
    data = np.array([[0, 0]] * 6 + [[1, 1]] * 3, np.int32)
    names = ["Friends(Anna, Bob)", 'a "b" = c']
    states = [["no way", "yes"], ["//", "table"]]
    network = learn_circuit(data, names, states, edge_cost=0.0).network
    again = parse_network(format_network(network))
    assert (again.names, again.states) == (network.names, network.states)
    np.testing.assert_array_equal(again.log_parameter, network.log_parameter)


HEAD = (
    "variable a { type discrete [ 2 ] { x, y }; }\nvariable b { type discrete [ 2 ] { x, y }; }\n"
)
A = "probability ( a ) { table 0.5, 0.5; }\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("varible a", "1:1: expected a block of a network"),
        (HEAD + A, "4:1: b has no distribution"),
        (HEAD + A + "probability ( b ) { table 0.5, 0.6; }", "these probabilities do not sum to 1"),
        (HEAD + A + "probability ( b ) { table 0.5; }", "4:21: 2 numbers expected, not 1"),
        (HEAD + A + "probability ( b ) { table x, 1; }", "4:27: expected a probability"),
        (HEAD + A + "probability ( b | c ) { }", "4:19: unknown variable 'c'"),
        (HEAD + A + "probability ( b ) { case a = x: table 1, 0; case a = y: table 0, 1; }",
         "4:26: a is no parent, or was split on above"),
        (HEAD + A + "probability ( b | a ) { case a = z: table 1, 0; }",
         "4:34: unknown state of a 'z'"),
        (HEAD + A + "probability ( b | a ) { case a = x: table 1, 0; case a = x: table 1, 0; }",
         "4:58: this state has a case already"),
        (HEAD + A + "probability ( b | a ) { case a = x: table 1, 0; }", "expected `case`"),
        (HEAD + A + "probability ( b | a ) { split x: case a = x: table 1, 0; }",
         "expected the number of a split"),
        (HEAD + A + A, "a second distribution of a"),
        (HEAD + HEAD, "3:10: a second variable a"),
        ("variable a { type discrete [ 3 ] { x, y }; }", "a should have 3 different states"),
        ("variable a { type discrete [ 2 ] { x, y }; ", "expected `}`"),
        ("", "the network has no variables"),
        (HEAD + "probability ( a | b ) { case b = x: table 1, 0; case b = y: table 1, 0; }\n"
         "probability ( b | a ) { case a = x: table 1, 0; case a = y: table 1, 0; }",
         "the parents form a cycle"),
    ],
)  # fmt: skip
def test_texts_that_are_no_networks(text: str, message: str) -> None:
    with pytest.raises(LapisError) as raised:
        parse_network(text, "n.tbn")
    assert message in str(raised.value).splitlines()[0]
    assert str(raised.value).startswith("n.tbn:")


def moral_neighbours(network: TreeNetwork) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {v: set() for v in range(len(network.names))}
    for own in range(len(network.names)):
        asked: set[int] = set()
        agenda = [own]
        while agenda:
            node = agenda.pop()
            on = int(network.split_on[node])
            if on >= 0:
                asked.add(on)
                first = int(network.first_child[node])
                agenda += range(first, first + len(network.states[on]))
        assert asked == network.parents()[own]
        for one, other in itertools.permutations({own, *asked}, 2):
            found[one].add(other)
    return found


def eliminate(near: dict[int, set[int]], v: int) -> int:
    """Connect the neighbours of a variable and remove it; return their number."""
    own = near.pop(v)
    for u in own:
        near[u] = (near[u] | own) - {u, v}
    return len(own)


@pytest.mark.parametrize("seed", range(12))
def test_treewidth_is_that_of_min_fill(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 2, (60, 7))
    data[:, 1::2] ^= data[:, :6:2] & (rng.random((60, 3)) < 0.8)
    names, states = [f"x{v}" for v in range(7)], [["0", "1"]] * 7
    network = learn_circuit(data, names, states, edge_cost=0.0, parameter_cost=0.8).network
    near, width = moral_neighbours(network), 0
    while near:

        def fill(v: int) -> int:
            return sum(b not in near[a] for a, b in itertools.combinations(near[v], 2))

        v = min(near, key=lambda v: (fill(v), len(near[v]), v))
        width = max(width, eliminate(near, v))
    assert network.treewidth() == width
    exact = len(names)
    for order in itertools.permutations(range(7)) if seed < 1 else ():
        near = moral_neighbours(network)
        exact = min(exact, max(eliminate(near, v) for v in order))
    assert seed >= 1 or network.treewidth() >= exact


@pytest.mark.parametrize("seed", SEEDS)
def test_leaves_parents_and_parameters(seed: int) -> None:
    network = learn(seed)
    contexts = set()
    for world in all_worlds(network):
        contexts |= {(own, leaf_of(network, own, world)) for own in range(len(network.names))}
    assert network.num_leaves == len(contexts)
    assert network.num_parameters == sum(len(network.states[own]) for own, _ in contexts)
    for own, parents in enumerate(network.parents()):
        changing = set()
        for world in all_worlds(network):
            for v, states in enumerate(network.states):
                for state in range(len(states)):
                    other = world.copy()
                    other[v] = state
                    if leaf_of(network, own, world) != leaf_of(network, own, other):
                        changing.add(v)
        assert parents == changing


@pytest.mark.parametrize("seed", SEEDS)
def test_compiled_circuits_compute_the_network(seed: int) -> None:
    network = learn(seed)
    rng = np.random.default_rng(seed)
    sizes = np.array([len(states) for states in network.states])
    worlds = all_worlds(network)
    each = np.array([probability(network, world) for world in worlds])
    for share in (0.0, 0.4):
        row = np.where(rng.random(len(sizes)) < share, rng.integers(sizes), -1).astype(np.int32)
        agrees = ((row < 0) | (worlds == row)).all(axis=1)
        wanted = np.where(agrees, each, 0.0)
        fixed = network.given(row)
        circuits = [compile_network(fixed).circuit, compile_factors(tables_of(fixed)).circuit]
        by_splits, edges, num_made = compile_splits(fixed, 1 << 20, Stop())
        assert by_splits is not None
        assert (edges, num_made) == (by_splits.num_edges, int((fixed.split_on >= 0).sum()))
        assert circuits[0].num_edges == min(edges, circuits[1].num_edges)
        for circuit in (*circuits, by_splits):
            np.testing.assert_allclose(
                np.exp(log_values(circuit, worlds)), wanted, rtol=1e-10, atol=1e-300
            )
            assert math.exp(log_partition(circuit)) == pytest.approx(wanted.sum(), rel=1e-10)


@pytest.mark.parametrize("seed", SEEDS)
def test_splits_in_their_order_give_the_learned_circuit(seed: int) -> None:
    data, _, names, states = make(300 + seed, most=6)
    learned = learn_circuit(data, names, states, edge_cost=0.02)
    assert learned.circuit is not None
    for network in (learned.network, parse_network(format_network(learned.network))):
        circuit, _, _ = compile_splits(network, 1 << 20, Stop())
        assert circuit is not None
        np.testing.assert_array_equal(circuit.child, learned.circuit.child)
        np.testing.assert_array_equal(circuit.leaf, learned.circuit.leaf)


def test_too_large_a_circuit_is_refused() -> None:
    network = learn(1, parameter_cost=0.0)
    with pytest.raises(TooLarge, match="no circuit of at most 5 edges was found: 0 of"):
        compile_network(network, max_edges=5)


def test_a_family_too_large_for_a_table() -> None:
    rng = np.random.default_rng(0)
    data = rng.integers(0, 2, (4000, 18))
    data[:, 17] = data[:, :17].sum(axis=1) > 8
    names, states = [f"x{v}" for v in range(18)], [["0", "1"]] * 18
    allowed = np.zeros((18, 18), np.bool_)
    allowed[17] = True
    network = learn_circuit(data, names, states, edge_cost=0.0, allowed=allowed).network
    assert len(network.parents()[17]) == 17
    with pytest.raises(TooLarge, match=r"would have 2\.6e\+05 entries, more than 65,536"):
        tables_of(network)
    compiled = compile_network(network)
    assert compiled.method == "splits"
    rows = data[:50].astype(np.int32)
    np.testing.assert_allclose(log_values(compiled.circuit, rows), network.log_likelihoods(rows))


@njit
def draw(trees, child_start, child, v, cache, rng, row):  # type: ignore[no-untyped-def]
    draw_variable(trees, child_start, child, v, cache, rng, row)


@pytest.mark.parametrize("seed", range(4))
def test_kept_weights_are_those_of_the_row(seed: int) -> None:
    """Weights that are still valid after many draws are the conditional probabilities."""
    network = learn(seed)
    trees, children = tree_arrays(network), children_of(network)
    cache, rng = new_cache(trees.size), random_states(seed, 1)[0]
    row = np.zeros(len(trees.size), np.int32)
    num_kept = 0
    for variable in np.random.default_rng(seed).integers(0, len(row), 200):
        num_kept += bool(cache.is_valid[variable])
        draw(trees, *children, variable, cache, rng, row)
        for v in np.flatnonzero(cache.is_valid):
            worlds = np.repeat(row[None], trees.size[v], axis=0)
            worlds[:, v] = np.arange(trees.size[v])
            weight = np.array([probability(network, world) for world in worlds])
            found = cache.weight[v, : trees.size[v]]
            np.testing.assert_allclose(found / found.sum(), weight / weight.sum(), rtol=1e-9)
    assert num_kept > 0


@pytest.mark.parametrize("seed", range(4))
def test_gibbs_against_enumeration(seed: int) -> None:
    """Estimates are within four standard errors, for events and for all marginals."""
    network = learn(seed)
    rng = np.random.default_rng(seed)
    worlds = all_worlds(network)
    each = np.array([probability(network, world) for world in worlds])
    sizes = [len(states) for states in network.states]
    row = np.full(len(sizes), -1, np.int32)
    row[0] = rng.integers(sizes[0])
    query = np.where(np.arange(len(sizes)) > 0, rng.integers(sizes), -1)
    weight = each * (worlds[:, 0] == row[0])
    weight /= weight.sum()
    asked = weight[(worlds[:, 1:] == query[1:]).all(axis=1)].sum()
    options = TreeChainOptions(num_chains=8, num_sweeps=4000, seed=seed)
    found = estimate_conditionals(network, query[None], row[None], options)
    assert abs(math.exp(found.log_probability[0]) - asked) < 4 * found.stderr[0]
    assert 0 < found.stderr[0] < 0.02
    assert found.rhat[0] < 1.05
    found = estimate_marginals(network, row, options)
    exact = [weight[worlds[:, v] == s].sum() for v, n in enumerate(sizes) for s in range(n)]
    errors = np.abs(np.exp(found.log_probability) - exact)
    free = np.repeat(np.arange(len(sizes)), sizes) > 0
    assert (errors < 4 * found.stderr + 1e-4)[free].all()
    contradiction = estimate_conditionals(
        network,
        np.where(np.arange(len(sizes)) == 0, (row[0] + 1) % sizes[0], -1)[None],
        row[None],
        options,
    )
    assert contradiction.log_probability[0] == -np.inf


def test_chains_that_disagree_are_seen() -> None:
    """Chains on two nearly equal coins stay where they began."""
    text = (
        "variable a { type discrete [ 2 ] { x, y }; } variable b { type discrete [ 2 ] { x, y }; }"
        "probability ( a ) { table 0.5, 0.5; } probability ( b | a ) {"
        " case a = x: table 0.999999, 0.000001; case a = y: table 0.000001, 0.999999; }"
    )
    network = parse_network(text)
    row = np.full((1, 2), -1)
    options = TreeChainOptions(num_chains=10, num_sweeps=500)
    found = estimate_conditionals(network, np.array([[0, -1]]), row, options)
    assert found.rhat[0] > 2
    assert found.stderr[0] > 0.1


@pytest.mark.parametrize("seed", range(3))
def test_samples_have_the_distribution(seed: int) -> None:
    network = learn(seed)
    worlds = all_worlds(network)
    each = np.array([probability(network, world) for world in worlds])
    number = {tuple(world): place for place, world in enumerate(worlds.tolist())}
    row = np.full(len(network.names), -1, np.int32)
    row[0] = 0
    given = each * (worlds[:, 0] == 0)
    for drawn, wanted in (
        (network.draw_samples(20_000, seed), each),
        (sample_given(network, 20_000, row, 60, seed), given / given.sum()),
    ):
        count = np.bincount([number[tuple(one)] for one in drawn.tolist()], minlength=len(worlds))
        error = np.sqrt(wanted * (1 - wanted) / len(drawn))
        assert (np.abs(count / len(drawn) - wanted) <= 4.5 * error + 1e-9).all()


def test_a_file_of_a_circuit_keeps_its_network(tmp_path: object) -> None:
    data, _, names, states = make(301, most=5)
    learned = learn_circuit(data, names, states, edge_cost=0.02)
    assert learned.circuit is not None
    path = f"{tmp_path}/c.npz"
    save_circuit(learned.circuit, path, learned.network)
    again = load_stored_network(path, load_circuit(path))
    assert again is not None
    np.testing.assert_array_equal(again.split_on, learned.network.split_on)
    save_circuit(learned.circuit, path)
    assert load_stored_network(path, load_circuit(path)) is None
    broken = learned.network
    broken.first_child[np.argmax(broken.split_on >= 0)] = 10**6
    save_circuit(learned.circuit, path, broken)
    with pytest.raises(LapisError, match="the network in this file is damaged"):
        load_stored_network(path, load_circuit(path))


def test_priors_by_their_formulas() -> None:
    """θ_j = (N_j + α) / (N + r α), of a variable with three states and one with two."""
    data = np.array([[0, 0], [0, 1], [1, 1]])
    states = [["a", "b", "c"], ["0", "1"]]
    for prior, alphas in (("thesis", (1, 1)), ("libra", (1 / 3, 1 / 2)), (3.0, (1, 1.5))):
        found = learn_rows(data, None, ["x", "y"], states, edge_costs=(9.0,), prior=prior)
        assert found.fit.network is not None
        wanted = np.concatenate(
            [
                (np.array(count) + alpha) / (3 + len(count) * alpha)
                for count, alpha in zip(([2, 1, 0], [1, 2]), alphas, strict=True)
            ]
        )
        np.testing.assert_allclose(np.exp(found.fit.network.log_parameter), wanted, rtol=1e-12)


def test_costs_that_keep_no_circuit() -> None:
    data, _, names, states = make(301, most=5)
    chosen = learn_rows(data, data, names, states, edge_costs=(0.0, 5.0))
    assert chosen.edge_cost == 0.0
    assert chosen.fit.circuit is None
    assert [trial.edges is None for trial in chosen.trials] == [False, True]
    for arguments in ({"num_components": 2}, {"num_starts": 2}):
        with pytest.raises(LapisError, match="with an edge cost of 0 no circuit is kept"):
            learn_rows(data, None, names, states, edge_costs=(0.0,), **arguments)  # type: ignore[arg-type]
    partly = data.copy()
    partly[0, 0] = -1
    with pytest.raises(LapisError, match="rows with missing values need a circuit"):
        chosen.fit.log_likelihoods(partly)
    with pytest.raises(LapisError, match="prior 'thesis' belongs to"):
        learn_rows(data, None, names, states, method="tree", prior="thesis")
