"""Batch sums of a chain's values, in constant memory.

Values are summed over batches of equal length. When all batches are full, neighbours are added and
the length doubles. So a chain of any length has between B/2 and B batch means (B is even). They
give the mean, the standard error (batch means) and the two halves of split R-hat. A few values are
kept as a thinned trace, and the worlds as bits if quantities are derived from them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lapis.runtime.kernels import entry, inner

NUM_BATCHES = 32
FEW_BATCHES = 16  # with more than MANY_VALUES, to save memory
MANY_VALUES = 200_000
TRACE_LENGTH = 2048


class Tally(NamedTuple):
    """Batch sums of one chain's values."""

    batch_sum: np.ndarray  # float64[num_batches, num_values], of value − origin
    square_sum: np.ndarray  # float64[num_values], over all batches
    origin: np.ndarray  # float64[num_values], subtracted to keep the digits of the variance
    # int64[3]: full batches, samples a batch, samples in the batch being filled
    cursor: np.ndarray
    traced: np.ndarray  # int64[num_traced], the values whose trace is kept
    trace: np.ndarray  # float32[TRACE_LENGTH, num_traced]
    trace_cursor: np.ndarray  # int64[3]: kept, stride, samples since the last one kept


class Worlds(NamedTuple):
    """The worlds of a chain: sample s is bit s mod 64 of row s div 64."""

    bits: np.ndarray  # uint64[num_rows, num_atoms]; without rows, worlds are not kept
    size: np.ndarray  # int64[1], samples kept


class Tallies(NamedTuple):
    """The records of a chain's steps."""

    atoms: Tally  # E[atom | …], of base atoms
    counts: Tally  # true groundings of each weight
    worlds: Worlds


def new_tallies(
    num_atoms: int, origin: np.ndarray, traced: np.ndarray | None = None, kept_atoms: int = 0
) -> Tallies:
    """Build empty tallies of base atoms and counts; `extend_worlds` adds room for worlds."""
    nothing = np.empty(0, np.int64)
    return Tallies(
        new_tally(np.zeros(num_atoms), nothing if traced is None else traced),
        new_tally(origin, nothing),
        Worlds(np.zeros((0, kept_atoms), np.uint64), np.zeros(1, np.int64)),
    )


def extend_worlds(worlds: Worlds, num_samples: int) -> Worlds:
    """Return the worlds with room for `num_samples`."""
    missing = -(-num_samples // 64) - len(worlds.bits)
    if missing <= 0:
        return worlds
    more = np.zeros((missing, worlds.bits.shape[1]), np.uint64)
    return Worlds(np.concatenate((worlds.bits, more)), worlds.size)


def new_tally(origin: np.ndarray, traced: np.ndarray) -> Tally:
    """Build an empty tally of len(origin) values."""
    num_batches = NUM_BATCHES if len(origin) <= MANY_VALUES else FEW_BATCHES
    return Tally(
        np.zeros((num_batches, len(origin))),
        np.zeros(len(origin)),
        origin.astype(np.float64),
        np.array([0, 1, 0], np.int64),
        traced.astype(np.int64),
        np.zeros((TRACE_LENGTH, len(traced)), np.float32),
        np.array([0, 1, 0], np.int64),
    )


@entry
def record_values(tally, values):  # type: ignore[no-untyped-def]
    """Add one sample; callable from Python."""
    add_sample(tally, values)


@inner
def add_sample(tally, values):  # type: ignore[no-untyped-def]
    """Add one sample."""
    cursor = tally.cursor
    batch, batch_sum, square_sum, origin = (
        cursor[0],
        tally.batch_sum,
        tally.square_sum,
        tally.origin,
    )
    for index in range(len(origin)):
        value = values[index] - origin[index]
        batch_sum[batch, index] += value
        square_sum[index] += value * value
    cursor[2] += 1
    if cursor[2] == cursor[1]:
        cursor[0] += 1
        cursor[2] = 0
        if cursor[0] == len(tally.batch_sum):
            _halve_batches(tally)
    _trace(tally, values)


@inner
def record_sample(tallies, estimate, count, value):  # type: ignore[no-untyped-def]
    """Add one sample to all tallies."""
    add_sample(tallies.atoms, estimate)
    add_sample(tallies.counts, count)
    bits, size = tallies.worlds.bits, tallies.worlds.size
    if len(bits) == 0:
        return
    row, bit = size[0] // 64, np.uint64(size[0] % 64)
    for atom in range(bits.shape[1]):
        bits[row, atom] |= np.uint64(value[atom]) << bit
    size[0] += 1


@inner
def _halve_batches(tally):  # type: ignore[no-untyped-def]
    half = len(tally.batch_sum) // 2
    for batch in range(half):
        for index in range(tally.batch_sum.shape[1]):
            tally.batch_sum[batch, index] = (
                tally.batch_sum[2 * batch, index] + tally.batch_sum[2 * batch + 1, index]
            )
    for batch in range(half, 2 * half):
        for index in range(tally.batch_sum.shape[1]):
            tally.batch_sum[batch, index] = 0.0
    tally.cursor[0] = half
    tally.cursor[1] *= 2


@inner
def _trace(tally, values):  # type: ignore[no-untyped-def]
    if len(tally.traced) == 0:
        return
    cursor = tally.trace_cursor
    cursor[2] += 1
    if cursor[2] < cursor[1]:
        return
    cursor[2] = 0
    for place in range(len(tally.traced)):
        tally.trace[cursor[0], place] = values[tally.traced[place]]
    cursor[0] += 1
    if cursor[0] == len(tally.trace):
        for kept in range(len(tally.trace) // 2):
            for place in range(len(tally.traced)):
                tally.trace[kept, place] = tally.trace[2 * kept + 1, place]
        cursor[0] //= 2
        cursor[1] *= 2
