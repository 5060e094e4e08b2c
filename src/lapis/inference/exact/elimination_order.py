"""Good elimination orders of a graph of variables: the best of several greedy ones.

The cost of an order is Σ Π sizes over the cliques {variable} ∪ {neighbours left}, the entries of
all tables that the junction tree keeps. Finding the cheapest order is NP-hard; greedy rules come
close (Kjærulff 1990; Koller & Friedman, Probabilistic Graphical Models, 9.4.3):

- min-fill: eliminate the variable that joins the fewest pairs of neighbours; ties by weight;
- min-weight: the one with the smallest clique; ties by fill;
- both again with random noise on their scores, as ties are many and matter;
- sweeps through the graph (in the order given, and reverse Cuthill–McKee), which are right for
  grids and chains of cliques, where greedy rules start from all sides and meet in large cliques.

Tries go on for as long as they cost little beside the tables of the best order. Adjacency is a bit
matrix, so this is for graphs of up to `MAX_DENSE` variables; larger ones keep the order of degree
of `elimination_order_sparse`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.progress import Stop
from lapis.runtime.kernels import allocating_entry, inner

MAX_DENSE = 20_000
SMALL_ENTRIES = 1 << 14  # no search beyond the first orders
MAX_TRIES = 300
TRY_ENTRIES = 10  # a try costs about as much as this many table entries for each pair of variables


class Order(NamedTuple):
    variable: np.ndarray  # int32[num_variables], or empty if it costs too much
    entries: float  # Σ clique table sizes, of an order given up those of the cliques it had
    width: int  # variables in the largest of these cliques, less one
    is_complete: bool


def best_order(
    size: np.ndarray,
    scope_start: np.ndarray,
    scope: np.ndarray,
    max_entries: float,
    rng: np.random.Generator,
    stop: Stop | None = None,
) -> Order:
    """A cheap order for variables of these sizes; those of a scope (CSR rows) are neighbours.

    Orders beyond `max_entries` are given up. If all are, the result is the one that had the
    smallest cliques so far when it was.
    """
    num_variables = len(size)
    adjacency = _join_scopes(num_variables, scope_start, scope)
    log_size = np.log2(size.astype(np.float64))
    none = np.empty(0, np.int32)
    best = Order(none, np.inf, num_variables, False)

    def attempt(by_fill: bool, noise: float, given: np.ndarray = none) -> None:
        nonlocal best
        if stop is not None:
            stop.check("the search for an elimination order")
        jitter = noise * rng.random(num_variables) if noise else np.zeros(num_variables)
        limit = best.entries if best.is_complete else max_entries
        found = Order(*_greedy(adjacency.copy(), log_size, by_fill, jitter, given, limit))
        if found.is_complete or (not best.is_complete and found.width < best.width):
            best = found

    attempt(True, 0.0)
    attempt(False, 0.0)
    if best.entries > SMALL_ENTRIES:
        attempt(True, 0.0, np.arange(num_variables, dtype=np.int32))
        attempt(True, 0.0, sweep_order(num_variables, adjacency))
        for number in range(MAX_TRIES):
            tried = number if best.is_complete else number + 1
            if 5 * tried * TRY_ENTRIES * num_variables**2 > min(best.entries, max_entries):
                break
            attempt(number % 3 != 2, 1.0 if number % 2 == 0 else 2.0)
    return best


def min_fill_width(num_variables: int, scope_start: np.ndarray, scope: np.ndarray) -> int:
    """The width of the min-fill order, an upper bound of the treewidth.

    Variables of a scope (CSR rows) are neighbours.
    """
    adjacency = _join_scopes(num_variables, scope_start, np.asarray(scope, np.int32))
    light = np.full(num_variables, 1.0 / num_variables)  # ties go to the fewest neighbours
    no_jitter, none = np.zeros(num_variables), np.empty(0, np.int32)
    return int(Order(*_greedy(adjacency, light, True, no_jitter, none, np.inf)).width)


def sweep_order(num_variables: int, adjacency: np.ndarray) -> np.ndarray:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    unpacked = np.unpackbits(adjacency.view(np.uint8), axis=1, bitorder="little")
    graph = csr_array(unpacked[:, :num_variables])
    order: np.ndarray = reverse_cuthill_mckee(graph, symmetric_mode=True)
    return order.astype(np.int32)


@allocating_entry
def _join_scopes(num_variables, start, members):  # type: ignore[no-untyped-def]
    """uint64[num_variables, num_words], the neighbours of each variable as bits."""
    bits = np.zeros((num_variables, (num_variables + 63) // 64), np.uint64)
    for scope in range(len(start) - 1):
        for one in range(start[scope], start[scope + 1]):
            for other in range(start[scope], start[scope + 1]):
                if one != other:
                    u, v = members[one], members[other]
                    bits[u, v >> 6] |= np.uint64(1) << np.uint64(v & 63)
    return bits


@inner
def popcount(word):  # type: ignore[no-untyped-def]
    """The number of ones of a uint64; LLVM knows the pattern and emits one instruction."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + (
        (word >> np.uint64(2)) & np.uint64(0x3333333333333333)
    )
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@inner
def _members(row, out):  # type: ignore[no-untyped-def]
    """Write the positions of the ones of a row; how many."""
    count = 0
    for word in range(len(row)):
        rest = row[word]
        while rest != 0:
            lowest = rest & (~rest + np.uint64(1))
            out[count] = 64 * word + popcount(lowest - np.uint64(1))
            count += 1
            rest ^= lowest
    return count


