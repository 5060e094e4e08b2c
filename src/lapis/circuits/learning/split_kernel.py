"""SplitAC: split a distribution of a circuit on a variable (Lowd, thesis 2010, section 5.5.2).

Splitting D (a leaf of the decision tree of X) on V replaces it by one D_i for each state i of V.
In the circuit every node between D or V and their mutual ancestors (MA) has to agree on V. So it is
copied once for each state of V below it, and each MA gets a sum over the copies (table 5.2):

    m × n_D × n_V   becomes   m × Σ_i v_i × n_D,i × n_V,i

The three properties of the circuit make this a local change:

- A node above D and not above V is always copied and never kept. Going up from D until V is below a
  node finds all of these; the first nodes with V below them are exactly the MAs.
- A node above V and not above D is copied for the states of V below it. It is kept only if it has
  another parent that is kept.
- No other node changes or becomes unreachable.

So one walk counts the edges that a split adds (`edge_cost`), without building anything.
`split_circuit` rebuilds the arrays in one pass from the leaves up, linear in the circuit; that is
cheap beside the search, and the nodes stay in topological order. Beyond the table, a copy with one
child is replaced by this child, and an MA with one state of V below it gets no sum. Otherwise every
split would leave chains of nodes with one child.

The states of V below a node are bits of one word, hence the limit of 64 states.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lapis.circuits.circuit import INDICATOR, PARAMETER, PRODUCT, SUM, state_starts
from lapis.inference.exact.elimination_order import popcount
from lapis.runtime.kernels import allocating_entry, entry, inner

MAX_STATES = 64
NO_LIMIT = 1 << 60


class GrowingCircuit(NamedTuple):
    """A circuit during learning; `leaf` of a parameter is its number in the learner."""

    kind: np.ndarray  # int8[num_nodes]
    leaf: np.ndarray  # int32[num_nodes]
    start: np.ndarray  # int64[num_nodes + 1]
    child: np.ndarray  # int32[num_edges]
    parent_start: np.ndarray  # int64[num_nodes + 1]
    parent: np.ndarray  # int32[num_edges]
    scope: np.ndarray  # uint64[num_nodes, num_words], states below a node
    node_of_state: np.ndarray  # int32[num_states]
    node_of_parameter: np.ndarray  # int32[num_parameters], -1 for those of split distributions


class StateLayout(NamedTuple):
    """The place of each variable's states in a scope."""

    size: np.ndarray  # int32[num_variables]
    first: np.ndarray  # int32[num_variables], number of the first state
    word: np.ndarray  # int32[num_variables]
    shift: np.ndarray  # uint64[num_variables]
    full: np.ndarray  # uint64[num_variables], a one for each state
    state_word: np.ndarray  # int32[num_states]
    state_bit: np.ndarray  # uint64[num_states]


class SplitWalk(NamedTuple):
    """Results of the last walk, and its work space; a mark is valid if it equals `stamp`."""

    stamp: np.ndarray  # int64[1]
    mark: np.ndarray  # int64[num_nodes, 3], above D; mutual ancestor; above V, below an MA
    copies: np.ndarray  # uint64[num_nodes], states for which a node is copied
    used: np.ndarray  # uint64[num_nodes], states whose copy is not empty
    many: np.ndarray  # uint64[num_nodes], states whose copy has two children or more
    kept: np.ndarray  # bool[num_nodes], the original stays
    lists: np.ndarray  # int32[3, num_nodes], above D, parents first; MAs; above V, children first
    length: np.ndarray  # int64[3], the lengths of the lists
    stack: np.ndarray  # int64[2, num_nodes], nodes and how far their neighbours are done


def new_layout(states: Sequence[Sequence[str]]) -> StateLayout:
    size = np.array([len(names) for names in states], np.int32)
    word, shift = np.zeros(len(size), np.int32), np.zeros(len(size), np.uint64)
    at = 0
    for variable, width in enumerate(size.tolist()):
        if at % 64 + width > 64:
            at += 64 - at % 64
        word[variable], shift[variable] = at // 64, at % 64
        at += width
    first = state_starts(states)[:-1]
    full = np.array([(1 << width) - 1 for width in size.tolist()], np.uint64)
    own = np.concatenate([np.arange(width, dtype=np.uint64) for width in size])
    bit = np.uint64(1) << (own + np.repeat(shift, size))
    return StateLayout(size, first, word, shift, full, np.repeat(word, size), bit)


def new_split_walk(num_nodes: int) -> SplitWalk:
    copies, used, many = np.zeros((3, num_nodes), np.uint64)
    return SplitWalk(
        np.zeros(1, np.int64), np.zeros((num_nodes, 3), np.int64), copies, used, many,
        np.zeros(num_nodes, np.bool_), np.zeros((3, num_nodes), np.int32), np.zeros(3, np.int64),
        np.zeros((2, num_nodes), np.int64),
    )  # fmt: skip


