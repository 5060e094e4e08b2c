"""Modes in which chains stay apart are weighed: against enumeration, and on large networks."""

from __future__ import annotations

import numpy as np
import pytest

import lapis
from exact_networks import make_network
from lapis.grounding import ground
from lapis.inference.exact.enumerate import enumerate_worlds
from lapis.inference.marginals import InferenceOptions
from lapis.inference.random_numbers import random_states
from lapis.inference.reduction.eliminate import reduce
from lapis.inference.sampling import chains
from lapis.inference.sampling.chains import SampleResult, run_chains
from lapis.inference.sampling.gibbs import Gibbs
from lapis.inference.sampling.jumps import connected_sets
from lapis.inference.sampling.mode_weights import (
    Mode,
    ModeWeights,
    combine_paths,
    describe_mode,
    draw_world,
    group_chains,
    make_reference,
    region_of,
    weigh_modes,
)
from lapis.inference.sampling.recovery import sample_reduced
from lapis.inference.sampling.tally import extend_worlds, new_tallies
from lapis.network.network import Network
from lapis.runtime.processes import ThreadPool
from sampled_networks import agreement, colouring, many_modes


def bias_of(size: int, coupling: float, share: float) -> float:
    """Return the bias of `agreement` at which a world with most atoms true has a probability."""
    low, high = -5.0, 5.0
    for _ in range(80):
        bias = (low + high) / 2
        if probability_of_most(size, coupling, bias) < share:
            low = bias
        else:
            high = bias
    return low


def probability_of_most(size: int, coupling: float, bias: float) -> float:
    k = np.arange(size + 1)
    binomial = np.concatenate(([0.0], np.cumsum(np.log((size - k[:-1]) / (k[:-1] + 1)))))
    score = binomial - coupling * k * (size - k) + bias * k
    weight = np.exp(score - score.max())
    return float(weight[k > size / 2].sum() / weight.sum())


def check(network: Network, found: SampleResult, errors: float = 4.5) -> None:
    exact = enumerate_worlds(network)
    assert (np.abs(found.marginal - exact.marginal) <= errors * found.stderr + 1e-9).all()
    off = np.abs(found.expected_count - exact.expected_count)
    assert (off <= errors * found.expected_count_stderr + 1e-9).all()


