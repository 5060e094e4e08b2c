"""The engines that one suite runs on; those on Spark only in `make test-spark`."""

from __future__ import annotations

import pytest

QUICK_STORES = ["duckdb", "postgresql"]  # a statement takes milliseconds: many examples
STORES = [*QUICK_STORES, pytest.param("local[2]", marks=pytest.mark.spark)]
# The same Spark, reached in other ways: for what depends on that.
EVERY_STORE = [
    *STORES,
    *(
        pytest.param(name, marks=pytest.mark.spark)
        for name in ("local-cluster[2,1,1024]", "connect")
    ),
]


def store_url(name: str, request: pytest.FixtureRequest) -> str:
    """The URL of an engine; servers are started for it."""
    servers = {"postgresql": "postgres_url", "connect": "connect_url"}
    return str(request.getfixturevalue(servers[name])) if name in servers else name
