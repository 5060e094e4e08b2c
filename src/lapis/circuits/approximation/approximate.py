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

G: shares that match expectations under the model, estimated from Gibbs samples (AC², step 2).

The likeliest member of a family for some worlds takes child c at sum n as often as they do:

    π(n, c) = (Σ_worlds P(c taken at n, n reached) + α π_F(n, c)) / (Σ_worlds [n reached] + α)

so no optimisation is needed where shares are untied; α worlds' weight of the family's own shares
stands in where worlds are few. Rao–Blackwellised: a sum decides a variable v, and whether it is
reached does not depend on v; so it counts P(x_v | all others) for the children's states in the
place of the state drawn.

A world in which v would not have been drawn as it was after its neighbours is used all the same:
the conditionals are those of the sweep that made the world.

Which circuit: LearnAC on samples of the model, with an edge cost that shrinks (AC², step 1).

The search starts with a cost that allows only splits worth many edges; each time no split is left
that pays, the cost is halved, as long as more than a hundredth of the budget is left. The paper
ends at the first split that would overshoot; a smaller one may still fit, so such a split is
crossed out and the search goes on, up to `MAX_OVERSHOOTS` times. Splits are allowed on neighbours
in the model only: on hepar2 that is closer than all splits, with fewer edges.

Another structure: the model without its weaker tables, compiled.

LearnAC sees dependence of pairs, in contexts; a parity of three variables it does not see, nor what
samples of a slowly mixing chain do not show. So the strongest tables (those whose entries differ
most) are kept, one after another, as long as elimination stays within the budget, and what they
make is compiled exactly. V then fits all tables on this structure, which is structured mean field
(Saul and Jordan 1996) without a substructure chosen by hand. A model that fits the budget is kept
whole, and V is exact. Which of the two structures is closer to the model, V's bound tells.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import NamedTuple

import numpy as np

from lapis.circuits.approximation.family import (
    Family,
    condition_circuit,
    family_circuit,
    find_holding_nodes,
)
from lapis.circuits.approximation.importance import ImportanceEstimate, importance_sample
from lapis.circuits.approximation.samples import (
    GibbsSamples,
    sample_exactly,
    sample_forward,
    sample_gibbs,
    sample_particles,
)
from lapis.circuits.approximation.variational import build_terms, certified_bound, fit_best
from lapis.circuits.circuit import INDICATOR, PRODUCT, SUM, Circuit
from lapis.circuits.compilation.compile import compile_factors, no_possible_state
from lapis.circuits.factor_graph import FactorGraph, graph_of_tables, make_consistent
from lapis.circuits.learning.candidates_kernel import NEVER, refresh_best
from lapis.circuits.learning.split_search import CircuitSearch
from lapis.errors import TooLarge
from lapis.inference.exact.elimination_order import best_order
from lapis.network.csr import row_starts
from lapis.runtime.kernels import entry
from lapis.runtime.progress import Progress, Report, Stop

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
        raise no_possible_state()
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
        worlds = sample_training_worlds(graph, row, num_samples, seed, stop)
    if stop.is_over() and thinned is not None:
        return thinned
    budget = max_edges
    for _ in range(MAX_TRIES):
        learned = learn_split_structure(worlds, graph, budget, stop, progress)
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
    terms = build_terms(graph, row)
    bounds = [
        fit_best(condition_circuit(circuit, row), terms, stop, progress).bound
        for circuit in (learned, thinned)
    ]
    return learned if bounds[0] >= bounds[1] else thinned


def untied_edges(structure: Circuit, row: np.ndarray) -> int:
    """Edges of the circuit in which each sum has shares of its own."""
    return family_circuit(condition_circuit(structure, row), structure, row).num_edges


