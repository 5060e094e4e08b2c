"""Small networks that are hard to sample, and comparisons of samplers with exact answers."""

from __future__ import annotations

import numpy as np

import lapis
from exact_networks import make_network, random_network
from golden_models import GoldenModel, golden_models
from lapis.grounding import ground
from lapis.inference.exact.enumerate import enumerate_worlds
from lapis.inference.random_numbers import random_states
from lapis.inference.sampling.chains import SampleResult
from lapis.inference.sampling.sampler import PlanType, Sampler, StateType
from lapis.inference.sampling.tally import Tallies, new_tallies
from lapis.network.network import Network
from lapis.problem.problem import Problem, build_problem

GOLDEN = [
    golden
    for golden in golden_models()
    if golden.applies_to("enumerate") and golden.query and not golden.impossible
]


def golden_problem(golden: GoldenModel) -> Problem:
    model, data = lapis.parse(golden.text), lapis.Database.parse(golden.data)
    return build_problem(model, data, list(golden.query))


def golden_network(golden: GoldenModel) -> Network:
    return ground(golden_problem(golden))


def equivalence(size: int, weight: float) -> Network:
    """Hard transitivity over unordered pairs, with a random weight for each pair."""
    number = {}
    for one in range(size):
        for other in range(one + 1, size):
            number[one, other] = number[other, one] = len(number) // 2 + 1
    clauses: list[tuple[list[int], int, float]] = [
        ([-number[a, b], -number[b, c], number[a, c]], -1, 1.0)
        for a in range(size)
        for b in range(size)
        for c in range(size)
        if len({a, b, c}) == 3 and a < c
    ]
    pairs = size * (size - 1) // 2
    clauses += [([pair], pair % 2, 1.0) for pair in range(1, pairs + 1)]
    return make_network(pairs, clauses, [weight, -weight])


def agreement(size: int, coupling: float, bias: float) -> Network:
    """Attractive couplings between all atoms: two distant modes, one slightly more likely."""
    clauses: list[tuple[list[int], int, float]] = []
    for one in range(1, size + 1):
        clauses.append(([one], 1, 1.0))
        for other in range(one + 1, size + 1):
            clauses += [([-one, other], 0, 1.0), ([one, -other], 0, 1.0)]
    return make_network(size, clauses, [coupling, bias])


def colouring(nodes: int, colours: int) -> Network:
    """A ring of blocks whose neighbours differ; the first node prefers its first colour."""
    atoms = np.arange(1, nodes * colours + 1).reshape(nodes, colours)
    clauses: list[tuple[list[int], int, float]] = [([1], 0, 1.0)]
    for node in range(nodes):
        for colour in range(colours):
            pair = [-int(atoms[node, colour]), -int(atoms[(node + 1) % nodes, colour])]
            clauses.append((sorted(pair, reverse=True), -1, 1.0))
    blocks = [((atoms[node] - 1).tolist(), True) for node in range(nodes)]
    return make_network(nodes * colours, clauses, [0.7], blocks)


def implications(size: int, weight: float) -> Network:
    """A ring of nearly hard implications: all true or all false, rarely anything else."""
    clauses: list[tuple[list[int], int, float]] = [([1], 1, 1.0)]
    clauses += [([-atom, atom % size + 1], 0, 1.0) for atom in range(1, size + 1)]
    return make_network(size, clauses, [weight, 0.4])


def witnesses(size: int) -> Network:
    """Some pair (a_i, b_i) is wanted, by auxiliary atoms c_i ⇔ a_i ∧ b_i and d ⇔ c_1 ∨ …"""
    base = 2 * size
    definitions = [[-(i + 1), -(size + i + 1)] for i in range(size)]  # not both
    definitions.append([-(base + i + 1) for i in range(size)])
    wanted = base + size + 1
    clauses: list[tuple[list[int], int, float]] = [([wanted], 0, 1.0), ([1], 1, 1.0)]
    clauses += [([-wanted, 2, -(base + 1)], 1, 2.0)]
    return make_network(base, clauses, [1.5, -0.8], (), definitions)


HARD_TO_SAMPLE = {
    "equivalence of 5": equivalence(5, 0.6),
    "agreement": agreement(6, 0.7, 0.2),
    "ring colouring": colouring(5, 3),
    "near-certain ring": implications(6, 20.0),
    "witnesses": witnesses(3),
    "nothing": make_network(0, [], [1.0]),
    "free atoms": make_network(3, [], [1.0], [([0, 1], False)]),
}


def random_networks(number: int) -> list[Network]:
    """Random networks that have a world."""
    found: list[Network] = []
    seed = 0
    while len(found) < number:
        network = random_network(np.random.default_rng(seed))
        seed += 1
        try:
            enumerate_worlds(network)
        except lapis.LapisError:
            continue
        found.append(network)
    return found


def start_chain(
    sampler: Sampler[PlanType, StateType], network: Network, chain: int, seed: int
) -> tuple[PlanType, StateType, Tallies]:
    """Return a chain at its start, and tallies for its steps."""
    plan, rng = sampler.prepare(network), random_states(seed, 1)[0].copy()
    state = sampler.init(plan, sampler.start(plan, chain, rng), rng)
    return plan, state, new_tallies(network.num_base_atoms, np.zeros(len(network.weights)))


def check_against_exact(network: Network, result: SampleResult) -> None:
    """Within 4 standard errors, and marginals within 0.01."""
    exact = enumerate_worlds(network)
    error = np.abs(result.marginal - exact.marginal)
    assert (error <= 0.01).all()
    assert (error <= 4 * result.stderr + 1e-9).all()
    counted = np.abs(result.expected_count - exact.expected_count)
    assert (counted <= 4 * result.expected_count_stderr + 1e-9).all()


def coupled_pairs(size: int, strength: float, rng: np.random.Generator) -> Network:
    """Couple every pair by a random weight for being equal: a distribution with many modes."""
    clauses: list[tuple[list[int], int, float]] = []
    weights: list[float] = []
    for one in range(1, size + 1):
        clauses.append(([one], len(weights), 1.0))
        weights.append(0.6 * strength * rng.normal())
        for other in range(one + 1, size + 1):
            clauses += [([-one, other], len(weights), 1.0), ([one, -other], len(weights), 1.0)]
            weights.append(strength * rng.normal())
    return make_network(size, clauses, weights)


def many_modes(seed: int) -> Network:
    """Two unequal modes for even seeds, many for odd ones."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(8, 13))
    if seed % 2 == 0:
        return agreement(size, rng.uniform(0.25, 0.9) * 8 / size, rng.uniform(0.02, 0.6))
    return coupled_pairs(min(size, 11), rng.uniform(0.6, 2.2), rng)
