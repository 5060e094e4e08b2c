"""Candidate splits: what each would gain, what it costs, which is the best (thesis, 5.5.3).

A split is worth its gain in log-likelihood, less k_p for each parameter and k_e for each edge that
it adds. The gain never changes, so it is counted once for each distribution, from bits of the data:
the table of X and V is a handful of popcounts for every variable V. Costs change as the circuit
does, and are looked at only where that may matter:

- a candidate stands with a bound: its gain less the last cost known, at first 0. The highest bound
  is looked at; if its cost is current it wins, otherwise the cost is computed and it falls back in
  line. So candidates are met in the order of their likelihood, and most are never priced again.
- *greedy*: a cost stays current until a split changes a node above D and not V, or above V and not
  D (`expire_costs`); the winner is the best split there is.
- *quick*: a cost is current in the round that computed it. An older one is taken for a lower bound,
  which it nearly always is.
- counting stops where a candidate cannot win anything any more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.circuits.learning.split import NO_LIMIT, edge_cost
from lapis.compiled import allocating_entry, entry
from lapis.inference.exact.elimination_order import popcount

NEVER = -np.inf


class Candidates(NamedTuple):
    """A row for each distribution, a column for each variable that it might be split on."""

    gain: np.ndarray  # float64[room, num_variables], log-likelihood less k_p; -inf: not allowed
    bound: np.ndarray  # float64[room, num_variables], gain less k_e times the last cost known
    priced: np.ndarray  # int32[room, num_variables], the round whose circuit the cost is of; or 0
    best: np.ndarray  # float64[room], the highest bound of a row
    variable: np.ndarray  # int32[room], whose distribution it is
    first: np.ndarray  # int64[room], its first parameter


def new_candidates(room: int, num_variables: int) -> Candidates:
    shape = (room, num_variables)
    return Candidates(
        np.full(shape, NEVER), np.full(shape, NEVER), np.zeros(shape, np.int32),
        np.full(room, NEVER), np.zeros(room, np.int32), np.zeros(room, np.int64),
    )  # fmt: skip


def grown(candidates: Candidates) -> Candidates:
    """The same with twice the room."""
    room, num_variables = candidates.gain.shape
    larger = new_candidates(2 * room, num_variables)
    for old, new in zip(candidates, larger, strict=True):
        new[:room] = old
    return larger


@allocating_entry
def log_likelihood(count, begin, size, prior):  # type: ignore[no-untyped-def]
    """Σ_j N_j log θ_j with θ_j = (N_j + prior/size) / (N + prior)."""
    total = 0
    for j in range(size):
        total += count[begin + j]
    found = 0.0
    for j in range(size):
        n = count[begin + j]
        if n:
            found += n * np.log((n + prior / size) / (total + prior))
    return found


@allocating_entry
def count_states(bits, layout, rows, own):  # type: ignore[no-untyped-def]
    """int64[size], how often each state of a variable occurs in rows."""
    found = np.zeros(layout.size[own], np.int64)
    for j in range(layout.size[own]):
        for w in range(len(rows)):
            found[j] += popcount(rows[w] & bits[layout.first[own] + j, w])
    return found


@allocating_entry
def count_gains(bits, layout, rows, own, allowed, prior, parameter_cost, gain):  # type: ignore[no-untyped-def]
    """Write what splitting the distribution of `own` in these rows on each variable would gain."""
    size = layout.size[own]
    num_words = 0
    word = np.empty(len(rows), np.int32)
    for w in range(len(rows)):
        if rows[w]:
            word[num_words] = w
            num_words += 1
    masked = np.empty((size, num_words), np.uint64)  # rows in each state of the variable itself
    count = np.zeros(size, np.int64)
    for j in range(size):
        for k in range(num_words):
            masked[j, k] = rows[word[k]] & bits[layout.first[own] + j, word[k]]
            count[j] += popcount(masked[j, k])
    before = log_likelihood(count, 0, size, prior)
    for v in range(len(layout.size)):
        gain[v] = NEVER
        if not allowed[v]:
            continue
        num_cases = layout.size[v]
        table = np.zeros(num_cases * size, np.int64)
        for j in range(size):
            rest = count[j]
            for i in range(num_cases - 1):
                state = bits[layout.first[v] + i]
                found = 0
                for k in range(num_words):
                    found += popcount(masked[j, k] & state[word[k]])
                table[i * size + j] = found
                rest -= found
            table[(num_cases - 1) * size + j] = rest
        after = 0.0
        for i in range(num_cases):
            after += log_likelihood(table, i * size, size, prior)
        gain[v] = after - before - parameter_cost * size * (num_cases - 1)


@entry
def refresh_best(candidates, row):  # type: ignore[no-untyped-def]
    best = NEVER
    for v in range(candidates.bound.shape[1]):
        best = max(best, candidates.bound[row, v])
    candidates.best[row] = best


@entry
def choose_split(graph, layout, walk, candidates, num_rows, is_descendant, price, step, is_greedy):  # type: ignore[no-untyped-def]
    """The distribution and variable of the best split, or -1, -1.

    `is_descendant` is bool[num_variables, num_variables]: a split on a descendant would close a
    cycle, now and forever.
    """
    is_boolean = True
    for v in range(len(layout.size)):
        is_boolean &= layout.size[v] == 2
    while True:
        row = 0
        for other in range(1, num_rows):
            if candidates.best[other] > candidates.best[row]:
                row = other
        if candidates.best[row] <= 0.0:
            return -1, -1
        v = 0
        while candidates.bound[row, v] != candidates.best[row]:
            v += 1
        own = candidates.variable[row]
        if is_descendant[own, v]:
            candidates.bound[row, v] = candidates.gain[row, v] = NEVER
        elif price == 0.0 or candidates.priced[row, v] >= (1 if is_greedy else step):
            return row, v
        else:
            limit = np.int64(candidates.gain[row, v] / price) + 1 if is_boolean else NO_LIMIT
            cost = edge_cost(
                graph, layout, walk, candidates.first[row], np.int64(layout.size[own]), v, limit
            )
            candidates.bound[row, v] = candidates.gain[row, v] - price * cost
            candidates.priced[row, v] = step
        refresh_best(candidates, row)


@allocating_entry
def expire_costs(graph, layout, walk, candidates, num_rows, split_row):  # type: ignore[no-untyped-def]
    """Forget the costs that the split last walked may change; called before it is made.

    The cost of S(D, V) may change if some changed node is above D and not V, or above V and not D.
    For each D the changed nodes above it are found by going up; V must be below all of these, and
    below none of the others.
    """
    num_nodes, num_words = graph.scope.shape
    changed = np.zeros(num_nodes, np.bool_)
    listed = np.empty(num_nodes, np.int32)
    num_changed = 0
    for part in range(3):
        for index in range(walk.length[part]):
            n = walk.lists[part, index]
            if not changed[n]:
                changed[n] = True
                listed[num_changed] = n
                num_changed += 1
    seen = np.full(num_nodes, -1, np.int32)
    stack = np.empty(num_nodes, np.int32)
    inside = np.empty(num_words, np.uint64)  # states below all changed nodes above D
    outside = np.empty(num_words, np.uint64)  # states below some changed node not above D
    for row in range(num_rows):
        if row == split_row or candidates.first[row] < 0:
            continue
        height = 0
        for parameter in range(layout.size[candidates.variable[row]]):
            n = graph.node_of_parameter[candidates.first[row] + parameter]
            seen[n] = row
            stack[height] = n
            height += 1
        while height:
            height -= 1
            n = stack[height]
            for e in range(graph.parent_start[n], graph.parent_start[n + 1]):
                p = graph.parent[e]
                if seen[p] != row:
                    seen[p] = row
                    stack[height] = p
                    height += 1
        inside[:] = ~np.uint64(0)
        outside[:] = np.uint64(0)
        for index in range(num_changed):
            n = listed[index]
            for w in range(num_words):
                if seen[n] == row:
                    inside[w] &= graph.scope[n, w]
                else:
                    outside[w] |= graph.scope[n, w]
        for v in range(len(layout.size)):
            if candidates.priced[row, v] == 0:
                continue
            full = layout.full[v] << layout.shift[v]
            w = layout.word[v]
            if inside[w] & full != full or outside[w] & full:
                candidates.priced[row, v] = 0
                candidates.bound[row, v] = candidates.gain[row, v]
        refresh_best(candidates, row)