def sample_training_worlds(
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


def fit_structure(
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
    fitted = fit_best(family, build_terms(graph, row), stop, progress)
    bound = certified_bound(fitted, graph, row)
    if parameters == "V" or (parameters == "auto" and stop.is_over()):
        circuit = family_circuit(fitted.family, structure, row)
        return Approximation(circuit, "V", bound, None, None, None, None)
    weighed = importance_sample(fitted.family, family, graph, row, seed)
    for extra in range(1, NUM_ROUNDS):
        if stop.is_over():
            break
        weighed = importance_sample(weighed.family, family, graph, row, seed + extra)
    if parameters == "auto":
        with suppress(TooLarge):
            found = match_particles(graph, structure, row, family, bound, seed, stop)
            if prefers_particles(found, weighed):
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


def prefers_particles(particles: Approximation, weighed: ImportanceEstimate) -> bool:
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


PRIOR = 2.0  # worlds that the shares of F count for


class Decisions(NamedTuple):
    """For each edge of a sum the states of the variable that the sum decides."""

    edge_start: np.ndarray  # int64[num_edges + 1]
    state: np.ndarray  # int32[...], states of all variables, numbered


def match_samples(family: Family, samples: GibbsSamples) -> Family:
    """The family with the shares that samples have."""
    decisions = find_decisions(family)
    counts = np.zeros(len(family.child))
    num_nodes = len(family.kind)
    holds = np.empty(num_nodes, np.bool_)
    reached = np.empty(num_nodes, np.bool_)
    _count_decisions(family, decisions, samples.rows, samples.conditional, holds, reached, counts)
    of_sum = np.repeat(family.kind == SUM, np.diff(family.start))
    number = np.repeat(np.arange(num_nodes), np.diff(family.start))
    shares = np.where(of_sum, counts + PRIOR * np.exp(family.log_share), 1.0)
    total = np.bincount(number, weights=shares, minlength=num_nodes)[number]
    return family._replace(log_share=np.where(of_sum, np.log(shares / total), 0.0))


def find_decisions(family: Family) -> Decisions:
    """The states that tell the children of each sum apart."""
    num_states = int(family.state_start[-1])
    words = (num_states + 63) // 64
    below = np.zeros((len(family.kind), words), np.uint64)
    _gather_states(family, below)
    lists: list[np.ndarray] = [np.empty(0, np.int32)] * len(family.child)
    for node in np.flatnonzero(family.kind == SUM).tolist():
        edges = slice(family.start[node], family.start[node + 1])
        packed = below[family.child[edges]].view(np.uint8)
        bits = np.unpackbits(packed, axis=1, bitorder="little")[:, :num_states]
        clashes = np.add.reduceat((bits.sum(axis=0) > 1), family.state_start[:-1])
        mentioned = np.logical_or.reduceat(bits.any(axis=0), family.state_start[:-1])
        decided = np.flatnonzero(mentioned & (clashes == 0))
        first, last = family.state_start[decided[0]], family.state_start[decided[0] + 1]
        for offset in range(len(bits)):
            lists[family.start[node] + offset] = first + np.flatnonzero(bits[offset, first:last])
    return Decisions(
        row_starts([*map(len, lists)]),
        np.concatenate([*lists, np.empty(0, np.int32)]).astype(np.int32),
    )


@entry
def _gather_states(family, below):  # type: ignore[no-untyped-def]
    for n in range(len(family.kind)):
        if family.kind[n] == INDICATOR:
            state = family.leaf[n]
            below[n, state >> 6] |= np.uint64(1) << np.uint64(state & 63)
        for e in range(family.start[n], family.start[n + 1]):
            for w in range(below.shape[1]):
                below[n, w] |= below[family.child[e], w]


@entry
def _count_decisions(family, decisions, rows, conditional, holds, reached, counts):  # type: ignore[no-untyped-def]
    kind, start, child = family.kind, family.start, family.child
    root = len(kind) - 1
    for r in range(len(rows)):
        find_holding_nodes(family, rows[r], holds)
        reached[:] = False
        if root >= 0:
            reached[root] = True
        for n in range(root, -1, -1):
            if not reached[n]:
                continue
            for e in range(start[n], start[n + 1]):
                if kind[n] == PRODUCT:
                    reached[child[e]] = True
                else:
                    if holds[child[e]]:
                        reached[child[e]] = True
                    for at in range(decisions.edge_start[e], decisions.edge_start[e + 1]):
                        counts[e] += conditional[r, decisions.state[at]]


REST = 0.01  # of the budget, that need not be spent
FIRST_COST = 0.02  # of an edge, for each sample
LAST_COST = 1e-3
MAX_OVERSHOOTS = 30


def learn_split_structure(
    rows: np.ndarray,
    graph: FactorGraph,
    max_edges: int,
    stop: Stop | None = None,
    progress: Report | None = None,
) -> Circuit:
    """A circuit of at most `max_edges` edges that explains rows of states, with its parameters."""
    search = CircuitSearch(
        rows, graph.names, graph.states, max(1.0, FIRST_COST * len(rows)), 0.0, 1.0,
        find_neighbours(graph),
    )  # fmt: skip
    overshoots = 0
    while search.edge_cost > LAST_COST and search.num_edges < (1.0 - REST) * max_edges:
        if overshoots > MAX_OVERSHOOTS or (stop is not None and stop.is_over()):
            break
        found = search.find_split("quick")
        if found is None:
            lower_cost(search)
        elif not search.split(*found, greedy=False, max_edges=max_edges):
            overshoots += 1
            search.candidates.gain[found] = search.candidates.bound[found] = NEVER
            refresh_best(search.candidates, found[0])
        if progress is not None and search.num_splits % 50 == 0:
            figures = {"splits": float(search.num_splits), "edge cost": search.edge_cost}
            progress(Progress("learning", search.num_edges, max_edges, figures=figures))
    circuit = search.finish(0.0, converged=False).circuit
    assert circuit is not None
    return circuit


def lower_cost(search: CircuitSearch) -> None:
    """Halve the cost of an edge; every candidate is looked at again."""
    search.edge_cost *= 0.5
    candidates = search.candidates
    candidates.bound[:] = candidates.gain
    candidates.priced[:] = 0
    is_open = candidates.first >= 0
    is_open[len(search.variable) :] = False
    candidates.best[is_open] = candidates.bound[is_open].max(axis=1)


def find_neighbours(graph: FactorGraph) -> np.ndarray:
    """bool[num_variables, num_variables], who shares a table."""
    shared = np.zeros((graph.num_variables, graph.num_variables), bool)
    for factor in range(graph.num_factors):
        scope = graph.variables_of(factor)
        shared[np.ix_(scope, scope)] = True
    return shared


EDGES_PER_ENTRY = 2.0
MAX_TRIALS = 600  # orders computed
MAX_VARIABLES = 2_000


def thin_structure(
    graph: FactorGraph, max_edges: int, seed: int, stop: Stop | None = None
) -> Circuit | None:
    """A compiled part of the model of at most `max_edges` edges; None if none was found."""
    if graph.num_variables > MAX_VARIABLES:
        return None
    max_entries = max_edges / EDGES_PER_ENTRY
    for _ in range(6):
        is_over = stop is not None and stop.is_over()  # then no part has two variables
        part = strongest_part(graph, max_entries, seed, stop)
        try:
            return compile_factors(part, max_edges, seed, None if is_over else stop).circuit
        except TooLarge:
            max_entries *= 0.6
    return None


def strongest_part(
    graph: FactorGraph, max_entries: float, seed: int, stop: Stop | None = None
) -> FactorGraph:
    """The model with as many of its tables, strongest first, as elimination allows."""
    size = graph.size
    strength = np.array([measure_strength(graph.table(f)) for f in range(graph.num_factors)])
    order = np.argsort(-strength, kind="stable")
    scopes = [graph.variables_of(f) for f in range(graph.num_factors)]
    small = [f for f in order if len(scopes[f]) < 2]
    large = [f for f in order if len(scopes[f]) >= 2 and strength[f] > 0]

    def is_narrow(chosen: list[int]) -> bool:
        start = row_starts([len(scopes[f]) for f in chosen])
        members = np.concatenate([scopes[f] for f in chosen]).astype(np.int32)
        rng = np.random.default_rng(seed)
        return best_order(size, start, members, max_entries, rng).is_complete

    # The longest prefix by bisection, then one after another.
    low, high = 0, len(large)
    while low < high and not (stop and stop.is_over()):
        middle = (low + high + 1) // 2
        if is_narrow(large[:middle]):
            low = middle
        else:
            high = middle - 1
    chosen = large[:low]
    for place in range(low, min(len(large), low + MAX_TRIALS)):
        if stop is not None and stop.is_over():
            break
        if is_narrow([*chosen, large[place]]):
            chosen.append(large[place])
    tables = [(scopes[f].tolist(), graph.table(f)) for f in [*small, *chosen]]
    return graph_of_tables(graph.names, graph.states, tables)


def measure_strength(table: np.ndarray) -> float:
    """How much the entries of a table differ; zeros count as e^-30."""
    floored = np.maximum(table, table.max(initial=-np.inf) - 30.0)
    return float(np.std(floored)) if table.size else 0.0
