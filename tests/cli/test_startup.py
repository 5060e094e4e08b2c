"""What a start costs: what is imported, what is interpreted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lapis import compiler
from lapis.compiled import STEPS_A_SECOND, allocating_entry, entry, inner
from lapis.examples import example_path


def loaded_after(*words: str) -> set[str]:
    """The modules that a command has loaded when it ends."""
    code = (
        "import sys\nfrom lapis.cli.main import main\n"
        f"try: main({list(words)!r})\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "sys.stderr.write(' '.join(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout
    return set(ran.stderr.split())


@pytest.mark.parametrize("command", ["infer", "map"])
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["table", "json"])
def test_a_small_model_is_answered_without_compilers_and_engines(
    command: str, form: tuple[str, ...]
) -> None:
    model, data = (str(example_path(f"smokers.{kind}")) for kind in ("mln", "db"))
    loaded = loaded_after(command, model, data, "-q", "Smokes,Cancer", *form)
    assert "numpy" in loaded
    assert not loaded & {"numba", "scipy", "duckdb", "highspy", "flint"}


@pytest.mark.parametrize("words", [("--help",), ("infer", "--help"), ("field", "--help")])
def test_help_loads_no_arrays(words: tuple[str, ...]) -> None:
    loaded = loaded_after(*words)
    assert not loaded & {"numpy", "numba", "scipy", "duckdb"}


def test_kernels_are_imported_without_numba() -> None:
    code = (
        "import sys, lapis.inference.sampling.kernels.gibbs, lapis.relational.join\n"
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- what is interpreted


@inner
def _half(number):  # type: ignore[no-untyped-def]
    return number >> np.uint64(1)


@entry
def _mix(numbers):  # type: ignore[no-untyped-def]
    key = np.uint64(7)
    for number in numbers:
        key = (key ^ number) * np.uint64(0x9E3779B97F4A7C15) + _half(key)
    return np.int64(_half(key))


@allocating_entry
def _never_compiled(numbers):  # type: ignore[no-untyped-def]
    return numbers + 1


def test_interpreted_kernels_give_the_same_numbers() -> None:
    numbers = np.arange(50, dtype=np.uint64)
    assert _mix.interpret(numbers) == _mix(numbers)


def test_little_work_is_interpreted_where_the_kernel_was_never_compiled() -> None:
    _mix(np.arange(2, dtype=np.uint64))
    assert _mix.for_work(1) == _mix
    assert compiler.is_kept(_mix)
    assert not compiler.is_kept(_never_compiled)
    assert _never_compiled.for_work(STEPS_A_SECOND // 2) == _never_compiled.interpret
    assert _never_compiled.for_work(STEPS_A_SECOND + 1) == _never_compiled


# --- what is kept


def test_kernels_of_a_version_whose_types_have_moved_are_compiled_again(tmp_path: Path) -> None:
    """The index of a kernel names the types it was called with by their modules."""
    source = "from typing import NamedTuple\nclass Pair(NamedTuple):\n    one: int\n"
    kernel = "from lapis.compiled import entry\n@entry\ndef first(pair):\n    return pair.one\n"
    for name, text in (("old_place", source), ("new_place", source), ("some_kernel", kernel)):
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    call = "import {0}, some_kernel\nassert some_kernel.first({0}.Pair(3)) == 3\n"

    def run(place: str) -> None:
        code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{call.format(place)}"
        subprocess.run([sys.executable, "-c", code], check=True, timeout=300)

    run("old_place")
    (tmp_path / "old_place.py").unlink()
    run("new_place")
