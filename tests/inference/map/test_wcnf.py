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
    assert found.weight.tolist() == [np.inf, 3.0, 2.0, 1.0]


def test_a_clause_may_span_lines_and_a_line_hold_clauses() -> None:
    found = parse_wcnf("h 1\n 2 0 4 -1 0\n")
    assert rows(found) == [[1, 2], [-1]]
    assert found.weight.tolist() == [np.inf, 4.0]


def test_without_top_nothing_is_hard() -> None:
    assert parse_wcnf("p wcnf 1 1\n1000 1 0\n").weight.tolist() == [1000.0]


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
    with pytest.raises(LapisError, match="cannot read") as error:
        read_wcnf(path)
    assert error.value.code == "unreadable-file"
    with pytest.raises(LapisError, match="cannot read"):
        read_wcnf(tmp_path / "nowhere.wcnf")


def test_atoms_are_named_by_their_variables(tmp_path: Path) -> None:
    path = tmp_path / "small.wcnf"
    path.write_text(RECENT)
    network = network_of_clauses(read_wcnf(path))
    assert network.atom_names(np.arange(3)) == ["x(1)", "x(2)", "x(3)"]


def test_an_empty_hard_clause_contradicts_everything() -> None:
    with pytest.raises(LapisError, match="one of them is empty") as error:
        network_of_clauses(parse_wcnf("h 0\n1 1 0\n"))
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
    assert found.cost == found.bound == pytest.approx(best)
