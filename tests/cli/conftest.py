"""Commands are run in a folder of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_run import Run


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return Run(tmp_path, capsys)
