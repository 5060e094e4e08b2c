"""From a URL to a store."""

from __future__ import annotations

from lapis.errors import LapisError
from lapis.relational.engines.duckdb import DuckDBStore
from lapis.relational.engines.store import Store


def open_store(url: str, max_memory: int | None = None) -> Store:
    """The engine that a URL names: `duckdb`, `duckdb:FILE`, `postgresql://…`.

    `max_memory` bounds, in bytes, what an engine takes that runs in this process.
    """
    scheme, _, rest = url.partition(":")
    if scheme == "duckdb":
        return DuckDBStore(rest or None, max_memory)
    if scheme in ("postgresql", "postgres"):
        from lapis.relational.engines.postgres import PostgresStore

        return PostgresStore(url)
    raise LapisError(
        f"no engine is called '{url}'",
        code="engine-unknown",
        hint="write duckdb, duckdb:FILE or postgresql://user@host/database",
    )
