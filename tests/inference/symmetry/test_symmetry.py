"""Test interchangeable atoms: pairs are found exactly, and sums over counts are exact."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lapis
from exact_networks import WEIGHTS, make_network, random_network
from lapis.errors import LapisError
from lapis.grounding.bottom_up import ground
from lapis.inference.exact.by_components import exact
from lapis.inference.exact.enumerate import enumerate_worlds
from lapis.inference.marginals import InferenceOptions
from lapis.inference.solve import infer_network
from lapis.inference.symmetry.by_counts import plan_counts
from lapis.inference.symmetry.interchangeable import interchangeable_classes, score_terms
from lapis.network.cubes import cube_penalties, falsifying_cubes, find_variables
from lapis.network.network import Network
from lapis.problem.problem import build_problem

seeds = st.integers(0, 2**32 - 1)
HARD = -1
Clauses = list[tuple[list[int], int, float]]


def classes_of(network: Network) -> np.ndarray:
    """Return the first atom that each atom outside blocks is interchangeable with."""
    variables = find_variables(network, np.ones(network.num_atoms, bool))
    cubes = falsifying_cubes(network, variables, np.arange(network.num_clauses))
    num_plain = network.num_atoms - len(network.block_atom)
    return interchangeable_classes(
        score_terms(cubes, cube_penalties(network, cubes, network.weights), num_plain)
    )


def all_scores(network: Network) -> np.ndarray:
    """Return the score of every assignment, float64[2, …, 2]; −∞ if a hard clause is violated."""
    worlds = np.indices((2,) * network.num_atoms).reshape(network.num_atoms, -1).T.astype(bool)
    score = np.zeros(len(worlds))
    for clause, weight in enumerate(network.weight_id):
        literal = network.literal[network.clause_start[clause] : network.clause_start[clause + 1]]
        false = (worlds[:, np.abs(literal) - 1] != (literal > 0)).all(axis=1)
        cost = np.inf if weight < 0 else network.weights[weight] * network.coefficient[clause]
        score[false] -= cost
    return score.reshape((2,) * network.num_atoms)


def can_swap(score: np.ndarray, a: int, b: int) -> bool:
    swapped = np.swapaxes(score, a, b)
    same_support = np.array_equal(np.isinf(score), np.isinf(swapped))
    return same_support and np.allclose(score, swapped, rtol=0, atol=1e-9)


@given(seeds)
def test_atoms_are_classed_as_trying_every_swap_in_every_world_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    clauses: Clauses = []
    for _ in range(int(rng.integers(1, 12))):
        size = int(rng.integers(1, 4))
        atoms = rng.choice(6, size, replace=False) + 1
        literals = (atoms * rng.choice([-1, 1], size)).tolist()
        clauses.append((literals, int(rng.integers(0, 3)), 1.0))
    network = make_network(6, clauses, weights=(0.7, -0.7, 0.3))
    score, first = all_scores(network), classes_of(network)
    for a, b in combinations(range(6), 2):
        assert (first[a] == first[b]) == can_swap(score, a, b)


def planted(rng: np.random.Generator, spoil: bool) -> tuple[int, Clauses, list[list[int]]]:
    """Return classes of atoms, clauses of a few patterns over them, and leaves of some members."""
    sizes = [int(rng.integers(1, 5)) for _ in range(int(rng.integers(1, 4)))]
    ends = np.cumsum(sizes).tolist()
    classes = [list(range(end - size, end)) for size, end in zip(sizes, ends, strict=True)]
    num_atoms = ends[-1]
    clauses: Clauses = []
    for one, other in [(i, j) for i in range(len(sizes)) for j in range(i, len(sizes))]:
        weight = int(rng.integers(0, 7)) if rng.random() < 0.8 else HARD
        signs = rng.choice([-1, 1], 2)
        for a, b in ((a, b) for a in classes[one] for b in classes[other] if a != b):
            clauses.append(([int(signs[0] * (a + 1)), int(signs[1] * (b + 1))], weight, 1.0))
    if rng.random() < 0.5:  # a member of the first class
        clauses.append(([a + 1 for a in classes[0]], int(rng.integers(-1, 7)), 1.0))
    if rng.random() < 0.5:
        weight = int(rng.integers(0, 7))
        clauses += [([-(a + 1), -(b + 1), c + 1], weight, 1.0)
                    for a, b in combinations(classes[0], 2) for c in classes[-1]
                    if c not in (a, b)]  # fmt: skip
    if spoil:
        atoms = rng.choice(num_atoms, min(2, num_atoms), replace=False) + 1
        clauses.append((atoms.tolist(), int(rng.integers(0, 7)), 0.5))
    elif rng.random() < 0.5:  # a leaf each, which is eliminated
        weight = int(rng.integers(0, 7))
        for a in classes[-1]:
            num_atoms += 1
            clauses.append(([-(a + 1), num_atoms], weight, 1.0))
    return num_atoms, clauses, classes


def count_or_solve(network: Network) -> None:
    plan = plan_counts(network, 1 << 28)
    if plan is None:
        exact(network)
    else:
        plan.solve()


def agree(network: Network) -> None:
    """Check counts, if there are any, against enumeration."""
    try:
        expected = enumerate_worlds(network)
    except LapisError:
        with pytest.raises(LapisError, match="no world satisfies"):
            count_or_solve(network)
        return
    plan = plan_counts(network, 1 << 28)
    if plan is None:
        return
    found = plan.solve(log_odds=True)
    assert found.log_odds is not None
    constant = float(network.weights @ network.constant_count)
    assert found.log_partition == pytest.approx(expected.log_partition, abs=1e-9)
    assert constant == 0.0
    np.testing.assert_allclose(found.marginal, expected.marginal, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.log_odds, expected.log_odds, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.expected_count, expected.expected_count, rtol=1e-9, atol=1e-9)


@given(seeds, st.booleans())
def test_planted_classes_are_found_and_counted(seed: int, spoil: bool) -> None:
    num_atoms, clauses, classes = planted(np.random.default_rng(seed), spoil)
    network = make_network(num_atoms, clauses)
    if not spoil and num_atoms == sum(map(len, classes)):
        first = classes_of(network)
        for members in classes:
            assert len(set(first[members].tolist())) == 1
    agree(network)


@given(seeds)
def test_blocks_and_definitions_beside_what_is_counted(seed: int) -> None:
    rng = np.random.default_rng(seed)
    crowd = [([-(a + 1), b + 1], 6, 1.0) for a, b in permutations(range(6), 2)]
    block = [6, 7, 8]
    sign, weights = int(rng.choice([-1, 1])), rng.integers(-1, 7, 2).tolist()
    ties = [([sign * 7, a + 1], weights[0], 1.0) for a in range(6)]
    ties += [([-8, a + 1, 10], weights[1], 1.0) for a in range(6)]
    network = make_network(
        9, crowd + ties, blocks=[(block, bool(rng.integers(2)))], definitions=[list(range(1, 7))]
    )
    plan = plan_counts(network, 1 << 28)
    assert plan is not None
    agree(network)


def test_a_cycle_has_one_colour_and_no_two_atoms_that_can_change_places() -> None:
    ring = [([-(a + 1), (a + 1) % 7 + 1], 0, 1.0) for a in range(7)]
    assert classes_of(make_network(7, ring)).tolist() == list(range(7))


@given(seeds)
def test_random_networks_lose_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    agree(random_network(rng, num_base=int(rng.integers(4, 10)), num_clauses=20))


MODEL = """
Friends(person, person)
Smokes(person)
Cancer(person)
0.1 Friends(x, y) ^ Smokes(x) => Smokes(y)
1.5 Smokes(x) => Cancer(x)
-0.3 Smokes(x)
"""


@pytest.mark.parametrize("query", [["Smokes", "Cancer"], ["Smokes", "Cancer", "Friends"]])
@pytest.mark.parametrize("known", ["", "Smokes(P0) !Smokes(P1) Cancer(P2)"])
def test_crowds_are_counted_whoever_else_there_is(query: list[str], known: str) -> None:
    people = [f"P{i}" for i in range(15)]
    crowd = " ".join(f"Friends({a},{b})" for a in people for b in people)
    facts = f"{crowd if 'Friends' not in query else ''} Friends(X,Y) Smokes(X) Cancer({people[-1]})"
    data = lapis.Database.parse(f"{facts} {known}")
    model = lapis.parse(MODEL + f"person = {{{', '.join(people)}}}")
    network = ground(build_problem(model, data, query))
    found, expected = infer_network(network, "auto", InferenceOptions()), exact(network)
    assert found.exact
    assert found.diagnostics["counted_atoms"] > 0
    assert found.log_partition == pytest.approx(expected.log_partition, abs=1e-9)
    assert expected.log_odds is not None
    np.testing.assert_allclose(found.marginal, expected.marginal, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.log_odds, expected.log_odds, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found.expected_count, expected.expected_count, rtol=1e-9)


def test_what_is_sampled_has_one_estimate_for_atoms_that_are_alike() -> None:
    """Ten interchangeable people among fourteen others; count tables do not fit the memory."""
    pairs = [([-(a + 1), b + 1], 0, 1.0) for a, b in permutations(range(24), 2)]
    own = [([a + 1], 1, 0.1 * (a + 1)) for a in range(14)]
    network = make_network(24, pairs + own, weights=(0.05, 0.3))
    expected = infer_network(network, "auto")
    found = infer_network(network, "auto", InferenceOptions(max_memory=1 << 14))
    assert (expected.exact, found.exact) == (True, False)
    assert found.diagnostics["averaged_atoms"] == 10
    assert len(set(found.marginal[14:].tolist())) == 1
    assert found.stderr is not None
    assert (np.abs(found.marginal - expected.marginal) <= 5 * found.stderr).all()


def test_a_network_without_symmetry_is_left_alone() -> None:
    rng = np.random.default_rng(0)
    pairs = [([-(a + 1), b + 1], 0, float(rng.random())) for a, b in permutations(range(20), 2)]
    assert plan_counts(make_network(20, pairs, weights=WEIGHTS), 1 << 28) is None
