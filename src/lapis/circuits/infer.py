"""Marginals of a ground network by a circuit: exact if it compiles, else approximate.

The answer states which. The standard errors of an approximation are those of the importance weights
that corrected it; they do not cover worlds that the circuit does not reach.
"""

from __future__ import annotations

import numpy as np

from lapis.circuits.approximation.approximate import MAX_EDGES, find_structure, fit_structure
from lapis.circuits.approximation.family import condition_circuit
from lapis.circuits.approximation.variational import table_marginals
from lapis.circuits.circuit import Circuit
from lapis.circuits.compilation.compile_model import compile_factors
from lapis.circuits.evaluation import log_values, no_evidence, posteriors
from lapis.circuits.ground_factors import GroundFactors, ground_factors
from lapis.errors import TooLarge
from lapis.inference.marginals import InferenceOptions, Marginals, sampled_log_odds, state_log_odds
from lapis.inference.plan import candidate_samplers
from lapis.inference.random_numbers import random_states
from lapis.inference.sampling.sampler import Sampler
from lapis.inference.sampling.tally import new_tallies
from lapis.network.network import Network
from lapis.registry.method_table import find_method
from lapis.runtime.progress import Stop

COMPILED_EDGES = 4_000_000
MAX_COST = 2e10  # edges × table entries, for the expected counts
NUM_SAMPLES, BURN_IN = 8_000, 500
CERTAIN = 1e-9  # closer to 0 or 1, log-odds are computed from logarithms


def by_circuit(network: Network, options: InferenceOptions) -> Marginals:
    """Compile the network, or approximate it if the circuit is too large."""
    factors = ground_factors(network)
    entries = max(1, len(factors.graph.log_value))
    limit = int(min(COMPILED_EDGES, MAX_COST / entries))
    try:
        compiled = compile_factors(
            factors.graph, limit, options.seed, options.stop, options.progress
        )
    except TooLarge:
        return by_approximation(factors, options)
    circuit = compiled.circuit
    value, found = posteriors(circuit, no_evidence(circuit))
    base = factors.atom_states()[: network.num_base_atoms]
    notes = {"compiled_by": compiled.method, "edges": circuit.num_edges, "width": compiled.width}
    return Marginals.by(
        "circuit",
        exact=True,
        log_partition=float(value[0]),
        marginal=np.clip(found[0][base], 0.0, 1.0),
        log_odds=exact_log_odds(circuit, found[0])[base],
        expected_count=expected_count(circuit, factors),
        diagnostics=notes,
    )


def by_approximation(factors: GroundFactors, options: InferenceOptions) -> Marginals:
    """Fit an approximate circuit and return its marginals."""
    network, graph = factors.network, factors.graph
    row = np.full(graph.num_variables, -1, np.int32)
    rows = rows_of_worlds(factors, sample_worlds(network, options))
    stop = options.stop or Stop()
    structure = find_structure(
        graph, row, MAX_EDGES, len(rows), options.seed, stop, options.progress, rows
    )
    found = fit_structure(graph, structure, row, "VI", options.seed, stop, options.progress)
    assert found.effective is not None
    assert found.state_stderr is not None
    circuit = found.circuit
    probability = posteriors(circuit, no_evidence(circuit))[1][0]
    base = factors.atom_states()[: network.num_base_atoms]
    marginal = np.clip(probability[base], 0.0, 1.0)
    notes = {
        "edges": circuit.num_edges,
        "log_partition_bound": found.bound,
        "log_partition_estimate": found.log_partition,
        "log_partition_stderr": found.log_partition_stderr,
        "effective": found.effective,
        "interrupted": stop(),
    }
    return Marginals.by(
        "circuit",
        exact=False,
        marginal=marginal,
        log_odds=sampled_log_odds(marginal, len(rows)),
        stderr=found.state_stderr[base],
        expected_count=expected_count(circuit, factors),
        diagnostics=notes,
    )


def expected_count(circuit: Circuit, factors: GroundFactors) -> np.ndarray:
    """float64[num_weights], expected counts from the probabilities of all table entries."""
    family = condition_circuit(circuit, no_evidence(circuit)[0])
    return factors.expected_count(
        factors.cube_probabilities(table_marginals(family, factors.graph))
    )


def exact_log_odds(circuit: Circuit, probability: np.ndarray) -> np.ndarray:
    """float64[num_states], log-odds; those of nearly certain variables from logarithms."""
    first = circuit.state_start.astype(np.int64)
    with np.errstate(divide="ignore"):
        log_probability = np.log(probability)
    size = np.diff(first)
    extreme = np.minimum.reduceat(probability, first[:-1]) < CERTAIN
    states = np.flatnonzero(np.repeat(extreme, size))
    if len(states):
        rows = np.repeat(no_evidence(circuit), len(states), axis=0)
        variable = circuit.variable_of_state[states]
        rows[np.arange(len(states)), variable] = states - first[variable]
        log_probability[states] = log_values(circuit, rows)
    return state_log_odds(log_probability, first)


def sample_worlds(network: Network, options: InferenceOptions) -> np.ndarray:
    """bool[num_samples, num_atoms], worlds of `num_chains` chains."""
    method = candidate_samplers(network)[0]
    sampler: Sampler = find_method("infer", method).make()  # type: ignore[type-arg]
    plan = sampler.prepare(network)
    chains = max(1, options.num_chains)
    share = -(-NUM_SAMPLES // chains)
    worlds = np.empty((chains, share, network.num_atoms), bool)
    for chain, rng in enumerate(random_states(options.seed, chains)):
        state = sampler.init(plan, sampler.start(plan, chain, rng), rng)
        tallies = new_tallies(network.num_base_atoms, np.empty(0))
        sampler.step(plan, state, tallies, BURN_IN)
        for sample in range(share):
            sampler.step(plan, state, tallies, 1)
            worlds[chain, sample] = sampler.world(state)
    return worlds.reshape(-1, network.num_atoms)


def rows_of_worlds(factors: GroundFactors, worlds: np.ndarray) -> np.ndarray:
    """int32[num_worlds, num_variables], the states of the variables in worlds."""
    variables, cubes = factors.variables, factors.cubes
    rows = np.zeros((len(worlds), len(cubes.size)), np.int32)
    for v in range(len(variables.size)):
        atoms = variables.state_atom[variables.state_start[v] : variables.state_start[v + 1]]
        rows[:, v] = np.flatnonzero(atoms < 0)[:1].sum()  # false, or none of a block
        for state, atom in enumerate(atoms):
            if atom >= 0:
                rows[worlds[:, atom], v] = state
    factors.fill_links(rows)
    return rows
