"""Regions: sets of interchangeable constants, known by their size only, and counts over them.

A region is a type's constants without those that are told apart, or a part of a region:

    root      constants of a type that are known to be alike
    plus      those of the parent whose atom of a counted predicate is true; the size is summed over
    minus     the others of the parent
    rest      the parent without some elements that were taken out

A circuit is compiled for regions, never for numbers; numbers of groundings are `Size`s, products
of (size(region) − offset), read off when the circuit is evaluated.

First-order theories in which every two atoms are the same set of ground atoms or disjoint.

A clause has variables 0, 1, …, each over a region; variables of one region always stand for
*different* elements (formulas are split beforehand, one clause for each way in which their
variables can be equal). So an atom's `AtomShape`, that is its predicate with the region or element
of each argument and which arguments are equal, says which ground atoms it stands for, all
different ones, and two shapes have either all ground atoms in common or none. Unification,
shattering and independence, the hard parts of first-order compilation, become comparisons.

    Z = Σ_worlds Π literal weights · Π_hard 1[clause] · exp(Σ_soft exponent · true groundings)

A soft clause keeps the exponent of each of its groundings as Σ coefficient · weight · size: where
a variable no longer occurs in a literal, its number of values moves into the size. A hard clause
without such a variable keeps the need for it: (region, k), there are at least k elements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, permutations, product
from math import factorial, prod
from typing import NamedTuple

import numpy as np

Region = int  # numbers are given in the order of creation, so a parent comes before its parts
Sizes = Mapping[Region, np.ndarray]  # whole numbers in the dtype of the evaluation; they broadcast


class Size(NamedTuple):
    """coefficient · Π (size(region) − offset) / divisor."""

    factors: tuple[tuple[Region, int], ...] = ()  # sorted
    coefficient: int = 1
    divisor: int = 1

    def __mul__(self, other: object) -> Size:
        assert isinstance(other, Size)
        factors = tuple(sorted(self.factors + other.factors))
        return Size(factors, self.coefficient * other.coefficient, self.divisor * other.divisor)

    def at(self, sizes: Sizes) -> np.ndarray:
        """The number; 0 where a region is too small for as many different elements."""
        value = np.asarray(self.coefficient)
        for region, offset in self.factors:
            value = value * subtract_size(sizes[region], offset)
        # The division is exact, in floats as long as the product before it is.
        return value if self.divisor == 1 else value // self.divisor

    def rename(self, names: Mapping[Region, Region]) -> Size:
        factors = tuple(sorted((names.get(r, r), offset) for r, offset in self.factors))
        return self._replace(factors=factors)


def subtract_size(size: np.ndarray, number: int) -> np.ndarray:
    """max(size − number, 0); whole numbers of any length (objects) stay such."""
    kind = np.asarray(size).dtype
    return np.asarray(np.maximum(np.asarray(size - number), 0)).astype(kind)


def count_choices(regions: Iterable[Region], taken: Mapping[Region, int] | None = None) -> Size:
    """In how many ways variables of these regions can be different elements, some being taken."""
    used = dict(taken or {})
    factors: list[tuple[Region, int]] = []
    for region in regions:
        factors.append((region, used.get(region, 0)))
        used[region] = used.get(region, 0) + 1
    return Size(tuple(sorted(factors)))


Term = int | str  # a variable of the clause, or the name of an element


class TheoryAtom(NamedTuple):
    predicate: str
    terms: tuple[Term, ...]


class TheoryLiteral(NamedTuple):
    atom: TheoryAtom
    positive: bool


# A disjunction that is always true, for clauses that are known to be.
ALWAYS = (TheoryLiteral(TheoryAtom("", ()), True), TheoryLiteral(TheoryAtom("", ()), False))


class Slot(NamedTuple):
    """An argument of a shape: an element, or the `number`-th different one of a region."""

    element: str
    region: Region
    number: int


class AtomShape(NamedTuple):
    predicate: str
    slots: tuple[Slot, ...]

    @property
    def regions(self) -> tuple[Region, ...]:
        """The region of each different element of it."""
        found = {slot.number: slot.region for slot in self.slots if not slot.element}
        return tuple(found[number] for number in sorted(found))

    @property
    def num_atoms(self) -> Size:
        return count_choices(self.regions)


class TheoryClause(NamedTuple):
    """A disjunction; the variables' regions in order, every variable in some literal."""

    literals: frozenset[TheoryLiteral]
    regions: tuple[Region, ...]

    @property
    def num_groundings(self) -> Size:
        return count_choices(self.regions)


