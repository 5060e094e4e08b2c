"""Ground atoms whose status changes: true, false, or unknown with a number that never changes.

The statuses at the start are those of `PredicateAtoms`. Changed ones are kept in a dictionary by
tuple, so a change costs the same in a large predicate and in a small one. Candidates of a join are
found by an index of the tuples that were true or unknown at the start, sorted by the bound
arguments, and by a scan of the changed tuples.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from lapis.data.keys import pack
from lapis.grounding.ground_atoms import PredicateAtoms

# The status of an atom: FALSE, TRUE, or the number of an unknown atom plus 1.
FALSE_ATOM, TRUE_ATOM = 0, -1

AtomRow = tuple[int, ...]  # the constants of an atom, as codes


@dataclass
class LiveAtoms:
    """The atoms of one predicate."""

    start: PredicateAtoms  # at the start
    changed: dict[AtomRow, int] = field(default_factory=dict)  # the status of changed atoms
    _changed_rows: np.ndarray | None = None
    _indexes: dict[tuple[int, ...], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    @property
    def sparse(self) -> bool:
        """Whether true and unknown atoms are listed; otherwise most atoms are unknown."""
        return self.start.sparse

    def status(self, row: AtomRow) -> int:
        """Return the status of one atom."""
        found = self.changed.get(row)
        if found is not None:
            return found
        return int(self._first_statuses(np.array([row], np.int32).reshape(1, len(row)))[0])

    def first_number(self, row: AtomRow) -> int | None:
        """Return the number of an atom that was unknown at the start, None if it was known."""
        found = int(self._first_statuses(np.array([row], np.int32).reshape(1, len(row)))[0])
        return found - 1 if found > 0 else None

    def set_status(self, row: AtomRow, status: int) -> None:
        """Change the status of an atom."""
        if row not in self.changed:
            self._changed_rows = None
        self.changed[row] = status

    def statuses(self, rows: np.ndarray) -> np.ndarray:
        """Return int64[num_rows], the statuses of atoms given as int32[num_rows, arity]."""
        found = self._first_statuses(rows)
        if self.changed:
            for place in np.flatnonzero(self._is_changed(rows)).tolist():
                found[place] = self.changed[tuple(rows[place].tolist())]
        return found

    def candidates(self, bound: Mapping[int, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """List the true and unknown atoms of a sparse predicate with these arguments.

        Parameters
        ----------
        bound
            For some positions int32[num_given], the values of their arguments.

        Returns
        -------
        tuple[numpy.ndarray, numpy.ndarray]
            The place among the given rows, int64[num_found], and the atom, int32[num_found, arity].
        """
        place, rows = self._first_candidates(bound)
        if self.changed:
            kept = ~self._is_changed(rows)
            more_place, more_rows = self._match_changed(bound)
            place = np.concatenate((place[kept], more_place))
            rows = np.concatenate((rows[kept], more_rows))
        return place, rows

    @cached_property
    def _listed(self) -> np.ndarray:
        """int32[num_listed, arity], the atoms that were true or unknown at the start."""
        if not self.start.num_unknown:
            return self.start.true
        return np.concatenate((self.start.true, self.start.unknown))

    @cached_property
    def _true_codes(self) -> np.ndarray:
        return self.start.codes(self.start.true)

    def _first_statuses(self, rows: np.ndarray) -> np.ndarray:
        """Return the statuses at the start; atoms over later constants are false."""
        found = np.zeros(len(rows), np.int64)
        sizes = np.array(self.start.sizes, np.int64)
        inside = (rows < sizes).all(axis=1) if rows.shape[1] else np.ones(len(rows), bool)
        if not self.start.total:
            return found
        codes = self.start.codes(rows[inside])
        status = self.start.literal(codes).astype(np.int64)
        if len(self._true_codes):
            at = np.searchsorted(self._true_codes, codes)
            at[at == len(self._true_codes)] = 0
            status[self._true_codes[at] == codes] = TRUE_ATOM
        found[inside] = status
        return found

    def _rows_of_changed(self) -> np.ndarray:
        if self._changed_rows is None or len(self._changed_rows) != len(self.changed):
            rows = np.array(list(self.changed), np.int32)
            self._changed_rows = rows.reshape(len(self.changed), len(self.start.sizes))
        return self._changed_rows

    def _is_changed(self, rows: np.ndarray) -> np.ndarray:
        """Return bool[num_rows], the atoms with an entry in `changed`."""
        known = self._rows_of_changed()
        if not rows.shape[1]:
            return np.full(len(rows), bool(len(known)))
        both = np.concatenate((known, rows))
        sizes = (both.max(axis=0, initial=0) + 1).tolist()
        code = pack(list(both.T), sizes, len(both))
        return np.isin(code[len(known) :], code[: len(known)])

    def _match_changed(self, bound: Mapping[int, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """List the changed atoms that are true or unknown and match the bound arguments."""
        known = self._rows_of_changed()
        possible = np.fromiter(self.changed.values(), np.int64, len(self.changed)) != FALSE_ATOM
        known = known[possible]
        return match_columns(known, bound)

    def _first_candidates(self, bound: Mapping[int, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        listed = self._listed
        if not bound:
            return np.zeros(len(listed), np.int64), listed
        positions = tuple(sorted(bound))
        sizes = [self.start.sizes[position] for position in positions]
        given = [bound[position] for position in positions]
        number = len(given[0])
        inside = np.ones(number, bool)
        for values, size in zip(given, sizes, strict=True):
            inside &= values < size
        if positions not in self._indexes:
            key = pack([listed[:, position] for position in positions], sizes, len(listed))
            order = np.argsort(key, kind="stable")
            self._indexes[positions] = key[order], order
        key, order = self._indexes[positions]
        wanted = pack([values[inside] for values in given], sizes, int(inside.sum()))
        first, last = np.searchsorted(key, wanted), np.searchsorted(key, wanted, "right")
        place = np.repeat(np.flatnonzero(inside), last - first)
        begin = np.cumsum(last - first) - (last - first)
        at = np.arange(len(place)) - np.repeat(begin - first, last - first)
        return place, listed[order[at]]


def match_columns(
    rows: np.ndarray, bound: Mapping[int, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """List the pairs of a given row and a row that agree in the bound positions."""
    if not bound:
        return np.zeros(len(rows), np.int64), rows
    number = len(next(iter(bound.values())))
    agree = np.ones((number, len(rows)), bool)
    for position, values in bound.items():
        agree &= values[:, None] == rows[:, position]
    place, at = np.nonzero(agree)
    return place, rows[at]
