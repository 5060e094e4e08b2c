"""Markdown of the page: tables, and how records and numbers are written."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from benchmarks.papers.cells import DONE, STOPPED, Record


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; the first row is the heading."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def number(value: float, digits: int = 3) -> str:
    """Return a number with a true minus sign; a dash for NaN."""
    if math.isnan(value):
        return "–"
    return f"{value:,.{digits}f}".replace("-", "−")


def minus(text: str) -> str:
    """Return a text of numbers with true minus signs."""
    return text.replace("-", "−")


def seconds(value: float) -> str:
    """Return a time in the largest unit that keeps it at least 1."""
    if math.isnan(value):
        return "–"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if value >= 2 * size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.2g} s" if value < 10 else f"{value:.0f} s"


def shown(record: Record, write: Callable[[Record], str]) -> str:
    """Return what a cell of the table shows: its figures, or why there are none."""
    if record.status == DONE:
        return write(record)
    if record.status == STOPPED:
        return write(record) + "*"
    if record.status == "out of time":
        return f"not done in {seconds(record.limit_seconds)}"
    return f"{record.status}: {record.reason}" if record.reason else record.status
