"""Branch and bound for networks that are maximum weight independent sets.

If every soft clause is a unit and every hard clause forbids a pair of preferred literals, a most
likely world is an independent set of greatest weight in the graph of conflicts (auctions, maximum
clique, packing). Linear programs are weak there: values of 1/2 satisfy every pair. Colouring is
strong: of a class of pairwise conflicting literals at most one holds.

The search is that of Tomita & Seki (An Efficient Branch-and-Bound Algorithm for Finding a Maximum
Clique, 2003) with candidates as bits (San Segundo, Rodríguez-Losada & Jiménez 2011), over the graph
of pairs without conflict. Weights are divided between classes (Held, Cook & Sewell, Maximum-Weight
Stable Sets and Safe Lower Bounds for Graph Coloring, 2012): a class takes the least remaining
weight of its vertices from all of them, and the sum of these is the bound. Candidates are tried in
reverse order of using up their weight, until current + bound cannot improve.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lapis.inference.exact.elimination_order import popcount
from lapis.inference.map.map_objective import RESOLUTION, ComponentResult, MapObjective
from lapis.runtime.kernels import allocating_entry, allocating_inner
from lapis.runtime.progress import Stop

MAX_VERTICES = 1500
CHUNK = 20_000  # nodes between checks of the time
SLACK = RESOLUTION  # least gain of a better set; weights are scaled to at most 1


@dataclass(frozen=True)
class Conflicts:
    """Preferred literals, and the pairs that exclude each other."""

    literal: np.ndarray  # bool[num_atoms], the preferred value of each atom
    vertex: np.ndarray  # int64[num_vertices], atoms with a preference
    weight: np.ndarray  # float64[num_vertices], lost where the atom has the other value
    edge: np.ndarray  # int64[num_edges, 2], vertices


def find_conflicts(objective: MapObjective) -> Conflicts | None:
    """Return the graph of an objective that is an independent set problem; None if it is not."""
    hard, length = objective.hard, objective.length
    if len(objective.block_exact) or (length != np.where(hard, 2, 1)).any():
        return None
    units = np.flatnonzero(~hard)
    literal = objective.rows_of(units, 1)[:, 0]
    gain = np.where(literal > 0, objective.weight[units], -objective.weight[units])
    atom = np.abs(literal) - 1
    net = np.bincount(atom, gain, objective.num_atoms)
    rows = objective.rows_of(np.flatnonzero(hard), 2)
    # An atom without preference gets the value that falsifies its literals.
    literal_sign = np.zeros(objective.num_atoms)
    literal_sign[np.abs(rows[:, 0]) - 1] = np.sign(rows[:, 0])
    literal_sign[np.abs(rows[:, 1]) - 1] = np.sign(rows[:, 1])
    preferred = np.where(net != 0, net > 0, literal_sign < 0)
    if ((rows > 0) == preferred[np.abs(rows) - 1]).any():
        return None
    vertex = np.flatnonzero(net != 0)
    place = np.full(objective.num_atoms, -1, np.int64)
    place[vertex] = np.arange(len(vertex))
    edge = place[np.abs(rows) - 1]
    return Conflicts(preferred, vertex, np.abs(net[vertex]), edge[(edge >= 0).all(axis=1)])


def solve_independent_set(
    objective: MapObjective,
    conflicts: Conflicts,
    *,
    start: np.ndarray | None = None,
    stop: Stop | None = None,
) -> ComponentResult:
    """Return the best world; its bound equals its cost if the search was completed."""
    stop = stop or Stop()
    order, compatible = compatible_bits(conflicts)
    weight = conflicts.weight[order] * objective.scale
    count = len(weight)
    chosen = np.zeros(count, bool)
    if start is not None and objective.cost(start) < math.inf:
        atoms = conflicts.vertex[order]
        chosen = start[atoms] == conflicts.literal[atoms]
    search = BranchState(
        np.zeros((count + 1, compatible.shape[1]), np.uint64),
        np.zeros((count + 1, count), np.int32),
        np.zeros((count + 1, count)),
        np.zeros(count + 1, np.int64),
        np.zeros(count + 1),
        np.zeros(count, np.int32),
        chosen,
        np.array([float(weight[chosen].sum()), 0.0]),
        np.zeros(2, np.int64),
    )
    begin_search(compatible, weight, search)
    done = False
    while not done and not stop.is_over():
        done = visit_sets(compatible, weight, search, CHUNK)
    kept = np.zeros(count, bool)
    kept[order] = search.best
    world = ~conflicts.literal
    world[conflicts.vertex] ^= kept
    cost = objective.cost(world)
    left = cost if done else (float(weight.sum()) - search.weight[1]) / objective.scale
    bound = min(cost, objective.least_cost(left))
    return ComponentResult(world, cost, "branch-and-bound", bound)


def compatible_bits(conflicts: Conflicts) -> tuple[np.ndarray, np.ndarray]:
    """Return an order of the vertices, and for each the bits of its compatible vertices.

    The vertex compatible with the fewest others is placed last, repeatedly, so that the search
    starts with small sets of candidates.
    """
    count = len(conflicts.vertex)
    is_compatible = np.ones((count, count), bool)
    np.fill_diagonal(is_compatible, False)
    is_compatible[conflicts.edge[:, 0], conflicts.edge[:, 1]] = False
    is_compatible[conflicts.edge[:, 1], conflicts.edge[:, 0]] = False
    degree = is_compatible.sum(axis=1).astype(np.int64)
    order = np.empty(count, np.int64)
    for place in range(count - 1, -1, -1):
        vertex = int(np.argmin(degree))
        order[place] = vertex
        degree -= is_compatible[vertex]
        degree[vertex] = 2 * count
    packed = np.packbits(is_compatible[np.ix_(order, order)], axis=1, bitorder="little")
    words = np.zeros((count, 8 * ((count + 63) // 64)), np.uint8)
    words[:, : packed.shape[1]] = packed
    return order, words.view("<u8").astype(np.uint64)


class BranchState(NamedTuple):
    """The state of the search; row d belongs to the d-th vertex taken."""

    candidate: np.ndarray  # uint64[num_vertices + 1, num_words]
    order: np.ndarray  # int32[num_vertices + 1, num_vertices], candidates worth a try
    bound: np.ndarray  # float64[num_vertices + 1, num_vertices], of each and all before it
    left: np.ndarray  # int64[num_vertices + 1], candidates not tried yet
    gained: np.ndarray  # float64[num_vertices + 1], weight of the vertices taken
    taken: np.ndarray  # int32[num_vertices]
    best: np.ndarray  # bool[num_vertices]
    weight: np.ndarray  # float64[2], of the best set, and an upper bound
    position: np.ndarray  # int64[2], depth and nodes


@allocating_entry
def begin_search(compatible, weight, search):  # type: ignore[no-untyped-def]
    """Set up the search."""
    for v in range(len(weight)):
        search.candidate[0, v >> 6] |= np.uint64(1) << np.uint64(v & 63)
    _colour(compatible, weight, search, 0)
    if search.left[0] > 0:
        search.weight[1] = search.bound[0, search.left[0] - 1]
    search.weight[1] = max(search.weight[1], search.weight[0])


@allocating_entry
def visit_sets(compatible, weight, search, max_nodes):  # type: ignore[no-untyped-def]
    """Visit up to `max_nodes` sets; return True if no set is left."""
    num_words = compatible.shape[1]
    for _ in range(max_nodes):
        depth = search.position[0]
        while depth >= 0:
            last = search.left[depth] - 1
            if last >= 0 and search.gained[depth] + search.bound[depth, last] > (
                search.weight[0] + SLACK
            ):
                break
            depth -= 1
        search.position[0] = depth
        if depth < 0:
            search.position[0] = 0
            search.left[0] = 0
            return True
        search.position[1] += 1
        last = search.left[depth] - 1
        v = search.order[depth, last]
        search.left[depth] = last
        search.candidate[depth, v >> 6] &= ~(np.uint64(1) << np.uint64(v & 63))
        search.taken[depth] = v
        search.gained[depth + 1] = search.gained[depth] + weight[v]
        for word in range(num_words):
            search.candidate[depth + 1, word] = search.candidate[depth, word] & compatible[v, word]
        if search.gained[depth + 1] > search.weight[0] + SLACK:
            search.weight[0] = search.gained[depth + 1]
            search.best[:] = False
            for d in range(depth + 1):
                search.best[search.taken[d]] = True
        _colour(compatible, weight, search, depth + 1)
        search.position[0] = depth + 1
    return False


@allocating_inner
def _colour(compatible, weight, search, depth):  # type: ignore[no-untyped-def]
    """Divide the candidates' weight between classes; list those that could improve on the best."""
    num_words = compatible.shape[1]
    rest = search.candidate[depth].copy()
    remaining = weight.copy()
    members = np.empty(len(weight), np.int32)
    enough = search.weight[0] - search.gained[depth]
    total, listed = 0.0, 0
    while True:
        free = rest.copy()
        count = 0
        least = np.inf
        for word in range(num_words):
            while free[word]:
                lowest = free[word] & (~free[word] + np.uint64(1))
                v = (word << 6) + popcount(lowest - np.uint64(1))
                free[word] ^= lowest
                # Vertices compatible with v are in other classes.
                for later in range(word, num_words):
                    free[later] &= ~compatible[v, later]
                members[count] = v
                count += 1
                least = min(least, remaining[v])
        if count == 0:
            break
        total += least
        for i in range(count):
            v = members[i]
            remaining[v] -= least
            if remaining[v] <= 1e-12 * weight[v]:
                rest[v >> 6] &= ~(np.uint64(1) << np.uint64(v & 63))
                if total > enough + SLACK:
                    search.order[depth, listed] = v
                    search.bound[depth, listed] = total
                    listed += 1
    search.left[depth] = listed
