"""Rows of integers and formal sums of terms, numbered as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lapis.data.keys import number_rows

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class Numbering:
    """Distinct rows of integers, from 0 on."""

    def __init__(self) -> None:
        self._index: dict[tuple[int, ...], int] = {}

    def __len__(self) -> int:
        return len(self._index)

    def number(self, rows: np.ndarray) -> np.ndarray:
        """int64[num_rows], the numbers of int64[num_rows, width]."""
        first, which = number_rows(list(rows.T), len(rows))
        index = self._index
        found = [index.setdefault(tuple(row), len(index)) for row in rows[first].tolist()]
        return np.array(found, np.int64)[which]

    def rows(self, width: int) -> np.ndarray:
        """int64[len, width], in the order of their numbers."""
        return np.array(list(self._index), np.int64).reshape(len(self._index), width)


class Combinations:
    """Sums Σ count · term, numbered; 0 is the empty one.

    Two are taken for the same if Σ count · r(term) modulo 2^64 agrees for two random r. Those are
    linear: a sum that changes is recognised from what it was and the change, and only the first of
    each kind is ever written down. With ten million sums two different ones agree with a
    probability of 10^−25.
    """

    def __init__(self) -> None:
        self._index: dict[tuple[int, int], int] = {(0, 0): 0}
        self._code = np.zeros((1, 2), np.int64)
        self._written: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def __len__(self) -> int:
        return len(self._index)

    def number(
        self, old: np.ndarray, group: np.ndarray, term: np.ndarray, count: np.ndarray
    ) -> np.ndarray:
        """int64[num_groups], of the sums `old` with the counts of their groups' terms added.

        `group`, `term` and `count`, int64[num_changes], are the changes.
        """
        code = self._code[old]
        for side in (0, 1):
            np.add.at(code[:, side], group, count * scramble(term, side))
        first, which = number_rows([code[:, 0], code[:, 1]], len(code))
        known, index = len(self._index), self._index
        pairs = code[first].tolist()
        found = np.array([index.setdefault((a, b), len(index)) for a, b in pairs], np.int64)
        fresh = found >= known
        place = np.full(len(old), -1, np.int64)
        place[first[fresh]] = found[fresh]
        own = place[group]
        written = [(own[own >= 0], term[own >= 0], count[own >= 0])]
        before = old[first[fresh]]
        if before.any():
            kept = self.matrix(1 + max(int(terms.max(initial=0)) for _, terms, _ in self._written))
            rows = kept[before].tocoo()
            written.append((found[fresh][rows.row], rows.col.astype(np.int64), rows.data))
        self._written += written
        self._code = np.concatenate([self._code, code[first[fresh]]])
        return found[which]

    def matrix(self, num_terms: int) -> csr_array:
        """int64[len, num_terms], the counts."""
        from scipy.sparse import coo_array

        none = np.empty(0, np.int64)
        columns = zip((none, none, none), *self._written, strict=True)
        rows, terms, counts = (np.concatenate(column) for column in columns)
        return coo_array((counts, (rows, terms)), shape=(len(self), num_terms)).tocsr()


def scramble(number: np.ndarray, side: int) -> np.ndarray:
    """int64[...], random bits of each number (the finaliser of SplitMix64)."""
    bits = (number.astype(np.uint64) * np.uint64(2) + np.uint64(side + 1)) * np.uint64(
        0x9E3779B97F4A7C15
    )
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return (bits ^ (bits >> np.uint64(31))).view(np.int64)
