"""Test minimum cuts and roof duality against all worlds and integer programs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lapis
import oracle
from exact_networks import make_network, random_network
from lapis.errors import LapisError
from lapis.inference.map import integer_program as ilp
from lapis.inference.map import persistency
from lapis.inference.map.map_objective import MapObjective, objective_of
from lapis.inference.map.persistency import (
    Persistent,
    build_residual,
    find_maximum_flow,
    find_persistent,
)
from lapis.inference.map.solver import most_likely_world
from lapis.network.components import fix_atoms
from lapis.network.network import Network
from strategies import Case, cases

SEEDS = st.integers(0, 2**32 - 1)
SIZES = (1.0, 1.0, 2.0, 0.3, 0.0, 1e-9, 1e3, 0.1, 7 / 3)  # ties, nothing, tiny, huge, thirds


def never() -> bool:
    return False


def network_of(num_atoms: int, clauses: Sequence[tuple[list[int], float]]) -> Network:
    """Return a network with a weight for each clause, hard if infinite."""
    weights = [0.0 if np.isinf(weight) else weight for _, weight in clauses]
    rows = [(row, -1 if np.isinf(w) else k, 1.0) for k, (row, w) in enumerate(clauses)]
    return make_network(num_atoms, rows, weights or [0.0])


def settle(network: Network) -> Persistent:
    return find_persistent(objective_of(network), network.component, never)


def all_costs(objective: MapObjective) -> tuple[np.ndarray, np.ndarray]:
    """Return every world and its cost, by the definition of a violated clause."""
    number = np.arange(2**objective.num_atoms)
    worlds = (number[:, None] >> np.arange(objective.num_atoms)) & 1 == 1
    cost = np.zeros(len(worlds))
    for start, end, weight in zip(
        objective.clause_start[:-1], objective.clause_start[1:], objective.weight, strict=True
    ):
        literal = objective.literal[start:end]
        is_true = (worlds[:, np.abs(literal) - 1] == (literal > 0)).any(axis=1)
        cost += np.where(is_true != (weight > 0), abs(weight), 0.0)
    return worlds, cost


def agree(worlds: np.ndarray, value: np.ndarray) -> np.ndarray:
    return ((worlds == (value > 0)) | (value < 0)).all(axis=1)


def check_persistent(network: Network) -> Persistent:
    """Check that some best world has all fixed values; return the values."""
    objective = objective_of(network)
    worlds, cost = all_costs(objective)
    found = settle(network)
    if cost.min() < np.inf:
        total = float(np.abs(objective.weight[~objective.hard]).sum())
        best = cost[agree(worlds, found.value)].min(initial=np.inf)
        assert best - cost.min() <= found.gap + 1e-15 * total
        assert found.gap <= 1e-12 * total
    return found


def random_weight(rng: np.random.Generator, hard: float) -> float:
    return np.inf if rng.random() < hard else float(rng.choice(SIZES))


def attractive_network(rng: np.random.Generator, hard: float) -> Network:
    """Return pairs that attract after flipping signs of some atoms, and units of any kind."""
    size = int(rng.integers(1, 9))
    sign = rng.choice([-1, 1], size)
    clauses: list[tuple[list[int], float]] = []
    for _ in range(int(rng.integers(0, 4 * size))):
        weight = random_weight(rng, hard)
        if size == 1 or rng.random() < 0.3:
            atom = int(rng.integers(size))
            clauses.append(([int(rng.choice([-1, 1])) * (atom + 1)], weight))
            continue
        chosen = rng.choice(size, int(rng.integers(2, min(size, 5) + 1)), replace=False)
        same = [int(sign[a]) * (int(a) + 1) * int(rng.choice([-1, 1])) for a in chosen[:1]]
        turn = np.sign(same[0]) * sign[chosen[0]]
        same += [int(turn * sign[a]) * (int(a) + 1) for a in chosen[1:]]
        if len(same) > 2 or rng.random() < 0.4:  # equal signs, preferred false
            clauses.append((same, -weight if np.isfinite(weight) else -1.5))
        else:
            clauses.append(([same[0], -same[1]], weight))
    return network_of(size, clauses)


def pair_network(rng: np.random.Generator, hard: float, longest: int = 2) -> Network:
    """Return clauses of any signs over few atoms: frustrated cycles, repeated clauses."""
    size = int(rng.integers(1, 9))
    clauses = []
    for _ in range(int(rng.integers(0, 4 * size))):
        chosen = rng.choice(size, min(size, int(rng.integers(1, longest + 1))), replace=False)
        row = [int(a + 1) * int(rng.choice([-1, 1])) for a in chosen]
        weight = random_weight(rng, hard)
        clauses.append((row, -weight if np.isfinite(weight) and rng.random() < 0.3 else weight))
    return network_of(size, clauses)


@given(seed=SEEDS, hard=st.sampled_from([0.0, 0.1]))
def test_cuts_settle_attractive_networks(seed: int, hard: float) -> None:
    network = attractive_network(np.random.default_rng(seed), hard)
    found = check_persistent(network)
    _, cost = all_costs(objective_of(network))
    assert (found.value >= 0).all() or cost.min() == np.inf


@given(seed=SEEDS, hard=st.sampled_from([0.0, 0.1]), longest=st.sampled_from([2, 3, 5]))
def test_settled_atoms_agree_with_a_best_world(seed: int, hard: float, longest: int) -> None:
    check_persistent(pair_network(np.random.default_rng(seed), hard, longest))


@given(seed=SEEDS)
def test_two_literals_each_that_can_all_hold_are_settled(seed: int) -> None:
    """Roof duality decides 2-SAT: the bound is 0, all is a tie, and frustrated pairs abound."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 9))
    planted = rng.choice([-1, 1], size)
    clauses = []
    for _ in range(3 * size):
        one, other = rng.choice(size, 2, replace=False)
        row = [int(planted[one]) * int(one + 1), int(rng.choice([-1, 1])) * int(other + 1)]
        clauses.append((row, random_weight(rng, 0.5) or 1.0))
    found = check_persistent(network_of(size, clauses))
    assert (found.value >= 0).all()


