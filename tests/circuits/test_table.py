"""Tables of all formats, and refused ones."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from lapis.circuits.row_table import code_rows, merge_variables, read_table
from lapis.errors import LapisError

ROWS = [[0, 1, 2], [1, 1, 0], [0, 0, 2], [1, 0, 1]]


def write(path: Path, text: str) -> Path:
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


def digits(separator: str = ",", end: str = "\n") -> str:
    return "".join(separator.join(map(str, row)) + end for row in ROWS)


@pytest.mark.parametrize("form", ["data.gz", "csv", "spaced.csv", "named.csv", "npy", "parquet"])
def test_every_form_gives_the_same_rows(form: str, tmp_path: Path) -> None:
    path = tmp_path / f"t.{form}"
    if form == "npy":
        np.save(path, np.array(ROWS))
    elif form == "parquet":
        pandas = pytest.importorskip("pandas")
        pandas.DataFrame(ROWS, columns=["A", "B", "C"]).to_parquet(path)
    elif form == "named.csv":
        write(path, "A,B,C\n" + digits())
    else:
        write(path, digits(", " if form == "spaced.csv" else ","))
    names, states = merge_variables([read_table(path)])
    assert names == (("A", "B", "C") if form in ("named.csv", "parquet") else ("x0", "x1", "x2"))
    assert states == (("0", "1"), ("0", "1"), ("0", "1", "2"))
    assert code_rows(read_table(path), names, states).tolist() == ROWS


def test_values_missing_ones_and_order(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "size,colour\n10,red\n9,?\n,blue\n*,red\n")
    names, states = merge_variables([read_table(path)])
    assert (names, states) == (("size", "colour"), (("9", "10"), ("blue", "red")))
    assert code_rows(read_table(path), names, states).tolist() == [
        [1, 1],
        [0, -1],
        [-1, 0],
        [-1, 1],
    ]
    again = write(tmp_path / "other.csv", "colour,size\nblue,9\n")
    assert code_rows(read_table(again), names, states).tolist() == [[0, 0]]
    part = write(tmp_path / "part.csv", "colour\nblue\n")
    assert code_rows(read_table(part, "yes"), names, states).tolist() == [[-1, 0]]


def test_headers_are_told_from_rows(tmp_path: Path) -> None:
    rows = write(tmp_path / "a.csv", "yes,no\nno,no\nyes,yes\n")
    assert read_table(rows).names is None
    assert read_table(rows, "yes").names == ("yes", "no")
    named = write(tmp_path / "b.csv", "smokes,cancer\nno,no\nyes,yes\n")
    assert read_table(named).names == ("smokes", "cancer")
    assert len(read_table(named, "no").codes) == 3
    twice = write(tmp_path / "d.csv", "smokes,smokes\n0,1\n1,1\n")
    with pytest.raises(LapisError, match="two columns have the same name"):
        read_table(twice)
    values = write(tmp_path / "e.csv", "yes,yes\nno,no\n")
    assert read_table(values).names is None
    one = write(tmp_path / "c.csv", "1,0\n")
    assert read_table(one).codes.shape == (1, 2)


def test_missing_numbers(tmp_path: Path) -> None:
    np.save(tmp_path / "t.npy", np.array([[0.0, np.nan], [1.0, 3.0]]))
    table = read_table(tmp_path / "t.npy")
    names, states = merge_variables([table])
    assert states == (("0", "1"), ("3",))
    assert code_rows(table, names, states).tolist() == [[0, -1], [1, 0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A,B\n0,1\n0\n", "t.csv: row 3 has 1 column, the first has 2"),
        ("", "t.csv: the file is empty"),
        ("A,A\n0,1\n", "t.csv: two columns have the same name"),
        ("A,C\n0,1\n", "t.csv: the model has no variable 'C'"),
        (
            "yes,no\n0,1\n",
            "t.csv: the model has no variable 'yes'\n"
            '    header "no" takes the first row for values, not names',
        ),
        ("A,B\n0,1\n0,2\n", "t.csv: row 2: B has no state '2'\n    it has 0, 1"),
    ],
)
def test_tables_that_are_refused(text: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", text)
    with pytest.raises(LapisError) as found:
        code_rows(read_table(path, "yes"), ["A", "B"], [["0", "1"]] * 2)
    assert str(found.value) == f"{tmp_path}/{message}"


def test_arrays_that_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "t.npy", np.array([0.5, 1.0]))
    with pytest.raises(LapisError, match=r"expected rows and columns of numbers or texts"):
        read_table(tmp_path / "t.npy")
    np.save(tmp_path / "t.npy", np.array([[0.5, 1.0]]))
    with pytest.raises(LapisError, match="the numbers are not integers"):
        read_table(tmp_path / "t.npy")
    np.save(tmp_path / "t.npy", np.array([[np.inf, 1.0]]))
    with pytest.raises(LapisError, match="the numbers are not integers"):
        read_table(tmp_path / "t.npy")
    with pytest.raises(LapisError, match="there is no such file"):
        read_table(tmp_path / "none.csv")


def test_values_of_parquet_are_those_of_a_text(tmp_path: Path) -> None:
    """Infinity and dates are values; a Boolean is 0 or 1."""
    pandas = pytest.importorskip("pandas")
    day = pandas.Timestamp("2020-01-31")
    columns = {"f": [1.0, 2.5, np.inf, None], "b": [True, False, True, False],
               "d": [day, None, day, None], "i": [3, 1, 2, 1]}  # fmt: skip
    pandas.DataFrame(columns).to_parquet(tmp_path / "t.parquet")
    names, states = merge_variables([read_table(tmp_path / "t.parquet")])
    assert names == ("f", "b", "d", "i")
    assert states == (("1", "2.5", "inf"), ("0", "1"), ("2020-01-31 00:00:00",), ("1", "2", "3"))


def test_a_column_without_a_value_has_no_states(tmp_path: Path) -> None:
    """Nothing can be learned about a column without values."""
    path = write(tmp_path / "t.csv", "A,B\n?,1\n,0\n")
    with pytest.raises(LapisError) as found:
        merge_variables([read_table(path)])
    assert str(found.value) == (f"{path}: the column A has no values\n    leave the column out")
    other = write(tmp_path / "v.csv", "B,A\n1,x\n")
    assert merge_variables([read_table(path), read_table(other)])[1] == (("x",), ("0", "1"))


def test_states_are_those_of_columns_of_one_name_in_whatever_order(tmp_path: Path) -> None:
    train, valid = tmp_path / "train.csv", tmp_path / "valid.csv"
    train.write_text("coin,size\nheads,small\ntails,large\n")
    valid.write_text("size,coin\nmedium,tails\n")
    tables = [read_table(train), read_table(valid)]
    names, states = merge_variables(tables)
    assert dict(zip(names, map(set, states), strict=True)) == {
        "coin": {"heads", "tails"},
        "size": {"small", "medium", "large"},
    }
    (row,) = code_rows(tables[1], names, states)
    assert [own[code] for own, code in zip(states, row, strict=True)] == ["tails", "medium"]
