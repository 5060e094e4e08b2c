"""Costs as fields on atoms and couplings of pairs, in whole numbers.

A violated clause is a product of literals: with u = ¬l, the clause l₁ ∨ … ∨ l_k of weight w costs

    w · u₁ ⋯ u_k  where w > 0,      |w| − |w| · u₁ ⋯ u_k  where w < 0.

One literal is a field, two are a coupling: x·ȳ and x̄·y attract, x·y and x̄·ȳ repel, and where a pair
has both they cancel to fields, x·y + x·ȳ = x. Longer products with a minus need one auxiliary atom,

    −a · u₁ ⋯ u_k = min_z  a · (Σ z·ū_i − z)

(Freedman & Drineas 2005), and three literals with a plus have one with a minus beside a pair,
a·u₁u₂u₃ = a·u₁u₂ − a·u₁u₂ū₃ (Fix et al. 2011), where u₃ is the literal whose sign the others do not
have: so the clauses of a weighted conjunction of up to three atoms come out attractive. Components
with other clauses, or with blocks, are left to other methods.

Weights become multiples of a power of two, 2^58 of them at the atom with the most: doubles within
five bits of that are kept exactly, and what is lost of others is added up in `error`. From there on
nothing is rounded, so a cut is minimal or it is not. (Where there are hard clauses, flows add up
along them, and it is 2^58 for all atoms together.)

Maximum flow in whole numbers: shortest augmenting paths, many at a time.

Dinic (1970): distances from the source by breadth first search, then paths along increasing
distance until none is left, and again until the sink is out of reach. What the source still
reaches is then the smallest source side of a minimum cut.

Deviations. Source and sink are no nodes: a node has an excess, which comes from the source or, if
negative, goes to the sink. The search ends at the distance of the nearest sinks, and paths are
walked backwards from those, where every step but a saturated one leads to the source.

Others weighed: scipy's `maximum_flow`, also Dinic's, takes twice as long (100,000 smokers with ten
friends each: 0.68 s to 0.29 s), and has capacities and totals of 32 bits, so that the weights of a
million would be rounded to a thousandth. Search trees that are kept (Boykov & Kolmogorov 2004) gain
where paths are long, as in images; here they have seven arcs at most.

Atoms that a minimum cut settles: all of an attractive network, a part of any other.

Roof duality (Hammer, Hansen & Simeone 1984; Boros & Hammer 2002). Each literal is a node; what two
literals pay together, a·u·v, is an arc u → v̄ and its mirror v → ū of capacity a; what one pays
comes from the source or goes to the sink. A minimum cut of this double cover is twice the best
bound that the linear program of the pairs has, and it settles atoms: where x is on the source's
side and x̄ is not, some most likely world has x true, all such atoms at once (persistency).

A component that attracts after changing the signs of some atoms falls apart, in the double cover,
into two mirrored halves. One of them is kept: its minimum cut is the minimum cut of Greig,
Porteous & Seheult (1989), and settles every atom.

Atoms that neither source nor sink reaches are ties of the bound. Any set of literals that no
residual arc leaves is a minimum cut too, so of x and x̄ the one is taken that comes later in the
order of strongly connected components, as for clauses of two literals; only atoms with x and x̄ in
one component are left open (Kolmogorov & Rother 2007).

What rounding does: the cut is minimal for whole-number weights, which no world's cost misses by
more than `error`; so the world that follows costs at most 2·error more than the best.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lapis.inference.map.objective import MapObjective, literal_code
from lapis.network.components import find_root, number_trees
from lapis.runtime.kernels import allocating_entry, entry

BITS = 58  # of sums of soft weights
INFINITE = 1 << 61  # hard


@dataclass(frozen=True)
class Couplings:
    """Σ field·x over true nodes, and what pairs of nodes pay; atoms first, then auxiliary nodes.

    A pair that attracts pays `forward` for x·ȳ and `backward` for x̄·y, one that repels `forward`
    for x·y and `backward` for x̄·ȳ.
    """

    field: np.ndarray  # int64[num_nodes], cost of true less cost of false; ±INFINITE where hard
    first: np.ndarray  # int32[num_pairs], nodes
    second: np.ndarray  # int32[num_pairs], nodes after the first
    repels: np.ndarray  # bool[num_pairs]
    forward: np.ndarray  # int64[num_pairs], INFINITE where hard
    backward: np.ndarray  # int64[num_pairs]
    taken: np.ndarray  # bool[num_atoms], those of the components that can be written so
    error: float  # Σ |w − rounded w|: no world's cost is further away from its true one


class QuadraticTerms(NamedTuple):
    """Products of two literals, as codes, and what they cost."""

    one: np.ndarray  # int64[num_terms]
    other: np.ndarray  # int64[num_terms]
    cost: np.ndarray  # int64[num_terms]


def build_couplings(objective: MapObjective, component: np.ndarray) -> Couplings:
    """The components, int32[num_atoms] labels, that are fields and couplings."""
    taken = writable_atoms(objective, component)
    mine = taken[np.abs(objective.literal[objective.clause_start[:-1]]) - 1]
    weight, error = whole_weights(objective, mine)
    long = np.flatnonzero(mine & (objective.length > 2))
    field = np.zeros(objective.num_atoms + len(long), np.int64)
    terms = [pair_terms(objective, np.flatnonzero(mine & (objective.length == 2)), weight, field)]
    auxiliary = objective.num_atoms + np.arange(len(long))
    for length in np.unique(objective.length[long]):
        here = objective.length[long] == length
        chosen = literal_code(-objective.rows_of(long[here], length)).astype(np.int64)
        terms += long_terms(chosen, weight[long[here]], 2 * auxiliary[here], field)
    unit = np.flatnonzero(mine & (objective.length == 1))
    code = literal_code(-objective.literal[objective.clause_start[unit]])
    add_cost(field, code, np.where(objective.hard[unit], 0, weight[unit]))
    joined = QuadraticTerms(*(np.concatenate(columns) for columns in zip(*terms, strict=True)))
    pairs = merge_terms(joined, field)
    must = code[objective.hard[unit]]
    field[must >> 1] = np.where(must & 1, -INFINITE, INFINITE)
    return Couplings(field, *pairs, taken, error)


def writable_atoms(objective: MapObjective, component: np.ndarray) -> np.ndarray:
    """bool[num_atoms], atoms of components whose clauses all have a form above, and no blocks."""
    length = objective.length
    clause = (length <= 2) | (objective.weight < 0) | ((length == 3) & ~objective.hard)
    bad = np.zeros(int(component.max(initial=-1)) + 1, bool)
    first_atom = np.abs(objective.literal[objective.clause_start[:-1]]) - 1
    bad[component[first_atom[~clause]]] = True
    bad[component[objective.block_atom]] = True
    clash = objective.literal[objective.clause_start[:-1][objective.hard & (length == 1)]]
    bad[component[np.abs(clash[np.isin(-clash, clash)]) - 1]] = True  # contradictions of two units
    return ~bad[component]


def whole_weights(objective: MapObjective, mine: np.ndarray) -> tuple[np.ndarray, float]:
    """int64[num_clauses], rounded multiples of a power of two; INFINITE where hard."""
    soft = mine & ~objective.hard
    # Of 2^−60 of the weights, whose sum is finite where theirs is not.
    share = np.where(soft, objective.weight, 0.0) * 2.0**-60 * (objective.length + 1)
    if (mine & objective.hard).any():
        most = float(np.abs(share).sum())
    else:
        by_literal = np.repeat(np.abs(share), objective.length)
        most = float(np.bincount(np.abs(objective.literal) - 1, by_literal).max(initial=0.0))
    scale = 2.0 ** min(BITS - 60 - math.frexp(most)[1], 1000) if most > 0 else 1.0
    scaled = np.where(soft, objective.weight, 0.0) * scale
    whole = np.rint(scaled)
    error = float(np.abs(scaled - whole).sum()) / scale
    return np.where(objective.hard, INFINITE, whole.astype(np.int64)), error


def add_cost(field: np.ndarray, code: np.ndarray, cost: np.ndarray) -> None:
    """A cost of literals that hold; ¬x costs c as −c·x does."""
    np.add.at(field, code >> 1, np.where(code & 1, -cost, cost))


def pair_terms(
    objective: MapObjective, clauses: np.ndarray, weight: np.ndarray, field: np.ndarray
) -> QuadraticTerms:
    """w·u·v, and −a·u·v = a·u·v̄ − a·u."""
    one, other = literal_code(-objective.rows_of(clauses, 2)).T.astype(np.int64)
    cost = weight[clauses]
    minus = cost < 0
    add_cost(field, one[minus], cost[minus])
    return QuadraticTerms(one, other ^ minus, np.abs(cost))


def long_terms(
    chosen: np.ndarray, weight: np.ndarray, auxiliary: np.ndarray, field: np.ndarray
) -> list[QuadraticTerms]:
    """Products of three or more literals, int64[num_clauses, length], each with its auxiliary."""
    plus = weight > 0
    terms = []
    if plus.any():
        literal = chosen[plus]
        odd = literal & 1
        sign = odd.sum(axis=1)
        alone = np.where(sign == 1, odd.argmax(axis=1), np.where(sign == 2, odd.argmin(axis=1), 0))
        row = np.arange(len(literal))
        terms.append(
            QuadraticTerms(
                literal[row, (alone + 1) % 3], literal[row, (alone + 2) % 3], weight[plus]
            )
        )
        literal[row, alone] ^= 1
        chosen[plus] = literal
    cost = np.abs(weight)
    add_cost(field, auxiliary, -cost)
    terms += [QuadraticTerms(auxiliary, column ^ 1, cost) for column in chosen.T]
    return terms


def merge_terms(
    terms: QuadraticTerms, field: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(first, second, repels, forward, backward), the pairs; what cancels goes to the fields."""
    low = np.minimum(terms.one, terms.other)
    high = np.maximum(terms.one, terms.other)
    key, pair = np.unique((low >> 1) * len(field) + (high >> 1), return_inverse=True)
    first, second = np.divmod(key, max(1, len(field)))
    cost = np.zeros((4, len(key)), np.int64)  # of x·y, x·ȳ, x̄·y, x̄·ȳ
    np.add.at(cost, (2 * (low & 1) + (high & 1), pair), terms.cost)
    np.minimum(cost, INFINITE, out=cost)
    mixed = np.flatnonzero((cost[1] + cost[2] > 0) & (cost[0] + cost[3] > 0))
    if len(mixed):
        cost[:, mixed] = cancel(cost[:, mixed], first[mixed], second[mixed], field)
    pieces = []
    for repels, forward, backward in ((False, cost[1], cost[2]), (True, cost[0], cost[3])):
        here = np.flatnonzero((forward > 0) | (backward > 0))
        pieces.append((
            first[here].astype(np.int32), second[here].astype(np.int32),
            np.full(len(here), repels), forward[here], backward[here],
        ))  # fmt: skip
    one, other = pieces
    joined = [np.concatenate(columns) for columns in zip(one, other, strict=True)]
    return joined[0], joined[1], joined[2], joined[3], joined[4]


