"""Spark SQL: a store on a cluster, or on the cores of this machine.

A session is the user's where there is one, or else ours and stopped at the end; classic ones and
those of Spark Connect look alike. Whichever it is, we work in a session beside it, so that our
settings are not theirs: arithmetic is ANSI, where what does not fit is an error.

Tables are Parquet in a database of our own; what is loaded and small is a view of rows in the
driver. Cached results or local checkpoints would need no files, but a checkpoint goes with the
worker that holds it, and a cached result drags along all that it was computed from. Names of tables
may not be anything in Spark's catalogue, so they are numbers.
A sum that several terms share is computed once only if Spark sees that it is the same; it has no
word to ask for that.

Tables as folders of Parquet files that Spark's own tasks write.

A file that this process writes takes every row through the driver. A folder is written by tasks,
wherever Spark can write: here, on hdfs://, s3a://. It is written beside its place, under a name of
ours, and renamed when all of it is there, by the file system that the place is on.

Spark Connect has no way to rename. There the tasks write to the place itself, and Spark puts a file
_SUCCESS beside the others at the end: until then it is not whole.

Databases of ours whose process was killed: found by a lease that nobody renews.

Spark has no locks that end with a connection, and no word that tells on every cluster whether an
application is still there. So a database says until when it is somebody's, in a property, and a
thread renews that long before it ends. Who comes next drops those of our name, with that
property, whose time is over. A machine that sleeps for as long as a lease loses its tables.
"""

from __future__ import annotations

import importlib.util
import os
import re
import secrets
import shutil
import socket
import sys
import tempfile
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lapis.errors import LapisError
from lapis.stores.dialect import SPARK, Dialect
from lapis.stores.store import (
    Columns,
    MapColumns,
    StoredTable,
    TaskStore,
    read_batches,
    refuse_target,
    split_target,
    to_arrow,
    to_numpy,
)

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession
if TYPE_CHECKING:
    from pyspark.sql import SparkSession
if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SLICE = 1 << 22  # rows sent at a time
FEW = 50_000  # rows that are not worth a file
RETRIES = 5  # of a call to a server that does not answer, in 17 s


