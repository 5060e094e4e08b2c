"""How hypothesis runs in every test; long sweeps carry the marker `slow`."""

from __future__ import annotations

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
