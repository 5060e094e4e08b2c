"""Progress events and cooperative cancellation of long stages.

A stage passes `Progress` events to a callback and checks a `Stop`. Ctrl-C, the `stop` argument of
the API (a callable or a `threading.Event`) and a deadline all set the same `Stop`. A request to
stop is never withdrawn, and the result is marked `interrupted`. A stage without partial results
calls `check_time` instead, which raises once the deadline of the whole call has passed
(`limits.py`).

>>> answers = iter([False, True, False])
>>> stop = Stop(lambda: next(answers))
>>> stop(), stop(), stop()
(False, True, True)
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lapis.errors import TooLarge

if TYPE_CHECKING:
    import numpy as np


SMALL_WORK = 0.25  # seconds that stages without partial results may take after the deadline
SECONDS_LEFT = "seconds left"  # the figure for the expected time to the requested precision


@dataclass(frozen=True, slots=True)
class Progress:
    """One progress event of a stage.

    >>> print(Progress("sampling", 200, 1000, 0.5, {"seconds left": 12345.6, "rhat": 1.02}))
    sampling 200/1,000, about 12,346 s left, rhat 1.02
    """

    phase: str  # reading, grounding, counting, warm-up, sampling, searching, proving, learning, …
    done: int
    total: int | None = None  # None: not known
    seconds: float = 0.0  # since the stage began
    figures: Mapping[str, float] = field(default_factory=dict)  # rhat, stderr, value, gap, …
    text: str = ""  # the formula or data file under work
    weights: np.ndarray | None = None  # float64[num_parameters], learned so far

    def __str__(self) -> str:
        total = "" if self.total is None else f"/{self.total:,}"
        done = f" {self.done:,}{total}" if self.done or total else ""
        figures = [format_progress_figure(name, value) for name, value in self.figures.items()]
        return ", ".join(filter(None, [f"{self.phase}{done}", *figures]))


def format_progress_figure(name: str, value: float) -> str:
    """Format a figure; a remaining time that is over or infinite gives no text."""
    if name != SECONDS_LEFT:
        return f"{name} {value:.4g}"
    return f"about {max(value, 1):,.0f} s left" if 0 < value < math.inf else ""


def report_progress(report: Report | None, event: Progress) -> None:
    """Call `report` if it is not None."""
    if report is not None:
        report(event)


STOPPED = "stopped"  # the code of the errors of `Stop.check` and `check_time`
Report = Callable[[Progress], None]
StopCallback = Callable[[], bool]

# Called for every kernel that is compiled, not for kernels loaded from disk (`kernels.py`).
compilations: list[Report] = []


class WorkClock:
    """A monotonic clock that is paused while kernels are compiled.

    All time limits use it, so that a limit of ten seconds gives ten seconds of search in a first
    run too.

    >>> clock = WorkClock()
    >>> with clock.paused():
    ...     clock() == clock()
    True
    """

    def __init__(self) -> None:
        self.lock, self.pauses = threading.RLock(), 0  # pauses in any thread
        self.paused_at, self.lost = 0.0, 0.0

    def __call__(self) -> float:
        with self.lock:
            return (self.paused_at if self.pauses else time.monotonic()) - self.lost

    def pause(self) -> None:
        with self.lock:
            if self.pauses == 0:
                self.paused_at = time.monotonic()
            self.pauses += 1

    def resume(self) -> None:
        with self.lock:
            self.pauses -= 1
            if self.pauses == 0:
                self.lost += time.monotonic() - self.paused_at

    @contextmanager
    def paused(self) -> Iterator[None]:
        self.pause()
        try:
            yield
        finally:
            self.resume()


work_clock = WorkClock()

# When the call that this thread works for must end, on the work clock. `limits.py` sets it.
call_deadline: ContextVar[float] = ContextVar("call_deadline", default=math.inf)


def deadline_in(seconds: float | None) -> float:
    """Return the deadline of a stage of `seconds` from now, within that of the whole call."""
    own = math.inf if seconds is None else work_clock() + seconds
    return min(own, call_deadline.get())


def seconds_left() -> float:
    """Return the seconds until the deadline of the whole call: 0 once it has passed."""
    return max(0.0, call_deadline.get() - work_clock())


def limit_within_call(seconds: float | None) -> float | None:
    """Return the time limit of a stage that starts now, within the call's; None if none is set."""
    left = seconds_left()
    return min(left, math.inf if seconds is None else seconds) if left < math.inf else seconds


def check_time(work: str) -> None:
    """Raise TooLarge if the deadline of the whole call has passed, in work without partial results.

    Small work is not refused: it has a quarter of a second more.

    Parameters
    ----------
    work
        The name of the stage, as the subject of the message: "grounding".
    """
    if work_clock() > call_deadline.get() + SMALL_WORK:
        raise out_of_time(work)


def out_of_time(work: str, why: str = "did not end within the time limit") -> TooLarge:
    return TooLarge(
        f"{work} {why}, and it has no partial result",
        code=STOPPED,
        hint="allow more time, or use method 'auto'",
    )


class Stop:
    """A request to stop: from a callback, by `request` (Ctrl-C), or at a deadline."""

    def __init__(
        self, callback: StopCallback | threading.Event | None = None, deadline: float = math.inf
    ) -> None:
        if isinstance(callback, threading.Event):
            callback = callback.is_set
        self.callback = callback
        self.deadline = min(deadline, call_deadline.get())  # of the work clock
        self.requested = False
        self.whole: Stop | None = None  # of which this is a stage
        self.is_cut = False  # whether a stage of it ended at the stage's own deadline

    def request(self) -> None:
        self.requested = True

    def __call__(self) -> bool:
        """Return whether a stop was requested."""
        if not self.requested and self.callback is not None and self.callback():
            self.requested = True
        return self.requested

    def within(self, seconds: float) -> Stop:
        """Return a Stop that is requested with this one and ends `seconds` from now."""
        stage = Stop(self, min(self.deadline, work_clock() + seconds))
        stage.whole = self
        return stage

    def seconds_left(self) -> float:
        """Return the seconds until the deadline: 0 once it has passed."""
        return max(0.0, self.deadline - work_clock())

    def is_over(self) -> bool:
        """Return whether a stop was requested or the deadline has passed."""
        if self():
            return True
        if work_clock() <= self.deadline:
            return False
        self.cut()
        return True

    def cut(self) -> None:
        """Record in all stages around this one that its time was too short."""
        if self.whole is not None:
            self.whole.is_cut = True
            self.whole.cut()

    def check(self, work: str) -> None:
        """Raise TooLarge if it is over, in work without partial results that is not small."""
        if self() or work_clock() > self.deadline + SMALL_WORK:
            raise out_of_time(work, "was stopped") if self.requested else out_of_time(work)


@contextmanager
def stop_on_interrupt(stop: Stop) -> Iterator[None]:
    """Turn Ctrl-C into a request: the work ends at its next check, with what it has."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: stop.request())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
