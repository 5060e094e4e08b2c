"""Worlds in which chains start: far apart, and with every hard clause true.

Chain 0 starts with all atoms false, chain 1 with all true, the others with random values. WalkSAT
then repairs violated hard clauses. If it fails, a complete search (`network/satisfiability.py`)
looks for a world near the last one. It finds one, proves that there is none, or exceeds its budget.
"""

from __future__ import annotations

import numpy as np

from lapis.errors import LapisError
from lapis.inference.sampling.clause_graph import ClauseGraph
from lapis.inference.sampling.gibbs_units import GibbsUnits
from lapis.inference.sampling.mcsat_kernel import Slice, new_slice
from lapis.inference.sampling.samplesat import count_violated, run_walksat
from lapis.network.network import Network
from lapis.network.satisfiability import (
    contradiction_over,
    find_core,
    find_world,
    row_atoms,
)

TRIES = 10
FLIPS_AN_ATOM = 20
MIN_FLIPS = 20_000


def overdispersed_start(
    network: Network, graph: ClauseGraph, units: GibbsUnits, chain: int, rng: np.ndarray
) -> np.ndarray:
    """Return bool[num_atoms], a feasible world for a chain; `graph` has its definitional clauses.

    Raises LapisError: `unsatisfiable`, or `no-initial-state` if satisfiability is unknown.
    """
    generator = np.random.default_rng(rng)
    hard = hard_constraints(graph, units)
    if not hard.active.any():
        return random_world(network, chain, generator).astype(bool)
    atoms = np.arange(network.num_atoms, dtype=np.int32)
    sizes = (len(graph.weight),)
    violated, position = np.zeros(sizes, np.int32), np.zeros(sizes, np.int32)
    true = np.zeros(sizes, np.int32)
    flips = max(MIN_FLIPS, FLIPS_AN_ATOM * network.num_atoms)
    for attempt in range(TRIES):
        value = random_world(network, chain if attempt == 0 else 2, generator)
        state = (hard, atoms, len(atoms), violated, position, value, true)
        count = count_violated(graph, *state)
        count = run_walksat(graph, units, *state, count, flips, 0.0, rng)
        if count == 0:
            return value.astype(bool)
    if (found := find_world(network, near=value)) is not None:
        return found
    if (core := find_core(network)) is not None:
        raise contradiction_over(network, row_atoms(network, core))
    raise LapisError(
        f"no world that satisfies the hard formulas was found in {TRIES} tries; there may be none",
        code="no-initial-state",
        hint="lapis map searches exactly; dropping the period of a formula makes it soft",
    )


def random_world(network: Network, chain: int, generator: np.random.Generator) -> np.ndarray:
    """Return uint8[num_atoms]: all false, all true, or random; blocks are always random."""
    share = (0.0, 1.0)[chain] if chain < 2 else 0.5
    base = generator.random(network.num_base_atoms) < share
    base[network.block_atom] = False
    size = np.diff(network.block_start)
    options = np.where(network.block_exact, size, size + 1)
    chosen = (generator.random(network.num_blocks) * options).astype(np.int64)
    filled = chosen < size
    base[network.block_atom[(network.block_start[:-1] + chosen)[filled]]] = True
    return network.complete(base).astype(np.uint8)


def hard_constraints(graph: ClauseGraph, units: GibbsUnits) -> Slice:
    """Return all hard clauses as a slice; only blocks of one state are fixed."""
    hard = new_slice(graph, units)
    hard.active[:] = np.isinf(graph.weight)
    hard.weight[hard.active] = np.inf
    lone = units.variable_start[:-1][units.is_block & (units.variable_size == 1)]
    hard.fixed[units.variable_atom[lone]] = True
    return hard
