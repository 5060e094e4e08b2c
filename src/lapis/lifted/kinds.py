"""Divide constants into elements and regions, and assign variables to them.

An element is a constant that is distinguished from all others: one that a formula names, or any
constant of a type whose values are compared as numbers or select weights. The other constants of a
type are divided into regions of interchangeable constants, by colour refinement over the facts: the
colour of a constant is the multiset of its facts, in which other constants are replaced by their
colours. Constants of a region are interchangeable if every relation is, on every combination of
regions, completely true, completely false or completely unknown. That is checked; if it fails,
constants become elements. So facts about single constants cost little, and so does a relation that
is complete between groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import factorial
from numbers import Integral
from typing import NamedTuple

import numpy as np

from lapis.errors import LapisError, TooLarge, check_word
from lapis.inference.random_numbers import mix_array
from lapis.language.syntax import Constant, Variable
from lapis.lifted.compilation.theory import (
    AtomShape,
    Region,
    Size,
    Slot,
    Term,
    TheoryAtom,
    atom_shape,
    count_choices,
)
from lapis.lifted.rewriting import declared_type
from lapis.logic.clauses import Clause, Cube, TypedVariable
from lapis.problem.problem import Problem

MAX_KINDS = 60  # elements and regions, of all types
MAX_ROUNDS = 8  # of colour refinement; colours need not be stable, because regions are checked


class Kind(NamedTuple):
    """The elements and regions of a type."""

    elements: tuple[str, ...]
    regions: tuple[Region, ...]
    kind_of: np.ndarray  # int64[num_constants], the region, or −1 − number of the element


@dataclass(frozen=True)
class Kinds:
    """The elements and regions of all types, with the evidence."""

    of_type: Mapping[str, Kind]
    names: tuple[str, ...]  # of the regions, for display
    sizes: Mapping[Region, int]
    facts: Mapping[AtomShape, bool | None]  # evidence about all atoms of a shape; None: unknown

    @cached_property
    def type_of_region(self) -> Mapping[Region, str]:
        return {r: name for name, kind in self.of_type.items() for r in kind.regions}


class Assignment(NamedTuple):
    """An element or a member of a region for each variable."""

    term: Mapping[str, Term]  # equal members of a region have one number
    regions: Mapping[int, Region]  # of the numbers

    @property
    def num_groundings(self) -> Size:
        return count_choices(self.regions.values())


def assignments(variables: Sequence[TypedVariable], kinds: Kinds) -> Iterator[Assignment]:
    """Yield all assignments of variables to elements, and to equal or different members of regions.

    For n variables of a type with one region and no elements there are Bell(n).
    """

    def extend(
        index: int, term: dict[str, Term], regions: dict[int, Region]
    ) -> Iterator[Assignment]:
        if index == len(variables):
            yield Assignment(term, regions)
            return
        name, type_name = variables[index]
        kind = kinds.of_type[type_name]
        for element in kind.elements:
            yield from extend(index + 1, {**term, name: element}, regions)
        for number, region in regions.items():
            if region in kind.regions:
                yield from extend(index + 1, {**term, name: number}, regions)
        for region in kind.regions:
            number = len(regions)
            yield from extend(index + 1, {**term, name: number}, {**regions, number: region})

    return extend(0, {}, {})


def num_assignments(variables: Sequence[TypedVariable], kinds: Kinds) -> int:
    """Return Σ over `assignments` of the number of orders of the members.

    The canonical form of a clause is found by trying these orders, so this is the work of encoding
    a formula.
    """
    total = 1
    for type_name, number in Counter(type_name for _, type_name in variables).items():
        kind = kinds.of_type[type_name]
        # counts[m]: assignments of the variables so far with m different members
        counts = [1]
        for _ in range(number):
            longer = [*(w * (len(kind.elements) + m) for m, w in enumerate(counts)), 0]
            for m, w in enumerate(counts):
                longer[m + 1] += w * len(kind.regions)
            counts = longer
        total *= sum(w * factorial(m) for m, w in enumerate(counts))
    return total


def all_shapes(predicate: str, types: Sequence[str], kinds: Kinds) -> Iterator[AtomShape]:
    """Yield the shapes of the ground atoms of a predicate."""
    variables = [(str(position), type_name) for position, type_name in enumerate(types)]
    for assignment in assignments(variables, kinds):
        terms = tuple(assignment.term[name] for name, _ in variables)
        yield atom_shape(TheoryAtom(predicate, terms), assignment.regions)


def group_kinds(
    problem: Problem,
    grounded: Iterable[str] = (),
    sizes: Mapping[str, int] | None = None,
    max_elements: int | None = None,
) -> Kinds:
    """Divide the constants of each type; types in `grounded` have elements only.

    `sizes` gives types more constants than the problem names; these have no facts. Raises TooLarge
    if there are more than `max_elements`.
    """
    named = named_constants(problem)
    for type_name in grounded:
        named[type_name] |= set(problem.domains[type_name].constants)
    extra = extra_constants(problem, sizes or {})
    while True:
        kinds = group_constants(problem, named, extra)
        refuse_many_kinds(kinds)
        if max_elements is not None:
            refuse_elements(kinds, max_elements)
        # Facts are read only if there are few kinds.
        kinds = replace(kinds, facts=facts_of_shapes(problem, kinds))
        mixed = mixed_constants(problem, kinds)
        if not mixed:
            return kinds
        for type_name, constants in mixed.items():
            named[type_name] |= constants


def extra_constants(problem: Problem, sizes: Mapping[str, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for type_name, size in sizes.items():
        check_word("type", type_name, problem.domains, code="unknown-type")
        if not isinstance(size, Integral) or size < 0:
            raise LapisError(
                f"the size of type {type_name!r} must be a whole number, not {size!r}", code="size"
            )
        found[type_name] = size - len(problem.domains[type_name])
        if found[type_name] < 0:
            raise LapisError(
                f"type {type_name!r} has {len(problem.domains[type_name]):,} constants, more than "
                f"the size {size:,}",
                code="size",
            )
    return found


def refuse_many_kinds(kinds: Kinds) -> None:
    """Refuse problems with many elements and regions."""
    number = max_over_sorts(
        {name: len(kind.elements) + len(kind.regions) for name, kind in kinds.of_type.items()}
    )
    if sum(number.values()) > MAX_KINDS:
        worst = max(number, key=lambda name: number[name])
        raise too_many_kinds_error(worst, number[worst])


def max_over_sorts(numbers: Mapping[str, int]) -> dict[str, int]:
    """Return for each type the maximum over its sorts, which are independent."""
    found: dict[str, int] = {}
    for sort, number in numbers.items():
        type_name = declared_type(sort)
        found[type_name] = max(found.get(type_name, 0), number)
    return found


def refuse_many_constants(type_name: str, number: int) -> None:
    """Refuse to name many constants of a type."""
    if isinstance(number, Integral) and number > MAX_KINDS:
        raise too_many_kinds_error(type_name, int(number))


def too_many_kinds_error(type_name: str, number: int) -> TooLarge:
    name = declared_type(type_name)
    return TooLarge(
        f"this cannot be lifted: formulas and facts distinguish {number:,} constants or groups of "
        f"constants of type {name!r}",
        code="not-liftable",
        hint=f"lifting allows {MAX_KINDS} of all types; use another method",
    )


def refuse_elements(kinds: Kinds, most: int) -> None:
    """Refuse many distinguished constants; a region of one constant counts as an element."""
    singles = {
        name: len(kind.elements) + sum(kinds.sizes[region] == 1 for region in kind.regions)
        for name, kind in kinds.of_type.items()
    }
    number = sum(max_over_sorts(singles).values())
    if number > most:
        raise TooLarge(
            f"this is not lifted automatically: formulas and facts distinguish {number} constants, "
            "and each may double the circuit",
            code="not-liftable",
            hint="use --method lifted, or another method",
        )


def group_constants(
    problem: Problem, named: Mapping[str, set[str]], extra: Mapping[str, int]
) -> Kinds:
    """Divide constants into elements and regions, without the facts about shapes."""
    colours = refine_colours(problem, named)
    of_type: dict[str, Kind] = {}
    names: list[str] = []
    sizes: dict[Region, int] = {}
    for type_name, domain in problem.domains.items():
        elements = tuple(name for name in domain.constants if name in named[type_name])
        kind_of = np.full(len(domain), -1, np.int64)
        kind_of[[domain.index[name] for name in elements]] = -1 - np.arange(len(elements))
        others = np.ones(len(domain), bool)
        others[[domain.index[name] for name in elements]] = False
        found, number = np.unique(colours[type_name][others], return_counts=True)
        groups = dict(zip(found.tolist(), number.tolist(), strict=True))
        if type_name in extra:  # its size may change later, so it has a region
            groups[0] = groups.get(0, 0) + extra[type_name]
        first = len(names)
        ordered = sorted(groups)
        place_of = np.searchsorted(np.array(ordered, np.uint64), colours[type_name][others])
        kind_of[others] = first + place_of
        for place, colour in enumerate(ordered):
            sizes[first + place] = groups[colour]
            name = declared_type(type_name)
            names.append(name if len(groups) == 1 else f"{name}{place + 1}")
        of_type[type_name] = Kind(elements, tuple(range(first, len(names))), kind_of)
    return Kinds(of_type, tuple(names), sizes, {})


def known_rows(problem: Problem) -> Iterator[tuple[str, tuple[str, ...], bool | None, np.ndarray]]:
    """Yield predicate, types, value and rows of the facts, without defaults of open and closed."""
    for name, evidence in problem.evidence.items():
        types = evidence.predicate.types
        yield name, types, True, evidence.true
        if evidence.open:
            yield name, types, False, evidence.false
        else:
            yield name, types, None, evidence.unknown


def refine_colours(problem: Problem, named: Mapping[str, set[str]]) -> dict[str, np.ndarray]:
    """Return uint64[num_constants] for each type: colours; 0 for constants without facts."""
    start: dict[str, np.ndarray] = {}
    for type_name, domain in problem.domains.items():
        start[type_name] = np.zeros(len(domain), np.uint64)
        codes = [domain.index[name] for name in domain.constants if name in named[type_name]]
        start[type_name][codes] = mix_array(np.arange(1, len(codes) + 1, dtype=np.uint64))
    colours = start
    num_colours = 0
    for _ in range(MAX_ROUNDS):
        new = {name: colour.copy() for name, colour in start.items()}
        for number, (_, types, truth, rows) in enumerate(known_rows(problem)):
            if not len(rows):
                continue
            seed = np.uint64(3 * number + 1 + (0 if truth is None else 1 + truth))
            equal = equality_pattern(types, rows)
            for position, type_name in enumerate(types):
                word = mix_array(equal + np.uint64(1000 * position) + (seed << np.uint64(32)))
                for other, other_type in enumerate(types):
                    if other != position:
                        seen = colours[other_type][rows[:, other]]
                        word = mix_array(
                            word * np.uint64(31) + mix_array(seen + np.uint64(other + 1))
                        )
                np.add.at(new[type_name], rows[:, position], word)
        colours = new
        before, num_colours = num_colours, sum(len(np.unique(c)) for c in colours.values())
        if num_colours == before:
            break
    return colours


def equality_pattern(types: Sequence[str], rows: np.ndarray) -> np.ndarray:
    """Return uint64[num_rows], a bit for each pair of arguments that are the same constant."""
    found = np.zeros(len(rows), np.uint64)
    bit = 0
    for second in range(len(types)):
        for first in range(second):
            if types[first] == types[second]:
                same = rows[:, first] == rows[:, second]
                found |= same.astype(np.uint64) << np.uint64(bit)
                bit += 1
    return found


def shapes_of_rows(
    predicate: str, types: Sequence[str], rows: np.ndarray, kinds: Kinds
) -> tuple[list[AtomShape], np.ndarray]:
    """Return the shapes of ground atoms, and int64[num_rows], the number of each atom's shape."""
    columns = [kinds.of_type[t].kind_of[rows[:, i]] for i, t in enumerate(types)]
    columns.append(equality_pattern(types, rows).astype(np.int64))
    key = np.zeros(len(rows), np.int64)
    for column in columns:
        low, high = (int(column.min()), int(column.max())) if len(column) else (0, 0)
        key = key * (high - low + 1) + (column - low)
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    return [shape_of_row(predicate, types, rows[i], kinds) for i in first.tolist()], which.ravel()


