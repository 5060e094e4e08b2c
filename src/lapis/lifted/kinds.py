"""Which constants are told apart, and the ways in which variables can stand for them.

Constants that a formula names are elements, and so are all constants of a type whose values are
compared as numbers or select weights. The others of a type are put into regions by what the data
says of them: colour refinement over the facts, where the colour of a constant is the multiset of
facts it is in, other constants given by their colours. Constants of a region are interchangeable if
every relation is, on every combination of regions, known true throughout, known false throughout
or unknown throughout; that is checked, and where it fails constants become elements. So facts about
single constants cost next to nothing, and neither does a relation complete between groups.
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

MAX_KINDS = 60  # constants told apart and regions, of all types
MAX_ROUNDS = 8  # of colour refinement; the check that follows needs no stable colours


class Kind(NamedTuple):
    """The constants of a type."""

    elements: tuple[str, ...]  # told apart
    regions: tuple[Region, ...]
    kind_of: np.ndarray  # int64[num_constants], −1 − number of the element, or the region


@dataclass(frozen=True)
class Kinds:
    of_type: Mapping[str, Kind]
    names: tuple[str, ...]  # of the regions, for people
    sizes: Mapping[Region, int]
    facts: Mapping[AtomShape, bool | None]  # what the data says of all atoms of a shape, if it does

    @cached_property
    def type_of_region(self) -> Mapping[Region, str]:
        return {r: name for name, kind in self.of_type.items() for r in kind.regions}


class Assignment(NamedTuple):
    """What each variable stands for: an element, or a member of a region; equal ones are one."""

    term: Mapping[str, Term]
    regions: Mapping[int, Region]

    @property
    def num_groundings(self) -> Size:
        return count_choices(self.regions.values())


def assignments(variables: Sequence[TypedVariable], kinds: Kinds) -> Iterator[Assignment]:
    """All ways in which variables are elements, or equal or different members of regions.

    Without elements and facts there are Bell(number of variables) of one type.
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
    """The number of `assignments`, each times the orders of its variables that are members.

    A clause is brought into its canonical form by trying these orders, so this is the work of
    encoding a formula.
    """
    total = 1
    for type_name, number in Counter(type_name for _, type_name in variables).items():
        kind = kinds.of_type[type_name]
        # ways[m]: the variables so far are elements or m different members
        ways = [1]
        for _ in range(number):
            longer = [*(w * (len(kind.elements) + m) for m, w in enumerate(ways)), 0]
            for m, w in enumerate(ways):
                longer[m + 1] += w * len(kind.regions)
            ways = longer
        total *= sum(w * factorial(m) for m, w in enumerate(ways))
    return total


