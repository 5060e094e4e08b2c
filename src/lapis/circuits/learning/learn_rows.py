"""Learn a circuit from rows: by splits or as a hidden tree, alone or several together.

**Costs.** One circuit is learned for each pair of costs, from the most expensive edges to the
cheapest, and the one with the highest held-out likelihood is kept (Lowd, thesis 2010, section
5.7.2). For one parameter cost the search ends where the held-out likelihood falls by more than
`SLACK`: cheaper edges would add more of the same splits, in much more time. The searches share no
work. A search that continues from the circuit of a higher edge cost is faster but ends with a
worse circuit of the same size (msweb, k_e = 0.05: −9.80 instead of −9.77 on held-out rows), because
the splits that are cheap in edges then determine the order of the variables.

**Merging.** Learning makes copies: SplitAC copies the nodes that depend on a split, and the
components of mixtures and hidden trees are learned separately. Bottom up, nodes of one kind with
the same children become one node, as do parameters of one value; a sum or product of one child
becomes that child. The function stays the same. Two weighted sums Σ_i θ_i c_i over the same c can
also share weights if these differ by at most a tolerance. That is another distribution with fewer
parameters; the largest tolerance is taken at which the held-out likelihood is not lower.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from lapis.circuits.circuit import INDICATOR, PARAMETER, PRODUCT, SUM, Circuit, new_circuit
from lapis.circuits.evaluation import log_probabilities, log_values
from lapis.circuits.learning.hidden_tree import as_circuit, learn_hidden_tree
from lapis.circuits.learning.mixture import join_circuits, learn_mixture
from lapis.circuits.learning.split_search import Method, check_shape, learn_circuit, parse_counts
from lapis.circuits.tree_networks.tree_network import TreeNetwork
from lapis.errors import LapisError, TooLarge
from lapis.registry.options import CircuitLearner
from lapis.runtime.progress import Progress, Report, Stop, stop_on_interrupt

SLACK = 0.005  # nats a row


@dataclass(frozen=True, slots=True)
class CircuitFit:
    """A circuit or a network with decision trees learned from rows, or both."""

    circuit: Circuit | None  # None with an edge cost of 0
    network: TreeNetwork | None  # the same distribution; None with hidden variables
    num_splits: int
    converged: bool  # no limit ended the search

    @property
    def num_edges(self) -> int | None:
        """None without a circuit."""
        return None if self.circuit is None else self.circuit.num_edges

    def log_likelihoods(self, rows: np.ndarray) -> np.ndarray:
        """float64[num_rows], log P of rows; negative states are missing."""
        if self.network is not None and (rows >= 0).all():
            return self.network.log_likelihoods(rows)
        if self.circuit is None:
            raise LapisError(
                "rows with missing values need a circuit, and with an edge cost of 0 none is kept",
                code="missing-values",
                hint="give complete rows, or an edge cost above 0",
            )
        different, number = np.unique(rows, axis=0, return_inverse=True)
        return log_probabilities(self.circuit, different)[number]


class CostTrial(NamedTuple):
    """A pair of costs, and the circuit learned with it."""

    edge_cost: float
    parameter_cost: float
    edges: int | None  # None without a circuit
    valid_log_likelihood: float  # mean of held-out rows


def choose_costs(
    learn: Callable[[float, float], CircuitFit],
    edge_costs: Sequence[float],
    parameter_costs: Sequence[float],
    valid: np.ndarray,
    stop: Stop,
    progress: Report | None = None,
) -> tuple[CircuitFit, CostTrial, list[CostTrial]]:
    """Call `learn` for pairs of costs; return the fit with the highest held-out likelihood."""
    trials: list[CostTrial] = []
    best: tuple[CircuitFit, CostTrial] | None = None
    prices = sorted(set(edge_costs), reverse=True)
    for parameter_cost in sorted(set(parameter_costs), reverse=True):
        highest = -np.inf
        for price in prices:
            if trials and stop.is_over():
                break
            fit = learn(price, parameter_cost)
            value = float(fit.log_likelihoods(valid).mean())
            trial = CostTrial(price, parameter_cost, fit.num_edges, value)
            if best is None or value > best[1].valid_log_likelihood:
                best = fit, trial
            trials.append(trial)
            if progress is not None:
                figures = {"edge cost": price, "parameter cost": parameter_cost, "held out": value}
                total = len(prices) * len(set(parameter_costs))
                progress(Progress("circuits", len(trials), total, figures=figures))
            if value < highest - SLACK:
                break
            highest = max(highest, value)
    assert best is not None
    fit, trial = best
    return replace(fit, converged=fit.converged and not stop.is_over()), trial, trials


NUM_HIDDEN = 16  # states of a hidden variable
EDGE_COSTS, PARAMETER_COSTS = (0.1,), (0.0,)


@dataclass(frozen=True, slots=True)
class LearningOutcome:
    """The fit, its costs, and all costs that were tried."""

    fit: CircuitFit
    edge_cost: float | None  # None for a tree
    parameter_cost: float | None
    trials: list[CostTrial]  # if there was a choice
    seconds: float


class RowTask(NamedTuple):
    """The data and the options of learning, apart from costs."""

    train: np.ndarray  # int[num_rows, num_variables], negative states are missing
    valid: np.ndarray | None  # held-out rows
    names: Sequence[str]
    states: Sequence[Sequence[str]]
    prior: str | float
    num_components: int | None
    num_starts: int
    max_edges: int | None
    seed: int
    progress: Report | None
    stop: Stop


def learn_rows(
    train: np.ndarray,
    valid: np.ndarray | None,
    names: Sequence[str],
    states: Sequence[Sequence[str]],
    *,
    edge_costs: Sequence[float] = EDGE_COSTS,
    parameter_costs: Sequence[float] = PARAMETER_COSTS,
    prior: str | float = "libra",
    method: CircuitLearner = "quick",
    num_components: int | None = None,
    num_starts: int = 1,
    max_edges: int | None = None,
    seed: int = 0,
    progress: Report | None = None,
    stop: Stop | None = None,
) -> LearningOutcome:
    """Learn a circuit, or a network with decision trees, from rows of states.

    Negative states are missing. Held-out rows (`valid`) choose between costs, end EM and limit
    what is merged. The options are those of `lapis.circuits.learn`.
    """
    task = RowTask(
        train, valid if valid is not None and len(valid) else None, names, states,
        parse_counts(prior), num_components, num_starts, max_edges, seed, progress, stop or Stop(),
    )  # fmt: skip
    costs = edge_costs, parameter_costs
    has_choice = len(set(edge_costs)) * len(set(parameter_costs)) > 1
    if has_choice and task.valid is None:
        raise LapisError(
            "several costs need held-out rows to choose between them",
            code="option-value",
            hint="give valid, or one edge cost and one parameter cost",
        )
    if method == "tree" and tuple(map(tuple, costs)) != (EDGE_COSTS, PARAMETER_COSTS):
        raise LapisError(
            "method 'tree' does not read costs of edges and parameters",
            code="unread-option",
            hint="they belong to greedy, quick",
        )
    began = time.monotonic()
    trials: list[CostTrial] = []
    chosen: tuple[float | None, float | None] = (None, None)
    with stop_on_interrupt(task.stop):
        if method == "tree":
            fit = learn_trees(task)
        else:
            chosen = best = edge_costs[0], parameter_costs[0]
            if task.valid is not None and has_choice:
                learn = partial(learn_splits, task, method)
                fit, trial, trials = choose_costs(learn, *costs, task.valid, task.stop, progress)
                chosen = best = trial.edge_cost, trial.parameter_cost
            if not trials or (num_starts > 1 and not task.stop.is_over()):
                fit = learn_splits(task, method, *best, num_starts)
    return LearningOutcome(finish_fit(fit, task), *chosen, trials, time.monotonic() - began)


def learn_splits(
    task: RowTask, method: Method, edge_cost: float, parameter_cost: float, num_starts: int = 1
) -> CircuitFit:
    """Learn one circuit by splits, or a mixture; a network alone with an edge cost of 0."""
    num_components = task.num_components or 1
    if num_components * num_starts == 1 and (task.train >= 0).all():
        found = learn_circuit(
            task.train, task.names, task.states, edge_cost=edge_cost,
            parameter_cost=parameter_cost, prior=task.prior, method=method,
            max_edges=task.max_edges, progress=task.progress, stop=task.stop,
        )  # fmt: skip
        return CircuitFit(found.circuit, found.network, found.num_splits, found.converged)
    mixture = learn_mixture(
        task.train, task.names, task.states, num_components=num_components, num_starts=num_starts,
        valid=task.valid, edge_cost=edge_cost, parameter_cost=parameter_cost, prior=task.prior,
        method=method, max_edges=task.max_edges, seed=task.seed, progress=task.progress,
        stop=task.stop,
    )  # fmt: skip
    circuit = join_circuits(mixture.weight, mixture.circuit)
    network = mixture.network[0] if len(mixture.network) == 1 else None
    return CircuitFit(circuit, network, mixture.num_splits, mixture.converged)


def learn_trees(task: RowTask) -> CircuitFit:
    """Learn the average of hidden trees from different starts."""
    check_shape(task.train, task.names)
    if task.prior == "thesis":
        raise LapisError(
            "prior 'thesis' belongs to the methods greedy and quick",
            code="option-value",
            hint="method 'tree' takes libra or a number of counts in total",
        )
    prior = 1.0 if task.prior == "libra" else float(task.prior)
    limit = None if task.max_edges is None else task.max_edges // task.num_starts - 3
    circuits: list[Circuit] = []
    converged = True
    for own_seed in np.random.SeedSequence(task.seed).generate_state(task.num_starts).tolist():
        if circuits and task.stop.is_over():
            converged = False
            break
        tree, is_done = learn_hidden_tree(
            task.train, task.states, num_hidden=task.num_components or NUM_HIDDEN,
            valid=task.valid, prior=prior, max_edges=limit, seed=own_seed, progress=task.progress,
            stop=task.stop,
        )  # fmt: skip
        circuits.append(as_circuit(tree, task.names, task.states))
        converged &= is_done
    weight = np.full(len(circuits), 1 / len(circuits))
    return CircuitFit(join_circuits(weight, circuits), None, 0, converged)


def finish_fit(fit: CircuitFit, task: RowTask) -> CircuitFit:
    """Merge nodes of the circuit; refuse one with more than `max_edges` edges.

    A circuit with an equivalent network keeps its distribution.
    """
    if fit.circuit is None:
        return fit
    if task.valid is None or fit.network is not None:
        circuit = merge_nodes(fit.circuit)
    else:
        circuit = merge_close(fit.circuit, task.valid)
    if task.max_edges is not None and circuit.num_edges > task.max_edges:
        raise TooLarge(
            f"no circuit of at most {task.max_edges:,} edges was found; the smallest has "
            f"{circuit.num_edges:,}",
            code="circuit-too-large",
            hint="allow more edges",
        )
    return replace(fit, circuit=circuit)


TOLERANCES = (0.05, 0.02, 0.01, 0.005)
NORMALISED = 1e-9  # how far the weights of a sum may be from 1 in total

Key = tuple[int, ...]


def merge_nodes(circuit: Circuit, tolerance: float = 0.0) -> Circuit:
    """Merge equal nodes; with a tolerance, also sums over the same parts with close weights."""
    merged = _MergedNodes(tolerance)
    number = np.empty(circuit.num_nodes, np.int64)
    start = circuit.start.tolist()
    leaves = zip(circuit.kind.tolist(), circuit.leaf.tolist(), strict=True)
    for node, (kind, leaf) in enumerate(leaves):
        if kind in (SUM, PRODUCT):
            below = number[circuit.child[start[node] : start[node + 1]]].tolist()
            number[node] = merged.add_inner(kind, tuple(sorted(below)))
        else:
            value = leaf if kind == INDICATOR else float(circuit.log_parameter[leaf])
            number[node] = merged.add(kind, value, ())
    return merged.finish(circuit, int(number[-1]))


def merge_close(circuit: Circuit, valid: np.ndarray) -> Circuit:
    """Merge with the largest tolerance that does not lower the held-out likelihood."""
    best = merge_nodes(circuit)
    rows, times = np.unique(valid, axis=0, return_counts=True)
    least = times @ log_values(best, rows)
    for tolerance in TOLERANCES:
        merged = merge_nodes(circuit, tolerance)
        if merged.num_edges < best.num_edges and times @ log_values(merged, rows) >= least:
            return merged
    return best


class _MergedNodes:
    """The different nodes of a circuit, numbered in the order in which they are added."""

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self.kind: list[int] = []
        self.value: list[float] = []  # state of an indicator, log of a parameter; else -1
        self.children: list[Key] = []
        self.number: dict[tuple[int, float, Key], int] = {}
        self.sums: dict[tuple[Key, ...], list[tuple[list[float], int]]] = {}

    def add(self, kind: int, value: float, children: Key) -> int:
        key = kind, value, children
        if key not in self.number:
            self.number[key] = len(self.kind)
            self.kind.append(kind)
            self.value.append(value)
            self.children.append(children)
        return self.number[key]

    def add_inner(self, kind: int, children: Key) -> int:
        if len(children) == 1:
            return children[0]
        key = kind, -1, children
        if kind == SUM and self.tolerance and key not in self.number:
            found = self.split_weights(children)
            if found is not None:
                return self.add_weighted_sum(children, *found)
        return self.add(kind, -1, children)

    def add_weighted_sum(self, children: Key, parts: tuple[Key, ...], weight: list[float]) -> int:
        """Return a sum over the same parts with close weights, or a new one."""
        known = self.sums.setdefault(parts, [])
        for other, node in known:
            if all(abs(a - b) <= self.tolerance for a, b in zip(weight, other, strict=True)):
                self.number[SUM, -1, children] = node
                return node
        known.append((weight, self.add(SUM, -1, children)))
        return known[-1][1]

    def split_weights(self, children: Key) -> tuple[tuple[Key, ...], list[float]] | None:
        """Return the parts of a sum and their weights; None unless the weights sum to 1."""
        parts: list[tuple[Key, float]] = []
        for child in children:
            below = self.children[child]
            own = [c for c in below if self.kind[c] == PARAMETER]
            if self.kind[child] != PRODUCT or len(own) != 1:
                return None
            parts.append((tuple(c for c in below if c != own[0]), math.exp(self.value[own[0]])))
        parts.sort()
        weight = [share for _, share in parts]
        if abs(sum(weight) - 1.0) > NORMALISED:
            return None
        return tuple(part for part, _ in parts), weight

    def finish(self, circuit: Circuit, root: int) -> Circuit:
        """Return the nodes below the root as a circuit."""
        used = np.zeros(root + 1, bool)
        used[root] = True
        for node in range(root, -1, -1):
            if used[node]:
                used[list(self.children[node])] = True
        kept = np.flatnonzero(used)
        kind = np.array(self.kind)[kept]
        value = np.array(self.value)[kept]
        number = np.cumsum(used) - 1
        children = [number[list(self.children[n])] for n in kept.tolist()]
        is_parameter = kind == PARAMETER
        return new_circuit(
            circuit.names, circuit.states, kind,
            np.where(is_parameter, np.cumsum(is_parameter) - 1, value),
            np.cumsum([0, *map(len, children)]),
            np.concatenate([*children, np.empty(0, np.int64)]), value[is_parameter],
            circuit.properties,
        )  # fmt: skip
