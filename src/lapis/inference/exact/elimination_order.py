"""Elimination orders of a graph of variables: greedy search, and by degree for any size.

The cost of an order is Σ Π sizes over the cliques {variable} ∪ {remaining neighbours}: the entries
of all tables of the junction tree. Finding the cheapest order is NP-hard; greedy rules come close
(Kjærulff 1990; Koller & Friedman, Probabilistic Graphical Models, 9.4.3):

- min-fill: eliminate the variable that connects the fewest pairs of neighbours; ties by weight;
- min-weight: the one with the smallest clique; ties by fill;
- both with random noise on their scores, as ties are many and matter;
- sweeps through the graph (in the given order, and reverse Cuthill–McKee), which suit grids and
  chains of cliques, where greedy rules start on all sides and meet in large cliques.

Tries continue while they cost little compared with the tables of the best order. Adjacency is a bit
matrix, so this search is for graphs of up to `MAX_DENSE` variables.

By degree (`low_degree_order`). Eliminating a variable joins the factors (cubes, and earlier
messages) with it and leaves a message over its neighbours. A variable is a candidate while it has
at most `max_scope` neighbours with at most `max_entries` joint states. Candidates wait on a stack
for each number of neighbours and are checked again when taken. Stacks continue next to the last
elimination and sweep through chains and ladders; queues started everywhere and met in tables over
eight variables instead of three.

A million leaves of a hub must not cost a million scans of the hub. So a scan stops at the first
neighbour too many, and such a variable is scanned again only after all others. Dead factors are
dropped from lists when found, and factors over one variable are not listed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.network.csr import narrow_starts, row_starts
from lapis.network.cubes import Cubes
from lapis.runtime.kernels import allocating_entry, entry, inner
from lapis.runtime.progress import Stop

MAX_DENSE = 20_000
SMALL_ENTRIES = 1 << 14  # below this, only the first orders are tried
MAX_TRIES = 300
TRY_ENTRIES = 10  # a try costs about as much as this many table entries for each pair of variables


class EliminationOrder(NamedTuple):
    """An order and the cost of its tables."""

    variable: np.ndarray  # int32[num_variables], or empty if it costs too much
    entries: float  # Σ clique table sizes, up to where an order was given up
    width: int  # variables in the largest of these cliques, less one
    is_complete: bool


def best_order(
    size: np.ndarray,
    scope_start: np.ndarray,
    scope: np.ndarray,
    max_entries: float,
    rng: np.random.Generator,
    stop: Stop | None = None,
) -> EliminationOrder:
    """Return a cheap order for variables of these sizes.

    Variables of a scope (CSR row) are neighbours. Orders beyond `max_entries` are given up; if all
    are, the result is the one with the smallest cliques up to there.
    """
    num_variables = len(size)
    adjacency = _join_scopes(num_variables, scope_start, scope)
    log_size = np.log2(size.astype(np.float64))
    none = np.empty(0, np.int32)
    best = EliminationOrder(none, np.inf, num_variables, False)

    def attempt(by_fill: bool, noise: float, given: np.ndarray = none) -> None:
        nonlocal best
        if stop is not None:
            stop.check("the search for an elimination order")
        jitter = noise * rng.random(num_variables) if noise else np.zeros(num_variables)
        limit = best.entries if best.is_complete else max_entries
        found = EliminationOrder(
            *_greedy_order(adjacency.copy(), log_size, by_fill, jitter, given, limit)
        )
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
    """Return the width of the min-fill order, an upper bound of the treewidth.

    Variables of a scope (CSR row) are neighbours.
    """
    adjacency = _join_scopes(num_variables, scope_start, np.asarray(scope, np.int32))
    light = np.full(num_variables, 1.0 / num_variables)  # ties: fewest neighbours
    no_jitter, none = np.zeros(num_variables), np.empty(0, np.int32)
    return int(
        EliminationOrder(*_greedy_order(adjacency, light, True, no_jitter, none, np.inf)).width
    )


def sweep_order(num_variables: int, adjacency: np.ndarray) -> np.ndarray:
    """Return the reverse Cuthill–McKee order."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    unpacked = np.unpackbits(adjacency.view(np.uint8), axis=1, bitorder="little")
    graph = csr_array(unpacked[:, :num_variables])
    order: np.ndarray = reverse_cuthill_mckee(graph, symmetric_mode=True)
    return order.astype(np.int32)


