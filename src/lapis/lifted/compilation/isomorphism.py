"""Theories that differ in the names of regions and elements only have one circuit.

The canonical form numbers regions and elements by what is said of them: colour refinement, with
ties left in the order of the names. So two isomorphic theories may still get different forms,
which costs a compilation and nothing else; different theories never get the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from lapis.lifted.compilation.regions import Region
from lapis.lifted.compilation.theory import Clause, Hard, Literal, Soft, Theory, canonical

ROUNDS = 3
Name = Region | str
Line = tuple[object, ...]


def canonical_form(theory: Theory) -> tuple[object, tuple[Region, ...]]:
    """A key, equal for isomorphic theories at best, and our regions in the key's order."""
    names = sorted(names_of(theory), key=lambda name: (isinstance(name, str), str(name)))
    colour: dict[Name, int] = {name: int(isinstance(name, str)) for name in names}
    for _ in range(ROUNDS):
        said: dict[Name, list[str]] = {name: [str(colour[name])] for name in names}
        for part in theory.parts:
            for name in names_of_part(part):
                said[name].append(repr(sorted(map(repr, lines(part, colour, name)))))
        kinds = {name: (said[name][0], *sorted(said[name][1:])) for name in names}
        order = {kind: index for index, kind in enumerate(sorted(set(kinds.values())))}
        colour = {name: order[kinds[name]] for name in names}
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


def names_of(theory: Theory) -> set[Name]:
    return {name for part in theory.parts for name in names_of_part(part)}


def names_of_part(part: Hard | Soft) -> set[Name]:
    found: set[Name] = set(part.clause.regions)
    found |= {t for x in part.clause.literals for t in x.atom.terms if isinstance(t, str)}
    if isinstance(part, Hard):
        return found | {region for region, _ in part.needs}
    return found | {region for _, size in part.exponent for region, _ in size.factors}


def lines(part: Hard | Soft, colour: Mapping[Name, int], marked: Name) -> list[Line]:
    """What a part says, names replaced by colours and one of them marked."""

    def word(name: Name) -> tuple[int, bool]:
        return colour[name], name == marked

    regions = part.clause.regions
    found: list[Line] = [
        (
            literal.atom.predicate,
            literal.positive,
            tuple(word(t) if isinstance(t, str) else word(regions[t]) for t in literal.atom.terms),
        )
        for literal in part.clause.literals
    ]
    if isinstance(part, Hard):
        return [*found, *(("need", word(region), k) for region, k in part.needs)]
    for weight, size in part.exponent:
        factors = tuple(sorted((word(region), offset) for region, offset in size.factors))
        found.append(("weight", weight, size.coefficient, factors))
    return found
