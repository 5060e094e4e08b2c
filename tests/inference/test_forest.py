"""Random forests drawn at once: exact on trees, induced and free of cycles on anything else."""

from __future__ import annotations

import numpy as np
import pytest
from exact_networks import make_network
from sampled_networks import start_chain
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from lapis.inference.exact.enumerate import enumerate_worlds
from lapis.inference.sampling.couplings.forest import TreeGibbs
from lapis.inference.sampling.diagnostics import summarize
from lapis.network.network import Network


def couple(size: int, pairs: list[tuple[int, int]], seed: int) -> Network:
    rng = np.random.default_rng(seed)
    clauses: list[tuple[list[int], int, float]] = []
    for atom in range(1, size + 1):
        clauses.append(([atom], 0, float(rng.normal())))
    for one, other in pairs:
        sign = rng.choice([-1, 1], 2)
        literals = [int(sign[0]) * (one + 1), int(sign[1]) * (other + 1)]
        clauses.append((literals, 0, float(2 * rng.normal())))
    return make_network(size, clauses, [1.0])


@pytest.mark.parametrize("seed", range(3))
def test_a_tree_is_answered_by_its_first_sample(seed: int) -> None:
    """All atoms are in the forest, nothing is given, and the probabilities are the marginals."""
    rng = np.random.default_rng(seed)
    network = couple(11, [(int(rng.integers(atom)), atom) for atom in range(1, 11)], seed)
    sampler = TreeGibbs()
    plan, state, tallies = start_chain(sampler, network, 2, seed)
    info = sampler.step(plan, state, tallies, 4)
    assert info.drawn == 4 * 11
    np.testing.assert_allclose(
        summarize([tallies.atoms]).mean, enumerate_worlds(network).marginal, atol=1e-12
    )


def test_worlds_of_a_tree_are_independent_draws() -> None:
    network = couple(6, [(0, 1), (1, 2), (1, 3), (3, 4), (3, 5)], 7)
    sampler = TreeGibbs()
    plan, state, tallies = start_chain(sampler, network, 0, 1)
    worlds = []
    for _ in range(4000):
        sampler.step(plan, state, tallies, 1)
        worlds.append(sampler.world(state))
    exact = enumerate_worlds(network)
    drawn = np.mean(worlds, axis=0)
    error = np.sqrt(exact.marginal * (1 - exact.marginal) / 4000)
    assert (np.abs(drawn - exact.marginal) <= 4 * error).all()
    counts = np.array([network.counts(world) for world in worlds])[:, 0]
    off = abs(counts.mean() - exact.expected_count[0])
    assert off <= 4 * counts.std() / np.sqrt(4000)


def test_forests_have_no_cycles_and_differ() -> None:
    rng = np.random.default_rng(0)
    pairs = sorted({tuple(sorted(rng.choice(60, 2, replace=False).tolist())) for _ in range(180)})
    network = couple(60, [(one, other) for one, other in pairs], 0)
    sampler = TreeGibbs()
    plan, state, tallies = start_chain(sampler, network, 2, 0)
    seen = set()
    for _ in range(20):
        sampler.step(plan, state, tallies, 1)
        inside = state.forest.root >= 0
        both = inside[plan.pairs.one] & inside[plan.pairs.other]
        one, other = plan.pairs.one[both], plan.pairs.other[both]
        graph = coo_array((np.ones(len(one)), (one, other)), shape=(60, 60))
        parts = connected_components(graph, directed=False)[0]
        assert parts == 60 - len(one)  # as many trees as atoms less edges
        # Whoever is left out would close a cycle.
        assert 15 < inside.sum() < 60
        seen.add(inside.tobytes())
    assert len(seen) == 20
