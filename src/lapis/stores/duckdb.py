"""DuckDB, embedded: a store in this process that can exceed the memory.

Our tables are in an in-memory database that spills to a folder of temporary files. The folder is
removed when the store is closed. A file of the user is attached for reading. It is attached for
writing only while a result is published, so that other processes can read it meanwhile.

Ctrl-C must end a long call into DuckDB. Python runs signal handlers in the main thread, between its
instructions, so they wait while the thread is inside a library. DuckDB looks for signals between
units of work, but one unit in the main thread may take minutes. The byte that a signal writes to a
file (`signal.set_wakeup_fd`) does not wait: another thread reads it and interrupts the call.

Tried and dropped: one thread for each statement, with the main thread waiting. It took 1 ms of CPU
and 4 ms of waiting for each statement; the watching thread takes no measurable time.
"""

from __future__ import annotations

import importlib.util
import shutil
import signal
import socket
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lapis.data.atomic_write import require_writable
from lapis.errors import LapisError, TooLarge
from lapis.runtime.limits import SIGNAL
from lapis.stores.dialect import DUCKDB, Dialect
from lapis.stores.store import (
    Columns,
    Store,
    StoredTable,
    fetch_all,
    read_batches,
    refuse_target,
    split_target,
)

if TYPE_CHECKING:
    import duckdb


BATCH = 1 << 20  # rows fetched at a time
SCHEMA = "lapis"  # the scratch schema, in the in-memory database
USER = "data"  # the name of the user's attached file


