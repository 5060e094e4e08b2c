"""Test that elimination keeps log Z and the best score, and recovers all answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import lapis
from exact_networks import WEIGHTS, make_network, possible_worlds, random_network
from lapis.errors import LapisError
from lapis.grounding import ground
from lapis.inference.exact.by_components import exact, exact_map
from lapis.inference.exact.enumerate import enumerate_worlds
from lapis.inference.reduction import eliminate
from lapis.inference.reduction.eliminate import Reduction, reduce
from lapis.network.csr import narrow_starts
from lapis.network.cubes import falsifying_cubes, find_variables, has_plain_clauses, plain_cubes
from lapis.network.network import Network
from lapis.problem.problem import build_problem
from strategies import Case, cases

seeds = st.integers(0, 2**32 - 1)
scopes = st.integers(0, 4)
tables = st.sampled_from([1, 2, 4, 8, 64])


def possible_network(rng: np.random.Generator, **sizes: int) -> Network:
    network = random_network(rng, **sizes)
    try:
        exact(network)
    except LapisError:
        assume(False)
    return network


@given(seeds, scopes, tables)
def test_core_has_the_same_partition_function_and_optimum(
    seed: int, max_scope: int, max_table: int
) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, num_base=int(rng.integers(1, 10)), num_clauses=15)
    try:
        expected = enumerate_worlds(network)
    except LapisError:
        for semiring in ("sum", "max"):
            with pytest.raises(LapisError, match="no world satisfies"):
                enumerate_worlds(reduce(network, max_scope, max_table, semiring).core)
        return
    summed = reduce(network, max_scope, max_table)
    core = enumerate_worlds(summed.core)
    assert core.log_partition == pytest.approx(expected.log_partition, abs=1e-9)
    atom = summed.core_atom[: summed.core.num_base_atoms]
    base = atom < network.num_base_atoms
    np.testing.assert_allclose(
        core.marginal[base], expected.marginal[atom[base]], rtol=0, atol=1e-9
    )
    maximised = reduce(network, max_scope, max_table, "max")
    best = enumerate_worlds(maximised.core)
    assert best.map_score == pytest.approx(expected.map_score, abs=1e-9)
    world = maximised.complete_map(best.map_world)
    assert network.is_feasible(world)
    assert network.score(world) == pytest.approx(expected.map_score, abs=1e-9)
    np.testing.assert_array_equal(
        world[maximised.core_atom], maximised.core.complete(best.map_world)
    )


@given(seeds)
def test_tables_made_in_runs_leave_the_same_core(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = possible_network(rng, num_base=12, num_clauses=14)
    for semiring in ("sum", "max"):
        whole = reduce(network, semiring=semiring)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(eliminate, "RUN_CLIQUES", 1)
            one, other = reduce(network, semiring=semiring).core, whole.core
        world = rng.random(other.num_base_atoms) < 0.5
        for core in (one, other):
            assert core.num_atoms == other.num_atoms
            assert core.is_feasible(core.complete(world)) == other.is_feasible(
                other.complete(world)
            )
        scores = [core.score(core.complete(world)) for core in (one, other)]
        assert scores[0] == pytest.approx(scores[1], abs=1e-9)


@given(seeds, scopes, tables)
def test_recovered_from_any_core_worlds(seed: int, max_scope: int, max_table: int) -> None:
    """Recovered answers are averages of exact conditional marginals and counts."""
    rng = np.random.default_rng(seed)
    network = possible_network(rng, num_base=int(rng.integers(1, 9)), num_clauses=10)
    reduction = reduce(network, max_scope, max_table)
    worlds, probability = possible_worlds(network)
    samples = worlds[rng.choice(len(worlds), 70)][:, reduction.core_atom]
    marginal = np.zeros(network.num_atoms)
    expected = np.zeros(len(WEIGHTS))
    counts = np.array([network.counts(world) for world in worlds])
    for sample in samples:
        agree = (worlds[:, reduction.core_atom] == sample).all(axis=1)
        weight = np.where(agree, probability, 0.0) / probability[agree].sum()
        marginal += weight @ worlds / len(samples)
        expected += weight @ counts / len(samples)
    found = reduction.recover(samples)
    np.testing.assert_allclose(found.marginal, marginal, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.expected_count, expected, rtol=0, atol=1e-9)


def exact_joint(reduction: Reduction) -> np.ndarray:
    """Return the distribution of every scope in the core, from the whole network's worlds."""
    worlds, probability = possible_worlds(reduction.network)
    tree, variables = reduction.tree, reduction.variables
    joint = np.zeros(tree.message_start[-1])
    for clique in np.flatnonzero(tree.parent == -2):
        place = np.zeros(len(worlds), np.int64)
        for v in tree.scope(clique):
            atoms = variables.state_atom[variables.state_start[v] : variables.state_start[v + 1]]
            held = worlds[:, atoms] & (atoms >= 0)
            silent = np.flatnonzero(atoms < 0)
            held[:, silent] = ~held.any(axis=1, keepdims=True)
            place = place * len(atoms) + held.argmax(axis=1)
        begin, end = tree.message_start[clique : clique + 2]
        joint[begin:end] = np.bincount(place, weights=probability, minlength=end - begin)
    return joint