def product_of_marginals(layout: StateLayout, first_parameter: np.ndarray) -> GrowingCircuit:
    """Return Π_X Σ_j λ_Xj θ_Xj, the circuit that learning starts with."""
    num_states = int(layout.size.sum())
    num_variables = len(layout.size)
    kind = np.repeat(
        np.array([INDICATOR, PARAMETER, PRODUCT, SUM, PRODUCT], np.int8),
        [num_states, num_states, num_states, num_variables, 1],
    )
    leaf = np.full(len(kind), -1, np.int32)
    leaf[:num_states] = np.arange(num_states)
    own = np.arange(num_states) - np.repeat(layout.first, layout.size)
    leaf[num_states : 2 * num_states] = np.repeat(first_parameter, layout.size) + own
    pairs = np.stack([np.arange(num_states), num_states + np.arange(num_states)], axis=1)
    cases = 2 * num_states + np.arange(num_states)
    sums = 3 * num_states + np.arange(num_variables)
    degree = np.zeros(len(kind), np.int64)
    degree[2 * num_states : 3 * num_states] = 2
    degree[sums] = layout.size
    degree[-1] = num_variables
    start = np.concatenate([[0], np.cumsum(degree)])
    child = np.concatenate([pairs.ravel(), cases, sums]).astype(np.int32)
    num_parameters = int(leaf[num_states : 2 * num_states].max()) + 1
    return new_growing_circuit(kind, leaf, start, child, layout, num_states, num_parameters)


@allocating_entry
def new_growing_circuit(kind, leaf, start, child, layout, num_states, num_parameters):  # type: ignore[no-untyped-def]
    """Find parents, scopes and leaves of nodes in topological order."""
    num_nodes = len(kind)
    num_words = layout.word[-1] + 1
    scope = np.zeros((num_nodes, num_words), np.uint64)
    parent_start = np.zeros(num_nodes + 1, np.int64)
    node_of_state = np.full(num_states, -1, np.int32)
    node_of_parameter = np.full(num_parameters, -1, np.int32)
    for e in range(len(child)):
        parent_start[child[e] + 1] += 1
    for n in range(num_nodes):
        parent_start[n + 1] += parent_start[n]
        if kind[n] == INDICATOR:
            scope[n, layout.state_word[leaf[n]]] = layout.state_bit[leaf[n]]
            node_of_state[leaf[n]] = n
        elif kind[n] == PARAMETER:
            node_of_parameter[leaf[n]] = n
        for e in range(start[n], start[n + 1]):
            for w in range(num_words):
                scope[n, w] |= scope[child[e], w]
    parent = np.empty(len(child), np.int32)
    filled = parent_start[:-1].copy()
    for n in range(num_nodes):
        for e in range(start[n], start[n + 1]):
            parent[filled[child[e]]] = n
            filled[child[e]] += 1
    return GrowingCircuit(
        kind, leaf, start, child, parent_start, parent, scope, node_of_state, node_of_parameter
    )


@inner
def states_below(graph, layout, node, variable):  # type: ignore[no-untyped-def]
    """Return the states of a variable below a node, as bits from 0."""
    word = graph.scope[node, layout.word[variable]]
    return (word >> layout.shift[variable]) & layout.full[variable]


