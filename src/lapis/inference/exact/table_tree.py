"""Junction trees over the tables of a network, with many-valued variables, in numpy.

    P(x) = 1/Z · Π_f table_f[x_scope(f)]

Tables are multiplied as arrays with an axis for each variable, so nothing is ground and no kernel
is loaded: a small network answers in the time of a few hundred numpy calls. The order of
elimination, the tree of cliques and the two passes are those of Lauritzen and Spiegelhalter (1988)
in the form of Hugin (Jensen, Lauritzen, Olesen, 1990): a clique is divided by the message that it
sent before it is multiplied by the answer of its parent.

Values are numbers, not logarithms. Entries of tables are at most 1, and each message is scaled to a
largest entry of 1, so what underflows (below 1e-308) changes no sum that is at least `LEAST_SUM`.
If some sum, or the probability of a possible state, is smaller, the tree gives no answer
(`Underflow`), and the network is ground and summed in logarithms.

Several rows of evidence on the same variables are answered together: every array gets a first axis
for the rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np

from lapis.runtime.progress import Stop, out_of_time

LEAST_SUM = 1e-150  # of a clique whose factors have largest entries of 1
HEURISTICS = ("fill", "weight")
FILL = {"fill": 0, "weight": 1}  # the place of added edges in the cost
FEW_ENTRIES = 1_000_000  # a smaller tree is solved faster than another order is found


class Underflow(ArithmeticError):
    """Numbers of very different size meet; only logarithms can sum them."""


class Table(NamedTuple):
    """A factor: its variables, ascending, and its values with an axis for the rows of evidence."""

    scope: tuple[int, ...]
    value: np.ndarray  # float64[num_rows or 1, size of each variable of the scope], at least 0


@dataclass(slots=True)
class Clique:
    """A node of the tree. Its first variables are summed out, the others are in the parent too."""

    variables: tuple[int, ...]  # in the order of elimination
    num_own: int  # of the variables that are summed out here
    parent: int = -1  # −1: a root
    tables: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TableTree:
    """Cliques, children before parents."""

    sizes: tuple[int, ...]  # of each variable
    cliques: tuple[Clique, ...]
    place: np.ndarray  # int64[num_variables], in the order of elimination; −1: not in the tree

    @property
    def num_entries(self) -> int:
        """The number of entries of all cliques."""
        return sum(self.entries_of(clique) for clique in self.cliques)

    @property
    def width(self) -> int:
        """The number of variables of the largest clique, less one."""
        return max((len(clique.variables) for clique in self.cliques), default=1) - 1

    def entries_of(self, clique: Clique) -> int:
        return math.prod(self.sizes[v] for v in clique.variables)


class Posterior(NamedTuple):
    """The answer to rows of evidence."""

    log_partition: np.ndarray  # float64[num_rows]
    marginal: Mapping[int, np.ndarray]  # float64[num_rows, size] of each asked variable


def find_tree(
    sizes: Sequence[int], scopes: Sequence[Sequence[int]], most_entries: float = math.inf
) -> TableTree | None:
    """Return the smallest tree of several orders of elimination; None if it is too large.

    >>> find_tree([2, 2, 2], [(0, 1), (1, 2)]).num_entries
    8
    """
    best = build_tree(sizes, scopes, find_order(sizes, scopes, HEURISTICS[0]))
    for heuristic in HEURISTICS[1:] if best.num_entries > FEW_ENTRIES else ():
        tree = build_tree(sizes, scopes, find_order(sizes, scopes, heuristic))
        best = min(best, tree, key=lambda each: each.num_entries)
    return best if best.num_entries <= most_entries else None


def find_order(sizes: Sequence[int], scopes: Sequence[Sequence[int]], heuristic: str) -> list[int]:
    """Return the variables of the scopes in an order of elimination.

    The next variable adds the fewest edges, or makes the smallest table; the other measure breaks
    ties. Neighbours are the bits of integers.
    """
    adjacent = find_neighbours(scopes)
    logs = [math.log2(size) for size in sizes]

    def cost(v: int) -> tuple[float, float, int]:
        near = adjacent[v]
        members = bits_of(near)
        weight = logs[v] + sum(logs[u] for u in members)
        fill = sum((near & ~adjacent[u]).bit_count() - 1 for u in members)
        return (fill, weight, v) if heuristic == "fill" else (weight, fill, v)

    costs = {v: cost(v) for v in adjacent}
    heap = list(costs.values())
    heapify(heap)
    order: list[int] = []
    while heap:
        lowest = heappop(heap)
        v = lowest[-1]
        if costs.get(v) != lowest:
            continue  # its cost has changed, or it is eliminated
        del costs[v]
        order.append(v)
        near = adjacent.pop(v)
        changed = near
        adds_edges = lowest[FILL[heuristic]] > 0
        for u in bits_of(near):
            adjacent[u] = (adjacent[u] | near) & ~(1 << u | 1 << v)
            if adds_edges:  # which may complete triangles of other variables
                changed |= adjacent[u]
        for u in bits_of(changed):
            costs[u] = cost(u)
            heappush(heap, costs[u])
    return order


def find_neighbours(scopes: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return the neighbours of each variable as bits of an integer."""
    adjacent: dict[int, int] = {}
    for scope in scopes:
        together = sum(1 << v for v in scope)
        for v in scope:
            adjacent[v] = (adjacent.get(v, 0) | together) & ~(1 << v)
    return adjacent


