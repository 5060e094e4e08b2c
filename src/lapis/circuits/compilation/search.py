"""Compilation by top-down search with component caching.

The search sets variables in a fixed order, the reverse of an elimination order. The rest of the
model is then a set of diagram nodes, which falls into components that share no variable. Each
component is compiled once:

    node(C) = Σ_s λ_{v=s} · θ · Π_{components D of C | v=s} node(D) · Π_{u dropped out} Σ_t λ_{u=t}

Here v is the first variable of C, θ the product of the tables that v = s turned into numbers, and u
are the variables that no table mentions any more. A branch in which a table became zero is dropped.

**Diagrams.** Tables are ordered decision diagrams in which equal sub-tables share a node (Bahar et
al., Algebraic Decision Diagrams and their Applications, 1997). A node decides the variable at one
position of the order and has a child for each state; a leaf is a number. A sub-table that does not
depend on a variable does not decide it. So the rest of a table after some variables are set is a
single node number.

**Cache.** The key of a component is the set of its diagram nodes. It merges all contexts that leave
the same tables, not only those with equal values, as in the AND/OR decision diagrams of Mateescu
and Dechter. Determinism, context-specific independence and equal parameters all shrink it. Along a
pseudo-tree order there are at most as many components as entries in the tables of elimination.

The whole state of the search is in arrays, so it runs in slices and can be stopped.
"""

from __future__ import annotations

import numpy as np

from lapis.circuits.circuit import PRODUCT, SUM
from lapis.circuits.compilation.gates import FULL, ZERO, Gates, add_constant, add_node
from lapis.circuits.compilation.numeric_elimination import elimination_times
from lapis.circuits.compilation.search_kernel import (
    DONE,
    LEAF,
    NUM_FIELDS,
    RUNNING,
    ComponentCache,
    Diagrams,
    NewDiagrams,
    SearchArrays,
    find_support,
    reduce_table,
    run_search,
    start_search,
)
from lapis.circuits.factor_graph import FactorGraph
from lapis.network.csr import row_starts
from lapis.runtime.progress import Progress, Report, Stop

SLICE = 2_000_000  # units of work between two checks of `stop`


def search_circuit(
    graph: FactorGraph,
    order: np.ndarray,
    gates: Gates,
    max_work: int,
    stop: Stop | None = None,
    progress: Report | None = None,
) -> int:
    """Compile with variables set in an order; return the root, FULL if a limit is met."""
    size = graph.size[order]
    num_positions = len(order)
    diagrams = build_diagrams(graph, elimination_times(order).astype(np.int32))
    first_state = row_starts(graph.size)[:-1][order]
    free = np.empty(num_positions, np.int32)
    for at in range(num_positions):
        states = np.arange(first_state[at], first_state[at] + size[at], dtype=np.int32)
        free[at] = add_node(gates, SUM, states)
    constant = float(
        diagrams.log_value[diagrams.root][diagrams.position[diagrams.root] == LEAF].sum()
    )
    if constant == -np.inf:
        return ZERO
    key = np.sort(diagrams.root[diagrams.position[diagrams.root] != LEAF])
    room = len(gates.kind)
    cache = ComponentCache(
        np.zeros(1 << int(np.ceil(np.log2(2 * room + 2))), np.int32),
        np.zeros(room + 1, np.int64),
        np.empty(8 * room, np.int32),
        np.empty(room, np.int32),
    )
    longest = num_positions * 2 + len(key) * 3 + int(size.max(initial=1)) + 16
    state = SearchArrays(
        size.astype(np.int32),
        first_state,
        free,
        np.zeros((num_positions + 2, NUM_FIELDS), np.int64),
        np.empty(min(longest * (num_positions + 2), 1 << 28), np.int32),
        np.full(num_positions, -1, np.int64),
        np.zeros(num_positions, np.int32),
        np.zeros(4, np.int64),
    )
    start_search(state, key)
    status = RUNNING
    for _ in range(0, max_work, SLICE):
        status = run_search(state, diagrams, cache, gates, SLICE)
        if status != RUNNING:
            break
        if progress is not None:
            progress(Progress("searching", int(state.counter[2]), text="components"))
        if stop is not None and stop.is_over():
            return FULL
    root = np.array([add_constant(gates, constant), state.work[0]], np.int32)
    return int(add_node(gates, PRODUCT, root)) if status == DONE else FULL


def build_diagrams(graph: FactorGraph, position: np.ndarray) -> Diagrams:
    """Return the diagrams of all tables; `position`, int32[num_variables], is the order."""
    room = 2 * len(graph.log_value) + 2
    number = np.zeros(1)
    nodes = NewDiagrams(
        np.empty(room, np.int32),
        np.zeros(room + 1, np.int64),
        np.empty(room, np.int32),
        np.zeros(room),
        np.zeros(1 << int(np.ceil(np.log2(2 * room))), np.int32),
        np.zeros(1, np.int64),
        number,
        number.view(np.uint64),
    )
    ids = np.empty(int(np.diff(graph.table_start).max(initial=0)), np.int32)
    roots = np.empty(graph.num_factors, np.int32)
    widest = 1
    for factor in range(graph.num_factors):
        scope, table = graph.variables_of(factor), graph.table(factor)
        by_position = np.argsort(position[scope])
        turned = np.ascontiguousarray(table.transpose(by_position))
        shape = np.array(turned.shape, np.int64)
        roots[factor] = reduce_table(
            nodes, turned.ravel(), shape, position[scope[by_position]], ids[: table.size]
        )
        widest = max(widest, len(scope))
    count = int(nodes.made[0])
    start = np.zeros(count + 1, np.int64)
    support = np.empty(count * widest, np.int32)
    find_support(nodes, start, support, np.full(len(position), -1, np.int64))
    edges = int(nodes.child_start[count])
    return Diagrams(
        nodes.position[:count].copy(),
        nodes.child_start[: count + 1].copy(),
        nodes.child[:edges].copy(),
        nodes.log_value[:count].copy(),
        start,
        support[: start[-1]].copy(),
        roots,
    )
