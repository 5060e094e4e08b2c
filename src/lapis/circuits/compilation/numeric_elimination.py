"""Compilation by variable elimination.

Chavira and Darwiche, Compiling Bayesian Networks Using Variable Elimination (IJCAI 2007). The
elimination of a variable v multiplies the tables that contain v and sums v out. With nodes of a
circuit in place of numbers, an entry of the message over the neighbours S is

    m(S) = Σ_s  λ_{v=s} · θ(s, S) · Π_messages m'(s, S)

The trace of the computation is the circuit. The children of a sum have different λ of v
(deterministic), products join messages over different variables (decomposable), and every nonzero
entry mentions all variables eliminated below it (smooth).

The authors keep tables as algebraic decision diagrams. Ours are dense arrays of node numbers whose
equal entries share a node (`gates.py`). The circuit is the same, and a pass over an array costs a
few nanoseconds an entry. Where diagrams would be far smaller than tables, `search.py` is the better
compiler. All tables of the model that meet at v are multiplied first and become one constant, so an
entry costs at most 2 + (number of messages) edges.

Elimination orders are found by the searches of exact inference.
"""

from __future__ import annotations

import numpy as np

from lapis.circuits.circuit import PRODUCT, SUM
from lapis.circuits.compilation.gates import (
    FULL,
    ZERO,
    Gates,
    add_constant,
    add_node,
    make_constant,
    make_node,
)
from lapis.circuits.factor_graph import FactorGraph
from lapis.inference.exact.elimination_order import EliminationOrder, best_order, low_degree_order
from lapis.inference.exact.junction_tree import build_tree
from lapis.network.csr import row_starts
from lapis.network.cubes import Cubes
from lapis.runtime.kernels import entry, inner
from lapis.runtime.progress import Stop


def eliminate(graph: FactorGraph, order: np.ndarray, gates: Gates) -> int:
    """Eliminate all variables in an order; return the root, FULL if there is no room."""
    size = graph.size
    state_start = row_starts(size)
    time = elimination_times(order)
    # Tables and messages, by the variable of their scope that is eliminated first.
    tables: list[list[int]] = [[] for _ in order]
    messages: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in order]
    log_constant = 0.0
    for factor in range(graph.num_factors):
        scope = graph.variables_of(factor)
        if len(scope):
            tables[time[scope].min()].append(factor)
        else:
            log_constant += float(graph.table(factor))
    roots = [add_constant(gates, log_constant)]
    for step, v in enumerate(order.tolist()):
        own = [(graph.variables_of(f), graph.table(f)) for f in tables[step]]
        scopes = [scope for scope, _ in own] + [scope for scope, _ in messages[step]]
        members = np.unique(np.concatenate([np.array([v]), *scopes]))
        rest = members[members != v]
        rest = rest[np.argsort(-time[rest])]
        axes = np.concatenate((rest, [v])).astype(np.int32)
        shape = size[axes]
        log_table = np.zeros(1)
        for scope, table in own:
            log_table = log_table + align_axes(scope, table, axes)
        strides = [axis_strides(scope, axes, size) for scope, _ in messages[step]]
        message = np.empty(int(np.prod(shape[:-1], dtype=np.int64)), np.int32)
        full = fill_message(
            gates,
            np.ascontiguousarray(np.broadcast_to(log_table, shape)).ravel(),
            shape.astype(np.int64),
            int(state_start[v]),
            np.array(strides, np.int64).reshape(len(strides), len(axes)),
            row_starts([len(m) for _, m in messages[step]])[:-1],
            np.concatenate([m for _, m in messages[step]] or [np.empty(0, np.int32)]),
            message,
            np.zeros(len(axes), np.int64),
            np.empty(len(strides) + 2 + int(shape[-1]), np.int32),
        )
        messages[step] = []
        if full:
            return FULL
        if len(rest):
            messages[int(time[rest].min())].append((rest, message))
        else:
            roots.append(int(message[0]))
    return int(add_node(gates, PRODUCT, np.array(roots, np.int32)))


