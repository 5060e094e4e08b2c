"""Kernels are numba functions, stored on disk and reported while they are compiled."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCPUCodegen
from numba.core.registry import CPUDispatcher, cpu_target

import lapis
from lapis.counting.nested_loops import to_python_function
from lapis.runtime import kernels, progress
from lapis.runtime.kernels import (
    choose_cache_folder,
    drop_other_versions,
    entry,
    inner,
    private_folder,
)
from lapis.runtime.progress import Progress, Stop, compilations, work_clock


@inner
def _half(number):  # type: ignore[no-untyped-def]
    return number // 2


@entry
def _halves(numbers):  # type: ignore[no-untyped-def]
    total = numbers[0]
    for number in numbers:
        total += _half(number)
    return total


def new_kernel(module: str = "lapis.some_kernels") -> object:
    """A kernel that was never compiled, of a module of ours or of the user's."""

    def successor(number):  # type: ignore[no-untyped-def]
        return number + 1

    successor.__module__ = module
    return numba.njit(successor)


def test_a_function_of_the_user_is_compiled_by_stock_numba() -> None:
    lapis.infer(lapis.parse("P(t)\n1 P(x)"), lapis.Database.parse("t = {A, B}"), "P")
    assert type(_halves) is CPUDispatcher
    assert type(cpu_target.target_context.codegen()) is JITCPUCodegen

    @numba.njit(cache=True)
    def triple(number):  # type: ignore[no-untyped-def]
        return 3 * number

    assert triple(2) == 6
    assert type(triple) is CPUDispatcher
    assert type(triple._cache) is FunctionCache
    assert type(triple._cache._cache_file).__module__ == "numba.core.caching"
    ((library,),) = [[each.library for each in triple.overloads.values()]]
    assert type(library.codegen) is JITCPUCodegen
    assert type(library).__module__ == "numba.core.codegen"


def test_wide_numbers_run_through_the_same_code() -> None:
    small, large = np.arange(5), np.array([2**70, 2**71], object)
    assert to_python_function(_halves)(small) == _halves(small) == 4
    assert to_python_function(_halves)(large) == 2**70 + 2**69 + 2**70


# --- compiling is reported


@pytest.fixture
def slow_compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Each kernel takes an hour to compile; the names of those that did."""
    waited: list[str] = []

    def compile_slowly(event: Progress) -> None:
        waited.append(event.text)

    late = SimpleNamespace(monotonic=lambda: time.monotonic() + 3600 * len(waited))
    monkeypatch.setattr(progress, "time", late)
    compilations.append(compile_slowly)
    yield waited
    compilations.remove(compile_slowly)


def test_compiling_spends_no_time_of_a_limit(slow_compiler: list[str]) -> None:
    stop = Stop(deadline=work_clock() + 60)
    assert new_kernel()(1) == 2
    assert slow_compiler == ["successor"]
    assert not stop.is_over()
    slow_compiler.append("an hour of work")
    assert stop.is_over()


def test_a_kernel_is_reported_once_by_name_and_number() -> None:
    seen: list[Progress] = []
    compilations.append(seen.append)
    try:
        kernel = new_kernel()
        kernel(1)
        kernel(2)
        new_kernel("users_module")(1)
    finally:
        compilations.remove(seen.append)
    assert [event.text for event in seen] == ["successor"]
    assert 1 <= seen[0].done <= seen[0].total
    assert str(seen[0]).startswith("compiling for the first use, kernel ")


@pytest.mark.parametrize("watched", [True, False])
def test_python_shows_a_line_while_it_compiles(
    watched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: watched, raising=False)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    new_kernel()(1)
    first, *rest = screen.getvalue().split("\r")[1:] or [""]
    assert first.startswith("lapis: compiling for the first use, kernel ") == watched
    assert first.rstrip().endswith(": successor") == watched
    assert [line.strip() for line in rest] == ["", ""] * watched


# --- kernels are kept


def test_kernels_are_kept_in_a_private_folder_where_nothing_else_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**options: object) -> object:
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(kernels, "njit", refuse)
    monkeypatch.setattr(kernels.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    choose_cache_folder()
    folder = Path(numba.config.CACHE_DIR)
    assert folder.parent == tmp_path
    assert folder.stat().st_mode & 0o077 == 0
    assert private_folder(tmp_path) == folder


def test_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    folder = private_folder(tmp_path)
    folder.chmod(0o777)
    assert private_folder(tmp_path) != folder


def test_kernels_of_another_version_are_deleted_once(tmp_path: Path) -> None:
    old = tmp_path / "some.kernel-1.py311.nbi"
    old.touch()
    drop_other_versions(str(tmp_path))
    assert not old.exists()
    old.touch()
    drop_other_versions.cache_clear()
    drop_other_versions(str(tmp_path))
    assert old.exists()


def test_an_upgrade_may_move_the_types_of_arguments(tmp_path: Path) -> None:
    """Numba's index names NamedTuples by their modules, and cannot be read if one has moved."""
    source = "from typing import NamedTuple\nclass Pair(NamedTuple):\n    one: int\n"
    kernel = (
        "from lapis.runtime.kernels import entry\n@entry\ndef first(pair):\n    return pair.one\n"
    )
    for name, text in (("old_place", source), ("new_place", source), ("some_kernel", kernel)):
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    call = (
        "import sys, lapis; sys.path.insert(0, {0!r}); lapis.__version__ = {1!r}\n"
        "import {2}, some_kernel\nassert some_kernel.first({2}.Pair(3)) == 3\n"
    )

    def run(version: str, place: str) -> None:
        code = call.format(str(tmp_path), version, place)
        subprocess.run([sys.executable, "-c", code], check=True, timeout=300)

    run("1", "old_place")
    (tmp_path / "old_place.py").unlink()
    run("2", "new_place")
