"""Worker processes: one pool for all jobs that run side by side.

The pool is loky's executor. Its workers are fresh interpreters, because threads of compiled code do
not survive a fork. They do not import the user's script, so that a plain script without
`if __name__ == "__main__"` can ask for several jobs. Functions that the script or a notebook
defines are pickled by value.

Workers ignore Ctrl-C: the process that waits for them receives it and ends them. An exception in a
worker is raised again where its result is read. A worker that dies raises `BrokenProcessPool`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from typing import Any, TypeVar

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