@given(seeds, scopes, tables)
def test_recovered_from_exact_joint_distributions(
    seed: int, max_scope: int, max_table: int
) -> None:
    rng = np.random.default_rng(seed)
    network = possible_network(rng, num_base=int(rng.integers(1, 9)), num_clauses=10)
    reduction = reduce(network, max_scope, max_table)
    worlds, probability = possible_worlds(network)
    marginal = probability @ worlds
    false = probability @ ~np.array([network.is_satisfied(world) for world in worlds])
    found = reduction.recover_joint(
        exact_joint(reduction), marginal[reduction.core_atom], false[reduction.kept_clause]
    )
    expected = enumerate_worlds(network)
    base = found.marginal[: network.num_base_atoms]
    np.testing.assert_allclose(base, expected.marginal, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.expected_count, expected.expected_count, rtol=0, atol=1e-9)


@given(cases())
def test_models(case: Case) -> None:
    """Test cores of grounded models, with quantifiers and blocks."""
    model, data = lapis.parse(case.model), lapis.Database.parse(case.data)
    try:
        network = ground(build_problem(model, data, case.query))
        expected = enumerate_worlds(network)
    except LapisError:
        assume(False)
    core = enumerate_worlds(reduce(network, max_scope=2).core)
    assert core.log_partition == pytest.approx(expected.log_partition, abs=1e-9)
    reduction = reduce(network, max_scope=2, semiring="max")
    best = enumerate_worlds(reduction.core)
    assert best.map_score == pytest.approx(expected.map_score, abs=1e-9)
    world = reduction.complete_map(best.map_world)
    assert network.score(world) == pytest.approx(expected.map_score, abs=1e-9)


def smokers(number: int, extra: str = "") -> Network:
    people = ", ".join(f"P{i}" for i in range(number))
    model = lapis.parse(
        f"person = {{{people}}}\nSmokes(person)\nCancer(person)\nFriends(person, person)\n"
        "1.5 Smokes(x) => Cancer(x)\n1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)\n" + extra
    )
    query = ["Smokes", "Cancer", "Friends"]
    return ground(build_problem(model, lapis.Database({}, {}), query))


def test_open_friends_leave_one_clause_for_each_pair() -> None:
    number = 12
    network = smokers(number)
    assert network.num_atoms == number * (number + 2)
    core = reduce(network).core
    assert core.num_atoms == number
    lengths = np.diff(core.clause_start)
    assert (lengths == 2).sum() == number * (number - 1) // 2
    assert (lengths == 1).sum() <= number
    assert (core.coefficient > 0).all()
    names = core.atom_names(np.arange(number))
    assert names == [f"Smokes(P{i})" for i in range(number)]
    assert exact(core).log_partition == pytest.approx(exact(network).log_partition, abs=1e-9)


