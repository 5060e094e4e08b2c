"""From a URL to a store."""

from __future__ import annotations

import re

from lapis.errors import LapisError
from lapis.stores.duckdb import DuckDBStore
from lapis.stores.store import Store

LOCAL = re.compile(r"local(-cluster)?(\[[^\]]*\])?")  # masters on this machine


def open_store(url: str, max_memory: int | None = None) -> Store:
    """The engine that a URL names.

    `duckdb` (in memory and temporary files), `duckdb:FILE`, `postgresql://…`, `spark` (as it is set
    up here), `spark://…` and `local[2]` (masters), `sc://…` (Spark Connect). `max_memory` bounds,
    in bytes, what an engine takes that runs in this process.
    """
    scheme, _, rest = url.partition(":")
    if scheme == "duckdb":
        return DuckDBStore(rest or None, max_memory)
    if scheme in ("postgresql", "postgres"):
        from lapis.stores.postgres import PostgresStore

        return PostgresStore(url)
    if scheme in ("spark", "sc") or LOCAL.fullmatch(url):
        from lapis.stores.spark_store import SparkStore

        return SparkStore(None if url == "spark" else url)
    raise LapisError(
        f"no engine is called '{url}'",
        code="engine-unknown",
        hint="write duckdb, duckdb:FILE, postgresql://user@host/database, spark, spark://host:port "
        "or sc://host:port",
    )
