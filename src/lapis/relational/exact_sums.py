"""Compute Σ left·right over runs of matching rows exactly, with integers of any size.

Row i of the left side matches the rows start[i] … stop[i] − 1 of the right side. Each side gives
for its rows a part of the packed output key and a value. Sums are int64 if a floating-point bound
shows that none can overflow. Otherwise the values are split into digits small enough for the same
kernels, and the digit sums are combined as Python integers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lapis.runtime.progress import check_time

SAFE = 2.0**62  # float estimates below this leave room for their rounding
_DENSE = 1 << 24  # largest dense table of sums, 128 MB
_EMPTY = -1  # in hash tables; keys are not negative
BLOCK = 1 << 24  # pairs of rows between two checks of the time, about 0.1 s
FEW_PAIRS = 50_000  # are listed: numba, and the first of its kernels, take a second to load
MAX_SUMS = 100_000_000  # of one join, about 6 GB while the hash table grows


class Side(NamedTuple):
    key: np.ndarray  # int64[num_rows], the rows' part of the output key
    value: np.ndarray  # int64 or object[num_rows]

    def take(self, rows: slice) -> Side:
        return Side(self.key[rows], self.value[rows])


class Runs(NamedTuple):
    """The range of right rows that each left row matches."""

    start: np.ndarray  # int64[num_left]
    stop: np.ndarray  # int64[num_left]

    @property
    def num_pairs(self) -> int:
        return int((self.stop - self.start).sum())

    def blocks(self) -> Iterator[slice]:
        """Split the left rows into blocks of about `BLOCK` pairs; check the time before each."""
        last = np.cumsum(self.stop - self.start)
        marks = np.arange(BLOCK, last[-1] if len(last) else 0, BLOCK)
        ends = [0, *(np.searchsorted(last, marks) + 1).tolist(), len(last)]
        for begin, end in pairwise(ends):
            check_time("counting")
            if begin < end:
                yield slice(begin, end)

    def take(self, rows: slice) -> Runs:
        return Runs(self.start[rows], self.stop[rows])


def sum_products(
    runs: Runs, left: Side, right: Side, radix: Sequence[int]
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return output keys in increasing order and Σ left·right for each, without zeros.

    None if there are more than `MAX_SUMS` keys.
    """
    if products_fit(runs, left.value, right.value):
        return _sum_small(runs, left, right, radix)
    keys: list[np.ndarray] = []
    sums: list[np.ndarray] = []
    # Digits of b bits: num_pairs · 2^(2b) stays below 2^62.
    bits = max(1, (62 - runs.num_pairs.bit_length()) // 2)
    for left_shift, left_digit in _digits(left.value, bits):
        for right_shift, right_digit in _digits(right.value, bits):
            found = _sum_small(
                runs, Side(left.key, left_digit), Side(right.key, right_digit), radix
            )
            if found is None:
                return None
            keys.append(found[0])
            sums.append(found[1].astype(object) * (1 << (left_shift + right_shift)))
    key, group = np.unique(np.concatenate(keys), return_inverse=True)
    total = np.zeros(len(key), dtype=object)
    np.add.at(total, group, np.concatenate(sums))
    nonzero = total != 0
    return key[nonzero], narrow_integers(total[nonzero])


def match_runs(key: np.ndarray, others: np.ndarray, space: int) -> tuple[np.ndarray | slice, Runs]:
    """Return (order, runs): others[order][start[i]:stop[i]] are those equal to key[i].

    Keys are in 0 … space − 1. A small space is counted; otherwise keys are found by binary search.
    """
    if space <= 4 * (len(key) + len(others)) + 1024:
        offset = np.zeros(space + 1, np.int64)
        np.cumsum(np.bincount(others, minlength=space), out=offset[1:])
        return _order(others), Runs(offset[key], offset[key + 1])
    order = _order(others)
    ranked = others[order]
    start, stop = (np.searchsorted(ranked, key, side) for side in ("left", "right"))
    return order, Runs(start, stop)


def _order(keys: np.ndarray) -> np.ndarray | slice:
    """Return the stable sorting order of the keys; relations are often sorted already."""
    if (keys[1:] >= keys[:-1]).all():
        return slice(None)
    bits = len(keys).bit_length()
    if int(keys.max()) >> (62 - bits):
        return np.argsort(keys, kind="stable")
    # Sorting numbers is several times faster than sorting indices.
    order: np.ndarray = np.sort((keys << bits) | np.arange(len(keys))) & ((1 << bits) - 1)
    return order


def list_pairs(runs: Runs) -> tuple[np.ndarray, np.ndarray]:
    """Return the matching pairs: the left row and the right row of each, int64[num_pairs]."""
    length = runs.stop - runs.start
    first = np.cumsum(length) - length
    right = np.arange(int(length.sum())) + np.repeat(runs.start - first, length)
    return np.repeat(np.arange(len(length)), length), right


def products_fit(runs: Runs, left: np.ndarray, right: np.ndarray) -> bool:
    """Return whether a bound shows that every sum over matching pairs fits into 64 bits."""
    if left.dtype == object or right.dtype == object:
        return False
    most = max_magnitude(right)
    if max_magnitude(left) * most * runs.num_pairs < SAFE:  # the usual case, and fast
        return True
    pairs = np.abs(left.astype(np.float64)) * (runs.stop - runs.start)
    return float(pairs.sum()) * most < SAFE


def max_magnitude(value: np.ndarray) -> float:
    """Return max |value| in floating point, infinite for Python integers."""
    if value.dtype == object:
        return math.inf
    return float(max_magnitude_exactly(value))


def max_magnitude_exactly(value: np.ndarray) -> int:
    """Return max |value|, 0 for an empty array."""
    if value.dtype == object:
        return max(map(abs, value.tolist()), default=0)
    return max(int(value.max(initial=0)), -int(value.min(initial=0)))


def sum_magnitudes(value: np.ndarray) -> float:
    """Return Σ |value| in floating point, infinite for Python integers."""
    if value.dtype == object:
        return math.inf
    return float(np.abs(value.astype(np.float64)).sum())


def sum_exactly(value: np.ndarray) -> int:
    """Return Σ value as a Python integer."""
    if sum_magnitudes(value) < SAFE:
        return int(value.sum())
    return sum(value.tolist())


def multiply_exactly(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return left · right element by element, as Python integers if 64 bits might overflow.

    If one side has floats, the products are floats.
    """
    product: np.ndarray
    if left.dtype == np.float64 or right.dtype == np.float64:
        return left.astype(np.float64) * right.astype(np.float64)
    if max_magnitude(left) * max_magnitude(right) < SAFE:
        product = left * right
    else:
        product = narrow_integers(left.astype(object) * right.astype(object))
    return product


def running_sums(value: np.ndarray) -> np.ndarray:
    """Return int64 or object[len(value) + 1], the sums of the first 0, 1, 2, … values."""
    exact = value if sum_magnitudes(value) < SAFE else value.astype(object)
    return np.concatenate([np.zeros(1, exact.dtype), np.cumsum(exact)])


def narrow_integers(value: np.ndarray) -> np.ndarray:
    """Convert Python integers to int64 if all of them fit."""
    if value.dtype != object:
        return value
    if all(-(2**63) < number < 2**63 for number in value.tolist()):
        return value.astype(np.int64)
    return value


def is_dense(space: int, num_rows: int) -> bool:
    """Return whether a table over all keys is small compared with the number of rows."""
    return space <= min(_DENSE, 16 * num_rows + 4096)


def sum_dense(key: np.ndarray, value: np.ndarray, space: int) -> tuple[np.ndarray, np.ndarray]:
    """Return keys in increasing order and Σ value for each, without zeros; all sums must fit."""
    table = np.zeros(space, np.int64)
    np.add.at(table, key, value)
    found = np.flatnonzero(table)
    return found, table[found]


def sum_by_key(key: np.ndarray, value: np.ndarray, space: int) -> tuple[np.ndarray, np.ndarray]:
    """Return keys in increasing order and Σ value for each, without zeros; all sums must fit."""
    if is_dense(space, len(key)):
        return sum_dense(key, value, space)
    found, place = np.unique(key, return_inverse=True)
    total = np.zeros(len(found), np.int64)
    np.add.at(total, place, value)
    return found[total != 0], total[total != 0]


def _sum_small(
    runs: Runs, left: Side, right: Side, radix: Sequence[int]
) -> tuple[np.ndarray, np.ndarray] | None:
    num_pairs = runs.num_pairs
    space = math.prod(radix)
    if num_pairs <= FEW_PAIRS:
        one, other = list_pairs(runs)
        key, values = left.key[one] + right.key[other], left.value[one] * right.value[other]
        found = sum_by_key(key, values, space)
        return None if len(found[0]) > MAX_SUMS and not is_dense(space, num_pairs) else found
    from lapis.relational.factor_kernel import accumulate_dense, accumulate_hashed

    if is_dense(space, num_pairs):
        table = np.zeros(space, np.int64)
        for rows in runs.blocks():
            accumulate_dense(runs.take(rows), left.take(rows), right, table)
        key = np.flatnonzero(table)
        return key, table[key]
    capacity = 1 << min(20, max(6, num_pairs.bit_length()))
    keys, sums, used = np.full(capacity, _EMPTY, np.int64), np.zeros(capacity, np.int64), 0
    for rows in runs.blocks():
        part = left.take(rows)
        keys, sums, used = accumulate_hashed(
            runs.take(rows), part, right, keys, sums, used, MAX_SUMS
        )
        if used > MAX_SUMS:
            return None
    kept = np.flatnonzero((keys != _EMPTY) & (sums != 0))
    kept = kept[np.argsort(keys[kept])]
    return keys[kept], sums[kept]


def sum_onto(runs: Runs, left: Side, right: Side, wanted: np.ndarray) -> np.ndarray:
    """Return int64[num_wanted], Σ left·right over the pairs with each wanted key; all must fit."""
    from lapis.relational.factor_kernel import accumulate_onto, fill_key_table, look_up_sums

    table = np.full(1 << max(1, (2 * len(wanted) - 1).bit_length()), _EMPTY, np.int64)
    sums = np.zeros(len(table), np.int64)
    fill_key_table(wanted, table)
    for rows in runs.blocks():
        accumulate_onto(runs.take(rows), left.take(rows), right, table, sums)
    found = np.empty(len(wanted), np.int64)
    look_up_sums(wanted, table, sums, found)
    return found


def _digits(value: np.ndarray, bits: int) -> list[tuple[int, np.ndarray]]:
    """Return pairs (shift, digit) with value = Σ digit·2^shift and |digit| < 2^bits."""
    numbers = value.tolist()
    length = max((abs(number).bit_length() for number in numbers), default=0)
    mask = (1 << bits) - 1

    def digit(number: int, shift: int) -> int:
        return (number >> shift) & mask if number >= 0 else -((-number >> shift) & mask)

    return [
        (shift, np.array([digit(number, shift) for number in numbers], np.int64))
        for shift in range(0, max(length, 1), bits)
    ]
