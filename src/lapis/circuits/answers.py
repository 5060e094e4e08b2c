"""Answers of circuits and networks to one query, and their figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lapis.circuits.circuit import Circuit, state_starts
from lapis.circuits.evaluation import posteriors
from lapis.circuits.factors.factor_graph import FactorGraph
from lapis.circuits.queries import (
    log_conditionals,
    log_probabilities,
    most_likely,
    refuse_impossible,
)
from lapis.circuits.results import CircuitAnswer
from lapis.circuits.tree_networks.compiling import compile_network
from lapis.circuits.tree_networks.gibbs import estimate_conditionals, estimate_marginals
from lapis.circuits.tree_networks.tree_network import TreeNetwork
from lapis.errors import TooLarge


def ask(
    circuit: Circuit,
    event: np.ndarray,
    evidence: np.ndarray,
    variables: Sequence[str],
    with_most_likely: bool,
) -> CircuitAnswer:
    """P(event | evidence) and the marginals of variables; rows of states, -1 for missing.

    Without an event: P(evidence).
    """
    log_evidence = log_probabilities(circuit, evidence)
    refuse_impossible(log_evidence)
    is_asked = (event >= 0).any()
    value = log_conditionals(circuit, event, evidence) if is_asked else log_evidence
    found = CircuitAnswer(
        float(value[0]),
        distributions(circuit, posteriors(circuit, evidence)[1][0], variables) if variables else {},
    )
    if not with_most_likely:
        return found
    rows, joint = most_likely(circuit, evidence)
    world = {
        name: states[state]
        for name, states, state in zip(circuit.names, circuit.states, rows[0].tolist(), strict=True)
    }
    return replace(found, most_likely=world, most_likely_log=float(joint[0] - log_evidence[0]))


def ask_network(
    network: TreeNetwork,
    event: np.ndarray,
    evidence: np.ndarray,
    variables: Sequence[str],
    num_chains: int,
    burn_in: int,
    num_sweeps: int,
    seed: int,
) -> CircuitAnswer:
    """Estimate P(event | evidence) and the marginals of variables."""
    value = stderr = None
    worst = 1.0
    chance: dict[str, dict[str, float]] = {}
    error: dict[str, dict[str, float]] = {}
    if (event >= 0).any():
        found = estimate_conditionals(
            network, event[None], evidence[None], num_chains=num_chains, burn_in=burn_in,
            num_sweeps=num_sweeps, seed=seed,
        )  # fmt: skip
        value, stderr = float(found.log_probability[0]), float(found.stderr[0])
        worst = float(found.rhat[0])
    if variables:
        found = estimate_marginals(
            network, evidence, num_chains=num_chains, burn_in=burn_in, num_sweeps=num_sweeps,
            seed=seed,
        )  # fmt: skip
        variable_of = np.repeat(np.arange(len(network.names)), [*map(len, network.states)])
        is_known = evidence[variable_of] >= 0
        state_of = np.arange(len(variable_of)) - state_starts(network.states)[variable_of]
        share = np.where(is_known, state_of == evidence[variable_of], np.exp(found.log_probability))
        chance = distributions(network, share, variables)
        error = distributions(network, np.where(is_known, 0.0, found.stderr), variables)
        asked = np.isin(variable_of, [network.names.index(name) for name in variables])
        worst = max(worst, float(found.rhat[asked & ~is_known].max(initial=1.0)))
    return CircuitAnswer(
        value, chance, exact=False, stderr=stderr, distribution_stderr=error, rhat=worst,
        num_sweeps=num_chains * num_sweeps,
    )  # fmt: skip


def distributions(
    over: Circuit | TreeNetwork | FactorGraph, share: np.ndarray, variables: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Figures of the states of variables, by name; `share` is float64[num_states]."""
    first, number = state_starts(over.states), {name: v for v, name in enumerate(over.names)}
    found = {}
    for name in variables:
        v = number[name]
        own = share[first[v] : first[v + 1]].tolist()
        found[name] = dict(zip(over.states[v], own, strict=True))
    return found


def measure(network: TreeNetwork, max_edges: int) -> dict[str, float | int | str | None]:
    """The rows of table 5.4 of the thesis: leaves, parents, treewidth, edges after compiling."""
    parents = [len(own) for own in network.parents()]
    try:
        compiled = compile_network(network, max_edges)
        edges, method = compiled.circuit.num_edges, compiled.method
    except TooLarge:
        edges, method = None, None
    return {
        "leaves": network.num_leaves,
        "parents_mean": sum(parents) / len(parents),
        "parents_max": max(parents),
        "treewidth_min_fill_bound": network.treewidth(),
        "compiled_edges": edges,
        "compiled_edges_limit": max_edges,
        "compiled_by": method,
    }


def sizes(circuit: Circuit) -> dict[str, int]:
    return {
        "variables": circuit.num_variables,
        "nodes": circuit.num_nodes,
        "edges": circuit.num_edges,
        "parameters": circuit.num_parameters,
    }
