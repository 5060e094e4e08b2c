"""Compile a network with decision trees to a circuit: the smaller of two.

- *splits*: SplitAC (`learning/split_kernel.py`) makes the splits of all trees, from a product of
  marginals, in the order in which they were learned. It uses the contexts of trees and needs no
  tables of whole families. The size depends on the order: the network of a circuit of 38,555 edges
  (kdd, quick) gives 785,402 edges level by level, and more than three million with the cheapest
  split first or tree by tree.
- *elimination* or *search*: trees become tables for the compiler of factor graphs
  (`compilation/compile.py`), if no family has more than `MAX_TABLE` entries.
"""

from __future__ import annotations

import heapq
import math
from typing import NamedTuple

import numpy as np

from lapis.circuits.circuit import Circuit
from lapis.circuits.compilation.compile_model import MAX_EDGES, compile_factors
from lapis.circuits.factor_graph import FactorGraph, graph_of_tables, parents_first
from lapis.circuits.learning.split_kernel import (
    NO_LIMIT,
    edge_cost,
    new_layout,
    new_split_walk,
    product_of_marginals,
    split_circuit,
)
from lapis.circuits.learning.split_search import finish_circuit
from lapis.circuits.tree_networks.tree_network import TreeNetwork
from lapis.errors import LapisError, TooLarge
from lapis.runtime.progress import Progress, Report, Stop

MAX_TABLE = 1 << 16  # entries of the table of a family


class CompiledNetwork(NamedTuple):
    circuit: Circuit
    method: str  # splits, elimination or search


def compile_network(
    network: TreeNetwork,
    max_edges: int = MAX_EDGES,
    seed: int = 0,
    stop: Stop | None = None,
    progress: Report | None = None,
) -> CompiledNetwork:
    """Return the smallest circuit found; TooLarge if none has at most `max_edges` edges."""
    stop = stop or Stop()
    found: list[CompiledNetwork] = []
    by_splits, reached, num_made = compile_splits(network, max_edges, stop, progress)
    if by_splits is not None:
        found.append(CompiledNetwork(by_splits, "splits"))
    if max(map(float, family_sizes(network))) <= MAX_TABLE and not stop.is_over():
        limit = min(max_edges, by_splits.num_edges) if by_splits is not None else max_edges
        try:
            compiled = compile_factors(tables_of(network), limit, seed, stop, progress)
            found.append(CompiledNetwork(compiled.circuit, compiled.method))
        except TooLarge:
            pass
    if not found:
        num_splits = int((network.split_on >= 0).sum())
        raise TooLarge(
            f"no circuit of at most {max_edges:,} edges was found: {num_made:,} of {num_splits:,} "
            f"splits fit, the next gives {reached:,} edges; treewidth at most "
            f"{network.treewidth()}",
            code="circuit-too-large",
            hint="give evidence, raise max_edges, query the network by Gibbs sampling, or learn "
            "with an edge cost above 0",
        )
    return min(found, key=lambda one: one.circuit.num_edges)


def compile_splits(
    network: TreeNetwork, max_edges: int, stop: Stop, progress: Report | None = None
) -> tuple[Circuit | None, int, int]:
    """Make all splits; return the circuit or None, the edges reached, and the splits made."""
    layout = new_layout(network.states)
    size = layout.size
    num_variables = len(size)
    first = np.full(len(network.variable), -1, np.int64)
    first[:num_variables] = layout.first
    num_parameters = int(size.sum())
    graph = product_of_marginals(layout, first[:num_variables])
    walk = new_split_walk(2 * len(graph.kind))
    total = int((network.split_on >= 0).sum())
    roots = range(num_variables)
    waiting = [(int(network.first_child[v]), v) for v in roots if network.split_on[v] >= 0]
    heapq.heapify(waiting)
    num_made = 0
    while waiting:
        if stop.is_over():
            return None, len(graph.child), num_made
        _, node = heapq.heappop(waiting)
        own, on = network.variable[node], network.split_on[node]
        if len(walk.kept) < len(graph.kind):
            walk = new_split_walk(2 * len(graph.kind))
        cost = int(edge_cost(graph, layout, walk, first[node], np.int64(size[own]), on, NO_LIMIT))
        if len(graph.child) + cost > max_edges:
            return None, len(graph.child) + cost, num_made
        graph = split_circuit(graph, layout, walk, first[node], size[own], on, num_parameters)
        for state in range(size[on]):
            child = int(network.first_child[node]) + state
            first[child] = num_parameters
            num_parameters += int(size[own])
            if network.split_on[child] >= 0:
                heapq.heappush(waiting, (int(network.first_child[child]), child))
        num_made += 1
        if progress is not None:
            figures = {"edges": float(len(graph.child))}
            progress(Progress("compiling", num_made, total, figures=figures))
    return finish_circuit(graph, network, first, num_parameters), len(graph.child), num_made


def family_sizes(network: TreeNetwork) -> list[int]:
    """Return the number of entries of the table of each variable and its parents."""
    sizes = [len(states) for states in network.states]
    families = enumerate(network.parents())
    return [sizes[own] * math.prod(sizes[p] for p in parents) for own, parents in families]


def tables_of(network: TreeNetwork) -> FactorGraph:
    """Return the network with a table for each tree; TooLarge beyond `MAX_TABLE` entries."""
    largest = max(family_sizes(network))
    if largest > MAX_TABLE:
        raise TooLarge(
            f"the table of a variable and its parents would have {largest:.1e} entries, "
            f"more than {MAX_TABLE:,}",
            code="circuit-too-large",
            hint="`lapis circuit compile` and `circuit query` take the trees as they are",
        )
    tables = []
    for own, parents in enumerate(network.parents()):
        scope = [*sorted(parents), own]
        axis = {v: place for place, v in enumerate(scope)}
        table = np.empty([len(network.states[v]) for v in scope])
        stack: list[tuple[int, tuple[slice | int, ...]]] = [(own, (slice(None),) * len(scope))]
        while stack:
            node, place = stack.pop()
            parent = int(network.split_on[node])
            if parent < 0:
                at = int(network.first_parameter[node])
                table[place] = network.log_parameter[at : at + table.shape[-1]]
                continue
            for state in range(len(network.states[parent])):
                cut = (*place[: axis[parent]], state, *place[axis[parent] + 1 :])
                stack.append((int(network.first_child[node]) + state, cut))
        tables.append((scope, table))
    children = range(len(network.names))
    found = parents_first(graph_of_tables(network.names, network.states, tables, children))
    if found is None:
        raise LapisError("the parents form a cycle", code="tbn-syntax")
    return found
