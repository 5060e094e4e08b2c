"""The sum over structures with counting quantifiers or totals, taking elements away one by one.

First each element is given a cell; then one element at a time is related to all that are left, and
is done with: what was to come for it must have come. The state is how many of those left are of
each class, and the totals so far. With c classes there are O(n^c) states. An element that no other
can be related to in more than one way, weighing 1 (a vertex that has all its edges), is left out of
states at once: 3-regular graphs on n vertices are three classes, and at most n³/6 states.

Kuželka (2021) reduces counting quantifiers to totals, with k more predicates and a division by
k!^n: six cells and a polynomial of degree 3n for the same graphs. Inserting elements one after
another, as for linear orders, works too, but all that have come stay in the state, and so does how
many are still to come: n⁴/24 states.
"""

from __future__ import annotations

from math import comb

from lapis.lifted.cells.cell_tables import Tables, Vector
from lapis.lifted.cells.meetings import NOWHERE, Counts, Meetings, add_counts, refuse_states
from lapis.lifted.cells.numbers import Number, Numbers

Layer = dict[tuple[Counts, Vector], Number]  # (classes of those left, totals)


def eliminate_elements(tables: Tables, numbers: Numbers) -> Number:
    """Z of a sentence without order."""
    meetings = Meetings(tables, numbers)
    size = sum(group.size for group in tables.sentence.groups)
    layers: list[Layer] = [{} for _ in range(size + 1)]
    inert: dict[int, bool] = {}
    for (counts, totals), weight in distribute(meetings).items():
        push(meetings, layers, counts, totals, weight, inert)
    for left in range(size, 0, -1):
        meetings.forget_crowds()
        refuse_states(len(layers[left]))
        for (counts, totals), weight in layers[left].items():
            name, others = take_one(meetings, counts)
            ways = meetings.crowd(meetings.classes[name][0], others, None)
            meetings.spend(len(ways))
            for way in ways:
                sums = meetings.add_totals(totals, way.totals)
                rest = meetings.rest_of(name, way.new)
                if sums is None or rest == NOWHERE or not meetings.is_finished(rest):
                    continue
                value = meetings.multiply(weight, way.weight)
                push(meetings, layers, way.counts, sums, value, inert)
        layers[left] = {}
    return meetings.sum_up((totals, weight) for (_, totals), weight in layers[0].items())


def distribute(meetings: Meetings) -> Layer:
    """All ways to give elements their cells, those that lead to the same classes together."""
    found: Layer = {((), meetings.no_totals): meetings.one()}
    for group, members in enumerate(meetings.tables.sentence.groups):
        partial: dict[tuple[int, Counts, Vector], Number] = {
            (members.size, counts, totals): weight for (counts, totals), weight in found.items()
        }
        starts = meetings.starts.get(group, [])
        for index, (name, opening, start) in enumerate(starts):
            following: dict[tuple[int, Counts, Vector], Number] = {}
            for (left, counts, totals), weight in partial.items():
                sums: Vector | None = totals
                power = weight
                meetings.spend(left + 1)
                for number in range(left + 1):
                    if sums is None:
                        break
                    if number == left or index < len(starts) - 1:
                        more = add_counts(counts, ((name, number),)) if number else counts
                        key = left - number, more, sums
                        value = comb(left, number) * power
                        following[key] = following[key] + value if key in following else value
                    sums = meetings.add_totals(sums, opening)
                    power = meetings.multiply(power, start)
            partial = following
            refuse_states(len(partial))
        found = {
            (counts, totals): weight
            for (left, counts, totals), weight in partial.items()
            if not left
        }
    return found


def push(
    meetings: Meetings,
    layers: list[Layer],
    counts: Counts,
    totals: Vector,
    weight: Number,
    inert: dict[int, bool],
) -> None:
    """Add a weight to a state, unless too little is left for what is to come in it."""
    counts = tuple(pair for pair in counts if not is_inert(meetings, pair[0], inert))
    left = sum(number for _, number in counts)
    if not meetings.can_finish((name for name, _ in counts), lambda _: left - 1):
        return
    layer, key = layers[left], (counts, totals)
    layer[key] = layer[key] + weight if key in layer else weight


def is_inert(meetings: Meetings, name: int, known: dict[int, bool]) -> bool:
    """Whether elements of a class are done with, and weigh 1 with whatever is left."""
    if name not in known:
        others = range(len(meetings.tables.kinds))
        ways = [meetings.ways(kind, name, 1, None) for kind in others]
        known[name] = meetings.is_finished(name) and all(
            len(found) == 1
            and not any(found[0].new + found[0].totals)
            and found[0].counts == ((name, 1),)
            and found[0].weight == meetings.one()
            for found in ways
        )
    return known[name]


def take_one(meetings: Meetings, counts: Counts) -> tuple[int, Counts]:
    """An element of the class for which least is to come, and the others."""
    index = min(range(len(counts)), key=lambda i: (sum(meetings.classes[counts[i][0]][1]), i))
    name, number = counts[index]
    kept = ((name, number - 1),) if number > 1 else ()
    return name, counts[:index] + kept + counts[index + 1 :]
