"""The protocol of every store, and cleaning up after failures."""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
import sys
import tempfile
from functools import partial
from pathlib import Path
from threading import Event, Timer, active_count

import numpy as np
import pytest

from lapis.data.database import Domain
from lapis.errors import LapisError
from lapis.language.model import Predicate
from lapis.language.syntax import Constant, Variable
from lapis.logic.clauses import Condition, Cube, Literal
from lapis.relational.conjunction import require_cube
from lapis.relational.interpretation import build_interpretation
from lapis.relational.plan_compiler import PlanOutput, compile_plan
from lapis.relational.query_plan import tabulate_answers
from lapis.stores import Store, StoreEngine, fetch_all, fetch_number, open_store, spark
from lapis.stores.spark import SparkStore
from store_urls import QUICK_STORES, store_url

NASTY = "\"; DROP TABLE `x`; --\\'"


def test_columns_come_back_as_they_went(store: Store) -> None:
    columns = {
        "code": np.array([2, 0, 1], np.int32),
        "count": np.array([2**62, -(2**62), 0], np.int64),
        "name": np.array(["a'b", 'c"d\\', "ü — ∃"], object),
        "value": np.array([1.5, np.nan, np.inf]),
    }
    table = store.load("columns", columns)
    assert (table.columns, table.rows) == (tuple(columns), 3)
    found = fetch_all(store, f"SELECT * FROM {table} ORDER BY code")
    order = np.argsort(columns["code"])
    for name, column in columns.items():
        np.testing.assert_array_equal(found[name], column[order])
        assert found[name].dtype == column.dtype
    store.drop("columns")
    with pytest.raises(LapisError):
        fetch_all(store, f"SELECT * FROM {table}")


def test_a_name_is_just_a_name(store: Store) -> None:
    kept = store.load("kept", {"a": np.arange(3, dtype=np.int32)})
    table = store.load(NASTY, {NASTY: np.arange(5, dtype=np.int32)})
    copied = store.create("copied", f"SELECT * FROM {table}")
    assert copied.columns == (NASTY,)
    assert fetch_number(store, f"SELECT count(*) AS n FROM {copied}") == 5
    assert fetch_number(store, f"SELECT count(*) AS n FROM {kept}") == 3
    for name in ("kept", NASTY, "copied"):
        store.drop(name)


def test_a_predicate_or_constant_may_be_called_anything(store: Store) -> None:
    domains = {NASTY: Domain(NASTY, (NASTY, "'", "\\")), "u": Domain("u", ("\\", NASTY))}
    predicates = {NASTY: Predicate(NASTY, (NASTY, "u"))}
    tuples = {NASTY: np.array([[0, 1], [1, 0], [2, 0]], np.int32)}
    world = build_interpretation(predicates, domains, tuples)
    x, y = Variable("x"), Variable("y")
    atom = Literal(NASTY, (x, y), True)
    expected = {
        Condition("=", x, y): 2,
        Condition("!=", x, Constant(NASTY)): 2,
        Condition("=", y, Constant("nobody")): 0,
    }
    engine = StoreEngine(world, store)
    for condition, count in expected.items():
        cube = Cube((atom,), (condition,))
        plan = compile_plan([require_cube(cube)], (("x", NASTY), ("y", "u")), world, PlanOutput())
        assert tabulate_answers(plan, engine.run(plan)).sum() == count
    engine.close()


def test_wide_integers_come_whole(store: Store) -> None:
    wide = store.dialect.wide
    table = store.load("digits", {"a": np.array([10**15, -(10**15)], np.int64)})
    cast = f"CAST(a AS {wide})"
    found = fetch_all(store, f"SELECT CAST({cast} * a AS {wide}) * 7 AS n FROM {table} ORDER BY a")
    assert found["n"].tolist() == [7 * 10**30] * 2
    assert fetch_all(store, f"SELECT {cast} AS n FROM {table} WHERE a = 1")["n"].tolist() == []
    store.drop("digits")


