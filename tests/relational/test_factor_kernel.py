"""Compare the kernels of joins, and the preparation of their arrays, with their definitions."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapis.relational import exact_sums
from lapis.relational.exact_sums import Runs, Side, list_pairs, match_runs, sum_onto, sum_products
from lapis.relational.factor_kernel import accumulate_dense, accumulate_hashed


@st.composite
def aligned(draw: st.DrawFn) -> tuple[Runs, Side, Side]:
    """Runs over right rows, then parts of keys and values of both sides."""
    num_left, num_right = draw(st.integers(0, 6)), draw(st.integers(0, 6))

    def numbers(size: int, low: int, high: int) -> np.ndarray:
        values = st.lists(st.integers(low, high), min_size=size, max_size=size)
        return np.array(draw(values), np.int64)

    ends = np.sort(
        np.stack([numbers(num_left, 0, num_right), numbers(num_left, 0, num_right)]), axis=0
    )
    left = Side(numbers(num_left, 0, 3), numbers(num_left, -(2**30), 2**30))
    right = Side(numbers(num_right, 0, 3) * 4, numbers(num_right, -(2**30), 2**30))
    return Runs(np.ascontiguousarray(ends[0]), np.ascontiguousarray(ends[1])), left, right


@given(
    aligned(),
    st.lists(st.integers(0, 20), unique=True),
    st.integers(0, 16),
    st.integers(1, 40),
    st.sampled_from([0, exact_sums.FEW_PAIRS]),
)
def test_sums(
    sides: tuple[Runs, Side, Side], wanted: list[int], most: int, block: int, few: int
) -> None:
    """Whatever the number of pairs in a block, listed or not, sums are those of all pairs."""
    runs, left, right = sides
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(exact_sums, "BLOCK", block)
        patched.setattr(exact_sums, "FEW_PAIRS", few)
        check_sums(runs, left, right, wanted, most)


def check_sums(runs: Runs, left: Side, right: Side, wanted: list[int], most: int) -> None:
    sides = runs, left, right
    covered = [i for rows in runs.blocks() for i in range(len(left.key))[rows]]
    assert covered == list(range(len(left.key)))
    expected: Counter[int] = Counter()
    pairs = [(i, j) for i, (a, b) in enumerate(zip(*runs, strict=True)) for j in range(a, b)]
    for i, j in pairs:
        expected[int(left.key[i] + right.key[j])] += int(left.value[i]) * int(right.value[j])
    table = np.zeros(16, np.int64)
    accumulate_dense(*sides, table)
    assert table.tolist() == [expected[key] for key in range(16)]
    found = sum_onto(*sides, np.array(wanted, np.int64))
    assert found.tolist() == [expected[key] for key in wanted]
    empty = np.full(4, -1, np.int64), np.zeros(4, np.int64)
    keys, sums, used = accumulate_hashed(*sides, *empty, 0, most)
    if used > most:
        assert len(expected) > most
    else:
        stored = keys != -1
        assert dict(zip(keys[stored].tolist(), sums[stored].tolist(), strict=True)) == expected
    nonzero = sorted((key, value) for key, value in expected.items() if value)
    for radix in ([16], [2**40]):  # a dense table, a hash table
        summed = sum_products(*sides, radix)
        assert summed is not None
        assert list(zip(*(column.tolist() for column in summed), strict=True)) == nonzero
    assert [row.tolist() for row in list_pairs(runs)] == [
        [i for i, _ in pairs],
        [j for _, j in pairs],
    ]


@given(
    st.lists(st.integers(0, 9)),
    st.lists(st.integers(0, 9)),
    st.sampled_from([10, 10**9]),
    st.integers(0, 2**58),
)
def test_runs_are_the_equal_keys(left: list[int], right: list[int], space: int, first: int) -> None:
    """By counting in a small space, by searching in a large one, where keys may be large."""
    if space > 10:
        left, right = [first + key for key in left], [first + key for key in right]
    others = np.array(right, np.int64)
    order, runs = match_runs(np.array(left, np.int64), others, space)
    places = np.arange(len(right))[order]
    assert sorted(places.tolist()) == list(range(len(right)))
    for key, start, stop in zip(left, *runs, strict=True):
        assert places[start:stop].tolist() == [j for j, other in enumerate(right) if other == key]
