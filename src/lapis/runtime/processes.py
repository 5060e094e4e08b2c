"""Worker processes: one pool for all jobs that run side by side.

The pool is loky's executor. Its workers are fresh interpreters, because threads of compiled code do
not survive a fork. They do not import the user's script, so that a plain script without
`if __name__ == "__main__"` can ask for several jobs. Functions that the script or a notebook
defines are pickled by value.

Workers ignore Ctrl-C: the process that waits for them receives it and ends them. An exception in a
worker is raised again where its result is read. A worker that dies raises `BrokenProcessPool`.

Return free heap pages (`malloc_trim`, glibc only), and pause the garbage collector.

glibc takes arrays of up to 32 MiB from a heap once a few of that size were freed, and keeps freed
memory there. A stage leaves holes between the arrays that outlive it, into which the larger
arrays of the next stage do not fit: with four million unknowns half of the process's memory after
grounding was holes. `malloc_trim` returns whole free pages in milliseconds.

Python's collector walks all objects again whenever there are a quarter more. Statements, rules
and clauses hold no cycles, so it finds nothing among tens of thousands of formulas and takes half
of the time of reading and grounding them.
"""

from __future__ import annotations

import functools
import gc
import os
import signal
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from lapis.runtime.progress import Stop

STOP_SECONDS = 0.2  # between looks at whether to stop
T = TypeVar("T")


@contextmanager
def worker_pool(
    jobs: int, initializer: Callable[..., None] | None = None, initargs: tuple[Any, ...] = ()
) -> Iterator[Executor]:
    """Yield an executor of `jobs` processes, which end with the block.

    Each process calls `initializer(*initargs)` first.
    """
    from loky import ProcessPoolExecutor

    pool = ProcessPoolExecutor(jobs, initializer=start_worker, initargs=(initializer, initargs))
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, kill_workers=True)


def start_worker(initializer: Callable[..., None] | None, initargs: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if initializer is not None:
        initializer(*initargs)


def as_completed(futures: Collection[Future[T]], stop: Stop | None = None) -> Iterator[Future[T]]:
    """Yield futures as they finish; raise KeyboardInterrupt once `stop` is requested."""
    waiting = set(futures)
    while waiting:
        if stop is not None and stop():
            raise KeyboardInterrupt
        done, waiting = wait(waiting, STOP_SECONDS, FIRST_COMPLETED)
        yield from done


def num_cores() -> int:
    """Cores that this process may use, which may be fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


WORTH = 1 << 24  # bytes of arrays that outlive a stage: below, it leaves little behind


def give_back(num_bytes: int) -> None:
    """Return free pages, after a stage whose results take `num_bytes`."""
    if num_bytes >= WORTH:
        trimmer()(0)


@functools.cache
def trimmer() -> Callable[[int], object]:
    """glibc's malloc_trim, or something that does nothing."""
    import ctypes

    try:
        trim: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return bool
    return trim


P = ParamSpec("P")
R = TypeVar("R")


def collector_paused(function: Callable[P, R]) -> Callable[P, R]:
    """The function, run without the collector."""

    @functools.wraps(function)
    def paused(*args: P.args, **kwargs: P.kwargs) -> R:
        was_running = gc.isenabled()
        gc.disable()
        try:
            return function(*args, **kwargs)
        finally:
            if was_running:
                gc.enable()

    return paused
