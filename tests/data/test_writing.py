"""Written data is read as the same facts; files are written atomically."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.facts_strategies import databases, functions, stated, writings
from lapis.data import Database, bind, files
from lapis.errors import LapisError
from lapis.language import parse_model


@given(st.data())
def test_text_round_trip(data: st.DataObject):
    facts = data.draw(databases())
    database = replace(
        Database.parse(data.draw(writings(facts))),
        declared={"t": tuple(data.draw(st.lists(st.text(max_size=3), unique=True)))},
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, data.draw(st.sampled_from(["d.db", "d.db.gz"])))
        database.write(path)
        again = Database.read(path)
        assert list(Path(folder).iterdir()) == [path]
    assert stated(again) == set(facts)
    assert functions(again) == functions(database)
    assert again.declared == database.declared


@settings(max_examples=15)
@given(st.data())
def test_folder_round_trip(data: st.DataObject):
    facts = data.draw(databases())
    database = Database.parse("t = {X, Y}\n" + data.draw(writings(facts)))
    for format in ("csv", "parquet"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "tables")
            database.write(path, format=format)  # type: ignore[arg-type]
            again = Database.read(path)
            assert list(Path(folder).iterdir()) == [path]
        assert stated(again) == set(facts)
        assert functions(again) == functions(database)
        assert again.declared == database.declared


def test_the_text_written(tmp_path: Path):
    database = Database.parse('?Q\n!P(b,A)\nP(A,"x y")\nt = {1, two}\nEve = f(A)\n')
    database.write(tmp_path / "d.db")
    assert (tmp_path / "d.db").read_text() == (
        't = {1, "two"}\n?Q\nP(A,"x y")\n!P("b",A)\nEve = f(A)\n'
    )


def test_the_same_data_gives_the_same_bytes(tmp_path: Path):
    for name in ("one.db.gz", "two.db.gz"):
        Database.parse("P(A)").write(tmp_path / name)
    assert (tmp_path / "one.db.gz").read_bytes() == (tmp_path / "two.db.gz").read_bytes()


@pytest.mark.parametrize("format", [None, "csv", "parquet"])
def test_bound_data_keeps_constants_without_facts(tmp_path: Path, format: None):
    model = parse_model("person = {Zoe}\nSmokes(person)\nFriends(person, person)\n")
    bound = bind(Database.parse("person = {Dan}\nFriends(Bob,Ann)\n"), model)
    path = tmp_path / ("d" if format else "d.db")
    bound.write(path, format=format)
    again = bind(Database.read(path), model)
    assert again == bound
    assert again.domains["person"].constants == ("Zoe", "Dan", "Bob", "Ann")


def test_a_predicate_without_facts_stays_in_tables(tmp_path: Path):
    bound = bind(Database.parse(""), parse_model("Smokes(person)\nRain\n"))
    bound.write(tmp_path / "d", format="csv")
    again = Database.read(tmp_path / "d")
    assert {name: relation.arity for name, relation in again.relations.items()} == {
        "Smokes": 1,
        "Rain": 0,
    }
    assert not stated(again)


def test_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "d.db"
    Database.parse("Old(A)").write(path)

    def break_off(*_: object) -> object:
        yield "New(A)\n"
        raise RuntimeError("disk full")

    monkeypatch.setattr(files, "_lines", break_off)
    with pytest.raises(RuntimeError):
        Database.parse("New(A) New(B)").write(path)
    assert path.read_text() == "Old(A)\n"
    assert list(tmp_path.iterdir()) == [path]


def test_refusals(tmp_path: Path):
    data = Database.parse("P(A)")
    with pytest.raises(LapisError, match="unknown file format"):
        data.write(tmp_path / "d.xlsx")
    with pytest.raises(LapisError, match="cannot be written"):
        data.write(tmp_path / "absent" / "d.db")
    with pytest.raises(LapisError, match="exists already"):
        data.write(tmp_path, format="csv")
    with pytest.raises(LapisError, match="cannot be written as a predicate"):
        Database.from_sql({"my table": "SELECT 1"}).write(tmp_path / "d.db")
