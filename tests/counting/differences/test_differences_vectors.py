"""Compare arrays of sparse vectors with dictionaries."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lapis.counting.differences.sparse_vectors import (
    add_entries,
    number_vectors,
    split_column,
    stack_vectors,
)

numbers = st.sampled_from([-1, 1, 2, 2**40, 2**70])
vectors = st.dictionaries(st.sampled_from([0, 1, 2, 3, 4, 10**12]), numbers, max_size=6)


def pack(rows: list[dict[int, int]]) -> object:
    entries = [(row, at, value) for row, found in enumerate(rows) for at, value in found.items()]
    row, column, value = zip(*entries, strict=True) if entries else ((), (), ())
    big = any(abs(number) >= 2**63 for number in value)
    return add_entries(
        len(rows),
        np.array(row, np.int64),
        np.array(column, np.int64),
        np.array(value, object if big else np.int64),
    )


def unpack(packed: object) -> list[dict[int, int]]:
    start, column, value = packed  # type: ignore[misc]
    return [
        dict(zip(column[a:b].tolist(), value[a:b].tolist(), strict=True))
        for a, b in pairwise(start)
    ]


@given(
    st.lists(vectors, max_size=8).flatmap(
        lambda rows: st.tuples(
            st.just(rows),
            st.lists(st.integers(0, 1), min_size=len(rows), max_size=len(rows)),
            st.lists(st.integers(0, max(0, len(rows) - 1)), max_size=4 if rows else 0),
        )
    )
)
def test_numbering_tells_vectors_apart(
    drawn: tuple[list[dict[int, int]], list[int], list[int]],
) -> None:
    rows, keys, repeats = drawn
    rows = rows + [rows[number] for number in repeats]
    keys = keys + [keys[number] for number in repeats]
    packed = pack(rows)
    assert unpack(packed) == rows
    first, number = number_vectors(packed, np.array(keys, np.int64))  # type: ignore[arg-type]
    told = [(tuple(sorted(row.items())), key) for row, key in zip(rows, keys, strict=True)]
    for one in range(len(rows)):
        assert told[first[number[one]]] == told[one]
        for other in range(one):
            assert (number[one] == number[other]) == (told[one] == told[other])


@given(st.lists(vectors, max_size=5), st.lists(vectors, max_size=5))
def test_stacking_and_splitting(rows: list[dict[int, int]], more: list[dict[int, int]]) -> None:
    both = stack_vectors([pack(rows), pack(more)])  # type: ignore[list-item]
    assert unpack(both) == rows + more
    kept = [{at: value for at, value in row.items() if at <= 4} for row in rows + more]
    left, last = split_column(stack_vectors([pack(kept)]), 4)  # type: ignore[list-item]
    assert unpack(left) == [{a: v for a, v in row.items() if a < 4} for row in kept]
    assert last.tolist() == [row.get(4, 0) for row in kept]


def test_entries_add_up_and_zeros_go() -> None:
    row, column = np.array([1, 0, 1, 1]), np.array([5, 2, 5, 3])
    found = add_entries(3, row, column, np.array([4, 1, -4, 2**62]))
    assert unpack(found) == [{2: 1}, {3: 2**62}, {}]