class DuckDBStore(Store):
    """The store of DuckDB: in memory, or with a file of the user attached."""

    def __init__(self, file: str | None = None, max_memory: int | None = None) -> None:
        import duckdb

        self.file = file
        spill = tempfile.mkdtemp(prefix="lapis-")
        self._remove_spill = weakref.finalize(self, shutil.rmtree, spill, ignore_errors=True)
        # Without this, DuckDB reads Python variables that have the name of a missing table.
        config: dict[str, str] = {"temp_directory": spill, "python_enable_replacements": "false"}
        if max_memory is not None:
            config["memory_limit"] = f"{max(max_memory, 2**26)}B"
        self._connection = duckdb.connect(config=config)
        self._interrupter = self._new_interrupter()
        self._connection.execute(f"CREATE SCHEMA {SCHEMA}")
        if file is not None and Path(file).exists():
            self._attach("READ_ONLY")

    @property
    def dialect(self) -> Dialect:
        return DUCKDB

    def load(self, name: str, columns: Columns) -> StoredTable:
        selected = []
        for column, values in columns.items():
            quoted = DUCKDB.identifier(column)
            if values.dtype.kind == "f":
                quoted = f"CASE WHEN isnan({quoted}) THEN NULL ELSE {quoted} END AS {quoted}"
            selected.append(quoted)
        arrays = {column: np.ascontiguousarray(values) for column, values in columns.items()}
        self._connection.register("lapis_loaded", arrays)
        try:
            return self.create(name, f"SELECT {', '.join(selected)} FROM lapis_loaded")
        finally:
            self._connection.unregister("lapis_loaded")

    def create(self, name: str, select: str) -> StoredTable:
        reference = self._reference(name)
        with _translate_errors():
            found = self._run(f"CREATE TABLE {reference} AS {select}")
            described = self._run(f"DESCRIBE {reference}")
        return StoredTable(name, tuple(row[0] for row in described), found[0][0], reference)

    def fetch(self, select: str) -> Iterator[Columns]:
        # The connection stays free while the cursor reads batches.
        cursor = self._connection.cursor()
        try:
            with _translate_errors():
                batches = _fetch_batches(cursor, select)
                while (batch := self._call(lambda: next(batches, None), cursor)) is not None:
                    yield batch
        finally:
            cursor.close()

    def execute(self, statement: str) -> None:
        with _translate_errors():
            self._run(statement)

    def drop(self, name: str) -> None:
        self.execute(f"DROP TABLE IF EXISTS {self._reference(name)}")

    def check_target(self, target: str) -> None:
        if self.file is None:
            raise LapisError(
                f"no database file to store the table {target} in",
                code="engine-target",
                hint="name a file: --engine duckdb:results.duckdb",
            )
        schema, table = split_target(target)
        if not Path(self.file).exists():
            require_writable(Path(self.file))
            refuse_target(target, schema if schema != "main" else None, False)
            return
        # Names in DuckDB are case-insensitive.
        listed = fetch_all(
            self,
            "SELECT lower(schema_name) AS s, CAST(NULL AS VARCHAR) AS v FROM duckdb_schemas() "
            f"WHERE database_name = '{USER}' UNION ALL SELECT lower(schema_name), lower(view_name) "
            f"FROM duckdb_views() WHERE database_name = '{USER}'",
        )
        known = set(zip(listed["s"], listed["v"], strict=True))
        missing = schema if schema and (schema.lower(), None) not in known else None
        refuse_target(target, missing, ((schema or "main").lower(), table.lower()) in known)

    def target_reference(self, target: str) -> str:
        schema, table = split_target(target)
        return f"{USER}.{DUCKDB.identifier(schema or 'main')}.{DUCKDB.identifier(table)}"

    def publish(self, name: str, target: str) -> None:
        self.check_target(target)
        place = self.target_reference(target)
        self._attach("READ_WRITE")
        try:
            self.execute(
                f"CREATE OR REPLACE TABLE {place} AS SELECT * FROM {self._reference(name)}"
            )
        finally:
            self._attach("READ_ONLY")

    def find_tables(self, schema: str) -> Mapping[str, str]:
        if self.file is not None and not Path(self.file).exists():
            raise LapisError(f"{self.file}: there is no such file", code="no-such-file")
        listed = fetch_all(
            self, "SELECT table_catalog, table_schema, table_name FROM information_schema.tables"
        )
        return {
            name: f"{USER}.{DUCKDB.identifier(schema)}.{DUCKDB.identifier(name)}"
            for catalog, own, name in zip(*listed.values(), strict=True)
            if (catalog, own) == (USER, schema)
        }

    def parquet(self, path: Path) -> str:
        pattern = str(path / "**" / "*.parquet") if path.is_dir() else str(path)
        quoted = pattern.replace("'", "''")
        return f"read_parquet('{quoted}', hive_partitioning = {str(path.is_dir()).lower()})"

    def close(self) -> None:
        self._connection.close()
        self._interrupter.close()
        self._remove_spill()

    def _run(self, statement: str) -> list[tuple[Any, ...]]:
        connection = self._connection
        return self._call(lambda: connection.execute(statement).fetchall(), connection)

    def _call(
        self, work: Callable[[], CallResult], connection: duckdb.DuckDBPyConnection
    ) -> CallResult:
        try:
            return self._interrupter.call(work, connection.interrupt)
        except BaseException:
            # Replace the interrupter: a late signal to the old one must not end later calls.
            self._interrupter.close()
            self._interrupter = self._new_interrupter()
            raise

    def _new_interrupter(self) -> Interrupter:
        """Return an interrupter that is closed with the store, or when the store is garbage."""
        found = Interrupter()
        weakref.finalize(self, found.close)
        return found

    def _reference(self, name: str) -> str:
        return f"{SCHEMA}.{DUCKDB.identifier(name)}"

    def _attach(self, mode: str) -> None:
        path = str(self.file).replace("'", "''")
        self.execute(f"DETACH DATABASE IF EXISTS {USER}")
        self.execute(f"ATTACH '{path}' AS {USER} ({mode})")


def _fetch_batches(cursor: duckdb.DuckDBPyConnection, select: str) -> Iterator[Columns]:
    found = cursor.sql(select)
    if importlib.util.find_spec("pyarrow") is not None:
        # Its name before DuckDB 1.4 was `fetch_arrow_reader`.
        reader = getattr(found, "to_arrow_reader", None) or found.fetch_arrow_reader
        yield from read_batches(reader(BATCH))
    else:
        yield _whole_columns(found)


