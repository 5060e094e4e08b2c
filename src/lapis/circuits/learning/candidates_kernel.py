"""Candidate splits: their gains, their costs and the best one (Lowd, thesis 2010, section 5.5.3).

The value of a split is its gain in log-likelihood less k_p for each parameter and k_e for each edge
that it adds. The gain never changes, so it is computed once for each distribution: the table of X
and V is a few popcounts for every variable V. Costs change with the circuit:

- Each candidate has a bound: its gain less k_e times the last cost known, at first 0. The candidate
  with the highest bound is examined. If its cost is current it wins; otherwise its cost is computed
  and its bound falls. Most candidates are never priced again.
- *greedy*: a cost stays current until a split changes a node on which it was counted
  (`expire_costs`), so the winner is the best split. The rule of the thesis expires a cost if a
  changed node is above D and not V, or above V and not D. On kdd it expires a hundred times as many
  costs, nearly all of which come back unchanged: most of the changed nodes stand in contexts in
  which D does not occur, or are copied for the one state of V below them. It also misses MAs that
  lose a child.
- *quick*: a cost is current in the round that computed it. An older cost serves as a lower bound,
  which it nearly always is.
- Counting stops once a candidate cannot have a positive value.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.circuits.circuit import INDICATOR, PRODUCT
from lapis.circuits.learning.split_kernel import (
    NO_LIMIT,
    child_with_variable,
    edge_cost,
    states_below,
)
from lapis.inference.exact.elimination_order import popcount
from lapis.runtime.kernels import allocating_entry, entry, inner

NEVER = -np.inf


class SplitCandidates(NamedTuple):
    """A row for each distribution, a column for each variable that it might be split on."""

    gain: np.ndarray  # float64[room, num_variables], log-likelihood less k_p; -inf: not allowed
    bound: np.ndarray  # float64[room, num_variables], gain less k_e times the last cost known
    priced: np.ndarray  # int32[room, num_variables], the round whose circuit the cost is of; or 0
    best: np.ndarray  # float64[room], the highest bound of a row
    variable: np.ndarray  # int32[room], whose distribution it is
    first: np.ndarray  # int64[room], its first parameter


def new_candidates(room: int, num_variables: int) -> SplitCandidates:
    shape = (room, num_variables)
    return SplitCandidates(
        np.full(shape, NEVER), np.full(shape, NEVER), np.zeros(shape, np.int32),
        np.full(room, NEVER), np.zeros(room, np.int32), np.zeros(room, np.int64),
    )  # fmt: skip


def grow_candidates(candidates: SplitCandidates) -> SplitCandidates:
    """Return a copy with twice the room."""
    room, num_variables = candidates.gain.shape
    larger = new_candidates(2 * room, num_variables)
    for old, new in zip(candidates, larger, strict=True):
        new[:room] = old
    return larger


@allocating_entry
def smoothed_log_likelihood(count, begin, size, prior):  # type: ignore[no-untyped-def]
    """Return Σ_j N_j log θ_j with θ_j = (N_j + prior/size) / (N + prior)."""
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
def count_row_states(bits, layout, rows, own):  # type: ignore[no-untyped-def]
    """int64[size], the number of rows in each state of a variable."""
    found = np.zeros(layout.size[own], np.int64)
    for j in range(layout.size[own]):
        for w in range(len(rows)):
            found[j] += popcount(rows[w] & bits[layout.first[own] + j, w])
    return found


@allocating_entry
def count_gains(bits, layout, rows, own, allowed, prior, parameter_cost, gain):  # type: ignore[no-untyped-def]
    """Write the gain of splitting the distribution of `own` in these rows on each variable."""
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
    before = smoothed_log_likelihood(count, 0, size, prior)
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
            after += smoothed_log_likelihood(table, i * size, size, prior)
        gain[v] = after - before - parameter_cost * size * (num_cases - 1)


@entry
def refresh_best(candidates, row):  # type: ignore[no-untyped-def]
    best = NEVER
    for v in range(candidates.bound.shape[1]):
        best = max(best, candidates.bound[row, v])
    candidates.best[row] = best


@entry
def choose_split(graph, layout, walk, candidates, num_rows, is_descendant, price, step, is_greedy):  # type: ignore[no-untyped-def]
    """Return the distribution and variable of the best split, or -1, -1.

    A split on a descendant (`is_descendant`, bool[num_variables, num_variables]) would close a
    cycle, so this candidate is removed.
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
def expire_costs(graph, layout, walk, candidates, num_rows, split_row, variable):  # type: ignore[no-untyped-def]
    """Expire the costs that the split last walked may change; called before it is made.

    The cost of S(D, V) is counted on the nodes that `walk_region` visits. It expires if one of
    these changes, that is, if a changed node n

        is above D, and V is not below n;
        is an MA, and not one of the split made, which leaves it its children above D and V; or
        is above V and not D, and below a product whose other children include an ancestor of D.

    For the last case `apart` has for each n the D that are not below n, but below another child of
    a product above n. It is found from the root down, for 64 distributions at once.
    """
    num_nodes, num_variables = len(graph.kind), len(layout.size)
    active = np.empty(num_rows, np.int32)  # rows with a cost that may expire
    num_active = 0
    for row in range(num_rows):
        if row != split_row and candidates.first[row] >= 0 and candidates.priced[row].any():
            active[num_active] = row
            num_active += 1
    stack = np.empty(num_nodes, np.int32)
    changed = np.empty(num_nodes, np.int32)
    place = np.full(num_nodes, -1, np.int32)
    num_changed, num_above, num_placed = place_changed(
        graph, layout, walk, variable, stack, changed, place
    )
    if num_changed == 0 or num_active == 0:
        return
    num_words = (num_active + 63) // 64
    below = np.zeros((num_placed, num_words), np.uint64)
    reached = np.full(num_nodes, -1, np.int32)
    mark_above(
        graph, layout, candidates, active[:num_active], place, num_above, reached, stack, below
    )
    apart = np.zeros((num_placed, num_words), np.uint64)
    for n in range(num_nodes - 1, -1, -1):
        if place[n] >= 0:
            mark_apart(graph, n, place, below, apart)
    kept = np.full(
        (num_active, (num_variables + 63) // 64), ~np.uint64(0)
    )  # variables whose costs stay
    seen = np.empty(kept.shape[1], np.uint64)
    for index in range(num_changed):
        n = changed[index]
        variables_below(graph, layout, n, False, seen)
        keep_only(kept, apart[place[n]], seen)
        if graph.kind[n] == PRODUCT and walk.mark[n, 1] != walk.stamp[0]:
            for e in range(graph.start[n], graph.start[n + 1]):
                c = graph.child[e]
                variables_below(graph, layout, c, True, seen)
                keep_only(kept, below[place[c]], seen)
        else:
            variables_below(graph, layout, n, True, seen)
            keep_only(kept, below[place[n]], seen)
    for index in range(num_active):
        row = active[index]
        for v in range(num_variables):
            bit = np.uint64(1) << np.uint64(v % 64)
            if candidates.priced[row, v] and not kept[index, v // 64] & bit:
                candidates.priced[row, v] = 0
                candidates.bound[row, v] = candidates.gain[row, v]
        refresh_best(candidates, row)


@inner
def place_changed(graph, layout, walk, variable, stack, changed, place):  # type: ignore[no-untyped-def]
    """List the nodes that a walked split changes; number them, their ancestors, their children.

    A node above D with one copy is only renumbered, and so is an MA with a state of V as a child.
    """
    num_changed = num_placed = 0
    for part in range(3):
        for index in range(walk.length[part]):
            n = walk.lists[part, index]
            if part == 0 and popcount(walk.copies[n]) == 1:
                continue
            if part == 1 and popcount(states_below(graph, layout, n, variable)) == 1:
                v = child_with_variable(graph, layout, n, variable)
                if graph.kind[v] == INDICATOR:
                    continue
            place[n] = num_placed
            num_placed += 1
            changed[num_changed] = n
            num_changed += 1
    for index in range(num_changed):
        stack[0] = changed[index]
        height = 1
        while height:
            height -= 1
            n = stack[height]
            for e in range(graph.parent_start[n], graph.parent_start[n + 1]):
                p = graph.parent[e]
                if place[p] < 0:
                    place[p] = num_placed
                    num_placed += 1
                    stack[height] = p
                    height += 1
    num_above = num_placed
    for index in range(num_changed):
        n = changed[index]
        for e in range(graph.start[n], graph.start[n + 1]):
            c = graph.child[e]
            if place[c] < 0:
                place[c] = num_placed
                num_placed += 1
    return num_changed, num_above, num_placed


@inner
def mark_above(graph, layout, candidates, active, place, num_above, reached, stack, below):  # type: ignore[no-untyped-def]
    """Set bit i of `below` for each placed node above the distribution of the i-th active row.

    A walk up ends at the first changed node or ancestor of one; a second pass moves all bits up.
    """
    for index in range(len(active)):
        row = active[index]
        bit = np.uint64(1) << np.uint64(index % 64)
        height = 0
        for parameter in range(layout.size[candidates.variable[row]]):
            n = graph.node_of_parameter[candidates.first[row] + parameter]
            reached[n] = index
            stack[height] = n
            height += 1
        while height:
            height -= 1
            n = stack[height]
            if place[n] >= 0:
                below[place[n], index // 64] |= bit
                if place[n] < num_above:
                    continue
            for e in range(graph.parent_start[n], graph.parent_start[n + 1]):
                p = graph.parent[e]
                if reached[p] != index:
                    reached[p] = index
                    stack[height] = p
                    height += 1
    for n in range(len(place)):
        if 0 <= place[n] < num_above:
            for e in range(graph.parent_start[n], graph.parent_start[n + 1]):
                p = place[graph.parent[e]]
                for w in range(below.shape[1]):
                    below[p, w] |= below[place[n], w]


@inner
def mark_apart(graph, n, place, below, apart):  # type: ignore[no-untyped-def]
    """Find the distributions that are apart from a node, from those of its parents."""
    own = place[n]
    for e in range(graph.parent_start[n], graph.parent_start[n + 1]):
        p = place[graph.parent[e]]
        if p >= 0:
            is_product = graph.kind[graph.parent[e]] == PRODUCT
            for w in range(apart.shape[1]):
                apart[own, w] |= apart[p, w]
                if is_product:
                    apart[own, w] |= below[p, w]
    for w in range(apart.shape[1]):
        apart[own, w] &= ~below[own, w]


@inner
def variables_below(graph, layout, node, are_below, seen):  # type: ignore[no-untyped-def]
    """Write as bits the variables with a state below a node, or those without."""
    for u in range(len(seen)):
        seen[u] = np.uint64(0)
    for v in range(len(layout.size)):
        if (states_below(graph, layout, node, v) != np.uint64(0)) == are_below:
            seen[v // 64] |= np.uint64(1) << np.uint64(v % 64)


@inner
def keep_only(kept, rows, variables):  # type: ignore[no-untyped-def]
    """Restrict the kept costs of some rows, given as bits, to some variables."""
    for w in range(len(rows)):
        rest = rows[w]
        while rest:
            low = rest & (~rest + np.uint64(1))
            rest ^= low
            index = 64 * w + popcount(low - np.uint64(1))
            for u in range(len(variables)):
                kept[index, u] &= variables[u]
