"""Mixtures of circuits Σ_k π_k C_k, learned by expectation maximisation.

Circuits of LearnAC have no hidden variable; a mixture adds one. Many small circuits together often
fit better than one large circuit. Structures are learned from complete rows, so each round draws a
component for every row from its posterior and learns each component from its rows. Then EM on all
data fits the parameters of the components and their weights, until the held-out likelihood falls.
EM starts with a mixture of independent variables, as in naive Bayes. The average of mixtures from
different starts is again a mixture, and better than each.

Missing values are hidden variables too. For learning structures they are drawn from the circuit of
the round before, given the rest of the row; for fitting parameters they are summed out exactly. A
mixture of one component is then a single circuit from incomplete rows.

A component has few rows, so its parameters are smoothed towards the marginal distribution p of the
variable in all data: (N_j + r α p_j) / (N + r α).

On complete rows the components are evaluated as trees (`tree_network`), which is faster; other rows
go through the circuits. The result is one circuit, smooth and decomposable, but not deterministic.
So it supports no entropy and no most likely states.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from lapis.circuits.circuit import (
    INDICATOR,
    PARAMETER,
    SUM,
    Circuit,
    NodeList,
    Properties,
    state_starts,
)
from lapis.circuits.evaluation import complete_rows, expected_parameters, log_values
from lapis.circuits.learning.split_search import (
    Method,
    SearchResult,
    check_shape,
    counts_in_total,
    learn_circuit,
)
from lapis.circuits.tree_networks.tree_network import TreeNetwork, leaf_parameter, tree_arrays
from lapis.errors import LapisError
from lapis.runtime.kernels import allocating_entry
from lapis.runtime.progress import Progress, Report, Stop, stop_on_interrupt

ROUNDS = 3  # of drawing components and learning their structures
MAX_ITERATIONS = 20  # of EM in a round
LAST_ITERATIONS = 100  # in the last one
NO_SPLITS = 1e12  # cost of an edge at the start
TOLERANCE = 1e-5  # gain in mean log-likelihood below which EM ends


@dataclass(frozen=True, slots=True)
class Mixture:
    """Components and their weights."""

    weight: np.ndarray  # float64[num_components]
    network: tuple[TreeNetwork, ...]
    circuit: tuple[Circuit, ...]
    num_splits: int
    converged: bool = True

    def log_likelihoods(self, rows: np.ndarray) -> np.ndarray:
        """float64[num_rows], log P of rows; negative states are missing."""
        return np.logaddexp.reduce(self.joint(rows), axis=0)

    def joint(self, rows: np.ndarray) -> np.ndarray:
        """float64[num_components, num_rows], log P of each component and row."""
        with np.errstate(divide="ignore"):
            weight = np.log(self.weight)
        whole = (rows >= 0).all(axis=1)
        found = np.empty((len(weight), len(rows)))
        for own, network, circuit in zip(found, self.network, self.circuit, strict=True):
            own[whole] = network.log_likelihoods(rows[whole])
            own[~whole] = log_values(circuit, rows[~whole])
        return found + weight[:, None]

    def posterior(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return log P of each row, and P(component | row), float64[num_components, num_rows]."""
        joint = self.joint(rows)
        total = np.logaddexp.reduce(joint, axis=0)
        return total, np.exp(joint - total)


class Examples(NamedTuple):
    """The different rows of the data, and the marginal distributions of the variables."""

    rows: np.ndarray  # int32[num_rows, num_variables], -1 for missing
    times: np.ndarray  # int64[num_rows], how often each occurs
    marginal: list[np.ndarray]  # of each variable, P(state)
    valid: np.ndarray | None  # held-out rows


