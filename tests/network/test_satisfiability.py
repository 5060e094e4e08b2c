"""Test that contradictory hard formulas are refuted by a minimal core."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exact_networks import make_network, random_network
from lapis.network import satisfiability
from lapis.network.network import Network
from lapis.network.satisfiability import find_core, find_world


def has_world(network: Network, rows: list[int]) -> bool:
    """Return whether some assignment, auxiliary atoms free, satisfies these clauses and blocks."""
    for world in itertools.product((False, True), repeat=network.num_atoms):
        if all(holds(network, row, world) for row in rows):
            return True
    return False


def holds(network: Network, row: int, world: tuple[bool, ...]) -> bool:
    if row < network.num_clauses:
        first, last = network.clause_start[row : row + 2]
        return any(world[abs(x) - 1] == (x > 0) for x in network.literal[first:last].tolist())
    block = row - network.num_clauses
    first, last = network.block_start[block : block + 2]
    true = sum(world[atom] for atom in network.block_atom[first:last].tolist())
    return true == 1 if network.block_exact[block] else true <= 1


@given(st.integers(0, 2**32 - 1))
def test_cores_of_random_networks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 7))
    network = random_network(rng, size, int(rng.integers(4, 24)), max_length=3, hard=0.8)
    everything = [*np.flatnonzero(network.weight_id < 0).tolist()]
    everything += range(network.num_clauses, network.num_clauses + network.num_blocks)
    core = find_core(network)
    assert (core is None) == has_world(network, everything)
    if core is not None:
        assert set(core.tolist()) <= set(everything)
        assert not has_world(network, core.tolist())
        for row in core.tolist():
            assert has_world(network, [other for other in core.tolist() if other != row])


def test_a_long_chain_is_refuted_by_its_ends_and_links() -> None:
    """x₁, x₁ ⇒ x₂, …, ¬x_k among thousands of irrelevant rows."""
    links, others = 40, 5_000
    clauses = [([1], -1, 1.0), ([-links], -1, 1.0)]
    clauses += [([-i, i + 1], -1, 1.0) for i in range(1, links)]
    clauses += [([-i, i + 1, links + i], -1, 1.0) for i in range(links + 1, links + others)]
    network = make_network(2 * links + 2 * others, clauses)
    core = find_core(network)
    assert core is not None
    assert sorted(core.tolist()) == list(range(links + 1))


@pytest.mark.parametrize("holes", [2, 4, 5])
def test_pigeons_do_not_fit(holes: int) -> None:
    """One pigeon too many, a block each, no two in a hole: no unit clause, all rows needed."""
    pigeons = holes + 1
    atoms = np.arange(1, pigeons * holes + 1).reshape(pigeons, holes)
    blocks = [((row - 1).tolist(), True) for row in atoms]
    clauses = [
        ([-int(atoms[a, hole]), -int(atoms[b, hole])], -1, 1.0)
        for a, b in itertools.combinations(range(pigeons), 2)
        for hole in range(holes)
    ]
    core = find_core(make_network(pigeons * holes, clauses, blocks=blocks))
    assert core is not None
    assert sorted(core.tolist()) == list(range(len(clauses) + pigeons))


@given(st.integers(0, 2**32 - 1))
def test_worlds_of_random_networks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 7))
    network = random_network(rng, size, int(rng.integers(1, 16)), max_length=3, hard=0.6)
    world = find_world(network)
    rows = np.flatnonzero(network.weight_id < 0).tolist()
    rows += range(network.num_clauses, network.num_clauses + network.num_blocks)
    if world is None:
        assert not has_world(network, rows)
    else:
        assert all(holds(network, row, tuple(world.tolist())) for row in rows)


def test_a_search_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the budget neither a world nor a core is claimed."""
    rng = np.random.default_rng(0)
    clauses = [
        (((rng.choice(250, 3, replace=False) + 1) * rng.choice([-1, 1], 3)).tolist(), -1, 1.0)
        for _ in range(1065)
    ]
    network = make_network(250, clauses)
    monkeypatch.setattr(satisfiability, "MAX_PROPAGATIONS", 1_000)
    assert find_core(network) is None
    assert find_world(network) is None


def test_minimisation_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core that is not minimised to the end is one all the same."""
    clauses = [([1], -1, 1.0), ([-1], -1, 1.0), ([1, 2], -1, 1.0)]
    network = make_network(2, clauses)
    monkeypatch.setattr(satisfiability, "MAX_MINIMISING", -1)
    core = find_core(network)
    assert core is not None
    assert not has_world(network, core.tolist())
