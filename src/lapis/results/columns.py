"""Compact columns of results: texts by number, and names of atoms.

A million rows may have three thousand different constants. A `Coded` column keeps each constant
once. An `AtomNames` column formats the names of a block of atoms at a time. Frames and JSON are
made from these.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from lapis.results.atom_groups import Atoms

if TYPE_CHECKING:
    import polars
    import pyarrow

BLOCK = 1 << 15  # rows that are formatted at a time


@dataclass(frozen=True)
class Coded:
    """A column of texts by number."""

    codes: np.ndarray  # int[num_rows], −1: none
    texts: np.ndarray  # object[num_texts]

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: slice | np.ndarray) -> Coded:
        return Coded(self.codes[rows], self.texts)

    def __iter__(self) -> Iterator[str | None]:
        return iter(self.values())

    def with_none(self) -> np.ndarray:
        """Return object[num_texts + 1] with None at the end, the place of −1."""
        return np.append(self.texts, np.array([None], object))

    def values(self) -> np.ndarray:
        """Return object[num_rows]."""
        return self.with_none()[self.codes]


@dataclass(frozen=True)
class AtomNames:
    """A column of names of atoms."""

    atoms: Atoms

    def __len__(self) -> int:
        return len(self.atoms)

    def __iter__(self) -> Iterator[str]:
        return iter(self.atoms)

    def values(self) -> np.ndarray:
        """Return object[num_rows]."""
        return np.fromiter(self.atoms, object, len(self.atoms))


Column = Sequence[Any] | np.ndarray | Coded | AtomNames


def repeat_by_group(atoms: Atoms, texts: Sequence[str]) -> Coded:
    """Return a column that repeats the text of each group for all its atoms."""
    return Coded(np.repeat(np.arange(len(texts)), np.diff(atoms.offset)), as_objects(texts))


def as_objects(values: Sequence[object]) -> np.ndarray:
    found = np.empty(len(values), object)
    found[:] = values
    return found


def as_list(values: Column) -> list[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def with_nulls(values: Column) -> list[Any]:
    """Return values for JSON: NaN becomes None."""
    return [None if value != value else value for value in as_list(values)]


def as_array(values: Column) -> Sequence[Any] | np.ndarray:
    """Return what pandas converts to a column."""
    return values.values() if isinstance(values, Coded | AtomNames) else values


def is_plain(values: Column) -> bool:
    """Return whether other libraries can read the column from memory."""
    return isinstance(values, np.ndarray) and values.dtype.kind in "bif"


def as_arrow(arrow: ModuleType, values: Column) -> pyarrow.Array | pyarrow.ChunkedArray:
    if isinstance(values, Coded):
        codes = np.where(values.codes < 0, len(values.texts), values.codes)
        return arrow.array(values.with_none(), arrow.string()).take(arrow.array(codes))
    if isinstance(values, AtomNames):
        blocks = (list(values.atoms.names(rows)) for rows in row_blocks(len(values)))
        return arrow.chunked_array([arrow.array(block) for block in blocks], arrow.string())
    return arrow.array(values if is_plain(values) else as_list(values))


def as_polars(polars: ModuleType, name: str, values: Column) -> polars.Series:
    if isinstance(values, Coded):
        codes = np.where(values.codes < 0, len(values.texts), values.codes)
        texts = polars.Series(name, values.with_none().tolist(), polars.String)
        return texts.gather(polars.Series(codes))
    if isinstance(values, AtomNames):
        found = polars.Series(name, [], polars.String)
        for rows in row_blocks(len(values)):
            found.append(polars.Series(name, list(values.atoms.names(rows)), polars.String))
        return found
    return polars.Series(name, values if is_plain(values) else as_list(values), strict=False)


def row_blocks(num_rows: int) -> Iterator[slice]:
    for first in range(0, num_rows, BLOCK):
        yield slice(first, min(first + BLOCK, num_rows))


def list_entries(
    atoms: Atoms, fields: Mapping[str, np.ndarray | Coded]
) -> Iterator[dict[str, Any]]:
    """Yield an entry for each atom."""
    names = ["atom", *fields]
    for rows in row_blocks(len(atoms)):
        columns = [with_nulls(column[rows]) for column in fields.values()]
        for values in zip(atoms.names(rows), *columns, strict=True):
            yield dict(zip(names, values, strict=True))


def replace_infinite(value: object) -> object:
    """Return the value with None for numbers that are not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: replace_infinite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | Iterator):
        return [replace_infinite(inner) for inner in value]
    return value