@pytest.fixture
def no_jumps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains that jump cross between modes, which are not weighed then."""
    monkeypatch.setattr(chains, "MAX_JUMPS", 0)


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99, 1 - 1e-9])
@pytest.mark.parametrize("seed", range(2))
def test_planted_modes_with_jumps(share: float, seed: int) -> None:
    network = agreement(15, 0.8, bias_of(15, 0.8, share))
    found = run_chains(network, Gibbs(), weigh=True, seed=seed, precision=0.01)
    assert found.converged
    check(network, found)


@pytest.mark.usefixtures("no_jumps")
@pytest.mark.parametrize("share", [0.5, 0.9, 0.99, 1 - 1e-9])
@pytest.mark.parametrize("seed", range(2))
def test_planted_modes(share: float, seed: int) -> None:
    """Gibbs chains never leave a mode; the weights come from paths."""
    network = agreement(15, 0.8, bias_of(15, 0.8, share))
    found = run_chains(network, Gibbs(), weigh=True, seed=seed, precision=0.01)
    assert found.converged
    check(network, found)
    heavy, light = found.modes
    assert heavy.size == light.size == 15
    assert light.kept == (share < 0.999)
    if light.kept:
        assert abs(light.weight - (1 - share)) <= 4 * light.stderr + 0.1 * (1 - share)
    else:  # an upper bound
        assert 1 - share <= light.stderr <= 0.001
    assert heavy.weight + light.weight == pytest.approx(1)
    alone = run_chains(network, Gibbs(), seed=seed, precision=0.01, max_samples=8_000)
    assert not alone.converged


@pytest.mark.usefixtures("no_jumps")
def test_modes_of_blocks() -> None:
    """Classes of twelve atoms that agree: three modes, one preferred."""
    size, classes = 7, 3
    atoms = np.arange(1, size * classes + 1).reshape(size, classes)
    clauses: list[tuple[list[int], int, float]] = []
    for one in range(size):
        clauses.append(([int(atoms[one, 0])], 1, 1.0))
        for other in range(one + 1, size):
            for label in range(classes):
                pair = [-int(atoms[one, label]), int(atoms[other, label])]
                clauses.append((pair, 0, 1.0))
    blocks = [((row - 1).tolist(), True) for row in atoms]
    network = make_network(size * classes, clauses, [2.5, 0.2], blocks)
    found = run_chains(network, Gibbs(), weigh=True, precision=0.01)
    assert len(found.modes) == 3
    assert found.converged
    check(network, found)


def island(size: int, bias: float) -> Network:
    """All atoms are equal, by a ring of hard clauses that units of Gibbs sweeps do not cover."""
    ring = range(1, size + 1)
    clauses: list[tuple[list[int], int, float]] = [([-a, a % size + 1], -1, 1.0) for a in ring]
    clauses += [([a], 0, 1.0) for a in ring]
    return make_network(size, clauses, [bias])


@pytest.mark.usefixtures("no_jumps")
def test_islands_of_hard_clauses() -> None:
    network = island(16, 0.05)
    found = run_chains(network, Gibbs(), weigh=True, precision=0.01)
    assert {mode.size for mode in found.modes} == {16}
    check(network, found)
    assert found.converged


@pytest.mark.usefixtures("no_jumps")
def test_modes_found_once_are_not_all() -> None:
    """Two hundred islands of equal weight: chains find some, and the answer is not converged."""
    rng = np.random.default_rng(0)
    clauses: list[tuple[list[int], int, float]] = []
    size = 20
    world = rng.random(size) < 0.5
    for _ in range(13):
        row = (rng.choice(size, 3, replace=False) + 1).tolist()
        odd = bool(world[np.array(row) - 1].sum() % 2)
        for signs in range(8):
            literals = [a if signs >> i & 1 else -a for i, a in enumerate(row)]
            true = sum(literal < 0 for literal in literals) % 2  # the world that falsifies it
            if bool(true) != odd:
                clauses.append((literals, -1, 1.0))
    clauses += [([a], 0, 0.1 * a) for a in range(1, size + 1)]
    network = make_network(size, clauses, [0.3])
    found = run_chains(network, Gibbs(), weigh=True, max_samples=4_000)
    exact = enumerate_worlds(network).marginal
    assert np.abs(found.marginal - exact).max() > 0.05
    assert not found.converged


def stay(network: Network, worlds: np.ndarray, samples: int = 64) -> tuple[list[Mode], ModeWeights]:
    """Run a chain from each world, group them and weigh their modes."""
    gibbs = Gibbs()
    plan, tallies = gibbs.prepare(network), []
    for world, stream in zip(worlds, random_states(0, len(worlds)), strict=True):
        state = gibbs.init(plan, world, stream.copy())
        own = new_tallies(network.num_base_atoms, np.zeros(len(network.weights)), None, len(world))
        own = own._replace(worlds=extend_worlds(own.worlds, samples))
        gibbs.step(plan, state, own, samples)
        tallies.append(own)
    groups = group_chains(tallies, network.component[: network.num_base_atoms])
    modes = [describe_mode(tallies, group, 16) for group in groups]
    with ThreadPool(2) as pool:
        found = weigh_modes(plan, modes, budget=2_000, precision=0.01, seed=0, pool=pool)
    return modes, found


def test_chains_are_grouped_by_mode() -> None:
    network = agreement(12, 0.8, 0.1)
    worlds = np.array([np.zeros(12, bool), np.ones(12, bool)] * 2)
    modes, found = stay(network, worlds)
    assert sorted(mode.chains for mode in modes) == [(0, 2), (1, 3)]
    assert (found.region(worlds) == found.region(worlds)[[0, 1, 0, 1]]).all()
    mixing, _ = stay(agreement(12, 0.05, 0.1), worlds, samples=256)
    assert [mode.chains for mode in mixing] == [(0, 1, 2, 3)]


def test_references_have_the_means_of_the_mode() -> None:
    """Also of blocks, whose partition functions are sums over their states."""
    network = colouring(4, 3)
    mean = np.full(12, 1 / 3)
    mean[:3] = 0.7, 0.2, 0.1
    own = make_reference(network, Mode(mean, np.zeros((0, 12), bool), (), 10**6))
    rng = np.random.default_rng(0)
    drawn = np.array([draw_world(network, own, rng) for _ in range(4_000)])
    assert np.abs(drawn.mean(axis=0) - mean).max() < 4 * np.sqrt(0.25 / 4_000)
    assert (drawn.reshape(-1, 4, 3).sum(axis=2) == 1).all()
    total = np.exp(own.field.reshape(4, 3)).sum(axis=1)
    assert own.log_partition == pytest.approx(np.log(total).sum())
    assert region_of([own, own], drawn[:3]).tolist() == [0, 0, 0]


def test_both_directions_are_combined() -> None:
    """Gaussian work that satisfies Crooks' relation: log Z is recovered, and bounded."""
    rng = np.random.default_rng(1)
    for spread in (0.3, 1.0, 2.0):
        forward = 5.0 - spread**2 / 2 + spread * rng.normal(size=400)
        backward = 5.0 + spread**2 / 2 + spread * rng.normal(size=400)
        found = combine_paths(forward, backward, ())
        assert abs(found.log_partition - 5.0) <= 4 * found.stderr
        assert found.lower < 5.0 < found.upper
    apart = combine_paths(np.full(2, -30.0), np.full(2, 40.0), ())
    assert (apart.log_partition, apart.stderr) == (5.0, 35.0)
    none = combine_paths(np.full(2, -np.inf), np.full(2, 40.0), ())
    assert none.stderr == np.inf


