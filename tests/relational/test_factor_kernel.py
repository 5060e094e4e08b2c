"""Compare the kernels of joins, and the preparation of their arrays, with their definitions."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lapis.relational.exact_sums import Runs, Side, list_pairs, match_runs
from lapis.relational.factor_kernel import accumulate_dense, accumulate_hashed, accumulate_onto


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


@given(aligned(), st.lists(st.integers(0, 20), unique=True), st.integers(0, 16))
def test_sums(sides: tuple[Runs, Side, Side], wanted: list[int], most: int) -> None:
    runs, left, right = sides
    expected: Counter[int] = Counter()
    pairs = [(i, j) for i, (a, b) in enumerate(zip(*runs, strict=True)) for j in range(a, b)]
    for i, j in pairs:
        expected[int(left.key[i] + right.key[j])] += int(left.value[i]) * int(right.value[j])
    table = np.zeros(16, np.int64)
    accumulate_dense(*sides, table)
    assert table.tolist() == [expected[key] for key in range(16)]
    assert accumulate_onto(*sides, np.array(wanted, np.int64)).tolist() == [
        expected[key] for key in wanted
    ]
    keys, sums = accumulate_hashed(*sides, 64, most)
    if len(keys) > most:
        assert len(expected) > most
    else:
        assert dict(zip(keys.tolist(), sums.tolist(), strict=True)) == expected
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
