"""Cells of the papers' tables and figures: run in processes with limits, kept as each one ends.

An `Experiment` is a table or a figure. Its cells are independent: a method on a fold, or a point
of a curve. Each runs in a process of its own, whose processor seconds and peak memory are
recorded. Its record is written to `results/NAME.json` as soon as it ends, so a run that is stopped
loses only the cells that were running. A cell that is not possible is recorded too, with its
status and the reason.

Every module of an experiment ends with `run(EXPERIMENT)`, which reads these options:

    python -m benchmarks.papers.MODULE [--only WORD …] [--again] [--list] [--processes N]

Seconds are processor seconds, so other work on the machine changes them little. At most as many
cells run on a machine as it has cores, whatever the number of programs that run them.
"""

from __future__ import annotations

import argparse
import fcntl
import importlib.metadata
import json
import math
import multiprocessing
import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from lapis.data.atomic_write import replace_path
from lapis.errors import TooLarge

RESULTS = Path(__file__).parent / "results"
DONE = "done"
STOPPED = "stopped"  # ended by its own limit, with a result
REFUSED = "refused"  # a limit of Lapis
OUT_OF_TIME = "out of time"
OUT_OF_MEMORY = "out of memory"
FAILED = "failed"
TURN = 100  # processor seconds that a program keeps a core for several short cells
WALL_FACTOR = 40  # wall seconds at most, for each processor second of a cell's limit


class Outcome(NamedTuple):
    """What the work of a cell returns."""

    figures: Mapping[str, Any]  # numbers, strings and lists of them
    settings: Mapping[str, Any] = {}  # those that were chosen during the work
    status: str = DONE
    reason: str = ""


@dataclass(frozen=True)
class Cell:
    """One result of an experiment."""

    key: str  # such as imdb/lhl/fold1
    work: Callable[..., Outcome]  # a function of a module
    arguments: Mapping[str, Any]  # JSON values; a seed is one of them
    seconds: float = 600.0  # processor seconds at most
    memory: float = 8.0  # gigabytes of address space at most


class Record(NamedTuple):
    """The record of a cell."""

    status: str
    figures: Mapping[str, Any] = {}
    settings: Mapping[str, Any] = {}
    arguments: Mapping[str, Any] = {}
    reason: str = ""
    cpu_seconds: float = 0.0
    peak_mb: float = 0.0
    limit_seconds: float = 0.0
    versions: Mapping[str, str] = {}

    @property
    def has_result(self) -> bool:
        return self.status in (DONE, STOPPED)

    def figure(self, name: str) -> float:
        """Return a number, or NaN if the cell has no result."""
        value = self.figures.get(name) if self.has_result else None
        return math.nan if value is None else float(value)


MISSING = Record("not run")


@dataclass(frozen=True)
class Results:
    """The records of an experiment by the keys of their cells."""

    records: Mapping[str, Record]

    def __getitem__(self, key: str) -> Record:
        return self.records.get(key, MISSING)

    def under(self, prefix: str) -> list[Record]:
        """Return the records whose keys start with a prefix, in the order of the keys."""
        return [self.records[key] for key in sorted(self.records) if key.startswith(prefix)]


class Choice(NamedTuple):
    """How a setting was chosen, for the list at the end of the page."""

    setting: str
    how: str
    blind: bool  # no test fold was looked at


class Section(NamedTuple):
    """An experiment on the page: Markdown without a heading, and one line for the summary."""

    text: str
    verdict: str
    choices: Sequence[Choice] = ()


@dataclass(frozen=True)
class Experiment:
    """A table or a figure of a paper."""

    name: str  # of the module and of the file of results
    title: str  # such as "Table 2: structure learning"
    paper: str  # a key of page.PAPERS
    cells: Callable[[], Sequence[Cell]]
    section: Callable[[Results], Section]
    smallest: Cell  # run by the tests on small data, not recorded
    draw: Callable[[Results, Path], None] | None = field(default=None)  # pictures into a folder


def results_file(name: str) -> Path:
    return RESULTS / f"{name}.json"


def read_results(name: str) -> Results:
    """Return the records of an experiment; none if it was never run."""
    path = results_file(name)
    if not path.exists():
        return Results({})
    document = json.loads(path.read_text(encoding="utf-8"))
    return Results({key: Record(**value) for key, value in document.items()})


def keep(name: str, key: str, record: Record) -> None:
    """Add a record to the file of an experiment, one cell a line."""
    RESULTS.mkdir(exist_ok=True)
    with locked(RESULTS / f".{name}.lock"):
        records = dict(read_results(name).records) | {key: record}
        lines = [
            f"{json.dumps(each)}: {json.dumps(slim(records[each]), ensure_ascii=False)}"
            for each in sorted(records)
        ]
        text = "{\n" + ",\n".join(lines) + "\n}\n"
        replace_path(results_file(name), lambda path: Path(path).write_text(text, "utf-8"))


def slim(record: Record) -> dict[str, Any]:
    """Return the fields that are not empty, with NaN as None."""
    return {name: clean(value) for name, value in record._asdict().items() if value not in ({}, "")}


