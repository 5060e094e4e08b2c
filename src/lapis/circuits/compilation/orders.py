"""Elimination orders of factor graphs, by the searches that exact inference uses."""

from __future__ import annotations

import numpy as np

from lapis.circuits.factors.factor_graph import FactorGraph
from lapis.inference.exact.elimination_order import Order, best_order, low_degree_order
from lapis.inference.exact.junction_tree import build_tree
from lapis.network.cubes import Cubes
from lapis.runtime.progress import Stop

MAX_SEARCHED = 4_000  # variables; a larger graph gets the order of degree alone
SPARSE_SCOPE = 24
SEARCHED, MAX_SEARCHES = 1e3, 12  # an order of more entries is looked for again


def elimination_order(
    graph: FactorGraph, max_entries: float, seed: int, num_searches: int = MAX_SEARCHES
) -> Order:
    """A cheap order; not complete if its tables would pass `max_entries`."""
    size = graph.size
    if len(size) <= MAX_SEARCHED:
        return repeated_order(graph, max_entries, seed, num_searches)
    none = np.empty(0, np.int32)
    factors = np.flatnonzero(np.diff(graph.scope_start) > 0)
    start = np.concatenate((graph.scope_start[factors], graph.scope_start[-1:]))
    cubes = Cubes(size, start, graph.scope, np.zeros(1, np.int64), none, factors.astype(np.int32))
    everything = np.ones(len(size), bool)
    order = low_degree_order(cubes, everything, SPARSE_SCOPE, max_entries)
    tree = build_tree(cubes, order)
    entries, width = float(tree.table_start[-1]), int(np.diff(tree.scope_start).max(initial=0))
    if len(order) < len(size):
        return Order(none, max(entries, 2.0**SPARSE_SCOPE), SPARSE_SCOPE, False)
    return Order(order, entries, width, entries <= max_entries)


def repeated_order(
    graph: FactorGraph,
    max_entries: float,
    seed: int,
    num_searches: int = MAX_SEARCHES,
    stop: Stop | None = None,
) -> Order:
    """The cheapest of several searches: a compiled order is used often, ties are many."""
    best = None
    for number in range(num_searches):
        limit = max_entries if best is None else best.entries
        rng = np.random.default_rng([seed, number])
        found = best_order(graph.size, graph.scope_start, graph.scope, limit, rng, stop)
        if best is None or found.is_complete:
            best = found
        if not best.is_complete or best.entries < SEARCHED:
            break
    assert best is not None
    return best


def times_of(order: np.ndarray) -> np.ndarray:
    """int64[num_variables], when each is eliminated."""
    time = np.empty(len(order), np.int64)
    time[order] = np.arange(len(order))
    return time