@allocating_entry
def _join_scopes(num_variables, start, members):  # type: ignore[no-untyped-def]
    """Return the neighbours of each variable as bits, uint64[num_variables, num_words]."""
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
    """Return the number of ones of a uint64; LLVM compiles this pattern to one instruction."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + (
        (word >> np.uint64(2)) & np.uint64(0x3333333333333333)
    )
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@inner
def _members(row, out):  # type: ignore[no-untyped-def]
    """Write the positions of the ones of a row; return their number."""
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
def _greedy_order(adjacency, log_size, by_fill, jitter, given, limit):  # type: ignore[no-untyped-def]
    """Return an order by the greedy rule, or the given one.

    Stop once it costs more than the limit.
    """
    num_variables = len(adjacency)
    order = np.empty(num_variables, np.int32)
    alive = np.ones(num_variables, np.bool_)
    stale = np.ones(num_variables, np.bool_)
    score = np.zeros(num_variables)
    near = np.empty(num_variables, np.int64)
    far = np.empty(num_variables, np.int64)
    entries, width = 0.0, 0
    for step in range(num_variables):
        if len(given):
            chosen = given[step]
        else:
            chosen = _choose_variable(
                adjacency, log_size, by_fill, jitter, alive, stale, score, near
            )
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
        _connect_neighbours(adjacency, chosen, near[:degree], stale)
        if by_fill and len(given) == 0:
            for u in near[:degree]:
                for place in range(_members(adjacency[u], far)):
                    stale[far[place]] = True
    return order, entries, width, True


@inner
def _choose_variable(adjacency, log_size, by_fill, jitter, alive, stale, score, near):  # type: ignore[no-untyped-def]
    """Return the variable of least score; compute stale scores again."""
    chosen = -1
    for v in range(len(alive)):
        if not alive[v]:
            continue
        if stale[v]:
            score[v] = _score_variable(v, adjacency, log_size, by_fill, near) + jitter[v]
            stale[v] = False
        if chosen < 0 or score[v] < score[chosen]:
            chosen = v
    return chosen


@inner
def _connect_neighbours(adjacency, chosen, near, stale):  # type: ignore[no-untyped-def]
    """Connect the neighbours of an eliminated variable with each other."""
    for u in near:
        for word in range(adjacency.shape[1]):
            adjacency[u, word] |= adjacency[chosen, word]
        for gone in (chosen, u):
            adjacency[u, gone >> 6] &= ~(np.uint64(1) << np.uint64(gone & 63))
        stale[u] = True


@inner
def _score_variable(v, adjacency, log_size, by_fill, near):  # type: ignore[no-untyped-def]
    """Return the rule's measure, plus the other measure as a small term that breaks ties."""
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


NONE = -1


class FactorLists(NamedTuple):
    """The factors of each variable: cubes, and messages as linked lists of (message, next).

    Places are int32 if these are wide enough, else int64.
    """

    begin: np.ndarray  # int[num_variables + 1], into `listed`
    end: np.ndarray  # int[num_variables]
    listed: np.ndarray  # int32[...], the cubes of two variables or more that a variable is in
    dead_cube: np.ndarray  # bool[num_cubes]
    dead_message: np.ndarray  # bool[num_variables]
    scope_start: np.ndarray  # int[num_variables + 1], of messages
    scope_variable: np.ndarray  # int32[...]
    head: np.ndarray  # int[num_variables], the first entry of a variable's messages
    entry_message: np.ndarray  # int32[...]
    entry_next: np.ndarray  # int[...]
    seen: np.ndarray  # int64[num_variables], the last scan that found a variable
    scope: np.ndarray  # int32[max_scope + 1], the neighbours found


