"""Sum over structures with counting quantifiers or totals, by eliminating elements one by one.

Every element is first assigned a cell. Then one element at a time is related to all elements that
remain, and removed; its counting quantifiers must be satisfied by then. The class of an element is
the kind of its cell and, for each counted quantity, how many witnesses are still missing. The
state is the number of remaining elements of each class, and the totals so far. With c classes there
are O(n^c) states. Elements of an inert class, which can be related to any other element in one way
of weight 1 (a vertex that has all its edges), are removed from states at once: 3-regular graphs on
n vertices have three classes and at most n³/6 states.

Kuželka (2021, "Weighted first-order model counting in the two-variable fragment with counting
quantifiers") reduces counting quantifiers to totals, with k more predicates and a division by k!^n:
six cells and a polynomial of degree 3n for the same graphs. Inserting elements one after another,
as for linear orders, also works, but all inserted elements stay in the state: n⁴/24 states.

`ClassInteractions` is shared with insertion. A new element is related to all n elements of a class
independently and alike, so their joint interaction is the n-th power of one pair table, a
polynomial in the classes that they move to. The bounded total with the largest bound is the
exponent of a polynomial that is truncated at the bound; as a part of the state it would multiply
the number of states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import comb
from typing import NamedTuple, TypeVar

from lapis.errors import TooLarge
from lapis.lifted.cells.cell_tables import CellTables, Context, Monomials, Vector
from lapis.lifted.cells.numbers import Number, Numbers
from lapis.lifted.cells.sentence import Total
from lapis.relational.comparison import COMPARE

MIN_BOUND = 3  # of a total that becomes the exponent of a polynomial
MAX_STATES = 400_000
SMALLER = "take smaller domains, or smaller numbers in counting quantifiers and constraints"

Counts = tuple[tuple[int, int], ...]  # (class, number of elements), sorted
IMPOSSIBLE = -1  # in place of a class
Key = TypeVar("Key")


class Interaction(NamedTuple):
    """One way to relate a new element to other elements."""

    new: Vector  # witnesses that the new element gains, for each counted quantity
    counts: Counts  # the classes of the other elements afterwards
    totals: Vector  # added to the totals
    weight: Number


class InitialClass(NamedTuple):
    """The class of an element before it is related to others."""

    number: int
    totals: Vector
    weight: Number


@dataclass
class ClassInteractions:
    """Classes of elements, and the interactions of a new element with elements of each class."""

    tables: CellTables
    numbers: Numbers

    def __post_init__(self) -> None:
        tables, sentence = self.tables, self.tables.sentence
        self.exponent = choose_polynomial_total(sentence.totals)
        self.totals = [t for i, t in enumerate(sentence.totals) if i != self.exponent]
        self.bounded = [is_bounded(t) for t in self.totals]
        self.capped = [is_growing(t) and t.operator in (">=", ">") for t in self.totals]
        self.no_totals = tuple(0 for _ in self.totals)
        self.multiply = self.choose_multiplication()
        self.classes: list[tuple[int, Vector]] = []  # (kind, missing witnesses)
        self.class_number: dict[tuple[int, Vector], int] = {}
        self.most_missing = [tuple(0 for _ in tables.counted)] * len(tables.kinds)
        self.initial: dict[int, list[InitialClass]] = {}  # by group
        for cell in tables.cells:
            both = zip(self.most_missing[cell.kind], cell.missing, strict=True)
            self.most_missing[cell.kind] = tuple(max(pair) for pair in both)
            totals = self.add_totals(self.no_totals, self.state_totals(cell.totals))
            if totals is not None:
                number = self.number_class(cell.kind, cell.missing)
                start = InitialClass(number, totals, self.value(cell.weight, cell.totals))
                self.initial.setdefault(tables.kinds[cell.kind].group, []).append(start)
        self.num_steps = 0
        refuse_states(sum(group.size for group in sentence.groups))  # each adds at least one
        self._remaining: dict[tuple[int, Vector], int] = {}
        self._powers: dict[tuple[int, int, int, Context | None], list[Interaction]] = {}
        self._products: dict[tuple[int, Counts, Context | None], list[Interaction]] = {}

    def choose_multiplication(self) -> Callable[[Number, Number], Number]:
        if self.exponent is None:
            return lambda a, b: a * b
        length = self.tables.sentence.totals[self.exponent].bound + 1
        if self.numbers.exact:
            return lambda a, b: a.mul_low(b, length)
        return lambda a, b: (a * b).truncate(length)

    def value(self, weight: Monomials, totals: Vector) -> Number:
        """Return weight · x^t, where t is the total of the polynomial and x its variable."""
        number = self.numbers.of(weight)
        if self.exponent is None:
            return number
        from flint import arb_poly, fmpq_poly

        polynomial = fmpq_poly if self.numbers.exact else arb_poly
        return polynomial([0] * totals[self.exponent] + [number])

    def state_totals(self, totals: Vector) -> Vector:
        """Return the totals that are part of the state: all but the polynomial's."""
        if self.exponent is None:
            return totals
        return totals[: self.exponent] + totals[self.exponent + 1 :]

    def number_class(self, kind: int, missing: Vector) -> int:
        number = self.class_number.setdefault((kind, missing), len(self.classes))
        if number == len(self.classes):
            self.classes.append((kind, missing))
        return number

    def class_after(self, number: int, gained: Vector) -> int:
        """Return the class of an element that gains witnesses; IMPOSSIBLE if too many."""
        key = number, gained
        found = self._remaining.get(key)
        if found is None:
            kind, missing = self.classes[number]
            rest = tuple(a - b for a, b in zip(missing, gained, strict=True))
            found = IMPOSSIBLE if any(n < 0 for n in rest) else self.number_class(kind, rest)
            self._remaining[key] = found
        return found

    def one(self) -> Number:
        no_totals = tuple(0 for _ in self.tables.sentence.totals)
        return self.value({tuple(0 for _ in self.numbers.values): 1}, no_totals)

    def interact_with_all(
        self, kind: int, counts: Counts, context: Context | None
    ) -> list[Interaction]:
        """Relate a new element to elements of several classes; cached by common prefixes."""
        key = kind, counts, context
        found = self._products.get(key)
        if found is None:
            if not counts:
                nothing = tuple(0 for _ in self.tables.counted)
                found = [Interaction(nothing, (), self.no_totals, self.one())]
            else:
                number, size = counts[-1]
                before = self.interact_with_all(kind, counts[:-1], context)
                found = self.combine(
                    kind, before, self.interact_with_class(kind, number, size, context)
                )
            self._products[key] = found
        return found

    def clear_products(self) -> None:
        """Clear the cache of `interact_with_all`; layers share few of its entries."""
        self._products.clear()

    def interact_with_class(
        self, kind: int, number: int, size: int, context: Context | None
    ) -> list[Interaction]:
        """Relate a new element to `size` elements of one class."""
        found = self._powers.get((kind, number, size, context))
        if found is None:
            known = size
            while known > 1 and (kind, number, known, context) not in self._powers:
                known -= 1
            if known == 1:
                self._powers[kind, number, 1, context] = self.interact(kind, number, context)
            found = self._powers[kind, number, known, context]
            for times in range(known + 1, size + 1):
                found = self.combine(kind, found, self._powers[kind, number, 1, context])
                self._powers[kind, number, times, context] = found
        return found

    def interact(self, kind: int, number: int, context: Context | None) -> list[Interaction]:
        """Relate a new element of a kind to one element of a class: their pair table."""
        most = self.number_class(kind, self.most_missing[kind])
        found: dict[tuple[Vector, Counts, Vector], Number] = {}
        for state in self.tables.pair_states(self.classes[number][0], kind, context):
            rest = self.class_after(number, state.first)
            totals = self.add_totals(self.no_totals, self.state_totals(state.totals))
            if IMPOSSIBLE in (rest, self.class_after(most, state.second)) or totals is None:
                continue
            key = state.second, ((rest, 1),), totals
            add_weight(found, key, self.value(state.weight, state.totals))
        return [Interaction(*key, value) for key, value in found.items()]

    def combine(
        self, kind: int, first: list[Interaction], second: list[Interaction]
    ) -> list[Interaction]:
        """Multiply the interactions with two sets of elements."""
        self.count_steps(len(first) * len(second))
        found: dict[tuple[Vector, Counts, Vector], Number] = {}
        most = self.number_class(kind, self.most_missing[kind])
        for one in first:
            for other in second:
                new = tuple([a + b for a, b in zip(one.new, other.new, strict=True)])
                totals = self.add_totals(one.totals, other.totals)
                if self.class_after(most, new) != IMPOSSIBLE and totals is not None:
                    key = new, merge_counts(one.counts, other.counts), totals
                    add_weight(found, key, self.multiply(one.weight, other.weight))
        return [Interaction(*key, value) for key, value in found.items()]

    def count_steps(self, steps: int) -> None:
        self.num_steps += steps
        if self.num_steps > self.numbers.max_steps:
            raise TooLarge(
                f"the sum over cells needs more than {self.numbers.max_steps:,} steps",
                code="cells",
                hint=SMALLER,
            )

    def add_totals(self, first: Vector, second: Vector) -> Vector | None:
        """Add totals; None if one exceeds its bound. A total that only grows is capped."""
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

    def is_finished(self, number: int) -> bool:
        """Return whether no exact count of the class is missing witnesses."""
        kind, missing = self.classes[number]
        tracked = self.tables.kinds[kind].tracked
        return not any(t == "=" and n for t, n in zip(tracked, missing, strict=True))

    def can_finish(self, classes: Iterable[int], num_following: Callable[[int], int]) -> bool:
        """Return whether enough elements follow for the missing witnesses of these classes."""
        for number in classes:
            kind, missing = self.classes[number]
            tracked = self.tables.kinds[kind].tracked
            for q, num_missing in enumerate(missing):
                if num_missing and num_missing > num_following(q) and tracked[q] == "=":
                    return False
        return True

    def sum_valid(self, found: Iterable[tuple[Vector, Number]]) -> Number:
        """Sum the weights of the states whose totals satisfy all constraints."""
        result = 0 * self.numbers.one
        for totals, weight in found:
            pairs = zip(self.totals, totals, strict=True)
            if all(COMPARE[total.operator](value, total.bound) for total, value in pairs):
                result += self.sum_coefficients(weight)
        return result

    def sum_coefficients(self, weight: Number) -> Number:
        """Sum the coefficients of the polynomial whose exponents satisfy its constraint."""
        if self.exponent is None:
            return weight
        total = self.tables.sentence.totals[self.exponent]
        longest = min(total.bound, weight.degree())
        return sum(
            (weight[n] for n in range(longest + 1) if COMPARE[total.operator](n, total.bound)),
            start=0 * self.numbers.one,
        )