def learn_mixture(
    data: np.ndarray,
    names: Sequence[str],
    states: Sequence[Sequence[str]],
    *,
    num_components: int,
    num_starts: int = 1,
    valid: np.ndarray | None = None,
    edge_cost: float = 0.3,
    parameter_cost: float = 0.0,
    prior: str | float = "libra",
    method: Method = "quick",
    max_edges: int | None = None,
    seed: int = 0,
    progress: Report | None = None,
    stop: Stop | None = None,
) -> Mixture:
    """Learn the average of `num_starts` mixtures of `num_components` circuits each.

    `data` are rows of states, int[num_rows, num_variables]; negative states are missing. EM ends
    where the likelihood of held-out rows (`valid`) falls. An edge cost of 0 is refused: hidden and
    missing values are summed out in circuits.
    """
    check_shape(data, names)
    if edge_cost == 0:
        raise LapisError(
            "with an edge cost of 0 no circuit is kept, and hidden or missing values need one",
            code="option-value",
            hint="give an edge cost above 0, or one component, one start and complete rows",
        )
    total = counts_in_total(prior, states)
    stop = stop or Stop()
    began = time.monotonic()
    rows, count = np.unique(np.ascontiguousarray(data, np.int32), axis=0, return_counts=True)
    examples = Examples(rows, count, marginal_states(rows, count, states), valid)
    limit = None if max_edges is None else max_edges // (num_components * num_starts) - 3

    def learn(part: np.ndarray, price: float) -> SearchResult:
        return learn_circuit(
            part, names, states, edge_cost=price, parameter_cost=parameter_cost, prior=prior,
            method=method, max_edges=limit, stop=stop,
            progress=progress if num_components * num_starts == 1 else None,
        )  # fmt: skip

    found: list[Mixture] = []
    for rng in np.random.default_rng(seed).spawn(num_starts):
        if found and stop.is_over():
            break
        with stop_on_interrupt(stop):
            found.append(
                learn_from_start(examples, num_components, learn, edge_cost, total, rng, stop)
            )
        if progress is not None:
            value = float(count @ found[-1].log_likelihoods(rows) / count.sum())
            edges = float(sum(one.num_edges for mixture in found for one in mixture.circuit))
            figures = {"log-likelihood": value, "edges": edges}
            seconds = time.monotonic() - began
            progress(Progress("mixtures", len(found), num_starts, seconds, figures))
    return Mixture(
        np.concatenate([one.weight for one in found]) / len(found),
        tuple(network for one in found for network in one.network),
        tuple(circuit for one in found for circuit in one.circuit),
        sum(one.num_splits for one in found),
        len(found) == num_starts and not stop.is_over(),
    )


def learn_from_start(
    examples: Examples,
    num_components: int,
    learn: Callable[[np.ndarray, float], SearchResult],
    edge_cost: float,
    prior: np.ndarray,  # float64[num_variables], counts in total
    rng: np.random.Generator,
    stop: Stop,
) -> Mixture:
    """Learn a mixture from one random start."""

    def mix(share: np.ndarray, price: float, before: Mixture | None = None) -> Mixture:
        """Draw rows by P(component | row), [num_components, num_rows], and learn components."""
        parts = draw_parts(examples.rows, examples.times, share, rng)
        for number, part in enumerate(parts):
            if (part < 0).any() and before is not None:
                own_seed = int(rng.integers(1 << 31))
                parts[number] = complete_rows(before.circuit[number], part, own_seed)
            elif (part < 0).any():
                parts[number] = draw_missing(part, examples.marginal, rng)
        parts = [part for part in parts if len(part)]
        found = [learn(part, price) for part in parts]
        size = np.array([len(part) for part in parts], float)
        return Mixture(
            size / size.sum(),
            tuple(one.network for one in found),
            tuple(one.circuit for one in found if one.circuit is not None),
            sum(one.num_splits for one in found),
        )

    start = rng.dirichlet(np.full(num_components, 0.3), len(examples.rows)).T
    mixture = run_em(mix(start, NO_SPLITS), examples._replace(valid=None), prior, stop)
    for round_ in range(ROUNDS):
        if not stop.is_over():
            mixture = mix(mixture.posterior(examples.rows)[1], edge_cost, mixture)
            limit = MAX_ITERATIONS if round_ < ROUNDS - 1 else LAST_ITERATIONS
            mixture = run_em(mixture, examples, prior, stop, limit)
    return mixture


def marginal_states(
    rows: np.ndarray, count: np.ndarray, states: Sequence[Sequence[str]]
) -> list[np.ndarray]:
    """Return the distribution of each variable, with one count in total added."""
    found = []
    for variable, own in enumerate(states):
        shown = rows[:, variable] >= 0
        seen = np.bincount(rows[shown, variable], count[shown], len(own)) + 1 / len(own)
        found.append(seen / seen.sum())
    return found


def draw_parts(
    rows: np.ndarray, count: np.ndarray, share: np.ndarray, rng: np.random.Generator
) -> list[np.ndarray]:
    """Draw a component for every row; return the rows of each component."""
    drawn = rng.multinomial(count, np.ascontiguousarray(share.T))
    return [np.repeat(rows, number, axis=0) for number in drawn.T]


def draw_missing(
    rows: np.ndarray, marginal: list[np.ndarray], rng: np.random.Generator
) -> np.ndarray:
    """Draw missing states independently from the marginal distributions."""
    found = rows.copy()
    for column, chance in zip(found.T, marginal, strict=True):
        gone = column < 0
        column[gone] = rng.choice(len(chance), gone.sum(), p=chance)
    return found