def cancel(
    cost: np.ndarray, first: np.ndarray, second: np.ndarray, field: np.ndarray
) -> np.ndarray:
    """What attracts against what repels: x·y + x·ȳ = x, and so on; two hard ones stay."""
    x, y = 2 * first, 2 * second
    for attracts, repels, literal in ((1, 0, x), (1, 3, y + 1), (2, 0, y), (2, 3, x + 1)):
        both = np.minimum(cost[attracts], cost[repels])
        both[both >= INFINITE] = 0
        for kind in (attracts, repels):
            cost[kind] -= np.where(cost[kind] < INFINITE, both, 0)
        add_cost(field, literal, both)
    return cost


HUGE = INFINITE >> 1  # no sum of soft capacities is as large


class Residual(NamedTuple):
    """Arcs by their tails, with the capacity that is left."""

    start: np.ndarray  # int64[num_nodes + 1]
    to: np.ndarray  # int32[num_arcs]
    capacity: np.ndarray  # int64[num_arcs], INFINITE never shrinks
    reverse: np.ndarray  # int32[num_arcs], the arc the other way


def build_residual(
    num_nodes: int, tail: np.ndarray, head: np.ndarray, forward: np.ndarray, backward: np.ndarray
) -> Residual:
    """An arc each way for each edge, int32[num_edges] nodes and int64[num_edges] capacities."""
    return Residual(*_build(num_nodes, tail, head, forward, backward))


