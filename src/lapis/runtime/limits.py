"""The time and memory limits of a call: one clock from its first stage to its last.

`limit_work` opens the limits of a call. Commands open them before they read the first file,
functions of the API when they are called. Limits within limits end with the outer ones.

Every stage checks the deadline itself: by its `Stop` if it has partial results, by `check_time`
(`progress.py`) if it has none. A stage that does not check in time is ended all the same. A thread
watches the clock and the memory of the process and sends the main thread a signal, whose handler
raises `LimitExceeded`. It is a `KeyboardInterrupt`: no `except` for errors catches it, and stages
that keep partial results on Ctrl-C keep them here too. Where the call ends it becomes `TooLarge`.
The signal comes after a grace, so that stages with partial results can finish them. A call in
another thread than the main one has only the checks of the stages. The memory is watched on Linux
only.
"""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from lapis.errors import TooLarge
from lapis.runtime.progress import STOPPED, call_deadline, deadline_in, out_of_time, work_clock

SHARE_OF_MACHINE = 0.7  # of the memory, if no limit is given
SECONDS_BETWEEN_CHECKS = 0.05
SECONDS_BETWEEN_ERRORS = 1.0  # an exception may be lost, in a destructor for example
GRACE_SECONDS, GRACE_SHARE = 0.5, 0.02  # after the time limit, before the signal
MIN_GROWTH = 1 << 28  # bytes that a call may always take: modules and kernels are loaded
LOADERS = ("importlib._bootstrap", "numba.core")  # their frames show what is being loaded
CONTEXTS = (__name__, "contextlib")
MEMORY = "memory"  # the code of the error
TIME = "time limit"  # the reason of an interrupt
SIGNAL = getattr(signal, "SIGVTALRM", None)  # hardly used otherwise; None on Windows


@contextmanager
def limit_work(time_limit: float | None = None, max_memory: int | None = None) -> Iterator[None]:
    """Limit the time and the memory of a block.

    Parameters
    ----------
    time_limit
        Seconds from now; None: no limit.
    max_memory
        Bytes of the whole process; None: 70 % of the machine. A block may always take 256 MiB more
        than the process has at its start.
    """
    token = call_deadline.set(deadline_in(time_limit))
    try:
        with watched(time_limit, memory_limit(max_memory)):
            yield
    finally:
        call_deadline.reset(token)


