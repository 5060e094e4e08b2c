"""The same jobs on every engine, from 10^5 to 10^7 people with ten friends each.

    python benchmarks/engines.py [--people N …] [--engine NAME …] [--job NAME …] [--plot FILE]

Friends and smokers are tables of integers, created by SQL on the engine (for DuckDB in a file, for
Spark as Parquet). Jobs: `count` the true groundings of five formulas, `learn` their weights by
pseudo-likelihood, `infer` the marginals of Smokes and Cancer with friends in groups of twelve. Each
group is a component, solved exactly, and the answers are written to a Parquet file.

Every job runs in its own process. "Here" is that process, which includes DuckDB. "There" are the
processes of a PostgreSQL server or of Spark's Java. Their memory is sampled every half second, and
shared pages are counted once. With the engine `memory` the arrays exist before the clock starts, so
reading is not measured.

`--engine` takes memory, duckdb, postgresql (a server from the `pgserver` wheel) and spark
(local[2]). A job that exceeds `--memory` gigabytes here, or `--seconds`, is stopped and reported;
larger jobs of the same kind are then skipped. All rows together take about `--budget` seconds: each
row is also limited by the rest of it.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import numpy as np

import lapis

if TYPE_CHECKING:
    from lapis.stores import Store

FRIENDS = 10
MODEL = """
Smokes(person)
Cancer(person)
Friends(person, person)
Smokes(x)
Cancer(x)
Friends(x, y)
Smokes(x) => Cancer(x)
Friends(x, y) ^ Smokes(x) => Smokes(y)
"""
# For marginals: groups in which everybody knows the next ten, a third of the smokers known.
GROUP = 12
WEIGHTED = """
Smokes(person)
Cancer(person)
Friends(person, person)
-1 Smokes(x)
1.5 Smokes(x) => Cancer(x)
0.3 Friends(x, y) ^ Smokes(x) => Smokes(y)
"""
JOBS = ("count", "learn", "infer")
ENGINES = ("memory", "duckdb", "postgresql", "spark")
SIZES = (100_000, 1_000_000, 10_000_000)
# Multiplicative hashes give the same numbers in every dialect and in numpy.
HASH = 2_654_435_761
OTHER_HASH = 2_246_822_519
WORD = 2**32


@dataclass(frozen=True)
class Job:
    name: str
    engine: str
    people: int
    place: str  # a URL, or nothing for memory


@dataclass(frozen=True)
class Usage:
    """The resources of some processes, summed."""

    processor: float = 0.0  # seconds
    gigabytes: float = 0.0  # at most


@dataclass(frozen=True)
class Cost:
    seconds: float  # wall
    processor: float  # seconds here
    gigabytes: float  # at most, here
    rows: int  # that came back
    there: Usage  # of a server's processes, or of Java
    answer: tuple[float, ...]  # counts or weights, to compare


def main(arguments: list[str]) -> int:
    asked = parse(arguments)
    found: dict[Job, Cost | str] = {}
    print(f"{'job':8}{'people':>12}{'tuples':>14}  {'engine':12}{'seconds':>9}{'cpu':>8}"
          f"{'GB here':>9}{'cpu there':>11}{'GB there':>10}{'rows back':>11}  answer")  # fmt: skip
    began = time.monotonic()
    stopped: dict[tuple[str, str], str] = {}  # jobs of an engine that a smaller size ended
    for people in asked.people:
        for engine in asked.engine:
            for name in asked.job:
                left = asked.budget - (time.monotonic() - began)
                job = Job(name, engine, whole(people, name), "")
                if (name, engine) in stopped:
                    found[job] = f"not tried: fewer people {stopped[name, engine]}"
                elif left <= 0:
                    found[job] = f"not tried: {asked.budget:g} s were over"
                else:
                    with opened(engine, job.people, name) as place:
                        job = replace(job, place=place)
                        limit = min(asked.seconds, left)
                        found[job] = cost = run_apart(job, asked.memory, limit)
                    if isinstance(cost, str):
                        stopped[name, engine] = cost
                print(line(job, found[job]), flush=True)
    wrong = compare(found)
    if asked.plot:
        draw(found, asked.plot)
    return wrong


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--people", type=int, nargs="+", default=SIZES)
    parser.add_argument("--engine", nargs="+", choices=ENGINES, default=ENGINES)
    parser.add_argument("--job", nargs="+", choices=JOBS, default=JOBS)
    parser.add_argument("--memory", type=float, default=4.0, help="gigabytes here")
    parser.add_argument("--seconds", type=float, default=300.0, help="for one job")
    parser.add_argument("--budget", type=float, default=2100.0, help="seconds for all jobs")
    parser.add_argument("--plot", type=Path)
    return parser.parse_args(arguments)


def line(job: Job, cost: Cost | str) -> str:
    text = f"{job.name:8}{job.people:12,}{tuples(job.people):14,}  {job.engine:12}"
    if isinstance(cost, str):
        return text + cost
    shown = " ".join(f"{value:.6g}" for value in cost.answer)
    return text + (
        f"{cost.seconds:9.1f}{cost.processor:8.1f}{cost.gigabytes:9.2f}"
        f"{cost.there.processor:11.1f}{cost.there.gigabytes:10.2f}{cost.rows:11,}  {shown}"
    )


def whole(people: int, name: str) -> int:
    """Round the number of people up to whole groups."""
    return people - people % GROUP if name == "infer" else people


def tuples(people: int) -> int:
    """Return the approximate number of facts."""
    return people * FRIENDS + people // 2


def compare(found: Mapping[Job, Cost | str]) -> int:
    """Return whether engines differ in an answer; print the differences."""
    wrong = 0
    for job, cost in found.items():
        for other, known in found.items():
            same = (other.name, other.people) == (job.name, job.people)
            both = isinstance(cost, Cost) and isinstance(known, Cost)
            if both and same and not np.allclose(known.answer, cost.answer, rtol=1e-12, atol=0):
                wrong = 1
                print(f"{job.name} of {job.people:,}: {job.engine} and {other.engine} differ")
    return wrong


# Where the data is


@contextlib.contextmanager
def opened(engine: str, people: int, name: str) -> Iterator[str]:
    """Yield the place of the tables, which are removed at the end."""
    if engine != "duckdb":
        with running(engine) as place:
            yield place
        return
    import duckdb

    from lapis.stores.dialect import DUCKDB

    with tempfile.TemporaryDirectory(prefix="lapis-engines-") as folder:
        file = f"{folder}/people.duckdb"
        with duckdb.connect(file, config={"memory_limit": "2GB"}) as connection:
            for table, select in selects(people, DUCKDB.numbers, name).items():
                connection.execute(f"CREATE TABLE {table} AS {select}")
        yield f"duckdb:{file}"


@contextlib.contextmanager
def running(engine: str) -> Iterator[str]:
    """Yield the URL of an engine, and start its server if needed; "" for memory."""
    if engine != "postgresql":
        yield {"memory": "", "duckdb": "duckdb", "spark": "local[2]"}[engine]
        return
    with warnings.catch_warnings(), tempfile.TemporaryDirectory(prefix="lapis-engines-") as folder:
        warnings.simplefilter("ignore")
        import pgserver

        server = pgserver.get_server(folder, cleanup_mode="stop")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


def selects(people: int, numbers: str, name: str) -> dict[str, str]:
    """Return a query for each table of a job; `numbers` is the dialect's source of numbers."""
    one = f"(SELECT CAST(i AS BIGINT) AS i FROM {numbers.format(size=people)}) a"
    many = f"(SELECT CAST(i AS BIGINT) AS k FROM {numbers.format(size=FRIENDS)}) b"
    tenth = people // FRIENDS
    friend = (
        f"(i + 1 + k + (((i * {FRIENDS} + k) * {HASH} % {WORD}) % {tenth}) * {FRIENDS}) % {people}"
    )
    if name == "infer":
        friend = f"i - i % {GROUP} + (i + 1 + k) % {GROUP}"
    return {
        "smokes": f"SELECT i AS person FROM {one} WHERE (i * {HASH} % {WORD}) % 10 < 3",
        "cancer": f"SELECT i AS person FROM {one} WHERE (i * {OTHER_HASH} % {WORD}) % 10 < 2",
        "friends": f"SELECT i AS one, {friend} AS other FROM {one} CROSS JOIN {many}",
    }


