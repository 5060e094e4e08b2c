"""From rows to a circuit: by splits or as a hidden tree, alone or several together.

Costs of splits are given or chosen by held-out rows; circuits from several starts are averaged.
Equal parts of the result are merged, and nearly equal ones where held-out rows lose nothing.
With an edge cost of 0 the result is a network with decision trees and no circuit.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from lapis.circuits.circuit import Circuit
from lapis.circuits.learning.hidden_tree import as_circuit, learn_hidden_tree
from lapis.circuits.learning.learn import Method, check_shape, learn_circuit
from lapis.circuits.learning.mixture import join_circuits, learn_mixture
from lapis.circuits.learning.priors import parse_counts
from lapis.circuits.learning.tuning import Fit, Trial, choose_costs
from lapis.circuits.merging import merge_close, merge_nodes
from lapis.errors import LapisError, TooLarge
from lapis.registry.circuit_options import CircuitLearner
from lapis.runtime.progress import Report, Stop, pressed_by_interrupt

NUM_HIDDEN = 16  # states of a hidden variable
EDGE_COSTS, PARAMETER_COSTS = (0.1,), (0.0,)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The circuit, the costs that it was learned with, and all that were tried."""

    fit: Fit
    edge_cost: float | None  # None for a tree
    parameter_cost: float | None
    trials: list[Trial]  # if there was a choice
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
) -> Outcome:
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
    trials: list[Trial] = []
    chosen: tuple[float | None, float | None] = (None, None)
    with pressed_by_interrupt(task.stop):
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
    return Outcome(finish_fit(fit, task), *chosen, trials, time.monotonic() - began)


def learn_splits(
    task: RowTask, method: Method, edge_cost: float, parameter_cost: float, num_starts: int = 1
) -> Fit:
    """One circuit of LearnAC or a mixture; a network alone if edges cost nothing."""
    num_components = task.num_components or 1
    if num_components * num_starts == 1 and (task.train >= 0).all():
        found = learn_circuit(
            task.train, task.names, task.states, edge_cost=edge_cost,
            parameter_cost=parameter_cost, prior=task.prior, method=method,
            max_edges=task.max_edges, progress=task.progress, stop=task.stop,
        )  # fmt: skip
        return Fit(found.circuit, found.network, found.num_splits, found.converged)
    mixture = learn_mixture(
        task.train, task.names, task.states, num_components=num_components, num_starts=num_starts,
        valid=task.valid, edge_cost=edge_cost, parameter_cost=parameter_cost, prior=task.prior,
        method=method, max_edges=task.max_edges, seed=task.seed, progress=task.progress,
        stop=task.stop,
    )  # fmt: skip
    circuit = join_circuits(mixture.weight, mixture.circuit)
    network = mixture.network[0] if len(mixture.network) == 1 else None
    return Fit(circuit, network, mixture.num_splits, mixture.converged)


def learn_trees(task: RowTask) -> Fit:
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
    return Fit(join_circuits(weight, circuits), None, 0, converged)


def finish_fit(fit: Fit, task: RowTask) -> Fit:
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