class SparkStore(TaskStore):
    def __init__(self, master: str | None = None) -> None:
        """A master ("local[2]", "spark://…"), a server ("sc://…"), or what Spark is set up for."""
        self.master = master
        self._owned: SparkSession | None = None  # to be stopped
        self._remove_files: Callable[[], object] = lambda: None
        self._references: dict[str, str] = {}
        self._made = 0
        self._renewal: Renewal | None = None
        self._schema = f"lapis_{secrets.token_hex(8)}"
        self.session = self._open()
        try:
            self.session.conf.set("spark.sql.ansi.enabled", "true")
            self._drop_forgotten()
            self.execute(f"CREATE DATABASE {self._schema} WITH DBPROPERTIES {lease_until()}")
            self._renewal = Renewal(self._renew)
        except BaseException:
            self.close()
            raise

    @property
    def dialect(self) -> Dialect:
        return SPARK

    def load(self, name: str, columns: Columns) -> StoredTable:
        table = to_arrow(columns)
        reference = self._new_reference(name, "view" if table.num_rows <= FEW else "table")
        with self._complaints():
            for start in range(0, max(1, table.num_rows), SLICE):
                frame = self.session.createDataFrame(table.slice(start, SLICE))
                if table.num_rows <= FEW:
                    frame.createTempView(reference)
                else:
                    frame.write.mode("append").format("parquet").saveAsTable(reference)
        return StoredTable(name, tuple(columns), table.num_rows, reference)

    def create(self, name: str, select: str) -> StoredTable:
        reference = self._new_reference(name, "table")
        with self._complaints():
            try:
                self.session.sql(select).write.format("parquet").saveAsTable(reference)
                written = self.session.table(reference)
                return StoredTable(name, tuple(written.columns), written.count(), reference)
            except BaseException:
                self.drop(name)
                raise

    def fetch(self, select: str) -> Iterator[Columns]:
        with self._complaints():
            found = self.session.sql(select).toArrow()
        yield from read_batches(found.to_reader())

    def execute(self, statement: str) -> None:
        with self._complaints():
            self.session.sql(statement).collect()

    def drop(self, name: str) -> None:
        reference = self._references.pop(name, None)
        if reference is not None:
            kind = "TABLE" if reference.startswith(f"{self._schema}.") else "VIEW"
            self.execute(f"DROP {kind} IF EXISTS {reference}")

    def check_target(self, target: str) -> None:
        schema, _ = split_target(target)
        with self._complaints():
            catalog = self.session.catalog
            missing = schema if schema and not catalog.databaseExists(schema) else None
            name = self.target_reference(target)
            is_view = missing is None and catalog.tableExists(name)
            is_view = is_view and catalog.getTable(name).tableType == "VIEW"
        refuse_target(target, missing, is_view)

    def target_reference(self, target: str) -> str:
        schema, table = split_target(target)
        return ".".join(SPARK.identifier(part) for part in (schema, table) if part)

    def publish(self, name: str, target: str) -> None:
        # A table cannot change its database, so it is copied beside the target and renamed there.
        # Spark has no transactions: what had the name is put aside first and dropped last.
        schema, _ = split_target(target)
        place = f"{SPARK.identifier(schema)}." if schema else ""
        copy, aside = (f"{place}lapis_{secrets.token_hex(8)}" for _ in range(2))
        final = self.target_reference(target)
        with self._complaints():
            replaces = self.session.catalog.tableExists(final)
            try:
                ours = self.session.table(self._references[name])
                ours.write.format("parquet").saveAsTable(copy)
                if replaces:
                    self.execute(f"ALTER TABLE {final} RENAME TO {aside}")
                self.execute(f"ALTER TABLE {copy} RENAME TO {final}")
            except BaseException:
                with suppress(LapisError):
                    self.execute(f"DROP TABLE IF EXISTS {copy}")
                if replaces and not self.session.catalog.tableExists(final):
                    self.execute(f"ALTER TABLE {aside} RENAME TO {final}")
                raise
            if replaces:
                self.execute(f"DROP TABLE {aside}")

    def find_tables(self, schema: str) -> Mapping[str, str]:
        place = SPARK.identifier(schema)
        with self._complaints():
            if not self.session.catalog.databaseExists(schema):
                return {}
            listed = self.session.sql(f"SHOW TABLES IN {place}").collect()
        return {
            row["tableName"]: f"{place}.{SPARK.identifier(row['tableName'])}"
            for row in listed
            if not row["isTemporary"]
        }

    def parquet(self, path: Path) -> str:
        return f"parquet.{SPARK.identifier(str(path.absolute()))}"

    def map_rows(
        self,
        name: str,
        rows: StoredTable,
        by: str,
        parts: int,
        function: MapColumns,
        sample: Columns,
    ) -> StoredTable:
        reference = self._new_reference(name, "table")
        schema = ", ".join(
            f"{column} {'DOUBLE' if values.dtype.kind == 'f' else 'BIGINT'}"
            for column, values in sample.items()
        )
        with self._complaints(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about versions of pandas
            try:
                cut = self.session.table(rows.reference).repartition(parts, by)
                found = cut.sortWithinPartitions(by).mapInArrow(run_task(function), schema)
                found.write.format("parquet").saveAsTable(reference)
                written = self.session.table(reference)
                return StoredTable(name, tuple(sample), written.count(), reference)
            except BaseException:
                self.drop(name)
                raise

    def check_folder(self, target: str) -> None:
        with self._complaints():
            FolderPlace(self.session, target).refuse()

    def write_folder(self, rows: StoredTable, target: str) -> None:
        with self._complaints():
            FolderPlace(self.session, target).write(rows.reference)

    def close(self) -> None:
        if self._renewal is not None:
            self._renewal.end()
        with suppress(LapisError):
            self.execute(f"DROP DATABASE IF EXISTS {self._schema} CASCADE")
        if self._owned is not None:
            with suppress(Exception):
                self._owned.stop()
            self._owned = None
        self._remove_files()

    def _renew(self) -> None:
        self.session.sql(f"ALTER DATABASE {self._schema} SET DBPROPERTIES {lease_until()}")

    def _drop_forgotten(self) -> None:
        with self._complaints():
            forgotten = find_forgotten(self.session)
        for name in forgotten:
            with suppress(LapisError):  # another one may be dropping it too
                self.execute(f"DROP DATABASE IF EXISTS {name} CASCADE")

    def _new_reference(self, name: str, kind: str) -> str:
        self._made += 1
        separator = "." if kind == "table" else "_"
        self._references[name] = f"{self._schema}{separator}t{self._made}"
        return self._references[name]

    def _open(self) -> SparkSession:
        """A session of our own, on a context that may be the user's."""
        if importlib.util.find_spec("pyspark") is None:
            raise LapisError(
                "Spark needs pyspark, which is not installed",
                code="engine-missing",
                hint="pip install 'lapis-mln[spark]'",
            )
        remote = self.master is not None and self.master.startswith("sc://")
        if not _answers(self.master):
            raise LapisError(
                f"no connection to {self._place}",
                code="engine-unreachable",
                hint="is the cluster running, and is the port right?",
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about versions of pandas
            try:
                return self._open_remote() if remote else self._open_classic()
            except ImportError as error:
                raise LapisError(
                    f"Spark needs {error.name or error}, which is not installed",
                    code="engine-missing",
                    hint="pip install 'lapis-mln[spark]'",
                ) from error

    def _open_remote(self) -> SparkSession:
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.session import SparkSession as RemoteSession

        session = RemoteSession.builder.remote(self.master).create()
        session.client.set_retry_policies([DefaultPolicy(max_retries=RETRIES)])
        self._owned = session
        return session

    def _open_classic(self) -> SparkSession:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession

        active = SparkSession.getActiveSession()
        if active is None:
            builder = SparkSession.builder.appName("lapis")
            if self.master is not None:
                builder = builder.master(self.master)
            if self.master is None or self.master.startswith("local"):
                folder = tempfile.mkdtemp(prefix="lapis-spark-")
                self._remove_files = weakref.finalize(
                    self, shutil.rmtree, folder, ignore_errors=True
                )
                for key, value in _local_settings(folder).items():
                    builder = builder.config(key, value)
            try:
                self._owned = active = builder.getOrCreate()
            except (PySparkException, Py4JError) as error:
                raise LapisError(
                    f"{self._place} did not start: {_first_line(error)}",
                    code="engine-unreachable",
                    hint="it needs a master that it knows, and Java 17 or later, on the path or in "
                    "JAVA_HOME",
                ) from error
            active.sparkContext.setLogLevel("ERROR")
        elif self.master is not None and active.sparkContext.master != self.master:
            raise LapisError(  # there is one context a process
                f"this process works with Spark at {active.sparkContext.master} already, "
                f"and cannot open {self.master} beside it",
                code="engine-busy",
                hint="stop that session first, or use it: the engine is then called spark",
            )
        return active.newSession()

    @property
    def _place(self) -> str:
        return f"Spark at {self.master}" if self.master else "Spark"

    @contextmanager
    def _complaints(self) -> Iterator[None]:
        """Spark's errors as ours."""
        from py4j.protocol import Py4JError
        from pyspark.errors import AnalysisException, PySparkException

        try:
            yield
        except LapisError:
            raise
        except Exception as error:
            # A context that is gone fails in many ways, some of them only by accident.
            if not isinstance(error, AnalysisException) and self._gone():
                raise LapisError(
                    f"the connection to {self._place} was lost",
                    code="engine-lost",
                    hint="nothing was left half-written; run the command again",
                ) from error
            if isinstance(error, PySparkException | Py4JError):
                raise LapisError(f"Spark: {_first_line(error)}", code="engine-failed") from error
            raise

    def _gone(self) -> bool:
        """Whether nothing at all works any more."""
        if not _answers(self.master):
            return True
        try:
            self.session.sql("SELECT 1").collect()
        except Exception:
            return True
        return False


def run_task(
    function: MapColumns,
) -> Callable[[Iterator[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    """A function of columns as Spark's tasks call it."""

    def run(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        columns = (
            {
                name: to_numpy(column)
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
            }
            for batch in batches
        )
        for found in function(columns):
            yield from to_arrow(found).to_batches()

    return run


def _local_settings(folder: str) -> dict[str, str]:
    """For a Spark in processes of our own: on loopback, quiet, and with files that go."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # tasks run our own code
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.local.dir": folder,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "8",
    }


def _answers(master: str | None) -> bool:
    """Whether somebody listens where a URL points; Spark itself would try for minutes."""
    if master is None or not master.startswith(("sc://", "spark://")):
        return True
    parts = urlsplit(master.partition(",")[0])
    port = parts.port or (15002 if parts.scheme == "sc" else 7077)
    try:
        socket.create_connection((parts.hostname or "localhost", port), timeout=10).close()
    except OSError:
        return False
    return True


def _first_line(error: Exception) -> str:
    """What Spark said, without what the bridge to it says before."""
    lines = str(error).strip().splitlines() or [""]
    called = lines[0].startswith("An error occurred while calling") and len(lines) > 1
    return lines[1].removeprefix(": ") if called else lines[0]


class FolderPlace:
    """Where a folder is to appear, on whatever file system Spark finds there."""

    def __init__(self, session: SparkSession, target: str) -> None:
        self.session, self.target = session, target.rstrip("/")
        self._jvm: Any = getattr(session, "_jvm", None)  # None of Spark Connect
        if self._jvm is not None:
            self._path = self._jvm.org.apache.hadoop.fs.Path(self.target)
            java: Any = session._jsc
            self._files = self._path.getFileSystem(java.hadoopConfiguration())

    def refuse(self) -> None:
        """Refuse a place that is taken, or in a folder that is not there."""
        if self._jvm is None:
            return
        if self._files.exists(self._path):
            raise LapisError(
                f"{self.target}: cannot be written: it exists",
                code="unwritable",
                hint="remove it, or name another folder",
            )
        parent = self._path.getParent()
        if parent is not None and not self._files.exists(parent):
            raise LapisError(
                f"{self.target}: cannot be written: no folder {parent.toString()}",
                code="unwritable",
            )

    def write(self, table: str) -> None:
        """Write a table of the session's; nothing is left where that fails."""
        rows = self.session.table(table).write.mode("error")
        if self._jvm is None:
            rows.parquet(self.target)
            return
        name = f".{self._path.getName()}.lapis_{secrets.token_hex(8)}"
        beside = self._jvm.org.apache.hadoop.fs.Path(self._path.getParent(), name)
        try:
            rows.parquet(beside.toString())
            self.refuse()  # a rename would move it into a folder that came meanwhile
            if not self._files.rename(beside, self._path):
                raise LapisError(f"{self.target}: cannot be written", code="unwritable")
        finally:
            self._files.delete(beside, True)


LEASE = 24 * 3600  # seconds
RENEWALS = 24  # in a lease
PROPERTY = "lapis.until"
OURS = re.compile(r"lapis_[0-9a-f]{16}")
TOLD = re.compile(rf"\({re.escape(PROPERTY)},\s*(\d+)\)")


def lease_until() -> str:
    """The property of a database that is somebody's from now on."""
    return f"('{PROPERTY}' = '{int(time.time()) + LEASE}')"


def find_forgotten(session: SparkSession) -> list[str]:
    """Databases of ours whose lease is over; those without one are not ours to judge."""
    found = []
    for (name,) in session.sql("SHOW DATABASES").collect():
        if not OURS.fullmatch(name):
            continue
        told = session.sql(f"DESCRIBE DATABASE EXTENDED {name}").collect()
        until = TOLD.search(" ".join(str(row[1]) for row in told))
        if until is not None and int(until[1]) < time.time():
            found.append(name)
    return found


class Renewal:
    """A thread that renews a lease until it is ended."""

    def __init__(self, renew: Callable[[], None], every: float = LEASE / RENEWALS) -> None:
        self._ended = Event()
        self._renew, self._every = renew, every
        self._thread = Thread(target=self._run, daemon=True, name="lapis-lease")
        self._thread.start()

    def end(self) -> None:
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait(self._every):
            try:
                self._renew()
            except Exception:  # whoever uses the store hears of it; here it is tried again
                continue