Need = tuple[Region, int]  # the region has at least so many elements
Exponent = tuple[tuple[int, Size], ...]  # (weight, how often it counts), sorted


class Hard(NamedTuple):
    clause: TheoryClause
    needs: frozenset[Need] = frozenset()


class Soft(NamedTuple):
    clause: TheoryClause
    exponent: Exponent


@dataclass(frozen=True)
class Theory:
    hard: frozenset[Hard]
    soft: frozenset[Soft]  # no two with the same clause

    @cached_property
    def clauses(self) -> tuple[TheoryClause, ...]:
        return tuple([part.clause for part in self.hard] + [part.clause for part in self.soft])

    @cached_property
    def regions(self) -> frozenset[Region]:
        """The regions whose sizes it depends on."""
        own = {region for clause in self.clauses for region in clause.regions}
        own |= {region for part in self.hard for region, _ in part.needs}
        sizes = (size for part in self.soft for _, size in part.exponent)
        return frozenset(own | {region for size in sizes for region, _ in size.factors})

    @cached_property
    def shapes(self) -> frozenset[AtomShape]:
        return frozenset(shape for clause in self.clauses for shape in clause_shapes(clause))


def atom_shape(atom: TheoryAtom, regions: Mapping[int, Region] | tuple[Region, ...]) -> AtomShape:
    numbers: dict[int, int] = {}
    slots: list[Slot] = []
    for term in atom.terms:
        if isinstance(term, str):
            slots.append(Slot(term, -1, -1))
        else:
            slots.append(Slot("", regions[term], numbers.setdefault(term, len(numbers))))
    return AtomShape(atom.predicate, tuple(slots))


@lru_cache(maxsize=1 << 16)
def clause_shapes(clause: TheoryClause) -> frozenset[AtomShape]:
    return frozenset(atom_shape(literal.atom, clause.regions) for literal in clause.literals)


def make_clause(
    literals: Iterable[TheoryLiteral], regions: Mapping[int, Region]
) -> tuple[TheoryClause, tuple[Region, ...]] | None:
    """The clause in its canonical form, and the regions of variables that no literal mentions.

    None if it is always true.
    """
    distinct = frozenset(literals)
    if any(literal._replace(positive=not literal.positive) in distinct for literal in distinct):
        return None
    used = sorted({t for literal in distinct for t in literal.atom.terms if isinstance(t, int)})
    unused = tuple(sorted(regions[v] for v in regions if v not in set(used)))
    return canonicalize_literals(distinct, tuple(used), regions), unused


def canonicalize_literals(
    literals: frozenset[TheoryLiteral], used: tuple[int, ...], regions: Mapping[int, Region]
) -> TheoryClause:
    """The least of the clauses that differ in the variables' order alone, regions ascending."""
    own: dict[Region, list[int]] = {}
    for variable in used:
        own.setdefault(regions[variable], []).append(variable)
    target = tuple(region for region in sorted(own) for _ in own[region])
    orders = product(*(permutations(own[region]) for region in sorted(own)))
    candidates = [
        frozenset(rename_literal(literal, number) for literal in literals)
        for order in orders
        for number in [{v: i for i, v in enumerate(chain.from_iterable(order))}]
    ]
    if len(candidates) > 1:
        candidates = [min(candidates, key=literals_key)]
    return TheoryClause(candidates[0], target)


@lru_cache(maxsize=1 << 16)
def clause_work(clause: TheoryClause) -> int:
    """Return how many literals `canonicalize_literals` renames: all, in each variable order."""
    orders = prod(factorial(number) for number in Counter(clause.regions).values())
    return orders * max(1, len(clause.literals))


def literal_key(literal: TheoryLiteral) -> tuple[str, tuple[str, ...], bool]:
    return literal.atom.predicate, tuple(map(str, literal.atom.terms)), literal.positive


def literals_key(literals: frozenset[TheoryLiteral]) -> list[tuple[str, tuple[str, ...], bool]]:
    return sorted(map(literal_key, literals))


@lru_cache(maxsize=1 << 16)
def clause_key(clause: TheoryClause) -> tuple[object, ...]:
    """What clauses are sorted by, so that every run makes the same circuit."""
    return clause.regions, literals_key(clause.literals)


def hard_key(part: Hard) -> tuple[object, ...]:
    return clause_key(part.clause), sorted(part.needs)


