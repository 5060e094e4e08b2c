"""The limits of a call end work that does not check them, and nothing else."""

from __future__ import annotations

import math
import signal
import threading
import time

import numpy as np
import pytest

from lapis.errors import TooLarge
from lapis.runtime import limits
from lapis.runtime.limits import limit_work, limits_suspended, resident_bytes
from lapis.runtime.progress import (
    STOPPED,
    Stop,
    call_deadline,
    check_time,
    deadline_in,
    seconds_left,
    work_clock,
)


def spin(seconds: float = 30.0) -> None:
    """Work that checks nothing."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(100))


def test_work_without_checks_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GRACE_SECONDS", 0.0)
    message = "did not end within the time limit"
    with pytest.raises(TooLarge, match=message) as found, limit_work(0.05):
        spin()
    assert found.value.code == STOPPED


def test_waiting_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GRACE_SECONDS", 0.0)
    with pytest.raises(TooLarge), limit_work(0.05):
        threading.Event().wait(30)


def test_an_error_that_is_lost_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(limits, "SECONDS_BETWEEN_SIGNALS", 0.05)
    lost = []

    def lose_an_error() -> None:
        try:
            spin()
        except TooLarge:
            lost.append(True)
        spin()

    with pytest.raises(TooLarge), limit_work(0.05):
        lose_an_error()
    assert lost == [True]


def test_memory_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MIN_GROWTH", 1 << 24)
    kept = []

    def keep_arrays() -> None:
        for _ in range(1000):
            kept.append(np.ones(1 << 20))
            spin(0.01)

    message = r"more memory than the limit of 1\.0 MB"
    with pytest.raises(TooLarge, match=message) as found, limit_work(max_memory=1_000_000):
        keep_arrays()
    assert found.value.code == "memory"
    assert len(kept) < 100
    assert resident_bytes() > 0


def test_limits_within_limits_end_with_the_outer_ones() -> None:
    with limit_work(100):
        outer = call_deadline.get()
        with limit_work(1000):
            assert call_deadline.get() == outer
        with limit_work(10):
            assert call_deadline.get() < outer
            assert 9 < seconds_left() <= 10
            assert Stop().deadline == call_deadline.get() == deadline_in(50)
        assert call_deadline.get() == outer
    assert call_deadline.get() == math.inf
    check_time("anything")


def test_stages_check_the_deadline_of_the_call() -> None:
    with limit_work(1e-9):
        while seconds_left() > 0:
            pass
        with pytest.raises(TooLarge, match=r"^grounding did not end within the time limit"):
            check_time("grounding")
        assert Stop().is_over()
        assert Stop(deadline=work_clock() + 100).is_over()


def test_nothing_is_left_of_the_limits() -> None:
    before, threads = signal.getsignal(limits.SIGNAL), threading.active_count()
    with limit_work(5):
        pass
    assert signal.getsignal(limits.SIGNAL) is before
    assert threading.active_count() == threads
    assert limits.LimitWatch.active is None


def test_a_handler_of_the_user_still_gets_its_signal() -> None:
    received = []
    before = signal.signal(limits.SIGNAL, lambda *_: received.append(True))
    try:
        with limit_work(5):
            signal.raise_signal(limits.SIGNAL)
    finally:
        signal.signal(limits.SIGNAL, before)
    assert received == [True]


def test_writing_a_result_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "GRACE_SECONDS", 0.0)
    with limit_work(0.01), limits_suspended():
        spin(0.2)


def test_another_thread_has_the_checks_alone() -> None:
    found: list[TooLarge] = []

    def work() -> None:
        try:
            with limit_work(1e-9):
                while True:
                    check_time("counting")
        except TooLarge as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert [error.code for error in found] == [STOPPED]
