"""Progress bars on a terminal, silence elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from lapis.results.result import escape
from lapis.runtime.progress import Progress, Report, compilations

TEXT_WIDTH = 32  # of what the user wrote: a formula, a file
BAR_WIDTH, CLOCK_WIDTH = 20, 9  # of a line, with the spaces between


@contextmanager
def progress_bar(title: str) -> Iterator[Report | None]:
    """A callback that moves a bar, or None where nobody watches."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=BAR_WIDTH),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Bars(*columns, console=console, transient=True) as bars:
        task = bars.add_task(title, total=None)

        def move(event: Progress) -> None:
            text = shorten(describe(event), console.width - BAR_WIDTH - CLOCK_WIDTH)
            bars.update(task, completed=event.done, total=event.total, description=text)

        compilations.append(move)
        try:
            yield move
        finally:
            compilations.remove(move)


def describe(event: Progress) -> str:
    """The event in a line: phase, how far, figures, and what is being done."""
    text = escape(" ".join(event.text.split()), "terminal")
    shown = shorten(text, TEXT_WIDTH)
    return f"{event}: {shown}" if shown else str(event)


def shorten(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(1, width) - 1]}…"
