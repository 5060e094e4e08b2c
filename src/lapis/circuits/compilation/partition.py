"""Compute log Z and marginals of a product of tables by elimination in numbers, without a circuit.

`find_partition` computes log Z. It is the elimination of `elimination.py` with numbers for nodes:

    m(S) = Σ_s  Π_tables f(s, S) · Π_messages m'(s, S)

A message takes eight bytes an entry and is dropped after its use. All messages are in one block of
memory, each at the first place that is free for its lifetime, so the size of the block is known
before any is computed. Messages have largest entry 1 and a logarithm beside them. If a product
underflows, the result is marked as not exact. The model is made smaller first: by
`make_consistent`, and by summing out variables that one table alone mentions. In a Bayesian network
this removes the variables without an observed descendant (Shachter, 1986), where elimination would
have joined their parents.

`find_marginals` computes all marginals with the junction trees of exact inference: eight bytes an
entry, one pass up and one down. A circuit needs some forty bytes an entry because it answers many
queries. Networks whose circuits would fill a machine (link, munin1) are answered in seconds.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from lapis.circuits.compilation.compile_model import MARGINAL_ENTRIES, no_possible_state
from lapis.circuits.compilation.counting import count_models
from lapis.circuits.compilation.numeric_elimination import (
    align_axes,
    axis_strides,
    elimination_times,
    find_elimination_order,
    next_row,
    repeated_order,
)
from lapis.circuits.factor_graph import (
    FactorGraph,
    drop_constant_axes,
    entry_cubes,
    graph_of_tables,
    make_consistent,
)
from lapis.errors import TooLarge
from lapis.inference.exact.elimination_order import EliminationOrder
from lapis.inference.exact.junction_tree import build_tree, collect_messages, distribute_beliefs
from lapis.runtime.kernels import entry
from lapis.runtime.progress import Stop

MAX_ENTRIES, CHEAP_ENTRIES = 4e9, 2e7
MAX_BYTES = 4_000_000_000
CHEAP_WORK = 60_000_000  # of counting; a second or two
SMALL = 4096  # entries of a product of tables made before elimination
MAX_LEAF = 20  # variables of a table out of which one is summed before elimination
ROUNDING = 1e-13  # differences due to rounding after such a sum
HOPELESS = 1e12  # entries beyond which an order is abandoned
LOST = 1e-290  # products below this count as underflow


class PartitionValue(NamedTuple):
    log_value: float
    exact: bool  # no product underflowed
    entries: float  # of all tables
    width: int


Placed = tuple[int, np.ndarray, np.ndarray]  # step, scope and entries of a table


class Step(NamedTuple):
    """A variable to sum out, and the tables and messages that contain it."""

    axes: np.ndarray  # int32[...], the variables left, latest eliminated first, then this one
    scopes: list[np.ndarray]  # of the tables and messages
    begins: list[int]  # places of their entries
    result: int  # place of the entries of the message


def find_partition(
    graph: FactorGraph,
    max_entries: float = MAX_ENTRIES,
    max_bytes: int = MAX_BYTES,
    hopeless: float = HOPELESS,
    stop: Stop | None = None,
) -> PartitionValue:
    """Return log Σ_x Π_f f(x); TooLarge beyond the limits."""
    consistent = make_consistent(graph)
    if consistent is None:
        return PartitionValue(-np.inf, True, 0.0, 0)
    small = sum_out_leaves(consistent.graph)
    order = repeated_order(small, hopeless, 0, stop=stop)
    if not order.is_complete or order.entries > max_entries:
        raise too_wide(order, 0.0)
    log_value, exact, tables = group_tables(small, order.variable)
    steps, num_entries = plan_steps(small.size, order.variable, tables)
    if 8 * num_entries > max_bytes:
        raise too_wide(order, 8.0 * num_entries)
    memory = np.empty(num_entries)
    at = 0
    for _, _, table in tables:
        memory[at : at + len(table)] = table
        at += len(table)
    for step in steps:
        if stop is not None:
            stop.check("elimination")
        shape = small.size[step.axes].astype(np.int64)
        strides = [axis_strides(scope, step.axes, small.size) for scope in step.scopes]
        count = int(np.prod(shape[:-1]))
        message = memory[step.result : step.result + count]
        lost = sum_last_axis(
            memory, shape, np.array(strides, np.int64).reshape(len(strides), len(shape)),
            np.array(step.begins, np.int64), message, np.zeros(len(shape), np.int64),
        )  # fmt: skip
        top = float(message.max())
        if top == 0.0:
            return PartitionValue(-np.inf, not lost, order.entries, order.width)
        message /= top
        log_value += math.log(top)
        exact = exact and not lost
    return PartitionValue(log_value, exact, order.entries, order.width)


def cheap_partition(graph: FactorGraph, stop: Stop | None = None) -> float | None:
    """Return log Z if it is exact and cheaper than an approximation; None otherwise."""
    if stop is not None and stop.is_over():
        return None
    with suppress(TooLarge):
        found = find_partition(graph, CHEAP_ENTRIES, hopeless=CHEAP_ENTRIES, stop=stop)
        return found.log_value if found.exact else None
    if np.isneginf(graph.log_value).any() and not (stop and stop.is_over()):
        with suppress(TooLarge):
            return count_models(graph, CHEAP_WORK).log_value
    return None


class AllMarginals(NamedTuple):
    log_partition: float
    state: np.ndarray  # float64[num_states], the probability of each state of each variable
    entries: float  # of all tables
    width: int  # variables in the largest of them, less one


def find_marginals(graph: FactorGraph, seed: int = 0, stop: Stop | None = None) -> AllMarginals:
    """Return log Z and every P(x_v = s); TooLarge if the tables exceed `MARGINAL_ENTRIES`."""
    consistent = make_consistent(graph)
    if consistent is None:
        raise no_possible_state()
    small = consistent.graph
    order = find_elimination_order(small, MARGINAL_ENTRIES, seed)
    if not order.is_complete:
        raise too_wide(order, 8.0 * order.entries)
    cubes, log_value = entry_cubes(small)
    tree = build_tree(cubes, order.variable)
    potentials = collect_messages(tree, cubes, log_value, stop=stop)
    roots = potentials.root_values(tree)[1]
    if (roots == -np.inf).any():
        raise no_possible_state()
    state = np.zeros(int(graph.size.sum()))
    found = distribute_beliefs(tree, cubes, potentials, overwrite=True, stop=stop)
    state[consistent.state] = np.clip(found.state, 0.0, 1.0)
    log_partition = float(roots.sum()) + small.log_constant
    return AllMarginals(log_partition, state, order.entries, order.width)


def sum_out_leaves(graph: FactorGraph) -> FactorGraph:
    """Sum out variables that one table alone mentions, repeatedly."""
    tables = graph.tables
    holders: list[set[int]] = [set() for _ in graph.names]
    for factor, (scope, _) in enumerate(tables):
        for v in scope:
            holders[v].add(factor)
    waiting = [v for v, factors in enumerate(holders) if len(factors) == 1]
    log_free = sum(math.log(size) for size, own in zip(graph.size, holders, strict=True) if not own)
    while waiting:
        v = waiting.pop()
        if len(holders[v]) != 1:
            continue
        (factor,) = holders[v]
        scope, table = tables[factor]
        if len(scope) > MAX_LEAF:
            continue
        summed = np.logaddexp.reduce(table, axis=scope.index(v))
        left, summed = drop_constant_axes([u for u in scope if u != v], summed, ROUNDING)
        tables[factor] = left, summed
        holders[v].clear()
        for u in scope:
            if u != v and u not in left:
                holders[u].discard(factor)
                log_free += math.log(graph.size[u]) if not holders[u] else 0.0
        waiting += [u for u in scope if len(holders[u]) == 1]
    used = [v for v, factors in enumerate(holders) if factors]
    number = {v: place for place, v in enumerate(used)}
    return graph_of_tables(
        [graph.names[v] for v in used], [graph.states[v] for v in used],
        [([], np.array(log_free))]
        + [([number[v] for v in scope], table) for scope, table in tables],
    )  # fmt: skip


def plan_steps(size: np.ndarray, order: np.ndarray, tables: list[Placed]) -> tuple[list[Step], int]:
    """Return the steps, and the size of the memory block; the tables are at its front."""
    time = elimination_times(order)
    waiting: list[list[tuple[np.ndarray, int, int]]] = [[] for _ in order]  # scope, begin, entries
    end = 0
    for step, scope, table in tables:
        waiting[step].append((scope, end, 0))  # tables are not freed
        end += len(table)
    live: list[tuple[int, int]] = []  # begin and end of the messages that are still needed
    steps, highest = [], end
    for step, v in enumerate(order.tolist()):
        scopes = [scope for scope, _, _ in waiting[step]]
        members = np.unique(np.concatenate([np.array([v]), *scopes]))
        rest = members[members != v]
        axes = np.concatenate((rest[np.argsort(-time[rest])], [v])).astype(np.int32)
        count = int(np.prod(size[axes[:-1]], dtype=np.int64))
        begin = end
        for first, last in sorted(live):
            if first - begin >= count:
                break
            begin = max(begin, last)
        highest = max(highest, begin + count)
        steps.append(Step(axes, scopes, [start for _, start, _ in waiting[step]], begin))
        for _, start, entries in waiting[step]:
            if entries:
                live.remove((start, start + entries))
        if len(rest):
            live.append((begin, begin + count))
            waiting[int(time[rest].min())].append((axes[:-1], begin, count))
    return steps, highest


def group_tables(graph: FactorGraph, order: np.ndarray) -> tuple[float, bool, list[Placed]]:
    """Multiply small tables that meet at a step, and scale their largest entry to 1.

    Return the logarithm of the scale, whether no entry underflows, and the tables.
    """
    time = elimination_times(order)
    log_value = 0.0
    by_step: dict[int, list[int]] = {}
    for factor in range(graph.num_factors):
        scope = graph.variables_of(factor)
        if len(scope):
            by_step.setdefault(int(time[scope].min()), []).append(factor)
        else:
            log_value += float(graph.table(factor))
    groups: list[Placed] = []
    for step, factors in by_step.items():
        joined, log_table = np.empty(0, np.int32), np.zeros(())
        for factor in sorted(factors, key=lambda factor: graph.table(factor).size):
            scope, table = graph.variables_of(factor), graph.table(factor)
            union = np.union1d(joined, scope).astype(np.int32)
            if len(joined) and np.prod(graph.size[union]) > max(SMALL, table.size):
                groups.append((step, joined, log_table))
                joined, log_table, union = joined[:0], np.zeros(()), np.sort(scope)
            log_table = align_axes(joined, log_table, union) + align_axes(scope, table, union)
            joined = union
        groups.append((step, joined, log_table))
    exact, found = True, []
    for step, scope, log_table in groups:
        top = float(log_table.max())
        if top == -np.inf:
            return -np.inf, True, []
        log_value += top
        lowered = log_table.ravel() - top
        exact = exact and not ((lowered < math.log(LOST)) & (lowered > -np.inf)).any()
        found.append((step, scope, np.exp(lowered)))
    return log_value, exact, found


def too_wide(order: EliminationOrder, num_bytes: float) -> TooLarge:
    """Return the error of an order whose tables are too large."""
    return TooLarge(
        f"elimination would join {order.width + 1} variables in a table and compute "
        f"{order.entries:.1e} entries" + (f", {num_bytes / 1e9:.1f} GB at once" * (num_bytes > 0)),
        code="too-large",
    )


@entry
def sum_last_axis(memory, shape, strides, at, message, digit):  # type: ignore[no-untyped-def]
    """Fill the message, the last axis summed out; return whether a product underflowed."""
    num_axes, num_factors, num_states = len(shape), len(at), shape[-1]
    lost = False
    for row in range(len(message)):
        total = 0.0
        for state in range(num_states):
            term = 1.0
            for number in range(num_factors):
                term *= memory[at[number] + state * strides[number, num_axes - 1]]
            total += term
            if term < LOST:
                possible = True
                for number in range(num_factors):
                    if memory[at[number] + state * strides[number, num_axes - 1]] == 0.0:
                        possible = False
                        break
                lost = lost or possible
        message[row] = total
        next_row(at, strides, shape, digit)
    return lost
