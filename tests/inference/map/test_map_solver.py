"""Test most likely worlds against all worlds, and against the definition of a model."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lapis
import oracle
from exact_networks import make_network, random_network
from lapis.errors import LapisError
from lapis.grounding.bottom_up import ground
from lapis.inference.map.solver import MapResult, map_problem, most_likely_world
from lapis.inference.marginals import InferenceOptions
from lapis.methods import methods_of
from lapis.network.network import Network
from lapis.problem.task import build_task
from lapis.runtime.progress import Progress, Stop
from strategies import Case, cases

PROVING = ("auto", "ilp", "exact", "enumerate")
SEEDS = st.integers(0, 2**32 - 1)


def best_score(network: Network) -> float:
    """Return the highest score of a feasible world; −inf if there is none."""
    best = -np.inf
    for base in itertools.product((False, True), repeat=network.num_base_atoms):
        world = network.complete(np.array(base, bool))
        if network.is_feasible(world):
            best = max(best, network.score(world))
    return best


def close(value: float) -> object:
    return pytest.approx(value, abs=1e-6, rel=1e-9)


def check_world(network: Network, found: MapResult, best: float) -> None:
    """Check what holds for every answer of every method."""
    assert found.world.shape == (network.num_atoms,)
    assert network.is_feasible(found.world)
    assert found.score == close(network.score(found.world))
    assert found.score <= best + 1e-6
    assert found.bound >= best - 1e-6
    assert found.gap == close(found.bound - found.score)
    if found.optimal:
        assert found.gap <= 1e-11 * max(1.0, found.cost)
        assert found.score == close(best)


@pytest.mark.parametrize(
    "method", [m.name for m in methods_of("map").values() if m.takes == "network"]
)
@given(seed=SEEDS)
def test_every_method_on_random_networks(method: str, seed: int) -> None:
    network = random_network(np.random.default_rng(seed), hard=0.2)
    best = best_score(network)
    if best == -np.inf:
        with pytest.raises(LapisError) as error:
            most_likely_world(network, method=method)
        allowed = {"unsatisfiable"} if method in PROVING else {"unsatisfiable", "no-feasible-world"}
        assert error.value.code in allowed
        return
    found = most_likely_world(network, method=method)
    check_world(network, found, best)
    assert found.optimal or method not in PROVING


@given(seed=SEEDS)
def test_dense_networks_that_nothing_eliminates(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, num_base=9, num_clauses=36, max_length=3, hard=0.15)
    best = best_score(network)
    if best == -np.inf:
        with pytest.raises(LapisError, match="no world satisfies"):
            most_likely_world(network, method="ilp")
        return
    found = most_likely_world(network, method="ilp")
    check_world(network, found, best)
    assert found.optimal


@given(cases())
def test_models_against_the_oracle(case: Case) -> None:
    model, data = lapis.parse(case.model), lapis.Database.parse(case.data)
    try:
        expected = oracle.infer(model, case.facts, case.query).map_score
    except oracle.NoWorld:
        expected = -np.inf
    problem = build_task(model, data, case.query).worlds[0].problem
    if expected == -np.inf:
        with pytest.raises(LapisError):
            most_likely_world(ground(problem))
        return
    network = ground(problem)
    for method in ("auto", "ilp", "maxwalksat"):
        found = most_likely_world(network, method=method)
        assert network.is_feasible(found.world)
        assert found.score == close(expected) or not found.optimal
        assert found.optimal or method == "maxwalksat"


@given(cases())
def test_the_cost_is_what_broken_ground_formulas_weigh(case: Case) -> None:
    """Violated ground formulas are counted by the definition, decided ones included."""
    model, data = lapis.parse(case.model), lapis.Database.parse(case.data)
    problem = build_task(model, data, case.query).worlds[0].problem
    try:
        network, found = map_problem(problem, "auto", InferenceOptions())
    except LapisError:
        return
    domains = oracle.constants_of(model, case.facts)
    known = oracle.known_atoms(model, case.facts, domains, set(case.query))
    names = network.atom_names(np.arange(network.num_atoms))
    value = dict(zip(names, found.world.tolist(), strict=True))
    world = {
        atom: value.get(oracle.atom_text(model.predicates[atom[0]], atom[1]), given)
        for atom, given in known.items()
    }
    # Atoms that blocks decide are not in the network.
    worlds = oracle.worlds_agreeing_with(world)
    weighing = oracle.weigh(model, domains, worlds)
    (row,) = np.flatnonzero(weighing.possible)
    totals = oracle.count_true(model, oracle.Facts(false=tuple(known)))
    broken = 0.0
    for (rule, choice), counts in weighing.counts.items():
        weight = model.rules[rule].weight or 0.0
        _, groundings = totals[rule, choice]
        broken += weight * (groundings - counts[row]) if weight > 0 else -weight * counts[row]
    assert found.cost == close(broken)


def test_opposed_formulas_both_count() -> None:
    """One of two opposed formulas is always violated; known atoms count too."""
    model = lapis.parse("P(t)\n2 P(x)\n1.5 !P(x)\n-1 P(x) v !P(x)")
    found = lapis.map(model, lapis.Database.parse("!P(A) ?P(B)"), open_predicates=["P"])
    # A is known false and violates 2 and 1. B is set true and violates 1.5 and 1.
    assert found.diagnostics["cost"] == pytest.approx(2 + 1 + 1.5 + 1)
    assert found.diagnostics["cost_bound"] == found.diagnostics["cost"]


def test_an_evidence_score_that_dwarfs_the_rest_does_not_hide_a_gap() -> None:
    """Constant counts of 10^12 with weights near 1: costs decide what is optimal."""
    network = make_network(
        3,
        [([1, 2], 0, 1.0), ([-1, -2], 0, 1.0), ([1], 0, 0.25), ([2, 3], 0, 1.0), ([-3], 0, 0.5)],
        weights=[1.0],
        constant_count=np.array([4e12]),
    )
    found = most_likely_world(network)
    assert found.optimal
    assert found.cost == pytest.approx(0.25)
    lost = most_likely_world(network, method="icm")
    assert lost.optimal == (lost.cost == pytest.approx(0.25))


def chain_of_votes(size: int) -> Network:
    """Neighbours are coupled to be equal, ends to differ, all have fields: no shortcut is exact."""
    rng = np.random.default_rng(5)
    pairs = [tuple(rng.choice(size, 2, replace=False) + 1) for _ in range(4 * size)]
    clauses = [([-int(a), int(b)], 0, 1.0) for a, b in pairs]
    clauses += [([int(a) + 1], 0, float(rng.normal())) for a in range(size)]
    triples = [rng.choice(size, 3, replace=False) + 1 for _ in range(size)]
    clauses += [([int(a), int(b), -int(c)], -1, 1.0) for a, b, c in triples]
    return make_network(size, clauses, weights=[1.0])


@pytest.mark.parametrize("method", ["auto", "maxwalksat", "icm"])
def test_the_same_seed_gives_the_same_world(method: str) -> None:
    network = chain_of_votes(80)
    one, two = (most_likely_world(network, method, InferenceOptions(seed=7)) for _ in range(2))
    assert np.array_equal(one.world, two.world)
    assert one.score == two.score


def test_stopping_at_once_returns_a_world_marked_interrupted() -> None:
    network = chain_of_votes(80)
    found = most_likely_world(network, "ilp", InferenceOptions(stop=Stop(lambda: True)))
    assert found.interrupted
    assert not found.optimal
    assert network.is_feasible(found.world)
    assert found.bound >= most_likely_world(network).score - 1e-6


def test_control_c_returns_the_best_so_far() -> None:
    def press() -> bool:
        raise KeyboardInterrupt

    network = chain_of_votes(80)
    found = most_likely_world(network, "maxwalksat", InferenceOptions(stop=Stop(press)))
    assert found.interrupted
    assert network.is_feasible(found.world)


def test_progress_tells_how_many_components_are_done() -> None:
    told: list[Progress] = []
    most_likely_world(chain_of_votes(80), options=InferenceOptions(progress=told.append))
    assert told[-1].done == told[-1].total == 1
    assert told[-1].figures["gap"] < 1e-10  # proven up to rounding


def test_local_search_alone_says_when_it_found_no_world() -> None:
    """Seven items in six places, one each: impossible, which only a proof shows."""
    items, places = 7, 6
    atom = np.arange(items * places).reshape(items, places) + 1
    clauses = [([int(a) for a in row], -1, 1.0) for row in atom]
    clauses += [
        ([-int(atom[one, place]), -int(atom[other, place])], -1, 1.0)
        for place in range(places)
        for one, other in itertools.combinations(range(items), 2)
    ]
    network = make_network(items * places, clauses, weights=[])
    with pytest.raises(LapisError, match="was found within the limits") as error:
        most_likely_world(network, method="maxwalksat")
    assert error.value.code == "no-feasible-world"
    assert error.value.exit_code == 3
    with pytest.raises(LapisError, match="no world satisfies") as error:
        most_likely_world(network, method="ilp")
    assert error.value.code == "unsatisfiable"


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(LapisError, match="did you mean 'maxwalksat'"):
        most_likely_world(chain_of_votes(4), method="maxwalkast")


def test_a_network_without_atoms_has_one_world() -> None:
    network = make_network(0, [], constant_count=np.arange(7.0))
    found = most_likely_world(network)
    assert found.optimal
    assert found.score == network.constant_score
    assert len(found.world) == 0


@pytest.mark.slow
@given(seed=SEEDS)
@settings(max_examples=2_000)
def test_random_networks_at_length(seed: int) -> None:
    network = random_network(np.random.default_rng(seed), hard=0.2)
    best = best_score(network)
    for method in ("auto", "ilp", "maxwalksat", "icm"):
        if best == -np.inf:
            with pytest.raises(LapisError):
                most_likely_world(network, method=method)
        else:
            check_world(network, most_likely_world(network, method=method), best)