def find_maximum_flow(
    residual: Residual, excess: np.ndarray, should_stop: Callable[[], bool]
) -> np.ndarray | None:
    """Push all that can flow; bool[num_nodes], what the source still reaches.

    Changes the capacities and the excess, int64[num_nodes]. None if told to stop, or if a flow
    without bound shows that hard clauses contradict each other.
    """
    num_nodes = len(excess)
    level = np.empty(num_nodes, np.int32)
    queue = np.empty(num_nodes, np.int32)
    current = np.empty(num_nodes, np.int64)
    path = np.empty(num_nodes, np.int32)
    while True:
        count, last = _find_levels(residual, excess, level, queue)
        if last < 0:
            return level >= 0
        if not _augment(residual, excess, level, queue[:count], last, current, path):
            return None
        if should_stop():
            return None


@allocating_entry
def _build(num_nodes, tail, head, forward, backward):  # type: ignore[no-untyped-def]
    start = np.zeros(num_nodes + 1, np.int64)
    for edge in range(len(tail)):
        start[tail[edge] + 1] += 1
        start[head[edge] + 1] += 1
    for node in range(num_nodes):
        start[node + 1] += start[node]
    place = start[:-1].copy()
    to = np.empty(2 * len(tail), np.int32)
    reverse = np.empty(2 * len(tail), np.int32)
    capacity = np.empty(2 * len(tail), np.int64)
    for edge in range(len(tail)):
        there, back = place[tail[edge]], place[head[edge]]
        place[tail[edge]] += 1
        place[head[edge]] += 1
        to[there], to[back] = head[edge], tail[edge]
        capacity[there], capacity[back] = forward[edge], backward[edge]
        reverse[there], reverse[back] = back, there
    return start, to, capacity, reverse


