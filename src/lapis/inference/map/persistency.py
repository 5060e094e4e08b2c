"""Atoms fixed by a minimum cut: all of an attractive network, some of others.

Costs as pairs. A violated clause is a product of literals: with u = ¬l, l₁ ∨ … ∨ l_k of weight w
costs

    w · u₁ ⋯ u_k  if w > 0,      |w| − |w| · u₁ ⋯ u_k  if w < 0.

One literal is a field, two are a coupling: x·ȳ and x̄·y attract, x·y and x̄·ȳ repel; a pair with both
cancels to fields, x·y + x·ȳ = x. Longer negative products need one auxiliary atom,

    −a · u₁ ⋯ u_k = min_z  a · (Σ z·ū_i − z)

(Freedman & Drineas 2005). A positive product of three literals is a negative one and a pair,
a·u₁u₂u₃ = a·u₁u₂ − a·u₁u₂ū₃ (Fix et al. 2011), where u₃ is the literal with the odd sign, so that
the clauses of a weighted conjunction of up to three atoms become attractive. Components with other
clauses, or with blocks, are left to other methods.

Integer weights. Weights are rounded to multiples of a power of two, up to 2^58 at the atom with the
largest sum (over all atoms if there are hard clauses, along which flows add up). Later steps do not
round. `error` bounds the rounding of a world's cost, so the world found costs at most 2·error more
than the best.

Roof duality (Hammer, Hansen & Simeone 1984; Boros & Hammer 2002). Each literal is a node. The cost
a·u·v is an arc u → v̄ and its mirror v → ū of capacity a; the cost of one literal comes from the
source or goes to the sink. If x is on the source's side of a minimum cut and x̄ is not, some most
likely world has x true, for all such atoms at once (persistency). A component that is attractive
after flipping signs splits into two mirror halves. One of them is solved (Greig, Porteous & Seheult
1989), and fixes every atom. Of atoms that neither source nor sink reaches, x or x̄ is taken by the
order of strongly connected components, as in 2-SAT; only atoms with x and x̄ in one component stay
open (Kolmogorov & Rother 2007).

Maximum flow: Dinic (1970). Source and sink are no nodes: a node has an excess from the source or,
if negative, to the sink. The breadth-first search stops at the nearest sinks, and paths are walked
back from these. scipy's `maximum_flow` takes twice as long (100,000 smokers with ten friends each:
0.68 s instead of 0.29 s) and has capacities of 32 bits. Persistent search trees (Boykov &
Kolmogorov 2004) gain on long paths, as in images; paths here have at most seven arcs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lapis.inference.map.map_objective import MapObjective, literal_code
from lapis.network.csr import row_starts
from lapis.runtime.kernels import entry, inner

BITS = 58  # of sums of integer weights
INFINITE = 1 << 61  # hard


@dataclass(frozen=True)
class Couplings:
    """Σ field·x over true nodes, and costs of pairs of nodes: atoms first, then auxiliary nodes.

    An attractive pair costs `forward` for x·ȳ and `backward` for x̄·y, a repelling one `forward` for
    x·y and `backward` for x̄·ȳ.
    """

    field: np.ndarray  # int64[num_nodes], cost of true less cost of false; ±INFINITE where hard
    first: np.ndarray  # int32[num_pairs], nodes
    second: np.ndarray  # int32[num_pairs], nodes after the first
    repels: np.ndarray  # bool[num_pairs]
    forward: np.ndarray  # int64[num_pairs], INFINITE where hard
    backward: np.ndarray  # int64[num_pairs]
    taken: np.ndarray  # bool[num_atoms], atoms of the components with this form
    error: np.ndarray  # float64[num_components], Σ |w − rounded w|, of the cost of any world


class QuadraticTerms(NamedTuple):
    """Products of two literals, as codes, and their costs."""

    one: np.ndarray  # int64[num_terms]
    other: np.ndarray  # int64[num_terms]
    cost: np.ndarray  # int64[num_terms]


def build_couplings(objective: MapObjective, component: np.ndarray) -> Couplings:
    """Return the components, int32[num_atoms] labels, as fields and couplings."""
    taken = writable_atoms(objective, component)
    mine = taken[np.abs(objective.literal[objective.clause_start[:-1]]) - 1]
    weight, error = whole_weights(objective, mine, component)
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
    """Return atoms of components without blocks or clauses of other forms, bool[num_atoms]."""
    length = objective.length
    clause = (length <= 2) | (objective.weight < 0) | ((length == 3) & ~objective.hard)
    bad = np.zeros(int(component.max(initial=-1)) + 1, bool)
    first_atom = np.abs(objective.literal[objective.clause_start[:-1]]) - 1
    bad[component[first_atom[~clause]]] = True
    bad[component[objective.block_atom]] = True
    clash = objective.literal[objective.clause_start[:-1][objective.hard & (length == 1)]]
    bad[component[np.abs(clash[np.isin(-clash, clash)]) - 1]] = True  # contradictions of two units
    return ~bad[component]


def whole_weights(
    objective: MapObjective, mine: np.ndarray, component: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return rounded multiples of a power of two, int64[num_clauses]; INFINITE if hard.

    Each component has a power of its own, so that large weights round no weights of others.
    """
    soft = mine & ~objective.hard
    own, count = objective.component_of_clauses(component), int(component.max(initial=-1)) + 1
    # Times 2^−60, so that the sum is finite.
    share = np.abs(np.where(soft, objective.weight, 0.0)) * 2.0**-60 * (objective.length + 1)
    at_atom = np.bincount(
        np.abs(objective.literal) - 1, np.repeat(share, objective.length), objective.num_atoms
    )
    most = np.zeros(count)
    np.maximum.at(most, component, at_atom)
    has_hard = np.bincount(own, mine & objective.hard, count) > 0
    most = np.where(has_hard, np.bincount(own, share, count), most)
    exponent = np.where(most > 0, np.minimum(BITS - 60 - np.frexp(most)[1], 1000), 0)
    scale = np.exp2(exponent.astype(np.float64))[own]
    scaled = np.where(soft, objective.weight, 0.0) * scale
    whole = np.rint(scaled)
    error = np.bincount(own, np.abs(scaled - whole) / scale, count)
    return np.where(objective.hard, INFINITE, whole.astype(np.int64)), error


