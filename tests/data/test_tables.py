"""Folders of CSV and Parquet files, frames, queries."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lapis
from data.facts_strategies import Stated, databases, functions, stated, writings
from lapis.data import Database
from lapis.errors import LapisError, LapisWarning

FRIENDS = {
    Stated("Friends", ("Ann", "Bob"), True),
    Stated("Friends", ("Bob", "Ann"), True),
    Stated("Friends", ("Ann", "Ann"), False),
}


def test_folder_of_csv(tmp_path: Path):
    (tmp_path / "Friends.csv").write_text("a,b\nAnn,Bob\nBob,Ann\nAnn,Bob\n")
    (tmp_path / "Friends.false.csv").write_text("a,b\nAnn,Ann\n")
    (tmp_path / "Age.unknown.csv.gz").write_bytes(gzip.compress(b'who,age\n"O, Neil",007\n'))
    (tmp_path / "Rain.csv").write_text("()\nyes\n")
    (tmp_path / "mother.function.csv").write_text("child,mother\r\nAnn,Eve\r\n")
    (tmp_path / "person.type.csv").write_text("name\nZoe\nAnn\n")
    (tmp_path / "README.md").write_text("not a table")
    data = Database.read(tmp_path)
    assert stated(data) == FRIENDS | {
        Stated("Age", ("O, Neil", "007"), None),
        Stated("Rain", (), True),
        Stated("mother", ("Ann", "Eve"), True),
    }
    assert functions(data) == {"mother"}
    assert data.declared == {"person": ("Zoe", "Ann")}
    friends = data.relations["Friends"]
    assert friends.types == ("Friends.0", "Friends.1")
    assert data.domains["Friends.0"].constants == ("Ann", "Bob")
    assert data.domains["Friends.1"].constants == ("Bob", "Ann")
    assert friends.true.tolist() == [[0, 0], [1, 1]]


def test_one_table_file(tmp_path: Path):
    pl.DataFrame({"x": [1, 2], "y": [1.5, 2.0]}).write_parquet(tmp_path / "P.parquet")
    data = Database.read(tmp_path / "P.parquet")
    assert stated(data) == {Stated("P", ("1", "1.5"), True), Stated("P", ("2", "2"), True)}


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_frames_of_any_kind(kind: str):
    columns = {"a": ["Ann", "Bob"], "n": [3, -1], "x": [0.5, 2.0], "yes": [True, False]}
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}[kind]
    data = Database.from_frames({"P": make(columns), "Q.unknown": make({"n": [1]})})
    assert stated(data) == {
        Stated("P", ("Ann", "3", "0.5", "true"), True),
        Stated("P", ("Bob", "-1", "2", "false"), True),
        Stated("Q", ("1",), None),
    }


def test_tables_of_ibis_are_run():
    import ibis

    people = ibis.memtable(pa.table({"name": ["Ann", "Bob"], "age": [31, 7]}))
    old = people.filter(people.age > 30)
    data = Database.from_frames({"Old": old.select("name"), "Age": people})
    facts = {("Old", ("Ann",)), ("Age", ("Ann", "31")), ("Age", ("Bob", "7"))}
    assert stated(data) == {Stated(*fact, True) for fact in facts}
    backend = ibis.polars.connect()
    backend.create_table("names", pa.table({"x": ["Ann", "Bob"]}))
    named = Database.from_sql({"P": "SELECT x FROM names WHERE x = 'Ann'"}, backend)
    assert stated(named) == {Stated("P", ("Ann",), True)}
    with pytest.raises(LapisError, match=r"^P: .*nowhere"):
        Database.from_sql({"P": "SELECT * FROM nowhere"}, backend)


@pytest.mark.spark
def test_frames_of_spark_are_run():
    from lapis.stores.spark import SparkStore

    with SparkStore("local[2]") as store:
        frame = store.session.sql("SELECT 'Ann' AS x, 31 AS n")
        data = Database.from_frames({"Age": frame})
        assert stated(data) == {Stated("Age", ("Ann", "31"), True)}
        query = {"P": "SELECT CAST(id AS STRING) FROM range(2)"}
        data = Database.from_sql(query, store.session)
        assert stated(data) == {Stated("P", (name,), True) for name in "01"}


def test_pandas_columns_of_any_dtype():
    frame = pd.DataFrame(
        {
            "category": pd.Categorical(["u", "v"]),
            "object": pd.array(["x", 7], dtype=object),
            "day": pd.to_datetime(["2024-02-29", "2024-03-01"]).date,
        },
        index=[10, 20],
    )
    assert stated(Database.from_frames({"P": frame})) == {
        Stated("P", ("u", "x", "2024-02-29"), True),
        Stated("P", ("v", "7", "2024-03-01"), True),
    }


def test_empty_frames():
    data = Database.from_frames({"P": pd.DataFrame({"a": [], "b": []}, dtype=str)})
    assert data.relations["P"].true.shape == (0, 2)
    assert data.domains["P.0"].constants == ()


MAKERS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}


@pytest.mark.parametrize("kind", MAKERS)
@given(values=st.lists(st.integers(-(2**52), 2**52), min_size=1, max_size=5), half=st.booleans())
@settings(max_examples=10)
def test_a_whole_number_is_one_constant_whatever_the_columns_type(
    kind: str, values: list[int], half: bool
) -> None:
    """Real numbers beside them, as 0.5 is, change nothing: a column's type is no part of a name."""
    reals = [*map(float, values), *([0.5] if half else [])]
    data = Database.from_frames({"P": MAKERS[kind]({"x": reals}), "Q": MAKERS[kind]({"x": values})})
    names = {str(value) for value in values}
    assert {s.constants for s in stated(data) if s.predicate == "Q"} == {(n,) for n in names}
    wanted = names | ({"0.5"} if half else set())
    assert {s.constants for s in stated(data) if s.predicate == "P"} == {(n,) for n in wanted}


