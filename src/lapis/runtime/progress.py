"""How far the work is, and the wish to end it: one event and one object for every long stage.

A stage tells `Progress` events to a callback and asks a `Stop` whether to go on. Ctrl-C, the
`stop` argument of the API (a callable or a `threading.Event`) and a deadline all end up in the
same `Stop`; once wanted, it stays so, and the result says `interrupted`.

>>> wishes = iter([False, True, False])
>>> stop = Stop(lambda: next(wishes))
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
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lapis.errors import TooLarge

if TYPE_CHECKING:
    import numpy as np


SECONDS_LEFT = "seconds left"  # a figure: expected until the precision asked is reached


@dataclass(frozen=True, slots=True)
class Progress:
    """One look at work under way.

    >>> print(Progress("sampling", 200, 1000, 0.5, {"seconds left": 12345.6, "rhat": 1.02}))
    sampling 200/1,000, about 12,346 s left, rhat 1.02
    """

    phase: str  # reading, grounding, counting, warm-up, sampling, searching, proving, learning, …
    done: int
    total: int | None = None  # None: not known
    seconds: float = 0.0  # since the stage began
    figures: Mapping[str, float] = field(default_factory=dict)  # rhat, stderr, value, gap, …
    text: str = ""  # what is being done, in the user's words: a formula, a data file
    weights: np.ndarray | None = None  # float64[num_parameters], learned so far

    def __str__(self) -> str:
        total = "" if self.total is None else f"/{self.total:,}"
        figures = [describe_figure(name, value) for name, value in self.figures.items()]
        return ", ".join(filter(None, [f"{self.phase} {self.done:,}{total}", *figures]))


def describe_figure(name: str, value: float) -> str:
    """In a line of progress; nothing of a time that is over or not known."""
    if name != SECONDS_LEFT:
        return f"{name} {value:.4g}"
    return f"about {max(value, 1):,.0f} s left" if 0 < value < math.inf else ""


def tell(report: Report | None, event: Progress) -> None:
    """Tell who listens, if anybody does."""
    if report is not None:
        report(event)


STOPPED = "stopped"  # the code of the error that `Stop.check` raises
Report = Callable[[Progress], None]
StopCallback = Callable[[], bool]

# Called for every kernel that is compiled, not for those kept on disk (`runtime/kernels.py`).
compilations: list[Report] = []


class WorkClock:
    """Seconds as of time.monotonic, which stand still while kernels are compiled.

    Every limit of time is read off it: what a first run compiles is work for later ones too, and
    who asks for ten seconds of search is to get them.

    >>> clock = WorkClock()
    >>> with clock.paused():
    ...     clock() == clock()
    True
    """

    def __init__(self) -> None:
        self.lock, self.pauses = threading.RLock(), 0  # under way, in any thread
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


class Stop:
    """Whether to end: a wish from outside, Ctrl-C (`press`), or a deadline of the work clock."""

    def __init__(
        self, wish: StopCallback | threading.Event | None = None, deadline: float = math.inf
    ) -> None:
        self.wish: StopCallback | None = wish if wish is None or callable(wish) else wish.is_set
        self.deadline = deadline
        self.pressed = False

    def press(self) -> None:
        self.pressed = True

    def __call__(self) -> bool:
        """Whether the user wants to stop."""
        if not self.pressed and self.wish is not None and self.wish():
            self.pressed = True
        return self.pressed

    def within(self, seconds: float) -> Stop:
        """The same wish, and a deadline of its own so long from now."""
        return Stop(self, work_clock() + seconds)

    def is_over(self) -> bool:
        """Whether the user wants to stop or the time is up."""
        return self() or work_clock() > self.deadline

    def check(self, work: str) -> None:
        """End work that has no result before it is done: TooLarge (`stopped`) if it is over."""
        if self.is_over():
            why = "was stopped" if self.pressed else "did not end within the time limit"
            raise TooLarge(
                f"{work} {why}: it has no answer before it is done",
                code=STOPPED,
                hint="give it more time, or leave the choice of a method to 'auto'",
            )


@contextmanager
def pressed_by_interrupt(stop: Stop) -> Iterator[None]:
    """Ctrl-C presses the stop: the work ends where it asks, with what it has."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: stop.press())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