def add_cost(field: np.ndarray, code: np.ndarray, cost: np.ndarray) -> None:
    """Add a cost of true literals to the fields; ¬x costs c as −c·x does."""
    np.add.at(field, code >> 1, np.where(code & 1, -cost, cost))


def pair_terms(
    objective: MapObjective, clauses: np.ndarray, weight: np.ndarray, field: np.ndarray
) -> QuadraticTerms:
    """Return w·u·v, and −a·u·v = a·u·v̄ − a·u."""
    one, other = literal_code(-objective.rows_of(clauses, 2)).T.astype(np.int64)
    cost = weight[clauses]
    minus = cost < 0
    add_cost(field, one[minus], cost[minus])
    return QuadraticTerms(one, other ^ minus, np.abs(cost))


def long_terms(
    chosen: np.ndarray, weight: np.ndarray, auxiliary: np.ndarray, field: np.ndarray
) -> list[QuadraticTerms]:
    """Return products of three or more literals, int64[num_clauses, length], with auxiliaries."""
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
    """Return pairs (first, second, repels, forward, backward); move cancelled costs to fields."""
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
    """Cancel attraction against repulsion: x·y + x·ȳ = x, and so on; two hard ones stay."""
    x, y = 2 * first, 2 * second
    for attracts, repels, literal in ((1, 0, x), (1, 3, y + 1), (2, 0, y), (2, 3, x + 1)):
        both = np.minimum(cost[attracts], cost[repels])
        both[both >= INFINITE] = 0
        for kind in (attracts, repels):
            cost[kind] -= np.where(cost[kind] < INFINITE, both, 0)
        add_cost(field, literal, both)
    return cost


HUGE = INFINITE >> 1  # larger than any sum of soft capacities


class Residual(NamedTuple):
    """Arcs by their tails, with the remaining capacity."""

    start: np.ndarray  # int64[num_nodes + 1]
    to: np.ndarray  # int32[num_arcs]
    capacity: np.ndarray  # int64[num_arcs], INFINITE never shrinks
    reverse: np.ndarray  # int32[num_arcs], the arc the other way


def build_residual(
    num_nodes: int, tail: np.ndarray, head: np.ndarray, forward: np.ndarray, backward: np.ndarray
) -> Residual:
    """Return two arcs for each edge, int32[num_edges] nodes and int64[num_edges] capacities."""
    tails, heads = np.column_stack((tail, head)).ravel(), np.column_stack((head, tail)).ravel()
    order = np.argsort(tails, kind="stable")
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    reverse = place.reshape(-1, 2)[:, ::-1].reshape(-1)
    return Residual(
        row_starts(np.bincount(tails, minlength=num_nodes)),
        heads[order].astype(np.int32),
        np.column_stack((forward, backward)).ravel()[order],
        reverse[order],
    )


