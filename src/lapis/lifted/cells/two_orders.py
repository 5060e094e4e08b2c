"""The sum over structures with a linear order, and neighbours in another one.

Elements come in the first order, as in insertion.py. Of the second only neighbours are spoken of,
so it is a path through all elements, and those that have come form fragments of it. A new element
is a fragment by itself, or goes to an end of one, or joins two; at the end there is one. The state
is how many fragments there are by the classes of their ends, how many elements are inside, and the
totals. With k kinds of elements there are k² kinds of fragments: this is for few kinds.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import factorial, prod
from typing import NamedTuple

from lapis.errors import LapisError
from lapis.lifted.cells.cell_tables import Context, Tables, Vector
from lapis.lifted.cells.meetings import Counts, Meetings, Ways, add_counts, refuse_states
from lapis.lifted.cells.numbers import Number, Numbers

NEXT, BEFORE = Context(neighbour=1), Context(neighbour=-1)


class Fragment(NamedTuple):
    """A part of the path, by the classes of its ends."""

    first: int
    last: int
    single: bool  # both ends are one element

    def ends(self) -> list[int]:
        return [self.first] if self.single else [self.first, self.last]


class State(NamedTuple):
    inside: Counts
    fragments: tuple[tuple[Fragment, int], ...]
    used: Vector  # elements of each group that have come
    totals: Vector


def insert_in_two_orders(tables: Tables, numbers: Numbers) -> Number:
    """Z of a sentence with a linear order and a path."""
    order = tables.sentence.order
    assert order is not None
    if order.distance or order.circular or any(any(cell.to_come) for cell in tables.cells):
        raise LapisError(
            "with neighbours of two linear orders nothing can be counted as well",
            code="two-variables",
        )
    meetings = Meetings(tables, numbers)
    sizes = [group.size for group in tables.sentence.groups]
    layer = {State((), (), tuple(0 for _ in sizes), meetings.no_totals): meetings.one()}
    for left in range(sum(sizes) - 1, -1, -1):
        meetings.forget_crowds()
        found: dict[State, Number] = {}
        for state, weight in layer.items():
            for key, more in insert(meetings, state, sizes):
                if sum(number for _, number in key.fragments) <= left + 1:
                    value = meetings.multiply(weight, more)
                    found[key] = found[key] + value if key in found else value
        refuse_states(len(found))
        layer = found
    total = meetings.sum_up((state.totals, weight) for state, weight in layer.items())
    return total * prod(map(factorial, sizes))


def insert(meetings: Meetings, state: State, sizes: list[int]) -> Iterator[tuple[State, Number]]:
    everyone = state.inside
    for fragment, number in state.fragments:
        for end in fragment.ends():
            everyone = add_counts(everyone, ((end, number),))
    for group, starts in meetings.starts.items():
        if state.used[group] == sizes[group]:
            continue
        used = tuple(n + (g == group) for g, n in enumerate(state.used))
        for new, opening, start in starts:
            kind = meetings.classes[new][0]
            for times, before, after in places(state.fragments):
                others, weight = everyone, times * start
                sums = meetings.add_totals(state.totals, opening)
                met = [(f.last, NEXT) for f in before] + [(f.first, BEFORE) for f in after]
                for name, _ in met:
                    others = remove(others, name)
                ways = [meetings.ways(kind, name, 1, context) for name, context in met]
                ways.append(meetings.crowd(kind, others, Context()))
                for chosen_totals, chosen in combine(meetings, ways, sums, weight):
                    inside, fragments = join(state, before, after, new)
                    yield State(inside, fragments, used, chosen_totals), chosen


def combine(
    meetings: Meetings, ways: list[list[Ways]], totals: Vector | None, weight: Number
) -> Iterator[tuple[Vector, Number]]:
    """(totals, weight) of every choice of one way from each list."""
    if totals is None:
        return
    if not ways:
        yield totals, weight
        return
    meetings.spend(len(ways[0]))
    for way in ways[0]:
        sums = meetings.add_totals(totals, way.totals)
        yield from combine(meetings, ways[1:], sums, meetings.multiply(weight, way.weight))


def places(
    fragments: tuple[tuple[Fragment, int], ...],
) -> Iterator[tuple[int, list[Fragment], list[Fragment]]]:
    """(how many ways, the fragment before, the fragment after) a new element."""
    yield 1, [], []
    for fragment, number in fragments:
        yield number, [fragment], []
        yield number, [], [fragment]
        for other, times in fragments:
            pairs = number * (times - (other == fragment))
            if pairs:
                yield pairs, [fragment], [other]


def join(
    state: State, before: list[Fragment], after: list[Fragment], new: int
) -> tuple[Counts, tuple[tuple[Fragment, int], ...]]:
    """The elements inside, and the fragments, once the new element has its place."""
    counts = dict(state.fragments)
    inside = state.inside
    for fragment in before + after:
        counts[fragment] -= 1
    for fragment in before:
        if not fragment.single:
            inside = add_counts(inside, ((fragment.last, 1),))
    for fragment in after:
        if not fragment.single:
            inside = add_counts(inside, ((fragment.first, 1),))
    if before and after:
        inside = add_counts(inside, ((new, 1),))
    first = before[0].first if before else new
    last = after[0].last if after else new
    made = Fragment(first, last, not before and not after)
    counts[made] = counts.get(made, 0) + 1
    return inside, tuple(sorted((f, n) for f, n in counts.items() if n))


def remove(counts: Counts, name: int) -> Counts:
    return tuple((c, n - (c == name)) for c, n in counts if n > (c == name))