@inner
def walk_region(graph, layout, walk, first, size, variable, limit):  # type: ignore[no-untyped-def]
    """Find the nodes that change if the distribution with these parameters is split on a variable.

    Return the edges that copies above D add; stop once they exceed the limit.
    """
    walk.stamp[0] += 1
    stamp = walk.stamp[0]
    above, ancestors, below = walk.lists[0], walk.lists[1], walk.lists[2]
    node, done = walk.stack[0], walk.stack[1]
    num_above = num_ancestors = num_below = cost = 0
    none = np.uint64(0)
    for parameter in range(first, first + size):
        root = graph.node_of_parameter[parameter]
        node[0], done[0], height = root, graph.parent_start[root], 1
        walk.mark[root, 0] = stamp
        walk.copies[root] = none
        while height:
            n = node[height - 1]
            e = done[height - 1]
            if e < graph.parent_start[n + 1]:
                done[height - 1] += 1
                p = graph.parent[e]
                seen = states_below(graph, layout, p, variable)
                if seen != none:
                    walk.copies[n] |= seen
                    if walk.mark[p, 1] != stamp:
                        walk.mark[p, 1] = stamp
                        ancestors[num_ancestors] = p
                        num_ancestors += 1
                elif walk.mark[p, 0] != stamp:
                    walk.mark[p, 0] = stamp
                    walk.copies[p] = none
                    node[height], done[height] = p, graph.parent_start[p]
                    height += 1
            else:
                for f in range(graph.parent_start[n], graph.parent_start[n + 1]):
                    if walk.mark[graph.parent[f], 0] == stamp:
                        walk.copies[n] |= walk.copies[graph.parent[f]]
                above[num_above] = n
                num_above += 1
                height -= 1
                cost += (popcount(walk.copies[n]) - 1) * (graph.start[n + 1] - graph.start[n])
                if cost > limit:
                    return cost
    for index in range(num_ancestors):
        m = ancestors[index]
        root = child_with_variable(graph, layout, m, variable)
        if graph.kind[root] == INDICATOR or walk.mark[root, 2] == stamp:
            continue
        node[0], done[0], height = root, graph.start[root], 1
        walk.mark[root, 2] = stamp
        while height:
            n = node[height - 1]
            e = done[height - 1]
            if e < graph.start[n + 1]:
                done[height - 1] += 1
                c = graph.child[e]
                if (
                    walk.mark[c, 2] != stamp
                    and graph.kind[c] != INDICATOR
                    and states_below(graph, layout, c, variable) != none
                ):
                    walk.mark[c, 2] = stamp
                    node[height], done[height] = c, graph.start[c]
                    height += 1
            else:
                summarise_copies(graph, layout, walk, n, variable)
                below[num_below] = n
                num_below += 1
                height -= 1
    for index in range(num_below - 1, -1, -1):
        n = below[index]
        walk.kept[n] = False
        for e in range(graph.parent_start[n], graph.parent_start[n + 1]):
            p = graph.parent[e]
            if walk.kept[p] if walk.mark[p, 2] == stamp else walk.mark[p, 1] != stamp:
                walk.kept[n] = True
                break
    walk.length[0], walk.length[1], walk.length[2] = num_above, num_ancestors, num_below
    return cost


@inner
def child_with_variable(graph, layout, m, variable):  # type: ignore[no-untyped-def]
    """Return the one child of a product with the variable below it."""
    for e in range(graph.start[m], graph.start[m + 1]):
        if states_below(graph, layout, graph.child[e], variable) != np.uint64(0):
            return graph.child[e]
    return np.int32(-1)


@inner
def seen_in_copies(graph, layout, walk, c, n, variable):  # type: ignore[no-untyped-def]
    """Return the states for which a copy of n has a copy of its child c, or c itself."""
    seen = states_below(graph, layout, c, variable)
    if seen == np.uint64(0):
        return walk.copies[n]
    return np.uint64(0) if graph.kind[c] == INDICATOR else seen & walk.used[c]


@inner
def summarise_copies(graph, layout, walk, n, variable):  # type: ignore[no-untyped-def]
    """Find the states for which the copy of a node above V has one child or several."""
    walk.copies[n] = states_below(graph, layout, n, variable)
    used = many = np.uint64(0)
    for e in range(graph.start[n], graph.start[n + 1]):
        here = seen_in_copies(graph, layout, walk, graph.child[e], n, variable)
        many |= used & here
        used |= here
    walk.used[n], walk.many[n] = used, many


@entry
def edge_cost(graph, layout, walk, first, size, variable, limit):  # type: ignore[no-untyped-def]
    """Count the edges that a split adds; return a number above the limit if they exceed it.

    Copies may save at most six edges of a sum over a Boolean V and its two products. The sum at an
    MA adds at least as many, and so do the copies of any Boolean sum in between. So the nodes below
    the MAs on V's side never lower the cost, and the limit can be checked on D's side alone.
    """
    cost = walk_region(graph, layout, walk, first, size, variable, limit)
    if cost > limit:
        return cost
    for index in range(walk.length[2]):
        n = walk.lists[2, index]
        if not walk.kept[n]:
            cost -= graph.start[n + 1] - graph.start[n]
        if walk.many[n] != np.uint64(0):
            for e in range(graph.start[n], graph.start[n + 1]):
                here = seen_in_copies(graph, layout, walk, graph.child[e], n, variable)
                cost += popcount(here & walk.many[n])
    for index in range(walk.length[1]):
        m = walk.lists[1, index]
        v = child_with_variable(graph, layout, m, variable)
        extra = 0
        if graph.kind[v] != INDICATOR:
            extra = popcount(walk.used[v])
        num_cases = popcount(states_below(graph, layout, m, variable))
        if num_cases == 1:
            cost += extra
        else:
            cost += 3 * num_cases + extra - (2 if graph.start[m + 1] - graph.start[m] == 2 else 1)
    return cost