@given(seed=SEEDS)
def test_flows_are_those_of_scipy(seed: int) -> None:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 20))
    edges = np.array(list(itertools.combinations(range(size), 2)), np.int32)
    edges = edges[rng.random(len(edges)) < 0.4]
    forward, backward = rng.integers(0, 9, (2, len(edges)))
    excess = rng.integers(-15, 16, size)
    source, sink = size, size + 1
    tail = np.concatenate((edges[:, 0], edges[:, 1], np.full(size, source), np.arange(size)))
    head = np.concatenate((edges[:, 1], edges[:, 0], np.arange(size), np.full(size, sink)))
    capacity = np.concatenate((forward, backward, excess.clip(0), (-excess).clip(0)))
    graph = csr_array((capacity.astype(np.int32), (tail, head)), shape=(size + 2, size + 2))
    left = excess.copy()
    residual = build_residual(size, edges[:, 0], edges[:, 1], forward, backward)
    side = find_maximum_flow(residual, left, never)
    assert side is not None
    assert (excess - left)[excess > 0].sum() == maximum_flow(graph, source, sink).flow_value
    assert (left * excess >= 0).all()
    assert not (left[side] < 0).any()
    for node, (first, last) in enumerate(itertools.pairwise(residual.start)):
        if side[node]:
            assert side[residual.to[first:last][residual.capacity[first:last] > 0]].all()


def test_a_frustrated_triangle_stays_open_and_what_hangs_on_it_does_not() -> None:
    """Three atoms repel each other; a fourth is true in every best world."""
    repel = [([-1, -2], 1.0), ([-2, -3], 1.0), ([-1, -3], 1.0), ([1, 2], 1.0), ([2, 3], 1.0)]
    network = network_of(4, [*repel, ([1, 3], 1.0), ([-1, 4], 1.0), ([4], 0.5)])
    assert settle(network).value.tolist() == [-1, -1, -1, 1]
    assert most_likely_world(network).optimal


def test_weights_of_very_different_size_are_not_rounded_away() -> None:
    """A chain of weight 1000 with a field of 10^−9 at its end, against one half as large."""
    chain = [([-k, k + 1], 1e3) for k in range(1, 50)] + [([k, -k - 1], 1e3) for k in range(1, 50)]
    for hint, other in ((1e-9, 5e-10), (5e-10, 1e-9)):
        network = network_of(50, [*chain, ([1], hint), ([-50], other)])
        found = settle(network)
        assert (found.value == (hint > other)).all()
        assert found.gap < 1e-10


