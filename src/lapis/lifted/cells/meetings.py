"""What happens when a new element meets others: shared by elimination and insertion.

An element is of a class: its kind, with how many of each counted quantity are still to come for it.
An element meets all of one class independently and alike, so that the ways in which n of them can
go are the n-th power of one pair table, a polynomial in the classes they move to.

The total with the largest bound is the exponent of a polynomial, cut off beyond the bound: as a
part of the state it multiplied the states by itself. What a crowd of classes does to an element of
a kind depends on no total, and is worked out once a layer, by common prefixes.

The sum over structures with counting quantifiers or totals, taking elements away one by one.

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

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import comb
from typing import NamedTuple

from lapis.errors import TooLarge
from lapis.lifted.cells.cell_tables import CellTables, Context, Monomials, Vector
from lapis.lifted.cells.numbers import Number, Numbers
from lapis.lifted.cells.sentence import Total
from lapis.relational.comparison import COMPARE

MIN_BOUND = 3  # of a total that is worth a polynomial
MAX_STATES = 400_000
SMALLER = "take smaller domains, or smaller numbers in counting quantifiers and constraints"

Counts = tuple[tuple[int, int], ...]  # (class, how many), sorted
NOWHERE = -1


class Ways(NamedTuple):
    """How a new element and others can be related."""

    new: Vector  # what it counts for the new element
    counts: Counts  # where the others go
    totals: Vector
    weight: Number


@dataclass
class Meetings:
    """Classes of elements, and their pair tables with numbers."""

    tables: CellTables
    numbers: Numbers

    def __post_init__(self) -> None:
        tables, sentence = self.tables, self.tables.sentence
        self.exponent = largest_total(sentence.totals)
        self.totals = [t for i, t in enumerate(sentence.totals) if i != self.exponent]
        self.bounded = [is_bounded(t) for t in self.totals]
        self.capped = [is_growing(t) and t.operator in (">=", ">") for t in self.totals]
        self.no_totals = tuple(0 for _ in self.totals)
        self.multiply = self.multiplication()
        self.classes: list[tuple[int, Vector]] = []
        self.number_of: dict[tuple[int, Vector], int] = {}
        self.most = [tuple(0 for _ in tables.counted)] * len(tables.kinds)
        self.starts: dict[int, list[tuple[int, Vector, Number]]] = {}
        for cell in tables.cells:
            pair = zip(self.most[cell.kind], cell.to_come, strict=True)
            self.most[cell.kind] = tuple(max(a, b) for a, b in pair)
            opening = self.add_totals(self.no_totals, self.kept(cell.totals))
            if opening is not None:
                start = self.class_of(cell.kind, cell.to_come), opening
                value = self.value(cell.weight, cell.totals)
                group = tables.kinds[cell.kind].group
                self.starts.setdefault(group, []).append((*start, value))
        self.num_steps = 0
        refuse_states(sum(group.size for group in sentence.groups))  # each is one at least
        self._rest: dict[tuple[int, Vector], int] = {}
        self._ways: dict[tuple[int, int, int, Context | None], list[Ways]] = {}
        self._crowds: dict[tuple[int, Counts, Context | None], list[Ways]] = {}

    def multiplication(self) -> Callable[[Number, Number], Number]:
        if self.exponent is None:
            return lambda a, b: a * b
        length = self.tables.sentence.totals[self.exponent].bound + 1
        if self.numbers.exact:
            return lambda a, b: a.mul_low(b, length)
        return lambda a, b: (a * b).truncate(length)

    def value(self, weight: Monomials, totals: Vector) -> Number:
        """The weight, times the variable of the polynomial to what is added to its total."""
        number = self.numbers.of(weight)
        if self.exponent is None:
            return number
        from flint import arb_poly, fmpq_poly

        polynomial = fmpq_poly if self.numbers.exact else arb_poly
        return polynomial([0] * totals[self.exponent] + [number])

    def kept(self, totals: Vector) -> Vector:
        """The totals that are part of the state."""
        if self.exponent is None:
            return totals
        return totals[: self.exponent] + totals[self.exponent + 1 :]

    def class_of(self, kind: int, to_come: Vector) -> int:
        key = kind, to_come
        if key not in self.number_of:
            self.number_of[key] = len(self.classes)
            self.classes.append(key)
        return self.number_of[key]

    def rest_of(self, name: int, counted: Vector) -> int:
        """The class of an element of which so much has come; NOWHERE if it is too much."""
        key = name, counted
        found = self._rest.get(key)
        if found is None:
            kind, to_come = self.classes[name]
            rest = tuple(a - b for a, b in zip(to_come, counted, strict=True))
            found = NOWHERE if any(n < 0 for n in rest) else self.class_of(kind, rest)
            self._rest[key] = found
        return found

    def one(self) -> Number:
        nothing = tuple(0 for _ in self.tables.sentence.totals)
        return self.value({tuple(0 for _ in self.numbers.values): 1}, nothing)

    def final_value(self, weight: Number) -> Number:
        if self.exponent is None:
            return weight
        total = self.tables.sentence.totals[self.exponent]
        longest = min(total.bound, weight.degree())
        return sum(
            (weight[n] for n in range(longest + 1) if COMPARE[total.operator](n, total.bound)),
            start=0 * self.numbers.one,
        )

    def crowd(self, kind: int, counts: Counts, context: Context | None) -> list[Ways]:
        """The product of the pair tables' powers, over all classes."""
        key = kind, counts, context
        found = self._crowds.get(key)
        if found is None:
            if not counts:
                nothing = tuple(0 for _ in self.tables.counted)
                found = [Ways(nothing, (), self.no_totals, self.one())]
            else:
                name, number = counts[-1]
                before = self.crowd(kind, counts[:-1], context)
                found = self.product(kind, before, self.ways(kind, name, number, context))
            self._crowds[key] = found
        return found

    def ways(self, kind: int, name: int, number: int, context: Context | None) -> list[Ways]:
        """The n-th power of a pair table."""
        key = kind, name, number, context
        found = self._ways.get(key)
        if found is None:
            known = number
            while known > 1 and (kind, name, known, context) not in self._ways:
                known -= 1
            if known == 1:
                self._ways[kind, name, 1, context] = self.single(kind, name, context)
            found = self._ways[kind, name, known, context]
            for times in range(known + 1, number + 1):
                found = self.product(kind, found, self._ways[kind, name, 1, context])
                self._ways[kind, name, times, context] = found
        return found

    def spend(self, steps: int) -> None:
        self.num_steps += steps
        if self.num_steps > self.numbers.max_steps:
            raise TooLarge(
                f"more than {self.numbers.max_steps:,} steps are needed, one for each way in which "
                "an element meets others",
                code="cells",
                hint=SMALLER,
            )

    def product(self, kind: int, first: list[Ways], second: list[Ways]) -> list[Ways]:
        self.spend(len(first) * len(second))
        powers: dict[tuple[Vector, Counts, Vector], Number] = {}
        most = self.class_of(kind, self.most[kind])
        for one in first:
            for other in second:
                new = tuple([a + b for a, b in zip(one.new, other.new, strict=True)])
                totals = self.add_totals(one.totals, other.totals)
                if self.rest_of(most, new) == NOWHERE or totals is None:
                    continue
                where = new, add_counts(one.counts, other.counts), totals
                value = self.multiply(one.weight, other.weight)
                powers[where] = powers[where] + value if where in powers else value
        return [Ways(*where, value) for where, value in powers.items()]

    def single(self, kind: int, name: int, context: Context | None) -> list[Ways]:
        """The pair table of an element of a class and a new one of a kind."""
        old = self.classes[name][0]
        most = self.class_of(kind, self.most[kind])
        found: dict[tuple[Vector, Counts, Vector], Number] = {}
        for outcome in self.tables.outcomes(old, kind, context):
            rest = self.rest_of(name, outcome.first)
            totals = self.add_totals(self.no_totals, self.kept(outcome.totals))
            if NOWHERE in (rest, self.rest_of(most, outcome.second)) or totals is None:
                continue
            where = outcome.second, ((rest, 1),), totals
            value = self.value(outcome.weight, outcome.totals)
            found[where] = found[where] + value if where in found else value
        return [Ways(*where, value) for where, value in found.items()]

    def add_totals(self, first: Vector, second: Vector) -> Vector | None:
        """The sum; None where no total can be kept any more, and no more than decides it."""
        if not first:
            return first
        found: list[int] = []
        for i, (a, b) in enumerate(zip(first, second, strict=True)):
            total = a + b
            if self.bounded[i] and total > self.totals[i].bound:
                return None
            if self.capped[i]:
                total = min(total, self.totals[i].bound + 1)
            found.append(total)
        return tuple(found)

    def is_finished(self, name: int) -> bool:
        """Whether nothing that must come is still to come."""
        kind, to_come = self.classes[name]
        tracked = self.tables.kinds[kind].tracked
        return not any(t == "=" and n for t, n in zip(tracked, to_come, strict=True))

    def can_finish(self, names: Iterable[int], follow: Callable[[int], int]) -> bool:
        """Whether enough elements follow for each counted quantity of these classes."""
        kinds = self.tables.kinds
        for name in names:
            kind, to_come = self.classes[name]
            for q, number in enumerate(to_come):
                if number and number > follow(q) and kinds[kind].tracked[q] == "=":
                    return False
        return True

    def sum_up(self, found: Iterable[tuple[Vector, Number]]) -> Number:
        """The weights of those whose totals are as they must be."""
        result = 0 * self.numbers.one
        for totals, weight in found:
            pairs = zip(self.totals, totals, strict=True)
            if all(COMPARE[total.operator](value, total.bound) for total, value in pairs):
                result += self.final_value(weight)
        return result

    def forget_crowds(self) -> None:
        self._crowds.clear()


def refuse_states(number: int) -> None:
    if number > MAX_STATES:
        raise TooLarge(
            f"{number:,} different states are met, or more, and at most {MAX_STATES:,} are kept",
            code="cells",
            hint=SMALLER,
        )


def add_counts(first: Counts, second: Counts) -> Counts:
    if not first:
        return second
    merged = dict(first)
    for name, times in second:
        merged[name] = merged.get(name, 0) + times
    return tuple(sorted(merged.items()))


def largest_total(totals: Sequence[Total]) -> int | None:
    """The number of the total that is worth a polynomial."""
    large = [i for i, t in enumerate(totals) if is_bounded(t) and t.bound >= MIN_BOUND]
    return max(large, key=lambda i: totals[i].bound, default=None)


def is_growing(total: Total) -> bool:
    return all(coefficient >= 0 for coefficient, _ in total.parts)


def is_bounded(total: Total) -> bool:
    return is_growing(total) and total.operator in ("=", "<=", "<")


Layer = dict[tuple[Counts, Vector], Number]  # (classes of those left, totals)


def eliminate_elements(tables: CellTables, numbers: Numbers) -> Number:
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