SMOKERS = """
Friends(person, person)
Smokes(person)
Cancer(person)
1.5 Smokes(x) => Cancer(x)
1.1 Friends(x, y) ^ Smokes(x) => Smokes(y)
"""


def friends(kind: str, people: int, number: int, seed: int) -> lapis.Database:
    """Friendships of a degree law; Smokes is known of a fifth of the people."""
    rng = np.random.default_rng(seed)
    edges = people * number
    one = np.repeat(np.arange(people), number)
    other = rng.integers(people, size=edges)
    if kind == "poisson":
        one = rng.integers(people, size=edges)
    elif kind == "power law":
        share = rng.pareto(1.5, people) + 1
        one = rng.choice(people, edges, p=share / share.sum())
    elif kind == "small world":
        near = (one + np.tile(np.arange(1, number + 1), people)) % people
        other = np.where(rng.random(edges) < 0.1, other, near)
    lines = [f"Friends(P{x},P{y})" for x, y in zip(one.tolist(), other.tolist(), strict=True)]
    known = np.flatnonzero(rng.random(people) < 0.2).tolist()
    lines += [f"{'' if rng.random() < 0.5 else '!'}Smokes(P{x})" for x in known]
    return lapis.Database.parse("\n".join(lines))


@pytest.mark.parametrize("kind", ["regular", "poisson", "power law"])
def test_one_of_two_phases_is_dropped(kind: str) -> None:
    """A chain of Gibbs sweeps stays among smokers; this phase weighs nothing and is named."""
    data = friends(kind, 1_000, 10, 0)
    network = ground(lapis.build_problem(lapis.parse(SMOKERS), data, ["Smokes", "Cancer"]))
    found = sample_reduced(
        reduce(network), [Gibbs()], InferenceOptions(precision=0.02, time_limit=20), weigh=True
    )
    heavy, *others = found.modes
    smokers = [mode for mode in others if mode.size > 500]
    assert smokers
    assert all(not mode.kept and mode.stderr < 1e-6 for mode in smokers)
    assert heavy.kept


def count_claims(seeds: range) -> tuple[int, int, float]:
    """Count converged and overclaimed answers, and the share of atoms within two errors."""
    converged, overclaimed, near = 0, 0, []
    for seed in seeds:
        network = many_modes(seed)
        exact = enumerate_worlds(network).marginal
        found = run_chains(network, Gibbs(), max_samples=40_000, seed=seed, weigh=True)
        off = np.abs(found.marginal - exact) / found.stderr
        converged += found.converged
        overclaimed += found.converged and bool((off > 5).any())
        near += (off <= 2).tolist()
    return converged, overclaimed, float(np.mean(near))


def test_errors_cover_the_truth() -> None:
    converged, overclaimed, share = count_claims(range(24))
    assert converged >= 22
    assert overclaimed == 0
    assert share >= 0.93


@pytest.mark.slow
def test_errors_cover_the_truth_at_length() -> None:
    converged, overclaimed, share = count_claims(range(24, 424))
    assert converged >= 380
    assert overclaimed <= 2
    assert share >= 0.93


def village(size: int, people: int) -> Network:
    """A ring of people, and a group of friends with two patterns, on one of its places."""
    ring = range(1, people + 1)
    clauses: list[tuple[list[int], int, float]] = []
    for atom in ring:
        clauses += [([atom], 1, 1.0), ([-atom, atom % people + 1], 2, 1.0)]
    members = range(people + 1, people + size + 1)
    clauses += [([-a, b], 0, 1.0) for a in members for b in members if a != b]
    clauses += [([-1, people + 1], 2, 1.0)]
    return make_network(people + size, clauses, [1.0, -0.3, 0.4])


def test_chains_jump_between_local_modes() -> None:
    """Ten of 2,000 atoms have two patterns, of one half each: no mode of the whole, but a jump."""
    network = village(10, 2_000)
    exact = enumerate_worlds(village(10, 4)).marginal[4:]
    found = run_chains(network, Gibbs(), weigh=True, precision=0.02)
    assert found.converged
    assert found.modes == ()
    own = slice(2_000, 2_010)
    # the rest of the ring hardly changes the group, whose members are alike
    assert np.abs(found.marginal[own] - exact).max() <= 4 * found.stderr[own].max() + 0.01
    alone = run_chains(network, Gibbs(), precision=0.02, max_samples=4_000)
    assert not alone.converged


def test_sets_of_jumps_are_connected() -> None:
    network = village(4, 12)
    sets = connected_sets(network, np.array([2, 3, 4, 12, 13, 7]))
    assert sorted(part.tolist() for part in sets) == [[2, 3, 4], [7], [12, 13]]
