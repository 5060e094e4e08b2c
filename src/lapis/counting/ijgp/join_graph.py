"""Build join graphs of clusters with at most i variables by the mini-bucket schematic.

Variables are ordered, each table is placed in the bucket of its first variable in that order, and
the buckets are processed in turn (Mateescu, Kask, Gogate and Dechter 2010, "Join-Graph Propagation
Algorithms", section 3.2). A bucket is partitioned into *mini-buckets*. Each becomes a cluster,
sends a message over its remaining variables to a later bucket, and is linked to the bucket's other
mini-buckets by the bucket's variable. So the clusters of a variable form a tree along the arcs that
carry it (running intersection), and every variable is counted once.

i is the largest number of variables of a cluster and of a separator. A literal with more than i
variables keeps a cluster of its own size, and a separator with more than i variables is split into
separators of i. Two exceptions are free: a table whose variables all occur in another table shares
its cluster, and a mini-bucket takes every item that does not enlarge it. Hence IJGP(1) is belief
propagation with the literals as factors and one variable in each message. If i exceeds the
treewidth, no bucket is partitioned, the graph is a tree, and propagation is exact.

Variables with a weight for each constant (+x) come last and do not count towards i: the result
needs their joint table anyway, and clusters with them condition on each constant. Otherwise the
estimates of different constants would influence each other through averages.

The order is min-fill. If its width exceeds i and the clause has few variables, an optimal order is
searched over subsets of variables, so that "i > treewidth" refers to the true treewidth.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations

from lapis.counting.ijgp.message_table import Scope
from lapis.relational.contraction import group_connected

_SEARCH_LIMIT = 10  # variables, for the search over 2^n subsets


@dataclass(frozen=True, slots=True)
class Cluster:
    scope: Scope
    tables: tuple[int, ...]  # indices of the network's tables in this cluster


@dataclass(frozen=True, slots=True)
class Arc:
    """Two clusters that exchange messages over `separator`."""

    left: int
    right: int
    separator: Scope


@dataclass(frozen=True)
class JoinGraph:
    clusters: tuple[Cluster, ...]
    arcs: tuple[Arc, ...]
    order: tuple[int, ...]  # of elimination

    @cached_property
    def is_tree(self) -> bool:
        """Whether the graph has no cycle (it may be a forest)."""
        touching: list[set[int]] = [set() for _ in self.clusters]
        for number, arc in enumerate(self.arcs):
            touching[arc.left].add(number)
            touching[arc.right].add(number)
        trees = group_connected(touching, lambda arcs: arcs)
        return len(self.arcs) == len(self.clusters) - len(trees)


@dataclass(slots=True)
class _Item:
    """An entry of a bucket: tables of the network, or the message of an earlier cluster."""

    scope: frozenset[int]
    tables: tuple[int, ...]
    source: int | None = None


@dataclass(slots=True)
class _MiniBucket:
    scope: frozenset[int]
    items: list[_Item]


def build_join_graph(
    scopes: Sequence[Scope], ibound: int, num_variables: int, plus: Scope = ()
) -> JoinGraph:
    """Build clusters for tables over `scopes`; tables over no variable are left out.

    One cluster contains all of `plus`.
    """
    order = order_variables(scopes, ibound, num_variables, plus)
    rank = {variable: position for position, variable in enumerate(order)}
    counted = frozenset(order).difference(plus)
    clusters: list[Cluster] = []
    arcs: list[Arc] = []
    buckets: dict[int, list[_Item]] = {variable: [] for variable in order}

    def place(item: _Item) -> None:
        buckets[min(item.scope, key=rank.__getitem__)].append(item)

    for item in _absorb_scopes(scopes, plus):
        place(item)
    for variable in order:
        previous: int | None = None
        for mini in _partition_bucket(buckets[variable], ibound, counted):
            number = len(clusters)
            tables = tuple(sorted(table for item in mini.items for table in item.tables))
            clusters.append(Cluster(tuple(sorted(mini.scope)), tables))
            for item in mini.items:
                if item.source is not None:
                    arcs.append(Arc(item.source, number, tuple(sorted(item.scope))))
            if previous is not None:
                arcs.append(Arc(previous, number, (variable,)))
            previous = number
            rest = sorted(mini.scope - {variable}, key=rank.__getitem__)
            for part in _split_separator(rest, ibound, counted):
                place(_Item(part, (), number))
    return _merge_subsumed(JoinGraph(tuple(clusters), tuple(arcs), order))


def _merge_subsumed(graph: JoinGraph) -> JoinGraph:
    """Merge each cluster whose scope is a separator into the neighbour at that separator.

    The arcs of a variable still form a tree, and fixed points do not change: the belief of such a
    cluster is a marginal of its neighbour's.
    """
    clusters = dict(enumerate(graph.clusters))
    arcs = list(graph.arcs)

    def subsumed() -> tuple[int, int, Arc] | None:
        for arc in arcs:
            if clusters[arc.right].scope == arc.separator:
                return arc.right, arc.left, arc
            if clusters[arc.left].scope == arc.separator:
                return arc.left, arc.right, arc
        return None

    while (found := subsumed()) is not None:
        gone, home, between = found
        tables = clusters.pop(gone).tables + clusters[home].tables
        clusters[home] = Cluster(clusters[home].scope, tuple(sorted(tables)))
        arcs = [
            Arc(
                home if arc.left == gone else arc.left,
                home if arc.right == gone else arc.right,
                arc.separator,
            )
            for arc in arcs
            if arc is not between
        ]
    number = {old: new for new, old in enumerate(clusters)}
    return JoinGraph(
        tuple(clusters.values()),
        tuple(Arc(number[arc.left], number[arc.right], arc.separator) for arc in arcs),
        graph.order,
    )


def _absorb_scopes(scopes: Sequence[Scope], plus: Scope) -> list[_Item]:
    """Create one item for each maximal scope, with all tables over subsets of it."""
    wanted = {frozenset(scope) for scope in (*scopes, plus) if scope}
    maximal = [scope for scope in wanted if not any(scope < other for other in wanted)]
    maximal.sort(key=sorted)
    items = [_Item(scope, ()) for scope in maximal]
    for table, scope in enumerate(scopes):
        if scope:
            home = next(item for item in items if item.scope.issuperset(scope))
            home.tables += (table,)
    return items


def _partition_bucket(
    items: list[_Item], ibound: int, counted: frozenset[int]
) -> list[_MiniBucket]:
    """Partition a bucket by first fit, largest scopes first."""
    minis: list[_MiniBucket] = []
    for item in sorted(items, key=lambda each: (-len(each.scope), sorted(each.scope))):
        for mini in minis:
            union = mini.scope | item.scope
            if len(union & counted) <= ibound or union == mini.scope:
                mini.scope = union
                mini.items.append(item)
                break
        else:
            minis.append(_MiniBucket(item.scope, [item]))
    return minis


def _split_separator(
    rest: Sequence[int], ibound: int, counted: frozenset[int]
) -> Iterable[frozenset[int]]:
    """Yield the separators of a message: the whole scope, or parts of i variables."""
    inner = [variable for variable in rest if variable in counted]
    plus = [variable for variable in rest if variable not in counted]
    if not rest:
        return
    if len(inner) <= ibound:
        yield frozenset(rest)
        return
    for start in range(0, len(inner), ibound):
        yield frozenset([*inner[start : start + ibound], *(plus if start == 0 else ())])


def order_variables(
    scopes: Iterable[Scope], ibound: int, num_variables: int, plus: Scope = ()
) -> tuple[int, ...]:
    """Return the variables in order of elimination, `plus` last."""
    neighbours: dict[int, set[int]] = {
        variable: set() for variable in range(num_variables) if variable not in plus
    }
    for scope in scopes:
        for left, right in combinations([each for each in scope if each in neighbours], 2):
            neighbours[left].add(right)
            neighbours[right].add(left)
    order, width = _min_fill(neighbours)
    if width >= ibound and len(order) <= _SEARCH_LIMIT:
        best, best_width = _search_order(neighbours)
        if best_width < width:
            order = best
    return (*order, *plus)


def _min_fill(neighbours: dict[int, set[int]]) -> tuple[tuple[int, ...], int]:
    """Return the min-fill order (fewest new neighbour pairs first) and its induced width."""
    graph = {variable: set(adjacent) for variable, adjacent in neighbours.items()}
    order: list[int] = []
    width = 0
    while graph:

        def fill(variable: int) -> tuple[int, int, int]:
            adjacent = graph[variable]
            missing = sum(b not in graph[a] for a, b in combinations(sorted(adjacent), 2))
            return missing, len(adjacent), variable

        variable = min(graph, key=fill)
        adjacent = graph.pop(variable)
        width = max(width, len(adjacent))
        for other in adjacent:
            graph[other] |= adjacent
            graph[other] -= {other, variable}
        order.append(variable)
    return tuple(order), width


def _search_order(neighbours: dict[int, set[int]]) -> tuple[tuple[int, ...], int]:
    """Find an order of least induced width.

    width(S) = min over v ∈ S, eliminated last, of max(width(S − v), degree of v after S − v).
    """

    def degree(variable: int, gone: frozenset[int]) -> int:
        """Count the variables that `variable` reaches through eliminated ones."""
        seen, stack = {variable}, [variable]
        while stack:
            for other in neighbours[stack.pop()] - seen:
                seen.add(other)
                if other in gone:
                    stack.append(other)
        return len(seen - gone) - 1

    @cache
    def best(gone: frozenset[int]) -> tuple[int, tuple[int, ...]]:
        if not gone:
            return 0, ()
        options = []
        for last in sorted(gone):
            width, order = best(gone - {last})
            options.append((max(width, degree(last, gone - {last})), (*order, last)))
        return min(options)

    width, order = best(frozenset(neighbours))
    return order, width
