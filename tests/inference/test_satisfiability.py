"""Contradictory hard formulas are refuted, by a core of which nothing can be left out."""

from __future__ import annotations

import itertools

import numpy as np
from exact_networks import make_network, random_network
from hypothesis import given, settings
from hypothesis import strategies as st

from lapis.network.network import Network
from lapis.network.satisfiability import find_core


def has_world(network: Network, rows: list[int]) -> bool:
    """Whether some assignment, auxiliary atoms free, satisfies these clauses and blocks."""
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
@settings(max_examples=300)
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
    """x₁, x₁ ⇒ x₂, …, ¬x_k among thousands of rows that play no part."""
    links, others = 40, 5_000
    clauses = [([1], -1, 1.0), ([-links], -1, 1.0)]
    clauses += [([-i, i + 1], -1, 1.0) for i in range(1, links)]
    clauses += [([-i, i + 1, links + i], -1, 1.0) for i in range(links + 1, links + others)]
    network = make_network(2 * links + 2 * others, clauses)
    core = find_core(network)
    assert core is not None
    assert sorted(core.tolist()) == list(range(links + 1))


def test_pigeons_do_not_fit() -> None:
    """Three pigeons as blocks, two holes each, no two in one: no unit to propagate."""
    atoms = np.arange(1, 7).reshape(3, 2)
    blocks = [((atoms[pigeon] - 1).tolist(), True) for pigeon in range(3)]
    clauses = [
        ([-int(atoms[a, hole]), -int(atoms[b, hole])], -1, 1.0)
        for a, b in itertools.combinations(range(3), 2)
        for hole in range(2)
    ]
    core = find_core(make_network(6, clauses, blocks=blocks))
    assert core is not None
    assert len(core) == 9
