"""The engines that one suite runs on; those on Spark only in `make test-spark`."""

from __future__ import annotations

import pytest

SPARKS = ["local[2]", "local-cluster[2,1,1024]", "connect"]
QUICK_STORES = ["duckdb", "postgresql"]  # a statement takes milliseconds: many examples
STORES = [*QUICK_STORES, *(pytest.param(name, marks=pytest.mark.spark) for name in SPARKS)]


def store_url(name: str, request: pytest.FixtureRequest) -> str:
    """The URL of an engine; servers are started for it."""
    servers = {"postgresql": "postgres_url", "connect": "connect_url"}
    return str(request.getfixturevalue(servers[name])) if name in servers else name