def test_whole_numbers_of_every_sql_type() -> None:
    kinds = ["DOUBLE", "FLOAT", "HUGEINT", "UTINYINT", "VARCHAR"]
    query = ", ".join(f"CAST(7 AS {kind})" for kind in kinds)
    other = "SELECT 2.50, 1e20, -0e0, 1e0 / 0"  # decimals keep their digits, as texts do
    data = Database.from_sql({"P": f"SELECT {query}", "Q": other})
    assert stated(data) == {
        Stated("P", ("7",) * len(kinds), True),
        Stated("Q", ("2.50", "1e+20", "0", "inf"), True),  # beyond 2^53 a double is no count
    }


def test_integers_of_the_model_are_those_of_a_column_of_real_numbers() -> None:
    """Pandas makes 1.0 of 1 where another value was missing: Q(1.0) stood beside Q(1)."""
    model = lapis.parse("n = {1, 2}\nP(n)\nQ(n)\n1 P(x) => Q(x)")
    data = Database.from_frames({"P": pd.DataFrame({"x": [1, 2, None]}).dropna()})
    assert list(lapis.infer(model, data, "Q").marginals) == ["Q(1)", "Q(2)"]


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("column", [["Ann", None], [1.0, float("nan")]], ids=["string", "number"])
@pytest.mark.parametrize("table", ["P", "P.unknown"])
def test_missing_values_are_refused(kind: str, column: list[object], table: str):
    """With the row of its own table: those of the other truths are before it."""
    others = {"P.false": MAKERS[kind]({"a": ["u", "v", "w"], "b": column[:1] * 3})}
    message = f"^{table}: column 2 has 1 missing value, the first in row 2$"
    with pytest.raises(LapisError) as caught:
        Database.from_frames({**others, table: MAKERS[kind]({"a": ["x", "y"], "b": column})})
    assert re.match(message, caught.value.message)


def test_missing_and_empty_cells_of_csv(tmp_path: Path):
    (tmp_path / "P.csv").write_text('a,b\nx,""\n')
    assert stated(Database.read(tmp_path)) == {Stated("P", ("x", ""), True)}
    (tmp_path / "P.csv").write_text("a,b\nx,\n")
    with pytest.raises(LapisError, match="1 missing value, "):
        Database.read(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("Ann,Bob\nBob,Eve\n", "the first row is read as a header, though 'Bob' is a constant"),
        ("1,2\n3,4\n", "the first row is read as a header, though '1' is a number"),
    ],
)
def test_a_first_row_that_looks_like_facts_is_told(tmp_path: Path, content: str, message: str):
    path = tmp_path / "Friends.csv"
    path.write_text(content)
    with pytest.warns(LapisWarning) as caught:
        data = Database.read(path)
    assert str(caught[0].message) == (
        f"{path}: {message}\n    if it is a fact, put a row that names the columns before it"
    )
    assert caught[0].filename == __file__
    assert len(stated(data)) == 1


@pytest.mark.parametrize("header", ["x,x", "a b,1 c", '"say ""hi""",", "', "truth,c0"])
def test_headers_are_any_names(tmp_path: Path, header: str):
    (tmp_path / "P.csv").write_text(f"{header}\nAnn,Bob\n")
    assert stated(Database.read(tmp_path)) == {Stated("P", ("Ann", "Bob"), True)}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a;b\nx;y\n", "{}: the header has semicolons, but columns are separated by commas"),
        ("a\tb\nx\ty\n", "{}: the header has tabs, but columns are separated by commas"),
        ("a,b\nx\n", "P: Invalid Input Error: CSV Error on Line: 2\nOriginal Line: x\n"
         "Expected Number of Columns: 2 Found: 1"),
        ('a,b\n"x,y\n', 'P: Invalid Input Error: CSV Error on Line: 2\nOriginal Line: "x,y\n\n'
         "Value with unterminated quote found."),
    ],
)  # fmt: skip
def test_broken_csv_is_told_in_few_words(tmp_path: Path, content: str, message: str):
    path = tmp_path / "P.csv"
    path.write_text(content)
    with pytest.raises(LapisError) as caught:
        Database.read(path)
    assert str(caught.value) == message.format(path)


