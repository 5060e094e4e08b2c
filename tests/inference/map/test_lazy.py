"""Lazy grounding against the whole network: equal where looked, never below elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from grounding.ground_problems import problems
from lapis.errors import LapisError
from lapis.grounding import ground
from lapis.grounding.templates import PlanLimits
from lapis.inference.map.lazy import LazyGrounding
from lapis.network import Network
from lapis.problem.problem import Problem

pytestmark = pytest.mark.usefixtures("price_everything")

SPLIT = PlanLimits(split_above=0)


def violated(network: Network, world: np.ndarray) -> set[tuple[int, frozenset[int]]]:
    """Soft and hard clauses without auxiliary atoms that a world violates."""
    true = network.is_satisfied(world)
    found = set()
    for clause in range(network.num_clauses):
        row = network.literal[network.clause_start[clause] : network.clause_start[clause + 1]]
        weight_id = int(network.weight_id[clause])
        weight = network.weights[weight_id] if weight_id >= 0 else 1.0
        if true[clause] == (weight < 0):
            found.add((weight_id, frozenset(row.tolist())))
    return found


def clauses(network: Network) -> dict[tuple[int, frozenset[int]], float]:
    return {
        (
            int(network.weight_id[i]),
            frozenset(
                network.literal[network.clause_start[i] : network.clause_start[i + 1]].tolist()
            ),
        ): float(network.coefficient[i])
        for i in range(network.num_clauses)
    }


@pytest.mark.parametrize("limits", [None, SPLIT], ids=["default", "split"])
@given(problem=problems(with_definitions=False), seed=st.integers(0, 1000))
def test_lists_exactly_what_worlds_violate(
    limits: PlanLimits | None, problem: Problem, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    try:
        whole = ground(problem)
    except LapisError:
        assume(False)
    every = clauses(whole)
    expected: set[tuple[int, frozenset[int]]] = set()
    lazy = LazyGrounding(problem, limits=limits)
    for density in (0.5, 0.2, 0.9):
        world = rng.random(whole.num_atoms) < density
        before = len(expected)
        expected |= violated(whole, world)
        network = lazy.extend(world)
        assert lazy.num_added == len(expected) - before
        assert clauses(network) == {key: every[key] for key in expected}
        assert network.score(world) == pytest.approx(whole.score(world))
        other = rng.random(whole.num_atoms) < 0.5
        assert network.score(other) >= whole.score(other) - 1e-9


@given(problem=problems(), seed=st.integers(0, 1000))
def test_with_definitions_the_score_agrees(problem: Problem, seed: int) -> None:
    rng = np.random.default_rng(seed)
    try:
        whole = ground(problem)
    except LapisError:
        assume(False)
    base = rng.random(whole.num_base_atoms) < 0.5
    lazy = LazyGrounding(problem)
    network = lazy.extend(base)
    world = network.complete(base)
    assert network.score(world) == pytest.approx(whole.score(whole.complete(base)))
    assert network.is_feasible(world) == whole.is_feasible(whole.complete(base))
