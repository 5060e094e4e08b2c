"""The sum over structures on an ordered domain, one element after another.

The state after m elements is how many of them are of each class, the totals so far, and the classes
of the last few (for predecessors) and of the first (for circles). With c classes there are
O(n^{c−1}) states, times those of the neighbours. The idea is Tóth and Kuželka's (2023); neighbours
are Meng, Tóth, Wang, Wang and Kuželka's (2024).

An order is a sequence of groups, times the ways Π size! to put the groups' elements into it.
Elements of other types come first, in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import factorial, prod
from typing import NamedTuple

from lapis.lifted.cells.cell_tables import Context, Tables, Vector
from lapis.lifted.cells.meetings import (
    NOWHERE,
    Counts,
    Meetings,
    Ways,
    add_counts,
    refuse_states,
)
from lapis.lifted.cells.numbers import Number, Numbers
from lapis.lifted.cells.orders import Order

FIRST = -1  # stands for the first element among the recent ones


class State(NamedTuple):
    counts: Counts  # of elements that are none of those below
    recent: Vector  # classes of the last elements of the order, the latest last; or FIRST
    first: int | None  # class of the first, where it matters
    used: Vector  # elements of each group that have their place in the order
    totals: Vector


def insert_elements(tables: Tables, numbers: Numbers) -> Number:
    """Z of a sentence with a linear order."""
    assert tables.sentence.order is not None
    return Insertion(Meetings(tables, numbers), tables.sentence.order).run()


@dataclass(frozen=True)
class Insertion:
    meetings: Meetings
    order: Order

    def run(self) -> Number:
        groups = self.meetings.tables.sentence.groups
        ordered = [g for g, group in enumerate(groups) if group.type == self.order.type]
        none = tuple(0 for _ in groups)
        layer = {State((), (), None, none, self.meetings.no_totals): self.meetings.one()}
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
        layer: dict[State, Number],
        choices: Sequence[int],
        left: Sequence[int],
        ordered: Sequence[int],
        *,
        last: bool,
    ) -> dict[State, Number]:
        """All states with one element more, of one of the groups given."""
        self.meetings.forget_crowds()
        found: dict[State, Number] = {}
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

    def can_finish(self, state: State, left: Sequence[int], ordered: Sequence[int]) -> bool:
        def follow(q: int) -> int:
            tables = self.meetings.tables
            reach = tables.sentence.reach[tables.counted[q].counted]
            return sum(left[g] - state.used[g] * (g in ordered) for g in reach)

        return self.meetings.can_finish(names_in(state), follow)

    def insert(
        self, state: State, group: int, *, in_order: bool, last: bool
    ) -> Iterator[tuple[State, Number]]:
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

    def specials(self, state: State, *, last: bool) -> list[tuple[int, Context]]:
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
        state: State,
        counts: Counts,
        moved: Vector,
        new: int,
        totals: Vector,
        group: int,
    ) -> State:
        if self.meetings.tables.sentence.groups[group].type != self.order.type:
            return State(add_counts(counts, ((new, 1),)), (), None, state.used, totals)
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
        return State(counts, tuple(recent), first, used, totals)


def names_in(state: State) -> list[int]:
    names = [name for name, _ in state.counts] + [n for n in state.recent if n != FIRST]
    return names if state.first is None else [*names, state.first]