class Stacks(NamedTuple):
    """A stack for each number of neighbours, the last for too many; doubly linked."""

    top: np.ndarray  # int32[max_scope + 2]
    under: np.ndarray  # int32[num_variables]
    above: np.ndarray  # int32[num_variables]
    level_of: np.ndarray  # int32[num_variables], the stack a variable is on


def low_degree_order(
    cubes: Cubes, eligible: np.ndarray, max_scope: int, max_entries: float
) -> np.ndarray:
    """Return eligible variables in an order within the limits, int32[num_eliminated]."""
    num_variables = len(cubes.size)
    room = num_variables * max_scope + 1  # unused pages take no memory
    long = np.diff(cubes.start) > 1
    listed = cubes.variable[np.repeat(long, np.diff(cubes.start))]
    begin = narrow_starts(row_starts(np.bincount(listed, minlength=num_variables)))
    place = narrow_starts(np.array([room])).dtype
    work = FactorLists(
        begin,
        begin[:-1].copy(),
        np.empty(begin[-1], np.int32),
        np.zeros(len(long), bool),
        np.zeros(num_variables, bool),
        np.zeros(num_variables + 1, place),
        np.empty(room, np.int32),
        np.full(num_variables, NONE, place),
        np.empty(room, np.int32),
        np.empty(room, place),
        np.full(num_variables, NONE, np.int64),
        np.empty(max_scope + 1, np.int32),
    )
    stacks = Stacks(
        np.full(max_scope + 2, NONE, np.int32),
        *(np.full(num_variables, NONE, np.int32) for _ in range(3)),
    )
    order = np.empty(num_variables, np.int32)
    refused, gone = np.zeros((2, num_variables), bool)
    count = _eliminate_by_degree(
        cubes.size, cubes.start, cubes.variable, eligible, max_scope, float(max_entries),
        work, stacks, refused, gone, order,
    )  # fmt: skip
    return order[:count].copy()


@entry
def _eliminate_by_degree(  # type: ignore[no-untyped-def]
    size, cube_start, cube_variable, eligible, max_scope, max_entries,
    work, stacks, refused, gone, order,
):  # fmt: skip
    """Fill the order; return its length."""
    _list_cubes(cube_start, cube_variable, work)
    for v in range(len(size)):
        if eligible[v]:
            _push_on_stack(v, 0, stacks)
    num_entries, scans, count, level = 0, 0, 0, 0
    while level <= max_scope + 1:
        v = stacks.top[level]
        if v == NONE:
            level += 1
            continue
        _remove_from_stack(v, stacks)
        scans += 1
        neighbours = _neighbours(v, scans, cube_start, cube_variable, work, max_scope)
        refused[v] = neighbours > max_scope or _num_entries(size, work, neighbours) > max_entries
        if refused[v]:
            continue
        if neighbours > level or level > max_scope:
            _push_on_stack(v, neighbours, stacks)
            level = min(level, neighbours)
            continue
        _mark_dead(v, work)
        gone[v] = True
        order[count] = v
        num_entries = _store_message(count, neighbours, num_entries, work)
        for u in work.scope[:neighbours]:
            waits = refused[u] and stacks.level_of[u] != NONE
            if eligible[u] and not gone[u] and not waits:
                _remove_from_stack(u, stacks)
                soon = max_scope + 1 if refused[u] else 0
                _push_on_stack(u, soon, stacks)
                level = min(level, soon)
        count += 1
    return count


@inner
def _num_entries(size, work, neighbours):  # type: ignore[no-untyped-def]
    """Return the joint states of the neighbours found."""
    entries = 1.0
    for at in range(neighbours):
        entries *= size[work.scope[at]]
    return entries


