"""Modes that no chain visits: found by climbing, included by mode chains."""

from __future__ import annotations

import numpy as np
import pytest

import lapis
from exact_networks import make_network
from lapis.grounding import ground
from lapis.inference.exact.enumerate import enumerate_worlds
from lapis.inference.sampling import chains
from lapis.inference.sampling.chains import find_modes, run_chains
from lapis.inference.sampling.count_gibbs import CountGibbs, unknown_atoms
from lapis.inference.sampling.gibbs import Gibbs
from lapis.network.network import Network
from sampled_networks import agreement, colouring, equivalence, many_modes


def crowds(number: int, size: int) -> Network:
    """Independent groups of atoms, each with attractive couplings between all pairs."""
    clauses: list[tuple[list[int], int, float]] = []
    for crowd in range(number):
        members = range(crowd * size + 1, (crowd + 1) * size + 1)
        clauses += [([-one, other], 0, 1.0) for one in members for other in members if one != other]
        clauses += [([one], 1, 1.0) for one in members]
    return make_network(number * size, clauses, [0.8, 0.02])


def test_every_component_shows_its_modes() -> None:
    network = crowds(5, 6)
    modes = np.array(find_modes(network, 6, seed=0)).reshape(-1, 5, 6)
    assert len(modes) == 2
    assert (modes.all(axis=2) | ~modes.any(axis=2)).all()  # everybody agrees
    assert modes[0].all()  # the likelier one first, everywhere
    assert not modes[1].any()


@pytest.mark.parametrize("network", [equivalence(5, 0.6), colouring(5, 3)], ids=["hard", "blocks"])
def test_modes_are_possible(network: Network) -> None:
    modes = find_modes(network, 6, seed=1)
    assert len({mode.tobytes() for mode in modes}) == len(modes) > 1
    assert all(network.is_feasible(mode) for mode in modes)


def test_one_mode_and_nothing_are_no_trouble() -> None:
    assert len(find_modes(make_network(2, [([1], 0, 1.0), ([-2], 0, 1.0)], [1.0]), 6, 0)) == 1
    assert find_modes(make_network(3, [], [1.0]), 6, 0) == []
    assert find_modes(agreement(4, 0.5, 0.1), 0, 0) == []


@pytest.mark.parametrize("seed", [133, 271])
def test_modes_of_mode_chains_increase_errors(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without mode chains, the standard errors of chains that miss a mode are too small."""
    network = many_modes(seed)
    exact = enumerate_worlds(network).marginal

    def is_overclaimed() -> bool:
        found = run_chains(network, Gibbs(), max_samples=40_000, seed=seed)
        off = np.abs(found.marginal - exact) > 5 * found.stderr
        return found.converged and bool(off.any())

    assert not is_overclaimed()
    monkeypatch.setattr(chains, "MODE_CHAIN_WORK", 0)
    assert is_overclaimed()


def test_chains_draw_the_same_with_and_without_mode_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mode chains are in no average: they change only standard errors and warm-up."""
    network = agreement(6, 0.1, 0.3)
    found = run_chains(network, Gibbs(), seed=5, precision=0.0, max_samples=2_000)
    monkeypatch.setattr(chains, "MODE_CHAIN_WORK", 0)
    alone = run_chains(network, Gibbs(), seed=5, precision=0.0, max_samples=2_000)
    assert found.num_warmup == alone.num_warmup
    assert found.num_samples == alone.num_samples == 2_000
    assert (found.marginal == alone.marginal).all()


def test_a_chain_is_held_against_others_that_start_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without mode search a single chain found only its own mode and was marked as converged."""
    monkeypatch.setattr(chains, "MODE_CHAIN_WORK", 0)
    problem = lapis.build_problem(
        lapis.parse("t = {1, ..., 12}\nP(t)\n0.3 P(x) <=> P(y)\n0.1 P(x)"), None, ["P"]
    )
    network = ground(problem)
    exact = enumerate_worlds(network).marginal
    for found in (
        run_chains(network, Gibbs(), precision=0.05, max_samples=2_000, num_chains=1),
        run_chains(
            unknown_atoms(problem), CountGibbs(problem),
            precision=0.05, max_samples=2_000, num_chains=1,
        ),
    ):  # fmt: skip
        assert not found.converged
        assert (np.abs(found.marginal - exact) <= 4 * found.stderr).all()


def test_what_no_chain_has_entered_is_as_doubtful_as_what_parts_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All chains were in two of three topics: the third had 0.0004 ± 0.001 instead of 0.26."""
    monkeypatch.setattr(chains, "MODE_CHAIN_WORK", 0)
    model = "page = {1, ..., 6}\ntopic = {X, Y, Z}\nC(page, topic!)\n0.8 C(p, t) ^ C(q, t)"
    problem = lapis.build_problem(lapis.parse(model), None, ["C"])
    network, atoms = ground(problem), unknown_atoms(problem)
    for seed in (1, 2):
        for found in (
            run_chains(network, Gibbs(), max_samples=400, seed=seed),
            run_chains(atoms, CountGibbs(problem), max_samples=400, seed=seed),
        ):
            assert not found.converged
            assert found.marginal.min() < 0.01
            assert (np.abs(found.marginal - 1 / 3) <= 4 * found.stderr).all()
