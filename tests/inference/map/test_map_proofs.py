"""Test that MAP methods claim only proven optima, whatever the size of the weights.

All worlds are enumerated. Solvers have absolute tolerances, to which weights of 10^-7 were equal. A
tolerance relative to the total cost let one costly component cover the gap of another.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from exact_networks import make_network
from lapis.inference.map.independent_set import find_conflicts, solve_independent_set
from lapis.inference.map.map_objective import common_unit, objective_of
from lapis.inference.map.solver import most_likely_world
from lapis.inference.marginals import InferenceOptions
from lapis.methods import methods_of
from lapis.network.network import Network
from lapis.runtime.progress import Stop

SIZE = 9
METHODS = [method.name for method in methods_of("map").values() if method.takes == "network"]
WORLDS = np.array(list(itertools.product((False, True), repeat=SIZE)))


def knot(rng: np.random.Generator, weights: np.ndarray) -> Network:
    """Return clauses of three atoms that elimination keeps, each with its own weight."""
    clauses = [
        (
            [int(a) for a in (rng.choice(SIZE, 3, replace=False) + 1) * rng.choice([-1, 1], 3)],
            k,
            1.0,
        )
        for k in range(len(weights))
    ]
    return make_network(SIZE, clauses, weights=list(weights))


def costs(network: Network, worlds: np.ndarray = WORLDS) -> list[float]:
    """Return Σ |w| of violated clauses, summed without rounding."""
    literal = network.literal.reshape(-1, 3)
    satisfied = (worlds[:, np.abs(literal) - 1] == (literal > 0)).any(axis=2)
    wrong = satisfied != (network.weights > 0)
    return [math.fsum(np.abs(network.weights[row])) for row in wrong]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("magnitude", [-250, -9, -7, 0, 7, 250])
@pytest.mark.parametrize("spread", [0, 8])
def test_weights_of_every_size(method: str, magnitude: int, spread: int) -> None:
    rng = np.random.default_rng([magnitude + 400, spread])
    size = 10.0 ** (magnitude - spread * rng.random(40))
    network = knot(rng, size * rng.uniform(0.5, 1.0, 40) * rng.choice([-1, 1], 40))
    largest = float(np.abs(network.weights).max())
    found = most_likely_world(network, method)
    (cost,), least = costs(network, found.world[None]), min(costs(network))
    rounding = 1e-14 * (largest + cost)  # of sums of forty doubles
    assert cost - least <= found.gap + rounding
    if found.optimal:
        assert found.gap <= 1e-11 * (largest + cost)
    assert found.optimal or method in ("icm", "maxwalksat", "flow")


@pytest.mark.parametrize("magnitude", [-250, -9, 0, 250])
def test_independent_sets_of_every_size_of_weights(magnitude: int) -> None:
    rng = np.random.default_rng(4)
    pairs = [pair for pair in itertools.combinations(range(1, SIZE + 1), 2) if rng.random() < 0.4]
    weights = 10.0**magnitude * rng.uniform(1, 2, SIZE)
    network = make_network(
        SIZE,
        [([a + 1], a, 1.0) for a in range(SIZE)] + [([-a, -b], -1, 1.0) for a, b in pairs],
        weights=list(weights),
    )
    objective = objective_of(network)
    conflicts = find_conflicts(objective)
    assert conflicts is not None
    found = solve_independent_set(objective, conflicts)
    least = min(float(weights[~w].sum()) for w in WORLDS if network.is_feasible(w))
    assert found.cost == pytest.approx(least, rel=1e-14)
    assert objective.is_proven(found.cost, found.bound)


def test_a_costly_component_does_not_pay_for_the_doubts_about_another() -> None:
    """One atom costs 10^9 in every world; the others are unproven when time is up."""
    rng = np.random.default_rng(1)
    free = knot(rng, rng.uniform(0.5, 1.0, 120))
    clauses = [
        ([int(literal) for literal in row], k, 1.0)
        for k, row in enumerate(free.literal.reshape(-1, 3))
    ]
    clauses += [([SIZE + 1], 120, 1.0), ([-SIZE - 1], -1, 1.0)]
    network = make_network(SIZE + 1, clauses, weights=[*free.weights, 1e9])
    for method in ("ilp", "icm"):
        hurried = most_likely_world(network, method, InferenceOptions(stop=Stop(lambda: True)))
        assert hurried.cost > 1e9
        assert (hurried.optimal, hurried.gap > 0.1) == (False, True)
    found = most_likely_world(network, "auto")
    assert found.optimal
    assert found.cost - 1e9 == pytest.approx(min(costs(free)), abs=1e-6)


def test_small_weights_beside_large_ones_are_no_multiples_of_theirs() -> None:
    """A hundred thousand clauses of 10^-9 are 10^-4, which was rounded up to a unit of 1."""
    assert common_unit(np.array([1.0, 1e-9])) == 0.0
    assert common_unit(np.array([0.1 + 0.2, 0.6])) == pytest.approx(0.3)
