"""Folders of CSV and Parquet files, frames, queries."""

from __future__ import annotations

import gzip
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.facts_strategies import Stated, databases, functions, stated, writings
from lapis.data import Database
from lapis.errors import LapisError

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
    assert stated(data) == {Stated("P", ("1", "1.5"), True), Stated("P", ("2", "2.0"), True)}


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_frames_of_any_kind(kind: str):
    columns = {"a": ["Ann", "Bob"], "n": [3, -1], "x": [0.5, 2.0], "yes": [True, False]}
    make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}[kind]
    data = Database.from_frames({"P": make(columns), "Q.unknown": make({"n": [1]})})
    assert stated(data) == {
        Stated("P", ("Ann", "3", "0.5", "true"), True),
        Stated("P", ("Bob", "-1", "2.0", "false"), True),
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
    from lapis.relational.engines.spark import SparkStore

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


@pytest.mark.parametrize("column", [["Ann", None], [1.0, float("nan")]], ids=["string", "number"])
def test_missing_values_are_refused(column: list[object]):
    with pytest.raises(LapisError, match="column 2 has 1 missing values, the first in row 2"):
        Database.from_frames({"P": pd.DataFrame({"a": ["x", "y"], "b": column})})


def test_missing_and_empty_cells_of_csv(tmp_path: Path):
    (tmp_path / "P.csv").write_text('a,b\nx,""\n')
    assert stated(Database.read(tmp_path)) == {Stated("P", ("x", ""), True)}
    (tmp_path / "P.csv").write_text("a,b\nx,\n")
    with pytest.raises(LapisError, match="missing values"):
        Database.read(tmp_path)


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


def test_unknown_kind_of_frames():
    with pytest.raises(LapisError, match="there is no kind of frames 'excel'"):
        Database.parse("P(a)").to_frames("excel")  # type: ignore[arg-type]