def shape_of_row(predicate: str, types: Sequence[str], row: np.ndarray, kinds: Kinds) -> AtomShape:
    numbers: dict[tuple[str, int], int] = {}
    slots: list[Slot] = []
    for type_name, code in zip(types, row.tolist(), strict=True):
        kind = kinds.of_type[type_name]
        own = int(kind.kind_of[code])
        if own < 0:
            slots.append(Slot(kind.elements[-1 - own], -1, -1))
        else:
            number = numbers.setdefault((type_name, code), len(numbers))
            slots.append(Slot("", own, number))
    return AtomShape(predicate, tuple(slots))


def facts_of_shapes(problem: Problem, kinds: Kinds) -> dict[AtomShape, bool | None]:
    found: dict[AtomShape, bool | None] = {}
    for predicate, types, truth, rows in known_rows(problem):
        found |= dict.fromkeys(shapes_of_rows(predicate, types, rows, kinds)[0], truth)
    return found


def mixed_constants(problem: Problem, kinds: Kinds) -> dict[str, set[str]]:
    """Return constants of a region on which a relation is partly known."""
    sizes = {region: np.asarray(size, object) for region, size in kinds.sizes.items()}
    for predicate, types, _, rows in known_rows(problem):
        shapes, which = shapes_of_rows(predicate, types, rows, kinds)
        number = np.bincount(which, minlength=len(shapes))
        mixed = {
            region
            for shape, stated in zip(shapes, number.tolist(), strict=True)
            if stated != int(shape.num_atoms.at(sizes))
            for region in shape.regions
        }
        if mixed:
            region = min(mixed, key=lambda r: (kinds.sizes[r], r))
            type_name = kinds.type_of_region[region]
            codes = np.flatnonzero(kinds.of_type[type_name].kind_of == region)
            names = problem.domains[type_name].names[codes].tolist()
            return {type_name: set(names)}
    return {}


