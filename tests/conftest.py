"""How hypothesis runs in every test; long sweeps carry the marker `slow`."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from cli_run import Run

settings.register_profile("default", deadline=None, derandomize=False)
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


@pytest.fixture(scope="module")
def price_everything() -> Iterator[None]:
    """Small worlds are planned as large ones: every choice is priced, and by its rows alone."""
    from lapis.relational import compile, elimination

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compile, "FEW", 0)
        patch.setattr(elimination, "OVERHEAD", 0.0)
        yield