def align_axes(scope: np.ndarray, table: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """Transpose a table to the order of `axes`, with axes of length 1 for the others."""
    place = {int(v): at for at, v in enumerate(axes)}
    order = np.argsort([place[int(v)] for v in scope])
    shape = np.ones(len(axes), np.int64)
    for v, length in zip(scope, table.shape, strict=True):
        shape[place[int(v)]] = length
    return table.transpose(order).reshape(shape)


def axis_strides(scope: np.ndarray, axes: np.ndarray, size: np.ndarray) -> np.ndarray:
    """int64[num_axes], the stride of each axis in a flat table over a scope."""
    length = size[scope].astype(np.int64)
    own = np.concatenate((np.cumprod(length[::-1])[::-1][1:], [1]))
    strides = np.zeros(len(axes), np.int64)
    place = {int(v): at for at, v in enumerate(axes)}
    for v, stride in zip(scope, own, strict=True):
        strides[place[int(v)]] = stride
    return strides


@inner
def next_row(at, strides, shape, digit):  # type: ignore[no-untyped-def]
    """Advance to the next row of the joint table, whose last axis is summed out.

    `digit` are the indices of the other axes, `at` the offsets of several tables.
    """
    axis = len(shape) - 2
    while axis >= 0:
        digit[axis] += 1
        for number in range(len(at)):
            at[number] += strides[number, axis]
        if digit[axis] < shape[axis]:
            return
        for number in range(len(at)):
            at[number] -= strides[number, axis] * digit[axis]
        digit[axis] = 0
        axis -= 1


@entry
def fill_message(  # type: ignore[no-untyped-def]
    gates, log_table, shape, first_state, strides, at, entries, message, digit, work
):
    """Fill the message, the last axis summed out; return whether there was no room."""
    num_axes, num_messages, num_states = len(shape), len(at), shape[-1]
    factors, terms = work[: num_messages + 2], work[num_messages + 2 :]
    for row in range(len(message)):
        for state in range(num_states):
            log_value = log_table[row * num_states + state]
            terms[state] = ZERO
            if log_value == -np.inf:
                continue
            possible = True
            for number in range(num_messages):
                node = entries[at[number] + state * strides[number, num_axes - 1]]
                factors[2 + number] = node
                if node == ZERO:
                    possible = False
                    break
            if not possible:
                continue
            factors[0] = first_state + state
            factors[1] = make_constant(gates, log_value)
            terms[state] = make_node(gates, PRODUCT, factors)
            if terms[state] == FULL or factors[1] == FULL:
                return True
        message[row] = make_node(gates, SUM, terms)
        if message[row] == FULL:
            return True
        next_row(at, strides, shape, digit)
    return False


MAX_SEARCHED = 4_000  # variables of a graph whose order is searched; others go by degree
SPARSE_SCOPE = 24
SEARCHED, MAX_SEARCHES = 1e3, 12  # an order with more entries is searched again


def find_elimination_order(
    graph: FactorGraph, max_entries: float, seed: int, num_searches: int = MAX_SEARCHES
) -> EliminationOrder:
    """Find a cheap order; it is not complete if its tables would exceed `max_entries`."""
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
        return EliminationOrder(none, max(entries, 2.0**SPARSE_SCOPE), SPARSE_SCOPE, False)
    return EliminationOrder(order, entries, width, entries <= max_entries)


def repeated_order(
    graph: FactorGraph,
    max_entries: float,
    seed: int,
    num_searches: int = MAX_SEARCHES,
    stop: Stop | None = None,
) -> EliminationOrder:
    """Return the cheapest order of several searches, which break ties differently."""
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


def elimination_times(order: np.ndarray) -> np.ndarray:
    """int64[num_variables], the step at which each variable is eliminated."""
    time = np.empty(len(order), np.int64)
    time[order] = np.arange(len(order))
    return time
