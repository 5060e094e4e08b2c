"""All marginals of a product of tables, without a circuit.

A circuit keeps a node for every entry of elimination's tables, some forty bytes, because it is
asked again and again. Who asks once needs the numbers only: the junction trees of exact inference,
eight bytes an entry, up and down once. Networks whose circuits would fill a machine (link, munin1)
are answered in seconds. States that are impossible are left out beforehand.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.circuits.compilation.compile import MARGINAL_ENTRIES, impossible
from lapis.circuits.compilation.orders import elimination_order
from lapis.circuits.compilation.partition import too_wide
from lapis.circuits.factors.consistency import make_consistent
from lapis.circuits.factors.factor_graph import FactorGraph, entry_cubes
from lapis.inference.exact.junction_tree import build_tree, collect, distribute
from lapis.runtime.progress import Stop


class FoundMarginals(NamedTuple):
    log_partition: float
    state: np.ndarray  # float64[num_states], the probability of each state of each variable
    entries: float  # of all tables
    width: int  # variables in the largest of them, less one


def find_marginals(graph: FactorGraph, seed: int = 0, stop: Stop | None = None) -> FoundMarginals:
    """log Z and every P(x_v = s); TooLarge if the tables pass `MARGINAL_ENTRIES`."""
    consistent = make_consistent(graph)
    if consistent is None:
        raise impossible()
    small = consistent.graph
    order = elimination_order(small, MARGINAL_ENTRIES, seed)
    if not order.is_complete:
        raise too_wide(order, 8.0 * order.entries)
    cubes, log_value = entry_cubes(small)
    tree = build_tree(cubes, order.variable)
    potentials = collect(tree, cubes, log_value, stop=stop)
    roots = potentials.root_values(tree)[1]
    if (roots == -np.inf).any():
        raise impossible()
    constants = small.log_value[small.table_start[:-1][np.diff(small.scope_start) == 0]]
    state = np.zeros(int(graph.size.sum()))
    found = distribute(tree, cubes, potentials, overwrite=True, stop=stop)
    state[consistent.state] = np.clip(found.state, 0.0, 1.0)
    return FoundMarginals(float(roots.sum() + constants.sum()), state, order.entries, order.width)