def bits_of(number: int) -> list[int]:
    """Return the places of the bits of a number.

    >>> bits_of(0b1010)
    [1, 3]
    """
    found = []
    while number:
        low = number & -number
        found.append(low.bit_length() - 1)
        number ^= low
    return found


def build_tree(
    sizes: Sequence[int], scopes: Sequence[Sequence[int]], order: Sequence[int]
) -> TableTree:
    """Build the cliques of an order of elimination; cliques inside others are merged with them."""
    place = np.full(len(sizes), -1)
    place[list(order)] = np.arange(len(order))
    adjacent = find_neighbours(scopes)
    cliques: list[Clique] = []
    for v in order:
        near = adjacent.pop(v)
        members = sorted(bits_of(near), key=place.__getitem__)
        for u in members:
            adjacent[u] = (adjacent[u] | near) & ~(1 << u | 1 << v)
        cliques.append(Clique((v, *members), 1, int(place[members[0]]) if members else -1))
    home = merge_cliques(cliques)
    for number, scope in enumerate(scopes):
        if scope:
            cliques[home[min(place[v] for v in scope)]].tables.append(number)
    kept = [n for n, found in enumerate(home) if found == n]
    new = {old: number for number, old in enumerate(kept)}
    for old in kept:
        parent = cliques[old].parent
        cliques[old].parent = new[home[parent]] if parent >= 0 else -1
    return TableTree(tuple(sizes), tuple(cliques[old] for old in kept), place)


def merge_cliques(cliques: list[Clique]) -> list[int]:
    """Merge a clique that lies within a child with it; return the clique that each became.

    The merged clique stands at the parent's place, behind the children of both.
    """
    home = list(range(len(cliques)))
    inside: dict[int, int] = {}  # the parent's place → a child whose separator is all of it
    for number, clique in enumerate(cliques):
        child = inside.get(number)
        if child is not None:
            own = cliques[child]
            cliques[number] = Clique(own.variables, own.num_own + 1, clique.parent)
            home[child] = number
            clique = cliques[number]
        parent = clique.parent
        if parent >= 0 and len(clique.variables) - clique.num_own == len(cliques[parent].variables):
            inside.setdefault(parent, number)
    for number in reversed(range(len(home))):
        home[number] = home[home[number]]
    return home


def solve_tree(
    tree: TableTree, tables: Sequence[Table], asked: Sequence[int], stop: Stop | None = None
) -> Posterior:
    """Return log Z and the marginals of asked variables of the tree, for each row of evidence.

    `tables` are those of the scopes that the tree was built for. Raise Underflow if a row is
    impossible, or if values of very different size meet; TooLarge if the time is up.
    """
    aligned = [align(table, tree.place) for table in tables]
    values, messages, log_scale = collect(tree, aligned, np.add, stop)
    roots = [v for v, clique in zip(values, tree.cliques, strict=True) if clique.parent < 0]
    sums = [reduce_to_rows(value, np.add) for value in roots]
    if any((each < LEAST_SUM).any() for each in sums):
        raise Underflow
    log_partition = log_scale + sum(np.log(each) for each in sums)
    if not asked:
        return Posterior(log_partition, {})
    distribute(tree, values, messages, np.add, stop)
    marginal = read_marginals(tree, values, asked, np.add)
    marginal = {v: found / found.sum(axis=1, keepdims=True) for v, found in marginal.items()}
    check_zeros(tree, aligned, marginal, stop)
    return Posterior(log_partition, marginal)


def check_zeros(
    tree: TableTree,
    aligned: Sequence[Table],
    marginal: Mapping[int, np.ndarray],
    stop: Stop | None,
) -> None:
    """Raise Underflow if a marginal is zero, or nearly, and its state is possible.

    The same passes with maxima of 0 and 1 tell which states are possible.
    """
    small = [v for v, found in marginal.items() if found.min() < LEAST_SUM]
    if not small:
        return
    marked = [Table(each.scope, (each.value > 0.0).astype(np.float64)) for each in aligned]
    values, messages, _ = collect(tree, marked, np.maximum, stop)
    distribute(tree, values, messages, np.maximum, stop)
    possible = read_marginals(tree, values, small, np.maximum)
    if any(((marginal[v] < LEAST_SUM) & (possible[v] > 0.0)).any() for v in small):
        raise Underflow


