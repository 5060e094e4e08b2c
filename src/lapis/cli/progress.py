"""Progress bars on a terminal, silence elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from lapis.progress import Progress, Report, compilations
from lapis.results.escaping import escape

TEXT_WIDTH = 32  # of what the user wrote: a formula, a file


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
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(title, total=None)

        def move(event: Progress) -> None:
            bars.update(task, completed=event.done, total=event.total, description=describe(event))

        compilations.append(move)
        try:
            yield move
        finally:
            compilations.remove(move)


def describe(event: Progress) -> str:
    """The event in a line: phase, how far, figures, and what is being done."""
    text = escape(" ".join(event.text.split()), "terminal")
    shown = text if len(text) <= TEXT_WIDTH else f"{text[: TEXT_WIDTH - 1]}…"
    return f"{event}: {shown}" if shown else str(event)
