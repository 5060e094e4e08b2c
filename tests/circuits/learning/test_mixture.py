"""Mixtures: EM increases the likelihood, one circuit computes them, limits end them."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize

from circuits.random_circuits import partial_rows
from lapis.circuits.circuit import Properties, find_properties
from lapis.circuits.evaluation import complete_rows, log_values, posteriors
from lapis.circuits.learning.learn_rows import learn_rows
from lapis.circuits.learning.mixture import (
    Examples,
    join_circuits,
    learn_mixture,
    marginal_states,
    run_em,
    weighted_parameters,
    with_parameters,
)
from lapis.circuits.learning.split_search import learn_circuit
from lapis.runtime.progress import Progress, Stop

SIZES = (2, 3, 2, 2)
NAMES = ["a", "b", "c", "d"]
STATES = [[str(s) for s in range(size)] for size in SIZES]


def make(num_rows: int, seed: int) -> np.ndarray:
    """Return rows of a hidden class with three values, which single splits do not find."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 3, num_rows)
    chance = np.random.default_rng(99).dirichlet(np.ones(3) / 2, (3, len(SIZES)))
    data = np.empty((num_rows, len(SIZES)), np.int32)
    for v, size in enumerate(SIZES):
        for row in range(num_rows):
            p = chance[hidden[row], v, :size] + 0.05
            data[row, v] = rng.choice(size, p=p / p.sum())
    return data


@pytest.mark.parametrize("num_starts", [1, 2])
def test_one_circuit_computes_the_mixture(num_starts: int) -> None:
    data = make(200, 1)
    found = learn_mixture(data, NAMES, STATES, num_components=3, num_starts=num_starts)
    assert len(found.network) == len(found.circuit) == 3 * num_starts
    assert found.weight.sum() == pytest.approx(1)
    circuit = join_circuits(found.weight, found.circuit)
    assert find_properties(circuit) == Properties(True, True, False) == circuit.properties
    rows = partial_rows(SIZES)
    complete = rows[(rows >= 0).all(axis=1)]
    np.testing.assert_allclose(
        log_values(circuit, complete), found.log_likelihoods(complete), rtol=1e-10
    )
    for row in rows[::5]:
        agrees = ((row < 0) | (complete == row)).all(axis=1)
        total = np.exp(found.log_likelihoods(complete[agrees])).sum()
        assert np.exp(log_values(circuit, row)[0]) == pytest.approx(total, rel=1e-10)
    _, share = posteriors(circuit, np.full(len(SIZES), -1))
    world = np.exp(found.log_likelihoods(complete))
    assert share[0, 0] == pytest.approx(world[complete[:, 0] == 0].sum(), rel=1e-10)


