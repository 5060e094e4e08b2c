"""Ctrl-C during a long call into a library: the library is told at once, by another thread.

Python's handlers of signals run in the main thread, between its instructions. While that is inside
a library they wait, unless the library looks for signals itself; DuckDB does so between pieces of
work, but the main thread may have taken a piece of minutes. What does not wait is the byte that
the signal writes into a file (`signal.set_wakeup_fd`): a thread reads it and interrupts the call.

A thread for each statement, with the main thread only waiting, did the same and cost a millisecond
of processors and four of waiting each; this costs nothing that can be measured.
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable
from typing import TypeVar

Done = TypeVar("Done")

PAUSE = 0.05  # seconds between interruptions: one that comes before the work is lost


class Interrupter:
    """Makes calls that Ctrl-C ends; `close` ends its thread."""

    def __init__(self) -> None:
        self._told, self._signals = socket.socketpair()
        self._signals.setblocking(False)
        self._lock = threading.Lock()  # so that no later call is interrupted
        self._interrupt: Callable[[], None] | None = None  # of the call under way
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def call(self, work: Callable[[], Done], interrupt: Callable[[], None]) -> Done:
        """Do the work, or interrupt it where Ctrl-C would end the program.

        Other threads never hear Ctrl-C; and who handles it otherwise wants the work done.
        """
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            return work()
        before = -1
        try:
            before = signal.set_wakeup_fd(self._signals.fileno(), warn_on_full_buffer=False)
            self._interrupt = interrupt
            return work()
        finally:
            try:
                signal.set_wakeup_fd(before)
            finally:  # the handler may run between the two
                with self._lock:
                    self._interrupt = None

    def close(self) -> None:
        self._interrupt = None
        self._closed.set()
        self._signals.close()
        self._thread.join(1.0)

    def _watch(self) -> None:
        with self._told:
            while heard := self._told.recv(256):
                under_way = self._interrupt
                while signal.SIGINT in heard and self._tell(under_way):
                    self._closed.wait(PAUSE)

    def _tell(self, under_way: Callable[[], None] | None) -> bool:
        """Interrupt a call, if it is still under way."""
        with self._lock:
            if under_way is None or self._interrupt is not under_way:
                return False
            under_way()
            return True
