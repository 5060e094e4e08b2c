"""Worker processes, cores and memory.

**Workers.** The pool is loky's executor. Its workers are new interpreters, because threads of
compiled code do not survive a fork. They do not import the user's script, so that a script without
`if __name__ == "__main__"` can use several jobs. Functions that the script or a notebook defines
are pickled by value. Workers ignore Ctrl-C; the parent process receives it and ends them. An
exception in a worker is raised again where its result is read. A worker that dies raises
`BrokenProcessPool`.

**Memory.** glibc allocates arrays of up to 32 MiB on its heap and keeps freed memory there. The
larger arrays of the next stage do not fit into the gaps between arrays that outlive a stage: with
four million unknowns, half of the memory after grounding was gaps. `malloc_trim` returns free pages
in milliseconds.

**Garbage collection.** Statements, rules and clauses have no reference cycles. With tens of
thousands of formulas, Python's cyclic collector took half of the time of reading and grounding.
"""

from __future__ import annotations

import functools
import gc
import os
import signal
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar

from lapis.runtime.progress import Stop

STOP_SECONDS = 0.2  # between checks of `stop`
P = ParamSpec("P")
R = TypeVar("R")
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
    """Yield futures as they finish; raise KeyboardInterrupt once `stop` is over."""
    waiting = set(futures)
    while waiting:
        if stop is not None and stop.is_over():
            raise KeyboardInterrupt
        done, waiting = wait(waiting, STOP_SECONDS, FIRST_COMPLETED)
        yield from done


class ThreadPool(ThreadPoolExecutor):
    """Threads that work within the limits of the call that submits the work."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return super().submit(partial(copy_context().run, fn, *args, **kwargs))


def num_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


MIN_TRIMMED_BYTES = 1 << 24  # size of results below which trimming is not worth its time


def trim_heap(num_bytes: int) -> None:
    """Return free heap pages to the system after a stage whose results take `num_bytes`."""
    if num_bytes >= MIN_TRIMMED_BYTES:
        find_malloc_trim()(0)


@functools.cache
def find_malloc_trim() -> Callable[[int], object]:
    """Return `malloc_trim` of glibc, or a function that does nothing."""
    import ctypes

    try:
        trim: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return bool
    return trim


def pause_collector(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function to run with the cyclic garbage collector off."""

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