def align(table: Table, place: np.ndarray) -> Table:
    """Sort the axes of a table by the order of elimination."""
    order = sorted(range(len(table.scope)), key=lambda axis: place[table.scope[axis]])
    value = table.value.transpose(0, *(axis + 1 for axis in order))
    return Table(tuple(table.scope[axis] for axis in order), value)


def collect(
    tree: TableTree, tables: Sequence[Table], combine: np.ufunc, stop: Stop | None
) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """Pass messages to the roots: return the values of all cliques, the messages, log scales."""
    values: list[np.ndarray] = []
    messages: list[np.ndarray] = []
    inbox: list[list[Table]] = [[] for _ in tree.cliques]
    log_scale = np.zeros(1)
    for number, clique in enumerate(tree.cliques):
        check_stop(stop)
        factors = [*(tables[each] for each in clique.tables), *inbox[number]]
        value = multiply(tree.sizes, clique.variables, factors)
        values.append(value)
        if clique.parent < 0:
            messages.append(value)
            continue
        message = combine.reduce(value, axis=tuple(range(1, clique.num_own + 1)))
        largest = reduce_to_rows(message, np.maximum)
        if (largest < LEAST_SUM).any():
            raise Underflow
        message = message / largest.reshape(-1, *[1] * (message.ndim - 1))
        log_scale = log_scale + np.log(largest)
        messages.append(message)
        inbox[clique.parent].append(Table(clique.variables[clique.num_own :], message))
    return values, messages, log_scale


def distribute(
    tree: TableTree,
    values: list[np.ndarray],
    messages: Sequence[np.ndarray],
    combine: np.ufunc,
    stop: Stop | None,
) -> None:
    """Pass messages from the roots; values become proportional to the marginals of cliques."""
    for number in reversed(range(len(tree.cliques))):
        clique = tree.cliques[number]
        if clique.parent < 0:
            continue
        check_stop(stop)
        parent = tree.cliques[clique.parent]
        separator = clique.variables[clique.num_own :]
        found = reduce_to(values[clique.parent], parent.variables, separator, combine)
        largest = reduce_to_rows(found, np.maximum)
        found = found / largest.reshape(-1, *[1] * (found.ndim - 1))
        sent = messages[number]
        ratio = np.divide(found, sent, out=np.zeros_like(found), where=sent > 0.0)
        shape = (len(ratio), *[1] * clique.num_own, *ratio.shape[1:])
        values[number] = values[number] * ratio.reshape(shape)


def read_marginals(
    tree: TableTree, values: Sequence[np.ndarray], asked: Sequence[int], combine: np.ufunc
) -> dict[int, np.ndarray]:
    """Return float64[num_rows, size] of each asked variable, from the smallest clique with it."""
    home: dict[int, int] = {}
    by_size = sorted(range(len(values)), key=lambda n: -values[n].size)
    for number in by_size:
        home |= dict.fromkeys(tree.cliques[number].variables, number)
    return {
        v: reduce_to(values[home[v]], tree.cliques[home[v]].variables, (v,), combine) for v in asked
    }


def multiply(
    sizes: Sequence[int], variables: tuple[int, ...], factors: Sequence[Table]
) -> np.ndarray:
    """Return the product of factors as an array over all variables, the small factors first."""
    shaped = []
    for scope, value in factors:
        inside = set(scope)
        shape = [sizes[v] if v in inside else 1 for v in variables]
        shaped.append(value.reshape(len(value), *shape))
    shaped.sort(key=np.size)
    product = shaped[0]
    for value in shaped[1:]:
        product = product * value
    return product


def reduce_to(
    value: np.ndarray, variables: Sequence[int], kept: Sequence[int], combine: np.ufunc
) -> np.ndarray:
    """Combine over all variables that are not kept."""
    axes = tuple(axis + 1 for axis, v in enumerate(variables) if v not in kept)
    return np.asarray(combine.reduce(value, axis=axes))


def reduce_to_rows(value: np.ndarray, combine: np.ufunc) -> np.ndarray:
    """Combine over all variables, float64[num_rows]."""
    return np.asarray(combine.reduce(value, axis=tuple(range(1, value.ndim))))


def check_stop(stop: Stop | None) -> None:
    """Raise TooLarge if the time of exact work is up."""
    if stop is not None and stop.is_over():
        raise out_of_time("exact inference")