def test_two_results_can_be_read_at_a_time(store: Store) -> None:
    table = store.load("many", {"a": np.arange(1000, dtype=np.int64)})
    first = store.fetch(f"SELECT a FROM {table}")
    second = store.fetch(f"SELECT -a AS b FROM {table}")
    one, two = next(first), next(second)
    assert one["a"].sum() == -two["b"].sum()
    more = store.create("more", f"SELECT a FROM {table} WHERE a < 10")
    assert more.rows == 10
    first.close()
    second.close()
    store.drop("many")
    store.drop("more")


def test_a_failed_statement_says_why_and_leaves_no_table(store: Store) -> None:
    with pytest.raises(LapisError, match="nosuch") as caught:
        store.create("half", "SELECT * FROM nosuch")
    assert caught.value.code == "engine-failed"
    assert store.create("half", "SELECT 1 AS a").rows == 1
    store.drop("half")


def test_an_error_in_a_later_batch_is_raised(store: Store) -> None:
    """A fetch may fail after its first batches were read."""
    size = 1_100_000
    numbers = store.dialect.numbers.format(size=size)
    wrong = f"CASE WHEN i < {size - 5} THEN '1' ELSE 'x' END"
    with pytest.raises(LapisError) as caught:
        for _ in store.fetch(f"SELECT CAST({wrong} AS INTEGER) AS a FROM {numbers}"):
            pass
    assert caught.value.code == "engine-failed"


# Minutes of work if the main thread runs a part of it.
LONG = {
    "postgresql": "SELECT pg_sleep(60)::TEXT AS n",
    "duckdb": "SELECT count(*) AS n FROM range(3000000) a, range(100000) b "
    "WHERE (a.range * b.range) % 7 = 1",
}


@pytest.mark.parametrize("name", QUICK_STORES)
def test_ctrl_c_ends_a_statement_as_it_ends_anything(
    name: str, request: pytest.FixtureRequest
) -> None:
    """The statement is cancelled at once in any thread, and leaves nothing."""
    # Processes of pytest-xdist do not receive Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(partial(signal.signal, signal.SIGINT, before))
    long = LONG[name]
    with open_store(store_url(name, request)) as store:
        for ask in 3 * (partial(store.create, "long", long), partial(fetch_all, store, long)):
            press = Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
            press.start()
            with pytest.raises(KeyboardInterrupt):
                ask()
            press.join()
            assert fetch_number(store, "SELECT 1 AS n") == 1


def test_a_table_may_be_published_under_the_name_of_another_of_ours(
    postgres_url: str, tmp_path: Path
) -> None:
    for url in (postgres_url, f"duckdb:{tmp_path / 'kept.duckdb'}"):
        with open_store(url) as store:
            store.load("rows 0", {"a": np.arange(3, dtype=np.int64)})
            store.load("answer", {"a": np.arange(5, dtype=np.int64)})
            store.publish("answer", "rows 0")
            place = store.find_tables("public" if "postgres" in url else "main")["rows 0"]
            assert fetch_number(store, f"SELECT count(*) AS n FROM {place}") == 5
            if "postgres" in url:
                store.execute(f"DROP TABLE {place}")


def test_what_cannot_be_published_is_refused_beforehand(postgres_url: str) -> None:
    cases = [
        ("SEQUENCE taken", "taken", '"taken" is not a table'),
        ("TYPE taken AS (a INTEGER)", "taken", '"taken" is not a table'),
        ("VIEW uses AS SELECT * FROM base", "base", "other objects depend on it"),
        ("SCHEMA other", f"other.{'n' * 64}", "names have at most 63 bytes"),
        ("SCHEMA other", "pg_toast.kept", "permission denied"),
    ]
    with open_store(postgres_url) as store:
        store.execute("CREATE TABLE base (a INTEGER)")
        for made, target, message in cases:
            store.execute(f"CREATE {made}")
            with pytest.raises(LapisError, match=message) as caught:
                store.check_target(target)
            assert caught.value.code == "engine-target"
            store.execute(f"DROP {' '.join(made.split()[:2])}")
        assert fetch_number(store, "SELECT count(*) AS n FROM base") == 0
        store.check_target("base")  # may be replaced
        store.execute("DROP TABLE base")


