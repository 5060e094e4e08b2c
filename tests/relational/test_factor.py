"""Compare sparse factors and sum-products with dense arrays of Python integers."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lapis.relational.factor import (
    Factor,
    anti_join,
    constant_factor,
    indicator_factor,
    join_factors,
    join_onto,
    multiply_factors,
    project_factor,
    select_tuples,
    sort_rows,
)

NAMES = ("a", "b", "c", "d")
SIZES = {"a": 3, "b": 2, "c": 4, "d": 1}
Assignments = dict[tuple[int, ...], int]

small = st.integers(-3, 3)
huge = st.integers(-(2**70), 2**70)


@st.composite
def factors(draw: st.DrawFn, max_variables: int = 3) -> Factor:
    chosen = st.lists(st.sampled_from(NAMES), max_size=max_variables, unique=True)
    return draw(factors_over(tuple(draw(chosen))))


@st.composite
def factors_over(draw: st.DrawFn, variables: tuple[str, ...]) -> Factor:
    every = list(itertools.product(*(range(SIZES[name]) for name in variables)))
    rows = draw(st.lists(st.sampled_from(every), unique=True))
    values = draw(st.sampled_from([small, small, huge]))
    numbers = [draw(values) for _ in rows]
    fits = all(abs(number) < 2**63 for number in numbers)
    return Factor(
        variables,
        np.array(rows, np.int32).reshape(len(rows), len(variables)),
        np.array(numbers, np.int64 if fits else object),
    )


def listed(factor: Factor) -> Assignments:
    rows = [tuple(row) for row in factor.rows.tolist()]
    assert len(set(rows)) == len(rows) == len(factor.value)
    return {row: number for row, number in zip(rows, factor.value.tolist(), strict=True) if number}


def summed(parts: list[Factor], keep: tuple[str, ...]) -> Assignments:
    """Σ over the variables not in `keep` of Π parts, by going through all assignments."""
    names = tuple(dict.fromkeys(name for part in parts for name in part.variables))
    tables = [listed(part) for part in parts]
    result: Assignments = {}
    for values in itertools.product(*(range(SIZES[name]) for name in names)):
        at = dict(zip(names, values, strict=True))
        product = 1
        for part, table in zip(parts, tables, strict=True):
            product *= table.get(tuple(at[name] for name in part.variables), 0)
        row = tuple(at[name] for name in keep)
        result[row] = result.get(row, 0) + product
    return {row: number for row, number in result.items() if number}


@given(st.data())
def test_join_is_the_sum_of_products(data: st.DataObject) -> None:
    left, right = data.draw(factors()), data.draw(factors())
    names = sorted({*left.variables, *right.variables})
    chosen = st.lists(st.sampled_from(names), unique=True) if names else st.just([])
    keep = tuple(data.draw(chosen))
    joined = join_factors(left, right, keep)
    assert joined.variables == keep
    assert listed(joined) == summed([left, right], keep)


@given(factors(), factors())
def test_products_and_sums_agree_with_their_definitions(left: Factor, right: Factor) -> None:
    product = multiply_factors(left, right)
    assert listed(product) == summed([left, right], product.variables)
    assert listed(project_factor(left, ())) == summed([left], ())
    rest = project_factor(left, left.variables[1:])
    assert rest.variables == left.variables[1:]
    assert listed(rest) == summed([left], rest.variables)
    assert left.total() == sum(listed(left).values())


@given(st.data())
def test_join_onto_keeps_the_sums_that_the_target_asks_for(data: st.DataObject) -> None:
    left, right = data.draw(factors()), data.draw(factors())
    names = sorted({*left.variables, *right.variables})
    chosen = st.lists(st.sampled_from(names), unique=True) if names else st.just([])
    target = data.draw(factors_over(tuple(data.draw(chosen))))
    onto = join_onto(left, right, target)
    assert listed(onto) == summed([left, right, target], target.variables)


@given(factors(), factors())
def test_an_anti_join_keeps_the_rows_without_a_match(left: Factor, right: Factor) -> None:
    shared = [name for name in left.variables if name in right.variables]
    met = {tuple(row) for row in right.columns(shared).tolist()}
    expected = [tuple(row) in met for row in left.columns(shared).tolist()]
    np.testing.assert_array_equal(anti_join(left, right).rows, left.rows[~np.array(expected, bool)])


def test_select_matches_constants_and_diagonals() -> None:
    rows = np.array(list(itertools.product(range(3), repeat=3)), np.int32)
    chosen = select_tuples(("x", 1, "x"), rows)
    assert chosen.variables == ("x",)
    assert listed(chosen) == {(0,): 1, (1,): 1, (2,): 1}
    assert listed(select_tuples((0, 1, 2), rows)) == {(): 1}
    assert len(select_tuples((0, 1, -1), rows)) == 0


def test_keys_beyond_63_bits_are_matched_and_grouped() -> None:
    # Four columns of codes up to 2^30 take 120 bits.
    top = 2**30
    rows = np.array([[0, top, 5, top], [top, 0, 5, 0], [0, top, 6, top], [0, top, 5, 0]], np.int32)
    names = ("p", "q", "r", "s")
    left = Factor(
        (*names, "t"), np.column_stack([rows, [0, 1, 2, 3]]).astype(np.int32), np.arange(1, 5)
    )
    right = Factor(names, rows[:3], np.array([10, 100, 1000]))
    joined = join_factors(left, right, names)
    assert listed(joined) == {
        (0, top, 5, top): 10,
        (top, 0, 5, 0): 200,
        (0, top, 6, top): 3000,
    }
    assert listed(join_onto(left, constant_factor(1), right)) == listed(joined)


def test_a_sum_of_small_values_that_overflows_is_exact() -> None:
    rows = np.arange(8, dtype=np.int32).reshape(-1, 1)
    factor = Factor(("x",), rows, np.full(8, 2**62, np.int64))
    assert project_factor(factor, ()).value.tolist() == [2**65]
    assert join_factors(factor, factor, ()).value.tolist() == [2**127]
    assert factor.total() == 2**65


def test_cancelled_rows_disappear() -> None:
    factor = Factor(("x", "y"), np.array([[0, 0], [0, 1], [1, 0]], np.int32), np.array([2, -2, 3]))
    assert listed(project_factor(factor, ("x",))) == {(1,): 3}
    assert len(project_factor(factor, ("x",))) == 1
    assert sort_rows(factor).rows.tolist() == [[0, 0], [0, 1], [1, 0]]


def test_large_sparse_results_leave_the_dense_table() -> None:
    rng = np.random.default_rng(5)
    codes = np.unique(rng.integers(0, 40_000**2, 60_000))
    rows = np.stack(np.divmod(codes, 40_000), axis=1).astype(np.int32)
    left, right = indicator_factor(("x", "y"), rows), indicator_factor(("y", "z"), rows)
    joined = join_factors(left, right, ("x", "z"))
    degree_in = np.bincount(rows[:, 1], minlength=40_000)
    degree_out = np.bincount(rows[:, 0], minlength=40_000)
    assert joined.total() == int(degree_in @ degree_out)
    successors: dict[int, list[int]] = {}
    for x, y in rows.tolist():
        successors.setdefault(x, []).append(y)
    start = int(rows[0, 0])
    expected: dict[int, int] = {}
    for middle in successors[start]:
        for end in successors.get(middle, []):
            expected[end] = expected.get(end, 0) + 1
    found = joined.take(joined.column("x") == start)
    assert dict(zip(found.column("z").tolist(), found.value.tolist(), strict=True)) == expected
