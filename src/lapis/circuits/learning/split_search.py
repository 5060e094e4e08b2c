"""LearnAC: learn a circuit from data by splits that pay for their edges.

Daniel Lowd, thesis (University of Washington, 2010), section 5.5, tables 5.1 and 5.2.

    score = log P(data) − k_e · edges − k_p · parameters

The search starts with a product of marginals. It makes the best split of a distribution
(`split_kernel.py`) until no split improves the score (`candidates_kernel.py`). The result is a
circuit and the equivalent Bayesian network with decision trees.

With k_e = 0 no circuit is kept, since it could be exponential in size; the result is the network
alone. This is the baseline of the thesis, the learner of Chickering, Heckerman and Meek (1997) in
WinMine. WinMine scores by the marginal likelihood of a Dirichlet prior and a factor κ for each
parameter. Here the score is the likelihood at the smoothed parameters, and k_p replaces −log κ.

**Priors.** A distribution of a variable with r states that occur N_j times in N rows gets the
parameters θ_j = (N_j + α) / (N + r α):

    thesis   α = 1, one count for each state. The thesis (5.5.1, footnote 2) has a Dirichlet prior
             with all hyperparameters 1 and calls the estimate MAP. The mode of that posterior is
             the maximum of likelihood, which gives unseen states probability 0; we take its mean.
    libra    α = 1 / r, one count in total; the default of Libra
    number   α = number / r, counts in total

Data are bits: a word holds 64 rows of one state.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Literal

import numpy as np

from lapis.circuits.circuit import PARAMETER, Circuit, Properties, new_circuit
from lapis.circuits.learning.candidates_kernel import (
    NEVER,
    choose_split,
    count_gains,
    count_row_states,
    expire_costs,
    grow_candidates,
    new_candidates,
    refresh_best,
    smoothed_log_likelihood,
)
from lapis.circuits.learning.split_kernel import (
    MAX_STATES,
    GrowingCircuit,
    new_layout,
    new_split_walk,
    product_of_marginals,
    split_circuit,
)
from lapis.circuits.tree_networks.tree_network import TreeNetwork
from lapis.errors import LapisError, suggestion
from lapis.runtime.progress import Progress, Report, Stop, stop_on_interrupt

Method = Literal["greedy", "quick"]
REPORT_EVERY = 0.2  # seconds


@dataclass(frozen=True, slots=True)
class SearchResult:
    circuit: Circuit | None  # None with an edge cost of 0
    network: TreeNetwork
    log_likelihood: float  # of the training data, in total
    num_splits: int
    converged: bool  # no split improves the score


def learn_circuit(
    data: np.ndarray,
    names: Sequence[str],
    states: Sequence[Sequence[str]],
    *,
    edge_cost: float = 0.1,
    parameter_cost: float = 0.0,
    prior: str | float = "libra",
    method: Method = "quick",
    max_edges: int | None = None,
    allowed: np.ndarray | None = None,
    progress: Report | None = None,
    stop: Stop | None = None,
) -> SearchResult:
    """Learn a circuit from complete rows of states, int[num_rows, num_variables].

    "greedy" makes the best split in every step, "quick" nearly so. The search ends before the
    circuit has more than `max_edges` edges. `allowed`, bool[num_variables, num_variables], are the
    variables (columns) on which the distributions of a variable (row) may be split.
    """
    search = CircuitSearch(data, names, states, edge_cost, parameter_cost, prior, allowed)
    stop = stop or Stop()
    began = reported = time.monotonic()
    converged = False
    with stop_on_interrupt(stop):
        while not stop.is_over():
            found = search.find_split(method)
            if found is None:
                converged = True
                break
            if not search.split(*found, greedy=method == "greedy", max_edges=max_edges):
                break
            now = time.monotonic()
            if progress is not None and now - reported > REPORT_EVERY:
                reported = now
                figures = {"score": search.score, "edges": float(search.num_edges)}
                progress(Progress("splits", search.num_splits, None, now - began, figures))
    return search.finish(converged)


class CircuitSearch:
    """The circuit so far, its distributions (nodes of decision trees) and the rows of each."""

    def __init__(
        self,
        data: np.ndarray,
        names: Sequence[str],
        states: Sequence[Sequence[str]],
        edge_cost: float,
        parameter_cost: float,
        prior: str | float,
        allowed: np.ndarray | None = None,
    ) -> None:
        self.names, self.states = tuple(names), tuple(map(tuple, states))
        check_shape(data, self.names)
        check_states(self.names, self.states)
        check_complete(data, self.names)
        num_variables = len(self.names)
        self.edge_cost, self.parameter_cost = edge_cost, parameter_cost
        self.prior = counts_in_total(prior, self.states)
        self.layout = new_layout(self.states)
        self.bits = pack_states(data, self.states)
        self.allowed = np.ones((num_variables, num_variables), np.bool_)
        if allowed is not None:
            self.allowed &= allowed
        self.allowed[:, self.layout.size < 2] = False
        np.fill_diagonal(self.allowed, False)
        self.is_descendant = np.zeros((num_variables, num_variables), np.bool_)
        self.candidates = new_candidates(4 * num_variables, num_variables)
        self.rows: list[np.ndarray | None] = []  # of a leaf, as bits
        self.open: list[np.ndarray | None] = []  # variables that a leaf may be split on
        self.variable: list[int] = []
        self.split_on: list[int] = []
        self.first_child: list[int] = []
        self.first_parameter: list[int] = []
        self.num_parameters = 0  # ever
        self.num_splits = 0
        everything = pack_bits(np.ones(len(data), np.bool_))
        for variable in range(num_variables):
            self.add_distribution(variable, everything, self.allowed[variable])
        self.with_circuit = edge_cost > 0  # otherwise the graph stays as it is
        self.graph = product_of_marginals(self.layout, np.array(self.first_parameter))
        self.walk = new_split_walk(2 * len(self.graph.kind))
        self.log_likelihood = sum(self.log_likelihood_of(number) for number in range(num_variables))

    @property
    def num_edges(self) -> int:
        return len(self.graph.child) if self.with_circuit else 0

    @property
    def score(self) -> float:
        sizes = sum(
            len(self.states[own])
            for own, on in zip(self.variable, self.split_on, strict=True)
            if on < 0
        )
        costs = self.edge_cost * self.num_edges + self.parameter_cost * sizes
        return self.log_likelihood - costs

    def add_distribution(self, variable: int, rows: np.ndarray, open_: np.ndarray) -> None:
        """Add a leaf: its rows as bits, and bool[num_variables], which it may be split on."""
        number = len(self.variable)
        if number == len(self.candidates.gain):
            self.candidates = grow_candidates(self.candidates)
        self.variable.append(variable)
        self.split_on.append(-1)
        self.first_child.append(-1)
        self.first_parameter.append(self.num_parameters)
        self.num_parameters += len(self.states[variable])
        self.rows.append(rows)
        self.open.append(open_)
        table = self.candidates
        table.variable[number] = variable
        table.first[number] = self.first_parameter[number]
        count_gains(
            self.bits, self.layout, rows, variable, open_ & ~self.is_descendant[variable],
            self.prior[variable], self.parameter_cost, table.gain[number],
        )  # fmt: skip
        table.bound[number] = table.gain[number]
        refresh_best(table, number)

    def counts(self, number: int) -> np.ndarray:
        """int64[size], the number of rows of a leaf in each state."""
        return count_row_states(self.bits, self.layout, self.rows[number], self.variable[number])

    def parameters_of(self, number: int) -> np.ndarray:
        counts, prior = self.counts(number), self.prior[self.variable[number]]
        return np.asarray((counts + prior / len(counts)) / (counts.sum() + prior))

    def log_likelihood_of(self, number: int) -> float:
        counts = self.counts(number)
        prior = self.prior[self.variable[number]]
        return float(smoothed_log_likelihood(counts, 0, len(counts), prior))

    def find_split(self, method: Method) -> tuple[int, int] | None:
        """Return the distribution and variable of the best split; None if no split pays."""
        self.grow_walk()
        number, variable = choose_split(
            self.graph, self.layout, self.walk, self.candidates, len(self.variable),
            self.is_descendant, self.edge_cost, self.num_splits + 1, method == "greedy",
        )  # fmt: skip
        return None if number < 0 else (number, variable)

    def grow_walk(self) -> None:
        """Enlarge the work space of walks to the size of the circuit."""
        if len(self.walk.kept) < len(self.graph.kind):
            self.walk = new_split_walk(2 * len(self.graph.kind))

    def split(self, number: int, on: int, *, greedy: bool, max_edges: int | None = None) -> bool:
        """Make a split; return False if the circuit would have more than `max_edges` edges."""
        own = self.variable[number]
        size, num_cases = len(self.states[own]), len(self.states[on])
        first = self.first_parameter[number]
        if self.with_circuit:
            new = split_circuit(
                self.graph, self.layout, self.walk, first, size, on, self.num_parameters
            )
            if max_edges is not None and len(new.child) > max_edges:
                return False
            if greedy:
                expire_costs(
                    self.graph, self.layout, self.walk, self.candidates, len(self.variable),
                    number, on,
                )  # fmt: skip
            self.graph = new
        before = self.log_likelihood_of(number)
        rows, open_ = self.rows[number], self.open[number]
        assert rows is not None
        assert open_ is not None
        still_open = open_.copy()
        still_open[on] = False
        self.add_arc(on, own)
        self.split_on[number] = on
        self.first_child[number] = len(self.variable)
        for state in range(num_cases):
            part = rows & self.bits[self.layout.first[on] + state]
            self.add_distribution(own, part, still_open)
            self.log_likelihood += self.log_likelihood_of(len(self.variable) - 1)
        self.log_likelihood -= before
        self.rows[number] = self.open[number] = None
        self.candidates.best[number] = NEVER
        self.candidates.first[number] = -1
        self.num_splits += 1
        return True

    def add_arc(self, parent: int, own: int) -> None:
        """Make a variable a parent of `own`: its ancestors get the descendants of `own`."""
        above = self.is_descendant[:, parent].copy()
        above[parent] = True
        below = self.is_descendant[own].copy()
        below[own] = True
        self.is_descendant[np.ix_(above, below)] = True

    def finish(self, converged: bool) -> SearchResult:
        """Return the network and the circuit."""
        is_leaf = np.array(self.split_on) < 0
        sizes = np.array([len(self.states[own]) for own in self.variable])
        used = np.where(is_leaf, sizes, 0)
        first = np.where(is_leaf, np.cumsum(used) - used, -1)
        log_parameter = np.concatenate(
            [np.log(self.parameters_of(number)) for number in np.flatnonzero(is_leaf).tolist()]
        )
        network = TreeNetwork(
            self.names, self.states, np.array(self.variable, np.int32),
            np.array(self.split_on, np.int32), np.array(self.first_child, np.int32),
            first, log_parameter,
        )  # fmt: skip
        circuit = None
        if self.with_circuit:
            first_of = np.array(self.first_parameter)
            circuit = finish_circuit(self.graph, network, first_of, self.num_parameters)
        return SearchResult(circuit, network, self.log_likelihood, self.num_splits, converged)


def finish_circuit(
    graph: GrowingCircuit, network: TreeNetwork, first_parameter: np.ndarray, num_parameters: int
) -> Circuit:
    """Return the circuit of a network from the graph made by its splits.

    `first_parameter`, int64[num_distributions], is the number of each distribution's first
    parameter in the graph.
    """
    number = np.full(num_parameters, -1, np.int32)
    for leaf in np.flatnonzero(network.split_on < 0).tolist():
        own = np.arange(len(network.states[network.variable[leaf]]))
        number[first_parameter[leaf] + own] = network.first_parameter[leaf] + own
    return new_circuit(
        network.names, network.states, graph.kind,
        np.where(graph.kind == PARAMETER, number[graph.leaf], graph.leaf), graph.start, graph.child,
        network.log_parameter, Properties(True, True, True),
    )  # fmt: skip


def check_shape(data: np.ndarray, names: Sequence[str]) -> None:
    """Refuse data without rows, or with a wrong number of columns."""
    if not len(data):
        raise LapisError("there are no rows to learn from", code="circuit-data")
    if data.ndim != 2 or data.shape[1] != len(names) or not data.size:
        raise LapisError(
            f"{len(names)} variables cannot be learned from data of shape {data.shape}",
            code="circuit-data",
        )


def check_states(names: Sequence[str], states: Sequence[Sequence[str]]) -> None:
    """Refuse variables with more than MAX_STATES states."""
    for name, values in zip(names, states, strict=True):
        if len(values) > MAX_STATES:
            raise LapisError(
                f"{name} has {len(values)} values; circuits are learned with at most {MAX_STATES}",
                code="circuit-data",
                hint="is it a number or a name? Group its values, or leave the column out",
            )


def check_complete(data: np.ndarray, names: Sequence[str]) -> None:
    """Refuse rows with missing values."""
    for name, column in zip(names, data.T, strict=True):
        if (column < 0).any():
            raise LapisError(
                f"{name} has missing values; splits are learned from complete rows",
                code="missing-values",
                hint=f"row {int(np.argmax(column < 0)) + 1} is the first; learn_rows fills them in",
            )


def pack_states(data: np.ndarray, states: Sequence[Sequence[str]]) -> np.ndarray:
    """uint64[num_states, num_words], the rows in each state, as bits."""
    columns = [
        data[:, variable] == state
        for variable, values in enumerate(states)
        for state in range(len(values))
    ]
    return np.stack([pack_bits(column) for column in columns])


def pack_bits(flags: np.ndarray) -> np.ndarray:
    """uint64[num_words], row r in bit r % 64 of word r // 64."""
    padded = np.zeros(-(-len(flags) // 64) * 64, np.bool_)
    padded[: len(flags)] = flags
    return np.packbits(padded, bitorder="little").view(np.uint64)


PRIORS = ("thesis", "libra")


def parse_counts(prior: str | float) -> str | float:
    """Parse a prior: a name or a positive number.

    >>> parse_counts("0.5"), parse_counts("thesis")
    (0.5, 'thesis')
    """
    if prior in PRIORS:
        return prior
    try:
        number = float(prior)
    except ValueError:
        number = np.nan
    if isinstance(prior, bool) or not isinstance(prior, Real | str) or not 0 < number < np.inf:
        names = " or ".join(PRIORS)
        hint = suggestion(prior, PRIORS) if isinstance(prior, str) else None
        raise LapisError(
            f"prior must be {names}, or a number above 0, not {prior!r}",
            code="option-value",
            hint=hint or "as in 0.5: counts added to a distribution, in total",
        )
    return number


def counts_in_total(prior: str | float, states: Sequence[Sequence[str]]) -> np.ndarray:
    """float64[num_variables], r α for each variable.

    >>> counts_in_total("thesis", [["a", "b", "c"]]), counts_in_total(2, [["a", "b", "c"]])
    (array([3.]), array([2.]))
    """
    prior = parse_counts(prior)
    if prior == "thesis":
        return np.array([len(own) for own in states], np.float64)
    return np.full(len(states), 1.0 if prior == "libra" else prior, np.float64)
