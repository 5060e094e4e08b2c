"""Start-up time: the first job of an installation, and the smallest jobs.

    python benchmarks/startup.py [cold] [warm] [--people 1000] [--friends 10] [--runs 3]

`cold` is `lapis infer` and `lapis map` on friends and smokers (data as in `scale.py`) with an empty
cache: wall seconds, CPU seconds of all processes, and for each process the compile times of its
kernels, without the kernels that they call. A second run uses the cache of the first one. `warm` is
a model of eight people and `--help`, the best of some runs. On a busy machine CPU seconds are more
reliable than wall seconds.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from scale import write_facts

from lapis.examples import example_path

TARGETS = {"infer": 20.0, "map": 20.0, "small infer": 0.7, "--help": 0.4}

# Loaded by every Python process below: tells what numba compiled, and for how long.
TRACE = """
import atexit, os, sys, time

rows, open_since = {}, []

def attach():
    from numba.core import event

    class Kernels(event.Listener):
        def on_start(self, told):
            open_since.append([time.thread_time(), 0.0])

        def on_end(self, told):
            began, inside = open_since.pop()
            seconds = time.thread_time() - began
            if open_since:
                open_since[-1][1] += seconds
            name = told.data["dispatcher"].py_func.__qualname__
            rows[name] = rows.get(name, 0.0) + seconds - inside

    event.register("numba:compile", Kernels())

class AfterNumba:
    def find_spec(self, name, path=None, target=None):
        if name == "lapis.runtime.kernels":
            sys.meta_path.remove(self)
            attach()

sys.meta_path.insert(0, AfterNumba())

@atexit.register
def tell():
    used = os.times()
    with open(os.path.join(os.environ["START_TRACE"], str(os.getpid())), "w") as file:
        print(" ".join(sys.argv[-1:]), used.user + used.system, sep="\\t", file=file)
        for name, seconds in rows.items():
            print(name, seconds, sep="\\t", file=file)
"""


def run(words: Sequence[str], folder: Path, traced: bool = False) -> tuple[float, float]:
    """Return wall and CPU seconds of `lapis` and the processes that it starts."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "kernels")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if traced:
        (folder / "trace").mkdir(exist_ok=True)
        (folder / "site").mkdir(exist_ok=True)
        (folder / "site" / "sitecustomize.py").write_text(TRACE)
        paths = [str(folder / "site"), environment.get("PYTHONPATH", "")]
        environment |= {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "START_TRACE": str(folder / "trace"),
        }
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "lapis", *words],
        env=environment, stdout=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, used


def show(name: str, wall: float, used: float, remark: str = "") -> None:
    print(f"{name:28} {wall:7.2f} s by the clock {used:7.2f} s of processors  {remark}", flush=True)


def show_cold(people: int, friends: int) -> None:
    for command in ("infer", "map"):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            words = write_job(command, folder, people, friends)
            show(f"first {command}", *run(words, folder), f"target {TARGETS[command]:g} s")
            show(f"second {command}", *run(words, folder))
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            run(write_job(command, folder, people, friends), folder, traced=True)
            show_kernels(folder / "trace")


def write_job(command: str, folder: Path, people: int, friends: int) -> list[str]:
    """Return the arguments of a job on files in the folder."""
    from inference import MODEL

    model, data = folder / "m.mln", folder / "d.db"
    model.write_text(MODEL)
    write_facts(data, people, friends)
    return [command, str(model), str(data), "-q", "Smokes,Cancer", "--json"]


def show_kernels(folder: Path) -> None:
    """Print processes and the kernels that they compiled, the slowest first."""
    for path in sorted(folder.iterdir()):
        (process, used), *rows = (line.split("\t") for line in path.read_text().splitlines())
        kernels = sorted(((float(seconds), name) for name, seconds in rows), reverse=True)
        total = sum(seconds for seconds, _ in kernels)
        print(f"    {process}: {float(used):.2f} s, of which {total:.2f} s compiling")
        for seconds, name in kernels:
            if seconds >= 0.1:
                print(f"        {seconds:5.2f} s  {name}")


def show_warm(runs: int) -> None:
    model, data = (str(example_path(f"smokers.{kind}")) for kind in ("mln", "db"))
    jobs = {"small infer": ["infer", model, data, "-q", "Smokes,Cancer"], "--help": ["--help"]}
    for name, words in jobs.items():
        with tempfile.TemporaryDirectory() as folder:
            run(words, Path(folder))
            found = [run(words, Path(folder)) for _ in range(runs)]
        show(name, *map(min, zip(*found, strict=True)), f"target {TARGETS[name]:g} s")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", nargs="*", default=["cold", "warm"])
    parser.add_argument("--people", type=int, default=1000)
    parser.add_argument("--friends", type=int, default=10)
    parser.add_argument("--runs", type=int, default=3)
    chosen = parser.parse_args()
    if "warm" in chosen.what:
        show_warm(chosen.runs)
    if "cold" in chosen.what:
        show_cold(chosen.people, chosen.friends)


if __name__ == "__main__":
    main()
