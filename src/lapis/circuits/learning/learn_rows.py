"""What an edge and a parameter should cost: held-out rows say (thesis, 5.7.2).

One circuit is learned for each pair of costs, edges from the dearest to the cheapest, and the one
that held-out rows like best is kept. For one parameter cost it ends where they lose more than
`SLACK`: cheaper edges would buy more of the same, in much more time.

Searches do not share their work. One that goes on from the circuit of a higher edge cost is faster,
but what it finds is worse, for the same number of edges too (msweb, k_e = 0.05: -9.80 in the place
of -9.77 on held-out rows): the splits that are cheap in edges come first, and settle the order of
the variables for those that explain more.

From rows to a circuit: by splits or as a hidden tree, alone or several together.

Costs of splits are given or chosen by held-out rows; circuits from several starts are averaged.
Equal parts of the result are merged, and nearly equal ones where held-out rows lose nothing.
With an edge cost of 0 the result is a network with decision trees and no circuit.

Equal parts of a circuit made one, and parts that are nearly equal where held-out rows allow it.

Learning copies: SplitAC copies what depends on a split, mixtures and hidden trees learn components
side by side. Bottom up, nodes of one kind with the same children are one node, as are parameters of
one value; a sum or product of one child is that child. The function is the same.

Two weighted sums Σ_i θ_i c_i over the same c, whose weights differ by at most a tolerance each, can
share the weights of the first as well. That is another distribution, of fewer parameters; the
largest of several tolerances is taken at which held-out rows are not less likely than before.
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
    """A circuit or a network learned from rows, and how; one of the two at least."""

    circuit: Circuit | None  # None if edges cost nothing
    network: TreeNetwork | None  # the same distribution, if trees can say it
    num_splits: int
    converged: bool  # it came to its end; no limit was met

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
    """A pair of costs, and what came of it."""

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
    """The fit of those that `learn` finds for pairs of costs that is best on held-out rows."""
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
class TuningOutcome:
    """The circuit, the costs that it was learned with, and all that were tried."""

    fit: CircuitFit
    edge_cost: float | None  # None for a tree
    parameter_cost: float | None
    trials: list[CostTrial]  # if there was a choice
    seconds: float


class RowTask(NamedTuple):
    """What is learned from, and how, apart from costs."""

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
) -> TuningOutcome:
    """Learn a circuit, or a network with decision trees, from rows.

    Parameters
    ----------
    train, valid
        int[num_rows, num_variables], states; negative ones are missing. Held-out rows choose
        between costs, and say where EM ends and what may be merged.
    names, states
        Of the variables.
    edge_costs, parameter_costs
        k_e and k_p; of several, held-out rows choose a pair. An edge cost of 0 keeps no circuit.
    prior
        Of the parameters: a name or counts in total, see `priors`.
    method
        "greedy" or "quick" for splits, "tree" for a tree of hidden variables.
    num_components
        Circuits of a mixture (default 1); for "tree" states of a hidden variable (default 16).
    num_starts
        Results from different starts that are averaged.
    max_edges
        Edges of the circuit at most.
    seed
        Of everything random.
    progress, stop
        Called now and then; asked whether to stop.

    Returns
    -------
    Outcome
        The fit and the costs that were chosen.

    Raises
    ------
    LapisError
        If the data cannot be learned from, or options contradict.
    TooLarge
        If even without splits the circuit has more than `max_edges` edges.
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
    return TuningOutcome(finish_fit(fit, task), *chosen, trials, time.monotonic() - began)


