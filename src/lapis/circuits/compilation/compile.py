"""A factor graph as a circuit that computes exactly its product: the smaller of two.

States that are impossible are left out beforehand (`factor_graph.py`). Elimination goes
first, where its tables fit; search then has to beat it, and is given up as soon as it cannot, or
after work in proportion to the tables (it looks at all that is left of a model with each value it
sets, so on long chains it takes ten times as long for the same circuit). Where no order is narrow
enough search is tried alone: determinism can make the circuit of a model of any width small.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lapis.circuits.circuit import INDICATOR, PARAMETER, PRODUCT, Circuit, Properties, new_circuit
from lapis.circuits.compilation.elimination import eliminate, find_elimination_order
from lapis.circuits.compilation.gates import FULL, ONE, ZERO, Gates, new_gates
from lapis.circuits.compilation.search import search_circuit
from lapis.circuits.factor_graph import FactorGraph, make_consistent
from lapis.errors import LapisError, TooLarge
from lapis.inference.exact.elimination_order import EliminationOrder
from lapis.runtime.kernels import entry
from lapis.runtime.progress import Progress, Report, Stop

MAX_EDGES = 1 << 26
MARGINAL_ENTRIES = 3e8  # of elimination's tables, within which marginals are found in numbers
ROOM = 1 << 20  # edges, to begin with, where elimination says nothing
WORK_PER_ENTRY = 30  # of search, for each entry of elimination's tables
LEAST_WORK, MOST_WORK = 400_000_000, 800_000_000
ALONE_WORK = 2_000_000_000


class Compiled(NamedTuple):
    circuit: Circuit
    method: str  # elimination or search
    entries: float  # of the tables of the best order found
    width: int  # variables in the largest of them, less one


def compile_factors(
    graph: FactorGraph,
    max_edges: int = MAX_EDGES,
    seed: int = 0,
    stop: Stop | None = None,
    progress: Report | None = None,
) -> Compiled:
    """The smallest circuit found; TooLarge if none has at most `max_edges` edges."""
    consistent = make_consistent(graph)
    if consistent is None:
        raise no_possible_state()
    small = consistent.graph
    order = find_elimination_order(small, 4.0 * max_edges, seed)
    found: list[tuple[int, str, Gates, int]] = []
    num_states = int(small.size.sum())
    if order.is_complete:
        if progress is not None:
            progress(Progress("compiling", 0, text=f"{order.entries:.3g} entries of tables"))
        room = int(min(2.5 * order.entries, 2 * max_edges)) + 64
        gates = new_gates(num_states, room + len(small.states), 4 * room)
        root = eliminate(small, order.variable, gates)
        if root == ZERO:
            raise no_possible_state()
        if root != FULL:
            found.append((count_gate_edges(gates, root), "elimination", gates, root))
    for limit, work in search_limits(found, order.entries, max_edges):
        gates = new_gates(num_states, limit, 2 * limit)
        turned = order.variable[::-1] if order.is_complete else decision_order(small)
        root = search_circuit(small, turned, gates, work, stop, progress)
        if root == ZERO:
            raise no_possible_state()
        if root != FULL:
            found.append((count_gate_edges(gates, root), "search", gates, root))
            break
    fitting = [one for one in found if one[0] <= max_edges]
    if not fitting:
        if not order.is_complete:  # an order that was given up says little of what is needed
            order = find_elimination_order(small, max(MARGINAL_ENTRIES, 4.0 * max_edges), seed, 1)
        raise too_large(order, max_edges)
    _, method, gates, root = min(fitting, key=lambda one: one[0])
    circuit = restore_states(gates_to_circuit(small, gates, root), graph, consistent.state)
    return Compiled(circuit, method, order.entries, order.width)


def search_limits(
    found: list[tuple[int, str, Gates, int]], entries: float, max_edges: int
) -> list[tuple[int, int]]:
    """Edges and work that search is given, in turn."""
    if found:
        work = min(max(LEAST_WORK, WORK_PER_ENTRY * int(entries)), MOST_WORK)
        return [(found[0][0] + 64, work)]
    limits = []
    room = min(ROOM, max_edges)
    while room < max_edges:
        limits.append((room, ALONE_WORK))
        room *= 16
    return [*limits, (max_edges, ALONE_WORK)]


def decision_order(graph: FactorGraph) -> np.ndarray:
    """An order to set variables in where elimination has none that fits."""
    order = find_elimination_order(graph, np.inf, 0, 1)
    return order.variable[::-1] if order.is_complete else np.arange(graph.num_variables)


def count_gate_edges(gates: Gates, root: int) -> int:
    """The edges below a root."""
    return 0 if root == ONE else int(_mark(gates, np.zeros(root + 1, np.bool_), root))


def gates_to_circuit(graph: FactorGraph, gates: Gates, root: int) -> Circuit:
    """The nodes below a root as a circuit."""
    if root == ONE:  # nothing to sum: the empty product
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
    """The circuit over all states of a model, from one over some of them with these numbers."""
    is_indicator = circuit.kind == INDICATOR
    leaf = circuit.leaf.copy()
    leaf[is_indicator] = state[leaf[is_indicator]]
    return replace(circuit, states=graph.states, leaf=leaf)


def no_possible_state() -> LapisError:
    return LapisError(
        "the model has no possible state: every product of its tables is 0",
        code="unsatisfiable",
        hint="contradicting hard formulas or evidence do that",
    )


def too_large(order: EliminationOrder, max_edges: int) -> TooLarge:
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
    """Mark what is below the root; how many edges that has."""
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
    start[0] = 0
    for place in range(len(kept)):
        end = start[place]
        for at in range(gates.child_start[kept[place]], gates.child_start[kept[place] + 1]):
            child[end] = number[gates.child[at]]
            end += 1
        start[place + 1] = end