def test_everything_goes_from_a_tree() -> None:
    """Without a core the answers are exact, whatever the samples."""
    network = make_network(50, [([i // 2, -i], i % 5, 1.0) for i in range(2, 51)])
    reduction = reduce(network)
    assert reduction.core.num_atoms == 0
    assert reduction.is_eliminated.all()
    expected = exact(network)
    assert reduction.core.constant_score == pytest.approx(expected.log_partition, abs=1e-9)
    found = reduction.recover(np.empty((1, 0), bool))
    np.testing.assert_allclose(found.marginal, expected.marginal, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.expected_count, expected.expected_count, rtol=0, atol=1e-9)
    best = reduce(network, semiring="max")
    world = best.complete_map(np.empty(0, bool))
    assert network.score(world) == pytest.approx(exact_map(network)[0], abs=1e-9)


def test_kept_atoms_stay() -> None:
    network = smokers(4)
    keep = np.zeros(network.num_atoms, bool)
    keep[[5, 9]] = True
    reduction = reduce(network, keep=keep)
    assert not reduction.is_eliminated[[5, 9]].any()
    assert exact(reduction.core).log_partition == pytest.approx(
        exact(network).log_partition, abs=1e-9
    )


def test_auxiliary_atom_that_loses_its_definition() -> None:
    """It becomes a base atom of the core, after those of the network."""
    network = make_network(
        5, [([6, 4], 0, 1.0), ([6, 5], 1, 1.0), ([4, 5, -2], 3, 1.0), ([-6, 4, -5], 0, 1.0)],
        definitions=[[1, -2, 3]],
    )  # fmt: skip
    keep = np.array([False, True, False, True, True, True])
    reduction = reduce(network, keep=keep)
    np.testing.assert_array_equal(reduction.core_atom, [1, 3, 4, 5])
    assert reduction.core.num_base_atoms == 4
    assert len(reduction.core.definition_start) == 1
    kept = reduce(network, keep=np.ones(6, bool))
    assert kept.core.num_base_atoms == 5
    np.testing.assert_array_equal(kept.core.definition_literal, [1, -2, 3])
    for core in (reduction.core, kept.core):
        assert enumerate_worlds(core).log_partition == pytest.approx(
            enumerate_worlds(network).log_partition, abs=1e-9
        )


def test_contradiction_in_the_eliminated_part() -> None:
    network = make_network(2, [([1], -1, 1.0), ([-1, 2], -1, 1.0), ([-2], -1, 1.0)])
    with pytest.raises(LapisError, match="no world satisfies") as caught:
        reduce(network)
    assert caught.value.code == "unsatisfiable"


def test_semirings_are_not_confused() -> None:
    network = make_network(3, [([1, 2, 3], 0, 1.0)])
    with pytest.raises(ValueError, match="by sums"):
        reduce(network, semiring="max").recover(np.empty((1, 0), bool))
    with pytest.raises(ValueError, match="by maximum"):
        reduce(network).complete_map(np.empty(0, bool))


def plain_network(rng: np.random.Generator) -> Network:
    """Return clauses whose atoms ascend, without blocks."""
    clauses = []
    for _ in range(12):
        atoms = np.sort(rng.choice(8, int(rng.integers(1, 4)), replace=False)) + 1
        literals = atoms * rng.choice([-1, 1], len(atoms))
        clauses.append((literals.tolist(), int(rng.integers(-1, 3)), 1.0))
    return make_network(8, clauses)


@given(seeds)
def test_plain_networks_are_answered_from_their_clauses(seed: int) -> None:
    """Cubes of some clauses, and answers recovered by them, are equal bit by bit."""
    rng = np.random.default_rng(seed)
    network = plain_network(rng)
    assert has_plain_clauses(network)
    variables = find_variables(network, np.ones(network.num_atoms, bool))
    some = rng.permutation(network.num_clauses)[: int(rng.integers(1, 12))].astype(np.int32)
    for one, other in zip(
        plain_cubes(network, variables, some),
        falsifying_cubes(network, variables, some),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
    with pytest.MonkeyPatch.context() as patch:
        try:
            found = reduce(network, 2)
            patch.setattr(eliminate, "has_plain_clauses", lambda network: False)
            listed = reduce(network, 2)
        except LapisError:
            assume(False)
    samples = rng.random((9, found.core.num_atoms)) < 0.5
    pairs = zip(found.recover(samples), listed.recover(samples), strict=True)
    for one, other in [*pairs, *zip(found.potentials, listed.potentials, strict=True)]:
        np.testing.assert_array_equal(one, other)


def test_networks_that_are_not_plain() -> None:
    assert not has_plain_clauses(make_network(3, [([1, -1], 0, 1.0)]))
    assert not has_plain_clauses(make_network(3, [([1], 0, 1.0), ([2, 3, 2], 0, 1.0)]))
    assert not has_plain_clauses(make_network(3, [([1, 2], 0, 1.0)], blocks=[([0, 1], True)]))
    assert has_plain_clauses(make_network(3, [([], -1, 1.0), ([2, 3], 0, 1.0), ([1], 0, 1.0)]))


def test_starts_are_as_wide_as_they_must_be() -> None:
    least, most = np.array([0, 2**31 - 1]), np.array([0, 2**31])
    assert narrow_starts(least).dtype == np.int32
    np.testing.assert_array_equal(narrow_starts(least), least)
    assert narrow_starts(most) is most