def add_weight(weights: dict[Key, Number], key: Key, value: Number) -> None:
    weights[key] = weights[key] + value if key in weights else value


def refuse_states(number: int) -> None:
    if number > MAX_STATES:
        raise TooLarge(
            f"the sum over cells has {number:,} or more states, and at most {MAX_STATES:,} are "
            "kept",
            code="cells",
            hint=SMALLER,
        )


def merge_counts(first: Counts, second: Counts) -> Counts:
    if not first:
        return second
    merged = dict(first)
    for number, size in second:
        merged[number] = merged.get(number, 0) + size
    return tuple(sorted(merged.items()))


def choose_polynomial_total(totals: Sequence[Total]) -> int | None:
    """Return the number of the bounded total with the largest bound; None if all are small."""
    large = [i for i, t in enumerate(totals) if is_bounded(t) and t.bound >= MIN_BOUND]
    return max(large, key=lambda i: totals[i].bound, default=None)


def is_growing(total: Total) -> bool:
    return all(coefficient >= 0 for coefficient, _ in total.parts)


def is_bounded(total: Total) -> bool:
    return is_growing(total) and total.operator in ("=", "<=", "<")


StateKey = tuple[Counts, Vector]  # (classes of the remaining elements, totals)
Layer = dict[StateKey, Number]


