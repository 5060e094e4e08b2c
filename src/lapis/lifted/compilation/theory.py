"""Shattered first-order theories over regions: any two atoms have equal or disjoint groundings.

A region is a set of interchangeable constants, of which only the size matters:

    root      interchangeable constants of a type
    plus      members of a region for which a counted atom is true; the size is summed over
    minus     the other members of that region
    rest      a region without some elements that were taken out

A circuit is compiled for regions, not for sizes. Numbers of groundings are `Size`s, products of
(size(region) − offset), which are computed when the circuit is evaluated.

A clause has variables 0, 1, …, each over a region. Variables of one region always denote
*different* elements, because each formula becomes one clause for each way in which its variables
can be equal. The `AtomShape` of an atom is its predicate, the region or element of each argument,
and which arguments are equal. It determines the ground atoms, and two shapes have all ground atoms
in common or none. So unification, shattering and independence become comparisons of shapes.

    Z = Σ_worlds Π literal weights · Π_hard 1[clause] · exp(Σ_soft exponent · true groundings)

The exponent of a grounding of a soft clause is Σ coefficient · weight · size: if a variable no
longer occurs in a literal, its number of values becomes a factor of the size. A hard clause keeps a
need (region, k) instead: it applies if the region has at least k elements.
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

Region = int  # numbered in the order of creation, so a region comes before its parts
Sizes = Mapping[Region, np.ndarray]  # integers in the dtype of the evaluation; they broadcast


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
        """Return the number; 0 if a region has too few elements."""
        value = np.asarray(self.coefficient)
        for region, offset in self.factors:
            value = value * subtract_size(sizes[region], offset)
        # The division is exact; in floats, if the product is.
        return value if self.divisor == 1 else value // self.divisor

    def rename(self, names: Mapping[Region, Region]) -> Size:
        factors = tuple(sorted((names.get(r, r), offset) for r, offset in self.factors))
        return self._replace(factors=factors)


def subtract_size(size: np.ndarray, number: int) -> np.ndarray:
    """Return max(size − number, 0) in the dtype of the size."""
    kind = np.asarray(size).dtype
    return np.asarray(np.maximum(np.asarray(size - number), 0)).astype(kind)


def count_choices(regions: Iterable[Region], taken: Mapping[Region, int] | None = None) -> Size:
    """Return the number of ways to choose different elements of regions, some being taken."""
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


# A tautology, in place of clauses that are always true.
ALWAYS = (TheoryLiteral(TheoryAtom("", ()), True), TheoryLiteral(TheoryAtom("", ()), False))


class Slot(NamedTuple):
    """An argument of a shape: an element, or the `number`-th different member of a region."""

    element: str
    region: Region
    number: int


class AtomShape(NamedTuple):
    predicate: str
    slots: tuple[Slot, ...]

    @property
    def regions(self) -> tuple[Region, ...]:
        """The regions of its different members."""
        found = {slot.number: slot.region for slot in self.slots if not slot.element}
        return tuple(found[number] for number in sorted(found))

    @property
    def num_atoms(self) -> Size:
        return count_choices(self.regions)


class TheoryClause(NamedTuple):
    """A disjunction in which every variable occurs, with the regions of the variables."""

    literals: frozenset[TheoryLiteral]
    regions: tuple[Region, ...]

    @property
    def num_groundings(self) -> Size:
        return count_choices(self.regions)


Need = tuple[Region, int]  # the region has at least this number of elements
Exponent = tuple[tuple[int, Size], ...]  # (weight, multiplicity), sorted


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
    """Return the canonical clause, and the regions of variables that no literal mentions.

    None if the clause is always true.
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
    """Return the least clause over all orders of the variables, regions ascending."""
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
    """Return a sort key of clauses, so that every run compiles the same circuit."""
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
    """Build a theory, and the exponent of soft clauses that are always true."""
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
    """Shorten hard clauses: C ∨ l and C ∨ ¬l become C; drop subsumed clauses."""
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
    """Drop clauses with all literals of another; clauses are indexed by their rarest literal."""
    times = Counter(literal for hard in hards for literal in hard.clause.literals)
    by_rarest: dict[TheoryLiteral | None, list[Hard]] = {}
    for hard in hards:
        rarest = min(hard.clause.literals, key=lambda literal: times[literal], default=None)
        by_rarest.setdefault(rarest, []).append(hard)
    return frozenset(
        one
        for one in hards
        if not any(
            other != one
            and other.needs <= one.needs
            and other.clause.regions == one.clause.regions
            and other.clause.literals <= one.clause.literals
            for literal in (None, *one.clause.literals)
            for other in by_rarest.get(literal, ())
        )
    )


def resolve_clause(
    part: Hard, needs: Mapping[TheoryClause, Sequence[frozenset[Need]]]
) -> Iterator[tuple[Hard, Hard]]:
    """Yield (part, part without a literal) for each literal that resolves with another clause."""
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
