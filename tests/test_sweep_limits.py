"""Hold every command, on work that is slow in each stage, to its limits of time and memory.

A limit holds to a second and 10 %. A command that ends at a limit has a result (exit code 0) or
says what did not end and writes no file (exit code 3). No process is left behind.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from limit_cases import CASES, Maker, SlowCase
from limit_run import Outcome, run_command

LIMITS = (0.1, 1.0, 5.0)
MAX_MEMORY = 1 << 30
FREE_MEMORY = 300 << 20  # a call may always take 256 MiB
# One case of each kind of stage, for the default suite.
SHORT = {
    "read facts", "read rules", "cubes, lift", "counted", "plus", "arity", "join, store",
    "dense, count", "large, open", "glass, gibbs", "glass, map ilp", "records", "structure lapis",
    "circuit learn greedy", "field learn likelihood",
}  # fmt: skip
FilesOf = Callable[[Maker], Path]


@pytest.fixture(scope="module")
def files_of(tmp_path_factory: pytest.TempPathFactory) -> FilesOf:
    """Make the files of a case once."""
    made: dict[Maker, Path] = {}

    def find(make: Maker) -> Path:
        if make not in made:
            made[make] = tmp_path_factory.mktemp(make.__name__)
            make(made[make])
        return made[make]

    return find


def run_case(case: SlowCase, folder: Path, words: str, limit: float) -> Outcome:
    for left in folder.glob("out.*"):
        left.unlink()
    return run_command([*case.words.split(), *words.split()], folder, limit + 60)


def check_ending(case: SlowCase, folder: Path, outcome: Outcome) -> None:
    assert "Traceback" not in outcome.err
    assert outcome.code in (0, 3), outcome.err
    assert outcome.is_alone
    written = [path.name for path in folder.glob("out.*")]
    if outcome.code == 3:
        assert not written
        assert outcome.err.strip()
    elif " -o out." in case.words:
        assert written


def check_time(case: SlowCase, folder: Path, limit: float) -> None:
    outcome = run_case(case, folder, f"--time-limit {limit}", limit)
    check_ending(case, folder, outcome)
    assert outcome.seconds <= 1.1 * limit + 1, outcome.err


@pytest.mark.parametrize("case", [c for c in CASES if c.name in SHORT], ids=lambda c: c.name)
def test_time_limits(case: SlowCase, files_of: FilesOf) -> None:
    check_time(case, files_of(case.make), 0.3)


@pytest.mark.slow
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_all_time_limits(case: SlowCase, limit: float, files_of: FilesOf) -> None:
    check_time(case, files_of(case.make), limit)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_memory_limits(case: SlowCase, files_of: FilesOf) -> None:
    folder = files_of(case.make)
    outcome = run_case(case, folder, f"--max-memory {MAX_MEMORY} --time-limit 15", 15)
    check_ending(case, folder, outcome)
    assert outcome.peak <= 1.1 * MAX_MEMORY + FREE_MEMORY
