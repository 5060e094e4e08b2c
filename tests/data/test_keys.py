"""Packed keys against their rows, with radices within and beyond 62 bits."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lapis.data.keys import distinct_keys, fits, number_rows, pack, share_keys, unpack

SIZES = st.lists(st.sampled_from([1, 2, 5, 2**20, 2**31]), max_size=4)


@st.composite
def sized_rows(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, ...]]]:
    sizes = draw(SIZES)
    values = st.tuples(*(st.integers(0, size - 1) for size in sizes))
    return sizes, draw(st.lists(values, max_size=8))


def columns_of(rows: list[tuple[int, ...]], width: int) -> list[np.ndarray]:
    return list(np.array(rows, np.int64).reshape(len(rows), width).T)


def ranks(values: list[tuple[int, ...]] | list[int]) -> list[int]:
    order = sorted(set(values))
    return [order.index(value) for value in values]


@given(sized_rows())
def test_keys_are_equal_and_ordered_as_rows_are(
    case: tuple[list[int], list[tuple[int, ...]]],
) -> None:
    sizes, rows = case
    key = pack(columns_of(rows, len(sizes)), sizes, len(rows))
    assert ranks(key.tolist()) == ranks(rows)
    if fits(sizes):
        assert [tuple(row) for row in unpack(key, sizes).tolist()] == rows


@given(sized_rows(), st.data())
def test_parts_of_a_key_add_up(
    case: tuple[list[int], list[tuple[int, ...]]], data: st.DataObject
) -> None:
    sizes, rows = case
    if not fits(sizes):
        return
    columns = columns_of(rows, len(sizes))
    inside = data.draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)))
    one = [column if here else None for column, here in zip(columns, inside, strict=True)]
    two = [None if here else column for column, here in zip(columns, inside, strict=True)]
    parts = [pack(part, sizes, len(rows)) for part in (one, two)]
    assert (parts[0] + parts[1]).tolist() == pack(columns, sizes, len(rows)).tolist()


@given(sized_rows(), st.data())
def test_keys_of_several_lists_are_comparable(
    case: tuple[list[int], list[tuple[int, ...]]], data: st.DataObject
) -> None:
    sizes, rows = case
    if not sizes:
        return
    cut = data.draw(st.integers(0, len(rows)))
    columns = columns_of(rows, len(sizes))
    shared = share_keys([c[:cut] for c in columns], [c[cut:] for c in columns])
    keys = np.concatenate(shared.parts).tolist()
    assert ranks(keys) == ranks(rows)
    assert all(0 <= key < shared.space for key in keys)


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-2, 2)), max_size=10))
def test_rows_are_numbered_in_their_order(rows: list[tuple[int, int]]) -> None:
    first, number = number_rows(columns_of(rows, 2), len(rows))
    assert number.tolist() == ranks(rows)
    assert first.tolist() == [rows.index(row) for row in sorted(set(rows))]


@given(st.lists(st.integers(0, 4000)), st.sampled_from([4001, 2**40]))
def test_keys_that_occur_are_listed_in_order(keys: list[int], space: int) -> None:
    assert distinct_keys(np.array(keys, np.int64), space).tolist() == sorted(set(keys))
