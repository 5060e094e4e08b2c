"""Test local search and branch and bound: always feasible, and optimal if proven."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lapis
from exact_networks import make_network, random_network
from lapis.inference.map.independent_set import find_conflicts, solve_independent_set
from lapis.inference.map.map_objective import MapObjective, objective_of
from lapis.inference.map.maxwalksat import (
    initial_world,
    iterate_modes,
    prepare,
    pressure_step,
    redraw_some,
    search_world,
)
from lapis.inference.map.maxwalksat_kernel import HARD, SOFT, advance_walk, begin_walk
from lapis.inference.random_numbers import random_states
from lapis.runtime.progress import Stop

SEEDS = st.integers(0, 2**32 - 1)


def random_objective(seed: int, hard: float = 0.2) -> MapObjective:
    rng = np.random.default_rng(seed)
    return objective_of(random_network(rng, num_base=int(rng.integers(1, 9)), hard=hard))


def least_cost(objective: MapObjective) -> float:
    worlds = itertools.product((False, True), repeat=objective.num_atoms)
    return min(objective.cost(np.array(world, bool)) for world in worlds)


@given(seed=SEEDS, flips=st.integers(0, 200))
def test_counters_and_gains_stay_right(seed: int, flips: int) -> None:
    """After a walk, counters equal those computed anew; only pressures differ."""
    objective = random_objective(seed)
    clauses, walk = prepare(objective, initial_world(objective))
    begin_walk(clauses, walk, pressure_step(objective))
    advance_walk(
        clauses, walk, flips, 0.2, 1, pressure_step(objective), False, random_states(seed, 1)[0]
    )
    satisfied = objective.is_satisfied(walk.world)
    violated = satisfied != (objective.weight > 0)
    for kind, chosen in ((HARD, objective.hard), (SOFT, ~objective.hard)):
        listed = walk.violated[kind, : walk.num_violated[kind]]
        assert sorted(listed) == np.flatnonzero(violated & chosen).tolist()
    soft = violated & ~objective.hard
    paid = objective.scale * np.abs(objective.weight[soft]).sum()
    assert walk.cost[0] == pytest.approx(paid, abs=1e-6)
    for atom in range(objective.num_atoms):
        other = walk.world.copy()
        other[atom] = not other[atom]
        change = objective.is_satisfied(other).astype(float) - satisfied
        assert walk.gain[atom] == pytest.approx(walk.pressure @ change, abs=1e-6)
    downhill = set(walk.downhill[: walk.num_downhill[0]].tolist())
    alone = objective.block_of < 0
    assert {a for a in np.flatnonzero(alone) if walk.gain[a] > 1e-6} <= downhill
    if walk.cost[1] < np.inf:
        best = objective.scale * objective.cost(walk.best)
        assert best == pytest.approx(walk.cost[1], abs=1e-6)


@given(seed=SEEDS)
def test_search_finds_small_optima(seed: int) -> None:
    objective = random_objective(seed)
    expected = least_cost(objective)
    found = search_world(objective, seed=1, max_flips=20_000, restarts=3)
    if expected == np.inf:
        assert found.world is None
        assert found.cost == np.inf
    else:
        assert found.world is not None
        assert found.cost == objective.cost(found.world) >= expected - 1e-9


def test_search_reaches_the_optimum_most_of_the_time() -> None:
    """A hundred random problems of moderate size: local search may miss a few."""
    missed = 0
    for seed in range(100):
        objective = random_objective(seed)
        missed += (
            search_world(objective, seed=seed, max_flips=20_000).cost > least_cost(objective) + 1e-9
        )
    assert missed <= 5


def test_search_stops_at_the_first_feasible_world_if_asked() -> None:
    objective = objective_of(
        make_network(4, [([1, 2], -1, 1.0), ([3, 4], -1, 1.0), ([-1], 0, 1.0), ([-3], 0, 1.0)])
    )
    found = search_world(objective, first_feasible=True)
    assert found.world is not None
    assert found.flips < 50


@given(seed=SEEDS)
def test_climbing_ends_where_no_single_move_helps(seed: int) -> None:
    objective = random_objective(seed)
    found = iterate_modes(objective, seed=3, max_flips=20_000)
    if found.world is None:
        return
    assert found.cost < np.inf
    for atom in np.flatnonzero(objective.block_of < 0):
        other = found.world.copy()
        other[atom] = not other[atom]
        assert objective.cost(other) >= found.cost - 1e-6


@given(seed=SEEDS)
def test_redrawn_worlds_respect_blocks(seed: int) -> None:
    objective = random_objective(seed, hard=0.0)
    rng = np.random.default_rng(seed)
    world = initial_world(objective)
    for _ in range(5):
        world = redraw_some(objective, world, rng)
        for block, exact in enumerate(objective.block_exact):
            first, last = objective.block_start[block : block + 2]
            true = int(world[objective.block_atom[first:last]].sum())
            assert true == 1 if exact else true <= 1


def conflict_objective(seed: int) -> MapObjective:
    """Draw preferred literals of both signs, a random graph of conflicts, weights of all sizes."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 11))
    sign = rng.choice([-1, 1], size)
    density = rng.random()
    clauses = [
        ([int(-sign[a] * (a + 1)), int(-sign[b] * (b + 1))], -1, 1.0)
        for a, b in itertools.combinations(range(size), 2)
        if rng.random() < density
    ]
    choices = ([1.0], [0.0, 1.0, 2.5], [0.3, 7.0, 1.25, 0.0])[int(rng.integers(3))]
    clauses += [([int(sign[a] * (a + 1))], 0, float(rng.choice(choices))) for a in range(size)]
    return objective_of(make_network(size, clauses, weights=[1.0]))


