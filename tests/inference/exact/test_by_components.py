"""Test exact inference against enumeration and the oracle, to 1e-9."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lapis
import oracle
from exact_networks import WEIGHTS, chance_of, make_network, possible_worlds, random_network
from lapis.errors import LapisError, TooLarge
from lapis.grounding import ground
from lapis.inference.exact.by_components import exact, exact_map, plan_exact
from lapis.inference.exact.enumerate import enumerate_worlds
from lapis.inference.moments.exact import count_in_worlds
from lapis.network.network import Network
from lapis.problem.problem import build_problem
from oracle import NoWorld
from strategies import Case, cases

seeds = st.integers(0, 2**32 - 1)


def check_against_enumeration(network: Network) -> None:
    try:
        expected = enumerate_worlds(network)
    except LapisError:
        for question in (exact, exact_map):
            with pytest.raises(LapisError, match="no world satisfies") as caught:
                question(network)
            assert caught.value.code == "unsatisfiable"
        return
    found = exact(network)
    assert found.solved.all()
    assert found.solved.all()
    assert found.log_partition == pytest.approx(expected.log_partition, abs=1e-9, rel=1e-14)
    np.testing.assert_allclose(found.marginal, expected.marginal, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.expected_count, expected.expected_count, rtol=0, atol=1e-9)
    score, world = exact_map(network)
    assert score == pytest.approx(expected.map_score, abs=1e-9, rel=1e-14)
    assert network.score(world) == score
    assert network.is_feasible(world)


@given(seeds)
def test_random_networks(seed: int) -> None:
    check_against_enumeration(random_network(np.random.default_rng(seed)))


@given(seeds)
def test_dense_networks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    check_against_enumeration(random_network(rng, num_base=12, num_clauses=40, hard=0.03))


@given(seeds)
def test_long_clauses(seed: int) -> None:
    """Clauses above ten variables are cut into chains."""
    rng = np.random.default_rng(seed)
    check_against_enumeration(random_network(rng, 13, 4, max_length=13))


@pytest.mark.slow
@given(seeds)
@settings(max_examples=10_000)
def test_random_networks_at_length(seed: int) -> None:
    check_against_enumeration(random_network(np.random.default_rng(seed)))


@given(cases())
def test_models(case: Case) -> None:
    """Compare marginals of models in text with the definition."""
    model, data = lapis.parse(case.model), lapis.Database.parse(case.data)
    try:
        expected = oracle.infer(model, case.facts, case.query)
    except NoWorld:
        with pytest.raises(LapisError):
            exact(ground(build_problem(model, data, case.query)))
        return
    network = ground(build_problem(model, data, case.query))
    found = exact(network)
    assert found.log_partition == pytest.approx(expected.log_partition, abs=1e-9, rel=1e-14)
    keys = oracle.weight_keys(model, oracle.constants_of(model, case.facts))
    wanted = [expected.expected_counts[key] for key in keys]
    np.testing.assert_allclose(found.expected_count, wanted, rtol=0, atol=1e-9)
    names = network.atom_names(np.arange(network.num_base_atoms))
    wanted = [expected.marginals[name] for name in names]
    np.testing.assert_allclose(found.marginal, wanted, rtol=0, atol=1e-9)
    assert exact_map(network)[0] == pytest.approx(expected.map_score, abs=1e-9, rel=1e-14)


def test_no_atoms() -> None:
    network = make_network(0, [], constant_count=np.arange(float(len(WEIGHTS))))
    found = exact(network)
    assert found.log_partition == network.constant_score
    np.testing.assert_array_equal(found.expected_count, network.constant_count)


def test_atoms_alone() -> None:
    """Single atoms in closed form: soft both ways, hard both ways, and without clauses."""
    clauses = [([1], 0, 2.0), ([-1], 3, 1.0), ([2], -1, 1.0), ([-3], -1, 1.0), ([3], 0, 1.0)]
    network = make_network(4, clauses)
    assert plan_exact(network).single.all()
    check_against_enumeration(network)
    check_against_enumeration(make_network(2, clauses[:2]))


def test_contradicting_units() -> None:
    network = make_network(2, [([1], -1, 1.0), ([-1], -1, 1.0)])
    with pytest.raises(LapisError, match=r"over Atom\(0\)"):
        exact(network)


def chain(length: int, weights: np.ndarray) -> Network:
    """Return x_i ∨ ¬x_{i+1} with a weight for each link."""
    clauses = [([i, -(i + 1)], i - 1, 1.0) for i in range(1, length)]
    return make_network(length, clauses, weights)


def test_long_chain_by_transfer_matrices() -> None:
    length = 3_000
    weights = np.random.default_rng(0).normal(scale=3.0, size=length - 1)
    forward = np.zeros((length, 2))  # log Σ over the atoms left of each atom
    for i, weight in enumerate(weights):
        step = np.array([[weight, 0.0], [weight, weight]])
        forward[i + 1] = np.logaddexp.reduce(forward[i][:, None] + step, axis=0)
    backward = np.zeros((length, 2))
    for i in range(length - 2, -1, -1):
        step = np.array([[weights[i], 0.0], [weights[i], weights[i]]])
        backward[i] = np.logaddexp.reduce(step + backward[i + 1], axis=1)
    found = exact(chain(length, weights))
    assert found.width == 1
    total = np.logaddexp(*forward[-1])
    assert found.log_partition == pytest.approx(total, rel=1e-12)
    np.testing.assert_allclose(
        found.marginal, np.exp(forward[:, 1] + backward[:, 1] - total), rtol=0, atol=1e-9
    )


def test_existential_over_a_thousand_atoms() -> None:
    """w·[a₁ ∨ … ∨ a_k], units u·a_i, and a definition of the same, in closed form."""
    number, w, u, v = 1_000, 20.0, -3.0, 1.5
    everyone = list(range(1, number + 1))
    clauses = [(everyone, 0, 1.0), ([-(number + 1)], 2, 1.0)]
    clauses += [([i], 1, 1.0) for i in everyone]
    network = make_network(number, clauses, [w, u, v], definitions=[everyone])
    # No atom is true: weight exp(v). Some are: exp(w)·((1 + e^u)^k − 1).
    some = w + number * np.log1p(np.exp(u)) + np.log1p(-np.exp(-number * np.log1p(np.exp(u))))
    total = np.logaddexp(v, some)
    one = w + u + (number - 1) * np.log1p(np.exp(u))
    found = exact(network)
    assert found.width <= 5
    assert found.log_partition == pytest.approx(total, abs=1e-9)
    np.testing.assert_allclose(found.marginal, np.exp(one - total), rtol=0, atol=1e-9)
    assert found.expected_count[0] == pytest.approx(np.exp(some - total), abs=1e-9)
    score, world = exact_map(network)
    assert score == pytest.approx(w + u)
    assert world[:number].sum() == 1
    assert world[number]


def test_equal_components_are_solved_once() -> None:
    """Copies differ from components with another weight, sign, coefficient or block."""
    copies = 5
    clauses, blocks = [], []
    for k in range(copies):
        a, b, c = 3 * k + 1, 3 * k + 2, 3 * k + 3
        clauses += [([a, -b], 0, 2.0), ([b, c], 1, 1.0)]
    first = 3 * copies
    variants = [
        [([first + 1, -(first + 2)], 0, 2.0), ([first + 2, first + 3], 3, 1.0)],
        [([first + 4, -(first + 5)], 0, 1.0), ([first + 5, first + 6], 1, 1.0)],
        [([first + 7, first + 8], 0, 2.0), ([first + 8, first + 9], 1, 1.0)],
        [([first + 10, -(first + 11)], 0, 2.0), ([first + 11, first + 12], 1, 1.0)],
    ]
    clauses += [clause for variant in variants for clause in variant]
    blocks.append(([first + 10, first + 11], False))
    network = make_network(first + 12, clauses, blocks=blocks)
    plan = plan_exact(network)
    assert sorted(plan.duplicates.copies[plan.duplicates.copies > 0]) == [1, 1, 1, 1, copies]
    check_against_enumeration(network)


def complete_graph(size: int, first: int = 1) -> list[tuple[list[int], int, float]]:
    atoms = range(first, first + size)
    return [([i, -j], 0, 1.0) for i in atoms for j in atoms if i != j]


def test_too_large_is_refused_with_an_estimate() -> None:
    network = make_network(40, complete_graph(40))
    with pytest.raises(TooLarge, match=r"40 unknown atoms .* joins 40 or more") as caught:
        exact(network)
    assert caught.value.exit_code == 3
    assert caught.value.code == "too-wide"


def test_affordable_components_are_solved_when_others_are_not() -> None:
    clauses = [*complete_graph(3), *complete_graph(40, 4), ([44, -45], 1, 2.0), ([46], 3, 1.0)]
    network = make_network(46, clauses, constant_count=np.full(len(WEIGHTS), 2.0))
    plan = plan_exact(network)
    assert not plan.is_complete
    affordable = np.ones(46, bool)
    affordable[3:43] = False
    np.testing.assert_array_equal(plan.affordable, affordable)
    found = plan.solve()
    assert not found.solved.all()
    small = [*complete_graph(3), ([4, -5], 1, 2.0), ([6], 3, 1.0)]
    expected = enumerate_worlds(make_network(6, small, constant_count=np.full(len(WEIGHTS), 2.0)))
    assert found.log_partition == pytest.approx(expected.log_partition, abs=1e-9)
    np.testing.assert_allclose(found.marginal[affordable], expected.marginal, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.expected_count, expected.expected_count, rtol=0, atol=1e-9)
    assert np.isnan(found.marginal[~affordable]).all()
    rest, atom = plan.rest()
    np.testing.assert_array_equal(atom, np.arange(3, 43))
    assert rest.num_clauses == 40 * 39
    assert rest.constant_score == 0.0


@given(seeds)
def test_little_memory_still_gives_right_answers(seed: int) -> None:
    """Refused and solved components make up the whole."""
    rng = np.random.default_rng(seed)
    network = random_network(rng, num_base=12, num_clauses=14, max_length=3, hard=0.0)
    plan = plan_exact(network, max_memory=int(rng.integers(12, 2000)))
    found, (rest, atom) = plan.solve(), plan.rest()
    left = exact(rest)
    expected = enumerate_worlds(network)
    assert found.log_partition + left.log_partition == pytest.approx(
        expected.log_partition, abs=1e-9
    )
    marginal = found.marginal.copy()
    base = atom[: rest.num_base_atoms]
    marginal[base] = left.marginal
    np.testing.assert_allclose(marginal, expected.marginal, rtol=0, atol=1e-9)
    np.testing.assert_allclose(
        found.expected_count + left.expected_count, expected.expected_count, rtol=0, atol=1e-9
    )


@given(seeds)
def test_plan_serves_other_weights(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, hard=0.0)
    plan = plan_exact(network)
    weights = rng.normal(size=len(WEIGHTS))
    again = enumerate_worlds(network.with_weights(weights))
    found = plan.solve(weights)
    assert found.log_partition == pytest.approx(again.log_partition, abs=1e-9)
    np.testing.assert_allclose(found.expected_count, again.expected_count, rtol=0, atol=1e-9)


def test_expected_counts_are_the_gradient_of_log_partition() -> None:
    network = random_network(np.random.default_rng(7), num_base=10, num_clauses=20, hard=0.0)
    network = network.with_weights(np.linspace(-1.0, 1.0, len(WEIGHTS)))
    plan, step = plan_exact(network), 1e-5
    for index, slope in enumerate(plan.solve().expected_count):
        change = step * (np.arange(len(WEIGHTS)) == index)
        above, below = (plan.solve(network.weights + s * change).log_partition for s in (1, -1))
        assert slope == pytest.approx((above - below) / (2 * step), abs=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_samples_have_the_right_distribution(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, num_base=8, num_clauses=9, hard=0.1)
    network = network.with_weights(np.clip(network.weights, -1.0, 1.0))
    samples = plan_exact(network, merge_copies=False).sample(5_000, rng)
    assert chance_of(samples, *possible_worlds(network)) > 1e-5


def test_samples_of_equal_components_differ() -> None:
    network = make_network(40, [([2 * k + 1, 2 * k + 2], 0, 1.0) for k in range(20)])
    worlds = plan_exact(network, merge_copies=False).sample(50, np.random.default_rng(0))
    pairs = worlds.reshape(50, 20, 2)
    assert all(len(np.unique(world, axis=0)) > 1 for world in pairs)
    with pytest.raises(ValueError, match="merge_copies"):
        plan_exact(network).sample(1, np.random.default_rng(0))


def test_counts_of_many_worlds_are_those_of_each() -> None:
    rng = np.random.default_rng(1)
    for seed in range(5):
        network = random_network(np.random.default_rng(seed))
        worlds = rng.random((7, network.num_atoms)) < 0.5
        each = np.array([network.counts(world) for world in worlds])
        assert count_in_worlds(network, worlds) == pytest.approx(each)