def _whole_columns(found: duckdb.DuckDBPyRelation) -> Columns:
    """Fetch all rows at once, without Arrow; HUGEINT as Python integers: `fetchnumpy` rounds it."""
    if "HUGEINT" not in map(str, found.types):
        return {name: _fill_nulls(column) for name, column in found.fetchnumpy().items()}
    rows = found.fetchall()
    columns = np.array(rows, object).reshape(-1, len(found.columns)).T
    return {
        name: column if str(kind) in ("HUGEINT", "VARCHAR") else column.astype(np.int64)
        for name, kind, column in zip(found.columns, found.types, columns, strict=True)
    }


def _fill_nulls(column: np.ndarray) -> np.ndarray:
    """Replace NULL by NaN in numbers and by None in texts."""
    if not isinstance(column, np.ma.MaskedArray):
        return column
    missing = None if column.dtype == object else np.nan
    return np.ma.filled(column.astype(object if missing is None else np.float64), missing)


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Raise DuckDB's errors as LapisError."""
    import duckdb

    try:
        yield
    except duckdb.InterruptException as error:
        raise KeyboardInterrupt from error
    except (duckdb.Error, OSError) as error:  # reading an Arrow batch raises OSError
        if "INTERRUPT" in str(error):
            raise KeyboardInterrupt from error
        if isinstance(error, duckdb.OutOfMemoryException) or "Out of Memory" in str(error):
            raise TooLarge(
                "a join exceeds the memory limit",
                code="too-large",
                hint="raise the memory limit, or give more evidence",
            ) from error
        raise LapisError(f"DuckDB: {error}", code="engine-failed") from error
    except RuntimeError as error:
        if str(error) == "Query interrupted":  # by Ctrl-C
            raise KeyboardInterrupt from error
        raise


CallResult = TypeVar("CallResult")

PAUSE = 0.05  # seconds between interruptions; one that comes before the call starts is lost


class Interrupter:
    """Runs calls that Ctrl-C and the limits of a call interrupt. `close` ends its thread."""

    def __init__(self) -> None:
        self._received, self._signals = socket.socketpair()
        self._signals.setblocking(False)
        self._lock = threading.Lock()  # a later call must not be interrupted
        self._interrupt: Callable[[], None] | None = None  # of the current call
        self._closed = threading.Event()
        self._watched: set[int | None] = set()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def call(self, work: Callable[[], CallResult], interrupt: Callable[[], None]) -> CallResult:
        """Run the work; on Ctrl-C, or if a limit is exceeded, interrupt it.

        Without effect in other threads, which get no signals. If the user handles SIGINT, only the
        limits of the call interrupt it.
        """
        if threading.current_thread() is not threading.main_thread():
            return work()
        own_handler = signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        self._watched = {SIGNAL} if own_handler else {SIGNAL, signal.SIGINT}
        before = -1
        try:
            before = signal.set_wakeup_fd(self._signals.fileno(), warn_on_full_buffer=False)
            self._interrupt = interrupt
            return work()
        finally:
            try:
                signal.set_wakeup_fd(before)
            finally:  # the signal handler may raise in between
                with self._lock:
                    self._interrupt = None

    def close(self) -> None:
        self._interrupt = None
        self._closed.set()
        self._signals.close()
        self._thread.join(1.0)

    def _watch(self) -> None:
        with self._received:
            while signals := self._received.recv(256):
                interrupt = self._interrupt
                while self._watched.intersection(signals) and self._interrupt_call(interrupt):
                    self._closed.wait(PAUSE)

    def _interrupt_call(self, interrupt: Callable[[], None] | None) -> bool:
        """Interrupt a call; return False if it has ended."""
        with self._lock:
            if interrupt is None or self._interrupt is not interrupt:
                return False
            interrupt()
            return True
