"""Test what a most likely world claims: atoms that change nothing, and optima within doubles."""

from __future__ import annotations

import numpy as np
import pytest

import lapis
import oracle
from exact_networks import make_network
from lapis.inference.map.solver import most_likely_world
from lapis.methods import methods_of

METHODS = list(methods_of("map"))
NETWORK_METHODS = [
    method.name for method in methods_of("map").values() if method.takes == "network"
]


@pytest.mark.parametrize("method", METHODS)
def test_atoms_in_no_clause_are_false(method: str) -> None:
    text = "p = {A, B, C}\nU(p)\nV(p)\nF(p, p)\n2 U(x)\n0 V(x)\n-1 F(A, x)\n"
    best = lapis.map(lapis.parse(text), query=["U", "V", "F"], method=method)
    assert sorted(atom for atom in best.atoms if best[atom]) == ["U(A)", "U(B)", "U(C)"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(4))
def test_weights_of_many_sizes(method: str, seed: int) -> None:
    """A world that is called optimal has the score of the best world."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(-1, 1, 8) * 10.0 ** rng.choice([-3, 0, 3, 9], 8)
    literals = ["U(x)", "!U(x)", "V(x)", "F(x,y)", "!F(x,y)", "U(y)"]
    rules = [
        f"{weight!r} {' v '.join(rng.choice(literals, 3, False))}" for weight in weights.tolist()
    ]
    model = lapis.parse("p = {A, B}\nU(p)\nV(p)\nF(p, p)\n" + "\n".join(rules))
    expected = oracle.infer(model, oracle.Facts(), ["U", "V", "F"])
    best = lapis.map(model, query=["U", "V", "F"], method=method, time_limit=10)
    assert best.score <= expected.map_score + 1e-15 * np.abs(weights).sum() * 8
    if best.optimal:
        assert best.score == pytest.approx(expected.map_score, rel=1e-12)


@pytest.mark.parametrize("method", ["auto", "flow"])
def test_a_cut_of_large_sums_is_optimal(method: str) -> None:
    """The rounding of weights to integers is below that of a sum of them, so it is no gap."""
    rng = np.random.default_rng(0)
    size = 3_000
    links = [([-(a + 1), a + 2], a, 1.0) for a in range(size - 1)]
    units = [
        ([int(s) * (a + 1)], size - 1 + a, 1.0) for a, s in enumerate(rng.choice([-1, 1], size))
    ]
    weights = rng.random(2 * size - 1) * 1e4
    network = make_network(size, [*links, *units], weights=weights.tolist())
    best = most_likely_world(network, method)
    assert best.optimal
    assert best.gap <= 1e-15 * weights.sum() * np.log2(size)


@pytest.mark.parametrize("method", NETWORK_METHODS)
def test_one_component_does_not_pay_for_another(method: str) -> None:
    """Weights of 10⁻⁹ beside those of 10⁹ are not rounded away."""
    small = [([1], 0, 1.0), ([-1, 2], 1, 1.0), ([-2, 3], 2, 1.0), ([-3], 3, 1.0)]
    large = [([4], 4, 1.0), ([-4, 5], 4, 1.0), ([-5], 5, 1.0)]
    weights = [3e-9, 4e-9, 5e-9, 2e-9, 1e9, 7e8]
    best = most_likely_world(make_network(5, [*small, *large], weights=weights), method)
    if best.optimal:
        assert best.world.tolist() == [True, True, True, True, True]
