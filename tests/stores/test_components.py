"""Parcels give the answers of the network: rows in any order, in pieces, packed in any way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from component_rows import write_columns

from exact_networks import log_reference, make_network, random_network, scored_worlds
from lapis.inference.marginals import InferenceOptions
from lapis.network.network import Network
from lapis.stores.components.rows import ParcelRows, build_network, read_columns
from lapis.stores.components.solving import (
    ATOM,
    CONTRADICTED,
    COUNT,
    REFUSED,
    SAMPLED_ATOM,
    TOTAL,
    SolveRequest,
    solve_parcel,
)
from lapis.stores.grounding.stored_atoms import DEFINITION
from sampled_networks import agreement


def shuffled(network: Network, rng: np.random.Generator, width: int = 3) -> ParcelRows:
    rows = read_columns(write_columns(network, width))
    return rows.take(rng.permutation(len(rows.weight)))


def tied(network: Network) -> np.ndarray:
    """Return the base atoms of all rows and definitions."""
    used = np.concatenate(
        (np.abs(network.literal) - 1, network.block_atom, np.abs(network.definition_literal) - 1)
    )
    atoms = np.unique(used)
    return atoms[atoms < network.num_base_atoms]


def of_kind(answer: dict[str, np.ndarray], *kinds: int) -> tuple[np.ndarray, np.ndarray]:
    mine = np.isin(answer["kind"], kinds)
    order = np.argsort(answer["number"][mine], kind="stable")
    return answer["number"][mine][order], answer["value"][mine][order]


def side_by_side(one: ParcelRows, other: ParcelRows, offset: int) -> ParcelRows:
    """Join two parcels, with the atoms of the second after those of the first."""
    moved = np.where(other.literal == 0, 0, other.literal + offset * np.sign(other.literal))
    piece = np.where(other.piece < 0, -1, other.piece + offset)
    second = other._replace(literal=moved, piece=piece)
    return ParcelRows(*(np.concatenate(pair) for pair in zip(one, second, strict=True)))


@pytest.mark.parametrize("seed", range(60))
def test_marginals_of_a_parcel_are_those_of_all_worlds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    rows = shuffled(network, rng)
    answer = solve_parcel(rows, SolveRequest("infer", "auto", network.weights))
    try:
        log_partition, marginal, _, counts = log_reference(network)
    except ValueError:
        assert (answer["kind"] == CONTRADICTED).all()
        return
    atoms, values = of_kind(answer, ATOM, SAMPLED_ATOM)
    np.testing.assert_array_equal(atoms, tied(network))
    np.testing.assert_allclose(values, marginal[atoms], atol=1e-9)
    weights, expected = of_kind(answer, COUNT)
    np.testing.assert_allclose(expected, (counts - network.constant_count)[weights], atol=1e-8)
    alone = network.num_base_atoms - len(atoms)
    (total,) = of_kind(answer, TOTAL)[1]
    assert total + network.constant_score + alone * np.log(2) == pytest.approx(log_partition)


@pytest.mark.parametrize("method", ["auto", "ilp", "exact", "enumerate"])
@pytest.mark.parametrize("seed", range(8))
def test_most_likely_worlds_of_a_parcel_are_the_best(seed: int, method: str) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    answer = solve_parcel(shuffled(network, rng), SolveRequest("map", method, network.weights))
    _, scores = scored_worlds(network)
    if not len(scores):
        assert (answer["kind"] == CONTRADICTED).all()
        return
    (score,) = of_kind(answer, TOTAL)[1]
    assert score + network.constant_score == pytest.approx(scores.max())
    world = np.zeros(network.num_base_atoms, bool)
    atoms, values = of_kind(answer, ATOM)
    world[atoms] = values > 0
    for start, end, exact in zip(
        network.block_start[:-1], network.block_start[1:], network.block_exact, strict=True
    ):
        assert world[network.block_atom[start:end]].sum() == 1 or not exact
    assert network.score(network.complete(world)) == pytest.approx(scores.max())


@pytest.mark.parametrize("width", [2, 8])
def test_the_order_of_rows_does_not_show(width: int) -> None:
    rng = np.random.default_rng(3)
    network = random_network(rng, num_base=9, num_clauses=14, hard=0.0)
    request = SolveRequest("infer", "gibbs", network.weights, InferenceOptions(max_samples=2_000))
    first = solve_parcel(shuffled(network, rng, width), request)
    for _ in range(3):
        again = solve_parcel(shuffled(network, rng, width), request)
        for name, column in first.items():
            np.testing.assert_array_equal(column, again[name], err_msg=name)


@pytest.mark.parametrize("method", ["auto", "gibbs", "mcsat"])
def test_a_component_draws_the_same_numbers_in_any_company(method: str) -> None:
    """With memory for a table of 2^14 entries, `auto` samples the 24 coupled atoms."""
    rng = np.random.default_rng(0)
    crowd = agreement(24, 0.02, 0.1)
    weights = np.concatenate((crowd.weights, random_network(rng).weights))
    other = random_network(np.random.default_rng(5), num_base=8, num_clauses=12, hard=0.0)
    options = InferenceOptions(seed=7, max_samples=4_000, max_memory=1 << 14)
    request = SolveRequest("infer", method, weights, options)
    alone = solve_parcel(shuffled(broken_symmetry(crowd), rng), request)
    other_rows = shuffled(other, rng)
    other_rows = other_rows._replace(
        weight=np.where(other_rows.weight < 0, other_rows.weight, other_rows.weight + 2)
    )
    both = solve_parcel(
        side_by_side(shuffled(broken_symmetry(crowd), rng), other_rows, crowd.num_atoms), request
    )
    assert (alone["kind"] == SAMPLED_ATOM).sum() == crowd.num_atoms
    atoms, values = of_kind(alone, SAMPLED_ATOM)
    among, together = of_kind(both, SAMPLED_ATOM)
    np.testing.assert_array_equal(together[np.isin(among, atoms)], values)
    other_seed = solve_parcel(
        shuffled(broken_symmetry(crowd), rng),
        SolveRequest("infer", method, weights, replace(options, seed=8)),
    )
    assert (of_kind(other_seed, SAMPLED_ATOM)[1] != values).any()


def broken_symmetry(network: Network) -> Network:
    """Give every clause a different count, so that no two atoms are exchangeable."""
    from dataclasses import replace

    return replace(network, coefficient=1.0 + np.arange(network.num_clauses) / 1000)


def test_what_cannot_be_done_is_an_answer_too() -> None:
    crowd = broken_symmetry(agreement(24, 0.02, 0.1))
    request = SolveRequest("infer", "exact", crowd.weights, InferenceOptions(max_memory=1 << 14))
    answer = solve_parcel(read_columns(write_columns(crowd, 2)), request)
    assert of_kind(answer, REFUSED)[0].tolist() == [24]


def test_hard_clauses_that_contradict_name_their_atoms() -> None:
    network = make_network(4, [([1, 2], 0, 1.0), ([3], -1, 1.0), ([-3], -1, 1.0)])
    for command in ("infer", "map"):
        request = SolveRequest(command, "auto", network.weights)
        answer = solve_parcel(read_columns(write_columns(network, 2)), request)
        assert of_kind(answer, CONTRADICTED)[0].tolist() == [2]


def test_a_row_true_in_every_world_counts() -> None:
    rows = ParcelRows(
        np.array([0, 0]), np.array([-1, -1]), np.array([3.0, 1.0]), np.array([[5, -5], [5, 0]])
    )
    parcel = build_network(rows, np.array([0.7]))
    assert parcel.network.constant_count.tolist() == [3.0]
    assert parcel.network.num_clauses == 1
    assert parcel.atom.tolist() == [4]


def test_auxiliary_atoms_of_auxiliary_atoms_follow_them() -> None:
    """2 ⇔ 0 ∨ 1 and 3 ⇔ ¬2, without other clauses."""
    rows = ParcelRows(
        np.array([0, DEFINITION, DEFINITION, DEFINITION]),
        np.array([-1, 2, 2, 3]),
        np.ones(4),
        np.array([[4], [1], [2], [-3]]),
    )
    network = build_network(rows, np.array([0.7])).network
    assert network.num_base_atoms == 2
    for one in (False, True):
        for other in (False, True):
            world = network.complete(np.array([one, other]))
            assert world.tolist() == [one, other, one or other, not (one or other)]
            assert network.is_feasible(world)
            world[3] = not world[3]
            assert not network.is_feasible(world)
