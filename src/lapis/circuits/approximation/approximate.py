"""AC²: the circuit within a budget that is closest to a model, given evidence.

Lowd and Domingos, Approximate Inference by Compilation to Arithmetic Circuits (NIPS 2010). A
structure is learned once from samples (`structure.py`), or made of the model's strongest tables
(`thinning.py`) where that is closer; its parameters are found for each evidence:

    F   the learned ones, conditioned
    G   matched to Gibbs samples of P(·|e) (`matching.py`)
    V   KL(Q ‖ P(·|e)) minimised (`variational.py`)
    VI  V, then corrected by weighing its own worlds (`importance.py`)
    E   matched to independent worlds of P(·|e), drawn down a junction tree
    P   matched to particles, drawn back through elimination within memory (`mini_buckets.py`)

E, P and VI are ours. A model may be narrow enough to draw its worlds and still too large for a
circuit: E then has no bias, and is the default. Otherwise VI is: V is biased towards its modes,
but its worlds can be weighed, which takes the bias out where V looks, and says how far the result
can be trusted. Where V leaves out a mode (parities with noise) weights do not know of it, E and P
do; and particles respect hard tables. So P is the default if it is surer of log Z than VI, or finds
more of it. What is asked afterwards is exact on the circuit.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import NamedTuple

import numpy as np

from lapis.circuits.approximation.family import Family, condition_circuit, family_circuit
from lapis.circuits.approximation.importance import Weighed, weigh
from lapis.circuits.approximation.matching import match_samples
from lapis.circuits.approximation.samples import (
    sample_exactly,
    sample_forward,
    sample_gibbs,
    sample_particles,
)
from lapis.circuits.approximation.structure import learn_structure
from lapis.circuits.approximation.thinning import thin_structure
from lapis.circuits.approximation.variational import certified_bound, find_terms, fit_best
from lapis.circuits.circuit import Circuit
from lapis.circuits.compilation.compile import compile_factors, impossible
from lapis.circuits.factors.consistency import make_consistent
from lapis.circuits.factors.factor_graph import FactorGraph
from lapis.errors import TooLarge
from lapis.runtime.progress import Report, Stop

MAX_EDGES = 10_000
NUM_SAMPLES = 50_000
NUM_MATCHED, NUM_EXACT = 2_000, 10_000
NUM_ROUNDS = 2  # of weighing; the second draws from what the first corrected
MAX_LEARNED = 3_000  # variables that splits are looked for among
MAX_TRIES = 4  # structures learned until one fits the budget with shares of its own
MIN_EFFECTIVE = 0.01  # of the worlds of VI, below which particles are preferred
THIN = 2  # sweeps between the samples that a structure is learned from


class Approximation(NamedTuple):
    circuit: Circuit  # normalised; stands for P(· | evidence)
    parameters: str  # how they were found
    bound: float | None  # V: at most log Z; None also if Q cannot keep to possible worlds
    log_partition: float | None  # VI, P: an estimate of log Z; E: log Z
    log_partition_stderr: float | None
    effective: float | None  # VI: effective samples, as a fraction of those drawn
    state_stderr: np.ndarray | None  # VI, E, P: float64[num_states]
    upper: float | None = None  # P: at least log Z


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
    given = graph.given(row)
    if make_consistent(given) is None:
        raise impossible()
    if (row >= 0).all():  # there is nothing to be found
        return compile_factors(given).circuit
    thinned = thin_structure(given, max_edges, seed, stop)
    if thinned is not None and untied_edges(thinned, row) > max_edges:
        budget = max_edges * max_edges // untied_edges(thinned, row)
        thinned = thin_structure(given, budget, seed, stop)
    stop = stop or Stop()
    if graph.num_variables > MAX_LEARNED or (stop.is_over() and thinned is not None):
        if thinned is None:
            raise TooLarge(
                f"no structure is looked for over {graph.num_variables:,} variables; at most "
                f"{MAX_LEARNED:,} can be",
                code="too-large",
                hint="give more evidence, or ask for less",
            )
        return thinned
    if worlds is None:
        worlds = draw_worlds(graph, row, num_samples, seed, stop)
    if stop.is_over() and thinned is not None:
        return thinned
    budget = max_edges
    for _ in range(MAX_TRIES):
        learned = learn_structure(worlds, graph, budget, stop, progress)
        num_edges = untied_edges(learned, row)
        if num_edges <= max_edges:
            break
        budget = int(0.99 * budget * max_edges / num_edges)
    if thinned is not None and untied_edges(thinned, row) > max_edges:
        thinned = None
    if num_edges > max_edges and thinned is None:
        raise TooLarge(
            f"no circuit of at most {max_edges:,} edges was found; the smallest has {num_edges:,}",
            code="circuit-too-large",
            hint="raise max_edges",
        )
    if num_edges > max_edges or thinned is None:
        return learned if thinned is None else thinned
    terms = find_terms(graph, row)
    bounds = [
        fit_best(condition_circuit(circuit, row), terms, stop, progress).bound
        for circuit in (learned, thinned)
    ]
    return learned if bounds[0] >= bounds[1] else thinned


def untied_edges(structure: Circuit, row: np.ndarray) -> int:
    """Edges of the circuit in which each sum has shares of its own."""
    return family_circuit(condition_circuit(structure, row), structure, row).num_edges


def draw_worlds(
    graph: FactorGraph, row: np.ndarray, num_samples: int, seed: int, stop: Stop | None = None
) -> np.ndarray:
    """int32[num_samples, num_variables], independent where that is possible."""
    if graph.child is not None and (row < 0).all():
        return sample_forward(graph, num_samples, seed)
    given = graph.given(row)
    go_on = partial(sample_gibbs, graph, row, num_samples, seed, stop=stop, with_conditional=False)
    exact = sample_exactly(given, num_samples, seed)
    if exact is not None:
        return exact.rows
    if np.isneginf(given.log_value).any():  # chains may not find a possible world, nor leave it
        with suppress(TooLarge):
            particles = sample_particles(given, seed, stop)
            if particles is not None and len(particles.rows):
                rng = np.random.default_rng(seed)
                start = particles.rows[rng.integers(0, len(particles.rows), num_samples)]
                return go_on(start=start).rows
    return go_on(thin=THIN).rows


def approximate(
    graph: FactorGraph,
    structure: Circuit,
    row: np.ndarray,
    parameters: str = "auto",
    seed: int = 0,
    stop: Stop | None = None,
    progress: Report | None = None,
) -> Approximation:
    """The structure with parameters for a row of states, negative where nothing is known.

    When the time is up, `auto` ends with those of V.
    """
    stop = stop or Stop()
    family = condition_circuit(structure, row)
    if not len(family.kind):  # all is observed
        score = float(graph.log_score(row[None])[0])
        circuit = family_circuit(family, structure, row)
        certain = np.zeros(structure.num_states)
        name = "E" if parameters == "auto" else parameters
        return Approximation(circuit, name, score, score, 0.0, None, certain)
    if parameters == "E" or (parameters == "auto" and not stop.is_over()):
        exact = sample_exactly(graph.given(row), NUM_EXACT, seed)
        if exact is not None:  # the shares that independent worlds have, with their errors
            samples = sample_gibbs(graph, row, len(exact.rows), seed, exact.rows)
            circuit = family_circuit(match_samples(family, samples), structure, row)
            stderr = samples.conditional.std(axis=0) / np.sqrt(len(exact.rows))
            return Approximation(circuit, "E", None, exact.log_partition, 0.0, None, stderr)
        if parameters == "E":
            raise TooLarge(
                "worlds cannot be drawn exactly: the tables of a junction tree are too large",
                code="too-large",
                hint="choose other parameters: G (Gibbs samples), V (variational) or VI",
            )
    if parameters == "G":
        family = match_samples(family, sample_gibbs(graph, row, NUM_MATCHED, seed, stop=stop))
    if parameters in ("F", "G"):
        circuit = family_circuit(family, structure, row)
        return Approximation(circuit, parameters, None, None, None, None, None)
    if parameters == "P":
        return match_particles(graph, structure, row, family, None, seed, stop)
    fitted = fit_best(family, find_terms(graph, row), stop, progress)
    bound = certified_bound(fitted, graph, row)
    if parameters == "V" or (parameters == "auto" and stop.is_over()):
        circuit = family_circuit(fitted.family, structure, row)
        return Approximation(circuit, "V", bound, None, None, None, None)
    weighed = weigh(fitted.family, family, graph, row, seed)
    for extra in range(1, NUM_ROUNDS):
        if stop.is_over():
            break
        weighed = weigh(weighed.family, family, graph, row, seed + extra)
    if parameters == "auto":
        with suppress(TooLarge):
            found = match_particles(graph, structure, row, family, bound, seed, stop)
            if sees_more(found, weighed):
                return found
    return Approximation(
        family_circuit(weighed.family, structure, row),
        "VI",
        bound,
        weighed.log_partition,
        weighed.stderr,
        weighed.effective,
        weighed.state_stderr,
    )


def sees_more(particles: Approximation, weighed: Weighed) -> bool:
    """Whether P is surer of log Z than VI is, or finds worlds that VI does not know of."""
    assert particles.log_partition is not None
    assert particles.log_partition_stderr is not None
    if weighed.effective < MIN_EFFECTIVE or particles.log_partition_stderr < weighed.stderr:
        return True
    noise = np.hypot(particles.log_partition_stderr, weighed.stderr)
    return bool(particles.log_partition > weighed.log_partition + 3.0 * noise)


def match_particles(
    graph: FactorGraph,
    structure: Circuit,
    row: np.ndarray,
    family: Family,
    bound: float | None,
    seed: int,
    stop: Stop,
) -> Approximation:
    """P: the shares that particles have, and log Z as they estimate it."""
    particles = sample_particles(graph.given(row), seed, stop)
    if particles is None or not len(particles.rows):
        raise TooLarge(
            "no particle found a possible world within memory",
            code="too-large",
            hint="give more evidence, or choose other parameters: F, G, V or VI",
        )
    samples = sample_gibbs(graph, row, len(particles.rows), seed, particles.rows)
    circuit = family_circuit(match_samples(family, samples), structure, row)
    return Approximation(
        circuit, "P", bound, particles.log_partition, particles.stderr, None,
        particles.state_stderr, particles.upper,
    )  # fmt: skip
