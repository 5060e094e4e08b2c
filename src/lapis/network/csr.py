"""Rows of different lengths as flat arrays (CSR): the start of each row, and all entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

PIECE = 1 << 18  # rows that are looked at together where there may be millions


def row_starts(lengths: np.ndarray | Sequence[int]) -> np.ndarray:
    """int64[num_rows + 1], where the rows of these lengths start."""
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, dtype=np.int64, out=starts[1:])
    return starts


def row_sums(start: np.ndarray, values: np.ndarray) -> np.ndarray:
    """int64[num_rows], what the entries of each row add up to."""
    return np.diff(row_starts(values)[start])


def narrow_starts(starts: np.ndarray) -> np.ndarray:
    """Where rows start, as int32 if that is wide enough: there may be as many rows as atoms."""
    return starts.astype(np.int32) if starts[-1] <= np.iinfo(np.int32).max else starts


def row_chunks(num_rows: int) -> Iterator[slice]:
    """All rows, so many at a time that what is computed of them takes little memory."""
    for first in range(0, num_rows, PIECE):
        yield slice(first, min(first + PIECE, num_rows))


def take_rows(
    start: np.ndarray, member: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Some rows, as one such array."""
    new_start, place = row_places(start, rows)
    return new_start, member[place]


def row_places(start: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where some rows start if put side by side, and int64[...], the place of each entry before."""
    length = start[rows + 1] - start[rows]
    new_start = row_starts(length)
    return new_start, np.repeat(start[rows] - new_start[:-1], length) + np.arange(new_start[-1])


def stack_rows(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """The rows of several such arrays of int32, one after the other."""
    lengths = [np.diff(start) for start, _ in parts]
    return (
        row_starts(np.concatenate([np.empty(0, np.int64), *lengths])),
        np.concatenate([np.empty(0, np.int32), *(member for _, member in parts)]),
    )
