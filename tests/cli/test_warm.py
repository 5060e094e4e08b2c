"""Kernels compiled ahead, told of while they are, and kept where one may write."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numba
import pytest

import lapis.compiler
from cli_run import Run
from lapis import compiled, progress
from lapis.cache_folder import private_folder
from lapis.cli import warm
from lapis.compiled import STEPS_A_SECOND, Kernel, entry, watchers
from lapis.compiler import find_place, is_kept
from lapis.inference.map import maxwalksat_kernel
from lapis.inference.map.maxwalksat import search
from lapis.inference.map.objective import objective_of
from lapis.inference.marginals import InferenceOptions
from lapis.inference.reduction import tree_answers
from lapis.inference.sampling.kernels.cluster import run_clusters
from lapis.inference.solve import infer_network
from lapis.progress import Progress, Stop, compilations, work_clock


@pytest.mark.parametrize("job", warm.JOBS)
def test_every_job_runs(job: str) -> None:
    warm.JOBS[job]()


def test_the_job_of_the_samplers_compiles_what_a_first_infer_waits_for() -> None:
    warm.JOBS["samplers"]()
    assert is_kept(run_clusters)


def test_what_is_compiled_meanwhile_is_what_answers_eliminated_atoms() -> None:
    called: list[str] = []
    watchers.append(lambda kernel, is_called: called.append(kernel.py_func.__module__))
    for kernel in (tree_answers._answer_trees, tree_answers._answer_clauses):
        kernel.__dict__.pop("dispatcher", None)
    try:
        warm.compile_answers()
    finally:
        watchers.pop()
    assert called.count(tree_answers.__name__) == 2
    assert is_kept(tree_answers._answer_trees)
    assert not compiled.always_compiled


@pytest.fixture
def slow_compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Kernels that take an hour to be compiled, here or in another process; which ones did."""
    waited: list[str] = []

    def wait(kernel: Kernel, is_called: bool) -> None:
        if is_called:
            waited.append(kernel.py_func.__name__)

    def compile_slowly(event: Progress) -> None:
        waited.append(event.text)

    late = SimpleNamespace(monotonic=lambda: time.monotonic() + 3600 * len(waited))
    monkeypatch.setattr(progress, "time", late)
    watchers.append(wait)
    compilations.append(compile_slowly)
    yield waited
    watchers.remove(wait)
    compilations.remove(compile_slowly)


def test_a_kernel_that_is_compiled_spends_no_time_of_a_limit(slow_compiler: list[str]) -> None:
    stop = Stop(deadline=work_clock() + 60)
    assert numba.njit(lambda x: x + 1)(1) == 2
    assert slow_compiler == ["<lambda>"]
    assert not stop.is_over()
    slow_compiler.append("an hour of work")
    assert stop.is_over()


@pytest.mark.parametrize("method", ["gibbs", "maxwalksat"])
def test_limits_of_time_are_of_work(method: str, slow_compiler: list[str]) -> None:
    """What waits for its kernels has all of its time when they are there."""
    for kernel in (run_clusters, maxwalksat_kernel.begin, maxwalksat_kernel.advance):
        kernel.__dict__.pop("dispatcher", None)
    network = warm.small_network()
    if method == "gibbs":
        found = infer_network(network, method, InferenceOptions(precision=0.05, time_limit=60.0))
        assert found.diagnostics["converged"]
        assert "run_clusters" in slow_compiler
        assert found.diagnostics["seconds"] < 3600
    else:
        stop = Stop().within(60.0)
        tried = search(objective_of(network), max_flips=200_000, restarts=2, stop=stop)
        assert tried.flips == 400_000
        assert "advance" in slow_compiler


def test_compilations_are_told_by_name() -> None:
    seen: list[Progress] = []
    compilations.append(seen.append)
    try:
        successor = numba.njit(lambda x: x + 1)
        successor(1)
        successor(2)
    finally:
        compilations.remove(seen.append)
    assert [event.text for event in seen] == ["<lambda>"]
    assert str(seen[0]).startswith("compiling for the first use, kernel ")


