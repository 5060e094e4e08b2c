"""Which circuit: LearnAC on samples of the model, with an edge cost that shrinks (AC², step 1).

The search starts with a cost that allows only splits worth many edges; each time no split is left
that pays, the cost is halved, as long as more than a hundredth of the budget is left. The paper
ends at the first split that would overshoot; a smaller one may still fit, so such a split is
crossed out and the search goes on, up to `MAX_OVERSHOOTS` times. Splits are allowed on neighbours
in the model only: on hepar2 that is closer than all splits, with fewer edges.
"""

from __future__ import annotations

import numpy as np

from lapis.circuits.circuit import Circuit
from lapis.circuits.factors.factor_graph import FactorGraph
from lapis.circuits.learning.candidates import NEVER, refresh_best
from lapis.circuits.learning.learn import Search
from lapis.runtime.progress import Progress, Report, Stop

REST = 0.01  # of the budget, that need not be spent
FIRST_COST = 0.02  # of an edge, for each sample
LAST_COST = 1e-3
MAX_OVERSHOOTS = 30


def learn_structure(
    rows: np.ndarray,
    graph: FactorGraph,
    max_edges: int,
    stop: Stop | None = None,
    progress: Report | None = None,
) -> Circuit:
    """A circuit of at most `max_edges` edges that explains rows of states, with its parameters."""
    search = Search(
        rows, graph.names, graph.states, max(1.0, FIRST_COST * len(rows)), 0.0, 1.0,
        neighbours(graph),
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
    circuit = search.finish(0.0, converged=False).circuit
    assert circuit is not None
    return circuit


def lower_cost(search: Search) -> None:
    """Halve the cost of an edge; every candidate is looked at again."""
    search.edge_cost *= 0.5
    candidates = search.candidates
    candidates.bound[:] = candidates.gain
    candidates.priced[:] = 0
    is_open = candidates.first >= 0
    is_open[len(search.variable) :] = False
    candidates.best[is_open] = candidates.bound[is_open].max(axis=1)


def neighbours(graph: FactorGraph) -> np.ndarray:
    """bool[num_variables, num_variables], who shares a table."""
    shared = np.zeros((graph.num_variables, graph.num_variables), bool)
    for factor in range(graph.num_factors):
        scope = graph.variables_of(factor)
        shared[np.ix_(scope, scope)] = True
    return shared
