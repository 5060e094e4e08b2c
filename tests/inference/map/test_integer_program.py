"""Test integer programs: their values in every world, and their proofs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exact_networks import make_network, random_network
from lapis.inference.map import integer_program
from lapis.inference.map import integer_program as ilp
from lapis.inference.map.cliques import (
    build_conflict_graph,
    grow_cliques,
    probe_literals,
    soft_cliques,
)
from lapis.inference.map.integer_program import (
    ClauseProgram,
    ProgramStructure,
    analyse_objective,
    concatenate_as,
)
from lapis.inference.map.map_objective import (
    MapObjective,
    literal_code,
    objective_of,
    split_components,
)
from lapis.network.network import Network
from lapis.runtime.progress import Stop

SEEDS = st.integers(0, 2**32 - 1)


def structured_network(rng: np.random.Generator) -> Network:
    """Return exactly-one groups as clauses, counters and blocks, supports, and soft cliques."""
    sizes = [int(rng.integers(2, 4)) for _ in range(3)]
    groups, atoms = [], 0
    for size in sizes:
        groups.append([atoms + 1 + i for i in range(size)])
        atoms += size
    clauses: list[tuple[list[int], int, float]] = []
    blocks = []
    for group in groups:
        how = rng.integers(4)
        if how == 0:
            blocks.append(([a - 1 for a in group], bool(rng.random() < 0.7)))
            continue
        clauses.append((group, -1, 1.0))
        if how == 1:
            clauses += [([-a, -b], -1, 1.0) for a, b in itertools.combinations(group, 2)]
        elif how == 2 and atoms < 10:  # a sequential counter: s is true if one before it is
            counter = atoms + 1
            atoms += 1
            clauses += [([-group[0], counter], -1, 1.0), ([-counter, -group[1]], -1, 1.0)]
    for one, other in itertools.permutations(groups, 2):
        if rng.random() < 0.5:
            kept = [a for a in other if rng.random() < 0.6]
            clauses.append(([-int(rng.choice(one)), *kept], -1, 1.0))
    signed = [int(a) * int(rng.choice([-1, 1])) for a in rng.permutation(atoms)[:4] + 1]
    clauses += [([a, b], 3, 1.0) for a, b in itertools.combinations(signed, 2)]
    clauses += [([a], int(rng.integers(7)), 1.0) for a in range(1, atoms + 1)]
    return make_network(atoms, clauses, blocks=blocks)


def any_network(seed: int) -> Network:
    rng = np.random.default_rng(seed)
    if rng.random() < 0.5:
        return structured_network(rng)
    return random_network(rng, num_base=int(rng.integers(1, 9)), num_clauses=12, hard=0.3)


def all_worlds(num_atoms: int) -> np.ndarray:
    """Return all worlds, bool[2^num_atoms, num_atoms]."""
    return np.array(list(itertools.product((False, True), repeat=num_atoms)), bool)


def least_cost(objective: MapObjective) -> float:
    return min(objective.cost(world) for world in all_worlds(objective.num_atoms))


@given(seed=SEEDS)
def test_scores_are_the_network_s(seed: int) -> None:
    network = any_network(seed)
    objective = objective_of(network)
    assert (objective.weight[objective.length == 1] > 0).all()
    constants = []
    for world in all_worlds(network.num_atoms)[:: max(1, 2**network.num_atoms // 64)]:
        feasible = network.is_feasible(world)
        assert (objective.cost(world) < np.inf) == feasible
        if feasible:
            constants.append(network.score(world) + objective.cost(world))
    assert constants == pytest.approx(constants[:1] * len(constants))


@given(seed=SEEDS)
def test_costs_of_components_add_up(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, num_base=8, num_clauses=6, max_length=2, hard=0.0)
    objective = objective_of(network)
    parts = split_components(objective, network.component)
    assert sorted(np.concatenate([part.atom for part in parts])) == list(range(network.num_atoms))
    for _ in range(10):
        world = network.complete(rng.random(network.num_base_atoms) < 0.5)
        total = sum(part.objective.cost(world[part.atom]) for part in parts)
        assert objective.cost(world) == pytest.approx(total)


@given(seed=SEEDS)
def test_what_probing_says_holds_in_every_world(seed: int) -> None:
    objective = objective_of(any_network(seed))
    worlds = [w for w in all_worlds(objective.num_atoms) if objective.cost(w) < np.inf]
    found = probe_literals(objective)
    if not found.possible:
        assert not worlds
        return
    for world in worlds:
        known = found.value >= 0
        assert (world[known] == found.value[known]).all()
        holds = world[found.conflict >> 1] == ((found.conflict & 1) == 0)
        assert not holds.all(axis=1).any()


@pytest.mark.parametrize("max_integral", [0, integer_program.MAX_INTEGRAL])
@given(seed=SEEDS)
def test_a_program_says_what_its_objective_says(max_integral: int, seed: int) -> None:
    """A world satisfies the rows exactly if it is feasible, and has the same cost."""
    objective = objective_of(any_network(seed))
    structure = analyse_objective(objective)
    if not structure.found.possible:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(integer_program, "MAX_INTEGRAL", max_integral)
        written = ClauseProgram(structure, np.ones(objective.num_clauses, bool))
    check_program(objective, structure, written)


def check_program(
    objective: MapObjective, structure: ProgramStructure, program: ClauseProgram
) -> None:
    index, value = (
        concatenate_as(program.index, np.int64),
        concatenate_as(program.value, np.float64),
    )
    row = np.repeat(
        np.arange(len(concatenate_as(program.lower, np.float64))),
        concatenate_as(program.length, np.int64),
    )
    lower, upper = (
        concatenate_as(program.lower, np.float64),
        concatenate_as(program.upper, np.float64),
    )
    known = structure.found.value >= 0
    for world in all_worlds(objective.num_atoms):
        columns = program.columns_of(world)
        sums = np.bincount(row, value * columns[index], len(lower))
        allowed = bool(((sums >= lower - 1e-9) & (sums <= upper + 1e-9)).all())
        allowed &= bool((world[known] == structure.found.value[known]).all())
        cost = objective.cost(world)
        assert allowed == (cost < np.inf)
        if allowed:
            assert program.offset + np.concatenate(program.cost) @ columns == pytest.approx(cost)


@pytest.mark.parametrize("max_integral", [0, integer_program.MAX_INTEGRAL])
@pytest.mark.parametrize("cuts", [False, True, None])
@given(seed=SEEDS)
def test_programs_find_the_least_cost(max_integral: int, cuts: bool | None, seed: int) -> None:
    objective = objective_of(any_network(seed))
    expected = least_cost(objective)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(integer_program, "MAX_INTEGRAL", max_integral)
        found = ilp.solve_integer_program(objective, cuts=cuts)
    if expected == np.inf:
        assert not found.possible
        assert found.world is None
        return
    assert objective.is_proven(found.cost, found.bound)
    assert found.world is not None
    assert objective.cost(found.world) == found.cost == pytest.approx(expected, abs=1e-6)
    assert found.bound == pytest.approx(expected, abs=1e-6)


def test_cuts_bring_in_only_what_is_violated() -> None:
    """Free atoms with one conflict: one or two rounds, and few clauses."""
    rng = np.random.default_rng(0)
    pairs = [(int(a) + 1, int(b) + 1) for a, b in rng.integers(0, 40, (300, 2)) if a < b]
    clauses = [([a, b], 0, 1.0 + rng.random()) for a, b in pairs]
    clauses += [([a], 0, rng.normal()) for a in range(1, 41)]
    objective = objective_of(make_network(40, clauses, weights=[1.0]))
    lazy, full = (
        ilp.solve_integer_program(objective, cuts=True),
        ilp.solve_integer_program(objective, cuts=False),
    )
    assert lazy.rounds > 1
    assert full.rounds == 1
    assert lazy.cost == pytest.approx(full.cost)


def test_a_start_is_never_made_worse() -> None:
    objective = objective_of(any_network(11))
    worlds = all_worlds(objective.num_atoms)
    start = min(worlds, key=objective.cost)
    found = ilp.solve_integer_program(objective, start=start, stop=Stop().within(0.0))
    assert found.cost <= objective.cost(start)


@given(seed=SEEDS, partition=st.booleans())
def test_cliques_contain_each_edge(seed: int, partition: bool) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 12))
    edges = np.array([e for e in itertools.combinations(range(size), 2) if rng.random() < 0.6])
    edges = edges.reshape(-1, 2)
    kind = rng.integers(-1 if not partition else 0, 2, len(edges))
    graph = build_conflict_graph(size, edges, kind)
    cliques = grow_cliques(graph, partition=partition)
    known = {(int(a), int(b)): int(k) for (a, b), k in zip(edges, kind, strict=True)}
    used: list[tuple[int, int]] = []
    for number in range(len(cliques.kind)):
        members = sorted(
            cliques.literal[cliques.start[number] : cliques.start[number + 1]].tolist()
        )
        assert len(set(members)) == len(members) >= 2
        pairs = list(itertools.combinations(members, 2))
        assert all(pair in known for pair in pairs)
        if partition:
            assert {known[pair] for pair in pairs} == {int(cliques.kind[number])}
        used += pairs
    assert {pair for pair, k in known.items() if k >= 0} <= set(used)
    if partition:
        assert len(used) == len(set(used))


def test_pairs_of_equal_weight_become_one_clique() -> None:
    pairs = list(itertools.combinations(range(1, 7), 2))
    clauses = [([-a, -b], 0, 2.0) for a, b in pairs] + [([1, 2], 0, 5.0)]
    objective = objective_of(make_network(6, clauses, weights=[1.0]))
    found = soft_cliques(objective)
    assert found.weight.tolist() == [2.0]
    assert sorted(found.cliques.literal.tolist()) == [2 * a for a in range(6)]
    assert int(found.covered.sum()) == len(pairs)


def test_codes_of_literals() -> None:
    assert literal_code(np.array([1, -1, 3, -3])).tolist() == [0, 1, 4, 5]


@pytest.mark.slow
@given(seed=SEEDS)
@settings(max_examples=1_500)
def test_programs_at_length(seed: int) -> None:
    objective = objective_of(any_network(seed))
    expected = least_cost(objective)
    for cuts in (False, True):
        found = ilp.solve_integer_program(objective, cuts=cuts)
        assert found.possible == (expected < np.inf)
        if found.possible:
            assert objective.is_proven(found.cost, found.bound)
            assert found.cost == pytest.approx(expected, abs=1e-6)
