"""Counts on every engine equal those in memory, from files and from tables of the engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lapis
from cli_run import Run
from counting.enumerated_worlds import worlds
from lapis.counting.complete_world import add_derived
from lapis.errors import LapisError
from lapis.relational.interpretation import build_interpretation
from lapis.stores import Store, fetch_all, open_store
from lapis.stores.load_to_store import StoredExtension, store_extension
from lapis.stores.store_engine import StoredWorld
from store_urls import STORES, store_url

MODEL = """
person = {Zoe}
Smokes(person)
Friends(person, person)
Age(person, number)
Rich()
1 Friends(x, y) ^ Smokes(x) => Smokes(y)
2 Smokes(x) => EXIST y (Friends(x, y) ^ !Smokes(y))
0.5 FORALL y (Friends(x, y) => Smokes(y))
1 Age(x, n) ^ n > 30 => Smokes(x)
1 Age(x, n) ^ Age(y, m) ^ n = m + 1 => Friends(x, y)
1 Smokes(+x)
1 Rich() => Smokes(x)
1 x != Zoe => Smokes(x)
"""
FACTS = """
Smokes(Anna) Smokes(bob) Friends(Anna, bob) Friends(bob, "it's") Friends("it's", Anna)
Friends(Dora, Dora) Age(Anna, 31) Age(bob, 30) Age("it's", 7) Age(Dora, 8) Rich()
"""


def rows_of(counts: lapis.Counts) -> dict[str, tuple[int, int]]:
    return {row.formula: (row.true, row.groundings) for row in counts}


@pytest.fixture(scope="module")
def model() -> lapis.Model:
    return lapis.parse(MODEL)


@pytest.fixture(scope="module")
def expected(model: lapis.Model) -> dict[str, tuple[int, int]]:
    return rows_of(lapis.count(model, lapis.Database.parse(FACTS)))


class Place:
    """An engine with the facts in tables of the user."""

    def __init__(self, url: str, schema: str) -> None:
        self.url, self.schema = url, schema


@pytest.fixture(scope="module", params=STORES)
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    url, schema = store_url(request.param, request), "default"
    if request.param == "duckdb":
        url, schema = f"duckdb:{tmp_path_factory.mktemp('facts') / 'facts.duckdb'}", "main"
    elif request.param == "postgresql":
        schema = "public"
    tables = {name.lower(): frame for name, frame in frames().items()}
    # While this store is open, further stores use its session of Spark.
    with open_store(url) as store:
        for name, columns in tables.items():
            store.load(name, columns)
            store.publish(name, name)
        yield Place(url, schema)
        if request.param != "duckdb":
            for name in tables:
                store.execute(f"DROP TABLE {name}")


def frames() -> dict[str, dict[str, np.ndarray]]:
    facts = lapis.Database.parse(FACTS)
    columns = {
        name: {
            f"argument {i}": column
            for i, column in enumerate(facts.columns(relation, relation.true))
        }
        for name, relation in facts.relations.items()
    }
    columns["Age"]["argument 1"] = columns["Age"]["argument 1"].astype(np.int32)
    columns["Rich"] = {"anything": np.array([5, 5], np.int32)}
    return columns


def test_counts_of_files_are_the_same_on_an_engine(
    place: Place, model: lapis.Model, expected: dict[str, tuple[int, int]]
) -> None:
    found = lapis.count(model, lapis.Database.parse(FACTS), engine=place.url)
    assert rows_of(found) == expected
    assert [row.formula for row in found] == list(expected)


def test_counts_of_tables_in_place_are_the_same(
    place: Place, model: lapis.Model, expected: dict[str, tuple[int, int]]
) -> None:
    assert rows_of(lapis.count(model, engine=place.url, tables=place.schema)) == expected


def test_codes_follow_the_order_of_code_points(place: Place, model: lapis.Model) -> None:
    found = lapis.count(model, engine=place.url, tables=place.schema)
    smokers = [
        row.formula
        for row in found
        if row.formula.startswith("Smokes(") and "=>" not in row.formula
    ]
    names = ["Zoe", "Anna", "Dora", '"bob"', '"it\'s"']  # the model's own come first
    assert smokers == [f"Smokes({name})" for name in names]


def test_a_mapping_says_which_tables_and_queries(
    place: Place, model: lapis.Model, tmp_path: Path
) -> None:
    prefix = "data." if place.schema == "main" else ""
    mapping = tmp_path / "facts.toml"
    mapping.write_text(
        f'Smokes = "{prefix}{place.schema}.smokes"\n'
        f'Friends = "SELECT * FROM {prefix}{place.schema}.friends"\n'
        f'Age = "{prefix}{place.schema}.age"\nRich = "SELECT 1 AS x"\n'
        '"person.type" = "SELECT \'Eve\' AS name"\n'  # of whom no fact speaks
    )
    expected = rows_of(lapis.count(model, lapis.Database.parse(f"person = {{Eve}}\n{FACTS}")))
    assert expected["Smokes(Eve)"] == (0, 1)
    assert rows_of(lapis.count(model, engine=place.url, tables=str(mapping))) == expected


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"persn.type": "SELECT 1 AS x"}, "data for an unknown type 'persn'\n"
         "    did you mean 'person'?"),
        ({"person.type": "SELECT 1 AS x, 2 AS y"},
         "person.type needs one column, the constants of the type"),
        ({"Smokes.unknown": "SELECT 1 AS x"},
         "Smokes.unknown: tables of an engine hold true facts only\n"
         "    give false and unknown facts in files"),
        ({"Smokes": "SELECT NULL AS x"}, "a column of type 'person' contains NULL, which is not a "
         "constant\n    give a query that leaves these rows out"),
    ],
)  # fmt: skip
def test_tables_that_cannot_be_read_are_said(
    tables: dict[str, str], message: str, model: lapis.Model, tmp_path: Path
) -> None:
    mapping = tmp_path / "facts.toml"
    mapping.write_text("".join(f'"{name}" = "{text}"\n' for name, text in tables.items()))
    with pytest.raises(LapisError) as caught:
        lapis.count(model, engine="duckdb", tables=str(mapping))
    assert str(caught.value) == message


@settings(max_examples=settings.default.max_examples // 4, deadline=None)
@given(data=st.data())
def test_derived_relations_are_tables_with_the_same_rows(store: Store, data: st.DataObject) -> None:
    world = data.draw(worlds().filter(lambda world: bool(world.definitions)))
    here = build_interpretation(world.model.predicates, world.domains, world.relations)
    relations = {name: store_extension(store, own) for name, own in here.relations.items()}
    there = add_derived(StoredWorld(here.domains, relations, store), world.definitions)
    for definition in world.definitions:
        name = definition.predicate.name
        found, known = there.relations[name], world.extensions.relations[name]
        assert isinstance(found, StoredExtension)
        assert found.complemented == known.complemented
        assert sorted(found.tuples.tolist()) == sorted(known.tuples.tolist())
    for extension in there.relations.values():
        assert isinstance(extension, StoredExtension)
        store.drop(extension.rows.table.name)


@pytest.fixture(scope="module", params=STORES)
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    with open_store(store_url(request.param, request)) as opened:
        yield opened


def test_a_folder_of_parquet_files_is_read_in_place(
    model: lapis.Model, expected: dict[str, tuple[int, int]], tmp_path: Path
) -> None:
    write_parquet(tmp_path)
    assert rows_of(lapis.count(model, engine="duckdb", tables=str(tmp_path))) == expected


@pytest.mark.spark
def test_spark_reads_folders_of_parquet_files(
    model: lapis.Model, expected: dict[str, tuple[int, int]], tmp_path: Path
) -> None:
    write_parquet(tmp_path)
    assert rows_of(lapis.count(model, engine="local[2]", tables=str(tmp_path))) == expected


def write_parquet(folder: Path) -> None:
    """Write Friends partitioned by its last column, as other tools do, and the rest as files."""
    import pyarrow
    from pyarrow import parquet

    for name, columns in frames().items():
        table = pyarrow.table(dict(columns))
        if name == "Friends":
            parquet.write_to_dataset(table, folder / name, partition_cols=["argument 1"])
        else:
            parquet.write_table(table, folder / f"{name}.parquet")


def test_explain_prints_plans_and_their_sql(run: Run) -> None:
    run.write("m.mln", "P(t)\nQ(t)\n1 P(x) => Q(x)\n")
    run.write("d.db", "P(A) P(B) Q(B)\n")
    code, out, _ = run("count", "m.mln", "d.db", "--engine", "duckdb", "--explain")
    assert code == 0
    assert "rows without Q(x)" in out
    assert "WHERE NOT EXISTS (SELECT 1 FROM e" in out


def test_an_engine_is_named_on_the_command_line(run: Run, tmp_path: Path) -> None:
    run.write("m.mln", "P(t)\nQ(t)\n1 P(x) => Q(x)\n")
    file = f"duckdb:{tmp_path / 'facts.duckdb'}"
    with open_store(file) as store:
        for name, constants in (("P", ["A", "B"]), ("Q", ["B"])):
            store.load(name, {"x": np.array(constants, object)})
            store.publish(name, name)
    code, out, _ = run("count", "m.mln", "--engine", file, "--tables", "main", "--json")
    assert code == 0
    assert '"true": 1' in out
    with open_store(file) as store:
        assert fetch_all(store, 'SELECT count(*) AS n FROM data.main."P"')["n"].tolist() == [2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--tables", "main"],
            "--tables needs --engine\n    as in --engine postgresql://host/database",
        ),
        (
            ["d.db", "--engine", "duckdb", "--tables", "main"],
            "facts are read from data files or from tables, not from both\n"
            "    leave out DATA, or --tables",
        ),
        (
            ["--engine", "duckdb", "--tables", "nowhere"],
            "there is no schema, folder or file 'nowhere' with tables\n"
            "    --tables is a schema of the engine, a folder of Parquet files, or a TOML file",
        ),
        (
            ["--engine", "duckdb", "--tables", "wrong.toml"],
            "wrong.toml: P must be a table, a query, or { parquet = PATH }, not 3\n"
            '    as in Friends = "SELECT a, b FROM friendships"',
        ),
        (
            ["--engine", "duckdb", "--tables", "missing.toml"],
            "missing.toml: No such file or directory",
        ),
        (
            ["d.db", "--engine", "duckdb", "--counts", "ijgp"],
            "--counts ijgp cannot be combined with --engine\n"
            "    leave out one of them; an engine counts exactly",
        ),
    ],
)
def test_mistakes_about_engines_are_said(run: Run, arguments: list[str], message: str) -> None:
    run.write("m.mln", "P(t)\n1 P(x)\n")
    run.write("d.db", "P(A)\n")
    run.write("wrong.toml", "P = 3\n")
    code, _, error = run("count", "m.mln", *arguments)
    assert code == 1
    assert message in error


def test_tables_that_fit_no_predicate_are_said(tmp_path: Path, model: lapis.Model) -> None:
    file = f"duckdb:{tmp_path / 'facts.duckdb'}"
    with open_store(file) as store:
        store.load("t", {"x": np.array(["A"], object)})
        store.publish("t", "smoke")
    with pytest.raises(LapisError) as caught:
        lapis.count(model, engine=file, tables="main")
    assert str(caught.value) == (
        "no table of 'main' has the name of a predicate of the model\n"
        "    is it 'smoke'? map it in a TOML file"
    )