def test_a_schema_of_the_users_that_is_called_like_ours_stays(postgres_url: str) -> None:
    names = ["lapis_2024", "lapis_99999999999999999999"]  # the second name has no number of a lock
    with open_store(postgres_url) as store:
        for name in names:
            store.execute(f"CREATE SCHEMA {name}")
        try:
            open_store(postgres_url).close()
            assert set(names) <= set(schemas(store))
        finally:
            for name in names:
                store.execute(f"DROP SCHEMA {name}")


def test_a_missing_right_to_create_schemas_is_explained(postgres_url: str) -> None:
    with open_store(postgres_url) as store:
        store.execute("CREATE ROLE reader LOGIN")
        try:
            with pytest.raises(
                LapisError, match=r"permission denied(.|\n)*creates a schema for its tables"
            ):
                open_store(postgres_url.replace("postgres:@", "reader:@"))
        finally:
            store.execute("DROP ROLE reader")


@pytest.mark.parametrize("url", ["postgresql://host:port/db", "postgresql://[::1/db"])
def test_what_is_no_url_is_said(url: str) -> None:
    with pytest.raises(LapisError, match=r"^no connection to PostgreSQL: "):
        open_store(url)


def test_a_published_table_outlives_the_store(postgres_url: str, tmp_path: Path) -> None:
    for url in (postgres_url, f"duckdb:{tmp_path / 'kept.duckdb'}"):
        for last in (3, 5):  # the second time it is replaced
            with open_store(url) as store:
                store.load("answer", {"a": np.arange(last, dtype=np.int64)})
                store.publish("answer", NASTY.replace(".", ""))
        with open_store(url) as store:
            name = store.dialect.identifier(NASTY)
            place = f"public.{name}" if "postgres" in url else f"data.{name}"
            assert fetch_number(store, f"SELECT count(*) AS n FROM {place}") == 5
            if "postgres" in url:
                store.execute(f"DROP TABLE {place}")


def test_duckdb_without_a_file_has_no_place_to_publish() -> None:
    with open_store("duckdb") as store:
        store.load("answer", {"a": np.arange(3, dtype=np.int64)})
        with pytest.raises(LapisError) as caught:
            store.publish("answer", "kept")
    assert str(caught.value) == (
        "no database file to store the table kept in\n"
        "    name a file: --engine duckdb:results.duckdb"
    )


def schemas(store: Store) -> list[str]:
    select = "SELECT nspname::TEXT AS s FROM pg_namespace WHERE nspname LIKE 'lapis%'"
    found: list[str] = fetch_all(store, select)["s"].tolist()
    return found


def fail_in_the_middle(url: str, failure: BaseException) -> None:
    with open_store(url) as store:
        store.load("part", {"a": np.arange(3, dtype=np.int64)})
        raise failure


@pytest.mark.parametrize("failure", [LapisError("", code="x"), KeyboardInterrupt()])
def test_nothing_of_ours_stays_on_the_server(postgres_url: str, failure: BaseException) -> None:
    with open_store(postgres_url) as watcher:
        before = schemas(watcher)
        with pytest.raises(type(failure)):
            fail_in_the_middle(postgres_url, failure)
        assert schemas(watcher) == before


def test_a_lost_connection_is_said_and_cleared_up_by_the_next(postgres_url: str) -> None:
    with open_store(postgres_url) as other:
        before = schemas(other)
        store = open_store(postgres_url)
        store.load("part", {"a": np.arange(3, dtype=np.int64)})
        (schema,) = set(schemas(other)) - set(before)
        lock = int(schema.removeprefix("lapis_"))
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' "
            f"AND classid = {lock >> 32} AND objid = {lock & 0xFFFFFFFF}"
        )
        with pytest.raises(LapisError, match="connection to PostgreSQL at this machine was lost"):
            store.publish("part", "kept")
        store.close()
        assert schema in schemas(other)
        with open_store(postgres_url):
            assert schema not in schemas(other)
        kept = "SELECT count(*) AS n FROM pg_tables WHERE tablename = 'kept'"
        assert fetch_number(other, kept) == 0


