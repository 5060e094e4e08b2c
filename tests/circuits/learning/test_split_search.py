"""LearnAC against its definition: splits as sets of contexts, probabilities counted from rows."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest

from circuits.random_circuits import partial_rows, restrict
from lapis.circuits.circuit import Properties, find_properties
from lapis.circuits.evaluation import log_conditionals, log_values
from lapis.circuits.learning.split_kernel import NO_LIMIT, edge_cost, split_circuit
from lapis.circuits.learning.split_search import CircuitSearch, learn_circuit
from lapis.circuits.tree_networks.tbn_files import format_network
from lapis.circuits.tree_networks.tree_gibbs import TreeChainOptions, estimate_conditionals
from lapis.errors import LapisError
from lapis.runtime.progress import Stop

Context = dict[int, int]


class Definition:
    """A Bayesian network as the contexts of its leaves, without a circuit."""

    def __init__(self, data: np.ndarray, sizes: tuple[int, ...], prior: float) -> None:
        self.data, self.sizes, self.prior = data, sizes, prior
        self.leaves: dict[int, tuple[int, Context]] = {v: (v, {}) for v in range(len(sizes))}
        self.num_distributions = len(sizes)

    def split(self, number: int, on: int) -> None:
        own, context = self.leaves.pop(number)
        for state in range(self.sizes[on]):
            self.leaves[self.num_distributions] = (own, {**context, on: state})
            self.num_distributions += 1

    def distribution(self, own: int, context: Context) -> np.ndarray:
        rows = self.data
        for variable, state in context.items():
            rows = rows[rows[:, variable] == state]
        count = np.bincount(rows[:, own], minlength=self.sizes[own])
        size = self.sizes[own]
        return (count + self.prior / size) / (len(rows) + self.prior)

    def table(self) -> np.ndarray:
        """Return P of every world."""
        found = np.ones(self.sizes)
        parts = [(own, context, self.distribution(own, context)) for own, context in
                 self.leaves.values()]  # fmt: skip
        for world in itertools.product(*map(range, self.sizes)):
            for own, context, theta in parts:
                if all(world[v] == s for v, s in context.items()):
                    found[world] *= theta[world[own]]
        return found

    def is_valid(self, number: int, on: int) -> bool:
        """Whether the split is new in its context and closes no cycle."""
        own, context = self.leaves[number]
        if on == own or on in context:
            return False
        above, agenda = set(), [on]
        while agenda:
            variable = agenda.pop()
            if variable not in above:
                above.add(variable)
                agenda += [p for v, c in self.leaves.values() if v == variable for p in c]
        return own not in above

    def valid_splits(self) -> list[tuple[int, int]]:
        return [
            (number, on)
            for number in self.leaves
            for on in range(len(self.sizes))
            if self.is_valid(number, on)
        ]


def make(
    seed: int, most: int = 4, largest: int = 3
) -> tuple[np.ndarray, tuple[int, ...], list[str], list[list[str]]]:
    """Return correlated rows of a few variables, some with three states."""
    rng = np.random.default_rng(seed)
    sizes = tuple(int(n) for n in rng.integers(2, largest + 1, rng.integers(2, most + 1)))
    data = np.empty((int(rng.integers(5, 90)), len(sizes)), np.int32)
    hidden = rng.integers(0, 3, len(data))
    for v, size in enumerate(sizes):
        noise = rng.random(len(data)) < 0.3
        data[:, v] = np.where(noise, rng.integers(0, size, len(data)), (hidden + v) % size)
    names = [f"x{v}" for v in range(len(sizes))]
    return data, sizes, names, [[str(s) for s in range(size)] for size in sizes]


@pytest.mark.parametrize("seed", range(25))
def test_every_split_computes_the_network_polynomial(seed: int) -> None:
    """Make random valid splits; compare the circuit with the definition after each."""
    data, sizes, names, states = make(seed)
    rng = np.random.default_rng(seed)
    search = CircuitSearch(data, names, states, edge_cost=0.1, parameter_cost=0.0, prior=1.0)
    definition = Definition(data, sizes, 1.0)
    rows = partial_rows(sizes)
    for _ in range(9):
        splits = definition.valid_splits()
        if not splits:
            break
        number, on = splits[int(rng.integers(len(splits)))]
        own = search.variable[number]
        search.grow_walk()
        predicted = edge_cost(
            search.graph, search.layout, search.walk, search.first_parameter[number], sizes[own],
            on, NO_LIMIT,
        )  # fmt: skip
        before = search.num_edges
        assert search.split(number, on, greedy=True)
        definition.split(number, on)
        assert search.num_edges - before == predicted
        learned = search.finish(False)
        circuit, table = learned.circuit, definition.table()
        assert circuit is not None
        assert find_properties(circuit) == Properties(True, True, True) == circuit.properties
        wanted = [restrict(table, row).sum() for row in rows]
        np.testing.assert_allclose(np.exp(log_values(circuit, rows)), wanted, rtol=1e-10)
        complete = rows[(rows >= 0).all(axis=1)]
        np.testing.assert_allclose(
            learned.network.log_likelihoods(complete), np.log(table[tuple(complete.T)]), rtol=1e-10
        )
        total = np.log(table[tuple(data.T)]).sum()
        assert search.log_likelihood == pytest.approx(total, rel=1e-10)
        assert search.score == pytest.approx(total - 0.1 * circuit.num_edges, rel=1e-10)


@pytest.mark.parametrize("seed", range(10))
def test_limits_only_cut_what_is_above_them(seed: int) -> None:
    """With a limit the cost of Boolean variables is the same, or both exceed the limit."""
    data, sizes, names, states = make(seed, most=6, largest=2)
    rng = np.random.default_rng(seed)
    search = CircuitSearch(data, names, states, edge_cost=0.1, parameter_cost=0.0, prior=1.0)
    definition = Definition(data, sizes, 1.0)
    for _ in range(25):
        splits = definition.valid_splits()
        if not splits:
            break
        search.grow_walk()
        for number, on in splits:
            arguments = (search.graph, search.layout, search.walk, search.first_parameter[number])
            cost = edge_cost(*arguments, 2, on, NO_LIMIT)
            assert cost >= 0
            for limit in (0, cost - 1, cost, cost + 1, cost // 2):
                found = edge_cost(*arguments, 2, on, limit)
                assert found == cost if cost <= limit else found > limit
        number, on = splits[int(rng.integers(len(splits)))]
        search.split(number, on, greedy=False)
        definition.split(number, on)


@pytest.mark.parametrize("seed", range(10))
def test_greedy_makes_the_best_split(seed: int) -> None:
    """Compare with all valid splits, built and scored; half of the data are Boolean."""
    data, sizes, names, states = make(100 + seed, largest=2 + seed % 2)
    price, parameter_price = 0.3, 0.2
    search = CircuitSearch(data, names, states, price, parameter_price, 1.0)
    definition = Definition(data, sizes, 1.0)

    def score_after(number: int, on: int) -> float:
        own, size = search.variable[number], sizes[search.variable[number]]
        graph = split_circuit(
            search.graph, search.layout, search.walk, search.first_parameter[number], size, on,
            search.num_parameters,
        )  # fmt: skip
        _, context = definition.leaves[number]

        def value(context: Context) -> float:
            rows = data
            for v, s in context.items():
                rows = rows[rows[:, v] == s]
            return float(np.log(definition.distribution(own, context))[rows[:, own]].sum())

        gain = sum(value({**context, on: s}) for s in range(sizes[on])) - value(context)
        edges = len(graph.child) - search.num_edges
        return gain - price * edges - parameter_price * size * (sizes[on] - 1)

    for _ in range(12):
        search.grow_walk()
        scores = [score_after(*split) for split in definition.valid_splits()]
        found = search.find_split("greedy")
        if found is None:
            assert max(scores, default=-1.0) <= 1e-9
            break
        assert definition.is_valid(*found)
        assert score_after(*found) == pytest.approx(max(scores), abs=1e-9)
        before = search.score
        expected = before + score_after(*found)
        search.split(*found, greedy=True)
        definition.split(*found)
        assert search.score == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("seed", range(12))
def test_a_cost_that_stays_is_current(seed: int) -> None:
    """After random splits the costs that `expire_costs` keeps are unchanged."""
    data, sizes, names, states = make(200 + seed, most=7, largest=2 + seed % 2)
    rng = np.random.default_rng(seed)
    search = CircuitSearch(data, names, states, edge_cost=0.1, parameter_cost=0.0, prior=1.0)
    definition = Definition(data, sizes, 1.0)

    def count_edges(number: int, on: int) -> int:
        size = sizes[search.variable[number]]
        first = search.first_parameter[number]
        return int(edge_cost(search.graph, search.layout, search.walk, first, size, on, NO_LIMIT))

    num_kept = 0
    for _ in range(14):
        search.grow_walk()
        splits = definition.valid_splits()
        if not splits:
            break
        before = {split: count_edges(*split) for split in splits}
        for number, on in splits:
            search.candidates.priced[number, on] = 1
        made = splits[int(rng.integers(len(splits)))]
        search.split(*made, greedy=True)
        definition.split(*made)
        search.grow_walk()
        for split in set(before) & set(definition.valid_splits()):
            if search.candidates.priced[split]:
                assert count_edges(*split) == before[split]
                num_kept += 1
    assert num_kept or len(sizes) < 4


def test_quick_improves_until_nothing_does() -> None:
    data, _, names, states = make(7)
    quick = learn_circuit(data, names, states, edge_cost=0.05)
    greedy = learn_circuit(data, names, states, edge_cost=0.05, method="greedy")
    free = learn_circuit(data, names, states, edge_cost=0.0)
    assert quick.converged
    assert quick.circuit is not None
    assert greedy.circuit is not None
    start = learn_circuit(data, names, states, edge_cost=1e9)
    assert start.num_splits == 0
    assert quick.log_likelihood > start.log_likelihood
    assert free.circuit is None
    assert min(free.log_likelihood, greedy.log_likelihood) > start.log_likelihood


def test_limits_keep_the_circuit_so_far() -> None:
    data, _, names, states = make(7)
    whole = learn_circuit(data, names, states, edge_cost=0.01)
    assert whole.circuit is not None
    small = learn_circuit(
        data, names, states, edge_cost=0.01, max_edges=whole.circuit.num_edges - 1
    )
    assert small.circuit is not None
    assert small.circuit.num_edges < whole.circuit.num_edges
    assert not small.converged
    wish = threading.Event()
    wish.set()
    none = learn_circuit(data, names, states, stop=Stop(wish))
    assert (none.num_splits, none.converged) == (0, False)
    assert none.circuit is not None


def test_only_allowed_parents() -> None:
    data, sizes, names, states = make(8)
    allowed = np.zeros((len(sizes), len(sizes)), np.bool_)
    allowed[1, 0] = True
    learned = learn_circuit(data, names, states, edge_cost=0.0, allowed=allowed)
    assert learned.network.parents() == [set(), {0}, *(set() for _ in sizes[2:])]


def test_the_network_as_text() -> None:
    data = np.array([[0, 0]] * 6 + [[1, 1]] * 3, np.int32)
    learned = learn_circuit(data, ["A", "B"], [["no", "yes"]] * 2, edge_cost=0.01)
    assert learned.num_splits == 1
    (child,) = (v for v, parents in enumerate(learned.network.parents()) if parents)
    text = format_network(learned.network)
    other = "AB"[1 - child]
    assert f"probability ( {'AB'[child]} | {other} ) {{\n  split 1:\n  case {other} = no:\n" in text
    assert "    table 0.92857142857142" in text  # (6 + 1/2) / (6 + 1)


@pytest.mark.parametrize(
    ("data", "states", "message"),
    [
        ([[0, -1]], 2, "B has missing values; splits are learned from complete rows"),
        ([[0, 1]], 65, "A has 65 values; circuits are learned with at most 64"),
        (np.empty((0, 2), int), 2, "there are no rows to learn from"),
        ([[0]], 2, r"2 variables cannot be learned from data of shape \(1, 1\)"),
    ],
)
def test_data_that_cannot_be_learned_from(data: list[list[int]], states: int, message: str) -> None:
    with pytest.raises(LapisError, match=message):
        learn_circuit(np.array(data), ["A", "B"], [[str(s) for s in range(states)]] * 2)


def test_gibbs_comes_to_the_exact_conditionals() -> None:
    data, sizes, names, states = make(11)
    learned = learn_circuit(data, names, states, edge_cost=0.02)
    assert learned.circuit is not None
    rows = partial_rows(sizes)
    rng = np.random.default_rng(0)
    query, given = rows[rng.integers(len(rows), size=(2, 60))]
    query[given >= 0] = -1
    num_sweeps, num_chains = 4000, 5
    options = TreeChainOptions(num_chains, num_sweeps=num_sweeps, seed=3)
    found = estimate_conditionals(learned.network, query, given, options)
    exact = np.exp(log_conditionals(learned.circuit, query, given))
    # Sweeps are correlated: as many independent ones as a tenth of them.
    error = np.sqrt(exact * (1 - exact) / (num_chains * num_sweeps / 10))
    assert (np.abs(np.exp(found.log_probability) - exact) < 4 * error + 1e-3).all()
    one, other = (
        estimate_conditionals(learned.network, query, given, options._replace(num_sweeps=10))[0]
        for _ in range(2)
    )
    assert (one == other).all()
