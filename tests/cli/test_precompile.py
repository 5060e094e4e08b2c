"""Kernels compiled ahead: `lapis warm`, `lapis.warm()`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import lapis
from lapis.cli import precompile
from lapis.runtime.progress import Progress


@pytest.mark.parametrize("job", precompile.JOBS)
def test_every_job_runs(job: str) -> None:
    precompile.run_job(job)


def test_progress_of_all_jobs_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precompile, "run_job", len)
    seen: list[Progress] = []
    lapis.warm(progress=seen.append)
    num_jobs = len(precompile.JOBS)
    assert [event.done for event in seen] == [*range(num_jobs + 1)]
    assert {event.total for event in seen} == {num_jobs}
    assert seen[-1].text == ""


def test_an_error_of_a_job_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precompile, "run_job", int)
    with pytest.raises(ValueError, match="invalid literal"):
        lapis.warm()


@pytest.mark.slow
def test_after_warm_nothing_is_compiled(tmp_path: Path) -> None:
    code = (
        "import lapis, os\nos.environ['NUMBA_CACHE_DIR'] = {0!r}\n"
        "from lapis.cli.precompile import JOBS, run_job, warm\nwarm()\n"
        "from lapis.runtime.progress import compilations\n"
        "seen = []\ncompilations.append(seen.append)\n"
        "for job in JOBS: run_job(job)\nassert not seen, seen\n"
    )
    subprocess.run([sys.executable, "-c", code.format(str(tmp_path))], check=True)
