"""The sum over structures on an ordered domain, one element after another.

The state after m elements is how many of them are of each class, the totals so far, and the classes
of the last few (for predecessors) and of the first (for circles). With c classes there are
O(n^{c−1}) states, times those of the neighbours. The idea is Tóth and Kuželka's (2023); neighbours
are Meng, Tóth, Wang, Wang and Kuželka's (2024).

An order is a sequence of groups, times the ways Π size! to put the groups' elements into it.
Elements of other types come first, in any order.

The sum over structures with a linear order, and neighbours in another one.

Elements come in the first order, as in insertion.py. Of the second only neighbours are spoken of,
so it is a path through all elements, and those that have come form fragments of it. A new element
is a fragment by itself, or goes to an end of one, or joins two; at the end there is one. The state
is how many fragments there are by the classes of their ends, how many elements are inside, and the
totals. With k kinds of elements there are k² kinds of fragments: this is for few kinds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import factorial, prod
from typing import NamedTuple

from lapis.errors import LapisError
from lapis.lifted.cells.cell_tables import CellTables, Context, Vector
from lapis.lifted.cells.meetings import (
    NOWHERE,
    Counts,
    Meetings,
    Ways,
    add_counts,
    refuse_states,
)
from lapis.lifted.cells.numbers import Number, Numbers
from lapis.lifted.cells.sentence import LinearOrder

FIRST = -1  # stands for the first element among the recent ones


class InsertionState(NamedTuple):
    counts: Counts  # of elements that are none of those below
    recent: Vector  # classes of the last elements of the order, the latest last; or FIRST
    first: int | None  # class of the first, where it matters
    used: Vector  # elements of each group that have their place in the order
    totals: Vector


def insert_elements(tables: CellTables, numbers: Numbers) -> Number:
    """Z of a sentence with a linear order."""
    assert tables.sentence.order is not None
    return Insertion(Meetings(tables, numbers), tables.sentence.order).run()


@dataclass(frozen=True)
class Insertion:
    meetings: Meetings
    order: LinearOrder

    def run(self) -> Number:
        groups = self.meetings.tables.sentence.groups
        ordered = [g for g, group in enumerate(groups) if group.type == self.order.type]
        none = tuple(0 for _ in groups)
        layer = {InsertionState((), (), None, none, self.meetings.no_totals): self.meetings.one()}
        left = [group.size for group in groups]
        for group in range(len(groups)):
            for _ in range(0 if group in ordered else groups[group].size):
                left[group] -= 1
                layer = self.step(layer, [group], left, ordered, last=False)
        number = sum(groups[g].size for g in ordered)
        for place in range(number):
            layer = self.step(layer, ordered, left, ordered, last=place == number - 1)
        total = self.meetings.sum_up(
            (state.totals, weight)
            for state, weight in layer.items()
            if all(map(self.meetings.is_finished, names_in(state)))
        )
        return total * prod(factorial(groups[g].size) for g in ordered)

    def step(
        self,
        layer: dict[InsertionState, Number],
        choices: Sequence[int],
        left: Sequence[int],
        ordered: Sequence[int],
        *,
        last: bool,
    ) -> dict[InsertionState, Number]:
        """All states with one element more, of one of the groups given."""
        self.meetings.forget_crowds()
        found: dict[InsertionState, Number] = {}
        multiply = self.meetings.multiply
        for state, weight in layer.items():
            for group in choices:
                in_order = group in ordered
                if in_order and state.used[group] == left[group]:
                    continue
                for key, more in self.insert(state, group, in_order=in_order, last=last):
                    value = multiply(weight, more)
                    found[key] = found[key] + value if key in found else value
        refuse_states(len(found))
        return {s: v for s, v in found.items() if self.can_finish(s, left, ordered)}

    def can_finish(
        self, state: InsertionState, left: Sequence[int], ordered: Sequence[int]
    ) -> bool:
        def follow(q: int) -> int:
            tables = self.meetings.tables
            reach = tables.sentence.reach[tables.counted[q].counted]
            return sum(left[g] - state.used[g] * (g in ordered) for g in reach)

        return self.meetings.can_finish(names_in(state), follow)

    def insert(
        self, state: InsertionState, group: int, *, in_order: bool, last: bool
    ) -> Iterator[tuple[InsertionState, Number]]:
        meetings = self.meetings
        far = Context() if in_order else None
        specials = self.specials(state, last=last) if in_order else []
        for start, opening, weight in meetings.starts.get(group, ()):
            sums = meetings.add_totals(state.totals, opening)
            if sums is None:
                continue
            kind = meetings.classes[start][0]
            partial: list[tuple[int, Vector, Vector, Number]] = [(start, sums, (), weight)]
            for name, context in specials:
                partial = self.meet(partial, meetings.ways(kind, name, 1, context))
            ways = meetings.crowd(kind, state.counts, far)
            meetings.spend(len(ways) * len(partial))
            for way in ways:
                for name, totals, moved, value in partial:
                    new = meetings.rest_of(name, way.new)
                    all_totals = meetings.add_totals(totals, way.totals)
                    if new == NOWHERE or all_totals is None:
                        continue
                    key = self.next_state(state, way.counts, moved, new, all_totals, group)
                    yield key, meetings.multiply(value, way.weight)

    def meet(
        self, partial: list[tuple[int, Vector, Vector, Number]], ways: list[Ways]
    ) -> list[tuple[int, Vector, Vector, Number]]:
        """(class of the new element, totals, classes of those it met, weight), one met more."""
        meetings = self.meetings
        found: list[tuple[int, Vector, Vector, Number]] = []
        for name, sums, moved, weight in partial:
            for way in ways:
                new, totals = meetings.rest_of(name, way.new), meetings.add_totals(sums, way.totals)
                if new != NOWHERE and totals is not None:
                    where = (*moved, way.counts[0][0])
                    found.append((new, totals, where, meetings.multiply(weight, way.weight)))
        return found

    def specials(self, state: InsertionState, *, last: bool) -> list[tuple[int, Context]]:
        """The first and the recent elements, with how they lie to the new one."""
        found: list[tuple[int, Context]] = []
        if state.first is not None:
            where = [len(state.recent) - i for i, c in enumerate(state.recent) if c == FIRST]
            found.append((state.first, Context(where[0] if where else 0, last)))
        for i, name in enumerate(state.recent):
            if name != FIRST:
                found.append((name, Context(len(state.recent) - i)))
        return found

    def next_state(
        self,
        state: InsertionState,
        counts: Counts,
        moved: Vector,
        new: int,
        totals: Vector,
        group: int,
    ) -> InsertionState:
        if self.meetings.tables.sentence.groups[group].type != self.order.type:
            return InsertionState(add_counts(counts, ((new, 1),)), (), None, state.used, totals)
        special = list(moved)
        first = special.pop(0) if state.first is not None else None
        recent = [FIRST if name == FIRST else special.pop(0) for name in state.recent]
        if self.order.circular and not any(state.used):
            first = new
            recent.append(FIRST)
        else:
            recent.append(new)
        window = max([0, *self.order.distance.values(), *(1 for _ in self.order.circular)])
        while len(recent) > window:
            gone = recent.pop(0)
            if gone != FIRST:
                counts = add_counts(counts, ((gone, 1),))
        used = tuple(n + (g == group) for g, n in enumerate(state.used))
        return InsertionState(counts, tuple(recent), first, used, totals)


def names_in(state: InsertionState) -> list[int]:
    names = [name for name, _ in state.counts] + [n for n in state.recent if n != FIRST]
    return names if state.first is None else [*names, state.first]


NEXT, BEFORE = Context(neighbour=1), Context(neighbour=-1)


class Fragment(NamedTuple):
    """A part of the path, by the classes of its ends."""

    first: int
    last: int
    single: bool  # both ends are one element

    def ends(self) -> list[int]:
        return [self.first] if self.single else [self.first, self.last]


class TwoOrdersState(NamedTuple):
    inside: Counts
    fragments: tuple[tuple[Fragment, int], ...]
    used: Vector  # elements of each group that have come
    totals: Vector


def insert_in_two_orders(tables: CellTables, numbers: Numbers) -> Number:
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
    layer = {TwoOrdersState((), (), tuple(0 for _ in sizes), meetings.no_totals): meetings.one()}
    for left in range(sum(sizes) - 1, -1, -1):
        meetings.forget_crowds()
        found: dict[TwoOrdersState, Number] = {}
        for state, weight in layer.items():
            for key, more in insert(meetings, state, sizes):
                if sum(number for _, number in key.fragments) <= left + 1:
                    value = meetings.multiply(weight, more)
                    found[key] = found[key] + value if key in found else value
        refuse_states(len(found))
        layer = found
    total = meetings.sum_up((state.totals, weight) for state, weight in layer.items())
    return total * prod(map(factorial, sizes))


def insert(
    meetings: Meetings, state: TwoOrdersState, sizes: list[int]
) -> Iterator[tuple[TwoOrdersState, Number]]:
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
                    yield TwoOrdersState(inside, fragments, used, chosen_totals), chosen


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
    state: TwoOrdersState, before: list[Fragment], after: list[Fragment], new: int
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
