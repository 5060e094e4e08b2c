"""Spark SQL: a store on a cluster, or on the cores of this machine.

We use the user's session if there is one, and otherwise start our own and stop it at the end. In
both cases we work in a new session beside it, with our own settings: ANSI arithmetic, in which an
overflow is an error. Classic sessions and Spark Connect have the same interface.

Tables are Parquet files in a scratch database; small loaded tables are views of rows in the driver.
Cached results and local checkpoints need no files, but a checkpoint is lost with the worker that
holds it, and a cached result keeps its whole lineage. Spark's catalogue restricts the names of
tables, so our tables are numbered. Spark has no MATERIALIZED: a sum that several terms share is
computed once only if Spark detects it.

Folders of Parquet files are written by tasks, on any file system that Spark supports (hdfs://,
s3a://), under a temporary name beside the target, and then renamed. Spark Connect cannot rename
files. There the tasks write to the target itself, and Spark adds the file _SUCCESS when all files
are complete.

Spark has no locks that end with a connection, and no portable test whether an application still
runs. So a scratch database has a lease, a property with an expiry time, that a thread renews early.
The next session drops scratch databases with an expired lease. A machine that is suspended for
longer than a lease loses its tables.
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
    from_arrow,
    read_batches,
    refuse_target,
    split_target,
    to_arrow,
)

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession


SLICE = 1 << 22  # rows sent at a time
FEW = 50_000  # rows of a table that is a view, not a file
RETRIES = 5  # of a call to a server that does not respond, in 17 s


class SparkStore(TaskStore):
    """The store of Spark."""

    def __init__(self, master: str | None = None) -> None:
        """Open a master ("local[2]", "spark://…"), a server ("sc://…"), or the configured Spark."""
        self.master = master
        self._owned: SparkSession | None = None  # to be stopped
        self._remove_files: Callable[[], object] = lambda: None
        self._references: dict[str, str] = {}
        self._made = 0
        self._renewal: LeaseRenewal | None = None
        self._schema = f"lapis_{secrets.token_hex(8)}"
        self.session = self._open()
        try:
            self.session.conf.set("spark.sql.ansi.enabled", "true")
            self._drop_forgotten()
            self.execute(f"CREATE DATABASE {self._schema} WITH DBPROPERTIES {lease_until()}")
            self._renewal = LeaseRenewal(self._renew)
        except BaseException:
            self.close()
            raise

    @property
    def dialect(self) -> Dialect:
        return SPARK

    def load(self, name: str, columns: Columns) -> StoredTable:
        table = to_arrow(columns)
        reference = self._new_reference(name, "view" if table.num_rows <= FEW else "table")
        with self._translate_errors():
            for start in range(0, max(1, table.num_rows), SLICE):
                frame = self.session.createDataFrame(table.slice(start, SLICE))
                if table.num_rows <= FEW:
                    frame.createTempView(reference)
                else:
                    frame.write.mode("append").format("parquet").saveAsTable(reference)
        return StoredTable(name, tuple(columns), table.num_rows, reference)

    def create(self, name: str, select: str) -> StoredTable:
        reference = self._new_reference(name, "table")
        with self._translate_errors():
            try:
                self.session.sql(select).write.format("parquet").saveAsTable(reference)
                written = self.session.table(reference)
                return StoredTable(name, tuple(written.columns), written.count(), reference)
            except BaseException:
                self.drop(name)
                raise

    def fetch(self, select: str) -> Iterator[Columns]:
        with self._translate_errors():
            found = self.session.sql(select).toArrow()
        yield from read_batches(found.to_reader())

    def execute(self, statement: str) -> None:
        with self._translate_errors():
            self.session.sql(statement).collect()

    def drop(self, name: str) -> None:
        reference = self._references.pop(name, None)
        if reference is not None:
            kind = "TABLE" if reference.startswith(f"{self._schema}.") else "VIEW"
            self.execute(f"DROP {kind} IF EXISTS {reference}")

    def check_target(self, target: str) -> None:
        schema, _ = split_target(target)
        with self._translate_errors():
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
        # A table cannot be moved to another database, so it is copied there and renamed. Without
        # transactions, a table of the target's name is renamed first and dropped last.
        schema, _ = split_target(target)
        place = f"{SPARK.identifier(schema)}." if schema else ""
        copy, aside = (f"{place}lapis_{secrets.token_hex(8)}" for _ in range(2))
        final = self.target_reference(target)
        with self._translate_errors():
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
        with self._translate_errors():
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
        with self._translate_errors(), warnings.catch_warnings():
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
        with self._translate_errors():
            TargetFolder(self.session, target).require_absent()

    def write_folder(self, rows: StoredTable, target: str) -> None:
        with self._translate_errors():
            TargetFolder(self.session, target).write(rows.reference)

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
        with self._translate_errors():
            forgotten = find_forgotten(self.session)
        for name in forgotten:
            with suppress(LapisError):  # another session may drop it at the same time
                self.execute(f"DROP DATABASE IF EXISTS {name} CASCADE")

    def _new_reference(self, name: str, kind: str) -> str:
        self._made += 1
        separator = "." if kind == "table" else "_"
        self._references[name] = f"{self._schema}{separator}t{self._made}"
        return self._references[name]

    def _open(self) -> SparkSession:
        """Open a new session, on the user's context if there is one."""
        if importlib.util.find_spec("pyspark") is None:
            raise LapisError(
                "Spark needs pyspark, which is not installed",
                code="engine-missing",
                hint="pip install 'lapis-mln[spark]'",
            )
        remote = self.master is not None and self.master.startswith("sc://")
        if not _is_reachable(self.master):
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
                    f"{self._place} did not start: {_spark_message(error)}",
                    code="engine-unreachable",
                    hint="check the URL of the master; Java 17 or later must be on the path or in "
                    "JAVA_HOME",
                ) from error
            active.sparkContext.setLogLevel("ERROR")
        elif self.master is not None and active.sparkContext.master != self.master:
            raise LapisError(  # a process has one Spark context
                f"this process is connected to Spark at {active.sparkContext.master} already and "
                f"cannot open {self.master} too",
                code="engine-busy",
                hint="stop that session first, or use it: engine 'spark'",
            )
        return active.newSession()

    @property
    def _place(self) -> str:
        return f"Spark at {self.master}" if self.master else "Spark"

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raise Spark's errors as LapisError."""
        from py4j.protocol import Py4JError
        from pyspark.errors import AnalysisException, PySparkException

        try:
            yield
        except LapisError:
            raise
        except Exception as error:
            # A lost context raises many kinds of errors.
            if not isinstance(error, AnalysisException) and self._is_lost():
                raise LapisError(
                    f"the connection to {self._place} was lost",
                    code="engine-lost",
                    hint="nothing was left half-written; run the command again",
                ) from error
            if isinstance(error, PySparkException | Py4JError):
                raise LapisError(f"Spark: {_spark_message(error)}", code="engine-failed") from error
            raise

    def _is_lost(self) -> bool:
        """Return whether the simplest statement fails."""
        if not _is_reachable(self.master):
            return True
        try:
            self.session.sql("SELECT 1").collect()
        except Exception:
            return True
        return False


