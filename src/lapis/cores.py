"""How much can be done at the same time."""

from __future__ import annotations

import os


def num_cores() -> int:
    """Cores that this process may use, which may be fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
