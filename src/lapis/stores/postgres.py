"""PostgreSQL: a store on a server, which may hold the data already.

Columns are written by COPY and read as Arrow batches, both through ADBC. Our tables are unlogged,
in a scratch schema with an advisory lock. The lock ends with the connection, also if the process is
killed. The next session drops the schemas whose lock is free. A comment on the schema distinguishes
our schemas from those of the user with a similar name.

A connection is busy while it reads a result, so each running fetch has its own connection. Tables
are analysed when they are filled: without statistics joins are planned for few rows.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lapis.errors import LapisError
from lapis.stores.dialect import POSTGRESQL, Dialect
from lapis.stores.store import (
    Columns,
    Store,
    StoredTable,
    fetch_all,
    read_batches,
    refuse_target,
    split_target,
    to_arrow,
)

if TYPE_CHECKING:
    from adbc_driver_manager.dbapi import Connection

PREFIX = "lapis_"  # of our schemas; the number of the lock follows
OURS = "tables of a Lapis session, dropped when it ends"  # the comment on our schemas
LONGEST_NAME = 63  # bytes; PostgreSQL truncates longer names
FEW = 1000  # rows that need no statistics
TYPES = {"int8": "SMALLINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT",
         "float": "REAL", "double": "DOUBLE PRECISION", "string": "TEXT",
         "large_string": "TEXT", "bool": "BOOLEAN"}  # fmt: skip

# Messages of the driver for a lost connection, when it gives no SQLSTATE.
LOST = ("server closed the connection", "no connection to the server", "terminating connection")

# For each sort or hash table of our session. With the default of 4 MB, DISTINCT over three million
# rows took minutes, because it was hashed in many passes; with this value it takes seconds.
WORK_MEMORY = "256MB"


class PostgresStore(Store):
    """The store of PostgreSQL."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._idle: list[Connection] = []  # for fetching
        self._connection = self._connect()
        self._lock = secrets.randbits(62)
        self._schema = f"{PREFIX}{self._lock}"
        try:
            with self._translate_errors():
                self._drop_forgotten()
                self._run(f"SELECT pg_advisory_lock({self._lock})")
                self._run(f"SET work_mem = '{WORK_MEMORY}'")
            self._create_schema()
        except BaseException:
            self._connection.close()
            raise

    @property
    def dialect(self) -> Dialect:
        return POSTGRESQL

    def load(self, name: str, columns: Columns) -> StoredTable:
        table = to_arrow(columns)
        reference = self._reference(name)
        listed = ", ".join(
            f"{POSTGRESQL.identifier(field.name)} {TYPES.get(str(field.type), 'NUMERIC')}"
            for field in table.schema
        )
        with self._translate_errors():
            self._run(f"CREATE UNLOGGED TABLE {reference} ({listed})")
            with self._connection.cursor() as cursor:
                cursor.adbc_ingest(name, table, mode="append", db_schema_name=self._schema)
            self._analyze(reference, table.num_rows)
        return StoredTable(name, tuple(columns), table.num_rows, reference)

    def create(self, name: str, select: str) -> StoredTable:
        reference = self._reference(name)
        with self._translate_errors():
            rows = self._run(f"CREATE UNLOGGED TABLE {reference} AS {select}")
            self._analyze(reference, rows)
        columns = fetch_all(self, f"SELECT * FROM {reference} LIMIT 0")
        return StoredTable(name, tuple(columns), rows, reference)

    def fetch(self, select: str) -> Iterator[Columns]:
        connection = self._idle.pop() if self._idle else self._connect()
        finished = False
        try:
            with self._translate_errors(), connection.cursor() as cursor:
                cursor.execute(select)
                yield from read_batches(cursor.fetch_record_batch())
            finished = True
        finally:
            if finished:
                self._idle.append(connection)
            else:
                connection.close()

    def execute(self, statement: str) -> None:
        with self._translate_errors():
            self._run(statement)

    def drop(self, name: str) -> None:
        self.execute(f"DROP TABLE IF EXISTS {self._reference(name)}")

    def check_target(self, target: str) -> None:
        schema, table = split_target(target)
        listed = fetch_all(
            self,
            "SELECT n.nspname::TEXT AS s, c.relname::TEXT AS t, "
            "(n.nspname = current_schema())::INTEGER AS own FROM pg_namespace n "
            "LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind IN ('v', 'm')",
        )
        found = list(zip(*listed.values(), strict=True))
        known = any(own if schema is None else name == schema for name, _, own in found)
        is_view = any(
            view == table and (own if schema is None else name == schema)
            for name, view, own in found
        )
        refuse_target(target, None if known else schema or "public", is_view)
        self._rehearse(target)

    def target_reference(self, target: str) -> str:
        return ".".join(self._place_of(target))

    def publish(self, name: str, target: str) -> None:
        place, quoted = self._place_of(target)
        ours = f"published {secrets.token_hex(8)}"  # a name that is free here and there
        passing = POSTGRESQL.identifier(ours)
        self.execute(f"ALTER TABLE {self._reference(name)} SET LOGGED")
        self._transact(
            [
                f"ALTER TABLE {self._reference(name)} RENAME TO {passing}",
                f"ALTER TABLE {self._reference(ours)} SET SCHEMA {place}",
                f"DROP TABLE IF EXISTS {place}.{quoted}",
                f"ALTER TABLE {place}.{passing} RENAME TO {quoted}",
            ],
            "COMMIT",
        )

    def find_tables(self, schema: str) -> Mapping[str, str]:
        listed = fetch_all(
            self,
            "SELECT n.nspname::TEXT AS s, c.relname::TEXT AS t FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')",
        )
        return {
            name: f"{POSTGRESQL.identifier(schema)}.{POSTGRESQL.identifier(name)}"
            for own, name in zip(*listed.values(), strict=True)
            if own == schema
        }

    def parquet(self, path: Path) -> str:
        raise LapisError(
            f"{path}: PostgreSQL does not read Parquet files",
            code="engine-parquet",
            hint="DuckDB and Spark do: --engine duckdb",
        )

    def close(self) -> None:
        # If the connection is lost, the next session drops the schema.
        with suppress(LapisError):
            self.execute(f"DROP SCHEMA IF EXISTS {self._schema} CASCADE")
        for connection in (self._connection, *self._idle):
            with suppress(Exception):
                connection.close()
        self._idle.clear()

    def _rehearse(self, target: str) -> None:
        """Raise LapisError if rights, dependent objects or other objects prevent publishing."""
        place, quoted = self._place_of(target)
        steps = [f"DROP TABLE IF EXISTS {place}.{quoted}", f"CREATE TABLE {place}.{quoted} ()"]
        try:
            self._transact(["SET LOCAL lock_timeout = '2s'", *steps], "ROLLBACK")
        except LapisError as error:
            if error.code != "engine-failed":
                raise
            if "lock timeout" in error.message:  # the table is in use now, perhaps not later
                return
            raise LapisError(
                f"the table {target} cannot be written: {error.message}",
                code="engine-target",
                hint="name another table, or one in a schema where you may create tables",
            ) from error

    def _place_of(self, target: str) -> tuple[str, str]:
        """Return the quoted schema and table of a target."""
        schema, table = split_target(target)
        if len(table.encode()) > LONGEST_NAME:
            raise LapisError(
                f"the table {target} cannot be written: names have at most {LONGEST_NAME} bytes",
                code="engine-target",
            )
        if schema is None:
            schema = str(fetch_all(self, "SELECT current_schema()::TEXT AS s")["s"][0])
        return POSTGRESQL.identifier(schema), POSTGRESQL.identifier(table)

    def _transact(self, steps: Sequence[str], end: str) -> None:
        """Run all steps and then the end in one transaction."""
        with self._translate_errors():
            self._run("BEGIN")
            try:
                for step in steps:
                    self._run(step)
                self._run(end)
            except BaseException:
                self._run("ROLLBACK")
                raise

    def _create_schema(self) -> None:
        """Create the scratch schema with its comment."""
        steps = [
            f"CREATE SCHEMA {self._schema}",
            f"COMMENT ON SCHEMA {self._schema} IS '{OURS}'",
        ]
        try:
            self._transact(steps, "COMMIT")
        except LapisError as error:
            if error.code != "engine-failed":
                raise
            raise LapisError(
                error.message,
                code="engine-failed",
                hint="Lapis creates a schema for its tables and drops it at the end: it needs the "
                "right to create schemas in this database, and transactions that may write",
            ) from error

    def _reference(self, name: str) -> str:
        return f"{self._schema}.{POSTGRESQL.identifier(name)}"

    def _connect(self) -> Connection:
        try:
            import pyarrow  # noqa: F401
            from adbc_driver_manager import Error
            from adbc_driver_postgresql.dbapi import connect
        except ImportError as error:
            raise LapisError(
                f"PostgreSQL needs {error.name}, which is not installed",
                code="engine-missing",
                hint="pip install 'lapis-mln[postgres]'",
            ) from error
        try:
            return connect(self.url, autocommit=True)
        except Error as error:
            raise LapisError(
                f"no connection to {self._server()}: {_server_message(error)}",
                code="engine-unreachable",
                hint="is the server running, and are name and password right?",
            ) from error

    def _run(self, statement: str) -> int:
        """Run a statement; return the number of affected rows."""
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            return int(cursor.rowcount)

    def _analyze(self, reference: str, rows: int) -> None:
        if rows >= FEW:
            self._run(f"ANALYZE {reference}")

    def _drop_forgotten(self) -> None:
        """Drop scratch schemas whose lock is free."""
        with self._connection.cursor() as cursor:
            cursor.execute(
                f"SELECT nspname::TEXT FROM pg_namespace WHERE nspname ~ '^{PREFIX}[0-9]+$' "
                f"AND obj_description(oid, 'pg_namespace') = '{OURS}' "
                "AND pg_has_role(nspowner, 'MEMBER')"
            )
            found = [row[0] for row in cursor.fetchall()]
        for schema in found:
            lock = schema.removeprefix(PREFIX)
            with self._connection.cursor() as cursor:
                cursor.execute(f"SELECT pg_try_advisory_lock({lock})")
                ((free,),) = cursor.fetchall()
            if free:
                self._run(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
                self._run(f"SELECT pg_advisory_unlock({lock})")

    def _server(self) -> str:
        """Describe the server without the password."""
        with suppress(ValueError):  # the URL is malformed
            parts = urlsplit(self.url)
            port = f":{parts.port}" if parts.port else ""
            return f"PostgreSQL at {parts.hostname or 'this machine'}{port}"
        return "PostgreSQL"

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raise PostgreSQL's errors as LapisError."""
        from adbc_driver_manager import Error

        try:
            yield
        except (Error, OSError) as error:  # reading an Arrow batch raises OSError
            if "canceling statement due to user request" in str(error):  # by Ctrl-C
                raise KeyboardInterrupt from error
            if _is_lost(error):
                raise LapisError(
                    f"the connection to {self._server()} was lost",
                    code="engine-lost",
                    hint="nothing was left half-written; run the command again",
                ) from error
            raise LapisError(
                f"PostgreSQL: {_server_message(error)}", code="engine-failed"
            ) from error


def _is_lost(error: Exception) -> bool:
    state = str(getattr(error, "sqlstate", None) or "")
    # Classes 08 and 57P: connection exceptions and server shutdown.
    return state.startswith(("08", "57P")) or any(message in str(error) for message in LOST)


def _server_message(error: Exception) -> str:
    """Return the server's message without the prefix of the driver."""
    line = str(error).partition("\n")[0]
    return line.rpartition("ERROR:")[2].rpartition("Failed to connect:")[2].strip()
