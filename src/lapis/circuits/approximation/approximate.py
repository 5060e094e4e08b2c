"""AC²: the circuit within a budget of edges that is closest to a model, given evidence.

Lowd and Domingos, Approximate Inference by Compilation to Arithmetic Circuits (NIPS 2010). A
structure is found once, and its parameters are fitted for each evidence:

    F   the learned ones, conditioned
    G   matched to Gibbs samples of P(· | e)
    V   KL(Q ‖ P(· | e)) minimised (`variational.py`)
    VI  V, then corrected by importance weights of its own worlds (`importance.py`)
    E   matched to independent worlds of P(· | e), drawn by a junction tree
    P   matched to particles from mini-bucket elimination (`mini_buckets.py`)

E, P and VI are ours. A model may be narrow enough for a junction tree and still too large for a
circuit. Then E has no bias, and is the default. V is biased towards its modes; importance weights
remove the bias where V has mass, and measure the error. They cannot detect a mode that V misses
(noisy parities), which E and P find. Particles also satisfy hard tables. So P is the default if its
error of log Z is smaller than that of VI, or its estimate is higher.

**Learned structure** (AC², step 1). LearnAC on samples of the model, with an edge cost that is
halved each time no split pays, as long as more than a hundredth of the budget is left. The paper
ends at the first split that exceeds the budget. A smaller one may still fit, so such a split is
excluded and the search continues, up to `MAX_OVERSHOOTS` times. Only splits on neighbours in the
model are allowed: on hepar2 that is closer to the model than all splits, with fewer edges.

**Thinned structure.** LearnAC measures dependence of pairs, in contexts. It misses a parity of
three variables, and modes that a slowly mixing chain does not visit. So the strongest tables (those
whose entries differ most) are kept as long as elimination stays within the budget, and compiled
exactly. V then fits all tables on this structure: structured mean field (Saul and Jordan, 1996)
with an automatic substructure. The bound of V chooses between the two structures.

**Matching** (AC², step 2). The most likely member of a family for some worlds takes child c at sum
n as often as they do:

    π(n, c) = (Σ_worlds P(c taken at n, n reached) + α π_F(n, c)) / (Σ_worlds [n reached] + α)

where α worlds' weight of the family's own shares smooths small counts. The counts are
Rao–Blackwellised: a sum decides a variable v, and whether it is reached does not depend on v, so
the sum counts P(x_v | all others) in place of the state drawn.
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
from lapis.circuits.circuit import INDICATOR, PRODUCT, SUM, Circuit, num_words
from lapis.circuits.compilation.compile_model import compile_factors, no_possible_state
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
NUM_ROUNDS = 2  # of importance sampling; the second draws from the corrected shares
MAX_LEARNED = 3_000  # variables of a model whose structure is learned by splits
MAX_TRIES = 4  # structures learned until one fits the budget with untied shares
MIN_EFFECTIVE = 0.01  # share of effective samples of VI below which particles are preferred
THIN = 2  # sweeps between the samples from which a structure is learned


class Approximation(NamedTuple):
    circuit: Circuit  # normalised, for P(· | evidence)
    parameters: str  # the method that found them
    bound: float | None = None  # V: at most log Z; None also if Q has too many impossible worlds
    log_partition: float | None = None  # VI, P: an estimate of log Z; E: log Z
    log_partition_stderr: float | None = None
    effective: float | None = None  # VI: effective samples, as a fraction of those drawn
    state_stderr: np.ndarray | None = None  # VI, E, P: float64[num_states]
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
    """Return the closest circuit to the model given a row of states, learned or thinned.

    `worlds`, int32[num_worlds, num_variables], are samples of the model; drawn if not given.
    """
    given = graph.given(row)
    if make_consistent(given) is None:
        raise no_possible_state()
    if (row >= 0).all():
        return compile_factors(given).circuit
    thinned = thin_structure(given, max_edges, seed, stop)
    if thinned is not None and untied_edges(thinned, row) > max_edges:
        budget = max_edges * max_edges // untied_edges(thinned, row)
        thinned = thin_structure(given, budget, seed, stop)
    stop = stop or Stop()
    if thinned is not None and (graph.num_variables > MAX_LEARNED or stop.is_over()):
        return thinned
    if graph.num_variables > MAX_LEARNED:
        raise TooLarge(
            f"structures are learned over at most {MAX_LEARNED:,} variables, not "
            f"{graph.num_variables:,}",
            code="too-large",
            hint="give more evidence, or query fewer predicates",
        )
    if worlds is None:
        worlds = sample_training_worlds(graph, row, num_samples, seed, stop)
    if stop.is_over() and thinned is not None:
        return thinned
    learned = learn_within(worlds, graph, row, max_edges, stop, progress)
    found = [] if thinned is None else [thinned]
    fitting = [one for one in (learned, *found) if untied_edges(one, row) <= max_edges]
    if not fitting:
        raise TooLarge(
            f"no circuit of at most {max_edges:,} edges was found; the smallest has "
            f"{untied_edges(learned, row):,}",
            code="circuit-too-large",
            hint="raise max_edges",
        )
    if len(fitting) == 1:
        return fitting[0]
    terms = build_terms(graph, row)
    return max(
        fitting,
        key=lambda one: fit_best(condition_circuit(one, row), terms, stop, progress).bound,
    )


def learn_within(
    worlds: np.ndarray,
    graph: FactorGraph,
    row: np.ndarray,
    max_edges: int,
    stop: Stop,
    progress: Report | None,
) -> Circuit:
    """Learn a structure with at most `max_edges` untied edges; after MAX_TRIES it may have more."""
    budget = max_edges
    for _ in range(MAX_TRIES):
        learned = learn_split_structure(worlds, graph, budget, stop, progress)
        num_edges = untied_edges(learned, row)
        if num_edges <= max_edges:
            break
        budget = int(0.99 * budget * max_edges / num_edges)
    return learned


def untied_edges(structure: Circuit, row: np.ndarray) -> int:
    """Count the edges of the circuit in which each sum has its own shares."""
    return family_circuit(condition_circuit(structure, row), structure, row).num_edges


def sample_training_worlds(
    graph: FactorGraph, row: np.ndarray, num_samples: int, seed: int, stop: Stop | None = None
) -> np.ndarray:
    """int32[num_samples, num_variables], independent samples if possible."""
    if graph.child is not None and (row < 0).all():
        return sample_forward(graph, num_samples, seed)
    given = graph.given(row)
    run_chains = partial(
        sample_gibbs, graph, row, num_samples, seed, stop=stop, with_conditional=False
    )
    exact = sample_exactly(given, num_samples, seed)
    if exact is not None:
        return exact.rows
    if np.isneginf(given.log_value).any():  # chains may not find a possible world, or not leave it
        with suppress(TooLarge):
            particles = sample_particles(given, seed, stop)
            if particles is not None and len(particles.rows):
                rng = np.random.default_rng(seed)
                start = particles.rows[rng.integers(0, len(particles.rows), num_samples)]
                return run_chains(start=start).rows
    return run_chains(thin=THIN).rows


class FittingTask(NamedTuple):
    """A structure, and the model given evidence to which its parameters are fitted."""

    graph: FactorGraph
    structure: Circuit
    row: np.ndarray  # int32[num_variables], negative where unobserved
    family: Family  # with the learned shares
    seed: int
    stop: Stop

    def circuit(self, family: Family) -> Circuit:
        return family_circuit(family, self.structure, self.row)

    def match_worlds(self, worlds: np.ndarray) -> tuple[Circuit, GibbsSamples]:
        """Match the shares to worlds of the model, after one sweep of Gibbs sampling."""
        samples = sample_gibbs(self.graph, self.row, len(worlds), self.seed, worlds)
        return self.circuit(match_samples(self.family, samples)), samples


def fit_structure(
    graph: FactorGraph,
    structure: Circuit,
    row: np.ndarray,
    parameters: str = "auto",
    seed: int = 0,
    stop: Stop | None = None,
    progress: Report | None = None,
) -> Approximation:
    """Fit the parameters of a structure given a row of states, negative where unobserved.

    `auto` ends with those of V if the time is up.
    """
    stop = stop or Stop()
    family = condition_circuit(structure, row)
    task = FittingTask(graph, structure, row, family, seed, stop)
    if not len(family.kind):  # all variables are observed
        score = float(graph.log_score(row[None])[0])
        name = "E" if parameters == "auto" else parameters
        certain = np.zeros(structure.num_states)
        return Approximation(task.circuit(family), name, score, score, 0.0, None, certain)
    if parameters == "F":
        return Approximation(task.circuit(family), "F")
    if parameters == "G":
        samples = sample_gibbs(graph, row, NUM_MATCHED, seed, stop=stop)
        return Approximation(task.circuit(match_samples(family, samples)), "G")
    if parameters == "P":
        return fit_particles(task)
    if parameters == "E" or (parameters == "auto" and not stop.is_over()):
        exact = fit_exactly(task)
        if exact is not None:
            return exact
        if parameters == "E":
            raise TooLarge(
                "worlds cannot be drawn exactly: the tables of a junction tree are too large",
                code="too-large",
                hint="choose other parameters: G (Gibbs samples), V (variational) or VI",
            )
    return fit_by_variation(task, parameters, progress)


def fit_exactly(task: FittingTask) -> Approximation | None:
    """E: match independent worlds; None if the tables of a junction tree are too large."""
    exact = sample_exactly(task.graph.given(task.row), NUM_EXACT, task.seed)
    if exact is None:
        return None
    circuit, samples = task.match_worlds(exact.rows)
    stderr = samples.conditional.std(axis=0) / np.sqrt(len(exact.rows))
    return Approximation(circuit, "E", None, exact.log_partition, 0.0, None, stderr)


def fit_particles(task: FittingTask, bound: float | None = None) -> Approximation:
    """P: match particles, which also estimate log Z."""
    particles = sample_particles(task.graph.given(task.row), task.seed, task.stop)
    if particles is None or not len(particles.rows):
        raise TooLarge(
            "no particle found a possible world within memory",
            code="too-large",
            hint="give more evidence, or choose other parameters: F, G, V or VI",
        )
    return Approximation(
        task.match_worlds(particles.rows)[0], "P", bound, particles.log_partition,
        particles.stderr, None, particles.state_stderr, particles.upper,
    )  # fmt: skip


def fit_by_variation(task: FittingTask, parameters: str, progress: Report | None) -> Approximation:
    """V, VI, or for "auto" the better of VI and P."""
    graph, row, stop = task.graph, task.row, task.stop
    fitted = fit_best(task.family, build_terms(graph, row), stop, progress)
    bound = certified_bound(fitted, graph, row)
    if parameters == "V" or (parameters == "auto" and stop.is_over()):
        return Approximation(task.circuit(fitted.family), "V", bound)
    estimate = importance_sample(fitted.family, task.family, graph, row, task.seed)
    for extra in range(1, NUM_ROUNDS):
        if stop.is_over():
            break
        estimate = importance_sample(estimate.family, task.family, graph, row, task.seed + extra)
    if parameters == "auto":
        with suppress(TooLarge):
            found = fit_particles(task, bound)
            if prefers_particles(found, estimate):
                return found
    return Approximation(
        task.circuit(estimate.family), "VI", bound, estimate.log_partition, estimate.stderr,
        estimate.effective, estimate.state_stderr,
    )  # fmt: skip


def prefers_particles(particles: Approximation, estimate: ImportanceEstimate) -> bool:
    """Whether P has the smaller error of log Z, or finds worlds that VI misses."""
    assert particles.log_partition is not None
    assert particles.log_partition_stderr is not None
    if estimate.effective < MIN_EFFECTIVE or particles.log_partition_stderr < estimate.stderr:
        return True
    noise = np.hypot(particles.log_partition_stderr, estimate.stderr)
    return bool(particles.log_partition > estimate.log_partition + 3.0 * noise)


PRIOR = 2.0  # weight of the shares of F, in worlds


class Decisions(NamedTuple):
    """For each edge of a sum, the states of the variable that the sum decides."""

    edge_start: np.ndarray  # int64[num_edges + 1]
    state: np.ndarray  # int32[...], states of all variables, numbered


def match_samples(family: Family, samples: GibbsSamples) -> Family:
    """Replace the shares by those of samples."""
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
    """Find the states that distinguish the children of each sum."""
    num_states = int(family.state_start[-1])
    below = np.zeros((len(family.kind), num_words(num_states)), np.uint64)
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
    """Write the states below each node as bits."""
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


REST = 0.01  # share of the budget that may stay unused
FIRST_COST = 0.02  # first cost of an edge, for each sample
LAST_COST = 1e-3
MAX_OVERSHOOTS = 30


def learn_split_structure(
    rows: np.ndarray,
    graph: FactorGraph,
    max_edges: int,
    stop: Stop | None = None,
    progress: Report | None = None,
) -> Circuit:
    """Learn a circuit of at most `max_edges` edges from rows of states."""
    search = CircuitSearch(
        rows, graph.names, graph.states, max(1.0, FIRST_COST * len(rows)), 0.0, 1.0,
        mark_neighbours(graph),
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
    circuit = search.finish(converged=False).circuit
    assert circuit is not None
    return circuit


def lower_cost(search: CircuitSearch) -> None:
    """Halve the cost of an edge and reset all candidates."""
    search.edge_cost *= 0.5
    candidates = search.candidates
    candidates.bound[:] = candidates.gain
    candidates.priced[:] = 0
    is_open = candidates.first >= 0
    is_open[len(search.variable) :] = False
    candidates.best[is_open] = candidates.bound[is_open].max(axis=1)


def mark_neighbours(graph: FactorGraph) -> np.ndarray:
    """bool[num_variables, num_variables], whether two variables share a table."""
    shared = np.zeros((graph.num_variables, graph.num_variables), bool)
    for scope, _ in graph.tables:
        shared[np.ix_(scope, scope)] = True
    return shared


EDGES_PER_ENTRY = 2.0
MAX_TRIALS = 600  # orders computed
MAX_VARIABLES = 2_000


def thin_structure(
    graph: FactorGraph, max_edges: int, seed: int, stop: Stop | None = None
) -> Circuit | None:
    """Compile a part of the model to at most `max_edges` edges; None if there is none."""
    if graph.num_variables > MAX_VARIABLES:
        return None
    max_entries = max_edges / EDGES_PER_ENTRY
    for _ in range(6):
        is_over = stop is not None and stop.is_over()  # then tables have one variable
        part = strongest_part(graph, max_entries, seed, stop)
        try:
            return compile_factors(part, max_edges, seed, None if is_over else stop).circuit
        except TooLarge:
            max_entries *= 0.6
    return None


def strongest_part(
    graph: FactorGraph, max_entries: float, seed: int, stop: Stop | None = None
) -> FactorGraph:
    """Keep as many tables, strongest first, as elimination within `max_entries` allows."""
    size = graph.size
    tables = graph.tables
    strength = np.array([measure_strength(table) for _, table in tables])
    order = np.argsort(-strength, kind="stable")
    scopes = [np.array(scope, np.int32) for scope, _ in tables]
    small = [f for f in order if len(scopes[f]) < 2]
    large = [f for f in order if len(scopes[f]) >= 2 and strength[f] > 0]

    def is_narrow(chosen: list[int]) -> bool:
        start = row_starts([len(scopes[f]) for f in chosen])
        members = np.concatenate([scopes[f] for f in chosen]).astype(np.int32)
        rng = np.random.default_rng(seed)
        return best_order(size, start, members, max_entries, rng).is_complete

    # The longest prefix by bisection, then the others one by one.
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
    return graph_of_tables(graph.names, graph.states, [tables[f] for f in [*small, *chosen]])


def measure_strength(table: np.ndarray) -> float:
    """Return the standard deviation of the logs of a table; zeros count as e^-30."""
    floored = np.maximum(table, table.max(initial=-np.inf) - 30.0)
    return float(np.std(floored)) if table.size else 0.0