def machine_memory() -> int:
    """Return the bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def memory_limit(max_memory: int | None) -> int:
    """Return the limit, or its default: 70 % of the machine."""
    return int(SHARE_OF_MACHINE * machine_memory()) if max_memory is None else max_memory


def resident_bytes() -> int:
    """Return the bytes of this process in memory; 0 where the system does not show them."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def format_bytes(count: float) -> str:
    """Format a number of bytes: "1.5 GB"."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            break
        count /= 1000
    return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.1f} {unit}"


class LimitExceeded(KeyboardInterrupt):
    """Ends work that did not check the limits of its call."""

    def __init__(self, reason: str = TIME) -> None:
        super().__init__(reason)
        self.reason = reason


def interruption_reason(interrupt: KeyboardInterrupt, on_ctrl_c: str) -> str:
    """Return why work was interrupted: a limit of its call, or Ctrl-C."""
    return interrupt.reason if isinstance(interrupt, LimitExceeded) else on_ctrl_c


class LimitWatch:
    """The thread that watches the limits of a call in the main thread."""

    active: LimitWatch | None = None  # of the outermost call

    def __init__(self, time_limit: float | None, max_memory: int) -> None:
        self.time_limit, self.max_memory = time_limit, max_memory
        self.deadline = math.inf
        if time_limit is not None:
            self.deadline = work_clock() + GRACE_SECONDS + (1 + GRACE_SHARE) * time_limit
        self.max_resident = max(max_memory, resident_bytes() + MIN_GROWTH)
        self.suspended = False
        self.raised_at = -math.inf  # when an exception was raised, on the work clock
        self.error: TooLarge | None = None  # what it becomes where the call ends
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.watch, name="lapis-limits", daemon=True)

    def watch(self) -> None:
        """Send the signal while a limit is exceeded, until the call has ended."""
        main = threading.main_thread().ident
        assert SIGNAL is not None
        assert main is not None
        while not self.ended.wait(SECONDS_BETWEEN_CHECKS):
            if self.find_exceeded() is not None and not self.ended.is_set():
                signal.pthread_kill(main, SIGNAL)

    def interrupt(self, frame: FrameType | None) -> None:
        """Raise `LimitExceeded` in the main thread, unless the work must not be cut there."""
        error, now = self.find_exceeded(), work_clock()
        if error is None or now < self.raised_at + SECONDS_BETWEEN_ERRORS or not is_cuttable(frame):
            return
        self.raised_at, self.error = now, error
        raise LimitExceeded("memory limit" if error.code == MEMORY else TIME)

    def find_exceeded(self) -> TooLarge | None:
        """Return the error about the limit that is exceeded; None if none is."""
        if self.suspended:
            return None
        if work_clock() > self.deadline:
            return out_of_time("the work")
        if resident_bytes() > self.max_resident:
            limit = format_bytes(self.max_memory)
            return TooLarge(
                f"the work needs more memory than the limit of {limit}",
                code=MEMORY,
                hint="raise --max-memory, query fewer predicates, or give more evidence",
            )
        return None


def is_cuttable(frame: FrameType | None) -> bool:
    """Return whether work may end here.

    Modules and kernels that are cut while they load are broken in later calls. A context that is
    cut while it begins or ends is not closed.
    """
    if frame is not None and frame.f_globals.get("__name__") in CONTEXTS:
        return False
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(LOADERS):
            return False
        frame = frame.f_back
    return True


@contextmanager
def watched(time_limit: float | None, max_memory: int) -> Iterator[None]:
    """Watch the limits of the outermost call in the main thread."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or SIGNAL is None or LimitWatch.active is not None:
        yield
        return
    watch = LimitWatch(time_limit, max_memory)

    def raise_exceeded(number: int, frame: FrameType | None) -> None:
        watch.interrupt(frame)
        if callable(before):
            before(number, frame)

    before = signal.signal(SIGNAL, raise_exceeded)
    LimitWatch.active = watch
    watch.thread.start()
    try:
        yield
    except TooLarge:
        raise
    except BaseException:  # libraries replace the exception: numba, DuckDB
        if watch.error is None:
            raise
        raise watch.error from None
    finally:
        watch.ended.set()
        watch.thread.join()
        LimitWatch.active = None
        signal.signal(SIGNAL, before)


@contextmanager
def limit_stage(deadline: float) -> Iterator[None]:
    """Limit a block within a call: checks of time raise at the deadline, the signal after a grace.

    The caller catches what is raised, and continues the call.

    Parameters
    ----------
    deadline
        When the block must end, on the work clock; infinite for no limit.
    """
    token = call_deadline.set(min(deadline, call_deadline.get()))
    is_main = threading.current_thread() is threading.main_thread()
    watch = LimitWatch.active if is_main else None
    before = math.inf if watch is None else watch.deadline
    try:
        if watch is not None:
            watch.deadline = min(before, deadline + GRACE_SECONDS)
        yield
    finally:
        if watch is not None:
            watch.deadline = before
        call_deadline.reset(token)


def is_time_limit(error: BaseException) -> bool:
    """Return whether an error is the end of the time of a stage or of its call."""
    if isinstance(error, TooLarge):
        return error.code == STOPPED
    return isinstance(error, LimitExceeded) and error.reason == TIME


@contextmanager
def limits_suspended() -> Iterator[None]:
    """Suspend the limits in a block that must not be cut: making and writing a result."""
    token = call_deadline.set(math.inf)
    watch = LimitWatch.active
    before = watch is not None and watch.suspended
    try:
        if watch is not None:
            watch.suspended = True
        yield
    finally:
        if watch is not None:
            watch.suspended = before
        call_deadline.reset(token)