def find_maximum_flow(
    residual: Residual, excess: np.ndarray, should_stop: Callable[[], bool]
) -> np.ndarray | None:
    """Push a maximum flow; return the nodes that the source still reaches, bool[num_nodes].

    Changes the capacities and the excess, int64[num_nodes]. Return None if stopped, or if an
    unbounded flow shows that hard clauses contradict each other.
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


@entry
def _find_levels(residual, excess, level, queue):  # type: ignore[no-untyped-def]
    """Return (number of reached nodes, distance of the nearest sinks or −1)."""
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
    """Find a flow that blocks all shortest paths; return False if one of them has no bound."""
    for node in reached:
        current[node] = residual.start[node]
    for sink in reached:
        if level[sink] != last or excess[sink] >= 0:
            continue
        node, depth = sink, 0
        while excess[sink] < 0:
            if level[node] == 0 and excess[node] > 0:
                if not _push_flow(residual, excess, node, sink, path[:depth]):
                    return False
                node, depth = sink, 0
                continue
            arc = _next_arc(residual, level, current, node)
            if arc >= 0:
                path[depth] = arc
                depth += 1
                node = residual.to[arc]
            elif depth == 0:
                break
            else:
                depth -= 1
                node = residual.to[residual.reverse[path[depth]]]
                current[node] += 1
    return True


@inner
def _next_arc(residual, level, current, node):  # type: ignore[no-untyped-def]
    """Return the next arc of a node that leads one level back towards the source, or −1."""
    while level[node] > 0 and current[node] < residual.start[node + 1]:
        arc = current[node]
        is_open = residual.capacity[residual.reverse[arc]] > 0
        if is_open and level[residual.to[arc]] == level[node] - 1:
            return arc
        current[node] += 1
    return -1


@inner
def _push_flow(residual, excess, node, sink, path):  # type: ignore[no-untyped-def]
    """Push as much as the path from the node to the sink takes; return False if it has no bound."""
    capacity, reverse = residual.capacity, residual.reverse
    amount = min(excess[node], -excess[sink])
    for back in path:
        amount = min(amount, capacity[reverse[back]])
    if amount >= HUGE:
        return False
    if excess[node] < HUGE:
        excess[node] -= amount
    if excess[sink] > -HUGE:
        excess[sink] += amount
    for back in path:
        if capacity[reverse[back]] < HUGE:
            capacity[reverse[back]] -= amount
        if capacity[back] < HUGE:
            capacity[back] += amount
    return True


class Persistent(NamedTuple):
    """Values that some most likely world has, all together."""

    value: np.ndarray  # int8[num_atoms], 1 true, 0 false, −1 open
    gap: float  # bounds the extra cost of the best world with these values
    is_resolved: bool = True  # whether doubles distinguish no better world in any component


class Cover(NamedTuple):
    """The double cover, with one half of each component that has two."""

    literal: np.ndarray  # int64[num_cover_nodes], the code of each node
    is_whole: np.ndarray  # bool[num_cover_nodes], the node of the negation is there too
    residual: Residual
    excess: np.ndarray  # int64[num_cover_nodes], from the source, or to the sink if negative


def find_persistent(
    objective: MapObjective, component: np.ndarray, should_stop: Callable[[], bool]
) -> Persistent:
    """Return the values that cuts fix, in components (int32[num_atoms] labels) of couplings."""
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
    used = np.zeros(len(couplings.error), bool)
    used[component[value >= 0]] = True
    gap = np.where(used, 2.0 * couplings.error, 0.0)
    is_resolved = bool((gap <= objective.component_precision(component)).all())
    return Persistent(value, float(gap.sum()), is_resolved)


def double_cover(couplings: Couplings) -> Cover:
    """Return nodes for literals, edges for pairs and mirrors, without the second halves."""
    first, second = 2 * couplings.first, 2 * couplings.second + couplings.repels
    size = 2 * len(couplings.field)
    own = label_halves(size, first, second)
    mirror = own.reshape(-1, 2)[:, ::-1].reshape(-1)
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


def label_halves(size: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the connected component of each literal in the double cover, int32[size]."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    one, other = np.concatenate((first, first ^ 1)), np.concatenate((second, second ^ 1))
    graph = coo_array((np.ones(len(one), np.int8), (one, other)), (size, size))
    label: np.ndarray = connected_components(graph, directed=False)[1]
    return label


def read_values(cover: Cover, reached: np.ndarray, num_nodes: int) -> np.ndarray:
    """Return the values that follow from the reached nodes, int8[num_nodes]."""
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
    """Return nodes in a later strongly connected component than their negations, bool[num_tied]."""
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
    if (order[tail] < order[head]).any():  # scipy did not number them in reverse order
        return np.zeros(len(tied), bool)
    # Both nodes of an atom are tied and adjacent: codes 2·atom and 2·atom + 1.
    mirror = order.reshape(-1, 2)[:, ::-1].reshape(-1)
    return order < mirror