def all_shapes(predicate: str, types: Sequence[str], kinds: Kinds) -> Iterator[AtomShape]:
    """The shapes that the ground atoms of a predicate fall into."""
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
    """Elements and regions of each type; types in `grounded` have elements only.

    `sizes` are numbers of constants where they are more than the problem names: the others are
    like those that the data says nothing of. Raises TooLarge with more than `max_elements`.
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
        # Facts are looked at one by one only if they are of few kinds.
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
                f"the size {size:,} asked for",
                code="size",
            )
    return found


def refuse_many_kinds(kinds: Kinds) -> None:
    """Refuse problems in which constants are told apart, by themselves or in many groups."""
    number = max_over_sorts(
        {name: len(kind.elements) + len(kind.regions) for name, kind in kinds.of_type.items()}
    )
    if sum(number.values()) > MAX_KINDS:
        worst = max(number, key=lambda name: number[name])
        raise too_many_kinds_error(worst, number[worst])


def max_over_sorts(numbers: Mapping[str, int]) -> dict[str, int]:
    """For each type the largest number of its sorts, which have nothing to do with each other."""
    found: dict[str, int] = {}
    for sort, number in numbers.items():
        type_name = declared_type(sort)
        found[type_name] = max(found.get(type_name, 0), number)
    return found


def refuse_many_constants(type_name: str, number: int) -> None:
    """Refuse to tell so many constants of a type apart, before they have names."""
    if isinstance(number, Integral) and number > MAX_KINDS:
        raise too_many_kinds_error(type_name, int(number))


def too_many_kinds_error(type_name: str, number: int) -> TooLarge:
    name = declared_type(type_name)
    return TooLarge(
        f"this cannot be lifted: formulas and facts tell {number:,} constants or groups of "
        f"constants of type {name!r} apart, and lifting gains only where most are alike",
        code="not-liftable",
        hint=f"at most {MAX_KINDS} may differ in all; use another method",
    )


def refuse_elements(kinds: Kinds, most: int) -> None:
    """A region of one constant tells it apart as much as an element is."""
    singles = {
        name: len(kind.elements) + sum(kinds.sizes[region] == 1 for region in kind.regions)
        for name, kind in kinds.of_type.items()
    }
    number = sum(max_over_sorts(singles).values())
    if number > most:
        raise TooLarge(
            f"this is not lifted by itself: formulas and facts tell {number} constants apart, and "
            "each may double the circuit",
            code="not-liftable",
            hint="ask for lifting by name, or use another method",
        )


def group_constants(
    problem: Problem, named: Mapping[str, set[str]], extra: Mapping[str, int]
) -> Kinds:
    """Elements and regions, without what is known of them."""
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
        if type_name in extra:  # its size may be asked for later, so there is a region for it
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
    """Predicate, its types, and the rows known true, known false or (None) unknown.

    Those that its being open or closed says already are left out.
    """
    for name, evidence in problem.evidence.items():
        types = evidence.predicate.types
        yield name, types, True, evidence.true
        if evidence.open:
            yield name, types, False, evidence.false
        else:
            yield name, types, None, evidence.unknown


def refine_colours(problem: Problem, named: Mapping[str, set[str]]) -> dict[str, np.ndarray]:
    """uint64[num_constants] for each type: colours; 0 where nothing is said of a constant."""
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
                        told = colours[other_type][rows[:, other]]
                        word = mix_array(
                            word * np.uint64(31) + mix_array(told + np.uint64(other + 1))
                        )
                np.add.at(new[type_name], rows[:, position], word)
        colours = new
        before, num_colours = num_colours, sum(len(np.unique(c)) for c in colours.values())
        if num_colours == before:
            break
    return colours


def equality_pattern(types: Sequence[str], rows: np.ndarray) -> np.ndarray:
    """uint64[num_rows], which arguments of one type are the same constant, a bit a pair."""
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
    """The shapes that ground atoms have, and int64[num_rows], which of them each has."""
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
    """Constants of regions on which a relation is neither known throughout nor nowhere."""
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
    """The types all of whose constants formulas tell apart: they select weights or are compared."""
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
    """The clauses of features and the cubes of definitions, with the types of their variables."""
    for feature in problem.normal_form.features:
        types = dict(feature.variables)
        yield from ((clause, types) for clause in feature.clauses)
    for definition in problem.normal_form.definitions:
        types = dict(definition.variables + definition.bound)
        yield from ((cube, types) for cube in definition.cubes)


def compared_types(problem: Problem) -> Iterator[tuple[set[str], bool]]:
    """The types that meet in each comparison, and whether as numbers."""
    for part, types in all_parts(problem):
        for condition in part.conditions:
            sides = condition.left, condition.right
            own = {types[side.name] for side in sides if isinstance(side, Variable)}
            yield own, condition.operator not in ("=", "!=") or bool(condition.offset)


def refuse_new_numbers(problem: Problem, extra: Mapping[str, int]) -> None:
    """Refuse more constants of a type that is compared by number: which ones would they be?"""
    for own, by_number in compared_types(problem):
        for type_name in own:
            if by_number and extra.get(type_name):
                raise LapisError(
                    f"formulas compare the numbers of type {type_name!r}, and a size says nothing "
                    "about them",
                    code="size",
                    hint=f"name them in the model, as in {type_name} = {{1, 2, 3}}",
                )


def named_constants(problem: Problem) -> dict[str, set[str]]:
    """For each type, the constants that formulas tell apart."""
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
