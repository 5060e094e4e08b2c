"""Rows of different lengths as flat arrays (CSR): the start of each row and all entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

CHUNK = 1 << 18  # rows processed together, of millions


def row_starts(lengths: np.ndarray | Sequence[int]) -> np.ndarray:
    """Return int64[num_rows + 1], the starts of rows of these lengths."""
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, dtype=np.int64, out=starts[1:])
    return starts


def row_sums(start: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return int64[num_rows], the sum of the entries of each row."""
    return np.diff(row_starts(values)[start])


def narrow_starts(starts: np.ndarray) -> np.ndarray:
    """Convert row starts to int32 if they fit, which saves memory for millions of rows."""
    return starts.astype(np.int32) if starts[-1] <= np.iinfo(np.int32).max else starts


def row_chunks(num_rows: int) -> Iterator[slice]:
    """Yield slices of `CHUNK` rows, so that temporary arrays stay small."""
    for first in range(0, num_rows, CHUNK):
        yield slice(first, min(first + CHUNK, num_rows))


def take_rows(
    start: np.ndarray, member: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the starts and entries of some rows."""
    new_start, place = row_places(start, rows)
    return new_start, member[place]


def row_places(start: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the starts of some rows when concatenated, and the old place of each entry."""
    length = start[rows + 1] - start[rows]
    new_start = row_starts(length)
    return new_start, np.repeat(start[rows] - new_start[:-1], length) + np.arange(new_start[-1])


def stack_rows(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Concatenate the rows of several CSR arrays of int32."""
    lengths = [np.diff(start) for start, _ in parts]
    return (
        row_starts(np.concatenate([np.empty(0, np.int64), *lengths])),
        np.concatenate([np.empty(0, np.int32), *(member for _, member in parts)]),
    )
