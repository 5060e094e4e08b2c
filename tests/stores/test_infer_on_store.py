"""Inference on engines: answers of the oracle, equal on all engines."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from stored_cases import CIRCLES, TINY, check_case, circles, infer_there, map_there, same_answers

import lapis
from golden_models import golden_models
from lapis.errors import LapisError, TooLarge
from lapis.stores import fetch_all, open_store, open_tables
from lapis.stores.components import solving
from lapis.stores.components.packing import MOST_VERTEX, StoreLimits, label_components
from lapis.stores.components.rows import ParcelRows
from lapis.stores.components.solving import SolveRequest, solve_parcel
from lapis.stores.store import ScratchTables
from strategies import Case, cases

GOLDEN = [
    golden
    for golden in golden_models()
    if golden.applies_to("enumerate") and golden.query and not golden.impossible
]


@pytest.fixture(params=["duckdb", "postgresql"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "duckdb":
        yield "duckdb"
    else:
        yield request.getfixturevalue("postgres_url")


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=cases())
def test_random_models_are_answered_as_the_oracle_does(url: str, case: Case) -> None:
    check_case(url, case)


@pytest.mark.slow
@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=cases())
def test_many_random_models_are_answered_as_the_oracle_does(url: str, case: Case) -> None:
    check_case(url, case)


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)
def test_golden_models_are_answered_alike_on_both(golden, postgres_url: str) -> None:  # type: ignore[no-untyped-def]
    model, data = lapis.parse(golden.text), lapis.Database.parse(golden.data)
    here = lapis.infer(model, data, golden.query, method="enumerate")
    there = infer_there("duckdb", golden.text, golden.data, golden.query)
    assert there.atoms == here.atoms
    np.testing.assert_allclose(there.probability, here.probability, atol=1e-9)
    assert there.log_partition == pytest.approx(here.log_partition)
    same_answers(there, infer_there(postgres_url, golden.text, golden.data, golden.query))


@pytest.mark.parametrize("few", [0, 20, 1 << 20])
@pytest.mark.parametrize("seed", range(3))
def test_components_are_those_of_union_find(url: str, seed: int, few: int) -> None:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    rng = np.random.default_rng(seed)
    path = np.arange(40)
    v = np.concatenate((rng.integers(0, MOST_VERTEX, 60), path, rng.integers(100, 200, 50)))
    w = np.concatenate((rng.integers(0, 60, 60), path + 1, rng.integers(100, 200, 50)))
    with open_store(url) as store:
        scratch = ScratchTables(store)
        edges = scratch.load({"v": v, "w": w})
        labels = label_components(scratch, edges, few)
        found = fetch_all(store, f"SELECT vertex, component FROM {labels} ORDER BY vertex")
    vertex, place = np.unique(np.concatenate((v, w)), return_inverse=True)
    pairs = (place[: len(v)], place[len(v) :])
    graph = coo_array((np.ones(len(v)), pairs), (len(vertex), len(vertex)))
    _, label = connected_components(graph, directed=False)
    smallest = vertex[np.unique(label, return_index=True)[1]]
    np.testing.assert_array_equal(found["vertex"], vertex)
    np.testing.assert_array_equal(found["component"], smallest[label])


def test_a_component_too_large_for_a_task_says_what_would_split_it(url: str) -> None:
    model = CIRCLES + "Likes(person)\n0.5 Smokes(x) => Likes(x)\n"
    data = circles([12, 12, 12]) + " Friends(P0_0,P1_0) Friends(P1_0,P2_0)"
    with pytest.raises(TooLarge) as error:
        infer_there(url, model, data, ["Smokes", "Likes"], max_memory=50_000)
    assert str(error.value).splitlines() == [
        "a connected component has 72 unknown atoms and 328 ground clauses; about 233.6 kB of "
        "memory, over the limit of 50.0 kB for a task",
        "    evidence on 'Smokes' would leave components of at most 1 atom; or raise --max-memory",
    ]


def test_hard_rules_that_contradict_name_their_atoms(url: str) -> None:
    model = "P(t)\nQ(t)\n1 P(x)\nP(x) v Q(x).\n!P(x).\n!Q(B)."
    with pytest.raises(LapisError, match=r"contradict each other over P\(B\), Q\(B\)\n"):
        infer_there(url, model, "t = {A, B}", ["P", "Q"])


@pytest.mark.parametrize("method", ["lifted", "count-gibbs"])
def test_methods_for_whole_models_are_refused(method: str) -> None:
    with pytest.raises(LapisError, match="works on a whole model"):
        infer_there("duckdb", CIRCLES, circles([4]), ["Smokes"], method=method)


def test_what_only_engines_read_is_refused_without_one() -> None:
    model = lapis.parse("t = {A}\nP(t)\n1 P(x)")
    with pytest.raises(LapisError, match="jobs requires an engine"):
        lapis.infer(model, query="P", jobs=2)
    for to_store in (lapis.infer_to_store, lapis.map_to_store):
        with pytest.raises(LapisError, match="output requires an engine"):
            to_store(model, query="P", output="table:answers")
    with pytest.raises(LapisError, match="cannot be relaxed on an engine"):
        lapis.infer(model, query="P", engine="duckdb", relax=True)
    with pytest.raises(LapisError, match=r"invalid target 'answers\.csv'"):
        lapis.infer_to_store(model, query="P", engine="duckdb", output="answers.csv")


def test_an_error_that_a_method_does_not_know_is_not_zero(url: str, tmp_path: Path) -> None:
    """The error of belief propagation is unknown; an isolated atom is exact."""
    import pyarrow.parquet

    model = lapis.parse(CIRCLES + "Tall(person)\n")
    data = lapis.Database.parse(circles([5]))
    here = lapis.infer(model, data, ["Smokes", "Tall"], method="bp")
    there = lapis.infer(model, data, ["Smokes", "Tall"], method="bp", engine=url)
    assert (there.exact, here.exact, here.stderr) == (False, False, None)
    shown = {
        (entry["atom"].partition("(")[0], entry["stderr"]) for entry in there.to_json()["atoms"]
    }
    assert shown == {("Smokes", None), ("Tall", 0.0)}
    assert "expected_counts_stderr" not in there.diagnostics
    place = tmp_path / "answers.parquet"
    lapis.infer_to_store(
        model, data, ["Smokes", "Tall"], method="bp", engine=url, output=str(place)
    )
    rows = pyarrow.parquet.read_table(place).to_pylist()
    assert {(row["predicate"], row["stderr"]) for row in rows} == {("Smokes", None), ("Tall", 0.0)}


def test_options_that_an_engine_does_not_read_are_refused(tmp_path: Path) -> None:
    model = lapis.parse("P(t)\nQ(t)\n1 P(x) => Q(x)\nt = {A, B}")
    with pytest.raises(LapisError, match="method 'auto' does not read ibound"):
        lapis.infer(model, query="P", engine="duckdb", ibound=2)
    with pytest.raises(LapisError, match="method 'count-gibbs' works on a whole model"):
        lapis.infer(model, query="P", engine="duckdb", method="count-gibbs", ibound=2)
    data = lapis.Database.parse("P(A) Q(B)")
    with pytest.raises(LapisError, match="an engine scores clauses in one process"):
        lapis.learn_structure(model, data, engine="duckdb", jobs=2)
    nowhere = f"duckdb:{tmp_path / 'no' / 'kept.duckdb'}"
    with pytest.raises(LapisError, match="cannot be written: no folder"):
        lapis.infer_to_store(model, query="P", engine=nowhere, output="table:kept")


@pytest.mark.spark
def test_tasks_of_spark_are_not_processes_here() -> None:
    model = lapis.parse("P(t)\n1 P(x)\nt = {A, B}")
    with pytest.raises(LapisError, match="in tasks of spark, not in local processes"):
        lapis.infer(model, query="P", engine="local[2]", jobs=2)


SAMPLED = StoreLimits(parcel_literals=150, jobs=1)


def sampled(url: str, limits: StoreLimits = SAMPLED) -> lapis.Answer:
    """Sample circles of 12 to 20: there is not enough memory for exact tables."""
    data = circles([12, 15, 16, 20])
    return infer_there(
        url, CIRCLES, data, ["Smokes"], limits, method="gibbs", max_samples=400, seed=3
    )


def test_samples_are_the_same_on_every_engine_and_in_any_parcel(postgres_url: str) -> None:
    first = sampled("duckdb")
    assert not first.exact
    same_answers(first, sampled(postgres_url))
    packed = sampled("duckdb", StoreLimits(jobs=1))
    assert packed.diagnostics["parcels"] < first.diagnostics["parcels"]
    np.testing.assert_array_equal(packed.probability, first.probability)
    np.testing.assert_array_equal(packed.errors, first.errors)


def test_two_processes_of_which_one_dies_give_what_one_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = sampled("duckdb")
    monkeypatch.setattr(solving, "solve_parcel", die_once)
    monkeypatch.setenv("LAPIS_TEST_DIED", str(tmp_path / "died"))
    same_answers(one, sampled("duckdb", StoreLimits(parcel_literals=150, jobs=2)))
    assert (tmp_path / "died").exists()


def die_once(rows: ParcelRows, request: SolveRequest) -> dict[str, np.ndarray]:
    """Solve a parcel; the first call kills its process."""
    died = Path(os.environ["LAPIS_TEST_DIED"])
    if not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return solve_parcel(rows, request)


def test_a_process_that_always_dies_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solving, "solve_parcel", die)
    monkeypatch.setattr(solving, "ATTEMPTS", 1)
    with pytest.raises(LapisError, match="died 1 times"):
        sampled("duckdb", StoreLimits(parcel_literals=150, jobs=2))


def die(rows: ParcelRows, request: SolveRequest) -> dict[str, np.ndarray]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def test_answers_as_a_table_on_the_engine(postgres_url: str, tmp_path: Path) -> None:
    model, data = lapis.parse(CIRCLES), lapis.Database.parse(circles([5, 3]) + " Smokes(P0_0)")
    here = lapis.infer(model, data, "Smokes")
    for url in (postgres_url, f"duckdb:{tmp_path / 'answers.duckdb'}"):
        told = lapis.infer_to_store(model, data, "Smokes", engine=url, output="table:answers")
        assert (told.num_atoms, told.proven, told.target) == (7, True, "table:answers")
        assert told.total == pytest.approx(here.log_partition)
        with open_store(url) as store:
            place = "answers" if url is postgres_url else "data.answers"
            found = fetch_all(store, f"SELECT * FROM {place} ORDER BY arg1")
            if url is postgres_url:
                store.execute("DROP TABLE answers")
        assert list(found) == ["predicate", "arg1", "probability", "stderr"]
        names = [f"{p}({a})" for p, a in zip(found["predicate"], found["arg1"], strict=True)]
        assert names == sorted(here.atoms)
        np.testing.assert_allclose(found["probability"], [here[name] for name in names])


def test_answers_as_a_parquet_file(tmp_path: Path, url: str) -> None:
    import pyarrow.parquet

    model = lapis.parse(CIRCLES + "Likes(person, person)\n0.5 Smokes(x) => Likes(x, x)\n")
    data = lapis.Database.parse(circles([4, 3]))
    asked = ["Smokes", "Likes(P0_0, P0_0)"]
    world = lapis.map(model, data, asked)
    path = tmp_path / "world.parquet"
    told = lapis.map_to_store(model, data, asked, engine=url, output=str(path))
    rows = pyarrow.parquet.read_table(path).to_pylist()
    assert told.num_atoms == len(rows) == 8
    assert told.total == pytest.approx(world.score)
    assert {row["arg2"] for row in rows if row["predicate"] == "Smokes"} == {None}
    assert [row["arg2"] for row in rows if row["predicate"] == "Likes"] == ["P0_0"]


@pytest.mark.parametrize("command", [lapis.infer, lapis.map], ids=["infer", "map"])
@pytest.mark.parametrize(
    "asked",
    [
        "Smokes",
        ["Smokes(Ann)", "Smokes(Bob)", "Smokes(Eve)"],  # true, false and unknown
        ["Smokes", "Smokes(Ann)", "Smokes(Eve)"],
        ["Topic(Ann, A)", "Topic(Ann, B)", "Topic(Bob, A)"],  # decided by a block too
        ["Smokes(Bob)", "Topic(Ann, A)", "Rain"],
        ["Smokes(x) v Topic(x, A)", "Smokes(Ann)"],
        ["Smokes(Ann)", "Smokes(Ann)"],
        "Smokes(Ann)",
    ],
)
def test_what_is_left_there_is_what_an_answer_holds(
    tmp_path: Path, url: str, asked: str | list[str], command: Callable[..., Any]
) -> None:
    import pyarrow.parquet

    model = lapis.parse(
        "Smokes(person)\nTopic(person, topic!)\nRain\n"
        "0.7 Smokes(x) => Topic(x, A)\n0.5 Rain v Smokes(x)\n0.3 Smokes(x)\n-0.2 Topic(x, A)"
    )
    data = lapis.Database.parse("Smokes(Ann) !Smokes(Bob) ?Smokes(Eve) Topic(Ann,A) Topic(Bob,B)")
    opened = ["Topic", "Rain"]
    here = command(model, data, asked, open_predicates=opened)
    path = tmp_path / "left.parquet"
    to_store = lapis.infer_to_store if command is lapis.infer else lapis.map_to_store
    told = to_store(model, data, asked, open_predicates=opened, engine=url, output=str(path))
    rows = pyarrow.parquet.read_table(path).to_pylist()
    assert told.num_atoms == len(rows) == len(here)
    table = here.to_pandas()
    values = [name for name in table if name in ("probability", "stderr", "value")]
    keys = ["predicate", *(name for name in table if name.startswith("arg"))]
    found = {tuple(row[key] for key in keys): [row[name] for name in values] for row in rows}
    expected = {
        tuple(None if key != key else key for key in row[: len(keys)]): row[len(keys) :]
        for row in table[keys + values].to_numpy().tolist()
    }
    assert found.keys() == expected.keys()
    for key, wanted in expected.items():
        values = [math.nan if each is None else each for each in found[key]]
        assert values == pytest.approx(list(map(float, wanted)), nan_ok=True), key


def test_answers_as_a_folder_of_parquet_files(tmp_path: Path, url: str) -> None:
    import pyarrow.parquet

    model, data = lapis.parse(CIRCLES), lapis.Database.parse(circles([4, 3]))
    folder = tmp_path / "world"
    told = lapis.map_to_store(model, data, "Smokes", engine=url, output=f"{folder}/")
    assert pyarrow.parquet.read_table(folder).num_rows == told.num_atoms == 7
    assert list(tmp_path.iterdir()) == [folder]
    with pytest.raises(LapisError, match=r"world: cannot be written: it exists\n"):
        lapis.map_to_store(model, data, "Smokes", engine=url, output=f"{folder}/")
    with pytest.raises(LapisError, match="does not write to hdfs://host/world"):
        lapis.map_to_store(model, data, "Smokes", engine=url, output="hdfs://host/world")


def test_a_failure_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    model, data = lapis.parse(CIRCLES), lapis.Database.parse(circles([5]))

    def fail(rows: ParcelRows, request: SolveRequest) -> dict[str, np.ndarray]:
        raise KeyboardInterrupt

    monkeypatch.setattr(solving, "solve_parcel", fail)
    path = tmp_path / "world.parquet"
    for output in (str(path), f"{tmp_path}/never/", "table:never"):
        with pytest.raises(KeyboardInterrupt):
            lapis.infer_to_store(model, data, "Smokes", engine=postgres_url, output=output)
    assert list(tmp_path.iterdir()) == []
    with open_store(postgres_url) as store:
        ours = fetch_all(
            store, "SELECT nspname::TEXT AS s FROM pg_namespace WHERE nspname ~ '^lapis_'"
        )
        assert len(ours["s"]) == 1  # of this very store
        left = fetch_all(store, "SELECT count(*) AS n FROM pg_tables WHERE tablename = 'never'")
        assert left["n"][0] == 0


def test_a_table_that_cannot_be_left_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    import duckdb

    model, data = lapis.parse(CIRCLES), lapis.Database.parse(circles([5]))
    monkeypatch.setattr(solving, "solve_parcel", die)  # nothing is solved
    file = tmp_path / "answers.duckdb"
    with duckdb.connect(str(file)) as own:
        own.execute("CREATE VIEW seen AS SELECT 1 AS a")
    with open_store(postgres_url) as store:
        store.execute("CREATE VIEW seen AS SELECT 1 AS a")
        try:
            for url in (postgres_url, f"duckdb:{file}"):
                for target, wrong in (("no.where", "no schema 'no'"), ("seen", "it is a view")):
                    with pytest.raises(LapisError, match=f"cannot be written: .*{wrong}\n"):
                        lapis.infer_to_store(
                            model, data, "Smokes", engine=url, output=f"table:{target}"
                        )
        finally:
            store.execute("DROP VIEW seen")
    with pytest.raises(LapisError, match="no database file to store the table answers in"):
        lapis.infer_to_store(model, data, "Smokes", engine="duckdb", output="table:answers")


def test_only_an_answer_is_replaced_by_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> None:
    """A target with the name of a table of facts is refused."""
    import duckdb

    model = lapis.parse(CIRCLES)
    file = tmp_path / "facts.duckdb"
    make = "CREATE TABLE \"Friends\" AS SELECT 'A' AS one, 'B' AS other"
    with duckdb.connect(str(file)) as own:
        own.execute(make)
    (tmp_path / "duckdb.toml").write_text("Friends = 'SELECT * FROM data.\"Friends\"'")
    (tmp_path / "postgresql.toml").write_text("Friends = 'SELECT * FROM \"Friends\"'")
    kept = {f"duckdb:{file}": 'data."Friends"', postgres_url: '"Friends"'}
    with open_store(postgres_url) as server:
        server.execute(make)
        try:
            for url, place in kept.items():
                toml = str(tmp_path / f"{url.partition(':')[0]}.toml")
                # Names in DuckDB are case-insensitive.
                for name in ("Friends", "friends")[: 1 + url.startswith("duckdb")]:
                    asked = {"tables": toml, "engine": url, "output": f"table:{name}"}
                    with monkeypatch.context() as patch:
                        patch.setattr(solving, "solve_parcel", die)  # nothing is solved
                        with pytest.raises(LapisError) as error:
                            lapis.infer_to_store(model, query="Smokes", **asked)
                    assert str(error.value).splitlines() == [
                        f"the table {name} cannot be written: a table with the columns one, other "
                        "exists, which is not an answer of Lapis",
                        "    name another table, or drop it",
                    ]
                options = {"tables": toml, "engine": url, "output": "table:answers"}
                lapis.map_to_store(model, query="Smokes", **options)
                told = lapis.infer_to_store(model, query="Smokes", **options)
                assert told.num_atoms == 2
                with open_store(url) as store:
                    assert list(fetch_all(store, f"SELECT * FROM {place}")) == ["one", "other"]
        finally:
            server.execute('DROP TABLE "Friends"')
            server.execute('DROP TABLE IF EXISTS "answers"')


def test_data_on_an_engine_takes_no_other_engine() -> None:
    """A second engine is refused, and so are worlds in memory next to worlds on an engine."""
    model = lapis.parse(CIRCLES)
    with open_store("duckdb") as store:
        pairs = store.load("pairs", {"one": np.arange(3), "other": np.arange(1, 4)})
        data = open_tables(store, {"Friends": str(pairs)})
        for ask in (lapis.count, lapis.infer, lapis.map, lapis.learn, lapis.learn_structure):
            with pytest.raises(LapisError) as error:
                ask(model, data, engine="duckdb:other.duckdb")  # type: ignore[operator]
            assert str(error.value).splitlines() == [
                "the data is on an engine already, which does the work",
                "    leave out engine='duckdb:other.duckdb'",
            ]
        for ask in (lapis.infer, lapis.map):
            with pytest.raises(LapisError) as error:
                ask(model, [data, lapis.Database.parse("Friends(A,B)")], "Smokes")  # type: ignore[operator]
            assert str(error.value).splitlines() == [
                "the data '<data>' is in memory, and the data of other worlds on an engine",
                "    infer one world at a time, or open all tables on the same engine",
            ]


def test_progress_tells_the_stages() -> None:
    told: list[str] = []
    model, data = lapis.parse(CIRCLES), lapis.Database.parse(circles([5, 4]))
    lapis.infer(
        model, data, "Smokes", engine="duckdb", progress=lambda news: told.append(news.phase)
    )
    assert list(dict.fromkeys(told)) == ["grounding", "connecting", "packing", "solving"]


def test_a_most_likely_world_there_is_the_one_here(url: str) -> None:
    data = circles([7, 6, 30])
    model = lapis.parse(CIRCLES)
    here = lapis.map(model, lapis.Database.parse(data), "Smokes")
    there = map_there(url, CIRCLES, data, ["Smokes"], TINY)
    assert there.optimal
    assert there.score == pytest.approx(here.score)
    assert there.diagnostics["cost"] == pytest.approx(here.diagnostics["cost"])


def test_facts_in_place_are_not_fetched(url: str) -> None:
    """Friendships are in a table of the engine; only the answer is fetched."""
    from lapis.stores import open_tables

    data = lapis.Database.parse(circles([5, 4]))
    pairs = data.decode(data.relations["Friends"], data.relations["Friends"].true)
    model = lapis.parse(CIRCLES)
    here = lapis.infer(model, data, "Smokes")
    with open_store(url) as store:
        columns = {
            n: np.array(c, object) for n, c in zip("ab", zip(*pairs, strict=True), strict=True)
        }
        table = store.load("pairs", columns)
        placed = open_tables(store, {"Friends": str(table)})
        there = lapis.infer(model, placed, "Smokes").marginals
        assert lapis.map(model, placed, "Smokes").optimal  # a second request to the same store
        answered = fetch_all(store, f"SELECT count(*) AS n FROM {table}")["n"][0]
    assert answered == len(pairs)  # the store is still open, and the table is the user's
    assert there == pytest.approx(here.marginals, abs=1e-9)


def test_tables_of_the_engine_are_data(tmp_path: Path) -> None:
    import duckdb

    path = tmp_path / "facts.duckdb"
    with duckdb.connect(str(path)) as facts:
        facts.execute("CREATE TABLE Friends AS SELECT i AS a, i // 4 * 4 AS b FROM range(12) t(i)")
    model = lapis.parse(CIRCLES)
    found = lapis.infer(model, query="Smokes", engine=f"duckdb:{path}", tables="main")
    pairs = " ".join(f"Friends({i},{i // 4 * 4})" for i in range(12))
    here = lapis.infer(model, lapis.Database.parse(pairs), "Smokes")
    assert found.marginals == pytest.approx(here.marginals, abs=1e-9)
