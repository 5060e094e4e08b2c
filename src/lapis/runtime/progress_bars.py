"""The display of progress: bars on a terminal, lines in a notebook, and the logger `lapis`.

Functions of the API show progress by default (`progress=True`), commands always. On a terminal rich
draws a bar for each stage, on the error stream. In a notebook one output holds a line for each
stage. A display begins after `DELAY` seconds of work and is removed at the end. Without a terminal
or a notebook nothing is shown.

The logger `lapis` gets each stage at its end (INFO), with its figures. Warnings are logged where
they are issued (`errors.issue_warnings`). The package installs a `NullHandler` only.

Calls within calls show nothing of their own.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from lapis.errors import logger
from lapis.runtime.progress import Progress, Report, compilations

if TYPE_CHECKING:
    from rich.progress import TaskID

ProgressOption = Report | bool | None  # True: the display; a callback; None or False: nothing

DELAY = 1.0  # seconds before a display begins
SECONDS_BETWEEN_LINES = 0.3  # of a notebook
TEXT_WIDTH = 32  # columns of the text of an event: a formula, a file
BAR_WIDTH, CLOCK_WIDTH = 20, 9  # columns of the bar and of the elapsed time

is_shown: ContextVar[bool] = ContextVar("is_shown", default=False)  # by a call around this one


@contextmanager
def shown_progress(progress: ProgressOption, title: str) -> Iterator[Report | None]:
    """Show the progress of a block; yield the function that its stages call, or None.

    Parameters
    ----------
    progress
        True for the display and the log, a callback, or None or False for neither.
    title
        The name of the work, shown until its first stage.
    """
    if progress is not True:
        yield progress if callable(progress) else None
        return
    if is_shown.get():
        yield None
        return
    token = is_shown.set(True)
    try:
        with log_stages(title) as log, open_display(title) as show:
            reports = [report for report in (log, show) if report is not None]
            yield join_reports(reports) if reports else None
    finally:
        is_shown.reset(token)


def as_report(progress: ProgressOption) -> Report | None:
    """Return the callback of an option that `shown_progress` has replaced."""
    return progress if callable(progress) else None


def join_reports(reports: list[Report]) -> Report:
    if len(reports) == 1:
        return reports[0]

    def report_all(event: Progress) -> None:
        for report in reports:
            report(event)

    return report_all


@contextmanager
def log_stages(title: str) -> Iterator[Report | None]:
    """Yield a function that logs the last event of each stage, or None if INFO is not logged."""
    if not logger.isEnabledFor(logging.INFO):
        yield None
        return
    began = since = time.monotonic()
    last: Progress | None = None

    def end_stage() -> None:
        if last is not None:
            logger.info("%s: %s, %.2f s", title, describe_event(last), time.monotonic() - since)

    def log(event: Progress) -> None:
        nonlocal last, since
        if last is not None and last.phase != event.phase:
            end_stage()
            since = time.monotonic()
        last = event

    try:
        yield log
    finally:
        end_stage()
        logger.info("%s took %.2f s", title, time.monotonic() - began)


class Display(Protocol):
    """The lines of the stages, on a terminal or in a notebook."""

    def show(self, event: Progress) -> None: ...
    def close(self) -> None: ...


@contextmanager
def open_display(title: str) -> Iterator[Report | None]:
    """Show stages after `DELAY` seconds; yield None without a terminal and a notebook."""
    open_kind = display_kind()
    if open_kind is None:
        yield None
        return
    late = LateDisplay(open_kind, title)
    compilations.append(late.report)
    timer = threading.Timer(DELAY, late.open)
    timer.daemon = True
    timer.start()
    try:
        yield late.report
    finally:
        timer.cancel()
        compilations.remove(late.report)
        late.close()


def display_kind() -> Callable[[str], Display] | None:
    """Return the constructor of the display of this process, None if there is none."""
    if is_notebook():
        return NotebookLines
    return TerminalBars if sys.stderr is not None and sys.stderr.isatty() else None


def is_notebook() -> bool:
    """Return whether the process is the kernel of a notebook."""
    if "ipykernel" not in sys.modules:
        return False
    from IPython.core.getipython import get_ipython

    return hasattr(get_ipython(), "kernel")


class LateDisplay:
    """A display that opens with the first event after its delay, or by `open`."""

    def __init__(self, open_kind: Callable[[str], Display], title: str) -> None:
        self.open_kind, self.title = open_kind, title
        self.began, self.lock = time.monotonic(), threading.RLock()
        self.display: Display | None = None
        self.is_closed = False

    def open(self) -> None:
        with self.lock:
            if self.display is None and not self.is_closed:
                self.display = self.open_kind(self.title)

    def report(self, event: Progress) -> None:
        with self.lock:
            if self.display is None and time.monotonic() - self.began >= DELAY:
                self.open()
            if self.display is not None:
                self.display.show(event)

    def close(self) -> None:
        with self.lock:
            self.is_closed = True
            if self.display is not None:
                self.display.close()


class TerminalBars:
    """A bar for each stage on the error stream; removed at the end."""

    def __init__(self, title: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=BAR_WIDTH),
            TimeElapsedColumn(),
        )
        self.console = Console(stderr=True)
        self.bars = Bars(*columns, console=self.console, transient=True, redirect_stdout=False)
        self.tasks: dict[str, TaskID] = {}
        self.first: TaskID | None = self.bars.add_task(title, total=None)
        self.phase = ""
        self.bars.start()

    def show(self, event: Progress) -> None:
        if self.first is not None:
            self.bars.remove_task(self.first)
            self.first = None
        if self.phase != event.phase and self.phase:
            self.bars.stop_task(self.tasks[self.phase])
        if event.phase not in self.tasks:
            self.tasks[event.phase] = self.bars.add_task(event.phase, total=event.total)
        self.phase = event.phase
        text = shorten_text(describe_event(event), self.console.width - BAR_WIDTH - CLOCK_WIDTH)
        self.bars.update(
            self.tasks[event.phase], completed=event.done, total=event.total, description=text
        )

    def close(self) -> None:
        self.bars.stop()


class NotebookLines:
    """A line for each stage in an output of the notebook; removed at the end."""

    def __init__(self, title: str) -> None:
        from IPython import display

        self.lines: dict[str, str] = {}
        show: Any = display.display
        self.handle = show(as_mime(f"{title} …"), raw=True, display_id=True)
        self.updated = 0.0

    def show(self, event: Progress) -> None:
        line = f"{describe_event(event)}, {event.seconds:.0f} s"
        is_new = event.phase not in self.lines
        self.lines[event.phase] = line
        if is_new or time.monotonic() - self.updated >= SECONDS_BETWEEN_LINES:
            self.updated = time.monotonic()
            self.handle.update(as_mime("\n".join(self.lines.values())), raw=True)

    def close(self) -> None:
        self.handle.update(as_mime(""), raw=True)


def as_mime(text: str) -> dict[str, str]:
    return {"text/plain": text}


def describe_event(event: Progress) -> str:
    """Return an event as a line: its phase, progress, figures and text."""
    from lapis.runtime.views import escape

    text = escape(" ".join(event.text.split()), "terminal")
    shown = shorten_text(text, TEXT_WIDTH)
    return f"{event}: {shown}" if shown else str(event)


def shorten_text(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(1, width) - 1]}…"