def test_queries(tmp_path: Path):
    for part in (1, 2):
        pl.DataFrame({"a": [f"A{part}"], "b": [part]}).write_parquet(tmp_path / f"x{part}.parquet")
    data = Database.from_sql(
        {"P": f"SELECT a, b FROM read_parquet('{tmp_path}/x*.parquet')", "Q": "SELECT 1 AS x;"}
    )
    assert stated(data) == {
        Stated("P", ("A1", "1"), True),
        Stated("P", ("A2", "2"), True),
        Stated("Q", ("1",), True),
    }


def test_queries_on_the_users_connection():
    with duckdb.connect() as connection:
        connection.execute("CREATE TEMP TABLE t AS SELECT 'Ann' AS x, 'Ann' AS y")
        for _ in range(2):
            data = Database.from_sql({"P": "SELECT * FROM t"}, connection)
            assert stated(data) == {Stated("P", ("Ann", "Ann"), True)}
        tables = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        assert tables == [("t",)]


def test_table_errors(tmp_path: Path):
    with pytest.raises(LapisError, match="no CSV or Parquet file"):
        Database.read(tmp_path)
    with pytest.raises(LapisError, match=r"P: .*nowhere"):
        Database.from_sql({"P": "SELECT * FROM nowhere"})
    with pytest.raises(LapisError, match="does not name a table"):
        Database.from_sql({"P.maybe": "SELECT 1"})
    with pytest.raises(LapisError, match="different numbers of columns: 1, 2"):
        Database.from_sql({"P": "SELECT 1", "P.false": "SELECT 1, 2"})
    with pytest.raises(LapisError, match="both as a function and as a predicate"):
        Database.from_sql({"P": "SELECT 1", "P.function.false": "SELECT 1"})
    with pytest.raises(LapisError, match=r"P\(1\) is both true and false"):
        Database.from_sql({"P": "SELECT 1", "P.false": "SELECT 1"})
    with pytest.raises(LapisError, match="needs one column"):
        Database.from_sql({"t.type": "SELECT 1, 2"})
    (tmp_path / "P.csv").write_text("")
    with pytest.raises(LapisError, match="needs a header row"):
        Database.read(tmp_path)
    (tmp_path / "P.csv").write_text("a,b\n1,2,3\n")
    with pytest.raises(LapisError, match="P: "):
        Database.read(tmp_path)
    (tmp_path / "P.csv").write_text("a\n1\n")
    (tmp_path / "P.parquet").write_bytes(b"")
    with pytest.raises(LapisError, match="are both tables of P"):
        Database.read(tmp_path)
    (tmp_path / "P.csv").unlink()
    with pytest.raises(LapisError, match="P: "):
        Database.read(tmp_path)
    (tmp_path / "d.db").write_text("P(a)")
    with pytest.raises(LapisError, match="CSV and Parquet files only"):
        Database.read(tmp_path)


@settings(max_examples=15)
@given(st.data())
def test_frames_round_trip(data: st.DataObject):
    facts = data.draw(databases())
    database = Database.parse(data.draw(writings(facts)))
    for kind in ("pandas", "polars", "arrow"):
        again = Database.from_frames(database.to_frames(kind))  # type: ignore[arg-type]
        assert stated(again) == set(facts)
        assert functions(again) == functions(database)


@pytest.mark.parametrize(
    ("name", "frame", "message"),
    [
        ("P", None, "P: a NoneType is not a frame"),
        ("P", [1, 2], "P: a list is not a frame"),
        ("P", {"a": [1]}, "P: a dict is not a frame"),
        # Rows of an array could be facts; DuckDB takes them for columns.
        ("P", np.array([["A", "B"], ["C", "D"]]), "P: a ndarray is not a frame"),
        ("P", pd.DataFrame(), "P: Invalid Input Error: Need a DataFrame with at least one column"),
        (3, pd.DataFrame({"a": [1]}), "3 does not name a table of facts"),
        ("", pd.DataFrame({"a": [1]}), "'' does not name a table of facts"),
    ],
)
def test_what_is_no_frame_is_told(name: str, frame: pd.DataFrame, message: str):
    with pytest.raises(LapisError) as caught:
        Database.from_frames({name: frame})
    assert (caught.value.code, caught.value.message) == ("data-table", message)


def test_unknown_kind_of_frames():
    with pytest.raises(LapisError, match="unknown kind of frames 'excel'"):
        Database.parse("P(a)").to_frames("excel")  # type: ignore[arg-type]
