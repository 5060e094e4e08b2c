"""PostgreSQL: a store on a server that may already have the data.

Columns go in by COPY and come back as Arrow batches, both through ADBC. Our tables are unlogged, in
a schema of our own that we hold an advisory lock for. The lock ends with the connection, however
that ends, so whoever comes next finds schemas that nobody holds and drops them: even a process
that was killed leaves nothing for long. A comment tells ours from those of others that have a name
like ours.

A connection that reads a result is busy until the end of it, so every fetch under way has one of
its own. Tables get their statistics as soon as they are filled; without them joins are planned
for a handful of rows.
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
LONGEST_NAME = 63  # bytes; longer ones are cut off
FEW = 1000  # rows below which any plan will do
TYPES = {"int8": "SMALLINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT",
         "float": "REAL", "double": "DOUBLE PRECISION", "string": "TEXT",
         "large_string": "TEXT", "bool": "BOOLEAN"}  # fmt: skip

# How the driver tells that the server is not there any more, where it tells no state.
LOST = ("server closed the connection", "no connection to the server", "terminating connection")

# For a sort or hash table of our session. With the usual 4 MB the distinct ones of three million
# rows were hashed again and again in pieces: minutes, where this takes seconds.
WORK_MEMORY = "256MB"


class PostgresStore(Store):
    def __init__(self, url: str) -> None:
        self.url = url
        self._idle: list[Connection] = []  # for fetching
        self._connection = self._connect()
        self._lock = secrets.randbits(62)
        self._schema = f"{PREFIX}{self._lock}"
        try:
            with self._complaints():
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
        with self._complaints():
            self._run(f"CREATE UNLOGGED TABLE {reference} ({listed})")
            with self._connection.cursor() as cursor:
                cursor.adbc_ingest(name, table, mode="append", db_schema_name=self._schema)
            self._analyze(reference, table.num_rows)
        return StoredTable(name, tuple(columns), table.num_rows, reference)

    def create(self, name: str, select: str) -> StoredTable:
        reference = self._reference(name)
        with self._complaints():
            rows = self._run(f"CREATE UNLOGGED TABLE {reference} AS {select}")
            self._analyze(reference, rows)
        columns = fetch_all(self, f"SELECT * FROM {reference} LIMIT 0")
        return StoredTable(name, tuple(columns), rows, reference)

    def fetch(self, select: str) -> Iterator[Columns]:
        connection = self._idle.pop() if self._idle else self._connect()
        finished = False
        try:
            with self._complaints(), connection.cursor() as cursor:
                cursor.execute(select)
                yield from read_batches(cursor.fetch_record_batch())
            finished = True
        finally:
            if finished:
                self._idle.append(connection)
            else:
                connection.close()

    def execute(self, statement: str) -> None:
        with self._complaints():
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
        # A connection that was lost cannot drop the schema; then the next one to come does.
        with suppress(LapisError):
            self.execute(f"DROP SCHEMA IF EXISTS {self._schema} CASCADE")
        for connection in (self._connection, *self._idle):
            with suppress(Exception):
                connection.close()
        self._idle.clear()

    def _rehearse(self, target: str) -> None:
        """Refuse what rights, dependents or other things of that name would not let us publish."""
        place, quoted = self._place_of(target)
        steps = [f"DROP TABLE IF EXISTS {place}.{quoted}", f"CREATE TABLE {place}.{quoted} ()"]
        try:
            self._transact(["SET LOCAL lock_timeout = '2s'", *steps], "ROLLBACK")
        except LapisError as error:
            if error.code != "engine-failed":
                raise
            if "lock timeout" in error.message:  # in use now, perhaps not later
                return
            raise LapisError(
                f"the table {target} cannot be written: {error.message}",
                code="engine-target",
                hint="name another table, or one in a schema where you may create tables",
            ) from error

    def _place_of(self, target: str) -> tuple[str, str]:
        """The schema and the table that a target names, quoted."""
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
        """All steps and then the end, or none of them."""
        with self._complaints():
            self._run("BEGIN")
            try:
                for step in steps:
                    self._run(step)
                self._run(end)
            except BaseException:
                self._run("ROLLBACK")
                raise

    def _create_schema(self) -> None:
        """Our schema, with the comment that says so."""
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
                hint="Lapis works in a schema of its own that goes at the end: it needs the right "
                "to create one in this database, and transactions that may write",
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
                f"no connection to {self._place()}: {_first_line(error)}",
                code="engine-unreachable",
                hint="is the server running, and are name and password right?",
            ) from error

    def _run(self, statement: str) -> int:
        """Execute, and say how many rows that was about."""
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            return int(cursor.rowcount)

    def _analyze(self, reference: str, rows: int) -> None:
        if rows >= FEW:
            self._run(f"ANALYZE {reference}")

    def _drop_forgotten(self) -> None:
        """Drop schemas of ours whose lock nobody holds."""
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

    def _place(self) -> str:
        """Where the server is, without the password."""
        with suppress(ValueError):  # of what is no URL
            parts = urlsplit(self.url)
            port = f":{parts.port}" if parts.port else ""
            return f"PostgreSQL at {parts.hostname or 'this machine'}{port}"
        return "PostgreSQL"

    @contextmanager
    def _complaints(self) -> Iterator[None]:
        """PostgreSQL's errors as ours."""
        from adbc_driver_manager import Error

        try:
            yield
        except (Error, OSError) as error:  # what comes in batches fails as a file would
            if "canceling statement due to user request" in str(error):  # as the driver has Ctrl-C
                raise KeyboardInterrupt from error
            if _lost(error):
                raise LapisError(
                    f"the connection to {self._place()} was lost",
                    code="engine-lost",
                    hint="nothing was left half-written; run the command again",
                ) from error
            raise LapisError(f"PostgreSQL: {_first_line(error)}", code="engine-failed") from error


def _lost(error: Exception) -> bool:
    state = str(getattr(error, "sqlstate", None) or "")
    # Classes 08 and 57P: connection exceptions, and a server that goes down.
    return state.startswith(("08", "57P")) or any(told in str(error) for told in LOST)


def _first_line(error: Exception) -> str:
    """What the server said, without what the driver says around it."""
    said = str(error).partition("\n")[0]
    return said.rpartition("ERROR:")[2].rpartition("Failed to connect:")[2].strip()
