"""Set algebra on tuples against Python's sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapis.data.keys import contains, difference, intersection, sorted_unique, union

NARROW = st.integers(0, 3)
WIDE = st.sampled_from([0, 1, 2, 2**31 - 2, 2**31 - 1])  # three columns overflow an int64 key


@st.composite
def two_sets(draw: st.DrawFn) -> tuple[int, list[tuple[int, ...]], list[tuple[int, ...]]]:
    arity = draw(st.integers(0, 5))
    rows = st.lists(st.tuples(*[draw(st.sampled_from([NARROW, WIDE]))] * arity), max_size=12)
    return arity, draw(rows), draw(rows)


def array(rows: list[tuple[int, ...]], arity: int) -> np.ndarray:
    return np.array(rows, np.int32).reshape(len(rows), arity)


def check(result: np.ndarray, expected: set[tuple[int, ...]], arity: int) -> None:
    assert result.dtype == np.int32
    assert result.shape == (len(expected), arity)
    assert result.flags.c_contiguous
    assert [tuple(row) for row in result.tolist()] == sorted(expected)


@given(two_sets())
def test_agrees_with_python_sets(case: tuple[int, list[tuple[int, ...]], list[tuple[int, ...]]]):
    arity, left, right = case
    a, b = sorted_unique(array(left, arity)), sorted_unique(array(right, arity))
    check(a, set(left), arity)
    check(union(array(left, arity), array(right, arity)), set(left) | set(right), arity)
    check(difference(a, b), set(left) - set(right), arity)
    check(intersection(a, b), set(left) & set(right), arity)
    assert contains(a, array(right, arity)).tolist() == [row in set(left) for row in right]


@pytest.mark.parametrize("arity", [2, 4])
def test_many_rows(arity: int):
    rows = np.random.default_rng(3).integers(0, 2**31, (2000, arity), dtype=np.int32)
    rows = np.concatenate([rows, rows[::-2]])
    check(sorted_unique(rows), set(map(tuple, rows.tolist())), arity)


def test_sorted_unique_leaves_its_argument_alone():
    rows = np.array([[2, 1], [0, 0], [2, 1]], np.int32)
    before = rows.copy()
    sorted_unique(rows)
    assert (rows == before).all()