@pytest.mark.parametrize("unit", [1e-300, 1e300])
def test_weights_may_all_be_tiny_or_huge(unit: float) -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        rows = [([int(k), -int(k) - 1], float(rng.integers(1, 9))) for k in rng.integers(1, 8, 12)]
        rows += [([int(rng.choice([-1, 1])) * k], float(rng.integers(1, 9))) for k in range(1, 9)]
        usual = settle(network_of(8, rows))
        found = settle(network_of(8, [(row, weight * unit) for row, weight in rows]))
        assert found.value.tolist() == usual.value.tolist()
        assert (found.value >= 0).all()


def test_conjunctions_of_three_attract() -> None:
    """Their clauses, x̄, x·ȳ and x·y·z̄ in costs, have repelling pairs; their sum has none."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        clauses: list[tuple[list[int], float]] = []
        for _ in range(5):
            x, y, z = (int(a) + 1 for a in rng.choice(7, 3, replace=False))
            weight = float(rng.choice(SIZES))
            clauses += [([x], weight), ([-x, y], weight), ([-x, -y, z], weight)]
        clauses += [([-k], float(rng.choice(SIZES))) for k in range(1, 8)]
        network = network_of(7, clauses)
        assert (check_persistent(network).value >= 0).all()


@pytest.mark.parametrize(
    "clauses",
    [
        [[1], [-1]],
        [[1], [-1, 2], [-2, 3], [-3]],
        [[1, 2], [1, -2], [-1, 2], [-1, -2]],
        [[1, 2], [-1, -2], [2, 3], [-2, -3], [1, 3], [-1, -3]],
    ],
    ids=["units", "chain", "pair", "odd cycle"],
)
@pytest.mark.parametrize("method", ["auto", "flow"])
def test_contradictions_are_found_not_answered(clauses: list[list[int]], method: str) -> None:
    soft = [([k], 1.0) for k in (1, 2, 3, 4)] + [([4, -1], 2.0), ([4, -2], 2.0), ([4, -3], 2.0)]
    network = network_of(4, [*((row, np.inf) for row in clauses), *soft])
    with pytest.raises(LapisError) as error:
        most_likely_world(network, method=method)
    assert error.value.code in ("unsatisfiable", "no-feasible-world")
    assert error.value.code == "unsatisfiable" or method == "flow"


@given(seed=SEEDS)
def test_what_is_left_of_fixed_atoms_scores_the_same(seed: int) -> None:
    """Scores of the rest differ from those of the whole by a constant."""
    rng = np.random.default_rng(seed)
    network = random_network(rng, num_base=6, hard=0.0)
    value = rng.integers(-1, 2, network.num_atoms).astype(np.int8)
    value[network.block_atom] = -1
    value[network.num_base_atoms :] = -1
    rest, atom = fix_atoms(network, value)
    worlds = np.tile(value > 0, (4, 1))
    worlds[:, atom] = rng.random((4, len(atom))) < 0.5
    soft = network.weight_id >= 0
    counted = [network.weights[network.weight_id[soft]] * network.coefficient[soft]]
    whole = [float(counted[0] @ network.is_satisfied(world)[soft]) for world in worlds]
    here = rest.weight_id >= 0
    strength = rest.weights[rest.weight_id[here]] * rest.coefficient[here]
    part = [float(strength @ rest.is_satisfied(world[atom])[here]) for world in worlds]
    assert np.diff(whole) == pytest.approx(np.diff(part), abs=1e-9)


@given(cases())
def test_models_by_cuts_against_the_oracle(case: Case) -> None:
    model, data = lapis.parse(case.model), lapis.Database.parse(case.data)
    try:
        expected = oracle.infer(model, case.facts, case.query).map_score
    except oracle.NoWorld:
        return
    found = lapis.map(model, data, case.query, method="flow")
    assert found.score == pytest.approx(expected, abs=1e-6) or not found.optimal
    assert found.score <= expected + 1e-6 <= found.diagnostics["bound"] + 2e-6


def smokers(people: int, friends: int, seed: int) -> tuple[lapis.Model, lapis.Database]:
    rng = np.random.default_rng(seed)
    lines = [
        f"Friends(P{x},P{y})" for x in range(people) for y in rng.integers(people, size=friends)
    ]
    lines += [f"{'!' if x % 2 else ''}Smokes(P{x})" for x in range(people // 5)]
    text = "1.5 Smokes(x) => Cancer(x)\n1.1 Friends(x,y) ^ Smokes(x) => Smokes(y)"
    declared = "Friends(person,person)\nSmokes(person)\nCancer(person)\n"
    return lapis.parse(declared + text), lapis.Database.parse("\n".join(lines))


def test_the_answer_says_that_it_is_a_proven_cut() -> None:
    model, data = smokers(60, 4, 1)
    query = ["Smokes", "Cancer"]
    found = lapis.map(model, data, query)
    program = lapis.map(model, data, query, method="ilp")
    assert (found.method, found.optimal) == ("flow", True)
    assert found.score == pytest.approx(program.score, abs=1e-9)
    assert found.diagnostics["cost"] == pytest.approx(program.diagnostics["cost"], abs=1e-9)
    assert found.diagnostics["cut_atoms"] == len(found)


def test_cutting_tells_how_far_it_is_and_can_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = smokers(60, 4, 1)
    seen: list[str] = []
    lapis.map(model, data, ["Smokes", "Cancer"], progress=lambda event: seen.append(event.phase))
    assert "cutting" in seen
    monkeypatch.setattr(persistency, "find_maximum_flow", interrupt)
    found = lapis.map(model, data, ["Smokes", "Cancer"])
    assert found.interrupted
    assert found.diagnostics["cut_atoms"] == 0


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_soft_evidence_and_several_worlds_are_cut_too() -> None:
    model, data = smokers(30, 4, 2)
    hints = {"Smokes(P20)": 0.9, "Smokes(P21)": 0.02}
    query = ["Smokes", "Cancer"]
    both = lapis.map(model, [data, smokers(30, 4, 3)[1]], query, soft_evidence=hints)
    program = lapis.map(
        model, [data, smokers(30, 4, 3)[1]], query, soft_evidence=hints, method="ilp"
    )
    assert (both.method, both.optimal) == ("flow", True)
    assert both.diagnostics["cut_atoms"] == len(both)
    assert both.score == pytest.approx(program.score, abs=1e-9)


def test_broken_hard_formulas_are_the_fewest() -> None:
    """Friends of smokers smoke, as a hard rule.

    Known non-smokers violate it, as few as possible.
    """
    _, data = smokers(30, 2, 4)
    hard = lapis.parse(
        "Friends(person,person)\nSmokes(person)\nCancer(person)\n"
        "Friends(x,y) ^ Smokes(x) => Smokes(y).\n0.5 Smokes(x)\n0.3 !Smokes(x) v Cancer(x)"
    )
    found = lapis.map(hard, data, ["Smokes", "Cancer"], relax=True)
    program = lapis.map(hard, data, ["Smokes", "Cancer"], relax=True, method="ilp")
    assert found.optimal
    assert found.diagnostics["relaxed_groundings"] == program.diagnostics["relaxed_groundings"] > 0
    assert found.score == pytest.approx(program.score, abs=1e-6)


def larger_network(rng: np.random.Generator) -> Network:
    """Forty atoms, three pairs each, some of them frustrated, fields of all sizes."""
    clauses: list[tuple[list[int], float]] = []
    for _ in range(120):
        one, other = (int(a) + 1 for a in rng.choice(40, 2, replace=False))
        attracts = rng.random() < 0.8
        clauses.append(([one, -other if attracts else other], float(rng.choice(SIZES))))
    clauses += [([int(rng.choice([-1, 1])) * k], float(rng.choice(SIZES))) for k in range(1, 41)]
    return network_of(40, clauses)


def check_against_programs(network: Network) -> None:
    objective = objective_of(network)
    found = most_likely_world(network)
    program = ilp.solve_integer_program(objective)
    assert found.optimal
    assert objective.is_proven(program.cost, program.bound)
    assert objective.cost(found.world) == pytest.approx(program.cost, abs=2e-6)


def test_larger_networks_against_integer_programs() -> None:
    for seed in range(12):
        check_against_programs(larger_network(np.random.default_rng(seed)))


@pytest.mark.slow
@given(seed=SEEDS)
@settings(max_examples=1_000)
def test_larger_networks_at_length(seed: int) -> None:
    check_against_programs(larger_network(np.random.default_rng(seed)))


@pytest.mark.slow
@given(seed=SEEDS, hard=st.sampled_from([0.0, 0.1, 0.3]))
@settings(max_examples=5_000)
def test_cuts_and_roofs_at_length(seed: int, hard: float) -> None:
    rng = np.random.default_rng(seed)
    network = attractive_network(rng, hard)
    found = check_persistent(network)
    _, cost = all_costs(objective_of(network))
    assert (found.value >= 0).all() or cost.min() == np.inf
    check_persistent(pair_network(rng, hard, int(rng.integers(2, 6))))