def test_no_process_is_started_where_all_kernels_are_kept(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm, "start", lambda *jobs: pytest.fail("started"))
    monkeypatch.setattr(lapis.compiler, "is_kept", lambda kernel: True)
    run.json("infer", "m.mln", "d.db", "-q", "Smokes")
    assert compilations == []
    assert watchers == []


def test_processes_are_started_at_the_first_kernel_never_compiled_and_end_with_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lapis.compiler, "is_kept", lambda kernel: False)
    monkeypatch.setattr(warm, "num_cores", lambda: 2)
    started = []
    start = warm.start

    def keep(*jobs: str) -> object:
        started.append(start(*jobs))
        return started[-1]

    monkeypatch.setattr(warm, "start", keep)
    with warm.samplers_beside([]):
        for number in range(2):
            kernel = entry(lambda x, number=number: x + number)
            assert kernel.for_work(STEPS_A_SECOND // 2) == kernel.interpret
    assert len(started) == len(warm.BESIDE)
    assert all(process.poll() is not None for process in started)
    assert watchers == []


@pytest.mark.parametrize(("people", "kept", "expected"), [(80, 0, 1), (80, 1, 0), (8, 0, 0)])
def test_where_there_are_many_facts_samplers_are_compiled_from_the_beginning(
    people: int, kept: int, expected: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "kernels_1").mkdir()
    for number in range(kept):
        (tmp_path / "kernels_1" / f"cluster.run_clusters-1.py311.{number}.nbc").write_bytes(b"")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(warm, "num_cores", lambda: 2)
    started: list[str] = []

    class Process:
        def kill(self) -> None:
            started.append("ended")

        communicate = staticmethod(lambda: None)

    monkeypatch.setattr(warm, "start", lambda job: started.append(job) or Process())
    pairs = [(one, other) for one in range(people) for other in range(people)]
    data = lapis.Database.parse(" ".join(f"F(P{one},P{other})" for one, other in pairs))
    with warm.samplers_beside([data]):
        assert started == ["samplers"] * expected
    assert started == ["samplers", "ended"] * expected


def test_kernels_of_samplers_are_waited_for_while_somebody_compiles_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Process:
        polls = 0

        def poll(self) -> int | None:
            self.polls += 1
            return None

    monkeypatch.setattr(lapis.compiler, "is_kept", lambda kernel: process.polls > 5)
    meanwhile: list[bool] = []
    monkeypatch.setattr(warm, "compile_answers", lambda: meanwhile.append(True))
    beside, process = warm.Beside(), Process()
    beside.running = [process]  # type: ignore[list-item]
    seen: list[Progress] = []
    compilations.append(seen.append)
    try:
        beside.watch(run_clusters, True)
        num_seen = len(seen)
        beside.watch(run_clusters, False)
        beside.watch(entry(lambda x: x), True)
    finally:
        compilations.remove(seen.append)
    assert 0 < num_seen == len(seen)
    assert meanwhile == [True]
    assert str(seen[0]) == "compiling for the first use 0/1"


def test_failing_jobs_are_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "JOBS", {"nothing": lambda: None})
    with pytest.raises(
        RuntimeError, match=r"compiling nothing failed:\n(.|\n)*KeyError: 'nothing'"
    ):
        warm.compile_all()


def test_kernels_are_kept_in_a_private_folder_where_nothing_else_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**options: object) -> object:
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(lapis.compiler, "njit", refuse)
    monkeypatch.setattr(lapis.compiler.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    find_place()
    folder = Path(numba.config.CACHE_DIR)
    assert folder.parent == tmp_path
    assert folder.stat().st_mode & 0o077 == 0
    assert private_folder(tmp_path) == folder


def test_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    folder = private_folder(tmp_path)
    folder.chmod(0o777)
    assert private_folder(tmp_path) != folder


def test_kernels_are_loaded_without_linear_algebra() -> None:
    """Numba would load it to see whether it is there, which takes as long as a small job."""
    words = (
        "import sys, numpy, lapis.compiler, numba; numba.njit(lambda x: x.sum())(numpy.ones(2)); "
        "assert 'numba.np.arraymath' in sys.modules and 'scipy.linalg' not in sys.modules; "
        "assert numba.njit(lambda x: numpy.dot(x, x))(numpy.ones(2)) == 2.0"
    )
    subprocess.run([sys.executable, "-c", words], check=True)