def hide(data: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Remove a share of the states of rows."""
    return np.where(np.random.default_rng(seed).random(data.shape) < share, -1, data)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_every_iteration_climbs(missing: float) -> None:
    """log P(data) + prior · Σ p_j log θ_j never falls."""
    data = hide(make(150, 2), missing, 0)
    prior = 1.5
    each = np.full(len(NAMES), prior)
    rows, times = np.unique(data, axis=0, return_counts=True)
    examples = Examples(rows, times, marginal_states(rows, times, STATES), None)
    found = learn_mixture(data, NAMES, STATES, num_components=3, prior=prior)

    def objective() -> float:
        total = float(times @ found.log_likelihoods(rows))
        for network in found.network:
            for leaf in np.flatnonzero(network.split_on < 0):
                v = network.variable[leaf]
                theta = network.log_parameter[network.first_parameter[leaf] :][: SIZES[v]]
                total += prior * float(examples.marginal[v] @ theta)
        return total

    # Away from the optimum, so that there is something to climb.
    share = np.random.default_rng(0).dirichlet(np.ones(3), len(rows)).T * times
    pairs = zip(found.network, found.circuit, share, strict=True)
    parameters = [weighted_parameters(*one, examples, w, each) for *one, w in pairs]
    found = with_parameters(found, parameters)
    values = [objective()]
    for _ in range(12):
        found = run_em(found, examples, each, Stop(), max_iterations=1)
        values.append(objective())
    assert (np.diff(values) > -1e-9).all()
    assert values[-1] > values[0] + 1


def test_incomplete_rows_come_to_the_optimum() -> None:
    """Compare the likelihood of two variables with numerical maximisation over all P(a, b)."""
    counts = {(0, 0): 40, (0, 1): 9, (1, 0): 12, (1, 1): 30, (0, -1): 20, (-1, 1): 25, (-1, -1): 3}
    data = np.array([row for row, count in counts.items() for _ in range(count)])
    agrees = {
        row: [all(x in (-1, y) for x, y in zip(row, world, strict=True))
              for world in product((0, 1), repeat=2)]
        for row in counts
    }  # fmt: skip

    def loss(logits: np.ndarray) -> float:
        chance = np.exp(logits) / np.exp(logits).sum()
        return -sum(n * float(np.log(chance[agrees[row]].sum())) for row, n in counts.items())

    best = -minimize(loss, np.zeros(4), method="BFGS").fun / len(data)
    found = learn_rows(data, None, ["a", "b"], [["0", "1"]] * 2, edge_costs=(0.1,), prior=1e-9)
    assert found.fit.num_splits == 1
    assert found.fit.log_likelihoods(data).mean() == pytest.approx(best, abs=2e-5)
    assert found.fit.circuit.properties == Properties(True, True, True)
    assert found.fit.network is not None
    complete = np.array(list(product((0, 1), repeat=2)))
    np.testing.assert_allclose(
        found.fit.network.log_likelihoods(complete), log_values(found.fit.circuit, complete),
        rtol=1e-10,
    )  # fmt: skip


@pytest.mark.parametrize("num_components", [1, 3])
def test_incomplete_rows_are_worth_their_states(num_components: int) -> None:
    """Using incomplete rows is better than dropping them, and reproducible."""
    train, test = hide(make(250, 8), 0.25, 1), make(3000, 9)
    found = learn_rows(train, None, NAMES, STATES, edge_costs=(1.0,), num_components=num_components)
    again = learn_rows(train, None, NAMES, STATES, edge_costs=(1.0,), num_components=num_components)
    assert (found.fit.log_likelihoods(test) == again.fit.log_likelihoods(test)).all()
    whole = train[(train >= 0).all(axis=1)]
    less = learn_rows(whole, None, NAMES, STATES, edge_costs=(1.0,), num_components=num_components)
    assert found.fit.log_likelihoods(test).mean() > less.fit.log_likelihoods(test).mean()


def test_nothing_shown_and_one_row() -> None:
    """A column without values keeps all its states; one row is enough."""
    data = np.array([[1, -1, 0, 1]])
    for method in ("quick", "greedy", "tree"):
        found = learn_rows(data, None, NAMES, STATES, method=method)  # type: ignore[arg-type]
        _, share = posteriors(found.fit.circuit, np.full(len(SIZES), -1))
        assert share[0, 2:5].sum() == pytest.approx(1)
        assert (share > 0).all()
        assert share[0, 1] > 0.5


def test_missing_states_are_drawn_given_the_others() -> None:
    found = learn_mixture(make(200, 1), NAMES, STATES, num_components=2)
    circuit = join_circuits(found.weight, found.circuit)
    row = np.array([-1, 2, -1, 0])
    drawn = complete_rows(circuit, np.tile(row, (4000, 1)), seed=1)
    assert (drawn[:, [1, 3]] == [2, 0]).all()
    _, share = posteriors(circuit, row)
    for variable, first in ((0, 0), (2, 5)):
        chance = share[0, first + 1]
        error = np.sqrt(chance * (1 - chance) / len(drawn))
        assert drawn[:, variable].mean() == pytest.approx(chance, abs=4 * error)


def test_a_mixture_explains_what_one_circuit_cannot() -> None:
    train, valid, test = (make(n, seed) for n, seed in ((600, 3), (200, 4), (2000, 5)))
    seen: list[Progress] = []
    alone = learn_circuit(train, NAMES, STATES, edge_cost=1.0)
    found = learn_mixture(
        train, NAMES, STATES, num_components=3, edge_cost=1.0, valid=valid, num_starts=2,
        progress=seen.append,
    )  # fmt: skip
    assert found.log_likelihoods(test).mean() > alone.network.log_likelihoods(test).mean()
    assert [event.done for event in seen] == [1, 2]
    again = learn_mixture(
        train, NAMES, STATES, num_components=3, edge_cost=1.0, valid=valid, num_starts=2
    )
    assert (again.log_likelihoods(test) == found.log_likelihoods(test)).all()


def test_stopped_at_once_it_is_still_a_distribution() -> None:
    data = make(50, 6)
    found = learn_mixture(
        data, NAMES, STATES, num_components=2, num_starts=3, stop=Stop(lambda: True)
    )
    assert not found.converged
    rows = partial_rows(SIZES)
    complete = rows[(rows >= 0).all(axis=1)]
    assert np.exp(found.log_likelihoods(complete)).sum() == pytest.approx(1)


def test_edges_are_shared_among_components() -> None:
    data = make(300, 7)
    free = learn_mixture(data, NAMES, STATES, num_components=2, edge_cost=0.01)
    limit = join_circuits(free.weight, free.circuit).num_edges - 5
    found = learn_mixture(data, NAMES, STATES, num_components=2, edge_cost=0.01, max_edges=limit)
    assert join_circuits(found.weight, found.circuit).num_edges <= limit
