"""Compile a factor graph to a circuit that computes exactly its product: the smaller of two.

Impossible states are removed first (`factor_graph.py`). Elimination is tried first, if its tables
fit. Search then has to find a smaller circuit; it ends as soon as it cannot, or after work in
proportion to the tables. (Search examines the rest of the model with each value it sets, so on long
chains it takes ten times as long for the same circuit.) If no order is narrow enough, search is
tried alone: determinism can make the circuit of a model of any width small.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lapis.circuits.circuit import INDICATOR, PARAMETER, PRODUCT, Circuit, Properties, new_circuit
from lapis.circuits.compilation.gates import FULL, ONE, ZERO, Gates, new_gates
from lapis.circuits.compilation.numeric_elimination import eliminate, find_elimination_order
from lapis.circuits.compilation.search import search_circuit
from lapis.circuits.factor_graph import FactorGraph, make_consistent
from lapis.errors import LapisError, TooLarge
from lapis.inference.exact.elimination_order import EliminationOrder
from lapis.runtime.kernels import entry
from lapis.runtime.progress import Progress, Report, Stop

MAX_EDGES = 1 << 26
MARGINAL_ENTRIES = 3e8  # of elimination's tables, for marginals without a circuit
ROOM = 1 << 20  # edges of the first search where elimination did not fit
WORK_PER_ENTRY = 30  # of search, for each entry of elimination's tables
LEAST_WORK, MOST_WORK = 400_000_000, 800_000_000
ALONE_WORK = 2_000_000_000


class Compiled(NamedTuple):
    circuit: Circuit
    method: str  # elimination or search
    entries: float  # of the tables of the best order found
    width: int  # variables in the largest of them, less one


class CompiledGates(NamedTuple):
    """A compiled model before its nodes are gathered."""

    num_edges: int
    method: str
    gates: Gates
    root: int


def compile_factors(
    graph: FactorGraph,
    max_edges: int = MAX_EDGES,
    seed: int = 0,
    stop: Stop | None = None,
    progress: Report | None = None,
) -> Compiled:
    """Return the smallest circuit found; TooLarge if none has at most `max_edges` edges."""
    consistent = make_consistent(graph)
    if consistent is None:
        raise no_possible_state()
    small = consistent.graph
    order = find_elimination_order(small, 4.0 * max_edges, seed)
    found = []
    if order.is_complete:
        if progress is not None:
            progress(Progress("compiling", 0, text=f"{order.entries:.3g} entries of tables"))
        room = int(min(2.5 * order.entries, 2 * max_edges)) + 64
        gates = new_gates(int(small.size.sum()), room + len(small.states), 4 * room)
        found += list_candidate("elimination", gates, eliminate(small, order.variable, gates))
    limits = search_limits(found, order.entries, max_edges)
    found += compile_by_search(small, order, limits, stop, progress)
    fitting = [one for one in found if one.num_edges <= max_edges]
    if not fitting:
        if not order.is_complete:  # its entries are a poor estimate of the need
            entries = max(MARGINAL_ENTRIES, 4.0 * max_edges)
            order = find_elimination_order(small, entries, seed, 1)
        raise too_large(order, max_edges)
    best = min(fitting, key=lambda one: one.num_edges)
    circuit = gates_to_circuit(small, best.gates, best.root)
    circuit = restore_states(circuit, graph, consistent.state)
    return Compiled(circuit, best.method, order.entries, order.width)


def list_candidate(method: str, gates: Gates, root: int) -> list[CompiledGates]:
    """Return the compiled model in a list; an empty list if there was no room."""
    if root == ZERO:
        raise no_possible_state()
    return (
        [] if root == FULL else [CompiledGates(count_gate_edges(gates, root), method, gates, root)]
    )


def compile_by_search(
    graph: FactorGraph,
    order: EliminationOrder,
    limits: list[tuple[int, int]],
    stop: Stop | None,
    progress: Report | None,
) -> list[CompiledGates]:
    """Search with growing limits of edges and work until one suffices."""
    for room, work in limits:
        gates = new_gates(int(graph.size.sum()), room, 2 * room)
        reverse = order.variable[::-1] if order.is_complete else decision_order(graph)
        root = search_circuit(graph, reverse, gates, work, stop, progress)
        if root != FULL:
            return list_candidate("search", gates, root)
    return []


def search_limits(
    found: list[CompiledGates], entries: float, max_edges: int
) -> list[tuple[int, int]]:
    """Return the limits of edges and work for search, in turn."""
    if found:
        work = min(max(LEAST_WORK, WORK_PER_ENTRY * int(entries)), MOST_WORK)
        return [(found[0].num_edges + 64, work)]
    limits = []
    room = min(ROOM, max_edges)
    while room < max_edges:
        limits.append((room, ALONE_WORK))
        room *= 16
    return [*limits, (max_edges, ALONE_WORK)]


def decision_order(graph: FactorGraph) -> np.ndarray:
    """Return an order for setting variables if no elimination order fits."""
    order = find_elimination_order(graph, np.inf, 0, 1)
    return order.variable[::-1] if order.is_complete else np.arange(graph.num_variables)


def count_gate_edges(gates: Gates, root: int) -> int:
    """Count the edges below a root."""
    return 0 if root == ONE else int(_mark(gates, np.zeros(root + 1, np.bool_), root))


def gates_to_circuit(graph: FactorGraph, gates: Gates, root: int) -> Circuit:
    """Return the nodes below a root as a circuit."""
    if root == ONE:  # the empty product
        nothing = np.empty(0)
        return new_circuit(
            graph.names, graph.states, np.array([PRODUCT]), np.array([-1]), np.zeros(2), nothing,
            nothing, Properties(True, True, True),
        )  # fmt: skip
    used = np.zeros(root + 1, np.bool_)
    num_edges = int(_mark(gates, used, root))
    kept = np.flatnonzero(used)
    start = np.empty(len(kept) + 1, np.int64)
    child = np.empty(num_edges, np.int32)
    number = np.cumsum(used, dtype=np.int32) - np.int32(1)
    _copy(gates, kept, number, start, child)
    kind = gates.kind[kept]
    leaf = np.full(len(kept), -1, np.int32)
    is_state = kept < graph.size.sum()
    leaf[is_state] = kept[is_state]
    constants = np.flatnonzero(kind == PARAMETER)
    leaf[constants] = np.arange(len(constants))
    return new_circuit(
        graph.names, graph.states, kind, leaf, start, child, gates.log_value[kept[constants]],
        Properties(True, True, True),
    )  # fmt: skip


def restore_states(circuit: Circuit, graph: FactorGraph, state: np.ndarray) -> Circuit:
    """Renumber the states of a circuit over possible states to those of the model."""
    is_indicator = circuit.kind == INDICATOR
    leaf = circuit.leaf.copy()
    leaf[is_indicator] = state[leaf[is_indicator]]
    return replace(circuit, states=graph.states, leaf=leaf)


def no_possible_state() -> LapisError:
    """Return the error of a model without a possible state."""
    return LapisError(
        "the model has no possible state: every product of its tables is 0",
        code="unsatisfiable",
        hint="hard formulas or evidence contradict each other",
    )


def too_large(order: EliminationOrder, max_edges: int) -> TooLarge:
    """Return the error of a model without a small enough circuit."""
    more = "" if order.is_complete else " or more"
    fits = order.is_complete and order.entries <= MARGINAL_ENTRIES
    other = "circuit marginals (exact, no circuit)" if fits else "circuit approximate"
    return TooLarge(
        f"no circuit of at most {max_edges:,} edges was found: elimination would join "
        f"{order.width + 1} variables in a table and need {order.entries:.1e} entries{more}",
        code="circuit-too-large",
        hint=f"give evidence, raise max_edges, or use {other}",
    )


@entry
def _mark(gates, used, root):  # type: ignore[no-untyped-def]
    """Mark the nodes below the root; return the number of their edges."""
    num_edges = 0
    used[root] = True
    for node in range(root, -1, -1):
        if used[node]:
            for at in range(gates.child_start[node], gates.child_start[node + 1]):
                used[gates.child[at]] = True
                num_edges += 1
    return num_edges


@entry
def _copy(gates, kept, number, start, child):  # type: ignore[no-untyped-def]
    """Copy the children of the kept nodes, renumbered."""
    start[0] = 0
    for place in range(len(kept)):
        end = start[place]
        for at in range(gates.child_start[kept[place]], gates.child_start[kept[place] + 1]):
            child[end] = number[gates.child[at]]
            end += 1
        start[place + 1] = end
