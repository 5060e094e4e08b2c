"""From rows to a circuit: by splits or as a hidden tree, alone or several together.

Costs of splits are given or chosen by held-out rows; circuits from several starts are averaged.
Equal parts of the result are merged, and nearly equal ones where held-out rows lose nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from lapis.circuits.circuit import Circuit
from lapis.circuits.learning.hidden_tree import as_circuit, learn_hidden_tree
from lapis.circuits.learning.learn import check_shape, learn_circuit
from lapis.circuits.learning.mixture import join_circuits, learn_mixture
from lapis.circuits.learning.tuning import Fit, Trial, choose_costs
from lapis.circuits.merging import merge_close, merge_nodes
from lapis.errors import LapisError, TooLarge
from lapis.progress import Report, Stop, pressed_by_interrupt

AnyMethod = Literal["greedy", "quick", "tree"]
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


def learn_rows(
    train: np.ndarray,
    valid: np.ndarray | None,
    names: Sequence[str],
    states: Sequence[Sequence[str]],
    *,
    edge_costs: Sequence[float] = EDGE_COSTS,
    parameter_costs: Sequence[float] = PARAMETER_COSTS,
    prior: float = 1.0,
    method: AnyMethod = "quick",
    num_components: int | None = None,
    num_starts: int = 1,
    max_edges: int | None = None,
    seed: int = 0,
    progress: Report | None = None,
    stop: Stop | None = None,
) -> Outcome:
    """Learn from rows of states, int[num_rows, num_variables]; held-out rows choose costs.

    `num_components` circuits make a mixture; of a tree it is the number of hidden states.
    """
    if valid is not None and not len(valid):
        valid = None
    has_choice = len(set(edge_costs)) * len(set(parameter_costs)) > 1
    if has_choice and valid is None:
        raise LapisError(
            "several costs are chosen from by held-out rows, and there are none",
            code="option-value",
            hint="give --valid, or one --edge-cost and one --param-cost",
        )
    stop = stop or Stop()
    began = time.monotonic()

    def merged(fit: Fit) -> Fit:
        """With a network beside it, a circuit stays the same distribution."""
        if valid is None or fit.network is not None:
            return replace(fit, circuit=merge_nodes(fit.circuit))
        return replace(fit, circuit=merge_close(fit.circuit, valid))

    def learn_trees() -> Fit:
        """The average of hidden trees from different starts."""
        check_shape(train, names)
        circuits: list[Circuit] = []
        converged = True
        limit = None if max_edges is None else max_edges // num_starts - 3
        for own_seed in np.random.SeedSequence(seed).generate_state(num_starts).tolist():
            if circuits and stop.is_over():
                converged = False
                break
            tree, is_done = learn_hidden_tree(
                train, states, num_hidden=num_components or NUM_HIDDEN, valid=valid, prior=prior,
                max_edges=limit, seed=own_seed, progress=progress, stop=stop,
            )  # fmt: skip
            circuits.append(as_circuit(tree, names, states))
            converged &= is_done
        weight = np.full(len(circuits), 1 / len(circuits))
        return Fit(join_circuits(weight, circuits), None, 0, converged)

    if method == "tree":
        if (*edge_costs, *parameter_costs) != EDGE_COSTS + PARAMETER_COSTS:
            raise LapisError(
                "method 'tree' does not read --edge-cost and --param-cost",
                code="unread-option",
                hint="they belong to greedy, quick",
            )
        with pressed_by_interrupt(stop):
            fit = learn_trees()
        fit = within(merged(fit), max_edges)
        return Outcome(fit, None, None, [], time.monotonic() - began)
    num_components = num_components or 1
    is_complete = bool((train >= 0).all())
    shared: dict[str, Any] = {
        "prior": prior, "method": method, "max_edges": max_edges, "progress": progress,
        "stop": stop,
    }  # fmt: skip

    def learn(edge_cost: float, parameter_cost: float, num_starts: int = 1) -> Fit:
        costs: dict[str, Any] = {"edge_cost": edge_cost, "parameter_cost": parameter_cost}
        if num_components * num_starts == 1 and is_complete:
            found = learn_circuit(train, names, states, **costs, **shared)
            assert found.circuit is not None
            return Fit(found.circuit, found.network, found.num_splits, found.converged)
        mixture = learn_mixture(
            train, names, states, num_components=num_components, num_starts=num_starts,
            valid=valid, seed=seed, **costs, **shared,
        )  # fmt: skip
        circuit = join_circuits(mixture.weight, mixture.circuit)
        network = mixture.network[0] if len(mixture.network) == 1 else None
        return Fit(circuit, network, mixture.num_splits, mixture.converged)

    chosen = edge_costs[0], parameter_costs[0]
    trials: list[Trial] = []
    with pressed_by_interrupt(stop):
        if valid is not None and has_choice:
            fit, best, trials = choose_costs(
                learn, edge_costs, parameter_costs, valid, stop, progress
            )
            chosen = best.edge_cost, best.parameter_cost
        if not trials or (num_starts > 1 and not stop.is_over()):
            fit = learn(*chosen, num_starts)
    fit = within(merged(fit), max_edges)
    return Outcome(fit, *chosen, trials, time.monotonic() - began)


def within(fit: Fit, max_edges: int | None) -> Fit:
    """The fit, if its circuit keeps to the budget: one without any split may be too large."""
    num_edges = fit.circuit.num_edges
    if max_edges is not None and num_edges > max_edges:
        raise TooLarge(
            f"no circuit of at most {max_edges:,} edges was found; the smallest has {num_edges:,}",
            code="circuit-too-large",
            hint="raise --edges-max",
        )
    return fit
