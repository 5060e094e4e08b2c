"""Progress bars on a terminal, silence elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Progress = Callable[[int, int | None, str], None]  # done, in all if known, what is being done


@contextmanager
def progress_bar(title: str) -> Iterator[Progress | None]:
    """A callback that moves a bar, or None where nobody watches."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)

        def move(done: int, total: int | None, text: str) -> None:
            bar.update(task, completed=done, total=total, description=f"{title}: {text[:60]}")

        yield move


@contextmanager
def sampling_bar() -> Iterator[Callable[[Any], None] | None]:
    """A bar of samples with the current worst R-hat and standard error."""
    with progress_bar("sampling") as move:
        if move is None:
            yield None
            return

        def report(state: Any) -> None:
            quality = f"R-hat {state.worst_rhat:.3f}, error {state.worst_stderr:.4f}"
            move(state.num_samples, state.max_samples, f"{state.phase}, {quality}")

        yield report
