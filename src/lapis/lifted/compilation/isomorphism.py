"""Theories that differ in the names of regions and elements only have one circuit.

The canonical form numbers regions and elements by what is said of them: colour refinement, with
ties left in the order of the names. So two isomorphic theories may still get different forms,
which costs a compilation and nothing else; different theories never get the same. Breaking ties one
at a time, with a refinement after each, was tried: of 800 theories it saved one.

Colours are hashes of tuples of whole numbers, the same in every run; a collision leaves one tie
more, and makes no mistake.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple
from zlib import crc32

from lapis.lifted.compilation.regions import Region
from lapis.lifted.compilation.theory import Clause, Hard, Literal, Soft, Theory, canonical

ROUNDS = 3
Name = Region | str


class Part(NamedTuple):
    """A clause as lines: a number for what a line says, and the names it says it of."""

    lines: tuple[tuple[int, tuple[Name, ...]], ...]
    names: frozenset[Name]


def canonical_form(theory: Theory) -> tuple[object, tuple[Region, ...]]:
    """A key, equal for isomorphic theories at best, and our regions in the key's order."""
    parts = [*map(part_of_hard, theory.hard), *map(part_of_soft, theory.soft)]
    names = sorted(
        {name for part in parts for name in part.names},
        key=lambda name: (isinstance(name, str), str(name)),
    )
    colour: dict[Name, int] = {name: int(isinstance(name, str)) for name in names}
    for _ in range(ROUNDS):
        said: dict[Name, list[int]] = {name: [] for name in names}
        for part in parts:
            coloured = [(word, tuple(map(colour.__getitem__, own))) for word, own in part.lines]
            whole = hash(tuple(sorted(coloured)))
            places: dict[Name, list[tuple[object, ...]]] = {name: [] for name in part.names}
            for line, (_, own) in zip(coloured, part.lines, strict=True):
                for place, name in enumerate(own):
                    places[name].append((*line, place))
            for name, found in places.items():
                said[name].append(hash((whole, *sorted(found))))
        new = {name: hash((colour[name], *sorted(said[name]))) for name in names}
        done = len(set(new.values())) == len(set(colour.values()))
        colour = new
        if done:
            break
    ordered = sorted(names, key=lambda name: colour[name])
    regions = tuple(name for name in ordered if isinstance(name, int))
    elements = [name for name in ordered if isinstance(name, str)]
    number = {region: index for index, region in enumerate(regions)}
    renamed = {element: f"#{index}" for index, element in enumerate(elements)}
    key = (
        frozenset(
            (rename(part.clause, number, renamed), frozenset((number[r], k) for r, k in part.needs))
            for part in theory.hard
        ),
        frozenset(
            (
                rename(part.clause, number, renamed),
                tuple(sorted((w, size.rename(number)) for w, size in part.exponent)),
            )
            for part in theory.soft
        ),
    )
    return key, regions


def rename(clause: Clause, regions: Mapping[Region, Region], elements: Mapping[str, str]) -> Clause:
    literals = frozenset(
        Literal(
            atom._replace(
                terms=tuple(elements[t] if isinstance(t, str) else t for t in atom.terms)
            ),
            sign,
        )
        for atom, sign in clause.literals
    )
    own = {v: regions[r] for v, r in enumerate(clause.regions)}
    return canonical(literals, tuple(own), own)


def part_of_hard(part: Hard) -> Part:
    needs = [(hash((-1, k)), (region,)) for region, k in part.needs]
    return new_part([*lines_of(part.clause), *needs])


def part_of_soft(part: Soft) -> Part:
    weights = [
        (
            hash((weight, size.coefficient, *(offset for _, offset in size.factors))),
            tuple(region for region, _ in size.factors),
        )
        for weight, size in part.exponent
    ]
    return new_part([*lines_of(part.clause), *weights])


def new_part(lines: list[tuple[int, tuple[Name, ...]]]) -> Part:
    return Part(tuple(lines), frozenset(name for _, own in lines for name in own))


def lines_of(clause: Clause) -> list[tuple[int, tuple[Name, ...]]]:
    return [
        (
            hash((word(atom.predicate), sign, len(atom.terms))),
            tuple(t if isinstance(t, str) else clause.regions[t] for t in atom.terms),
        )
        for atom, sign in clause.literals
    ]


@cache
def word(predicate: str) -> int:
    return crc32(predicate.encode())
