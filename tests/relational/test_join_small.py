"""The numpy kernels of joins against the compiled ones."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapis.relational import join, join_small
from lapis.relational.exact_sums import Runs, Side


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


@given(aligned(), st.lists(st.integers(0, 20), unique=True))
def test_sums_agree_with_the_compiled_kernels(
    sides: tuple[Runs, Side, Side], wanted: list[int]
) -> None:
    tables = []
    for kernels in (join, join_small):
        table = np.zeros(16, np.int64)
        kernels.accumulate_dense(*sides, table)
        tables.append(table.tolist())
        keys, sums = kernels.accumulate_hashed(*sides, 64)
        assert {k: s for k, s in zip(keys.tolist(), sums.tolist(), strict=True) if s} == {
            k: s for k, s in enumerate(table.tolist()) if s
        }
        found = kernels.accumulate_onto(*sides, np.array(wanted, np.int64))
        assert found.tolist() == [table[k] if k < 16 else 0 for k in wanted]
    assert tables[0] == tables[1]


@given(aligned(), st.lists(st.integers(0, 9)))
def test_pairs_and_order_agree(sides: tuple[Runs, Side, Side], keys: list[int]) -> None:
    start, stop = sides[0]
    size = int((stop - start).sum())
    pairs = []
    for kernels in (join, join_small):
        left, right = np.empty(size, np.int64), np.empty(size, np.int64)
        kernels.expand_pairs(start, stop, left, right)
        order, offset = kernels.sort_by_counting(np.array(keys, np.int64), 10)
        pairs.append([part.tolist() for part in (left, right, order, offset)])
    assert pairs[0] == pairs[1]


@pytest.mark.parametrize(
    ("size", "chosen", "loaded"), [(10, "join_small", False), (10**6, "join", True)], ids=str
)
def test_compiled_code_is_loaded_for_large_joins_only(size: int, chosen: str, loaded: bool) -> None:
    """In a process that has not compiled anything yet."""
    code = (
        "import sys, numpy; from lapis.relational.join_small import choose_kernels\n"
        f"kernels, one = choose_kernels({size}), numpy.ones(1, numpy.int64)\n"
        "kernels.expand_pairs(0 * one, one, one.copy(), one.copy())\n"
        "print(kernels.__name__.rpartition('.')[2], 'numba' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [chosen, str(loaded)]