@allocating_entry
def _greedy(adjacency, log_size, by_fill, jitter, given, limit):  # type: ignore[no-untyped-def]
    """An order by the greedy rule, or the given one; stops once it costs more than the limit."""
    num_variables, num_words = adjacency.shape
    order = np.empty(num_variables, np.int32)
    alive = np.ones(num_variables, np.bool_)
    stale = np.ones(num_variables, np.bool_)
    score = np.zeros(num_variables)
    near = np.empty(num_variables, np.int64)
    far = np.empty(num_variables, np.int64)
    entries, width = 0.0, 0
    for step in range(num_variables):
        chosen = -1
        if len(given):
            chosen = given[step]
        else:
            for v in range(num_variables):
                if not alive[v]:
                    continue
                if stale[v]:
                    score[v] = _score(v, adjacency, log_size, by_fill, near) + jitter[v]
                    stale[v] = False
                if chosen < 0 or score[v] < score[chosen]:
                    chosen = v
        degree = _members(adjacency[chosen], near)
        weight = log_size[chosen]
        for at in range(degree):
            weight += log_size[near[at]]
        entries += 2.0**weight
        width = max(width, degree)
        if entries > limit:
            return order[:0].copy(), entries, width, False
        order[step] = chosen
        alive[chosen] = False
        own_word, own_bit = chosen >> 6, np.uint64(1) << np.uint64(chosen & 63)
        for at in range(degree):
            u = near[at]
            for word in range(num_words):
                adjacency[u, word] |= adjacency[chosen, word]
            adjacency[u, own_word] &= ~own_bit
            adjacency[u, u >> 6] &= ~(np.uint64(1) << np.uint64(u & 63))
            stale[u] = True
        if by_fill and len(given) == 0:
            for at in range(degree):
                for place in range(_members(adjacency[near[at]], far)):
                    stale[far[place]] = True
    return order, entries, width, True


@inner
def _score(v, adjacency, log_size, by_fill, near):  # type: ignore[no-untyped-def]
    """The rule's measure, and the other one as a small addition that breaks ties."""
    degree = _members(adjacency[v], near)
    missing = 0
    weight = log_size[v]
    for at in range(degree):
        u = near[at]
        common = 0
        for word in range(adjacency.shape[1]):
            common += popcount(adjacency[u, word] & adjacency[v, word])
        missing += degree - 1 - common
        weight += log_size[u]
    fill = 0.5 * missing
    return fill + 1e-3 * weight if by_fill else weight + 1e-6 * fill
