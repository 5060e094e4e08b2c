"""How hypothesis runs in every test; long sweeps carry the marker `slow`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from cli_run import Run

settings.register_profile("default", deadline=None, derandomize=False)
settings.load_profile("default")


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs commands in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    return Run(tmp_path, capsys)


@pytest.fixture(scope="module")
def price_everything() -> Iterator[None]:
    """Small worlds are planned as large ones: every choice is priced, and by its rows alone."""
    from lapis.relational import compile, elimination

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compile, "FEW", 0)
        patch.setattr(elimination, "OVERHEAD", 0.0)
        yield