@pytest.mark.spark
def test_a_spark_that_is_gone_is_said() -> None:
    store = open_store("local[2]")
    store.load("part", {"a": np.arange(3, dtype=np.int64)})
    assert isinstance(store, SparkStore)
    store.session.sparkContext.stop()
    with pytest.raises(LapisError, match=r"^the connection to Spark at local\[2\] was lost"):
        store.create("more", "SELECT 1 AS a")
    store.close()


@pytest.mark.spark
def test_a_table_that_spark_replaces_is_dropped_last(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store("local[2]") as store:
        assert isinstance(store, SparkStore)
        store.execute("CREATE DATABASE kept")
        run = store.execute

        def fail_to_rename(statement: str) -> None:
            if statement.endswith("RENAME TO `kept`.`answer`") and "lapis" in statement:
                monkeypatch.undo()
                raise LapisError("no", code="engine-failed")
            run(statement)

        try:
            for last in (3, 5):
                store.load(f"answer{last}", {"a": np.arange(last, dtype=np.int64)})
                store.publish(f"answer{last}", "kept.answer")
            monkeypatch.setattr(store, "execute", fail_to_rename)
            store.load("answer9", {"a": np.arange(9, dtype=np.int64)})
            with pytest.raises(LapisError):
                store.publish("answer9", "kept.answer")
            assert fetch_number(store, "SELECT count(*) AS n FROM kept.answer") == 5
            assert list(store.find_tables("kept")) == ["answer"]
        finally:
            monkeypatch.undo()
            store.execute("DROP DATABASE kept CASCADE")


@pytest.mark.spark
def test_databases_with_an_expired_lease_are_dropped_by_the_next_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with open_store("local[2]") as store:
        assert isinstance(store, SparkStore)
        killed, alive, other = (f"lapis_{digit * 16}" for digit in "abc")
        theirs = "lapis_results"
        for name, until in ((killed, 10), (alive, 2**33), (theirs, 10)):
            store.execute(f"CREATE DATABASE {name} WITH DBPROPERTIES ('lapis.until' = '{until}')")
        store.execute(f"CREATE DATABASE {other}")
        store.execute(f"CREATE TABLE {killed}.t1 AS SELECT 1 AS a")
        try:
            with open_store("spark") as beside:
                assert isinstance(beside, SparkStore)
                listed = [row.namespace for row in store.session.sql("SHOW DATABASES").collect()]
                assert beside._schema in listed
                assert killed not in listed
                assert {alive, other, theirs, store._schema} <= set(listed)
                monkeypatch.setattr(spark, "LEASE", -60)  # expires at once
                beside._renew()
                assert spark.find_forgotten(store.session) == [beside._schema]
        finally:
            for name in (alive, other, theirs):
                store.execute(f"DROP DATABASE {name} CASCADE")


def test_a_lease_is_renewed_until_its_end() -> None:
    renewed = Event()
    renewal = spark.LeaseRenewal(renewed.set, every=0.001)
    assert renewed.wait(60)
    renewal.end()
    renewal._thread.join(60)
    assert not renewal._thread.is_alive()


@pytest.mark.spark
def test_a_second_spark_master_is_refused() -> None:
    with open_store("local[2]"), pytest.raises(LapisError) as caught:
        open_store("local-cluster[2,1,1024]")
    assert str(caught.value) == (
        "this process is connected to Spark at local[2] already and cannot open "
        "local-cluster[2,1,1024] too\n"
        "    stop that session first, or use it: engine 'spark'"
    )


@pytest.mark.spark
def test_a_session_of_the_users_is_used_and_left_alone() -> None:
    with open_store("local[2]") as own:
        assert isinstance(own, SparkStore)
        own.session.conf.set("spark.sql.ansi.enabled", "false")
        with open_store("spark") as beside:
            assert fetch_number(beside, "SELECT 2 AS n") == 2
            databases = [row.namespace for row in own.session.sql("SHOW DATABASES").collect()]
            assert len([name for name in databases if name.startswith("lapis_")]) == 2
        assert own.session.conf.get("spark.sql.ansi.enabled") == "false"
        databases = [row.namespace for row in own.session.sql("SHOW DATABASES").collect()]
        assert len([name for name in databases if name.startswith("lapis_")]) == 1


def test_duckdb_spills_into_a_folder_that_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with open_store("duckdb", max_memory=2**26) as store:
        # Eight million rows and as many groups do not fit into 64 MB.
        table = store.create("wide", "SELECT i AS a, -i AS b FROM range(8000000) t(i)")
        sums = store.create("sums", f"SELECT a, sum(b) AS s FROM {table} GROUP BY a")
        assert sums.rows == 8_000_000
        (folder,) = tmp_path.iterdir()
        assert any(folder.iterdir())
    assert not folder.exists()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            "mysql://here",
            "unknown engine 'mysql://here'\n"
            "    write duckdb, duckdb:FILE, postgresql://user@host/database, spark, "
            "spark://host:port or sc://host:port",
        ),
        (
            "postgresql://u:secret@localhost:1/none",
            "no connection to PostgreSQL at localhost:1: connection to server at "
            '"localhost" (127.0.0.1), port 1 failed: Connection refused\n'
            "    is the server running, and are name and password right?",
        ),
        pytest.param(
            "sc://localhost:1",
            "no connection to Spark at sc://localhost:1\n"
            "    is the cluster running, and is the port right?",
            marks=pytest.mark.spark,
        ),
    ],
)
def test_an_engine_that_is_not_there_is_said(url: str, message: str) -> None:
    with pytest.raises(LapisError) as caught:
        open_store(url)
    assert str(caught.value) == message


