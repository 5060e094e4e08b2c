"""Stores that tests share: opening one takes longer than most tests do."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lapis.relational.engines import Store, open_store

SPARKS = ["local[2]", "local-cluster[2,1,1024]", "connect"]
STORES = ["duckdb", "postgresql", *(pytest.param(name, marks=pytest.mark.spark) for name in SPARKS)]


@pytest.fixture(scope="module", params=STORES)
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    with open_store(store_url(request.param, request)) as opened:
        yield opened


def store_url(name: str, request: pytest.FixtureRequest) -> str:
    """The URL of an engine; servers are started for it."""
    servers = {"postgresql": "postgres_url", "connect": "connect_url"}
    return str(request.getfixturevalue(servers[name])) if name in servers else name


@pytest.fixture(scope="session")
def connect_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Spark Connect server on loopback, for as long as the tests run."""
    import pyspark

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]"]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command.append("spark-internal")
    with subprocess.Popen(
        command,
        cwd=tmp_path_factory.mktemp("connect"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stderr is not None
        try:
            for line in server.stderr:  # it says when it listens
                if "Spark Connect server started" in line:
                    break
            else:
                raise AssertionError("the Spark Connect server did not start")
            yield f"sc://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.communicate()
