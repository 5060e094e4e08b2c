"""Mixtures: EM climbs, one circuit computes them, held-out rows and limits end them."""

from __future__ import annotations

import numpy as np
import pytest
from random_circuits import partial_rows

from lapis.circuits import mixture as module
from lapis.circuits.circuit import Properties
from lapis.circuits.evaluation import log_values, posteriors
from lapis.circuits.learn import learn_circuit
from lapis.circuits.mixture import Examples, join_circuits, learn_mixture, marginal_states, maximise
from lapis.circuits.properties import find_properties
from lapis.progress import Progress, Stop

SIZES = (2, 3, 2, 2)
NAMES = ["a", "b", "c", "d"]
STATES = [[str(s) for s in range(size)] for size in SIZES]


def make(num_rows: int, seed: int) -> np.ndarray:
    """Rows of a hidden class with three values, which single splits cannot see."""
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


def test_every_iteration_climbs(monkeypatch: pytest.MonkeyPatch) -> None:
    """log P(data) + prior · Σ p_j log θ_j never falls."""
    data = make(150, 2)
    prior = 1.5
    rows, times = np.unique(data, axis=0, return_counts=True)
    examples = Examples(rows, times, marginal_states(rows, times, STATES), None)
    found = learn_mixture(data, NAMES, STATES, num_components=3, prior=prior)
    first = np.cumsum([0, *SIZES])

    def objective() -> float:
        total = float(times @ found.log_likelihoods(rows))
        for network in found.network:
            for leaf in np.flatnonzero(network.split_on < 0):
                v = network.variable[leaf]
                theta = network.log_parameter[network.first_parameter[leaf] :][: SIZES[v]]
                total += prior * float(examples.marginal[first[v] : first[v + 1]] @ theta)
        return total

    # Away from the optimum, so that there is something to climb.
    share = np.random.default_rng(0).dirichlet(np.ones(3), len(rows)).T * times
    networks = tuple(
        module.replace(one, log_parameter=module.weighted_parameters(one, examples, w, prior))
        for one, w in zip(found.network, share, strict=True)
    )
    found = module.replace(found, network=networks)
    monkeypatch.setattr(module, "MAX_ITERATIONS", 1)
    values = [objective()]
    for _ in range(12):
        found = maximise(found, examples, prior, Stop())
        values.append(objective())
    assert (np.diff(values) > -1e-9).all()
    assert values[-1] > values[0] + 1


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