def listed_types(problem: Problem) -> set[str]:
    """Return the types all of whose constants are elements: they select weights or are compared."""
    form = problem.normal_form
    found = {
        type_name
        for feature in form.features
        for name, type_name in feature.variables
        if name in feature.plus
    }
    for own, by_number in compared_types(problem):
        if by_number or len(own) == 2:  # or names of two types
            found |= own
    return found


def all_parts(problem: Problem) -> Iterator[tuple[Clause | Cube, dict[str, str]]]:
    """Yield the clauses of features and the cubes of definitions, with their variables' types."""
    for feature in problem.normal_form.features:
        types = dict(feature.variables)
        yield from ((clause, types) for clause in feature.clauses)
    for definition in problem.normal_form.definitions:
        types = dict(definition.variables + definition.bound)
        yield from ((cube, types) for cube in definition.cubes)


def compared_types(problem: Problem) -> Iterator[tuple[set[str], bool]]:
    """Yield the types of the variables in each comparison, and whether numbers are compared."""
    for part, types in all_parts(problem):
        for condition in part.conditions:
            sides = condition.left, condition.right
            own = {types[side.name] for side in sides if isinstance(side, Variable)}
            yield own, condition.operator not in ("=", "!=") or bool(condition.offset)


def refuse_new_numbers(problem: Problem, extra: Mapping[str, int]) -> None:
    """Refuse to add constants to a type whose numbers are compared."""
    for own, by_number in compared_types(problem):
        for type_name in own:
            if by_number and extra.get(type_name):
                raise LapisError(
                    f"a size cannot add constants to type {type_name!r}, because formulas compare "
                    "its numbers",
                    code="size",
                    hint=f"name them in the model, as in {type_name} = {{1, 2, 3}}",
                )


def named_constants(problem: Problem) -> dict[str, set[str]]:
    """Return for each type the constants that formulas distinguish."""
    named: dict[str, set[str]] = {name: set() for name in problem.domains}
    for type_name in listed_types(problem):
        named[type_name] |= set(problem.domains[type_name].constants)
    predicates = dict(problem.model.predicates)
    predicates |= {name: each.predicate for name, each in problem.normal_form.derived.items()}
    for part, types in all_parts(problem):
        for literal in part.literals:
            own = predicates[literal.predicate].types
            for term, type_name in zip(literal.terms, own, strict=True):
                if isinstance(term, Constant):
                    named[type_name].add(term.name)
        for condition in part.conditions:  # a constant that a variable is compared with
            sides = condition.left, condition.right
            for type_name in {types[side.name] for side in sides if isinstance(side, Variable)}:
                for side in sides:
                    if isinstance(side, Constant) and side.name in problem.domains[type_name].index:
                        named[type_name].add(side.name)
    return named