@pytest.mark.parametrize("url", ["localhost", "local[", "sparkle", "duckdbx"])
def test_what_begins_like_an_engine_is_none(url: str) -> None:
    with pytest.raises(LapisError, match=r"^unknown engine"):
        open_store(url)


@pytest.mark.spark
def test_a_master_that_spark_does_not_know_is_said_in_its_words() -> None:
    with pytest.raises(LapisError, match=r"did not start: .*Could not parse Master URL"):
        open_store("local[two]")


@pytest.mark.parametrize(
    ("url", "library", "message"),
    [
        (
            "postgresql://localhost:1/none",
            "adbc_driver_postgresql.dbapi",
            "PostgreSQL needs adbc_driver_postgresql.dbapi, which is not installed\n"
            "    pip install 'lapis-mln[postgres]'",
        ),
        (
            "spark",
            "pyspark",
            "Spark needs pyspark, which is not installed\n    pip install 'lapis-mln[spark]'",
        ),
    ],
)
def test_a_library_that_is_not_there_is_said(
    url: str, library: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda *_: None)
    with pytest.raises(LapisError) as caught:
        open_store(url)
    assert str(caught.value) == message


def test_tables_of_a_file_that_is_not_there(tmp_path: Path) -> None:
    file = tmp_path / "none.duckdb"
    with open_store(f"duckdb:{file}") as store, pytest.raises(LapisError) as caught:
        store.find_tables("main")
    assert str(caught.value) == f"{file}: there is no such file"
    assert not file.exists()


def test_a_store_that_is_forgotten_leaves_no_thread() -> None:
    before = active_count()
    for _ in range(3):
        store = open_store("duckdb")
        assert fetch_number(store, "SELECT 1 AS n") == 1
        with pytest.raises(LapisError):
            store.execute("SELECT nothing")
        assert active_count() == before + 1
        del store
        gc.collect()
        assert active_count() == before