def eliminate_elements(tables: CellTables, numbers: Numbers) -> Number:
    """Return Z of a sentence without order."""
    return Elimination(ClassInteractions(tables, numbers)).run()


@dataclass
class Elimination:
    """The states of an elimination, by the number of elements that remain."""

    interactions: ClassInteractions
    layers: dict[int, Layer] = field(default_factory=dict)
    inert: dict[int, bool] = field(default_factory=dict)  # by class

    def run(self) -> Number:
        interactions = self.interactions
        size = sum(group.size for group in interactions.tables.sentence.groups)
        self.layers = {left: {} for left in range(size + 1)}
        for (counts, totals), weight in self.assign_cells().items():
            self.add_state(counts, totals, weight)
        for left in range(size, 0, -1):
            interactions.clear_products()
            refuse_states(len(self.layers[left]))
            for (counts, totals), weight in self.layers.pop(left).items():
                self.eliminate(counts, totals, weight)
        return interactions.sum_valid(
            (totals, weight) for (_, totals), weight in self.layers[0].items()
        )

    def eliminate(self, counts: Counts, totals: Vector, weight: Number) -> None:
        """Relate one element to all others, and add the states without it."""
        interactions = self.interactions
        number, others = self.take_element(counts)
        found = interactions.interact_with_all(interactions.classes[number][0], others, None)
        interactions.count_steps(len(found))
        for each in found:
            sums = interactions.add_totals(totals, each.totals)
            rest = interactions.class_after(number, each.new)
            if sums is not None and rest != IMPOSSIBLE and interactions.is_finished(rest):
                self.add_state(each.counts, sums, interactions.multiply(weight, each.weight))

    def assign_cells(self) -> Layer:
        """Assign a cell to every element, in all ways; merge those with the same classes."""
        interactions = self.interactions
        found: Layer = {((), interactions.no_totals): interactions.one()}
        for group, members in enumerate(interactions.tables.sentence.groups):
            # The number of elements without a cell, and the state.
            partial = {(members.size, key): weight for key, weight in found.items()}
            starts = interactions.initial.get(group, [])
            for start in starts:
                partial = self.assign_cell(partial, start, is_last=start is starts[-1])
                refuse_states(len(partial))
            found = {key: weight for (left, key), weight in partial.items() if not left}
        return found

    def assign_cell(
        self, partial: dict[tuple[int, StateKey], Number], start: InitialClass, *, is_last: bool
    ) -> dict[tuple[int, StateKey], Number]:
        """Assign one initial class to 0, 1, … of the elements that have none."""
        interactions = self.interactions
        found: dict[tuple[int, StateKey], Number] = {}
        for (left, (counts, totals)), weight in partial.items():
            sums: Vector | None = totals
            power = weight
            interactions.count_steps(left + 1)
            for size in range(left + 1):
                if sums is None:
                    break
                if size == left or not is_last:
                    more = merge_counts(counts, ((start.number, size),)) if size else counts
                    add_weight(found, (left - size, (more, sums)), comb(left, size) * power)
                sums = interactions.add_totals(sums, start.totals)
                power = interactions.multiply(power, start.weight)
        return found

    def add_state(self, counts: Counts, totals: Vector, weight: Number) -> None:
        """Add a weight to a state, unless too few elements remain for its missing witnesses."""
        counts = tuple(pair for pair in counts if not self.is_inert(pair[0]))
        left = sum(size for _, size in counts)
        if self.interactions.can_finish((number for number, _ in counts), lambda _: left - 1):
            add_weight(self.layers[left], (counts, totals), weight)

    def is_inert(self, number: int) -> bool:
        """Return whether the class is finished and has weight 1 with every other element."""
        if number not in self.inert:
            interactions = self.interactions
            found = [
                interactions.interact_with_class(kind, number, 1, None)
                for kind in range(len(interactions.tables.kinds))
            ]
            self.inert[number] = interactions.is_finished(number) and all(
                len(each) == 1
                and not any(each[0].new + each[0].totals)
                and each[0].counts == ((number, 1),)
                and each[0].weight == interactions.one()
                for each in found
            )
        return self.inert[number]

    def take_element(self, counts: Counts) -> tuple[int, Counts]:
        """Return the class with the fewest missing witnesses, and the counts of the others."""
        classes = self.interactions.classes
        index = min(range(len(counts)), key=lambda i: (sum(classes[counts[i][0]][1]), i))
        number, size = counts[index]
        kept = ((number, size - 1),) if size > 1 else ()
        return number, counts[:index] + kept + counts[index + 1 :]