@entry
def _find_levels(residual, excess, level, queue):  # type: ignore[no-untyped-def]
    """(number of nodes reached, distance of the nearest sinks or −1)."""
    start, to, capacity, _ = residual
    level[:] = -1
    count = 0
    for node in range(len(excess)):
        if excess[node] > 0:
            level[node] = 0
            queue[count] = node
            count += 1
    last = -1
    at = 0
    while at < count:
        node = queue[at]
        at += 1
        if last >= 0 and level[node] >= last:
            break
        for arc in range(start[node], start[node + 1]):
            other = to[arc]
            if capacity[arc] > 0 and level[other] < 0:
                level[other] = level[node] + 1
                queue[count] = other
                count += 1
                if excess[other] < 0:
                    last = level[other]
    return count, last


@entry
def _augment(residual, excess, level, reached, last, current, path):  # type: ignore[no-untyped-def]
    """A flow that blocks all shortest paths; False if one of them has no bound."""
    start, to, capacity, reverse = residual
    for node in reached:
        current[node] = start[node]
    for sink in reached:
        if level[sink] != last or excess[sink] >= 0:
            continue
        node, depth = sink, 0
        while excess[sink] < 0:
            if level[node] == 0 and excess[node] > 0:
                amount = min(excess[node], -excess[sink])
                for at in range(depth):
                    amount = min(amount, capacity[reverse[path[at]]])
                if amount >= HUGE:
                    return False
                if excess[node] < HUGE:
                    excess[node] -= amount
                if excess[sink] > -HUGE:
                    excess[sink] += amount
                for at in range(depth):
                    back = path[at]
                    if capacity[reverse[back]] < HUGE:
                        capacity[reverse[back]] -= amount
                    if capacity[back] < HUGE:
                        capacity[back] += amount
                node, depth = sink, 0
                continue
            advanced = False
            if level[node] > 0:
                while current[node] < start[node + 1]:
                    arc = current[node]
                    if level[to[arc]] == level[node] - 1 and capacity[reverse[arc]] > 0:
                        path[depth] = arc
                        depth += 1
                        node = to[arc]
                        advanced = True
                        break
                    current[node] += 1
            if advanced:
                continue
            if depth == 0:
                break
            depth -= 1
            node = to[reverse[path[depth]]]
            current[node] += 1
    return True


class Persistent(NamedTuple):
    """Values that some most likely world has, all of them together."""

    value: np.ndarray  # int8[num_atoms], 1 true, 0 false, −1 open
    gap: float  # what the best world with these values may cost more than the best


class Cover(NamedTuple):
    """The double cover, with one half of each component that has two."""

    literal: np.ndarray  # int64[num_cover_nodes], the code of each node
    is_whole: np.ndarray  # bool[num_cover_nodes], the node of the negation is there too
    residual: Residual
    excess: np.ndarray  # int64[num_cover_nodes], from the source, or to the sink if negative


