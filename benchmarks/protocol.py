"""The common protocol of the benchmarks: data folder, clocks, memory, separate processes."""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")

ROOT = Path(__file__).resolve().parents[1]
MODELS = ROOT / "benchmarks" / "models"
DATA = Path(os.environ.get("LAPIS_DATA", ROOT.parent / "shared" / "data"))


def has_data(path: Path) -> bool:
    """Return whether a path of the data exists; print how to provide it if not."""
    if not path.exists():
        print(f"no {path}: set LAPIS_DATA to the folder of data sets")
    return path.exists()


def data_folder(name: str) -> Path:
    """Return the folder of a data set; end the program if it does not exist."""
    if not has_data(DATA / name):
        sys.exit(1)
    return DATA / name


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """Return the result of a call and its CPU seconds."""
    began = time.process_time()
    result = work()
    return result, time.process_time() - began


def peak_memory() -> float:
    """Return the largest resident memory of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def run_in_process(work: Callable[..., object], *arguments: object) -> bool:
    """Call a function in a new process; return whether it succeeded."""
    process = multiprocessing.get_context("spawn").Process(target=work, args=arguments)
    process.start()
    process.join()
    return process.exitcode == 0