def run_em(
    mixture: Mixture,
    examples: Examples,
    prior: np.ndarray,
    stop: Stop,
    max_iterations: int = MAX_ITERATIONS,
) -> Mixture:
    """Fit weights and parameters by EM until the training or held-out likelihood stops growing."""
    rows, count, _, valid = examples
    held_out = -np.inf if valid is None else float(mixture.log_likelihoods(valid).mean())
    before = -np.inf
    for _ in range(max_iterations):
        total, share = mixture.posterior(rows)
        value = float(count @ total / count.sum())
        if stop.is_over() or value - before < TOLERANCE:
            break
        before = value
        weighted = share * count
        size = weighted.sum(axis=1)
        parameters = [
            weighted_parameters(network, circuit, examples, w, prior)
            for network, circuit, w in zip(mixture.network, mixture.circuit, weighted, strict=True)
        ]
        better = with_parameters(replace(mixture, weight=size / size.sum()), parameters)
        if valid is not None:
            now = float(better.log_likelihoods(valid).mean())
            if now < held_out:
                break
            held_out = now
        mixture = better
    return mixture


def with_parameters(mixture: Mixture, parameters: Sequence[np.ndarray]) -> Mixture:
    """Replace the log parameters of the components."""
    networks = map(lambda one, own: replace(one, log_parameter=own), mixture.network, parameters)
    circuits = map(Circuit.with_parameters, mixture.circuit, parameters)
    return replace(mixture, network=tuple(networks), circuit=tuple(circuits))


def weighted_parameters(
    network: TreeNetwork,
    circuit: Circuit,
    examples: Examples,
    weight: np.ndarray,
    prior: np.ndarray,
) -> np.ndarray:
    """Estimate log parameters from weighted rows; incomplete rows add expected counts."""
    whole = (examples.rows >= 0).all(axis=1)
    count = expected_parameters(circuit, examples.rows[~whole], weight[~whole])[1]
    _count_parameters(tree_arrays(network), examples.rows[whole], weight[whole], count)
    leaves = np.flatnonzero(network.split_on < 0)  # in the order of their parameters
    variable = network.variable[leaves]
    state_start = state_starts(network.states)
    size = np.diff(state_start)[variable]
    first = network.first_parameter[leaves]
    total = np.repeat(np.add.reduceat(count, first), size)
    state = np.arange(len(count)) + np.repeat(state_start[variable] - first, size)
    added = np.repeat(prior[variable], size)
    return np.asarray(
        np.log((count + added * np.concatenate(examples.marginal)[state]) / (total + added))
    )


@allocating_entry
def _count_parameters(trees, rows, weight, count):  # type: ignore[no-untyped-def]
    """Add the weight of each row to the parameters that it uses."""
    for r in range(len(rows)):
        if weight[r] > 0.0:
            for v in range(rows.shape[1]):
                count[leaf_parameter(trees, rows[r], v) + rows[r, v]] += weight[r]


def join_circuits(weight: np.ndarray, circuits: Sequence[Circuit]) -> Circuit:
    """Return Σ_k π_k C_k as one circuit; its indicators are shared."""
    first = circuits[0]
    if len(circuits) == 1:
        return first
    nodes = NodeList()
    indicator = nodes.add_leaves(INDICATOR, np.arange(first.num_states))
    parameters: list[np.ndarray] = []
    terms = []
    for share, circuit in zip(weight, circuits, strict=True):
        is_state = circuit.kind == INDICATOR
        num_parameters = sum(map(len, parameters))
        number = np.empty(circuit.num_nodes, np.int64)
        number[is_state] = indicator[circuit.leaf[is_state]]
        number[~is_state] = nodes.size + np.arange((~is_state).sum())
        leaf = circuit.leaf[~is_state]
        nodes.add(
            circuit.kind[~is_state], np.where(leaf < 0, -1, leaf + num_parameters),
            np.diff(circuit.start)[~is_state], number[circuit.child],
        )  # fmt: skip
        parameters += [circuit.log_parameter, np.log([share])]
        prior = nodes.add_leaves(PARAMETER, np.array([num_parameters + circuit.num_parameters]))
        terms.append(nodes.add_weighted(prior, number[-1:]))
    nodes.add(SUM, -1, np.array([len(terms)]), np.concatenate(terms))
    return nodes.finish(
        first.names, first.states, np.concatenate(parameters), Properties(True, True, False)
    )