def find_persistent(
    objective: MapObjective, component: np.ndarray, should_stop: Callable[[], bool]
) -> Persistent:
    """What cuts settle of the components, int32[num_atoms] labels, that are made of pairs."""
    couplings = build_couplings(objective, component)
    nothing = np.full(objective.num_atoms, -1, np.int8)
    if not couplings.taken.any():
        return Persistent(nothing, 0.0)
    cover = double_cover(couplings)
    reached = find_maximum_flow(cover.residual, cover.excess, should_stop)
    if reached is None:
        return Persistent(nothing, 0.0)
    value = read_values(cover, reached, len(couplings.field))[: objective.num_atoms]
    value = np.where(couplings.taken, value, nothing)
    return Persistent(value, 2.0 * couplings.error if (value >= 0).any() else 0.0)


def double_cover(couplings: Couplings) -> Cover:
    """Nodes for literals, edges for pairs and their mirrors, without the second halves."""
    first, second = 2 * couplings.first, 2 * couplings.second + couplings.repels
    size = 2 * len(couplings.field)
    label = _label_halves(size, first, second)
    own, mirror = label, label.reshape(-1, 2)[:, ::-1].reshape(-1)
    literal = np.flatnonzero(own <= mirror)
    number = np.full(size, -1, np.int32)
    number[literal] = np.arange(len(literal), dtype=np.int32)
    upright, mirrored = number[first] >= 0, number[first ^ 1] >= 0
    forward, backward = couplings.forward, couplings.backward
    residual = build_residual(
        len(literal),
        np.concatenate((number[first[upright]], number[first[mirrored] ^ 1])),
        np.concatenate((number[second[upright]], number[second[mirrored] ^ 1])),
        np.concatenate((forward[upright], backward[mirrored])),
        np.concatenate((backward[upright], forward[mirrored])),
    )
    field = couplings.field[literal >> 1]
    excess = np.where(literal & 1, field, -field)
    return Cover(literal, own[literal] == mirror[literal], residual, excess)


def read_values(cover: Cover, reached: np.ndarray, num_nodes: int) -> np.ndarray:
    """int8[num_nodes], the values that follow from what the source reaches."""
    value = np.full(num_nodes, -1, np.int8)
    atom, is_negated = cover.literal >> 1, cover.literal & 1
    half = ~cover.is_whole
    value[atom[half]] = reached[half] ^ is_negated[half]
    value[atom[reached]] = 1 - is_negated[reached]
    tied = np.flatnonzero(cover.is_whole & (value[atom] < 0))
    if len(tied):
        chosen = cover.literal[tied][later_literals(cover, tied)]
        value[chosen >> 1] = 1 - (chosen & 1)
    return value


def later_literals(cover: Cover, tied: np.ndarray) -> np.ndarray:
    """bool[num_tied], nodes in a later strongly connected component than their negations."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    residual = cover.residual
    number = np.full(len(cover.literal), -1, np.int32)
    number[tied] = np.arange(len(tied), dtype=np.int32)
    tail = np.repeat(np.arange(len(number)), np.diff(residual.start))
    inner = (number[tail] >= 0) & (number[residual.to] >= 0) & (residual.capacity > 0)
    tail, head = number[tail[inner]], number[residual.to[inner]]
    graph = csr_array((np.ones(len(tail), np.int8), (tail, head)), shape=(len(tied), len(tied)))
    _, order = connected_components(graph, connection="strong")
    if (order[tail] < order[head]).any():  # not numbered from the last to the first
        return np.zeros(len(tied), bool)
    # Both nodes of an atom are tied, and stand next to each other: codes 2·atom and 2·atom + 1.
    mirror = order.reshape(-1, 2)[:, ::-1].reshape(-1)
    return order < mirror


@allocating_entry
def _label_halves(size, first, second):  # type: ignore[no-untyped-def]
    """int32[size], connected component of each literal in the double cover."""
    root = np.arange(size).astype(np.int32)
    for pair in range(len(first)):
        for side in range(2):
            one, other = find_root(root, first[pair] ^ side), find_root(root, second[pair] ^ side)
            if one < other:
                root[other] = one
            else:
                root[one] = other
    return number_trees(root)
