"""The ground atoms of each predicate as true, false or unknown, and numbers of the unknown ones.

A predicate is stored in one of two forms:

    sparse   lists of true and of unknown tuples; all others are false (closed predicates)
    dense    lists of true and of false tuples; all others are unknown (open predicates)

An open predicate most of whose atoms are false by evidence is stored as sparse, so that joins can
start from the few tuples that are possible.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lapis.data.database import Domain, empty_tuples
from lapis.data.keys import fits, pack, unpack
from lapis.errors import TooLarge
from lapis.network.csr import row_starts
from lapis.network.network import AtomTable
from lapis.problem.problem import Evidence
from lapis.runtime.progress import check_time

PIECE = 2**24  # atoms between two checks of the time
LARGEST_TABLE = 2**26  # codes; above this atoms are looked up by binary search
LARGEST_ATOM = 2**31 - 2  # literals are int32, atom + 1


@dataclass(frozen=True)
class PredicateAtoms:
    name: str
    sizes: tuple[int, ...]  # of the domains of its arguments
    sparse: bool
    true: np.ndarray  # int32[num_true, arity]
    false: np.ndarray  # int32[num_false, arity], empty if sparse
    unknown_codes: np.ndarray | None  # int64[num_unknown], sorted; None if all atoms are unknown
    first: int  # number of its first unknown atom

    @cached_property
    def total(self) -> int:
        return math.prod(self.sizes)

    @property
    def num_unknown(self) -> int:
        return self.total if self.unknown_codes is None else len(self.unknown_codes)

    @property
    def num_true(self) -> int:
        return len(self.true)

    @property
    def num_false(self) -> int:
        return self.total - len(self.true) - self.num_unknown

    @cached_property
    def unknown(self) -> np.ndarray:
        """The unknown tuples, int32[num_unknown, arity], sorted."""
        codes = self.unknown_codes
        return unpack(np.arange(self.total) if codes is None else codes, self.sizes)

    def codes(self, rows: np.ndarray) -> np.ndarray:
        return pack([rows[:, i] for i in range(rows.shape[1])], self.sizes, len(rows))

    @cached_property
    def _table(self) -> np.ndarray:
        """The literal of each code, int32[total]: atom + 1 for unknown atoms, 0 for known ones."""
        table = np.zeros(self.total, np.int32)
        table[self.unknown_codes] = np.arange(
            self.first + 1, self.first + 1 + self.num_unknown, dtype=np.int32
        )
        return table

    def literal(self, codes: np.ndarray) -> np.ndarray:
        """Return int32[num_codes], atom + 1, or 0 if the atom is known."""
        if self.unknown_codes is None:
            return (codes + (self.first + 1)).astype(np.int32)
        if self.num_unknown == 0:
            return np.zeros(len(codes), np.int32)
        if self.total <= min(LARGEST_TABLE, 4 * (len(codes) + self.num_unknown)):
            return self._table[codes]
        at = np.searchsorted(self.unknown_codes, codes)
        at[at == self.num_unknown] = 0
        found = self.unknown_codes[at] == codes
        return np.where(found, at + (self.first + 1), 0).astype(np.int32)


def number_unknown_atoms(
    evidence: Mapping[str, Evidence], domains: Mapping[str, Domain]
) -> Mapping[str, PredicateAtoms]:
    """Number the unknown atoms, predicate by predicate, in lexicographic order of their tuples."""
    numbered: dict[str, PredicateAtoms] = {}
    first = 0
    for name, known in evidence.items():
        numbered[name] = atoms = _predicate_atoms(known, domains, first)
        first += atoms.num_unknown
    if first > LARGEST_ATOM:
        raise TooLarge(
            f"{first:,} unknown atoms, more than the {LARGEST_ATOM:,} that can be numbered",
            code="too-large",
            hint="query fewer predicates, or give more evidence",
        )
    return numbered


def argument_sizes(known: Evidence, domains: Mapping[str, Domain]) -> tuple[int, ...]:
    """Return the sizes of the arguments' domains; refuse unknown atoms beyond 2^62."""
    predicate = known.predicate
    sizes = tuple(len(domains[name]) for name in predicate.types)
    if (known.open or len(known.unknown)) and not fits(sizes):
        raise TooLarge(
            f"predicate '{predicate.name}' has more than 2^62 possible ground atoms",
            code="too-large",
            span=predicate.span,
            hint="split it into predicates of fewer arguments",
        )
    return sizes


def _predicate_atoms(known: Evidence, domains: Mapping[str, Domain], first: int) -> PredicateAtoms:
    predicate, sizes = known.predicate, argument_sizes(known, domains)

    def codes(rows: np.ndarray) -> np.ndarray:
        return pack([rows[:, i] for i in range(rows.shape[1])], sizes, len(rows))

    nothing = empty_tuples(predicate.arity)
    if not known.open:
        unknown = codes(known.unknown) if len(known.unknown) else np.empty(0, np.int64)
        return PredicateAtoms(predicate.name, sizes, True, known.true, nothing, unknown, first)
    if len(known.true) + len(known.false) == 0:
        return PredicateAtoms(predicate.name, sizes, False, nothing, nothing, None, first)
    total = math.prod(sizes)
    unknown = list_others(total, np.concatenate([codes(known.true), codes(known.false)]))
    if len(known.true) + len(unknown) < len(known.false):
        return PredicateAtoms(predicate.name, sizes, True, known.true, nothing, unknown, first)
    return PredicateAtoms(predicate.name, sizes, False, known.true, known.false, unknown, first)


def list_others(total: int, codes: np.ndarray) -> np.ndarray:
    """Return the numbers 0 … total − 1 without `codes`, int64[...], in pieces that are timed."""
    known = np.unique(codes)
    found = np.empty(total - len(known), np.int64)
    at = 0
    for begin in range(0, total, PIECE):
        check_time("grounding")
        free = np.ones(min(PIECE, total - begin), bool)
        first, last = np.searchsorted(known, (begin, begin + PIECE))
        free[known[first:last] - begin] = False
        part = np.flatnonzero(free)
        found[at : at + len(part)] = part
        found[at : at + len(part)] += begin
        at += len(part)
    return found


def build_atom_table(numbered: Mapping[str, PredicateAtoms]) -> AtomTable:
    """Build the table of base atoms; predicates without unknown atoms are left out."""
    listed = [atoms for atoms in numbered.values() if atoms.num_unknown]
    return AtomTable(
        tuple(atoms.name for atoms in listed),
        row_starts(np.array([atoms.num_unknown for atoms in listed], np.int64)),
        tuple(atoms.unknown for atoms in listed),
    )
