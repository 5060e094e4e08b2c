"""Test MaxSAT files: both dialects, located errors, costs against all assignments."""

from __future__ import annotations

import gzip
import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lapis.errors import LapisError
from lapis.inference.map.wcnf import (
    WeightedClauses,
    network_of_clauses,
    parse_wcnf,
    read_wcnf,
    solve_wcnf,
)

CLASSIC = "c a comment\np wcnf 3 4 10\n10 1 2 0\n3 -1 0\n2 -2 0\n1 1 -3 0\n"
RECENT = "c a comment\nh 1 2 0\n3 -1 0\n2 -2 0\n1 1 -3 0\n"


def rows(clauses: WeightedClauses) -> list[list[int]]:
    return [row.tolist() for row in np.split(clauses.literal, clauses.clause_start[1:-1])]


@pytest.mark.parametrize("text", [CLASSIC, RECENT])
def test_both_dialects(text: str) -> None:
    found = parse_wcnf(text)
    assert found.num_variables == 3
    assert rows(found) == [[1, 2], [-1], [-2], [1, -3]]
    assert found.is_hard.tolist() == [True, False, False, False]
    assert found.weight.tolist() == [0, 3, 2, 1]


def test_a_clause_may_span_lines_and_a_line_hold_clauses() -> None:
    found = parse_wcnf("h 1\n 2 0 4 -1 0\n")
    assert rows(found) == [[1, 2], [-1]]
    assert found.is_hard.tolist() == [True, False]
    assert found.weight.tolist() == [0, 4]


def test_without_top_nothing_is_hard() -> None:
    assert parse_wcnf("p wcnf 1 1\n1000 1 0\n").weight.tolist() == [1000]


def test_variables_that_occur_nowhere_are_counted() -> None:
    assert parse_wcnf("p wcnf 9 1 5\n5 1 0\n").num_variables == 9


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("h 1 2 0\n3 x 0\n", "f.wcnf:2:3", "this is not a literal"),
        ("h 1 2 0\nheavy 1 0\n", "f.wcnf:2:1", "this is not a weight"),
        ("-3 1 0\n", "f.wcnf:1:1", "this is not a weight"),
        ("nan 1 0\n", "f.wcnf:1:1", "this is not a weight"),
        ("h 1 2 0\n3 -1\n", "f.wcnf:2:3", "the last clause has no end"),
        ("p cnf 3 4\n", "f.wcnf:1:1", "this is not a header"),
        ("p wcnf 3\n", "f.wcnf:1:1", "this is not a header"),
        ("p wcnf 1 1 5\np wcnf 1 1 5\n5 1 0\n", "f.wcnf:2:1", "a second header"),
        ("5 1 0\np wcnf 1 1 5\n", "f.wcnf:2:1", "the header comes after clauses"),
        ("p wcnf 1 1 5\n5 1 -2 0\n", "f.wcnf:2:5", "the header announces 1 variables"),
        ("9223372036854775809 1 0\n", "f.wcnf:1:1", "weights are at most 2\\^63"),
        ("1e31 1 0\n", "f.wcnf:1:1", "exponents of weights are at most 30"),
        ("9e18 1 0\n0.001 1 0\n", "f.wcnf:1:1", "need more than 64 bits"),
        ("1 2147483648 0\n", "f.wcnf:1:3", "this is not a literal"),
        ("1 999999999 0\n", "f.wcnf:1:3", "999,999,999 variables, and only 1 literals"),
        ("p wcnf 999999999 1 5\n5 1 0\n", "f.wcnf:1:1", "999,999,999 variables"),
        ("p wcnf ² 1 5\n5 1 0\n", "f.wcnf:1:1", "this is not a header"),
        ("1 ² 0\n", "f.wcnf:1:3", "this is not a literal"),
        ("p wcnf 1 2 5\n5 1 0\n", "f.wcnf:3:1", "announces 2 clauses, there are 1"),
    ],
)
def test_errors_say_where(text: str, place: str, message: str) -> None:
    with pytest.raises(LapisError, match=message) as error:
        parse_wcnf(text, "f.wcnf")
    assert error.value.code == "wcnf-syntax"
    assert str(error.value).startswith(place + ":")


def test_files_may_be_compressed(tmp_path: Path) -> None:
    path = tmp_path / "small.wcnf.gz"
    path.write_bytes(gzip.compress(RECENT.encode()))
    assert rows(read_wcnf(path)) == rows(parse_wcnf(RECENT))


@pytest.mark.parametrize(
    "content",
    [b"not gzip", gzip.compress(RECENT.encode(), mtime=0)[:20]],
    ids=["plain", "cut"],
)
def test_unreadable_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.wcnf.gz"
    path.write_bytes(content)
    with pytest.raises(LapisError, match="cannot be read") as error:
        read_wcnf(path)
    assert error.value.code == "unreadable-file"
    with pytest.raises(LapisError, match="no such file"):
        read_wcnf(tmp_path / "nowhere.wcnf")


