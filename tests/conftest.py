"""How hypothesis runs in every test; long sweeps carry the marker `slow`.

`make test` tries the same 25 examples of each property every time, so that its result depends on
the change alone. `make test-all` looks for new ones, 200 of each.
"""

from __future__ import annotations

import socket
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from cli_run import Run

settings.register_profile("default", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("nightly", deadline=None, derandomize=False, max_examples=200)
settings.register_profile("spark", settings.get_profile("default"), max_examples=15)
settings.load_profile("default")


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs commands in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    return Run(tmp_path, capsys)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A real PostgreSQL server on a socket of its own, for as long as the tests run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about where it keeps its socket
        import pgserver

        with tempfile.TemporaryDirectory(prefix="lapis-postgres-") as folder:
            server = pgserver.get_server(folder, cleanup_mode="stop")
            try:
                yield server.get_uri()
            finally:
                server.cleanup()


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
            for line in server.stderr:  # until the server listens
                if "Spark Connect server started" in line:
                    break
            else:
                raise AssertionError("the Spark Connect server did not start")
            # A full pipe would stop the server, so the rest of its output is read.
            threading.Thread(target=server.stderr.read, daemon=True).start()
            yield f"sc://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait()


@pytest.fixture(scope="module")
def price_everything() -> Iterator[None]:
    """Small worlds are planned as large ones: every choice is priced, and by its rows alone."""
    from lapis.relational import contraction, plan_compiler

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_compiler, "FEW", 0)
        patch.setattr(contraction, "OVERHEAD", 0.0)
        yield
