"""A distribution as a product of tables over many-valued variables.

    P(x) = 1/Z · Π_f exp(log_value_f[x_scope(f)])

Bayesian networks, Markov networks and ground Markov logic networks become factor graphs, which are
then compiled, sampled or approximated.

`make_consistent` removes impossible states. A table supports a state of a variable if some entry of
that state is possible together with supported states of the others. States that some table of
their variable does not support are removed until nothing changes: generalised arc consistency
(Mackworth, Consistency in Networks of Relations, 1977). Evidence on a pedigree or a logic circuit
decides most variables in this way, which makes elimination orders narrower. A variable on which a
table does not depend is removed from its scope.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from lapis.network.csr import row_starts
from lapis.network.cubes import Cubes


@dataclass(frozen=True, slots=True)
class FactorGraph:
    names: tuple[str, ...]  # of variables
    states: tuple[tuple[str, ...], ...]  # of each variable
    scope_start: np.ndarray  # int64[num_factors + 1]
    scope: np.ndarray  # int32[...], variables, none twice in a factor
    table_start: np.ndarray  # int64[num_factors + 1]
    log_value: np.ndarray  # float64[...], tables one after another, the last variable fastest
    # int32[num_factors], the variable whose distribution given the rest of the scope a table is;
    # None for a Markov network. Each variable is the child of one table, parents come first.
    child: np.ndarray | None = None

    @property
    def size(self) -> np.ndarray:
        """int32[num_variables], the number of states of each variable."""
        return np.array([len(names) for names in self.states], np.int32)

    @property
    def num_variables(self) -> int:
        return len(self.names)

    @property
    def num_factors(self) -> int:
        return len(self.scope_start) - 1

    @property
    def tables(self) -> list[tuple[list[int], np.ndarray]]:
        """The scope and the table of each factor."""
        return [(self.variables_of(f).tolist(), self.table(f)) for f in range(self.num_factors)]

    @property
    def log_constant(self) -> float:
        """The sum of the tables without variables."""
        return float(self.log_value[self.table_start[:-1][np.diff(self.scope_start) == 0]].sum())

    def variables_of(self, factor: int) -> np.ndarray:
        """Return the scope of a factor.

        Parameters
        ----------
        factor
            Number of the factor.

        Returns
        -------
        numpy.ndarray
            int32[scope size], variables.
        """
        return self.scope[self.scope_start[factor] : self.scope_start[factor + 1]]

    def table(self, factor: int) -> np.ndarray:
        """Return the table of a factor.

        Parameters
        ----------
        factor
            Number of the factor.

        Returns
        -------
        numpy.ndarray
            float64[size of each variable of the scope], logarithms.
        """
        flat = self.log_value[self.table_start[factor] : self.table_start[factor + 1]]
        return flat.reshape([len(self.states[v]) for v in self.variables_of(factor)])

    def log_score(self, worlds: np.ndarray) -> np.ndarray:
        """Score worlds: Σ_f log f(x).

        Parameters
        ----------
        worlds
            int32[num_worlds, num_variables], states.

        Returns
        -------
        numpy.ndarray
            float64[num_worlds].
        """
        total = np.zeros(len(worlds))
        for scope, table in self.tables:
            total += table[tuple(worlds[:, scope].T)]
        return total

    def given(self, row: np.ndarray) -> FactorGraph:
        """Condition on the states of a row.

        Parameters
        ----------
        row
            int32[num_variables], states; negative where unobserved.

        Returns
        -------
        FactorGraph
            The model given these states.
        """
        seen = np.flatnonzero(row >= 0)
        return self.condition({int(v): int(row[v]) for v in seen}) if len(seen) else self

    def condition(self, evidence: Mapping[int, int]) -> FactorGraph:
        """Condition on the states of some variables.

        Tables are restricted to these states, and an observed variable gets a table that forbids
        its other states.

        Parameters
        ----------
        evidence
            State of each observed variable, by numbers.

        Returns
        -------
        FactorGraph
            The model given these states.
        """
        tables = []
        for scope, table in self.tables:
            cut = tuple(evidence.get(v, slice(None)) for v in scope)
            tables.append(([v for v in scope if v not in evidence], table[cut]))
        for variable, state in evidence.items():
            only = np.full(len(self.states[variable]), -np.inf)
            only[state] = 0.0
            tables.append(([variable], only))
        return graph_of_tables(self.names, self.states, tables)


def graph_of_tables(
    names: Sequence[str],
    states: Sequence[Sequence[str]],
    tables: Sequence[tuple[Sequence[int], np.ndarray]],
    child: Sequence[int] | None = None,
) -> FactorGraph:
    """Build a factor graph from tables of logarithms and their scopes, one axis a variable.

    >>> graph_of_tables(["a"], [["no", "yes"]], [([0], np.log([1.0, 3.0]))]).num_factors
    1
    """
    flat = [np.asarray(table, np.float64).ravel() for _, table in tables]
    return FactorGraph(
        tuple(names),
        tuple(map(tuple, states)),
        row_starts([len(scope) for scope, _ in tables]),
        np.array([v for scope, _ in tables for v in scope], np.int32),
        row_starts([*map(len, flat)]),
        np.concatenate(flat) if flat else np.empty(0),
        None if child is None else np.array(child, np.int32),
    )


def entry_cubes(graph: FactorGraph) -> tuple[Cubes, np.ndarray]:
    """Return the entries of tables that are not 1 as cubes of a junction tree, and their logs."""
    entries = [np.argwhere(graph.table(factor) != 0.0) for factor in range(graph.num_factors)]
    scopes = [graph.variables_of(factor) for factor in range(graph.num_factors)]
    members = [np.tile(scope, len(found)) for scope, found in zip(scopes, entries, strict=True)]
    lengths = np.repeat(np.diff(graph.scope_start), [len(found) for found in entries])
    variable = np.concatenate([*members, np.empty(0, np.int32)]).astype(np.int32)
    state = np.concatenate([*(found.ravel() for found in entries), np.empty(0, np.int32)])
    cubes = Cubes(
        graph.size, row_starts(lengths), variable, np.arange(len(variable) + 1),
        state.astype(np.int32), np.arange(len(lengths), dtype=np.int32),
    )  # fmt: skip
    return cubes, graph.log_value[graph.log_value != 0.0]


def parents_first(graph: FactorGraph) -> FactorGraph | None:
    """Sort the tables of a Bayesian network, parents before children; None if cyclic."""
    assert graph.child is not None
    own = {int(child): factor for factor, child in enumerate(graph.child)}
    order: list[int] = []
    mark: dict[int, bool] = {}  # False while its parents are being placed
    for root in range(graph.num_variables):
        stack = [root]
        while stack:
            v = stack[-1]
            waiting = [int(u) for u in graph.variables_of(own[v]) if u != v and not mark.get(u)]
            if mark.get(v):
                stack.pop()
            elif not waiting:
                mark[v] = True
                order.append(own[v])
            elif any(u in mark for u in waiting):
                return None
            else:
                mark[v] = False
                stack += waiting
    tables = graph.tables
    sorted_graph = graph_of_tables(graph.names, graph.states, [tables[f] for f in order])
    return replace(sorted_graph, child=graph.child[order])


class Consistent(NamedTuple):
    graph: FactorGraph  # the same variables and product, with fewer states
    state: np.ndarray  # int64[num_states], the number of each remaining state in the original


def make_consistent(graph: FactorGraph) -> Consistent | None:
    """Restrict a model to supported states; None if a variable has none."""
    possible = supported_states(graph)
    if graph.log_constant == -np.inf or not all(states.any() for states in possible):
        return None
    kept = [np.flatnonzero(states) for states in possible]
    tables = [
        drop_constant_axes(scope, table[np.ix_(*(kept[v] for v in scope))])
        for scope, table in graph.tables
    ]
    states = [
        [names[at] for at in places] for names, places in zip(graph.states, kept, strict=True)
    ]
    first = row_starts(graph.size)[:-1]
    return Consistent(
        graph_of_tables(graph.names, states, tables),
        np.concatenate([*(start + at for start, at in zip(first, kept, strict=True)), first[:0]]),
    )


def supported_states(graph: FactorGraph) -> list[np.ndarray]:
    """Return bool[size] for each variable: its supported states."""
    possible = [np.ones(size, bool) for size in graph.size]
    # Only tables with zeros exclude states; others need no check.
    tables = [(scope, table) for scope, table in graph.tables if np.isneginf(table).any()]
    tables_of: list[list[int]] = [[] for _ in possible]
    for number, (scope, _) in enumerate(tables):
        for v in scope:
            tables_of[v].append(number)
    waiting = deque(range(len(tables)))
    is_waiting = np.ones(len(tables), bool)
    while waiting:
        number = waiting.popleft()
        is_waiting[number] = False
        scope, table = tables[number]
        inside = table > -np.inf
        for axis, v in enumerate(scope):
            inside = inside & possible[v].reshape(np.where(np.arange(len(scope)) == axis, -1, 1))
        for axis, v in enumerate(scope):
            found = np.asarray(inside.any(axis=tuple(a for a in range(len(scope)) if a != axis)))
            if found.sum() < possible[v].sum():
                possible[v] = found
                for other in tables_of[v]:
                    if not is_waiting[other] and other != number:
                        waiting.append(other)
                        is_waiting[other] = True
    return possible


def drop_constant_axes(
    scope: list[int], table: np.ndarray, tolerance: float = 0.0
) -> tuple[list[int], np.ndarray]:
    """Remove the axes along which a table does not change from it and its scope."""
    left = list(scope)
    for axis in range(len(scope) - 1, -1, -1):
        if np.allclose(table, table.take([0], axis), rtol=0.0, atol=tolerance):
            table = table.take(0, axis)
            del left[axis]
    return left, table
