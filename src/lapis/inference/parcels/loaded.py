"""A network that was ground here, in tables of a store."""

from __future__ import annotations

import numpy as np

from lapis.grounding.bottom_up import ground
from lapis.grounding.stored.session import GroundTables, Listing
from lapis.inference.parcels.rows import write_columns
from lapis.network.network import Network
from lapis.problem.problem import Problem
from lapis.progress import Report
from lapis.relational.engines.store import Store

WIDTH = 8  # literals of a piece at most


def load_network(
    problem: Problem, store: Store, *, max_memory: int | None, progress: Report | None
) -> GroundTables:
    """Ground here what cannot be ground there, and load it."""
    network = ground(problem, max_memory=max_memory, progress=progress)
    width = int(min(WIDTH, np.diff(network.clause_start).max(initial=1)))
    rows = store.load("rows", write_columns(network, width))
    _, first = np.unique(network.component, return_index=True)
    numbers = np.arange(network.num_atoms)
    labels = store.load("labels", {"vertex": numbers, "component": first[network.component]})
    unknown = list_atoms(network, store)
    return GroundTables((rows,), width, unknown, network.constant_count, labels)


def list_atoms(network: Network, store: Store) -> dict[str, Listing]:
    found: dict[str, Listing] = {}
    offset = network.atoms.offset
    for place, name in enumerate(network.atoms.predicates):
        first, last = int(offset[place]), int(offset[place + 1])
        if first >= network.num_base_atoms:
            continue
        tuples = network.atoms.tuples[place]
        columns = {f"c{i}": column for i, column in enumerate(tuples.T)}
        columns |= {"atom": np.arange(first, last)}
        table = store.load(f"atoms {place}", columns)
        found[name] = Listing(f"SELECT * FROM {table}", table.rows, range(first, last))
    return found
