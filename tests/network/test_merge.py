"""Compare merged rows with a dictionary."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lapis.network.merge import EMPTY, TAUTOLOGY, MergedRows, merge_rows, sort_rows

ROWS = st.lists(
    st.tuples(
        st.lists(st.integers(-4, 4), max_size=5) | st.lists(st.integers(-60, 60), max_size=80),
        st.integers(-1, 2),
        st.integers(1, 5),
    ),
    max_size=30,
)


@given(rows=ROWS)
def test_rows_merge_by_weight_and_set_of_literals(rows: list[tuple[list[int], int, int]]) -> None:
    merged = merge(rows)
    expected: dict[tuple[int, frozenset[int]], int] = {}
    for (row, weight_id, count), target in zip(rows, merged.merged.tolist(), strict=True):
        literals = frozenset(row) - {0}
        if any(-literal in literals for literal in literals):
            assert target == TAUTOLOGY
        elif not literals:
            assert target == EMPTY
        else:
            key = (weight_id, literals)
            expected[key] = expected.get(key, 0) + count
            found = merged.literal[merged.start[target] : merged.start[target + 1]].tolist()
            assert found == sorted(literals, key=abs)
            assert merged.weight_id[target] == weight_id
    found_rows = {
        (
            int(merged.weight_id[i]),
            frozenset(merged.literal[merged.start[i] : merged.start[i + 1]].tolist()),
        ): merged.coefficient[i]
        for i in range(len(merged.weight_id))
    }
    assert found_rows == expected
    assert len(merged.weight_id) == len(expected)


def merge(rows: list[tuple[list[int], int, int]]) -> MergedRows:
    return merge_rows(
        np.cumsum([0, *(len(row) for row, _, _ in rows)]),
        np.array([x for row, _, _ in rows for x in row], np.int32),
        np.array([w for _, w, _ in rows], np.int32),
        np.array([c for _, _, c in rows], np.float64),
    )


@given(rows=ROWS, random=st.randoms(use_true_random=False))
def test_sorted_rows_do_not_depend_on_their_order(
    rows: list[tuple[list[int], int, int]], random: Random
) -> None:
    """Sorted rows are the same whatever the order before, and `merged` follows them."""
    found, other = sort_rows(merge(rows)), sort_rows(merge(random.sample(rows, len(rows))))
    for one, two in zip(found[:4], other[:4], strict=True):
        assert one.tolist() == two.tolist()
    first = np.abs(found.literal[found.start[:-1]])
    assert (first[1:] >= first[:-1]).all()
    for (literals, weight, _), row in zip(rows, found.merged.tolist(), strict=True):
        if row >= 0:
            own = found.literal[found.start[row] : found.start[row + 1]].tolist()
            assert own == sorted(set(literals) - {0}, key=abs)
            assert found.weight_id[row] == weight