def test_atoms_are_named_by_their_variables(tmp_path: Path) -> None:
    path = tmp_path / "small.wcnf"
    path.write_text(RECENT)
    network = network_of_clauses(read_wcnf(path), np.zeros(4))
    assert network.atom_names(np.arange(3)) == ["x(1)", "x(2)", "x(3)"]


def test_an_empty_hard_clause_contradicts_everything() -> None:
    with pytest.raises(LapisError, match="one of them is empty") as error:
        network_of_clauses(parse_wcnf("h 0\n1 1 0\n"), np.zeros(2))
    assert error.value.code == "unsatisfiable"


def test_hard_clauses_that_contradict_each_other(tmp_path: Path) -> None:
    path = tmp_path / "none.wcnf"
    path.write_text("h 1 2 0\nh -1 2 0\nh 1 -2 0\nh -1 -2 0\n1 3 0\n")
    with pytest.raises(LapisError, match="no world satisfies"):
        solve_wcnf(path)


CLAUSES = st.lists(
    st.tuples(
        st.sampled_from(["h", "1", "2", "0", "7", "0.5"]),
        st.lists(st.integers(-6, 6).filter(bool), max_size=5),
    ),
    max_size=20,
)


@given(drawn=CLAUSES)
def test_costs_against_all_assignments(
    drawn: list[tuple[str, list[int]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Repeated and opposite literals, empty clauses and weights of 0 are included."""
    text = "".join(f"{weight} {' '.join(map(str, [*row, 0]))}\n" for weight, row in drawn)
    best = np.inf
    for signs in itertools.product((-1, 1), repeat=6):
        true = {sign * variable for sign, variable in zip(signs, range(1, 7), strict=True)}
        false = [weight for weight, row in drawn if not true & set(row)]
        best = min(best, np.inf if "h" in false else sum(map(float, false)))
    path = tmp_path_factory.mktemp("wcnf") / "drawn.wcnf"
    path.write_text(text)
    if best == np.inf:
        with pytest.raises(LapisError):
            solve_wcnf(path)
        return
    found = solve_wcnf(path)
    assert found.found.optimal
    assert found.cost == found.bound == best  # multiples of 0.5


HEAVY = st.sampled_from(
    [1, 2, 3, 10**11, 10**11 + 1, 10**15, 10**16, 10**17, 3 * 10**17, 2**53 + 1, 2**62, 2**63]
)


@given(
    drawn=st.lists(
        st.tuples(HEAVY, st.lists(st.integers(-4, 4).filter(bool), max_size=2)), max_size=12
    )
)
def test_heavy_weights_are_added_exactly(
    drawn: list[tuple[int, list[int]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The cost is that of the assignment; bounds hold, and "optimal" is true."""
    path = tmp_path_factory.mktemp("wcnf") / "heavy.wcnf"
    path.write_text("".join(f"{w} {' '.join(map(str, [*row, 0]))}\n" for w, row in drawn))
    costs = []
    for signs in itertools.product((-1, 1), repeat=4):
        true = {sign * variable for sign, variable in zip(signs, range(1, 5), strict=True)}
        costs.append(sum(weight for weight, row in drawn if not true & set(row)))
    found = solve_wcnf(path)
    assert found.cost in costs
    assert found.bound <= min(costs) <= found.cost
    assert found.found.optimal == (found.cost == found.bound)
    assert found.found.gap == float(found.cost - found.bound)


@pytest.mark.parametrize("heavy", [10**15, 10**16, 10**17, 2**62, 2**63])
@pytest.mark.parametrize("form", ["{0} 1 0\n", "h 4 0\n{0} 1 0\n", "{0}.0 1 0\n"])
def test_a_heavy_clause_does_not_hide_light_ones(tmp_path: Path, heavy: int, form: str) -> None:
    path = tmp_path / "m.wcnf"
    path.write_text(form.format(heavy) + "1 -1 0\n1 2 0\n1 -2 3 0\n2 -3 0\n")
    found = solve_wcnf(path)
    assert (found.cost, found.bound, found.found.gap, found.found.optimal) == (2, 2, 0.0, True)


def test_decimal_weights_are_added_exactly(tmp_path: Path) -> None:
    path = tmp_path / "m.wcnf"
    path.write_text("0.1 1 0\n0.2 1 0\n0.3 -1 0\n1e-3 0\n")
    assert solve_wcnf(path).cost == 0.301


def test_weights_that_no_levels_divide_are_bounded(tmp_path: Path) -> None:
    """10^17 + 1 and 10^17 differ by as much as the light clause weighs."""
    path = tmp_path / "m.wcnf"
    path.write_text(f"{10**17 + 1} 1 0\n{10**17} -1 0\n1 -1 0\n")
    found = solve_wcnf(path)
    assert found.cost == 10**17 + 1
    assert found.bound <= 10**17 + 1