@inner
def _mark_dead(v, work):  # type: ignore[no-untyped-def]
    """Mark the factors of an eliminated variable as used."""
    for at in range(work.begin[v], work.end[v]):
        work.dead_cube[work.listed[at]] = True
    entry = work.head[v]
    while entry != NONE:
        work.dead_message[work.entry_message[entry]] = True
        entry = work.entry_next[entry]


@inner
def _store_message(message, neighbours, num_entries, work):  # type: ignore[no-untyped-def]
    """Store the scope of a message, and list it for its variables; return the entries used."""
    place = work.scope_start[message]
    work.scope_start[message + 1] = place + neighbours
    for at in range(neighbours):
        u = work.scope[at]
        work.scope_variable[place + at] = u
        if neighbours > 1:
            work.entry_message[num_entries] = message
            work.entry_next[num_entries] = work.head[u]
            work.head[u] = num_entries
            num_entries += 1
    return num_entries


@inner
def _list_cubes(cube_start, cube_variable, work):  # type: ignore[no-untyped-def]
    """List the cubes of two variables or more of each variable."""
    for cube in range(len(cube_start) - 1):
        if cube_start[cube + 1] - cube_start[cube] > 1:
            for at in range(cube_start[cube], cube_start[cube + 1]):
                v = cube_variable[at]
                work.listed[work.end[v]] = cube
                work.end[v] += 1


@inner
def _push_on_stack(v, level, stacks):  # type: ignore[no-untyped-def]
    """Put a variable on a stack."""
    first = stacks.top[level]
    stacks.under[v] = first
    stacks.above[v] = NONE
    if first != NONE:
        stacks.above[first] = v
    stacks.top[level] = v
    stacks.level_of[v] = level


@inner
def _remove_from_stack(v, stacks):  # type: ignore[no-untyped-def]
    """Remove a variable from its stack, if it is on one."""
    if stacks.level_of[v] == NONE:
        return
    over, below = stacks.above[v], stacks.under[v]
    if over == NONE:
        stacks.top[stacks.level_of[v]] = below
    else:
        stacks.under[over] = below
    if below != NONE:
        stacks.above[below] = over
    stacks.level_of[v] = NONE


@inner
def _neighbours(v, scan, cube_start, cube_variable, work, max_scope):  # type: ignore[no-untyped-def]
    """Write the neighbours of v to `scope`; return their number, or max_scope + 1 if it is more."""
    work.seen[v] = scan
    count = 0
    at = work.begin[v]
    while at < work.end[v]:
        cube = work.listed[at]
        if work.dead_cube[cube]:
            work.end[v] -= 1
            work.listed[at] = work.listed[work.end[v]]
            continue
        begin, end = cube_start[cube], cube_start[cube + 1]
        count = _add_neighbours(cube_variable, begin, end, scan, work, count, max_scope)
        if count > max_scope:
            return count
        at += 1
    entry, before = work.head[v], np.int64(NONE)
    while entry != NONE:
        message = work.entry_message[entry]
        if work.dead_message[message]:
            if before == NONE:
                work.head[v] = work.entry_next[entry]
            else:
                work.entry_next[before] = work.entry_next[entry]
            entry = work.entry_next[entry]
            continue
        begin, end = work.scope_start[message], work.scope_start[message + 1]
        count = _add_neighbours(work.scope_variable, begin, end, scan, work, count, max_scope)
        if count > max_scope:
            return count
        before = entry
        entry = work.entry_next[entry]
    return count


@inner
def _add_neighbours(members, begin, end, scan, work, count, max_scope):  # type: ignore[no-untyped-def]
    """Add the members not seen in this scan to the scope; return its new length."""
    for at in range(begin, end):
        u = members[at]
        if work.seen[u] != scan:
            if count == max_scope:
                return max_scope + 1
            work.seen[u] = scan
            work.scope[count] = u
            count += 1
    return count
