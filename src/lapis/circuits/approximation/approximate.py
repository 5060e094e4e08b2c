"""AC²: the circuit within a budget that is closest to a model, given evidence.

Lowd and Domingos, Approximate Inference by Compilation to Arithmetic Circuits (NIPS 2010). A
structure is learned once (`structure.py`); its parameters are found for each evidence:

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
from lapis.circuits.approximation.variational import find_terms, fit_variational
from lapis.circuits.circuit import Circuit
from lapis.circuits.factors.factor_graph import FactorGraph
from lapis.progress import Report, Stop

PARAMETERS = ("F", "G", "V", "VI")
MAX_EDGES = 10_000
NUM_SAMPLES = 20_000
NUM_MATCHED = 2_000
THIN = 2  # sweeps between the samples that a structure is learned from


class Approximation(NamedTuple):
    circuit: Circuit  # normalised; stands for P(· | evidence)
    bound: float | None  # V: at most log Z
    log_partition: float | None  # VI: an estimate of log Z
    log_partition_stderr: float | None
    effective: float | None  # VI: effective samples, as a fraction of those drawn
    state_stderr: np.ndarray | None  # VI: float64[num_states]


def draw_worlds(graph: FactorGraph, row: np.ndarray, num_samples: int, seed: int) -> np.ndarray:
    """int32[num_samples, num_variables] to learn a structure from."""
    if graph.child is not None and (row < 0).all():
        return sample_forward(graph, num_samples, seed)
    return sample_gibbs(graph, row, num_samples, seed, thin=THIN).rows


def find_structure(
    graph: FactorGraph,
    row: np.ndarray,
    max_edges: int = MAX_EDGES,
    num_samples: int = NUM_SAMPLES,
    seed: int = 0,
    stop: Stop | None = None,
    progress: Report | None = None,
) -> Circuit:
    """A circuit learned from samples of the model given a row of states."""
    return learn_structure(
        draw_worlds(graph, row, num_samples, seed), graph, max_edges, stop, progress
    )


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
    fitted = fit_variational(family, find_terms(graph, row), stop=stop, progress=progress)
    if parameters == "V":
        circuit = family_circuit(fitted.family, structure, row)
        return Approximation(circuit, fitted.bound, None, None, None, None)
    weighed = weigh(fitted.family, family, graph, row, seed)
    return Approximation(
        family_circuit(weighed.family, structure, row),
        fitted.bound,
        weighed.log_partition,
        weighed.stderr,
        weighed.effective,
        weighed.state_stderr,
    )
