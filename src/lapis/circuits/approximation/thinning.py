"""Another structure: the model without its weaker tables, compiled.

LearnAC sees dependence of pairs, in contexts; a parity of three variables it does not see, nor what
samples of a slowly mixing chain do not show. So the strongest tables (those whose entries differ
most) are kept, one after another, as long as elimination stays within the budget, and what they
make is compiled exactly. V then fits all tables on this structure, which is structured mean field
(Saul and Jordan 1996) without a substructure chosen by hand. A model that fits the budget is kept
whole, and V is exact. Which of the two structures is closer to the model, V's bound tells.
"""

from __future__ import annotations

import numpy as np

from lapis.circuits.circuit import Circuit
from lapis.circuits.compilation.compile import compile_factors
from lapis.circuits.factors.factor_graph import FactorGraph, graph_of_tables
from lapis.errors import TooLarge
from lapis.inference.exact.elimination_order import best_order
from lapis.network.csr import row_starts
from lapis.runtime.progress import Stop

EDGES_PER_ENTRY = 2.0
MAX_TRIALS = 600  # orders computed
MAX_VARIABLES = 2_000


def thin_structure(
    graph: FactorGraph, max_edges: int, seed: int, stop: Stop | None = None
) -> Circuit | None:
    """A compiled part of the model of at most `max_edges` edges; None if none was found."""
    if graph.num_variables > MAX_VARIABLES:
        return None
    max_entries = max_edges / EDGES_PER_ENTRY
    for _ in range(6):
        is_over = stop is not None and stop.is_over()  # then no part has two variables
        part = strongest_part(graph, max_entries, seed, stop)
        try:
            return compile_factors(part, max_edges, seed, None if is_over else stop).circuit
        except TooLarge:
            max_entries *= 0.6
    return None


def strongest_part(
    graph: FactorGraph, max_entries: float, seed: int, stop: Stop | None = None
) -> FactorGraph:
    """The model with as many of its tables, strongest first, as elimination allows."""
    size = graph.size
    strength = np.array([spread(graph.table(f)) for f in range(graph.num_factors)])
    order = np.argsort(-strength, kind="stable")
    scopes = [graph.variables_of(f) for f in range(graph.num_factors)]
    small = [f for f in order if len(scopes[f]) < 2]
    large = [f for f in order if len(scopes[f]) >= 2 and strength[f] > 0]

    def is_narrow(chosen: list[int]) -> bool:
        start = row_starts([len(scopes[f]) for f in chosen])
        members = np.concatenate([scopes[f] for f in chosen]).astype(np.int32)
        rng = np.random.default_rng(seed)
        return best_order(size, start, members, max_entries, rng).is_complete

    # The longest prefix by bisection, then one after another.
    low, high = 0, len(large)
    while low < high and not (stop and stop.is_over()):
        middle = (low + high + 1) // 2
        if is_narrow(large[:middle]):
            low = middle
        else:
            high = middle - 1
    chosen = large[:low]
    for place in range(low, min(len(large), low + MAX_TRIALS)):
        if stop is not None and stop.is_over():
            break
        if is_narrow([*chosen, large[place]]):
            chosen.append(large[place])
    tables = [(scopes[f].tolist(), graph.table(f)) for f in [*small, *chosen]]
    return graph_of_tables(graph.names, graph.states, tables)


def spread(table: np.ndarray) -> float:
    """How much the entries of a table differ; zeros count as e^-30."""
    floored = np.maximum(table, table.max(initial=-np.inf) - 30.0)
    return float(np.std(floored)) if table.size else 0.0
