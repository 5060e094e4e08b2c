"""States that no world of positive product has, and axes that a table does not depend on.

A state of a variable is supported by a table if some entry of that state is possible together with
supported states of the others. Whatever is not supported by all tables of its variable is dropped,
until nothing changes: generalised arc consistency (Mackworth 1977). Evidence on a pedigree or a
circuit of gates decides most variables in this way, and orders of elimination then see how narrow
the rest is. What a table says the same of for all states of a variable is no part of its scope.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from lapis.circuits.factors.factor_graph import FactorGraph, graph_of_tables
from lapis.network.csr import row_starts


class Consistent(NamedTuple):
    graph: FactorGraph  # the same variables and product, with fewer states
    state: np.ndarray  # int64[num_states], the number that each state left has in the original


def make_consistent(graph: FactorGraph) -> Consistent | None:
    """The model over supported states; None if a variable has none left."""
    possible = supported_states(graph)
    constants = graph.log_value[graph.table_start[:-1][np.diff(graph.scope_start) == 0]]
    if (constants == -np.inf).any() or not all(states.any() for states in possible):
        return None
    kept = [np.flatnonzero(states) for states in possible]
    tables = []
    for factor in range(graph.num_factors):
        scope = graph.variables_of(factor).tolist()
        tables.append(without_idle(scope, graph.table(factor)[np.ix_(*(kept[v] for v in scope))]))
    states = [
        [names[at] for at in places] for names, places in zip(graph.states, kept, strict=True)
    ]
    first = row_starts(graph.size)[:-1]
    return Consistent(
        graph_of_tables(graph.names, states, tables),
        np.concatenate([*(start + at for start, at in zip(first, kept, strict=True)), first[:0]]),
    )


def supported_states(graph: FactorGraph) -> list[np.ndarray]:
    """bool[size] of each variable."""
    possible = [np.ones(size, bool) for size in graph.size]
    scopes = [graph.variables_of(factor).tolist() for factor in range(graph.num_factors)]
    factors_of: list[list[int]] = [[] for _ in possible]
    for factor, scope in enumerate(scopes):
        for v in scope:
            factors_of[v].append(factor)
    begin = graph.table_start
    waiting = deque(
        factor
        for factor in range(graph.num_factors)
        if np.isneginf(graph.log_value[begin[factor] : begin[factor + 1]]).any()
    )
    is_waiting = np.zeros(graph.num_factors, bool)
    is_waiting[list(waiting)] = True
    has_zeros = is_waiting.copy()
    while waiting:
        factor = waiting.popleft()
        is_waiting[factor] = False
        scope = scopes[factor]
        inside = graph.table(factor) > -np.inf
        for axis, v in enumerate(scope):
            if not possible[v].all():
                shape = np.where(np.arange(len(scope)) == axis, -1, 1)
                inside = inside & possible[v].reshape(shape)
        for axis, v in enumerate(scope):
            others = tuple(a for a in range(len(scope)) if a != axis)
            found = np.asarray(inside.any(axis=others))
            if found.sum() < possible[v].sum():
                possible[v] = found
                for other in factors_of[v]:
                    if has_zeros[other] and not is_waiting[other] and other != factor:
                        waiting.append(other)
                        is_waiting[other] = True
    return possible


def without_idle(
    scope: list[int], table: np.ndarray, tolerance: float = 0.0
) -> tuple[list[int], np.ndarray]:
    """A table and its scope without the axes along which it does not change."""
    left = list(scope)
    for axis in range(len(scope) - 1, -1, -1):
        if np.allclose(table, table.take([0], axis), rtol=0.0, atol=tolerance):
            table = table.take(0, axis)
            del left[axis]
    return left, table
