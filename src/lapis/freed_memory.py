"""Memory that nobody uses any more goes back to the system between the stages of a large job.

glibc takes arrays of up to 32 MiB from a heap once a few of that size were freed, and keeps what is
freed there. A stage leaves holes between the arrays that outlive it, into which the larger ones
of the next do not fit: with four million unknowns half of what the process held after
grounding was holes. Asked for it, glibc gives back whole pages from everywhere in its heaps, in
milliseconds. Other C libraries do without.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

WORTH = 1 << 24  # bytes of arrays that outlive a stage: below, it leaves little behind


def give_back(num_bytes: int) -> None:
    """Return free pages, after a stage whose results take so many bytes."""
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
