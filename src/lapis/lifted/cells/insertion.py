"""Sum over structures on a linearly ordered domain, by inserting elements one by one.

`insert_elements`: elements are inserted in the order. The state is the number of elements of each
class, the totals, and the classes of the last few elements (for predecessors) and of the first (for
circular predecessors). With c classes there are O(n^{c−1}) states for each choice of these. The
algorithm is that of Tóth and Kuželka (2023, "Lifted inference with linear order axiom"), the
predecessors those of Meng, Tóth, Wang, Wang and Kuželka (2024). An order is a sequence of groups
times Π size! permutations of the elements within groups. Elements of other types are inserted
first, in any order.

`insert_in_two_orders`: formulas mention a second order only by its neighbours, so it is a path
through all elements, and the inserted elements form fragments of it. A new element is a fragment by
itself, extends a fragment at one end, or joins two; in the end there is one fragment. The state is
the number of fragments by the classes of their ends, the number of inner elements of each class,
and the totals. With k kinds of elements there are k² kinds of fragments, so this suits few kinds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import factorial, prod
from typing import NamedTuple

from lapis.errors import LapisError
from lapis.lifted.cells.cell_elimination import (
    IMPOSSIBLE,
    ClassInteractions,
    Counts,
    Interaction,
    add_weight,
    merge_counts,
    refuse_states,
)
from lapis.lifted.cells.cell_tables import CellTables, Context, Vector
from lapis.lifted.cells.numbers import Number, Numbers
from lapis.lifted.cells.sentence import LinearOrder

FIRST = -1  # marks the first element among the recent ones


class InsertionState(NamedTuple):
    counts: Counts  # of elements that are neither first nor recent
    recent: Vector  # classes of the last elements of the order, the latest last; or FIRST
    first: int | None  # class of the first element, if a predicate is circular
    used: Vector  # elements of each group that have a position in the order
    totals: Vector


class PartialInsertion(NamedTuple):
    """A new element that was related to some of the first and recent elements."""

    new: int  # its class
    totals: Vector
    related: Vector  # classes of the elements related to it
    weight: Number


def insert_elements(tables: CellTables, numbers: Numbers) -> Number:
    """Return Z of a sentence with a linear order."""
    assert tables.sentence.order is not None
    return Insertion(ClassInteractions(tables, numbers), tables.sentence.order).run()


@dataclass(frozen=True)
class Insertion:
    interactions: ClassInteractions
    order: LinearOrder

    def run(self) -> Number:
        interactions = self.interactions
        groups = interactions.tables.sentence.groups
        ordered = [g for g, group in enumerate(groups) if group.type == self.order.type]
        none = tuple(0 for _ in groups)
        start = InsertionState((), (), None, none, interactions.no_totals)
        layer = {start: interactions.one()}
        left = [group.size for group in groups]
        for group in range(len(groups)):
            for _ in range(0 if group in ordered else groups[group].size):
                left[group] -= 1
                layer = self.step(layer, [group], left, ordered, is_last=False)
        number = sum(groups[g].size for g in ordered)
        for place in range(number):
            layer = self.step(layer, ordered, left, ordered, is_last=place == number - 1)
        total = interactions.sum_valid(
            (state.totals, weight)
            for state, weight in layer.items()
            if all(map(interactions.is_finished, list_classes(state)))
        )
        return total * prod(factorial(groups[g].size) for g in ordered)

    def step(
        self,
        layer: dict[InsertionState, Number],
        choices: Sequence[int],
        left: Sequence[int],
        ordered: Sequence[int],
        *,
        is_last: bool,
    ) -> dict[InsertionState, Number]:
        """Insert one element of one of the groups in `choices` into every state."""
        self.interactions.clear_products()
        found: dict[InsertionState, Number] = {}
        for state, weight in layer.items():
            for group in choices:
                in_order = group in ordered
                if in_order and state.used[group] == left[group]:
                    continue
                for key, more in self.insert(state, group, in_order=in_order, is_last=is_last):
                    add_weight(found, key, self.interactions.multiply(weight, more))
        refuse_states(len(found))
        return {s: v for s, v in found.items() if self.can_finish(s, left, ordered)}

    def can_finish(
        self, state: InsertionState, left: Sequence[int], ordered: Sequence[int]
    ) -> bool:
        def num_following(q: int) -> int:
            tables = self.interactions.tables
            reach = tables.sentence.reach[tables.counted[q].counted]
            return sum(left[g] - state.used[g] * (g in ordered) for g in reach)

        return self.interactions.can_finish(list_classes(state), num_following)

    def insert(
        self, state: InsertionState, group: int, *, in_order: bool, is_last: bool
    ) -> Iterator[tuple[InsertionState, Number]]:
        """Yield the states after an element of a group is inserted, with weights."""
        interactions = self.interactions
        far = Context() if in_order else None
        near = self.list_near(state, is_last=is_last) if in_order else []
        for start in interactions.initial.get(group, ()):
            sums = interactions.add_totals(state.totals, start.totals)
            if sums is None:
                continue
            kind = interactions.classes[start.number][0]
            partial = [PartialInsertion(start.number, sums, (), start.weight)]
            for number, context in near:
                partial = self.relate(
                    partial, interactions.interact_with_class(kind, number, 1, context)
                )
            others = interactions.interact_with_all(kind, state.counts, far)
            interactions.count_steps(len(others) * len(partial))
            for other in others:
                for each in partial:
                    new = interactions.class_after(each.new, other.new)
                    totals = interactions.add_totals(each.totals, other.totals)
                    if new == IMPOSSIBLE or totals is None:
                        continue
                    key = self.next_state(state, other.counts, each.related, new, totals, group)
                    yield key, interactions.multiply(each.weight, other.weight)

    def relate(
        self, partial: list[PartialInsertion], found: list[Interaction]
    ) -> list[PartialInsertion]:
        """Relate the new element to one more of the first and recent elements."""
        interactions = self.interactions
        related: list[PartialInsertion] = []
        for each in partial:
            for one in found:
                new = interactions.class_after(each.new, one.new)
                totals = interactions.add_totals(each.totals, one.totals)
                if new != IMPOSSIBLE and totals is not None:
                    classes = (*each.related, one.counts[0][0])
                    weight = interactions.multiply(each.weight, one.weight)
                    related.append(PartialInsertion(new, totals, classes, weight))
        return related

    def list_near(self, state: InsertionState, *, is_last: bool) -> list[tuple[int, Context]]:
        """List the classes of the first and recent elements, with their distance to the new one."""
        found: list[tuple[int, Context]] = []
        if state.first is not None:
            where = [len(state.recent) - i for i, c in enumerate(state.recent) if c == FIRST]
            found.append((state.first, Context(where[0] if where else 0, is_last)))
        for i, number in enumerate(state.recent):
            if number != FIRST:
                found.append((number, Context(len(state.recent) - i)))
        return found

    def next_state(
        self,
        state: InsertionState,
        counts: Counts,
        related: Vector,
        new: int,
        totals: Vector,
        group: int,
    ) -> InsertionState:
        if self.interactions.tables.sentence.groups[group].type != self.order.type:
            merged = merge_counts(counts, ((new, 1),))
            return InsertionState(merged, (), None, state.used, totals)
        moved = list(related)
        first = moved.pop(0) if state.first is not None else None
        recent = [FIRST if number == FIRST else moved.pop(0) for number in state.recent]
        if self.order.circular and not any(state.used):
            first = new
            recent.append(FIRST)
        else:
            recent.append(new)
        window = max([0, *self.order.distance.values(), *(1 for _ in self.order.circular)])
        while len(recent) > window:
            gone = recent.pop(0)
            if gone != FIRST:
                counts = merge_counts(counts, ((gone, 1),))
        used = tuple(n + (g == group) for g, n in enumerate(state.used))
        return InsertionState(counts, tuple(recent), first, used, totals)


def list_classes(state: InsertionState) -> list[int]:
    """List the classes of all elements that were inserted."""
    found = [number for number, _ in state.counts] + [n for n in state.recent if n != FIRST]
    return found if state.first is None else [*found, state.first]


NEXT, PREVIOUS = Context(neighbour=1), Context(neighbour=-1)


class Fragment(NamedTuple):
    """A part of the path, by the classes of its ends."""

    first: int
    last: int
    is_single: bool  # both ends are one element

    def ends(self) -> list[int]:
        return [self.first] if self.is_single else [self.first, self.last]


class TwoOrdersState(NamedTuple):
    inner: Counts  # elements that are not ends of fragments
    fragments: tuple[tuple[Fragment, int], ...]
    used: Vector  # inserted elements of each group
    totals: Vector


def insert_in_two_orders(tables: CellTables, numbers: Numbers) -> Number:
    """Return Z of a sentence with a linear order and a path."""
    order = tables.sentence.order
    assert order is not None
    if order.distance or order.circular or any(any(cell.missing) for cell in tables.cells):
        raise LapisError(
            "neighbours of a second linear order cannot be combined with counting quantifiers or "
            "predecessors",
            code="two-variables",
        )
    interactions = ClassInteractions(tables, numbers)
    sizes = [group.size for group in tables.sentence.groups]
    start = TwoOrdersState((), (), tuple(0 for _ in sizes), interactions.no_totals)
    layer = {start: interactions.one()}
    for left in range(sum(sizes) - 1, -1, -1):
        interactions.clear_products()
        found: dict[TwoOrdersState, Number] = {}
        for state, weight in layer.items():
            for key, more in insert_into_path(interactions, state, sizes):
                if sum(number for _, number in key.fragments) <= left + 1:
                    add_weight(found, key, interactions.multiply(weight, more))
        refuse_states(len(found))
        layer = found
    total = interactions.sum_valid((state.totals, weight) for state, weight in layer.items())
    return total * prod(map(factorial, sizes))


def insert_into_path(
    interactions: ClassInteractions, state: TwoOrdersState, sizes: list[int]
) -> Iterator[tuple[TwoOrdersState, Number]]:
    """Yield the states after an element is inserted, with weights."""
    inserted = state.inner
    for fragment, number in state.fragments:
        for end in fragment.ends():
            inserted = merge_counts(inserted, ((end, number),))
    for group, starts in interactions.initial.items():
        if state.used[group] == sizes[group]:
            continue
        used = tuple(n + (g == group) for g, n in enumerate(state.used))
        for start in starts:
            kind = interactions.classes[start.number][0]
            for times, before, after in list_places(state.fragments):
                others = inserted
                near = [(f.last, NEXT) for f in before] + [(f.first, PREVIOUS) for f in after]
                for end, _ in near:
                    others = remove_element(others, end)
                found = [
                    interactions.interact_with_class(kind, end, 1, context) for end, context in near
                ]
                found.append(interactions.interact_with_all(kind, others, Context()))
                sums = interactions.add_totals(state.totals, start.totals)
                for totals, weight in choose_one_each(
                    interactions, found, sums, times * start.weight
                ):
                    inner, fragments = join_fragments(state, before, after, start.number)
                    yield TwoOrdersState(inner, fragments, used, totals), weight


def choose_one_each(
    interactions: ClassInteractions,
    found: list[list[Interaction]],
    totals: Vector | None,
    weight: Number,
) -> Iterator[tuple[Vector, Number]]:
    """Yield totals and weight of every choice of one interaction from each list."""
    if totals is None:
        return
    if not found:
        yield totals, weight
        return
    interactions.count_steps(len(found[0]))
    for each in found[0]:
        sums = interactions.add_totals(totals, each.totals)
        product = interactions.multiply(weight, each.weight)
        yield from choose_one_each(interactions, found[1:], sums, product)


def list_places(
    fragments: tuple[tuple[Fragment, int], ...],
) -> Iterator[tuple[int, list[Fragment], list[Fragment]]]:
    """Yield (multiplicity, fragment before, fragment after) for the places of a new element."""
    yield 1, [], []
    for fragment, number in fragments:
        yield number, [fragment], []
        yield number, [], [fragment]
        for other, times in fragments:
            pairs = number * (times - (other == fragment))
            if pairs:
                yield pairs, [fragment], [other]


def join_fragments(
    state: TwoOrdersState, before: list[Fragment], after: list[Fragment], new: int
) -> tuple[Counts, tuple[tuple[Fragment, int], ...]]:
    """Return the inner elements and the fragments after a new element joins two fragments."""
    counts = dict(state.fragments)
    inner = state.inner
    for fragment in before + after:
        counts[fragment] -= 1
    for fragment in before:
        if not fragment.is_single:
            inner = merge_counts(inner, ((fragment.last, 1),))
    for fragment in after:
        if not fragment.is_single:
            inner = merge_counts(inner, ((fragment.first, 1),))
    if before and after:
        inner = merge_counts(inner, ((new, 1),))
    first = before[0].first if before else new
    last = after[0].last if after else new
    made = Fragment(first, last, not before and not after)
    counts[made] = counts.get(made, 0) + 1
    return inner, tuple(sorted((f, n) for f, n in counts.items() if n))


def remove_element(counts: Counts, number: int) -> Counts:
    return tuple((c, n - (c == number)) for c, n in counts if n > (c == number))