def learn_splits(
    task: RowTask, method: Method, edge_cost: float, parameter_cost: float, num_starts: int = 1
) -> CircuitFit:
    """One circuit of LearnAC or a mixture; a network alone if edges cost nothing."""
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
    """The average of hidden trees from different starts."""
    check_shape(task.train, task.names)
    if task.prior == "thesis":
        raise LapisError(
            "the prior of the thesis is one of distributions that are split",
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
    """Merge parts of the circuit; refuse one that is larger than allowed even without splits.

    A circuit with a network beside it stays the same distribution.
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
    """The circuit with equal nodes joined; with a tolerance, also sums with close weights."""
    made = _SharedNodes(tolerance)
    number = np.empty(circuit.num_nodes, np.int64)
    start = circuit.start.tolist()
    for node, (kind, leaf) in enumerate(
        zip(circuit.kind.tolist(), circuit.leaf.tolist(), strict=True)
    ):
        if kind == INDICATOR:
            number[node] = made.leaf(INDICATOR, leaf)
        elif kind == PARAMETER:
            number[node] = made.parameter(float(circuit.log_parameter[leaf]))
        else:
            below = number[circuit.child[start[node] : start[node + 1]]].tolist()
            number[node] = made.inner(kind, tuple(sorted(below)))
    return made.finish(circuit, int(number[-1]))


def merge_close(circuit: Circuit, valid: np.ndarray) -> Circuit:
    """The smallest of several circuits that make held-out rows no less likely than the first."""
    best = merge_nodes(circuit)
    rows, times = np.unique(valid, axis=0, return_counts=True)
    least = times @ log_values(best, rows)
    for tolerance in TOLERANCES:
        merged = merge_nodes(circuit, tolerance)
        if merged.num_edges < best.num_edges and times @ log_values(merged, rows) >= least:
            return merged
    return best


class _SharedNodes:
    """Nodes made so far, each once."""

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self.kind: list[int] = []
        self.leaf_number: list[int] = []
        self.children: list[Key] = []
        self.log_parameter: list[float] = []
        self.known: dict[tuple[int, Key], int] = {}
        self.of_value: dict[float, int] = {}
        self.sums: dict[tuple[Key, ...], list[tuple[list[float], int]]] = {}

    def add(self, kind: int, leaf: int, children: Key) -> int:
        self.kind.append(kind)
        self.leaf_number.append(leaf)
        self.children.append(children)
        return len(self.kind) - 1

    def leaf(self, kind: int, leaf: int) -> int:
        key = kind, (leaf,)
        if key not in self.known:
            self.known[key] = self.add(kind, leaf, ())
        return self.known[key]

    def parameter(self, log_value: float) -> int:
        if log_value not in self.of_value:
            self.log_parameter.append(log_value)
            self.of_value[log_value] = self.add(PARAMETER, len(self.log_parameter) - 1, ())
        return self.of_value[log_value]

    def inner(self, kind: int, children: Key) -> int:
        if len(children) == 1:
            return children[0]
        key = kind, children
        if key in self.known:
            return self.known[key]
        found = self.close_sum(children) if kind == SUM and self.tolerance else None
        if found is None:
            found = self.add(kind, -1, children)
            if kind == SUM and self.tolerance:
                self.keep_sum(children, found)
        self.known[key] = found
        return found

    def weights(self, children: Sequence[int]) -> tuple[tuple[Key, ...], list[float]] | None:
        """The parts of a sum without their weights, in order, and these; None if it has others."""
        parts: list[tuple[Key, float]] = []
        for child in children:
            below = self.children[child]
            own = [c for c in below if self.kind[c] == PARAMETER]
            if self.kind[child] != PRODUCT or len(own) != 1:
                return None
            chance = math.exp(self.log_parameter[self.leaf_number[own[0]]])
            parts.append((tuple(c for c in below if c != own[0]), chance))
        parts.sort()
        weight = [chance for _, chance in parts]
        if abs(sum(weight) - 1.0) > NORMALISED:
            return None
        return tuple(part for part, _ in parts), weight

    def close_sum(self, children: Key) -> int | None:
        found = self.weights(children)
        if found is not None:
            for weight, node in self.sums.get(found[0], ()):
                if all(abs(a - b) <= self.tolerance for a, b in zip(weight, found[1], strict=True)):
                    return node
        return None

    def keep_sum(self, children: Key, node: int) -> None:
        found = self.weights(children)
        if found is not None:
            self.sums.setdefault(found[0], []).append((found[1], node))

    def finish(self, circuit: Circuit, root: int) -> Circuit:
        """What is below the root, as a circuit."""
        used = np.zeros(root + 1, bool)
        used[root] = True
        for node in range(root, -1, -1):
            if used[node]:
                used[list(self.children[node])] = True
        kept = np.flatnonzero(used).tolist()
        number = np.cumsum(used) - 1
        parameters = [n for n in kept if self.kind[n] == PARAMETER]
        place = {node: at for at, node in enumerate(parameters)}
        children = [number[list(self.children[n])] for n in kept]
        values = [self.log_parameter[self.leaf_number[n]] for n in parameters]
        return new_circuit(
            circuit.names, circuit.states, np.array([self.kind[n] for n in kept]),
            np.array([place.get(n, self.leaf_number[n]) for n in kept]),
            np.cumsum([0, *map(len, children)]),
            np.concatenate([*children, np.empty(0, np.int64)]), np.array(values),
            circuit.properties,
        )  # fmt: skip
