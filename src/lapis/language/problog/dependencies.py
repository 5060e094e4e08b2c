"""Dependencies between ground atoms: components, and atoms that break their cycles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

Node = TypeVar("Node")
Parents = Callable[[Node], Sequence[Node]]


def order_components(nodes: Sequence[Node], parents: Parents[Node]) -> Iterator[list[Node]]:
    """Yield strongly connected components, each after those that it depends on (Tarjan 1972).

    >>> edges = {1: [2], 2: [1, 3], 3: []}
    >>> [sorted(found) for found in order_components([1, 2, 3], edges.__getitem__)]
    [[3], [1, 2]]
    """
    number: dict[Node, int] = {}
    low: dict[Node, int] = {}
    stack: list[Node] = []
    on_stack: set[Node] = set()
    for root in nodes:
        if root in number:
            continue
        work: list[tuple[Node, Iterator[Node]]] = [(root, iter(parents(root)))]
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            other = next(rest, None)
            if other is not None:
                if other not in number:
                    number[other] = low[other] = len(number)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(parents(other))))
                elif other in on_stack:
                    low[node] = min(low[node], number[other])
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[node])
            if low[node] == number[node]:
                place = stack.index(node)
                component = stack[place:]
                del stack[place:]
                on_stack.difference_update(component)
                yield component


def break_cycles(component: Sequence[Node], parents: Parents[Node]) -> list[Node]:
    """Choose nodes whose removal leaves no cycle: those with most edges first.

    >>> edges = {1: [2, 3], 2: [1], 3: [1]}
    >>> break_cycles([1, 2, 3], edges.__getitem__)
    [1]
    """
    inside = set(component)
    below: dict[Node, set[Node]] = {n: {p for p in parents(n) if p in inside} for n in component}
    above: dict[Node, set[Node]] = {n: set() for n in component}
    for node, own in below.items():
        for parent in own:
            above[parent].add(node)

    def remove(node: Node) -> list[Node]:
        touched = [*below.pop(node), *above.pop(node)]
        for other in touched:
            if other in below:
                below[other].discard(node)
                above[other].discard(node)
        return touched

    chosen: list[Node] = []
    waiting = list(component)
    while below:
        while waiting:
            node = waiting.pop()
            if node in below and not (below[node] and above[node]):
                waiting += remove(node)
        if below:
            node = max(below, key=lambda n: len(below[n]) * len(above[n]) + 1e6 * (n in below[n]))
            chosen.append(node)
            waiting += remove(node)
    return chosen


def sort_others(
    component: Sequence[Node], chosen: Sequence[Node], parents: Parents[Node]
) -> list[Node]:
    """Sort the nodes that are not chosen, each after those that it depends on."""
    inside = set(component) - set(chosen)
    kept = [node for node in component if node in inside]
    edges: Mapping[Node, list[Node]] = {
        node: [parent for parent in parents(node) if parent in inside] for node in kept
    }
    return [node for [node] in order_components(kept, edges.__getitem__)]