def rename_literal(literal: TheoryLiteral, terms: Mapping[int, Term]) -> TheoryLiteral:
    atom = literal.atom
    swapped = tuple(terms.get(t, t) if isinstance(t, int) else t for t in atom.terms)
    return TheoryLiteral(TheoryAtom(atom.predicate, swapped), literal.positive)


def build_theory(
    hard: Iterable[tuple[Iterable[TheoryLiteral], Mapping[int, Region], frozenset[Need]]],
    soft: Iterable[tuple[Iterable[TheoryLiteral], Mapping[int, Region], Exponent]],
) -> tuple[Theory, Exponent]:
    """Clauses put together, and the exponent of soft ones that are always true."""
    hards: set[Hard] = set()
    for literals, regions, needs in hard:
        made = make_clause(literals, regions)
        if made is not None:
            clause, unused = made
            hards.add(Hard(clause, needs | collect_needs(clause.regions, unused)))
    softs: dict[TheoryClause, Counter[tuple[int, Size]]] = {}
    certain: Counter[tuple[int, Size]] = Counter()
    for literals, regions, exponent in soft:
        made = make_clause(literals, regions)
        if made is None:
            times = count_choices(regions.values())
            add_exponent(certain, exponent, times)
            continue
        clause, unused = made
        if clause.literals:
            times = count_choices(unused, Counter(clause.regions))
            add_exponent(softs.setdefault(clause, Counter()), exponent, times)
    merged = frozenset(Soft(clause, exponent_of(total)) for clause, total in softs.items())
    return Theory(simplify_hard(hards), merged), exponent_of(certain)


def collect_needs(regions: Iterable[Region], unused: Iterable[Region]) -> frozenset[Need]:
    total = Counter(regions)
    total.update(unused)
    return frozenset((region, total[region]) for region in set(unused))


def add_exponent(total: Counter[tuple[int, Size]], exponent: Exponent, times: Size) -> None:
    for weight, size in exponent:
        scaled = size * times
        total[weight, Size(scaled.factors)] += scaled.coefficient


def exponent_of(total: Counter[tuple[int, Size]]) -> Exponent:
    return tuple(
        sorted((w, Size(size.factors, times)) for (w, size), times in total.items() if times)
    )


def simplify_hard(hards: set[Hard]) -> frozenset[Hard]:
    """The same hard clauses, shorter: C ∨ l and C ∨ ¬l are C; what another implies is left out."""
    while True:
        needs: dict[TheoryClause, list[frozenset[Need]]] = {}
        for hard in hards:
            needs.setdefault(hard.clause, []).append(hard.needs)
        ordered = sorted(hards, key=hard_key)
        shorter = next((pair for part in ordered for pair in resolve_clause(part, needs)), None)
        if shorter is None:
            break
        longer, clause = shorter
        hards = (hards - {longer}) | {clause}
    return drop_subsumed(hards)


def drop_subsumed(hards: set[Hard]) -> frozenset[Hard]:
    """Without the clauses that hold all literals of another; each waits at its rarest literal."""
    times = Counter(literal for hard in hards for literal in hard.clause.literals)
    waiting: dict[TheoryLiteral | None, list[Hard]] = {}
    for hard in hards:
        rarest = min(hard.clause.literals, key=lambda literal: times[literal], default=None)
        waiting.setdefault(rarest, []).append(hard)
    return frozenset(
        one
        for one in hards
        if not any(
            other != one
            and other.needs <= one.needs
            and other.clause.regions == one.clause.regions
            and other.clause.literals <= one.clause.literals
            for literal in (None, *one.clause.literals)
            for other in waiting.get(literal, ())
        )
    )


def resolve_clause(
    part: Hard, needs: Mapping[TheoryClause, Sequence[frozenset[Need]]]
) -> Iterator[tuple[Hard, Hard]]:
    """(part, part without a literal) for each literal that another clause denies."""
    clause = part.clause
    regions = dict(enumerate(clause.regions))
    for literal in sorted(clause.literals, key=literal_key):
        rest = clause.literals - {literal}
        opposite = rest | {literal._replace(positive=not literal.positive)}
        other = canonicalize_literals(opposite, tuple(regions), regions)
        if any(needed <= part.needs for needed in needs.get(other, ())):
            made = make_clause(rest, regions)
            assert made is not None
            found, unused = made
            yield part, Hard(found, part.needs | collect_needs(found.regions, unused))