@given(seed=SEEDS, started=st.booleans())
def test_independent_sets(seed: int, started: bool) -> None:
    objective = conflict_objective(seed)
    conflicts = find_conflicts(objective)
    assert conflicts is not None
    start = search_world(objective, max_flips=50).world if started else None
    found = solve_independent_set(objective, conflicts, start=start)
    assert found.cost == objective.cost(found.world)
    assert found.cost == found.bound == pytest.approx(least_cost(objective))


def test_a_search_cut_short_has_a_bound() -> None:
    rng = np.random.default_rng(3)
    clauses = [
        ([-a, -b], -1, 1.0)
        for a, b in itertools.combinations(range(1, 151), 2)
        if rng.random() < 0.1
    ]
    clauses += [([a], 0, 1.0) for a in range(1, 151)]
    objective = objective_of(make_network(150, clauses, weights=[1.0]))
    conflicts = find_conflicts(objective)
    assert conflicts is not None
    found = solve_independent_set(objective, conflicts, stop=Stop().within(0.0))
    finished = search_world(objective, max_flips=20_000)
    assert found.bound <= finished.cost
    assert objective.cost(found.world) == found.cost < np.inf


@pytest.mark.parametrize(
    "clauses",
    [
        [([1, 2], 0, 1.0)],  # a soft clause of two literals
        [([1], 0, 1.0), ([1, -2], -1, 1.0)],  # a hard clause that the preferred literal satisfies
        [([1], 0, 1.0), ([-1, -2, -3], -1, 1.0)],  # three at once
    ],
)
def test_other_problems_are_not_taken_for_independent_sets(
    clauses: list[tuple[list[int], int, float]],
) -> None:
    assert find_conflicts(objective_of(make_network(3, clauses))) is None


@pytest.mark.parametrize("method", ["auto", "flow", "ilp", "lazy", "maxwalksat", "icm"])
def test_what_is_said_of_a_search_without_time_is_true(method: str) -> None:
    people = range(20)
    rules = "".join(f"{0.01 * i} S(P{i})\n" for i in people)
    model = lapis.parse(
        "F(p, p)\nS(p)\n0.4 F(x, y) ^ S(x) => S(y)\n-0.7 S(x) ^ F(x, y) ^ F(y, x) ^ S(y)\n" + rules
    )
    pairs = [(i, (7 * i + k) % len(people)) for i in people for k in range(1, 9)]
    data = lapis.Database.parse(" ".join(f"F(P{i},P{j})" for i, j in pairs))
    best = lapis.map(model, data, "S", method="exact")
    found = lapis.map(model, data, "S", method=method, time_limit=1e-9)
    bound, gap = found.diagnostics["bound"], found.diagnostics["gap"]
    assert found.score <= best.score + 1e-6 <= bound + 2e-6
    assert gap == pytest.approx(bound - found.score, abs=1e-6)
    assert found.diagnostics["cost_bound"] <= best.diagnostics["cost"] + 1e-6
    assert not found.optimal or found.score == pytest.approx(best.score)
