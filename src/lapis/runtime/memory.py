"""Return free heap pages (`malloc_trim`, glibc only), and pause the garbage collector.

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
from collections.abc import Callable
from typing import ParamSpec, TypeVar

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
