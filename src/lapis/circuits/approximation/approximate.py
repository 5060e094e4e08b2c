"""AC²: the circuit within a budget that is closest to a model, given evidence.

Lowd and Domingos, Approximate Inference by Compilation to Arithmetic Circuits (NIPS 2010). A
structure is learned once from samples (`structure.py`), or made of the model's strongest tables
(`thinning.py`) where that is closer; its parameters are found for each evidence:

    F   the learned ones, conditioned
    G   matched to Gibbs samples of P(·|e) (`matching.py`)
    V   KL(Q ‖ P(·|e)) minimised (`variational.py`)
    VI  V, then corrected by weighing its own worlds (`importance.py`); the default

VI is ours: V is biased towards its modes, but its worlds can be weighed, which takes the bias out
and says how far the result can be trusted. What is asked afterwards is exact on the circuit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.circuits.approximation.family import condition_circuit, family_circuit
from lapis.circuits.approximation.importance import weigh
from lapis.circuits.approximation.matching import match_samples
from lapis.circuits.approximation.samples import sample_forward, sample_gibbs
from lapis.circuits.approximation.structure import learn_structure
from lapis.circuits.approximation.thinning import thin_structure
from lapis.circuits.approximation.variational import find_terms, fit_best
from lapis.circuits.circuit import Circuit
from lapis.circuits.factors.factor_graph import FactorGraph
from lapis.errors import TooLarge
from lapis.progress import Report, Stop

PARAMETERS = ("F", "G", "V", "VI")
MAX_EDGES = 10_000
NUM_SAMPLES = 50_000
NUM_MATCHED = 2_000
NUM_ROUNDS = 2  # of weighing; the second draws from what the first corrected
MAX_LEARNED = 3_000  # variables that splits are looked for among
THIN = 2  # sweeps between the samples that a structure is learned from


class Approximation(NamedTuple):
    circuit: Circuit  # normalised; stands for P(· | evidence)
    bound: float | None  # V: at most log Z
    log_partition: float | None  # VI: an estimate of log Z
    log_partition_stderr: float | None
    effective: float | None  # VI: effective samples, as a fraction of those drawn
    state_stderr: np.ndarray | None  # VI: float64[num_states]


def find_structure(
    graph: FactorGraph,
    row: np.ndarray,
    max_edges: int = MAX_EDGES,
    num_samples: int = NUM_SAMPLES,
    seed: int = 0,
    stop: Stop | None = None,
    progress: Report | None = None,
    worlds: np.ndarray | None = None,
) -> Circuit:
    """The circuit that is closest to the model given a row of states, learned or thinned.

    `worlds`, int32[num_worlds, num_variables], are samples of it; they are drawn if not given.
    """
    observed = {int(v): int(row[v]) for v in np.flatnonzero(row >= 0)}
    thinned = thin_structure(graph.condition(observed) if observed else graph, max_edges, seed)
    if graph.num_variables > MAX_LEARNED or (stop is not None and stop.is_over()):
        if thinned is None:
            raise TooLarge(
                f"no structure is looked for over {graph.num_variables:,} variables; at most "
                f"{MAX_LEARNED:,} can be",
                code="too-large",
                hint="give more evidence, or ask for less",
            )
        return thinned
    if worlds is None:
        worlds = draw_worlds(graph, row, num_samples, seed)
    learned = learn_structure(worlds, graph, max_edges, stop, progress)
    if thinned is None:
        return learned
    terms = find_terms(graph, row)
    bounds = [
        fit_best(condition_circuit(circuit, row), terms, stop, progress).bound
        for circuit in (learned, thinned)
    ]
    return learned if bounds[0] >= bounds[1] else thinned


def draw_worlds(graph: FactorGraph, row: np.ndarray, num_samples: int, seed: int) -> np.ndarray:
    """int32[num_samples, num_variables], forward where that is possible."""
    if graph.child is not None and (row < 0).all():
        return sample_forward(graph, num_samples, seed)
    return sample_gibbs(graph, row, num_samples, seed, thin=THIN).rows


def approximate(
    graph: FactorGraph,
    structure: Circuit,
    row: np.ndarray,
    parameters: str = "VI",
    seed: int = 0,
    stop: Stop | None = None,
    progress: Report | None = None,
) -> Approximation:
    """The structure with parameters for a row of states, negative where nothing is known."""
    family = condition_circuit(structure, row)
    if parameters == "G":
        family = match_samples(family, sample_gibbs(graph, row, NUM_MATCHED, seed))
    if parameters in ("F", "G"):
        circuit = family_circuit(family, structure, row)
        return Approximation(circuit, None, None, None, None, None)
    fitted = fit_best(family, find_terms(graph, row), stop, progress)
    if parameters == "V":
        circuit = family_circuit(fitted.family, structure, row)
        return Approximation(circuit, fitted.bound, None, None, None, None)
    weighed = weigh(fitted.family, family, graph, row, seed)
    for extra in range(1, NUM_ROUNDS):
        weighed = weigh(weighed.family, family, graph, row, seed + extra)
    return Approximation(
        family_circuit(weighed.family, structure, row),
        fitted.bound,
        weighed.log_partition,
        weighed.stderr,
        weighed.effective,
        weighed.state_stderr,
    )