@allocating_entry
def split_circuit(graph, layout, walk, first, size, variable, new_first):  # type: ignore[no-untyped-def]
    """Return the graph after a split; the parameters of state i begin at new_first + i · size."""
    cost = edge_cost(graph, layout, walk, first, size, variable, NO_LIMIT)
    stamp = walk.stamp[0]
    num_cases = layout.size[variable]
    num_nodes = len(graph.kind)
    room = num_nodes + walk.length[1] * (num_cases + 1)
    copy_at = np.empty(num_nodes, np.int64)  # place of the copies of a node in `copy`
    num_copied = 0
    for part in (0, 2):
        for index in range(walk.length[part]):
            copy_at[walk.lists[part, index]] = num_copied * num_cases
            num_copied += 1
            room += popcount(walk.copies[walk.lists[part, index]])
    copy = np.full(num_copied * num_cases, -1, np.int32)
    moved = np.full(num_nodes, -1, np.int32)
    kind = np.empty(room, np.int8)
    leaf = np.full(room, -1, np.int32)
    start = np.empty(room + 1, np.int64)
    child = np.empty(len(graph.child) + cost, np.int32)
    n_new = 0
    e_new = 0
    start[0] = 0
    one = np.uint64(1)
    for n in range(num_nodes):
        is_above, is_below = walk.mark[n, 0] == stamp, walk.mark[n, 2] == stamp
        if is_above or is_below:
            for i in range(num_cases):
                if not (walk.copies[n] >> np.uint64(i)) & one:
                    continue
                at = copy_at[n] + i
                if graph.kind[n] == PARAMETER:
                    kind[n_new] = PARAMETER
                    leaf[n_new] = new_first + i * size + graph.leaf[n] - first
                    copy[at] = n_new
                    n_new += 1
                    start[n_new] = e_new
                    continue
                begin = e_new
                for e in range(graph.start[n], graph.start[n + 1]):
                    c = graph.child[e]
                    if walk.mark[c, 0] == stamp or walk.mark[c, 2] == stamp:
                        target = copy[copy_at[c] + i]
                    elif states_below(graph, layout, c, variable) != np.uint64(0):
                        target = np.int32(-1)  # indicator of V
                    else:
                        target = moved[c]
                    if target >= 0:
                        child[e_new] = target
                        e_new += 1
                if e_new - begin == 1:
                    e_new = begin
                    copy[at] = child[begin]
                elif e_new > begin:
                    kind[n_new] = graph.kind[n]
                    copy[at] = n_new
                    n_new += 1
                    start[n_new] = e_new
        if is_above or (is_below and not walk.kept[n]):
            continue
        if walk.mark[n, 1] != stamp:
            for e in range(graph.start[n], graph.start[n + 1]):
                child[e_new] = moved[graph.child[e]]
                e_new += 1
            kind[n_new], leaf[n_new] = graph.kind[n], graph.leaf[n]
            moved[n] = n_new
            n_new += 1
            start[n_new] = e_new
            continue
        v = child_with_variable(graph, layout, n, variable)
        d = np.int32(-1)
        for e in range(graph.start[n], graph.start[n + 1]):
            if walk.mark[graph.child[e], 0] == stamp:
                d = graph.child[e]
        seen = states_below(graph, layout, n, variable)
        is_single = popcount(seen) == 1
        first_case = n_new
        for i in range(num_cases):
            if not (seen >> np.uint64(i)) & one:
                continue
            child[e_new] = moved[graph.node_of_state[layout.first[variable] + i]]
            child[e_new + 1] = copy[copy_at[d] + i]
            e_new += 2
            if graph.kind[v] != INDICATOR and copy[copy_at[v] + i] >= 0:
                child[e_new] = copy[copy_at[v] + i]
                e_new += 1
            if not is_single:
                kind[n_new] = PRODUCT
                n_new += 1
                start[n_new] = e_new
        if not is_single:
            for case in range(first_case, n_new):
                child[e_new] = case
                e_new += 1
            kind[n_new] = SUM
            n_new += 1
            start[n_new] = e_new
            if graph.start[n + 1] - graph.start[n] == 2:
                moved[n] = n_new - 1
                continue
            child[e_new] = n_new - 1
            e_new += 1
        for e in range(graph.start[n], graph.start[n + 1]):
            c = graph.child[e]
            if c != v and c != d:
                child[e_new] = moved[c]
                e_new += 1
        kind[n_new] = PRODUCT
        moved[n] = n_new
        n_new += 1
        start[n_new] = e_new
    num_parameters = new_first + size * num_cases
    return new_growing_circuit(
        kind[:n_new].copy(), leaf[:n_new].copy(), start[: n_new + 1].copy(), child[:e_new],
        layout, len(graph.node_of_state), num_parameters,
    )  # fmt: skip
