"""A relation whose tuples come and go, with an index for every access pattern in use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any

Row = tuple[int, ...]
Entry = Any  # one constant as an int, several as a tuple of ints
Index = dict[Entry, set[Entry]]
Pick = Callable[[Sequence[int]], Entry]


class IndexedRelation:
    """The true tuples of a predicate.

    `index(positions)` maps the constants at these positions to the constants at the others. Keys
    and entries are bare integers where there is one position, tuples otherwise.
    """

    def __init__(self, arity: int, rows: Iterable[Row]) -> None:
        self.arity = arity
        self.rows = set(rows)
        self._indexes: dict[tuple[int, ...], tuple[Index, Pick, Pick]] = {}

    def __contains__(self, row: Row) -> bool:
        return row in self.rows

    def __len__(self) -> int:
        return len(self.rows)

    def index(self, positions: tuple[int, ...]) -> Index:
        """Kept up to date from now on; the same dictionary on every call."""
        if positions not in self._indexes:
            others = tuple(place for place in range(self.arity) if place not in positions)
            entry: tuple[Index, Pick, Pick] = ({}, picker(positions), picker(others))
            for row in self.rows:
                _insert(row, *entry)
            self._indexes[positions] = entry
        return self._indexes[positions][0]

    def toggle(self, row: Row) -> None:
        """Adds the tuple if it is absent, removes it if it is present."""
        if row in self.rows:
            self.rows.remove(row)
            for index, key, rest in self._indexes.values():
                bucket = index[key(row)]
                bucket.remove(rest(row))
                if not bucket:
                    del index[key(row)]
        else:
            self.rows.add(row)
            for entry in self._indexes.values():
                _insert(row, *entry)


def picker(positions: tuple[int, ...]) -> Pick:
    """The entries of a sequence at these positions: bare if one, else a tuple."""
    return itemgetter(*positions) if positions else lambda row: ()


def _insert(row: Row, index: Index, key: Pick, rest: Pick) -> None:
    index.setdefault(key(row), set()).add(rest(row))