def arrays(people: int, name: str) -> dict[str, np.ndarray]:
    """Return the same tables as arrays, int32[n, arity]."""
    i = np.arange(people, dtype=np.int64)
    smokes = i[(i * HASH % WORD) % 10 < 3]
    cancer = i[(i * OTHER_HASH % WORD) % 10 < 2]
    others = np.empty((people, FRIENDS), np.int32)
    for k in range(FRIENDS):
        if name == "infer":
            others[:, k] = i - i % GROUP + (i + 1 + k) % GROUP
        else:
            spread = ((i * FRIENDS + k) * HASH % WORD) % (people // FRIENDS)
            others[:, k] = (i + 1 + k + spread * FRIENDS) % people
    others.sort(axis=1)
    friends = np.stack([np.repeat(i.astype(np.int32), FRIENDS), others.ravel()], axis=1)
    return {
        "Smokes": smokes.astype(np.int32)[:, None],
        "Cancer": cancer.astype(np.int32)[:, None],
        "Friends": friends,
    }


def here(people: int, name: str) -> lapis.Database:
    """Return a database of arrays."""
    from lapis.data.database import Domain, Relation

    types = {"Smokes": ("person",), "Cancer": ("person",), "Friends": ("person", "person")}
    relations = {}
    for predicate, rows in arrays(people, name).items():
        none = rows[:0]
        relations[predicate] = Relation(predicate, types[predicate], rows, none, none)
    return lapis.Database(
        {"person": Domain("person", tuple(map(str, range(people))))}, relations, "people"
    )


def there(store: Store, job: Job) -> lapis.Database:
    from lapis.stores import open_tables

    tables = {"Smokes": "smokes", "Cancer": "cancer", "Friends": "friends"}
    if job.engine == "duckdb":
        return open_tables(store, {name: f"data.{table}" for name, table in tables.items()})
    made = selects(job.people, store.dialect.numbers, job.name)
    return open_tables(
        store, {name: str(store.create(table, made[table])) for name, table in tables.items()}
    )


# One job


def run_apart(job: Job, gigabytes: float, seconds: float) -> Cost | str:
    """Run a job in its own process; stop it if it exceeds a limit."""
    spawn = multiprocessing.get_context("spawn")
    receiver, sender = spawn.Pipe(duplex=False)
    found: Cost | str = f"stopped after {seconds:.0f} s"
    with tempfile.TemporaryDirectory(prefix="lapis-engines-") as folder:
        process = spawn.Process(target=run, args=(job, gigabytes, folder, sender))
        process.start()
        sender.close()
        if receiver.poll(seconds):
            try:
                found = receiver.recv()
            except EOFError:
                found = f"memory stops at {gigabytes:g} GB"
        stop(process)
    return found


def stop(process: BaseProcess) -> None:
    """End a job and the processes that it started, by their numbers."""
    others = descendants(process.pid or 0)
    process.terminate()
    process.join(10)
    if process.is_alive():
        process.kill()
        process.join()
    for pid in others:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def run(job: Job, gigabytes: float, folder: str, sender: Connection) -> None:
    tempfile.tempdir = folder  # what a job that is stopped leaves goes with it
    try:
        sender.send(measure(job, gigabytes))
    except MemoryError:
        sender.send(f"memory stops at {gigabytes:g} GB")
    except Exception as error:  # a table with a hole says more than no table
        sender.send(f"failed: {error}")


def measure(job: Job, gigabytes: float) -> Cost:
    from lapis.stores import open_store

    model = lapis.parse(WEIGHTED if job.name == "infer" else MODEL)
    if job.engine == "memory":
        data = here(job.people, job.name)
        resource.setrlimit(resource.RLIMIT_DATA, (int(gigabytes * 2**30), resource.RLIM_INFINITY))
        return timed(job, model, data, [])
    # Half of what is allowed is DuckDB's own; the rest is for what it does not count.
    with open_store(job.place, int(gigabytes * 2**30 * 0.55)) as store:
        data = there(store, job)
        rows: list[int] = []
        count_rows(store, rows)
        return timed(job, model, data, rows)


def count_rows(store: Store, rows: list[int]) -> None:
    """Record the number of rows of every fetch."""
    fetch = store.fetch

    def counted(select: str) -> Iterator[Mapping[str, np.ndarray]]:
        for batch in fetch(select):
            rows.append(len(next(iter(batch.values()))))
            yield batch

    store.fetch = counted  # type: ignore[method-assign]


def timed(job: Job, model: lapis.Model, data: lapis.Database, rows: list[int]) -> Cost:
    with Watch(job) as watch:
        began, worked = time.perf_counter(), time.process_time()
        answer = do(job.name, model, data)
        seconds, processor = time.perf_counter() - began, time.process_time() - worked
    return Cost(
        seconds,
        processor,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        sum(rows),
        watch.usage,
        answer,
    )


# What an engine takes in processes that are not this one


class Watch:
    """Samples the memory of a server's processes, or of this process's children, during a job."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.usage = Usage()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._seen: dict[int, tuple[float, float]] = {}  # processor seconds at first and at last

    def __enter__(self) -> Watch:
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._look()

    def _run(self) -> None:
        while not self._ended.wait(0.5):
            self._look()

    def _look(self) -> None:
        gigabytes = 0.0
        for pid in self._processes():
            with contextlib.suppress(OSError, ValueError, IndexError):
                worked, size = read_process(pid)
                fresh = worked if not self._seen or pid in self._seen else 0.0
                self._seen[pid] = self._seen.get(pid, (fresh, 0.0))[0], worked
                gigabytes += size
        worked = sum(last - first for first, last in self._seen.values())
        self.usage = Usage(worked, max(self.usage.gigabytes, gigabytes))

    def _processes(self) -> list[int]:
        if self.job.engine == "postgresql":
            folder = parse_qs(urlsplit(self.job.place).query)["host"][0]
            server = int(Path(folder, "postmaster.pid").read_text().split()[0])
            return [server, *descendants(server)]
        return descendants(os.getpid())


def read_process(pid: int) -> tuple[float, float]:
    """Return the CPU seconds of a process so far, and its memory in GB."""
    numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    told = Path(f"/proc/{pid}/smaps_rollup").read_text()
    kilobytes = next(int(row.split()[1]) for row in told.splitlines() if row.startswith("Pss:"))
    ticks = os.sysconf("SC_CLK_TCK")
    return (int(numbers[11]) + int(numbers[12])) / ticks, kilobytes / 2**20


def descendants(pid: int) -> list[int]:
    """Return the children of a process, and their children."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text().split()):
                found += [child, *descendants(child)]
    return found


def do(name: str, model: lapis.Model, data: Any) -> tuple[float, ...]:
    if name == "count":
        return tuple(row.true for row in lapis.count(model, data).rows)
    if name == "learn":
        return tuple(lapis.learn(model, data).weights.tolist())
    query = ["Smokes", "Cancer"]
    if type(data) is lapis.Database:
        return (lapis.infer(model, data, query).log_partition or 0.0,)
    with tempfile.TemporaryDirectory() as folder:
        stored = lapis.infer_to_store(model, data, query, output=f"{folder}/marginals.parquet")
        return (stored.total,)


def draw(found: Mapping[Job, Cost | str], file: Path) -> None:
    """Plot cost against tuples on logarithmic axes, with dotted lines of slope one.

    CPU seconds if all work is in this process, otherwise seconds of the clock.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(JOBS), figsize=(4.5 * len(JOBS), 4), squeeze=False)
    for axis, name in zip(axes[0], JOBS, strict=True):
        for engine in ENGINES:
            is_here = engine in ("memory", "duckdb")
            points = [
                (tuples(job.people), cost.processor if is_here else cost.seconds)
                for job, cost in found.items()
                if isinstance(cost, Cost) and (job.name, job.engine) == (name, engine)
            ]
            if points:
                x, y = map(np.array, zip(*points, strict=True))
                label = f"{engine} ({'cpu' if is_here else 'clock'})"
                (drawn,) = axis.loglog(x, y, "o-", label=label)
                axis.loglog(x, y[0] * x / x[0], ":", color=drawn.get_color(), linewidth=1)
        axis.set(title=name, xlabel="tuples", ylabel="seconds")
        if axis.lines:
            axis.legend()
    figure.tight_layout()
    figure.savefig(file)
    pyplot.close(figure)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
