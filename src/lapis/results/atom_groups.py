"""Ground atoms of results, stored as int32 codes.

A result may have millions of atoms, of which a table shows sixty. Names, columns of constants and
lookup tables are computed on demand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from lapis.data.database import Domain
from lapis.errors import LapisError, suggestion
from lapis.language.instances import as_atom, canonical_name
from lapis.language.names import (
    AtomPattern,
    atom_pattern,
    format_atom,
    format_constant,
    format_state,
)
from lapis.language.parser import parse_formula
from lapis.language.syntax import Constant, Variable

Key = str | tuple[str, str]  # an atom, or its world and the atom
SIMPLE_ATOM = re.compile(r"\s*(\w+)\s*(?:\(([\w\s,]*)\))?\s*")


@dataclass(frozen=True)
class AtomGroup:
    """Atoms of one predicate, or instances of one formula, in one world."""

    predicate: str  # or the formula with its variables
    codes: np.ndarray  # int32[num_atoms, arity]
    domains: tuple[Domain, ...]  # of the arguments
    arguments: tuple[str, ...]  # the arguments' types, or the formula's variables
    format_name: Callable[[Sequence[str]], str]  # from constants to the name of the atom
    is_atom: bool = True  # False: instances of a formula
    world: str = ""
    pattern: AtomPattern | None = None  # template of the names, if there is one
    is_variable: bool = False  # states of a variable, looked up by their names

    def __len__(self) -> int:
        return len(self.codes)

    def names(self, rows: np.ndarray | slice | None = None) -> Iterator[str]:
        """Return the names of all atoms, or of some rows."""
        codes = self.codes if rows is None else self.codes[rows]
        if self.pattern is None:
            columns = [domain.names[codes[:, i]] for i, domain in enumerate(self.domains)]
            return map(self.format_name, each_row(columns, len(codes)))
        columns = [format_constants(self.domains[i], codes[:, i]) for i in self.pattern.order]
        return map(self.pattern.text.__mod__, each_row(columns, len(codes)))

    @cached_property
    def row_of(self) -> Mapping[tuple[int, ...], int]:
        return {tuple(row): number for number, row in enumerate(self.codes.tolist())}

    @cached_property
    def row_of_name(self) -> Mapping[str, int]:
        return {name: number for number, name in enumerate(self.names())}

    def find(self, constants: Sequence[str]) -> int | None:
        """Return the row of the atom with these constants, None if there is none."""
        if len(constants) != len(self.domains):
            return None
        codes = [d.index.get(c, -1) for d, c in zip(self.domains, constants, strict=True)]
        return self.row_of.get(tuple(codes))


def predicate_group(
    predicate: str,
    codes: np.ndarray,
    domains: Sequence[Domain],
    types: Sequence[str],
    *,
    function: bool = False,
    world: str = "",
) -> AtomGroup:
    """Group atoms of a predicate, named as facts."""
    format_name = partial(format_atom, predicate, function=function)
    pattern = atom_pattern(predicate, len(domains), function)
    return AtomGroup(
        predicate, codes, tuple(domains), tuple(types), format_name, world=world, pattern=pattern
    )


def variable_group(
    variable: str, codes: np.ndarray, domains: Sequence[Domain], *, world: str = ""
) -> AtomGroup:
    """Group states of a variable of a network or a ground program."""
    format_name = partial(format_state, variable)
    arguments = ("state",) * len(domains)
    return AtomGroup(
        variable, codes, tuple(domains), arguments, format_name, world=world, is_variable=True
    )


def each_row(columns: Sequence[np.ndarray], size: int) -> Iterator[tuple[str, ...]]:
    return zip(*columns, strict=True) if columns else iter([()] * size)


def format_constants(domain: Domain, codes: np.ndarray) -> np.ndarray:
    """Return object[num_codes], the formatted constants; each is formatted once."""
    names = domain.names
    if len(codes) < len(names):
        used, codes = np.unique(codes, return_inverse=True)
        names = names[used]
    texts = np.empty(len(names), object)
    texts[:] = [format_constant(name) for name in names]
    return texts[codes]


@dataclass(frozen=True, repr=False)
class Atoms:
    """The atoms of a result, group by group."""

    groups: tuple[AtomGroup, ...]
    asked_of: tuple[str, ...] = ()  # worlds, also those without atoms

    def __repr__(self) -> str:
        return f"<Atoms: {len(self):,} atoms>"

    @cached_property
    def offset(self) -> np.ndarray:
        """int64[num_groups + 1], the first atom of each group."""
        return np.cumsum([0, *map(len, self.groups)])

    def __len__(self) -> int:
        return int(self.offset[-1])

    def __iter__(self) -> Iterator[str]:
        for group in self.groups:
            yield from group.names()

    def names(self, rows: slice) -> Iterator[str]:
        """Yield the names of a range of atoms."""
        for first, group in zip(self.offset.tolist(), self.groups, strict=False):
            begin, end = max(rows.start - first, 0), min(rows.stop - first, len(group))
            if begin < end:
                yield from group.names(slice(begin, end))

    def take(self, chosen: np.ndarray) -> list[str]:
        """Return the names of chosen atoms, int64[num_chosen], in that order."""
        names = [""] * len(chosen)
        owner = self.owner(chosen)
        for number in np.unique(owner).tolist():
            places = np.flatnonzero(owner == number)
            rows = chosen[places] - self.offset[number]
            for place, name in zip(places.tolist(), self.groups[number].names(rows), strict=True):
                names[place] = name
        return names

    def select(self, chosen: np.ndarray) -> Atoms:
        """Return the atoms chosen by bool[num_atoms]."""
        parts = zip(self.groups, self.offset, self.offset[1:], strict=False)
        kept = (replace(g, codes=g.codes[chosen[first:last]]) for g, first, last in parts)
        return Atoms(tuple(group for group in kept if len(group)), self.asked_of)

    def owner(self, chosen: np.ndarray) -> np.ndarray:
        """Return int64[num_chosen], the group of each atom."""
        return np.searchsorted(self.offset, chosen, "right") - 1

    @cached_property
    def worlds(self) -> tuple[str, ...]:
        """The different worlds."""
        return tuple(dict.fromkeys((*self.asked_of, *(group.world for group in self.groups))))

    @property
    def is_divided(self) -> bool:
        """Whether there are several worlds, so that a name alone is ambiguous."""
        return len(self.worlds) > 1

    @cached_property
    def by_predicate(self) -> Mapping[str, np.ndarray]:
        """The atoms, int64[...], of each predicate or formula."""
        found: dict[str, list[np.ndarray]] = {}
        for number, group in enumerate(self.groups):
            atoms = np.arange(self.offset[number], self.offset[number + 1])
            found.setdefault(group.predicate, []).append(atoms)
        return {name: np.concatenate(parts) for name, parts in found.items()}

    def find(self, key: Key) -> int:
        """Return the number of an atom by its name, or by its world and name.

        Raises LapisError if there is no such atom, or one in several worlds.
        """
        if isinstance(key, str):
            world, text = None, key
        elif isinstance(key, tuple) and len(key) == 2:
            world, text = key
        else:
            raise LapisError(
                f"look up an atom by its name, not by {key!r}",
                code="not-asked",
                hint='as in answer["P(A)"], or answer["data.db", "P(A)"]; `names` lists them',
            )
        plain = re.sub(r"\s*([,=])\s*", r"\1", text.strip())
        named = all(group.is_variable for group in self.groups)  # by any text
        predicate, constants = (None, ()) if named else parse_name(text)
        found: dict[str, int] = {}
        for number, group in enumerate(self.groups):
            if world is not None and group.world != world:
                continue
            if group.is_variable:
                row = group.row_of_name.get(text, group.row_of_name.get(plain))
            elif group.is_atom:
                row = group.find(constants) if group.predicate == predicate else None
            else:
                row = group.row_of_name.get(canonical_name(text))
            if row is not None:
                found.setdefault(group.world, int(self.offset[number]) + row)
        if len(found) == 1:
            return next(iter(found.values()))
        raise self.ambiguous(text, list(found)) if found else self.missing(text, world)

    def ambiguous(self, text: str, worlds: Sequence[str]) -> LapisError:
        return LapisError(
            f"{text!r} is in {len(worlds)} worlds: {', '.join(worlds)}",
            code="several-worlds",
            hint=f'give the world: answer["{worlds[0]}", {text!r}]',
        )

    def missing(self, text: str, world: str | None) -> LapisError:
        if world is not None and world not in self.worlds:
            hint = suggestion(world, self.worlds, f"there are: {', '.join(self.worlds)}")
            return LapisError(f"there is no world {world!r}", code="unknown-world", hint=hint)
        predicates = dict.fromkeys(group.predicate for group in self.groups)
        where = "" if world is None else f" in {world!r}"
        return LapisError(
            f"{text!r} was not queried{where}",
            code="not-asked",
            hint=f"the queried predicates are: {', '.join(predicates) or 'none'}",
        )


def join_atoms(parts: Sequence[Atoms]) -> Atoms:
    groups = tuple(group for part in parts for group in part.groups)
    return Atoms(groups, tuple(world for part in parts for world in part.worlds))


def parse_name(text: str) -> tuple[str | None, tuple[str, ...]]:
    """Parse the predicate and the constants of a ground atom; every name is a constant.

    >>> parse_name('Friends(anna, "Bob, the second")'), parse_name("Rain")
    (('Friends', ('anna', 'Bob, the second')), ('Rain', ()))
    """
    simple = SIMPLE_ATOM.fullmatch(text)
    if simple is not None:
        inside = simple.group(2)
        return simple.group(1), tuple(map(str.strip, inside.split(","))) if inside else ()
    atom = as_atom(parse_formula(text, "<name>"))
    if atom is None:
        return None, ()
    terms = [term.name for term in atom.terms if isinstance(term, Constant | Variable)]
    return (atom.predicate, tuple(terms)) if len(terms) == len(atom.terms) else (None, ())