def clean(value: Any) -> Any:
    """Return plain JSON values: floats of six digits, None for NaN."""
    if isinstance(value, Mapping):
        return {str(name): clean(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [clean(each) for each in value]
    if hasattr(value, "tolist"):
        return clean(value.tolist())
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file."""
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def free_core() -> Iterator[None]:
    """Wait until fewer cells run on this machine than it has cores; programs wait in turn."""
    folder = Path(tempfile.gettempdir())
    with locked(folder / "lapis-cells-queue.lock"):
        core = take_core(folder)
        while core is None:
            time.sleep(0.02)
            core = take_core(folder)
    with core:
        yield


def take_core(folder: Path) -> TextIO | None:
    """Lock one of the files that stand for cores; return None if none is free."""
    for number in range(os.cpu_count() or 1):
        file = open(folder / f"lapis-cell-{number}.lock", "w")  # noqa: SIM115, closed by the caller
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            continue
        return file
    return None


def run_cell(cell: Cell) -> Record:
    """Run a cell in a new process and return its record."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=work_apart, args=(cell, theirs))
    process.start()
    theirs.close()
    answer = None
    if ours.poll(WALL_FACTOR * cell.seconds):
        with suppress(EOFError):
            answer = ours.recv()
    else:
        process.kill()
    process.join()
    if answer is not None:
        return answer
    ended = {-signal.SIGXCPU: OUT_OF_TIME, -signal.SIGKILL: OUT_OF_TIME}
    status = ended.get(process.exitcode or 0, FAILED)
    reason = "" if status == OUT_OF_TIME else f"exit code {process.exitcode}"
    return describe(Record(status, reason=reason, cpu_seconds=cell.seconds), cell)


def work_apart(cell: Cell, answer: Connection) -> None:
    """Do the work of a cell in this process, within its limits."""
    os.nice(3)
    seconds = math.ceil(cell.seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    size = int(cell.memory * 1e9)
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    try:
        record = Record(*do_work(cell))
    except MemoryError:
        record = Record(OUT_OF_MEMORY)
    except Exception:
        traceback.print_exc()
        record = Record(FAILED, reason=traceback.format_exc(limit=0).strip().splitlines()[-1])
    used = resource.getrusage(resource.RUSAGE_SELF)
    record = record._replace(cpu_seconds=used.ru_utime + used.ru_stime)
    answer.send(describe(record._replace(peak_mb=used.ru_maxrss / 1024), cell))


def do_work(cell: Cell) -> tuple[str, Mapping[str, Any], Mapping[str, Any], Mapping[str, Any], str]:
    """Return the first fields of the record of a cell, in this process."""
    try:
        found = cell.work(**cell.arguments)
    except TooLarge as error:
        return REFUSED, {}, {}, cell.arguments, error.message
    return found.status, found.figures, found.settings, cell.arguments, found.reason


def describe(record: Record, cell: Cell) -> Record:
    return record._replace(
        arguments=cell.arguments, limit_seconds=cell.seconds, versions=find_versions()
    )


def find_versions() -> dict[str, str]:
    """Return the versions of this program, its commit, and the libraries that compute."""
    root = Path(__file__).parents[2]
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=root, capture_output=True, text=True
    )
    libraries = ("lapis-mln", "numpy", "scipy", "numba")
    return {
        "python": platform.python_version(),
        "commit": commit.stdout.strip(),
        **{name: importlib.metadata.version(name) for name in libraries},
    }


def run(experiment: Experiment, arguments: Sequence[str] | None = None) -> None:
    """Run the cells of an experiment that have no record yet."""
    options = argparse.ArgumentParser(description=experiment.title)
    options.add_argument("--only", nargs="*", default=[], help="cells whose keys have these words")
    options.add_argument("--again", action="store_true", help="also the cells that have a record")
    options.add_argument("--list", action="store_true", help="print the cells and what is recorded")
    options.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = options.parse_args(arguments)
    known = read_results(experiment.name)
    cells = [cell for cell in experiment.cells() if all(w in cell.key for w in given.only)]
    if given.list:
        for cell in cells:
            print(show(cell.key, known[cell.key]))
        return
    left = [cell for cell in cells if given.again or known[cell.key] is MISSING]
    print(f"{experiment.name}: {len(cells)} cells, {len(left)} to run", flush=True)

    cells_left = iter(left)

    def take_turns() -> None:
        """Run cells, one after the other, until none is left."""
        cell = next(cells_left, None)
        while cell is not None:
            with free_core():
                used = 0.0
                while cell is not None and used < TURN:
                    record = run_cell(cell)
                    used += record.cpu_seconds
                    keep(experiment.name, cell.key, record)
                    print(show(cell.key, record), flush=True)
                    cell = next(cells_left, None)

    with ThreadPoolExecutor(given.processes) as pool:
        try:
            list(pool.map(lambda _: take_turns(), range(given.processes)))
        except KeyboardInterrupt:
            list(cells_left)  # so that no thread starts another one
            sys.exit("stopped; the cells that ended are kept")


def show(key: str, record: Record) -> str:
    figures = "  ".join(
        f"{name} {value:.4g}" for name, value in record.figures.items() if isinstance(value, float)
    )
    return f"{key}: {record.status} {record.reason}  {figures}  {record.cpu_seconds:.1f} s"