def run_task(
    function: MapColumns,
) -> Callable[[Iterator[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    """Wrap a function of columns as a function of Arrow batches, which Spark's tasks call."""

    def run(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        columns = (from_arrow(batch.schema.names, batch.columns) for batch in batches)
        for found in function(columns):
            yield from to_arrow(found).to_batches()

    return run


def _local_settings(folder: str) -> dict[str, str]:
    """Return settings of a local Spark: on loopback, quiet, with files in a temporary folder."""
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


def _is_reachable(master: str | None) -> bool:
    """Return whether the port of a URL accepts connections; Spark would retry for minutes."""
    if master is None or not master.startswith(("sc://", "spark://")):
        return True
    parts = urlsplit(master.partition(",")[0])
    port = parts.port or (15002 if parts.scheme == "sc" else 7077)
    try:
        socket.create_connection((parts.hostname or "localhost", port), timeout=10).close()
    except OSError:
        return False
    return True


def _spark_message(error: Exception) -> str:
    """Return Spark's message without the prefix of py4j."""
    lines = str(error).strip().splitlines() or [""]
    has_prefix = lines[0].startswith("An error occurred while calling") and len(lines) > 1
    return lines[1].removeprefix(": ") if has_prefix else lines[0]


class TargetFolder:
    """A folder to be written, on any file system of Spark."""

    def __init__(self, session: SparkSession, target: str) -> None:
        self.session, self.target = session, target.rstrip("/")
        self._jvm: Any = getattr(session, "_jvm", None)  # None with Spark Connect
        if self._jvm is not None:
            self._path = self._jvm.org.apache.hadoop.fs.Path(self.target)
            java: Any = session._jsc
            self._files = self._path.getFileSystem(java.hadoopConfiguration())

    def require_absent(self) -> None:
        """Raise LapisError if the folder exists, or its parent does not."""
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
        """Write a table of the session; remove all files if it fails."""
        rows = self.session.table(table).write.mode("error")
        if self._jvm is None:
            rows.parquet(self.target)
            return
        name = f".{self._path.getName()}.lapis_{secrets.token_hex(8)}"
        temporary = self._jvm.org.apache.hadoop.fs.Path(self._path.getParent(), name)
        try:
            rows.parquet(temporary.toString())
            self.require_absent()  # a rename would move it into a folder of that name
            if not self._files.rename(temporary, self._path):
                raise LapisError(f"{self.target}: cannot be written", code="unwritable")
        finally:
            self._files.delete(temporary, True)


LEASE = 24 * 3600  # seconds
RENEWALS = 24  # in a lease
PROPERTY = "lapis.until"
OURS = re.compile(r"lapis_[0-9a-f]{16}")
EXPIRY = re.compile(rf"\({re.escape(PROPERTY)},\s*(\d+)\)")


def lease_until() -> str:
    """Write the property of a database with a lease that starts now."""
    return f"('{PROPERTY}' = '{int(time.time()) + LEASE}')"


def find_forgotten(session: SparkSession) -> list[str]:
    """List scratch databases with an expired lease. Databases without a lease are not ours."""
    found = []
    for (name,) in session.sql("SHOW DATABASES").collect():
        if not OURS.fullmatch(name):
            continue
        described = session.sql(f"DESCRIBE DATABASE EXTENDED {name}").collect()
        until = EXPIRY.search(" ".join(str(row[1]) for row in described))
        if until is not None and int(until[1]) < time.time():
            found.append(name)
    return found


class LeaseRenewal:
    """A thread that renews a lease until `end`."""

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
            except Exception:  # other calls report a lost connection; retry here
                continue
